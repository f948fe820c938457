//! Holds a planned change against what a packet may meet while it is made.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use palisade_engine::compile;
use palisade_model::{EndpointId, Labels, Model, Node, NodeId};
use palisade_nft::{Fate, Ids, LinkName, NodeView, PodLinks, Ruleset, Shared, Standing, Step, Table, Unknown, fates, lower, states, trace};

use crate::journeys::Journey;

/// The ruleset of a node on which some of a model's pods run, known by their names, so that they stay there from one model to the next.
/// `unknown` is what becomes of pods there that nobody has told of.
pub fn on_one_node(model: &Model, ids: &mut Ids, unknown: Unknown, here: impl Fn(&str) -> bool) -> Ruleset {
    let mut model = model.clone();
    let node = NodeId(model.nodes.len());
    let labels = Labels::default();
    model.nodes.push(Node { name: "here".into(), labels, addresses: Vec::new(), host_pods: Vec::new(), assumed: true });
    let mut links = BTreeMap::new();
    for (at, pod) in model.endpoints.iter_mut().enumerate() {
        let name = pod.name.to_string();
        let is_here = here(&name);
        pod.node = if is_here { Some(node) } else { pod.node };
        if is_here {
            links.insert(EndpointId(at), link(&name));
        }
    }
    lower(&model, &compile(&model), &NodeView { node, links, unknown }, ids)
}

/// Pods are closed until they are known.
pub fn closed() -> Unknown {
    Unknown::Closed(PodLinks { names: [LinkName::Beginning("p".to_owned())].into(), ..PodLinks::default() })
}

/// A link's name from that of its pod.
fn link(pod: &str) -> String {
    let hash = pod.bytes().fold(7_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)));
    format!("p{hash:08x}")
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looked {
    pub packets: usize,
    /// Packets whose verdict the change turns round.
    pub turned: usize,
    /// Ways of packets that differ in what became of them, or in when that was.
    pub fates: usize,
    pub commits: usize,
    pub graces: usize,
    /// Commits to another table, which stands beside the own one.
    pub beside: usize,
}

impl AddAssign for Looked {
    fn add_assign(&mut self, other: Looked) {
        self.packets += other.packets;
        self.turned += other.turned;
        self.fates += other.fates;
        self.commits += other.commits;
        self.graces += other.graces;
        self.beside += other.beside;
    }
}

/// Runs a plan in memory. An error says what is wrong with it: it does not come to the new ruleset, the kernel would refuse it, or some packet
/// meets what it must not:
/// - *leaked*: it passes, and both rulesets drop it;
/// - *lost*: it is dropped, and both let it pass;
/// - *widened early*: it passes by the new ruleset alone, and only after it has, another one comes and passes by the old one alone. So there is
///   one moment before which all that passes is allowed by the old ruleset, and all that comes after it and passes by the new one.
pub fn check(old: &Ruleset, new: &Ruleset, steps: &[Step], journeys: &[Journey]) -> Result<Looked, String> {
    let standing = Standing::from([(Table::Own, as_kept(old))]);
    let segments = states(standing, steps).map_err(|refused| format!("refused: {refused:?}"))?;
    let last = segments.last().and_then(|it| it.last()).ok_or("no state")?;
    let (found, wanted) = (last.get(&Table::Own).ok_or("no table")?, as_kept(new));
    if last.len() != 1 || *found != wanted {
        return Err("it does not come to the new ruleset".to_owned());
    }
    if !steps.is_empty() && !matches!(steps.last(), Some(Step::Grace)) {
        return Err("it does not end with a grace".to_owned());
    }
    let mut looked = Looked { packets: journeys.len(), ..Looked::default() };
    for step in steps {
        match step {
            Step::Commit(transaction) => {
                looked.commits += 1;
                looked.beside += usize::from(transaction.table != Table::Own);
            }
            Step::Grace => looked.graces += 1,
        }
    }
    let known = |origin: &u32| old.origins.contains_key(origin) || new.origins.contains_key(origin);
    let mut turn = Turn::default();
    for journey in journeys {
        let passes = |ruleset| journey.iter().try_fold(true, |passes, packet| Ok(passes && trace(ruleset, packet)?.accepted));
        let (before, after): (Result<bool, String>, Result<bool, String>) = (passes(old), passes(new));
        let (before, after) = (before?, after?);
        looked.turned += usize::from(before != after);
        let mut first = 0;
        for segment in &segments {
            for fate in fates(segment, journey)? {
                looked.fates += 1;
                let fate = Fate { since: fate.since + first, until: fate.until + first, ..fate };
                judge(&fate, before, after, known)
                    .map_err(|wrong| format!("{wrong}: {journey:?}\nbefore {before}, after {after}\n{fate:?}"))?;
                turn.take(&fate, before, after, journey);
            }
            // The last state of one is the first of the next.
            first += segment.len() - 1;
        }
    }
    turn.is_one()?;
    Ok(looked)
}

fn judge(fate: &Fate, before: bool, after: bool, known: impl Fn(&u32) -> bool) -> Result<(), &'static str> {
    match (fate.accepted, fate.origin) {
        (true, _) if !before && !after => Err("leaked"),
        (false, _) if before && after => Err("lost"),
        (false, origin) if !origin.as_ref().is_some_and(known) => Err("dropped, and nobody knows why"),
        (true | false, _) => Ok(()),
    }
}

/// Where a change turns from the old ruleset to the new one.
#[derive(Default)]
struct Turn<'a> {
    /// Who came last and passed by the old ruleset alone, and when it came.
    last: Option<(usize, &'a Journey)>,
    /// Who left first and passed by the new ruleset alone, and when it left.
    first: Option<(usize, &'a Journey)>,
}

impl<'a> Turn<'a> {
    fn take(&mut self, fate: &Fate, before: bool, after: bool, journey: &'a Journey) {
        match (fate.accepted, before, after) {
            (true, true, false) if self.last.is_none_or(|(since, _)| since < fate.since) => self.last = Some((fate.since, journey)),
            (true, false, true) if self.first.is_none_or(|(until, _)| fate.until < until) => self.first = Some((fate.until, journey)),
            (true | false, ..) => {}
        }
    }

    fn is_one(&self) -> Result<(), String> {
        match (self.last, self.first) {
            (Some((since, old)), Some((until, new))) if since >= until => {
                Err(format!("widened early: in state {until} {new:?}\nwhile in state {since} comes {old:?}"))
            }
            (Some(_) | None, Some(_) | None) => Ok(()),
        }
    }
}

/// A ruleset as a table holds it.
pub fn as_kept(ruleset: &Ruleset) -> Ruleset {
    let mut kept = Ruleset { origins: Shared::default(), ..ruleset.clone() };
    for chain in kept.chains.values_mut() {
        chain.rules.iter_mut().for_each(|it| *it = it.as_kept());
    }
    kept
}
