//! What audited policies would do on one node: the table that says it, and the book of what it said.
//!
//! Nothing here can change a verdict: the table has none, and whoever fails to write it has denied and allowed nothing by that.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use palisade_kernel::{Counted, KernelError};
use palisade_model::{Changes, Direction, Model, NodeId, PodName, Policy};
use palisade_nft::{Audit, Auditing, Becomes, Ruleset, Worked, Would};
use palisade_report::audited::{SeenFlow, SeenOnNode};
use palisade_report::{Foreseen, foreseen, v1};

use crate::book::Key;
use crate::core::small_table::Wrote;
use crate::denial::{Name, Side, protocol};
use crate::names::Names;

/// Flows that are remembered. What comes beyond that is counted.
const FLOWS: usize = 20_000;

/// A connection that a set of audited policies would treat otherwise, in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub would: Would,
    pub source: Side,
    pub destination: Side,
    /// The IP protocol.
    pub protocol: u8,
    pub source_port: Option<u16>,
    pub port: Option<u16>,
    /// Type and code of ICMP or ICMPv6.
    pub icmp: Option<(u8, u8)>,
    /// Packets of the same connection so far, with this one.
    pub packets: u64,
}

/// Connections that would fare alike: between the same ends, to the same port, by the same rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedFlow {
    pub would: Would,
    /// As in the first packet.
    pub source: Side,
    pub destination: Side,
    pub protocol: u8,
    pub port: Option<u16>,
    pub connections: u64,
    /// Since 1970.
    pub first: Duration,
    pub last: Duration,
}

/// What one node knows about a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    pub set: Box<str>,
    /// When the set came or was last edited, since 1970.
    pub since: Duration,
    pub flows: Vec<WatchedFlow>,
    /// The pods of the node that audited policies select, of whatever set, with the connections of each since then, by direction.
    pub subjects: BTreeMap<(PodName, Direction), u64>,
    /// Connections that belong to no flow above, since there were too many.
    pub not_kept: u64,
    /// Packets that were logged but never came, of whatever set.
    pub lost: u64,
}

impl Watched {
    /// As a report takes it.
    pub fn seen(&self) -> SeenOnNode {
        let flow = |it: &WatchedFlow| SeenFlow {
            from: it.source.address,
            to: it.destination.address,
            from_name: called(&it.source),
            to_name: called(&it.destination),
            protocol: protocol(it.protocol),
            port: it.port,
            direction: it.would.direction,
            becomes: reported(it.would.becomes),
            reason: it.would.reason.clone(),
            instead_of: it.would.instead_of.clone(),
            connections: it.connections,
            first: it.first,
            last: it.last,
        };
        SeenOnNode {
            set: self.set.clone(),
            since: self.since,
            flows: self.flows.iter().map(flow).collect(),
            subjects: self.subjects.clone(),
            not_kept: self.not_kept,
            lost: self.lost,
        }
    }
}

impl Told {
    /// As it leaves the house.
    pub fn report(&self) -> v1::Would {
        let Would { set, direction, becomes, reason, instead_of } = &self.would;
        foreseen(Foreseen {
            set,
            becomes: reported(*becomes),
            from: self.source.report(),
            to: self.destination.report(),
            protocol: protocol(self.protocol),
            source_port: self.source_port,
            port: self.port,
            icmp: self.icmp.map(|(kind, code)| v1::DenialIcmp { r#type: kind, code }),
            direction: *direction,
            reason,
            instead_of,
            packets: self.packets,
        })
    }
}

fn reported(becomes: Becomes) -> v1::Becomes {
    match becomes {
        Becomes::Denied => v1::Becomes::Denied,
        Becomes::Allowed => v1::Becomes::Allowed,
    }
}

/// What tells flows apart. Ends are named: an address may be that of another pod later.
type FlowKey = (Would, (String, IpAddr), (String, IpAddr), u8, Option<u16>);

/// Keeps the audit of one node: the table that is wanted, and what its packets and counters said.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    auditing: Auditing,
    /// The audit that was written last.
    wanted: Option<Arc<Audit>>,
    /// The audit that is to be written.
    next: Option<Arc<Audit>>,
    standing: Standing,
    /// Whether chains may go with the next write, and their counters with them.
    chains: Chains,
    sets: BTreeMap<Box<str>, Set>,
    /// What numbers stand for, also those of the table before: its packets may still be on their way.
    woulds: BTreeMap<u32, Would>,
    flows: BTreeMap<FlowKey, WatchedFlow>,
    subjects: Subjects,
    lost: u64,
    failure: Option<String>,
}

/// The content of the table, as far as it is known without a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    AsLeft,
    /// Anything: a process that died may have left it.
    #[default]
    Unknown,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Chains {
    #[default]
    Stay,
    MayGo,
}

/// The work that a change needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AuditNeeds {
    /// The counters are read first.
    pub(crate) count: bool,
    /// The table is written.
    pub(crate) write: bool,
}

