//! What a lab will look like: who runs where, with which addresses. A value; nothing is made here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use palisade_model::{Endpoint, EndpointId, Family, Labels, Model, NetworkId, Node, NodeId, Place, PodName, Reached, ServiceKind};

/// What the manifests leave open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub nodes: Nodes,
    pub families: Families,
    pub network: PodNetwork,
    pub unknown: WhileUnknown,
}

impl Default for Options {
    fn default() -> Self {
        let (nodes, families, network) = (Nodes::AsRead, Families::AsRead, PodNetwork::Routed);
        Options { nodes, families, network, unknown: WhileUnknown::CLOSED }
    }
}

/// Where pods go that say no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// On the nodes that were read; on two of the lab's own if there are none.
    AsRead,
    /// On this many nodes of the lab's own.
    Own(usize),
}

/// Which families everybody speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Families {
    /// Those of the addresses that were read; IPv4 for who has none.
    AsRead,
    Both,
}

/// How the pods of a node are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodNetwork {
    /// Each on a link of its own, routed by the node.
    Routed,
    /// All on one bridge.
    Bridged,
}

/// What becomes of pods whose links are there and whose policy is not in force yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhileUnknown {
    /// They are like anybody of the outside.
    Open,
    /// Nothing is from or for them on their own node, and to other nodes they are the worst that they could be.
    Closed {
        /// Where pods have their addresses from, besides what nodes say; empty for the lab's own choice.
        ranges: Vec<IpNet>,
        /// Addresses that are let through, since no pod has them.
        exempt: BTreeSet<IpAddr>,
    },
}

impl WhileUnknown {
    /// As a lab is if nobody says otherwise.
    pub const CLOSED: WhileUnknown = WhileUnknown::Closed { ranges: Vec::new(), exempt: BTreeSet::new() };

    /// Says which addresses are pods', known or not.
    fn close(&self, model: &mut Model, pools: &Pools) {
        match self {
            WhileUnknown::Open => model.pod_ranges = Vec::new(),
            WhileUnknown::Closed { ranges, exempt } if ranges.is_empty() => model.close_ranges(&pools.ranges_of_pods(), exempt),
            WhileUnknown::Closed { ranges, exempt } => model.close_ranges(ranges, exempt),
        }
    }
}

/// A whole lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What was read, with the nodes and addresses that were open filled in. Every verdict about the lab is asked of this.
    pub model: Model,
    pub network: PodNetwork,
    pub unknown: WhileUnknown,
    /// What was filled in, so that the next plan can do the same.
    pub(crate) given: Given,
}

/// Who was given what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    addresses: BTreeMap<(Whom, Family), IpAddr>,
    pools: Option<Pools>,
    node: BTreeMap<PodName, Box<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whom {
    Pod(PodName),
    Node(Box<str>),
    Service(Box<str>, Box<str>),
}

/// Why there can be no such lab.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("a lab has one node at least, and {MOST_NODES} at most; {0} were asked for")]
    Nodes(usize),
    #[error("{0} nodes are more than the {MOST_NODES} that fit a lab")]
    TooManyNodes(usize),
    #[error("{pods} pods are more than the {MOST_PODS} that fit a lab", pods = .0)]
    TooManyPods(usize),
}

const MOST_NODES: usize = 64;
/// Each pod is a network namespace; a kernel makes some thousands of them in a minute.
const MOST_PODS: usize = 2_000;

/// Fills in what the manifests leave open.
pub fn plan(read: &Model, options: &Options) -> Result<Plan, PlanError> {
    planned(read, options, Given::default())
}

impl Plan {
    /// The plan after a change of the manifests: what was filled in before stays as it was.
    pub fn next(&self, read: &Model, options: &Options) -> Result<Plan, PlanError> {
        planned(read, options, self.given.clone())
    }

    /// Pods that run on a node, with the addresses that are theirs.
    pub fn pods_of(&self, node: NodeId) -> impl Iterator<Item = (EndpointId, &Endpoint)> {
        let all = self.model.endpoints.iter().enumerate().map(|(at, endpoint)| (EndpointId(at), endpoint));
        all.filter(move |(_, endpoint)| endpoint.node == Some(node))
    }

    /// The addresses that a pod really has: one that two claim belongs to one of them.
    pub fn own_addresses(&self, id: EndpointId) -> Vec<IpAddr> {
        let all = self.model.endpoint(id).map_or(&[][..], |it| it.addresses.as_slice());
        owned(&self.model, all, Place::Pod(id))
    }

    /// The addresses that a node really has: one that a pod or an earlier node claims, too, is theirs.
    pub fn own_node_addresses(&self, id: NodeId) -> Vec<IpAddr> {
        owned(&self.model, self.model.node(id).map_or(&[][..], |it| it.addresses.as_slice()), Place::Node(id))
    }
}

/// Those of some addresses that belong to a place, each once.
fn owned(model: &Model, addresses: &[IpAddr], place: Place) -> Vec<IpAddr> {
    let mut own: Vec<IpAddr> = Vec::new();
    for address in addresses {
        if !own.contains(address) && model.place_of(NetworkId::DEFAULT, *address) == place {
            own.push(*address);
        }
    }
    own
}

