//! What a change opens beside the connection that it is for.

use std::net::IpAddr;

use palisade_engine::{PortSetId, PortSets, compile};
use palisade_model::{Flow, Model, Place, Protocol};

use crate::diff::{Change, Diff, Filter, Group, Member, Version};
use crate::explain::{Case, Explanation};
use crate::matrix::units::workload;

/// No change at all.
pub(super) fn nothing() -> Diff {
    Diff { units: Vec::new(), changes: Vec::new(), sets: PortSets::default() }
}

/// What differs between the model that was asked about and a changed one, without what was asked about.
pub(super) fn opened(before: &Explanation, changed: &Model) -> Diff {
    let (old, new) = (compile(&before.model), compile(changed));
    let (mut old, mut new) = (old.reach(), new.reach());
    let mut old = Version { model: &before.model, reach: &mut old };
    let mut diff = Version { model: changed, reach: &mut new }.changes_since(&mut old, &Filter::default());
    for case in &before.cases {
        diff = without(diff, &before.model, case);
    }
    diff
}

/// One end that was asked about.
enum Asked {
    /// Its place among the workloads.
    Unit(usize),
    Address(IpAddr),
    /// It is in no line.
    Nowhere,
}

/// The same without the pairs and the traffic of one case.
fn without(diff: Diff, model: &Model, case: &Case) -> Diff {
    let (from, to) =
        (asked(&diff, model, case.flow.from.place, case.flow.from.address), asked(&diff, model, case.flow.to.place, case.flow.to.address));
    let Diff { units, changes, mut sets } = diff;
    let traffic = traffic(&mut sets, &case.flow);
    let mut left = Vec::with_capacity(changes.len());
    for change in changes {
        let (asking, others_asking) = part(&change.from, &from);
        let (called, others_called) = part(&change.to, &to);
        let whole = Change { from: others_asking, ..change.clone() };
        let beside = Change { from: asking.clone(), to: others_called, ..change.clone() };
        let mut itself = Change { from: asking, to: called, ..change };
        itself.opened = sets.without(itself.opened, traffic);
        itself.opened_by_name = sets.without(itself.opened_by_name, traffic);
        left.extend([whole, beside, itself].into_iter().filter(is_something));
    }
    Diff { units, changes: left, sets }
}

fn traffic(sets: &mut PortSets, flow: &Flow) -> PortSetId {
    match (flow.protocol, flow.port) {
        (Protocol::Port(protocol), Some(port)) => sets.port(protocol, port),
        // A NetworkPolicy opens all traffic where it has no words for this one, and that is worth a line.
        (Protocol::Port(_) | Protocol::Icmp | Protocol::Other(_), _) => PortSetId::NONE,
    }
}

fn is_something(it: &Change) -> bool {
    let somebody = |group: &Group| !group.units.is_empty() || !group.ranges.is_empty();
    let some = [it.opened, it.opened_by_name, it.closed, it.closed_but_by_name] != [PortSetId::NONE; 4];
    somebody(&it.from) && somebody(&it.to) && some
}

fn asked(diff: &Diff, model: &Model, place: Place, address: Option<IpAddr>) -> Asked {
    match (place, address) {
        (Place::Pod(id), _) => {
            let name = model.endpoint(id).map(workload);
            let at = diff.units.iter().position(|it| Some(&it.name) == name.as_ref());
            at.map_or(Asked::Nowhere, Asked::Unit)
        }
        (Place::Outside, Some(address)) => Asked::Address(address),
        (Place::Node(_) | Place::Outside, _) => Asked::Nowhere,
    }
}

/// Who of a side was asked about, and who was not.
fn part(group: &Group, asked: &Asked) -> (Group, Group) {
    let mine = |it: &Member| matches!(asked, Asked::Unit(unit) if it.unit == *unit);
    let (units, other_units) = group.units.iter().partition(|it| mine(it));
    let only = |it: &(IpAddr, IpAddr)| matches!(asked, Asked::Address(address) if it.0 == *address && it.1 == *address);
    let (ranges, other_ranges) = group.ranges.iter().partition(|it| only(it));
    (Group { units, ranges }, Group { units: other_units, ranges: other_ranges })
}
