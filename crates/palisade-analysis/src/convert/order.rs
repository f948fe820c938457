//! Names and priorities: the new policies are asked in the order in which the old ones were.

use std::borrow::Cow;
use std::collections::BTreeSet;

use palisade_api::syntax;
use palisade_model::{Model, NetworkId, PerDirection, Policy, PolicyRef, Rule, RuleRef, Subject, Tier};

use super::form::Form;
use super::rules::{Carried, Sequence};
use super::{Converted, Loss, Objects, Weight, Written, asked};

/// How a policy is called and when it is asked.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) name: Box<str>,
    pub(super) rank: i64,
    pub(super) tier: Tier,
}

/// One policy of a tier, old or new, in the order in which they have to be asked.
#[derive(Clone, Debug)]
struct Turn {
    slot: Slot,
    origin: PolicyRef,
    /// The rank of the policy that it stands for.
    old_rank: i64,
    /// None for one that stays what it is.
    piece: Option<(usize, usize)>,
    after_last: bool,
}

/// Gives the pieces names and ranks, and writes them.
pub(super) fn place(model: &Model, objects: &Objects, form: &Form, carried: Vec<Carried>, converted: &mut Converted) {
    for tier in [Tier::Admin, Tier::Baseline] {
        let mut taken = taken(model, objects, form, &carried, converted, tier);
        let mut turns = turns(model, form, &carried, converted, tier, &mut taken);
        if turns.iter().all(|it| it.piece.is_none()) {
            continue;
        }
        let settled = settle(form, &mut turns, tier, &taken);
        tell(form, &carried, &turns, settled, converted);
        for turn in &turns {
            let Some((one, piece)) = turn.piece.and_then(|(one, piece)| carried.get(one).map(|it| (it, piece))) else { continue };
            let Some(piece) = one.pieces.get(piece) else { continue };
            converted.written.push(write(form, &turn.slot, vec![one.old.origin.clone()], piece.subject.clone(), piece.rules.clone()));
        }
    }
    converted.replaced.extend(carried.into_iter().map(|it| it.old.origin));
    converted.written.sort_by(|a, b| asked(&a.policy).cmp(&asked(&b.policy)));
}

pub(super) fn write(
    form: &Form,
    slot: &Slot,
    from: Vec<PolicyRef>,
    subject: Subject,
    rules: PerDirection<Vec<(Rule, RuleRef)>>,
) -> Written {
    let (kind, shape) = form.kind(slot.tier);
    let split = |rules: Vec<(Rule, RuleRef)>| -> (Vec<Rule>, Vec<RuleRef>) {
        rules.into_iter().enumerate().map(|(index, (rule, from))| (Rule { index, ..rule }, from)).unzip()
    };
    let (egress, from_egress) = split(rules.egress);
    let (ingress, from_ingress) = split(rules.ingress);
    let policy = Policy {
        network: NetworkId::DEFAULT,
        origin: PolicyRef { kind, namespace: None, name: slot.name.clone() },
        shape,
        tier: slot.tier,
        rank: slot.rank,
        subject,
        isolates: PerDirection::default(),
        rules: PerDirection { egress, ingress },
    };
    Written { policy, from, rules: PerDirection { egress: from_egress, ingress: from_ingress } }
}

/// Names that objects of the new kind have, and go on to have.
fn taken(model: &Model, objects: &Objects, form: &Form, carried: &[Carried], converted: &Converted, tier: Tier) -> BTreeSet<Box<str>> {
    let (kind, _) = form.kind(tier);
    let staying = model.policies.iter().filter(|it| !is_gone(&it.origin, carried, converted)).map(|it| &it.origin);
    let others = objects.others.iter().filter(|it| it.kind == kind);
    let written = converted.written.iter().map(|it| &it.policy.origin).filter(|it| it.kind == kind);
    staying.filter(|it| objects.kind(it) == kind).chain(others).chain(written).map(|it| it.name.clone()).collect()
}

fn is_gone(origin: &PolicyRef, carried: &[Carried], converted: &Converted) -> bool {
    converted.replaced.contains(origin) || carried.iter().any(|it| it.old.origin == *origin)
}