fn planned(read: &Model, options: &Options, mut given: Given) -> Result<Plan, PlanError> {
    let mut model = read.clone();
    let homes = homes(&mut model, options.nodes)?;
    if model.nodes.len() > MOST_NODES {
        return Err(PlanError::TooManyNodes(model.nodes.len()));
    }
    if model.endpoints.len() > MOST_PODS {
        return Err(PlanError::TooManyPods(model.endpoints.len()));
    }
    settle(&mut model, &homes, &mut given);
    let pools = given.pools.get_or_insert_with(|| Pools::clear_of(read)).clone();
    let mut taken: BTreeSet<IpAddr> = model.addresses().collect();
    // What was given before keeps its address, so it must not go to somebody who is asked about first.
    taken.extend(given.addresses.values());
    let own: Vec<Vec<IpAddr>> = (0..).zip(&model.nodes).map(|(at, it)| owned(&model, &it.addresses, Place::Node(NodeId(at)))).collect();
    for (node, own) in model.nodes.iter_mut().zip(own) {
        let whom = Whom::Node(node.name.clone());
        for family in [Family::V4, Family::V6] {
            // A pod is reached by way of its node, so a node has both.
            if !has(&own, family) {
                node.addresses.push(given.address(&whom, family, &mut taken, || pools.of_nodes(family)));
            }
        }
    }
    for endpoint in &mut model.endpoints {
        let whom = Whom::Pod(endpoint.name.clone());
        let home = endpoint.node.map_or(0, |it| it.0);
        for family in wanted(&endpoint.addresses, options.families) {
            endpoint.addresses.push(given.address(&whom, family, &mut taken, || pools.of_pods(family, home)));
        }
    }
    for service in &mut model.services {
        let whom = Whom::Service(service.namespace.clone(), service.name.clone());
        let Reached::Virtual(addresses) = &mut service.reached else { continue };
        if !matches!(service.kind, ServiceKind::ExternalName(_)) {
            for family in wanted(addresses, options.families) {
                addresses.push(given.address(&whom, family, &mut taken, || pools.of_services(family)));
            }
        }
    }
    options.unknown.close(&mut model, &pools);
    Ok(Plan { model, network: options.network, unknown: options.unknown.clone(), given })
}

/// The nodes that take pods without one.
fn homes(model: &mut Model, wanted: Nodes) -> Result<Vec<NodeId>, PlanError> {
    let number = match wanted {
        Nodes::AsRead if !model.nodes.is_empty() => return Ok((0..model.nodes.len()).map(NodeId).collect()),
        Nodes::AsRead => 2,
        Nodes::Own(number) => number,
    };
    if !(1..=MOST_NODES).contains(&number) {
        return Err(PlanError::Nodes(number));
    }
    let known: BTreeSet<Box<str>> = model.nodes.iter().map(|it| it.name.clone()).collect();
    let names = (1..).map(|at| format!("lab-{at}").into_boxed_str()).filter(|it| !known.contains(it)).take(number);
    let first = model.nodes.len();
    model.nodes.extend(names.map(|name| Node {
        name,
        labels: Labels::default(),
        addresses: Vec::new(),
        host_pods: Vec::new(),
        assumed: true,
    }));
    Ok((first..model.nodes.len()).map(NodeId).collect())
}

/// Gives every pod a node: the one it had before, or the next in turn.
fn settle(model: &mut Model, homes: &[NodeId], given: &mut Given) {
    let names: BTreeMap<Box<str>, NodeId> = homes.iter().filter_map(|id| Some((model.node(*id)?.name.clone(), *id))).collect();
    let mut load: BTreeMap<NodeId, usize> = homes.iter().map(|id| (*id, 0)).collect();
    let settled = |endpoint: &Endpoint| given.node.get(&endpoint.name).and_then(|name| names.get(name)).copied();
    let before: Vec<Option<NodeId>> = model.endpoints.iter().map(settled).collect();
    for id in before.iter().flatten() {
        *load.entry(*id).or_default() += 1;
    }
    for (endpoint, before) in model.endpoints.iter_mut().zip(before) {
        if endpoint.node.is_some() {
            continue;
        }
        let next = || load.iter().min_by_key(|(id, count)| (**count, **id)).map(|(id, _)| *id);
        let Some(home) = before.or_else(next) else { continue };
        if before.is_none() {
            *load.entry(home).or_default() += 1;
        }
        endpoint.node = Some(home);
        if let Some(node) = model.nodes.get(home) {
            given.node.insert(endpoint.name.clone(), node.name.clone());
        }
    }
}

fn has(addresses: &[IpAddr], family: Family) -> bool {
    addresses.iter().any(|it| Family::of(*it) == family)
}

fn wanted(addresses: &[IpAddr], families: Families) -> Vec<Family> {
    match families {
        Families::AsRead if addresses.is_empty() => vec![Family::V4],
        Families::AsRead => Vec::new(),
        Families::Both => [Family::V4, Family::V6].into_iter().filter(|family| !has(addresses, *family)).collect(),
    }
}

