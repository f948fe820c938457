//! The grammar of one sentence.

use palisade_model::Verdict;

use super::member::{self, Role};
use super::{Claim, Group, Member, Part, Ports, ports};

/// What is wrong with a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    /// The word at fault; empty when it is the sentence as a whole.
    pub(super) word: String,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

impl Wrong {
    pub(super) fn new(word: &str, message: impl Into<String>) -> Wrong {
        Wrong { word: word.to_owned(), message: message.into(), help: None }
    }

    pub(super) fn help(self, help: impl Into<String>) -> Wrong {
        Wrong { help: Some(help.into()), ..self }
    }
}

type Words<'w> = &'w [&'w str];

const FORMS: &str = "write `FROM -> TO tcp/80 allowed` (or `denied`), `nothing [outside SET] reaches TO`, `only SET reaches TO`, \
                     `everything reaches TO`, `nothing leaves FROM [except to SET]`, `FROM reaches only SET` or `FROM reaches everything`";

/// Reads one sentence.
pub(super) fn read(text: &str) -> Result<Claim, Wrong> {
    let spaced = text.replace('→', "->").replace("->", " -> ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    if let Some((from, rest)) = cut(&words, "->") {
        return arrow(from, rest);
    }
    match words.as_slice() {
        [] => Err(Wrong::new("", "the sentence is empty").help(FORMS)),
        [first, rest @ ..] if is(first, "nothing") => nothing(first, rest),
        [first, rest @ ..] if is(first, "only") => only(first, rest),
        [first, verb, rest @ ..] if is(first, "everything") && is(verb, "reaches") => {
            let (to, ports) = target(verb, rest)?;
            Ok(one(Group::AllBut(Vec::new()), Group::Of(to), ports, Verdict::Accept))
        }
        words => reaches(words),
    }
}

fn one(from: Group, to: Group, ports: Ports, wanted: Verdict) -> Claim {
    Claim { parts: vec![Part { from, to, ports, wanted }] }
}

/// `FROM -> TO [PORTS] allowed|denied`.
fn arrow(from: Words<'_>, rest: Words<'_>) -> Result<Claim, Wrong> {
    let from = members("->", from, Role::From)?;
    let Some((last, to)) = rest.split_last() else { return Err(Wrong::new("->", "nothing follows the arrow").help(FORMS)) };
    let wanted = match last.to_ascii_lowercase().as_str() {
        "allowed" => Verdict::Accept,
        "denied" => Verdict::Deny,
        _ => return Err(Wrong::new(last, format!("`{last}` stands where `allowed` or `denied` must end the sentence"))),
    };
    let (to, ports) = target(last, to)?;
    Ok(one(Group::Of(from), Group::Of(to), ports, wanted))
}

/// `nothing [outside SET] reaches TO [PORTS]`, `nothing leaves FROM [PORTS] [except to SET]`.
fn nothing(first: &str, rest: Words<'_>) -> Result<Claim, Wrong> {
    match rest {
        [verb, rest @ ..] if is(verb, "reaches") => {
            let (to, ports) = target(verb, rest)?;
            Ok(one(Group::AllBut(Vec::new()), Group::Of(to), ports, Verdict::Deny))
        }
        [verb, rest @ ..] if is(verb, "outside") => {
            let Some((set, rest)) = cut(rest, "reaches") else { return Err(no_verb(verb)) };
            let set = members(verb, set, Role::FromSet)?;
            let (to, ports) = target("reaches", rest)?;
            Ok(one(Group::AllBut(set), Group::Of(to), ports, Verdict::Deny))
        }
        [verb, rest @ ..] if is(verb, "leaves") => leaves(verb, rest),
        [word, ..] => {
            Err(Wrong::new(word, format!("`{word}` cannot follow `{first}`; expected `reaches`, `outside` or `leaves`")).help(FORMS))
        }
        [] => Err(no_verb(first)),
    }
}

fn leaves(verb: &str, rest: Words<'_>) -> Result<Claim, Wrong> {
    let (from, except) = match cut(rest, "except") {
        None => (rest, Vec::new()),
        Some((from, [to, set @ ..])) if is(to, "to") => {
            if let (_, [port, ..]) = split_ports(set) {
                let wrong = Wrong::new(port, format!("`{port}` cannot limit an exception"));
                return Err(
                    wrong.help("ports stand before `except`; what may go to an exception is another sentence: FROM -> TO tcp/80 allowed")
                );
            }
            (from, members("to", set, Role::ToSet)?)
        }
        Some(_) => return Err(Wrong::new("except", "`to` must follow `except`")),
    };
    let (from, port_words) = split_ports(from);
    let from = members(verb, from, Role::From)?;
    Ok(one(Group::Of(from), Group::AllBut(except), ports::read(port_words)?, Verdict::Deny))
}

/// `only SET reaches TO [PORTS]`.
fn only(first: &str, rest: Words<'_>) -> Result<Claim, Wrong> {
    let Some((set, rest)) = cut(rest, "reaches") else { return Err(no_verb(first)) };
    let set = members(first, set, Role::FromSet)?;
    let (to, ports) = target("reaches", rest)?;
    let part = |from, wanted| Part { from, to: Group::Of(to.clone()), ports: ports.clone(), wanted };
    Ok(Claim { parts: vec![part(Group::Of(set.clone()), Verdict::Accept), part(Group::AllBut(set), Verdict::Deny)] })
}

/// `FROM reaches only SET [PORTS]`, `FROM reaches everything [PORTS]`.
fn reaches(words: Words<'_>) -> Result<Claim, Wrong> {
    let Some((from, rest)) = cut(words, "reaches") else {
        return Err(Wrong::new("", "this is no sentence that can be tested").help(FORMS));
    };
    let from = members("reaches", from, Role::From)?;
    match rest {
        [word, rest @ ..] if is(word, "everything") => {
            Ok(one(Group::Of(from), Group::AllBut(Vec::new()), ports::read(rest)?, Verdict::Accept))
        }
        [word, rest @ ..] if is(word, "only") => {
            let (set, port_words) = split_ports(rest);
            let (set, ports) = (members(word, set, Role::ToSet)?, ports::read(port_words)?);
            let part = |to, wanted| Part { from: Group::Of(from.clone()), to, ports: ports.clone(), wanted };
            Ok(Claim { parts: vec![part(Group::Of(set.clone()), Verdict::Accept), part(Group::AllBut(set), Verdict::Deny)] })
        }
        [word, ..] if is(word, "nothing") => Err(Wrong::new(word, "`reaches nothing` is not a form").help("write `nothing leaves FROM`")),
        [word, ..] => Err(Wrong::new(word, format!("`{word}` cannot follow `reaches`; expected `only` or `everything`")).help(FORMS)),
        [] => Err(Wrong::new("reaches", "nothing follows `reaches`").help(FORMS)),
    }
}

/// A destination and its ports: `shop/db`, `shop/db:5432`, `shop/db tcp/5432`.
fn target(after: &str, words: Words<'_>) -> Result<(Vec<Member>, Ports), Wrong> {
    let (names, port_words) = split_ports(words);
    if let [name] = names
        && let Some((name, port)) = member::with_port(name)
    {
        if let [twice, ..] = port_words {
            return Err(Wrong::new(twice, format!("the port is said twice: `:{port}` and `{twice}`")));
        }
        return Ok((vec![member::read(name, Role::To)?], Ports::Of(vec![ports::of_tcp(port)?])));
    }
    Ok((members(after, names, Role::To)?, ports::read(port_words)?))
}

/// Members are separated by commas. A comma in labels has no space behind it: `shop/app=web,tier=front`.
fn members(after: &str, words: Words<'_>, role: Role) -> Result<Vec<Member>, Wrong> {
    let text = words.join(" ");
    let mut items: Vec<String> = Vec::new();
    for piece in text.split(',') {
        match items.last_mut() {
            Some(labels) if labels.contains('=') && piece.contains('=') && !piece.starts_with(' ') => {
                labels.push(',');
                labels.push_str(piece);
            }
            Some(_) | None => items.push(piece.to_owned()),
        }
    }
    items.iter().map(|item| one_member(after, item.trim(), role)).collect()
}

fn one_member(after: &str, item: &str, role: Role) -> Result<Member, Wrong> {
    match item.split_once(' ') {
        None if item.is_empty() => Err(Wrong::new(after, format!("a name is missing next to `{after}`"))),
        None => member::read(item, role),
        Some((_, rest)) => {
            let word = rest.split(' ').next().unwrap_or(rest);
            let help = match word.to_ascii_lowercase().as_str() {
                "allowed" | "denied" => "a sentence without an arrow says by itself what is allowed and what is denied",
                _ => "names are separated by commas, and ports come last, as in tcp/80",
            };
            Err(Wrong::new(word, format!("`{word}` is out of place")).help(help))
        }
    }
}

/// The words before the ports, and the ports.
fn split_ports<'w>(words: Words<'w>) -> (Words<'w>, Words<'w>) {
    let begins = |pair: &[&str]| matches!(pair, [before, word] if !before.ends_with(',') && ports::begins(word));
    match words.windows(2).position(begins) {
        Some(before) => words.split_at(before + 1),
        None => (words, &[]),
    }
}

fn cut<'w>(words: Words<'w>, keyword: &str) -> Option<(Words<'w>, Words<'w>)> {
    let at = words.iter().position(|word| is(word, keyword))?;
    Some((words.get(..at)?, words.get(at + 1..)?))
}

fn is(word: &str, keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword)
}

fn no_verb(word: &str) -> Wrong {
    Wrong::new(word, format!("`reaches` is missing after `{word}`")).help(FORMS)
}
