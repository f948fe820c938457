//! A matrix for people: under each destination one line for each sort of connection, with all who have it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_analysis::matrix::{Matrix, Name, Row};
use palisade_engine::{PortSetId, PortSets};

use crate::matrix::Words;
use crate::text::{BOLD, DIM, painted};

/// What is known of all names, so that many can be said in few words.
#[derive(Debug)]
pub(crate) struct Crowd<'m> {
    /// The units of each namespace, in order.
    namespaces: BTreeMap<&'m str, Vec<&'m str>>,
    units: usize,
    /// Names without their kinds that two units have.
    shared: BTreeSet<&'m str>,
}

/// Rows of one destination so far, and the destinations before it in its namespace.
#[derive(Debug)]
pub(crate) struct Group<'m> {
    crowd: Crowd<'m>,
    words: Words,
    to: Option<Name<'m>>,
    /// By what passes.
    lines: BTreeMap<String, Vec<Name<'m>>>,
    /// Destinations of one namespace by what is said of them, in the order they came.
    said: Vec<(String, Vec<Name<'m>>)>,
    size: usize,
}

/// How much is said of one namespace before some of it is let go.
const KEPT: usize = 1 << 22;

impl<'m> Group<'m> {
    /// Ready for the rows of a matrix, ordered by destination.
    pub(crate) fn new(matrix: &'m Matrix) -> Group<'m> {
        let crowd = Crowd::of(matrix.names());
        Group { crowd, words: Words::default(), to: None, lines: BTreeMap::new(), said: Vec::new(), size: 0 }
    }

    /// Takes a row; the text of destinations before it, if those of a namespace are complete.
    pub(crate) fn add(&mut self, sets: &PortSets, row: &Row<'m>) -> Option<String> {
        let mut text = None;
        if self.to != Some(row.to) {
            let goes_on = self.to.is_some_and(|it| namespace(it) == namespace(row.to));
            self.end_destination();
            text = (!goes_on || self.size > KEPT).then(|| self.let_go());
        }
        self.to = Some(row.to);
        let mut line = self.words.of(sets, row).to_owned();
        line.extend(row.family.map(|it| format!(" ({it})")));
        if row.only_some != PortSetId::NONE {
            line.push_str(" (some pods)");
        }
        self.lines.entry(line).or_default().push(row.from);
        text
    }

    /// The text of the last destinations.
    pub(crate) fn finish(&mut self) -> String {
        self.end_destination();
        self.let_go()
    }

    fn end_destination(&mut self) {
        let Some(to) = self.to.take() else { return };
        let lines = std::mem::take(&mut self.lines);
        let width = lines.keys().map(|it| it.chars().count()).max().unwrap_or(0).min(40);
        let mut out = String::new();
        for (words, peers) in lines {
            let head = format!("  {words:<width$}  {} ", painted(DIM, "from"));
            out.push_str(&head);
            out.push_str(&wrapped(&self.crowd.said(&peers, to), width + 9));
        }
        match self.said.iter_mut().find(|it| it.0 == out) {
            Some(known) => known.1.push(to),
            None => {
                self.size += out.len();
                self.said.push((out, vec![to]));
            }
        }
    }

    fn let_go(&mut self) -> String {
        self.size = 0;
        let mut out = String::new();
        for (text, all) in std::mem::take(&mut self.said) {
            let heading = match all.as_slice() {
                [Name::Unit { name, .. }] => (*name).to_owned(),
                [Name::Range { first, last }] => range(*first, *last),
                many => wrapped(&self.crowd.listed(many), 5).trim_end().to_owned(),
            };
            out.push_str(&format!("{}\n{text}", painted(BOLD, &format!("to {heading}"))));
        }
        out
    }
}

fn namespace(name: Name<'_>) -> Option<&str> {
    match name {
        Name::Unit { namespace, .. } => Some(namespace),
        Name::Range { .. } => None,
    }
}

impl<'m> Crowd<'m> {
    /// Those with these names and namespaces.
    pub(crate) fn of(names: impl Iterator<Item = (&'m str, &'m str)>) -> Crowd<'m> {
        let mut crowd = Crowd { namespaces: BTreeMap::new(), units: 0, shared: BTreeSet::new() };
        let mut met = BTreeSet::new();
        for (name, namespace) in names {
            crowd.namespaces.entry(namespace).or_default().push(name);
            crowd.units += 1;
            if !met.insert(short(name)) {
                crowd.shared.insert(short(name));
            }
        }
        crowd
    }