#[derive(Debug)]
struct Set {
    policies: Vec<Policy>,
    since: Duration,
    /// What had been counted by then.
    before: BTreeMap<(PodName, Direction), u64>,
    not_kept: u64,
    lost_before: u64,
}

/// Connections of each subject, over all tables there were.
#[derive(Debug, Default)]
struct Subjects {
    counted: BTreeMap<(PodName, Direction), u64>,
    /// Whom the counter of each chain counts, and what it showed last.
    shown: BTreeMap<String, ((PodName, Direction), u64)>,
}

impl Keeper {
    /// Works out the audit after changes. `needs` says what is to be done for it.
    pub(crate) fn update(&mut self, model: &Model, changes: &Changes, node: NodeId) {
        let (next, worked) = self.auditing.update(model, changes, node).unzip();
        if !matches!(worked, Some(Worked::NothingToDo | Worked::ByElements)) {
            self.chains = Chains::MayGo;
        }
        self.next = next;
    }

    /// Takes an audit that was worked out from scratch. Whether it is another one than the one that was kept up to date.
    pub(crate) fn recomputed(&mut self, auditing: Auditing, audit: Option<Arc<Audit>>) -> bool {
        if self.next.as_deref() == audit.as_deref() {
            return false;
        }
        (self.auditing, self.next, self.chains) = (auditing, audit, Chains::MayGo);
        true
    }

