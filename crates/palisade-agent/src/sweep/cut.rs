//! Connections that were ended, as people are told of them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_model::PodName;
use palisade_report::{Ended, EndedBy, ended, v1};

use crate::denial::{DeniedBy, Name, Side, protocol};
use crate::names::Names;
use crate::sweep::judge::Opening;

/// How many groups are told one by one.
const TOLD: usize = 100;

/// All connections that were ended after a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    /// How many there were.
    pub connections: u64,
    /// Those that are told one by one, the largest groups first. All of them, unless they are very many.
    pub told: Vec<Cut>,
}

/// Connections that differ in nothing but the port of who opened them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub source: Side,
    /// After any Service.
    pub destination: Side,
    /// The IP protocol.
    pub protocol: u8,
    /// For protocols that have ports.
    pub port: Option<u16>,
    pub by: CutBy,
    pub connections: u64,
}

/// Why connections were ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CutBy {
    /// This denies them now.
    Denied(DeniedBy),
    /// The pod at one end is gone.
    Gone(PodName),
}

impl Cuts {
    /// How many of them are not told one by one.
    pub fn others(&self) -> u64 {
        self.connections.saturating_sub(self.told.iter().map(|it| it.connections).sum())
    }
}

impl Cut {
    /// As it leaves the house.
    pub fn report(&self, node: &str) -> v1::Cut {
        let Cut { source, destination, port, connections, .. } = self;
        let (from, to, protocol) = (source.report(), destination.report(), protocol(self.protocol));
        let gone;
        let by = match &self.by {
            CutBy::Denied(by) => EndedBy::Denied(by.decided()),
            CutBy::Gone(pod) => {
                gone = pod.to_string();
                EndedBy::Gone(&gone)
            }
        };
        ended(Ended { node, from, to, protocol, port: *port, by, connections: *connections })
    }
}

/// Whose connection was ended, and why.
#[derive(Clone, Debug)]
pub(crate) struct Why {
    source: Side,
    destination: Side,
    by: CutBy,
}

impl Why {
    pub(crate) fn denied(opening: Opening, by: DeniedBy, names: &Names) -> Why {
        let [source, destination] = opening.ends().map(|it| names.side(it));
        Why { source, destination, by: CutBy::Denied(by) }
    }

    /// `left` names the pods that had an address until now.
    pub(crate) fn gone(opening: Opening, pod: &PodName, left: &BTreeMap<IpAddr, PodName>, names: &Names) -> Why {
        let side = |address: IpAddr| match left.get(&address) {
            Some(pod) => Side { address, name: Name::Pod(pod.clone()) },
            None => names.side(address),
        };
        let [source, destination] = opening.ends().map(side);
        Why { source, destination, by: CutBy::Gone(pod.clone()) }
    }
}

/// Counts connections as they are ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    groups: BTreeMap<Opening, Cut>,
}

impl Tally {
    pub(crate) fn add(&mut self, opening: Opening, why: Why) {
        let Opening { protocol, port, .. } = opening;
        let Why { source, destination, by } = why;
        let group = self.groups.entry(opening).or_insert(Cut { source, destination, protocol, port, by, connections: 0 });
        group.connections += 1;
    }

    pub(crate) fn absorb(&mut self, other: Tally) {
        for (opening, cut) in other.groups {
            match self.groups.get_mut(&opening) {
                Some(group) => group.connections += cut.connections,
                None => drop(self.groups.insert(opening, cut)),
            }
        }
    }

    pub(crate) fn cuts(self) -> Cuts {
        let connections = self.groups.values().map(|it| it.connections).sum();
        let mut told: Vec<Cut> = self.groups.into_values().collect();
        told.sort_by_key(|it| std::cmp::Reverse(it.connections));
        told.truncate(TOLD);
        Cuts { connections, told }
    }
}
