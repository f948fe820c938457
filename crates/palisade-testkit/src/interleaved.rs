//! Holds a planned change against what a packet may meet while it is made.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_engine::compile;
use palisade_model::{EndpointId, Labels, Model, Node, NodeId};
use palisade_nft::{
    At, CtState, Fate, Ids, LinkName, Match, NodeView, Packet, PodLinks, Ruleset, Standing, Step, Table, Traced, Unknown, fates, lower, states,
    trace,
};

use crate::random::Random;

/// The ruleset of a node on which some of a model's pods run, known by their names, so that they stay there from one model to the next.
pub fn on_one_node(model: &Model, ids: &mut Ids, here: impl Fn(&str) -> bool) -> Ruleset {
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
    let pods = PodLinks { names: [LinkName::Beginning("p".to_owned())].into(), ..PodLinks::default() };
    lower(&model, &compile(&model), &NodeView { node, links, unknown: Unknown::Closed(pods) }, ids)
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
    pub commits: usize,
    pub graces: usize,
    /// Whether another table stood beside the own one.
    pub beside: usize,
}

/// Runs a plan in memory. An error says what is wrong with it: it does not come to the new ruleset, the kernel would refuse it, or some packet
/// meets what it must not.
pub fn check(old: &Ruleset, new: &Ruleset, steps: &[Step], packets: &[Packet]) -> Result<Looked, String> {
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
    let mut looked = Looked { packets: packets.len(), ..Looked::default() };
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
    for packet in packets {
        let (before, after) = (trace(old, packet)?, trace(new, packet)?);
        looked.turned += usize::from(before.accepted != after.accepted);
        for (at, segment) in segments.iter().enumerate() {
            for fate in fates(segment, packet)? {
                judge(&fate, &before, &after, known)
                    .map_err(|wrong| format!("{wrong} in segment {at}: {packet:?}\nbefore {before:?}\nafter {after:?}\n{fate:?}"))?;
            }
        }
    }
    Ok(looked)
}

fn judge(fate: &Fate, before: &Traced, after: &Traced, known: impl Fn(&u32) -> bool) -> Result<(), &'static str> {
    match (fate.accepted, fate.origin) {
        (true, _) if !before.accepted && !after.accepted => Err("leaked"),
        (false, _) if before.accepted && after.accepted => Err("lost"),
        (false, origin) if !origin.as_ref().is_some_and(known) => Err("dropped, and nobody knows why"),
        (true | false, _) => Ok(()),
    }
}

/// As a table holds it.
fn as_kept(ruleset: &Ruleset) -> Ruleset {
    let mut kept = Ruleset { origins: BTreeMap::new(), ..ruleset.clone() };
    for chain in kept.chains.values_mut() {
        chain.rules.iter_mut().for_each(|it| *it = it.as_kept());
    }
    kept
}

/// Packets worth looking at: between addresses that either ruleset knows, most of them such that something changes for.
pub fn packets(old: &Ruleset, new: &Ruleset, random: &mut Random, count: usize) -> Vec<Packet> {
    let known = |of: &Ruleset| -> BTreeSet<(IpAddr, u32)> {
        let exact = of.data.values().flat_map(|it| it.elements.iter().map(|(address, number)| (*address, *number)));
        let ranges = of.intervals.values().flat_map(|it| it.elements.iter().map(|(first, (_, number))| (*first, *number)));
        exact.chain(ranges).collect()
    };
    let (before, after) = (known(old), known(new));
    let all: Vec<IpAddr> = before.union(&after).map(|it| it.0).collect::<BTreeSet<IpAddr>>().into_iter().collect();
    let subjects = |of: &Ruleset| -> BTreeSet<IpAddr> { of.pairs.values().flat_map(|it| it.elements.iter().map(|it| it.0)).collect() };
    let subjects: Vec<IpAddr> = subjects(old).union(&subjects(new)).copied().collect();
    let changed: Vec<IpAddr> = before.symmetric_difference(&after).map(|it| it.0).collect::<BTreeSet<IpAddr>>().into_iter().collect();
    // A pod's link is there before and after the node is told of it.
    let links: BTreeMap<IpAddr, String> =
        [old, new].iter().flat_map(|it| it.sets.values()).flat_map(|it| it.elements.iter().map(|(link, of)| (*of, link.clone()))).collect();
    let link_of = |address: IpAddr| Some(links.get(&address).cloned().unwrap_or_else(|| "uplink".to_owned()));
    let ports = ports(old, new);
    let pools: [&[IpAddr]; 3] = [&all, &subjects, &changed];
    let mut packets = Vec::new();
    for _ in 0..count {
        let [one, other] = [0, 1].map(|_| *random.pick(&pools).unwrap_or(&pools[0]));
        let (Some(source), Some(destination)) = (random.pick(one), random.pick(other)) else { continue };
        let Some((protocol, port)) = random.pick(&ports) else { continue };
        if source.is_ipv4() == destination.is_ipv4() {
            let at = if random.percent(90) { At::Forward } else { At::Input };
            let (source, destination) = (*source, *destination);
            let (state, priority, source_is_local) = (CtState::New, 3, false);
            let to_link = if at == At::Forward { link_of(destination) } else { None };
            let (protocol, port, from_link) = (*protocol, *port, link_of(source));
            packets.push(Packet { at, source, destination, protocol, port, state, priority, source_is_local, from_link, to_link });
        }
    }
    packets
}

/// Ports that some rule speaks of, and what has none.
fn ports(old: &Ruleset, new: &Ruleset) -> Vec<(u8, Option<u16>)> {
    let mut found = BTreeSet::from([(1, None), (6, Some(9)), (17, Some(9))]);
    for rule in [old, new].iter().flat_map(|it| it.chains.values()).flat_map(|it| &it.rules) {
        if let [Match::Protocol(protocols), Match::Port { first, last }] = rule.matches.as_slice() {
            found.extend(protocols.iter().flat_map(|it| [(*it, Some(*first)), (*it, Some(*last)), (*it, last.checked_add(1))]));
        }
    }
    found.retain(|(protocol, port)| (*protocol == 1) == port.is_none());
    found.into_iter().collect()
}