    /// The other side of one unit or range: everyone, whole namespaces, names, ranges.
    pub(crate) fn said(&self, peers: &[Name<'m>], to: Name<'m>) -> Vec<String> {
        let units = peers.iter().filter(|it| matches!(it, Name::Unit { .. })).count();
        let itself = matches!(to, Name::Unit { .. }) && !peers.contains(&to);
        if units > 1 && units == self.units - usize::from(itself && self.units > 0) {
            let ranges: Vec<Name<'m>> = peers.iter().copied().filter(|it| matches!(it, Name::Range { .. })).collect();
            let mut said = vec![format!("everyone ({units})")];
            said.extend(self.listed_but(&ranges, None));
            return said;
        }
        self.listed_but(peers, itself.then_some(to))
    }

    /// Whole namespaces as one, the rest by name.
    pub(crate) fn listed(&self, names: &[Name<'m>]) -> Vec<String> {
        self.listed_but(names, None)
    }

    /// The same, with one that does not count as missing.
    fn listed_but(&self, names: &[Name<'m>], besides: Option<Name<'m>>) -> Vec<String> {
        let mut by_namespace: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut outside = Vec::new();
        for name in names {
            match name {
                Name::Unit { name, namespace } => by_namespace.entry(namespace).or_default().push(name),
                Name::Range { first, last } => outside.push((*first, *last)),
            }
        }
        let mut said = Vec::new();
        for (namespace, names) in by_namespace {
            let counts = |it: &&&str| !matches!(besides, Some(Name::Unit { name, .. }) if name == **it);
            let all: Vec<&str> = self.namespaces.get(namespace).into_iter().flatten().filter(counts).copied().collect();
            let named: BTreeSet<&str> = names.iter().copied().collect();
            let missing: Vec<&str> = all.iter().copied().filter(|it| !named.contains(it)).collect();
            let own = |it: &str| self.name(it).strip_prefix(namespace).and_then(|it| it.strip_prefix('/')).map(str::to_owned);
            let inner = |names: &[&str]| names.iter().map(|it| own(it)).collect::<Option<Vec<String>>>().map(|it| it.join(", "));
            match (names.len(), missing.len(), inner(&names), inner(&missing)) {
                (2.., 0, ..) => said.push(format!("{namespace}/* ({})", names.len())),
                (4.., 1.., _, Some(but)) if missing.len() * 3 <= names.len() => {
                    let but = if missing.len() > 1 { format!("{{{but}}}") } else { but };
                    said.push(format!("{namespace}/* but {but} ({})", names.len()));
                }
                (3.., _, Some(inner), _) => said.push(format!("{namespace}/{{{inner}}}")),
                _ => said.extend(names.into_iter().map(|it| self.name(it).to_owned())),
            }
        }
        said.extend(ranges(&outside));
        said
    }

    fn name<'a>(&self, name: &'a str) -> &'a str {
        let without = short(name);
        if self.shared.contains(without) { name } else { without }
    }
}

/// How long a line gets.
const WIDTH: usize = 120;

/// Items with commas, in as many lines as they need; those after the first begin at `indent`.
pub(crate) fn wrapped(items: &[String], indent: usize) -> String {
    filled(&items.join(", "), indent, WIDTH)
}

/// A text in lines of at most `width` characters, as far as its words allow; lines after the first begin at `indent`.
pub(crate) fn filled(text: &str, indent: usize, width: usize) -> String {
    let mut out = String::new();
    let mut column = indent;
    for (at, word) in text.split(' ').enumerate() {
        let length = word.chars().count();
        if at > 0 && column + 1 + length > width {
            out.push_str(&format!("\n{:indent$}", ""));
            column = indent;
        } else if at > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
    out
}

/// `shop/web` of `shop/web[Deployment]`. Only a kind is at the end, so a class keeps its number of others.
pub(crate) fn short(name: &str) -> &str {
    name.strip_suffix(']').and_then(|it| it.rsplit_once('[')).map_or(name, |it| it.0)
}

pub(crate) fn ranges(all: &[(IpAddr, IpAddr)]) -> Vec<String> {
    let said: Vec<String> = all.iter().map(|(first, last)| range(*first, *last)).collect();
    if said == ["any IPv4 address", "any IPv6 address"] { vec!["any address".to_owned()] } else { said }
}

pub(crate) fn range(first: IpAddr, last: IpAddr) -> String {
    let whole = match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => first.to_bits() == 0 && last.to_bits() == u32::MAX,
        (IpAddr::V6(first), IpAddr::V6(last)) => first.to_bits() == 0 && last.to_bits() == u128::MAX,
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    };
    match (whole, first.is_ipv4(), first == last) {
        (true, true, _) => "any IPv4 address".to_owned(),
        (true, false, _) => "any IPv6 address".to_owned(),
        (false, _, true) => first.to_string(),
        (false, _, false) => format!("{first}-{last}"),
    }
}