impl Given {
    fn address(&mut self, whom: &Whom, family: Family, taken: &mut BTreeSet<IpAddr>, pool: impl FnOnce() -> Pool) -> IpAddr {
        let key = (whom.clone(), family);
        *self.addresses.entry(key).or_insert_with(|| {
            let address = pool().free(taken);
            taken.insert(address);
            address
        })
    }
}

/// Where addresses are taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pools {
    /// The first two bytes of IPv4.
    pods: [u8; 2],
    nodes: [u8; 2],
    services: [u8; 2],
    /// The second and third group of IPv6, in fd00::/16.
    pods6: u16,
    nodes6: u16,
    services6: u16,
}

/// Consecutive addresses from the first on.
struct Pool {
    first: IpAddr,
}

impl Pools {
    /// Ranges that no policy speaks of, if there are any: an address that nobody chose should not be hit by a rule by accident.
    fn clear_of(model: &Model) -> Pools {
        let blocks: Vec<IpNet> = model.ip_blocks().flat_map(|it| std::iter::once(it.cidr).chain(it.except.iter().copied())).collect();
        let mentioned: Vec<IpNet> = blocks.into_iter().filter(|it| it.prefix_len() > 0).collect();
        let taken: BTreeSet<IpAddr> = model.addresses().collect();
        let clear = |first: IpAddr| {
            let pool = IpNet::new_assert(first, if first.is_ipv4() { 16 } else { 48 });
            let spoken_of = mentioned.iter().any(|it| it.contains(&pool) || pool.contains(it));
            !spoken_of && !taken.iter().any(|it| pool.contains(it))
        };
        let choose = |of: &[[u8; 2]]| {
            let mut all = of.iter().copied();
            let first = all.clone().next().unwrap_or([10, 244]);
            all.find(|[a, b]| clear(IpAddr::from([*a, *b, 0, 0]))).unwrap_or(first)
        };
        let choose6 = |of: [u16; 3]| {
            let [first, ..] = of;
            of.into_iter().find(|it| clear(IpAddr::from([0xfd00, 0x10, *it, 0, 0, 0, 0, 0]))).unwrap_or(first)
        };
        Pools {
            pods: choose(&[[10, 244], [100, 70], [172, 28], [198, 18], [11, 44]]),
            nodes: choose(&[[172, 18], [100, 71], [172, 29], [198, 19], [11, 45]]),
            services: choose(&[[10, 96], [100, 72], [172, 30], [11, 46]]),
            pods6: choose6([0x244, 0x344, 0x444]),
            nodes6: choose6([0x18, 0x19, 0x20]),
            services6: choose6([0x96, 0x97, 0x98]),
        }
    }

    /// What `of_pods` takes addresses from, for all nodes together.
    fn ranges_of_pods(&self) -> [IpNet; 2] {
        let [a, b] = self.pods;
        let six = Ipv6Addr::new(0xfd00, 0x10, self.pods6, 0, 0, 0, 0, 0);
        [IpNet::new_assert(IpAddr::from([a, b, 0, 0]), 16), IpNet::new_assert(six.into(), 48)]
    }

    fn of_nodes(&self, family: Family) -> Pool {
        let [a, b] = self.nodes;
        let first = match family {
            Family::V4 => IpAddr::V4(Ipv4Addr::new(a, b, 0, 1)),
            Family::V6 => IpAddr::V6(Ipv6Addr::new(0xfd00, 0x10, self.nodes6, 0, 0, 0, 0, 1)),
        };
        Pool { first }
    }

    fn of_services(&self, family: Family) -> Pool {
        let [a, b] = self.services;
        let first = match family {
            Family::V4 => IpAddr::V4(Ipv4Addr::new(a, b, 0, 1)),
            Family::V6 => IpAddr::V6(Ipv6Addr::new(0xfd00, 0x10, self.services6, 0, 0, 0, 0, 1)),
        };
        Pool { first }
    }

    /// A range for each node: what people expect to see.
    fn of_pods(&self, family: Family, node: usize) -> Pool {
        let [a, b] = self.pods;
        // A node has room for 1,000 pods, and a lab for 64 nodes.
        let third = u8::try_from(node.saturating_mul(4)).unwrap_or(u8::MAX);
        let group = u16::try_from(node).unwrap_or(u16::MAX);
        let first = match family {
            Family::V4 => IpAddr::V4(Ipv4Addr::new(a, b, third, 2)),
            Family::V6 => IpAddr::V6(Ipv6Addr::new(0xfd00, 0x10, self.pods6, group, 0, 0, 0, 2)),
        };
        Pool { first }
    }
}

impl Pool {
    /// The first that nobody has.
    fn free(&self, taken: &BTreeSet<IpAddr>) -> IpAddr {
        let mut address = self.first;
        // There are fewer addresses taken than the pool has.
        while taken.contains(&address) {
            address = match address {
                IpAddr::V4(it) => IpAddr::V4(Ipv4Addr::from(u32::from(it).wrapping_add(1))),
                IpAddr::V6(it) => IpAddr::V6(Ipv6Addr::from(u128::from(it).wrapping_add(1))),
            };
        }
        address
    }
}