fn turns(model: &Model, form: &Form, carried: &[Carried], converted: &Converted, tier: Tier, taken: &mut BTreeSet<Box<str>>) -> Vec<Turn> {
    let (kind, _) = form.kind(tier);
    let mut turns = Vec::new();
    for old in model.policies.iter().filter(|it| it.tier == tier) {
        let Some(at) = carried.iter().position(|it| it.old.origin == old.origin) else {
            let slot = Slot { name: old.origin.name.clone(), rank: old.rank, tier };
            turns.extend((!is_gone(&old.origin, carried, converted)).then(|| Turn {
                slot,
                origin: old.origin.clone(),
                old_rank: old.rank,
                piece: None,
                after_last: false,
            }));
            continue;
        };
        for (index, piece) in carried.get(at).into_iter().flat_map(|it| &it.pieces).enumerate() {
            let dash = if piece.suffix.is_empty() { "" } else { "-" };
            let name = free(taken, &format!("{}{dash}{}", sayable(&old.origin.name), piece.suffix), old.origin.kind.short());
            taken.insert(name.clone());
            let origin = PolicyRef { kind, namespace: None, name: name.clone() };
            let slot = Slot { name, rank: old.rank, tier };
            turns.push(Turn {
                slot,
                origin,
                old_rank: old.rank,
                piece: Some((at, index)),
                after_last: piece.sequence == Sequence::AfterLast,
            });
        }
    }
    turns
}

/// The name of an object; one that has none is called by its place, which no server would take.
fn sayable(name: &str) -> Cow<'_, str> {
    if syntax::subdomain(name).is_ok() {
        return Cow::Borrowed(name);
    }
    let file = name.rsplit('/').next().unwrap_or(name).to_lowercase();
    let words: Vec<&str> = file.split(|it: char| !it.is_ascii_alphanumeric()).filter(|it| !it.is_empty()).collect();
    Cow::Owned(if words.is_empty() { "nameless".to_owned() } else { words.join("-") })
}

/// A name that nobody has: this one, or with the old kind, or with a number.
fn free(taken: &BTreeSet<Box<str>>, name: &str, kind: &str) -> Box<str> {
    // Room for the kind and a number.
    let name = shortened(name, LONGEST - 13);
    let numbered = (2..).map(|it: usize| format!("{name}-{kind}-{it}"));
    let candidates = [name.to_owned(), format!("{name}-{kind}")].into_iter().chain(numbered);
    // There is one more candidate than there are names.
    let free = candidates.take(taken.len() + 2).find(|it| !taken.contains(it.as_str()));
    free.unwrap_or_else(|| name.to_owned()).into()
}

/// The longest name that an object can have.
const LONGEST: usize = 253;

/// The beginning of a name that is a name, too.
fn shortened(name: &str, most: usize) -> &str {
    name.get(..most).unwrap_or(name).trim_end_matches(['-', '.'])
}

/// How the order was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    /// By priorities, as far as it was before.
    ByPriority,
    /// Some have one priority that had none in common, and names that sort.
    ByName,
    /// New names that sort.
    Renamed,
    Not,
}

fn settle(form: &Form, turns: &mut [Turn], tier: Tier, taken: &BTreeSet<Box<str>>) -> Settled {
    let (first, last) = form.ranks(tier);
    let before = turns.to_vec();
    if rank(turns, first, last, true) {
        return Settled::ByPriority;
    }
    turns.clone_from_slice(&before);
    if rank(turns, first, last, false) {
        return Settled::ByName;
    }
    turns.clone_from_slice(&before);
    number(turns, taken);
    if rank(turns, first, last, false) {
        return Settled::Renamed;
    }
    // Ranks are in their limits then, and the order is not what it was.
    turns.clone_from_slice(&before);
    rank(turns, first, last, false);
    for turn in turns.iter_mut().filter(|it| it.piece.is_some()) {
        turn.slot.rank = turn.slot.rank.clamp(first, last);
    }
    Settled::Not
}