    /// The steps that bring the table to the audit of the model. Counters are read before chains go, and before an edited set begins to count from zero: otherwise
    /// the connections that its earlier policies saw would be reported for the new ones.
    pub(crate) fn needs(&self, model: &Model) -> AuditNeeds {
        let is_same = match (&self.wanted, &self.next) {
            (Some(wanted), Some(next)) => Arc::ptr_eq(wanted, next),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let counts = self.wanted.is_some() && self.standing == Standing::AsLeft;
        AuditNeeds {
            count: counts && (self.chains == Chains::MayGo || self.has_edited_sets(model)),
            write: !is_same || self.standing == Standing::Unknown,
        }
    }

    /// The table that is to be written.
    pub(crate) fn goal(&self) -> Option<Ruleset> {
        self.next.as_ref().map(|it| it.ruleset.clone())
    }

    /// The table was written, did not need to be, or could not be.
    pub(crate) fn written(&mut self, written: Result<Option<Wrote>, KernelError>, model: &Model, now: Duration) {
        if matches!(written, Ok(Some(Wrote::Whole))) {
            self.reloaded();
        }
        self.chains = Chains::Stay;
        if !matches!(written, Ok(None)) {
            self.woulds = self.wanted.take().map(|it| it.woulds.clone()).unwrap_or_default();
            self.woulds.extend(self.next.iter().flat_map(|it| it.woulds.clone()));
            self.wanted = self.next.clone();
            self.standing = if written.is_ok() { Standing::AsLeft } else { Standing::Unknown };
        }
        self.restart_edited(model, now);
        self.subjects.know(self.wanted.as_deref());
        if let Err(error) = written {
            self.failure = Some(format!("audit: {error}"));
        }
    }

    /// The table was written whole, and its counters begin anew.
    pub(crate) fn reloaded(&mut self) {
        self.subjects.shown.values_mut().for_each(|(_, packets)| *packets = 0);
    }

    /// Counts packets that never came.
    pub(crate) fn lost(&mut self, packets: u64) {
        self.lost += packets;
        self.failure = Some(format!("audit: {packets} logged packets were not read in time"));
    }

    /// What went wrong since it was last asked.
    pub(crate) fn failure(&mut self) -> Option<String> {
        self.failure.take()
    }

    /// What a number stands for.
    pub(crate) fn would(&self, origin: u32) -> Option<&Would> {
        self.woulds.get(&origin)
    }

    /// Writes down the first packet of a connection. None if nobody knows any more what its number stands for.
    pub(crate) fn take(&mut self, Key { tuple, origin }: Key, packets: u64, names: &Names, now: Duration) -> Option<Told> {
        let would = self.woulds.get(&origin)?.clone();
        let (source, destination) = (names.side(tuple.source), names.side(tuple.destination));
        let (source_port, port) = (tuple.ports.map(|it| it.0), tuple.ports.map(|it| it.1));
        let end = |it: &Side| (called(it), it.address);
        let key = (would.clone(), end(&source), end(&destination), tuple.protocol, port);
        match (self.flows.len() < FLOWS, self.flows.get_mut(&key)) {
            (_, Some(flow)) => {
                flow.connections += 1;
                flow.last = now;
            }
            (true, None) => {
                let (source, destination) = (source.clone(), destination.clone());
                let would = would.clone();
                let flow =
                    WatchedFlow { would, source, destination, protocol: tuple.protocol, port, connections: 1, first: now, last: now };
                self.flows.insert(key, flow);
            }
            (false, None) => self.sets.get_mut(&would.set).into_iter().for_each(|it| it.not_kept += 1),
        }
        Some(Told { would, source, destination, protocol: tuple.protocol, source_port, port, icmp: tuple.icmp, packets })
    }

    /// Whether `watched` needs the counters of the table.
    pub(crate) fn has_counters(&self) -> bool {
        self.wanted.is_some() && self.standing == Standing::AsLeft
    }

    /// The state of each set, as far as it is known. `counted` first, if there are counters.
    pub(crate) fn watched(&self) -> Vec<Watched> {
        let of = |name: &str, set: &Set| Watched {
            set: name.into(),
            since: set.since,
            flows: self.flows.values().filter(|it| *it.would.set == *name).cloned().collect(),
            subjects: self.subjects.since(&set.before),
            not_kept: set.not_kept,
            lost: self.lost - set.lost_before,
        };
        self.sets.iter().map(|(name, set)| of(name, set)).collect()
    }

    /// Takes the counters of the subjects' chains.
    pub(crate) fn counted(&mut self, counters: &[Counted]) {
        counters.iter().filter(|it| it.index == 0).for_each(|it| self.subjects.show(&it.chain, it.packets));
    }

    /// The counters could not be read.
    pub(crate) fn not_counted(&mut self, error: &KernelError) {
        self.failure = Some(format!("audit: {error}"));
    }

    /// Whether the model has a set that is new or has other policies than before, also policies that select no pod of this node.
    fn has_edited_sets(&self, model: &Model) -> bool {
        model.audited.iter().any(|(name, policies)| self.sets.get(name).is_none_or(|set| set.policies != *policies))
    }

    /// Begins anew with sets that are not what they were: what was seen before was the answer to another question.
    fn restart_edited(&mut self, model: &Model, now: Duration) {
        let stays = |name: &str, set: &Set| model.audited.get(name) == Some(&set.policies);
        self.sets.retain(|name, set| stays(name, set));
        for (name, policies) in &model.audited {
            if !self.sets.contains_key(name) {
                let before = self.subjects.counted.clone();
                self.sets.insert(name.clone(), Set { policies: policies.clone(), since: now, before, not_kept: 0, lost_before: self.lost });
                self.flows.retain(|_, it| it.would.set != *name);
            }
        }
        let sets = &self.sets;
        self.flows.retain(|_, it| sets.contains_key(&it.would.set));
    }
}

impl Subjects {
    /// The subjects of a new table. Chains that stay go on counting.
    fn know(&mut self, audit: Option<&Audit>) {
        let mut counted = BTreeMap::new();
        let mut shown = BTreeMap::new();
        for (chain, key) in audit.into_iter().flat_map(|it| &it.subjects) {
            counted.insert(key.clone(), self.counted.get(key).copied().unwrap_or(0));
            shown.insert(chain.clone(), (key.clone(), self.shown.get(chain).map_or(0, |it| it.1)));
        }
        *self = Subjects { counted, shown };
    }

    /// A counter that shows less than before has begun anew.
    fn show(&mut self, chain: &str, packets: u64) {
        let Some((subject, before)) = self.shown.get_mut(chain) else { return };
        let more = if packets < *before { packets } else { packets - *before };
        *before = packets;
        self.counted.get_mut(subject).into_iter().for_each(|it| *it += more);
    }

    fn since(&self, before: &BTreeMap<(PodName, Direction), u64>) -> BTreeMap<(PodName, Direction), u64> {
        let less = |(key, count): (&(PodName, Direction), &u64)| (key.clone(), count - before.get(key).copied().unwrap_or(0).min(*count));
        self.counted.iter().map(less).collect()
    }
}

fn called(side: &Side) -> String {
    match &side.name {
        Name::Pod(name) => name.to_string(),
        Name::Node(name) => format!("node {name}"),
        Name::Outside | Name::Forged => side.address.to_string(),
    }
}

#[cfg(test)]
mod tests;
