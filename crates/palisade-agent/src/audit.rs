//! What audited policies would do on one node: the table that says it, and the book of what it said.
//!
//! Nothing here can change a verdict: the table has none, and whoever fails to write it has denied and allowed nothing by that.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use palisade_kernel::{Kernel, KernelError};
use palisade_model::{Direction, Model, NodeId, PodName, Policy};
use palisade_nft::{Audit, Becomes, Ids, Ruleset, Table, Transaction, Would, audit};
use palisade_report::audited::{SeenFlow, SeenOnNode};
use palisade_report::{Foreseen, foreseen, v1};

use crate::agent::{Checked, same};
use crate::book::Key;
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

/// Keeps the audit of one node.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    ids: Ids,
    /// What was applied last.
    wanted: Option<Audit>,
    standing: Standing,
    sets: BTreeMap<Box<str>, Set>,
    /// What numbers stand for, also those of the table before: its packets may still be on their way.
    woulds: BTreeMap<u32, Would>,
    flows: BTreeMap<FlowKey, WatchedFlow>,
    subjects: Subjects,
    lost: u64,
    failure: Option<String>,
}

/// What the table holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    AsLeft,
    /// Anything: somebody who died may have left it.
    #[default]
    Unknown,
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
    /// Brings the table to what the model wants. What goes wrong is kept for `failure`: policy is in force whatever becomes of this.
    pub(crate) fn apply<K: Kernel>(&mut self, kernel: &mut K, model: &Model, node: NodeId, now: Duration) {
        let counted = self.count(kernel);
        let wanted = audit(model, node, &mut self.ids);
        let written = self.write(kernel, wanted.as_ref());
        self.woulds = self.wanted.take().map(|it| it.woulds).unwrap_or_default();
        self.woulds.extend(wanted.iter().flat_map(|it| it.woulds.clone()));
        self.restart_edited(model, now);
        self.subjects.know(model, wanted.as_ref());
        self.wanted = wanted;
        self.standing = if written.is_ok() { Standing::AsLeft } else { Standing::Unknown };
        self.failure = counted.and(written).err().map(|error| format!("audit: {error}"));
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

    /// Holds the table against what was applied, and puts that back if it is not there.
    pub(crate) fn check<K: Kernel>(&mut self, kernel: &mut K) -> Result<Checked, KernelError> {
        let Some(wanted) = &self.wanted else { return Ok(Checked::NothingWanted) };
        let checked = match kernel.dump_of(Table::Audit) {
            Ok(Some(found)) if same(&found, &wanted.ruleset) => return Ok(Checked::Intact),
            Ok(None) => Checked::WasRemoved,
            Ok(Some(_)) | Err(KernelError::Foreign { .. }) => Checked::WasChanged,
            Err(error) => return Err(error),
        };
        let ruleset = wanted.ruleset.clone();
        self.load(kernel, &ruleset)?;
        self.standing = Standing::AsLeft;
        Ok(checked)
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

    /// What is known by now, set by set.
    pub(crate) fn watched<K: Kernel>(&mut self, kernel: &mut K) -> Result<Vec<Watched>, KernelError> {
        self.count(kernel)?;
        let of = |name: &str, set: &Set| Watched {
            set: name.into(),
            since: set.since,
            flows: self.flows.values().filter(|it| *it.would.set == *name).cloned().collect(),
            subjects: self.subjects.since(&set.before),
            not_kept: set.not_kept,
            lost: self.lost - set.lost_before,
        };
        Ok(self.sets.iter().map(|(name, set)| of(name, set)).collect())
    }

    /// Reads what the chains of the subjects have counted.
    fn count<K: Kernel>(&mut self, kernel: &mut K) -> Result<(), KernelError> {
        if self.wanted.is_none() || self.standing == Standing::Unknown {
            return Ok(());
        }
        for counted in kernel.counters_of(Table::Audit)? {
            if counted.index == 0 {
                self.subjects.show(&counted.chain, counted.packets);
            }
        }
        Ok(())
    }

    fn write<K: Kernel>(&mut self, kernel: &mut K, wanted: Option<&Audit>) -> Result<(), KernelError> {
        match (&self.wanted, wanted, self.standing) {
            (None, None, Standing::AsLeft) => Ok(()),
            (_, None, _) => kernel.commit(&Transaction::unload_of(Table::Audit)),
            (Some(before), Some(wanted), Standing::AsLeft) => {
                let changes = Transaction { table: Table::Audit, ..wanted.ruleset.changes_since(&before.ruleset) };
                // What somebody else did to it is undone by writing all of it.
                kernel.commit(&changes).or_else(|_| self.load(kernel, &wanted.ruleset))
            }
            (_, Some(wanted), _) => self.load(kernel, &wanted.ruleset),
        }
    }

    /// Writes all of the table. Its counters begin anew.
    fn load<K: Kernel>(&mut self, kernel: &mut K, ruleset: &Ruleset) -> Result<(), KernelError> {
        kernel.commit(&Transaction::load_into(Table::Audit, ruleset))?;
        self.subjects.shown.values_mut().for_each(|(_, packets)| *packets = 0);
        Ok(())
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
    fn know(&mut self, model: &Model, audit: Option<&Audit>) {
        let mut counted = BTreeMap::new();
        let mut shown = BTreeMap::new();
        for (chain, (id, direction)) in audit.into_iter().flat_map(|it| &it.subjects) {
            let Some(endpoint) = model.endpoint(*id) else { continue };
            let key = (endpoint.name.clone(), *direction);
            counted.insert(key.clone(), self.counted.get(&key).copied().unwrap_or(0));
            shown.insert(chain.clone(), (key, self.shown.get(chain).map_or(0, |it| it.1)));
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