/// Puts numbers before the names of new policies that make them sort, in as many digits as it takes for each to be free.
fn number(turns: &mut [Turn], taken: &BTreeSet<Box<str>>) {
    let digits = turns.len().to_string().len();
    // A taken name stands in the way of one number of digits, so that one more is always free.
    for width in digits..=digits + taken.len() {
        let numbered =
            |at: usize, turn: &Turn| -> Box<str> { shortened(&format!("{:0width$}-{}", at + 1, turn.slot.name), LONGEST).into() };
        if turns.iter().enumerate().any(|(at, turn)| turn.piece.is_some() && taken.contains(&numbered(at, turn))) {
            continue;
        }
        for (at, turn) in turns.iter_mut().enumerate().filter(|it| it.1.piece.is_some()) {
            turn.slot.name = numbered(at, turn);
            turn.origin.name = turn.slot.name.clone();
        }
        return;
    }
}

/// Moves ranks as little as the limits and the order want; false if that is not possible.
fn rank(turns: &mut [Turn], first: i64, last: i64, apart: bool) -> bool {
    let mut next: Option<Turn> = None;
    for turn in turns.iter_mut().rev() {
        if turn.piece.is_some() {
            let room = next.as_ref().map_or(last, |next| match sorts(turn, next, apart) {
                true => next.slot.rank,
                false => next.slot.rank - 1,
            });
            turn.slot.rank = turn.slot.rank.min(room).min(last);
        }
        next = Some(turn.clone());
    }
    let mut before: Option<Turn> = None;
    for turn in turns.iter_mut() {
        if turn.piece.is_some() {
            let room = before.as_ref().map_or(first, |before| match sorts(before, turn, apart) {
                true => before.slot.rank,
                false => before.slot.rank + 1,
            });
            turn.slot.rank = turn.slot.rank.max(room).max(first);
        }
        before = Some(turn.clone());
    }
    let inside = turns.iter().all(|it| it.piece.is_none() || (first <= it.slot.rank && it.slot.rank <= last));
    let ordered = turns
        .iter()
        .zip(turns.iter().skip(1))
        .all(|(one, next)| one.slot.rank < next.slot.rank || (one.slot.rank == next.slot.rank && sorts(one, next, apart)));
    inside && ordered
}

/// Whether the order is right if both have one rank. `apart`: names decide only where they did before.
fn sorts(one: &Turn, next: &Turn, apart: bool) -> bool {
    !(apart && newly_tied(one, next)) && (&one.slot.name, &one.origin) < (&next.slot.name, &next.origin)
}

/// Whether two that have one rank had none in common, or are one policy.
fn newly_tied(one: &Turn, next: &Turn) -> bool {
    next.after_last || one.old_rank != next.old_rank
}

fn tell(form: &Form, carried: &[Carried], turns: &[Turn], settled: Settled, converted: &mut Converted) {
    for (place, turn) in turns.iter().enumerate() {
        let Some((at, _)) = turn.piece else { continue };
        let Some(old) = carried.get(at).map(|it| &it.old) else { continue };
        let mut lose = |path: &str, why: &str, instead: String, weight: Weight| {
            let (path, why) = (path.to_owned(), why.to_owned());
            converted.losses.push(Loss { policy: old.origin.clone(), path, why, instead: Some(instead), weight });
        };
        let called = sayable(&old.origin.name);
        if called != *old.origin.name {
            lose("metadata.name", "the policy has no name", format!("`{}`", turn.slot.name), Weight::Form);
        }
        if !turn.slot.name.starts_with(&*called) {
            let why = "policies of one priority are asked in the order of their names here; other controllers may choose another";
            lose("metadata.name", why, format!("`{}`", turn.slot.name), Weight::Form);
        } else if let Some(before) = place.checked_sub(1).and_then(|it| turns.get(it)).filter(|_| settled == Settled::ByName)
            && newly_tied(before, turn)
            && before.slot.rank == turn.slot.rank
        {
            let why = "no priority is free between its neighbours; policies of one priority are asked by name here, and other controllers may choose";
            lose("spec.priority", why, format!("`{}`, asked after `{}` by its name", turn.slot.name, before.slot.name), Weight::Form);
        }
        if settled == Settled::Not {
            let why = "not every policy has a priority in this shape that keeps the order";
            lose("spec.priority", why, format!("priority {}", form.priority(turn.slot.rank)), Weight::Reach);
        } else if turn.slot.rank != old.rank {
            let why = "this priority is out of the scale, or taken, in the other shape";
            let said = format!("priority {} of `{}`, which is asked in the same order", form.priority(turn.slot.rank), turn.slot.name);
            lose("spec.priority", why, said, Weight::Form);
        }
    }
}
