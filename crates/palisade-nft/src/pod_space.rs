//! Rulesets in the network namespaces of pods, for networks whose packets the node does not see.
//!
//! Each endpoint has a table of its own there. It has the program, class and leaf chains of a node's table, with one subject: the endpoint, known by its
//! interfaces and not by its addresses. So a packet for a multicast address, or for an address of another interface, meets the policy of the interface.
//!
//! The hooks `input` and `output` see packets for and from processes of the pod, `forward` those that the pod routes between its interfaces.
//!
//! An endpoint whose address is not known, or is the address of another pod, is closed: no connection begins, and only neighbour discovery passes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use palisade_engine::Compiled;
use palisade_model::{Direction, Endpoint, EndpointId, Enforcement, Model, NodeId, PerDirection, Place, PodName};

use crate::ids::Ids;
use crate::lower::{NodeView, first_rules, guard_rule, lower};
use crate::naming::{programs_map, selves, subject_map};
use crate::ruleset::{
    Address, AddressSet, Chain, CtState, End, Guard, Hook, IntervalMap, LinkName, Match, Neighbour, PairSet, Rule, Ruleset, Statement,
    Value, Verdict,
};
use crate::transaction::Table;
use crate::unknown::Unknown;

/// The network namespace that a table is in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Space {
    /// That of the node.
    Host,
    /// That of a pod. Endpoints of the same pod on other networks have tables of their own beside it.
    Pod {
        /// The pod.
        pod: PodName,
        /// The name of the network.
        network: Box<str>,
    },
}

/// Names one table among all tables of a node and its pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableId {
    pub space: Space,
    pub table: Table,
}

impl TableId {
    /// The name of the table in its network namespace.
    pub fn name(&self) -> String {
        match &self.space {
            Space::Host => self.table.name().to_owned(),
            Space::Pod { network, .. } => format!("{}-{network}", self.table.name()),
        }
    }
}

/// The tables of one network in the namespaces of a node's pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodTables {
    pub tables: BTreeMap<TableId, Ruleset>,
    /// Endpoints of the node that no table is about, because the names of their interfaces are not known.
    pub without_interface: Vec<EndpointId>,
}

/// The tables of one network for the endpoints of a node. `compiled` is what that network of `model` compiles to. None are needed for a network that
/// is enforced by hooks of the node, or nowhere.
pub fn lower_pods(model: &Model, compiled: &Compiled, node: NodeId, ids: &mut Ids) -> PodTables {
    let mut found = PodTables::default();
    let Some(network) = model.network(compiled.network()) else { return found };
    match network.enforcement {
        Enforcement::HostHooks | Enforcement::None(_) => return found,
        Enforcement::PodNamespace => {}
    }
    let model = &*model.on_network(compiled.network());
    let of_node = lower(model, compiled, &NodeView { node, links: BTreeMap::new(), unknown: Unknown::Open }, ids);
    let owners = owners(model, node);
    for (id, endpoint) in model.endpoints.iter_ids().filter(|(_, it)| it.node == Some(node)) {
        if endpoint.interfaces().is_empty() {
            found.without_interface.push(id);
            continue;
        }
        let space = Space::Pod { pod: endpoint.name.clone(), network: network.name.clone() };
        found.tables.insert(TableId { space, table: Table::Own }, of_endpoint(&of_node, endpoint, &own(&owners, id, endpoint), ids));
    }
    found
}

/// The owners of all addresses that endpoints of a node claim. Says of each what `Model::place_of` does.
fn owners(model: &Model, node: NodeId) -> BTreeMap<IpAddr, EndpointId> {
    let local = model.endpoints.iter_ids().filter(|(_, it)| it.node == Some(node));
    let mut owners: BTreeMap<IpAddr, EndpointId> =
        local.flat_map(|(id, it)| it.addresses.iter().map(move |address| (*address, id))).collect();
    for (id, endpoint) in model.endpoints.iter_ids() {
        for address in &endpoint.addresses {
            let Some(owner) = owners.get_mut(address) else { continue };
            if model.claim_order(Place::Pod(id), Place::Pod(*owner)).is_lt() {
                *owner = id;
            }
        }
    }
    owners
}

/// Addresses of an endpoint that are not the addresses of another pod.
fn own(owners: &BTreeMap<IpAddr, EndpointId>, id: EndpointId, endpoint: &Endpoint) -> Vec<IpAddr> {
    endpoint.addresses.iter().copied().filter(|it| owners.get(it) == Some(&id)).collect()
}

/// The chain that judges packets of one direction, as they pass an interface of the endpoint.
fn attached(direction: Direction) -> String {
    format!("attached-{direction}")
}

fn own_set(family: Address) -> String {
    format!("own{}", family.digit())
}

/// The part of a node's ruleset that is about one endpoint, with hooks at its interfaces.
fn of_endpoint(of_node: &Ruleset, endpoint: &Endpoint, own: &[IpAddr], ids: &mut Ids) -> Ruleset {
    let programs = Direction::BOTH.map(|direction| programs_of(of_node, own, direction));
    let [Some(egress), Some(ingress)] = programs else { return with_hooks(Ruleset::default(), endpoint, Begins::Never, ids) };
    let programs = PerDirection { egress, ingress };
    let mut ruleset = of_node.clone();
    ruleset.chains.retain(|_, chain| chain.hook.is_none());
    for family in Address::BOTH {
        let own: BTreeSet<IpAddr> = own.iter().copied().filter(|it| Address::of(*it) == family).collect();
        ruleset.pairs.insert(selves(family), PairSet { family, elements: own.iter().map(|it| (*it, *it)).collect() });
        for direction in Direction::BOTH {
            let name = subject_map(direction, family);
            ruleset.data.remove(&name);
            let (first, last) = whole(family);
            let elements = [(first, (last, programs.of(direction).of(family)))].into();
            ruleset.intervals.insert(name, IntervalMap { family, elements });
        }
        ruleset.addresses.insert(own_set(family), AddressSet { family, elements: own });
    }
    for direction in Direction::BOTH {
        let of_endpoint = programs.of(direction);
        let used = |number: &u32| Address::BOTH.iter().any(|family| of_endpoint.of(*family) == *number);
        if let Some(map) = ruleset.verdicts.get_mut(&programs_map(direction)) {
            map.elements.retain(|number, _| used(number));
        }
    }
    let mut ruleset = with_hooks(ruleset, endpoint, Begins::ByPolicy, ids);
    prune(&mut ruleset);
    ruleset
}

/// The number of an endpoint's program in one direction, by family.
#[derive(Clone, Copy, Debug)]
struct Programs {
    v4: u32,
    v6: u32,
}

impl Programs {
    fn of(self, family: Address) -> u32 {
        match family {
            Address::V4 => self.v4,
            Address::V6 => self.v6,
        }
    }
}

/// None if the endpoint owns no address. In a family that it has no address of, the program of the other family judges.
fn programs_of(of_node: &Ruleset, own: &[IpAddr], direction: Direction) -> Option<Programs> {
    let number = |family: Address| {
        let map = of_node.data.get(&subject_map(direction, family))?;
        own.iter().find_map(|it| map.elements.get(it)).copied()
    };
    let (v4, v6) = (number(Address::V4), number(Address::V6));
    Some(Programs { v4: v4.or(v6)?, v6: v6.or(v4)? })
}

fn whole(family: Address) -> (IpAddr, IpAddr) {
    match family {
        Address::V4 => (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::BROADCAST.into()),
        Address::V6 => (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::from_bits(u128::MAX).into()),
    }
}

/// Which connections may begin at the interfaces of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    ByPolicy,
    Never,
}

/// Adds the base chains and the chains that they jump to.
fn with_hooks(mut ruleset: Ruleset, endpoint: &Endpoint, begins: Begins, ids: &mut Ids) -> Ruleset {
    for direction in Direction::BOTH {
        // A forwarded packet may pass two interfaces of the endpoint, so that no rule may accept it for both.
        let first = first_rules(ids, &mut ruleset).into_iter();
        let mut rules: Vec<Rule> =
            first.map(|it| if it.statements == [accept()] { Rule { statements: vec![back()], ..it } } else { it }).collect();
        rules.extend(listeners().map(|it| Rule::to(Verdict::Return).when(it)));
        if begins == Begins::ByPolicy {
            rules.push(guard_rule(Guard::NotABeginning, ids, &mut ruleset).when(Match::Ct(CtState::New)).when(Match::NotSyn));
            rules.push(Rule::to(Verdict::Jump(direction.to_string())));
            // The number must not reach a queueing discipline.
            rules.push(Rule::set(Value::Zero));
        } else {
            rules.push(guard_rule(Guard::UnknownPod, ids, &mut ruleset));
        }
        ruleset.chains.insert(attached(direction), Chain { hook: None, rules });
    }
    let arriving = jumps(endpoint, End::Source, &attached(Direction::Ingress));
    let leaving = jumps(endpoint, End::Destination, &attached(Direction::Egress));
    let bound = bind_source(endpoint, begins, ids, &mut ruleset);
    let input = Chain { hook: Some(Hook::Input), rules: arriving.clone() };
    let forward = Chain { hook: Some(Hook::Forward), rules: [arriving, leaving.clone()].concat() };
    let output = Chain { hook: Some(Hook::Output), rules: [bound, leaving].concat() };
    for (name, chain) in [("input", input), ("forward", forward), ("output", output)] {
        ruleset.chains.insert(name.to_owned(), chain);
    }
    ruleset
}

/// Drops what a process of the pod sends by an interface with a source of another interface: on this network that address may be another pod's.
fn bind_source(endpoint: &Endpoint, begins: Begins, ids: &mut Ids, ruleset: &mut Ruleset) -> Vec<Rule> {
    const CHAIN: &str = "sources";
    if begins == Begins::Never {
        return Vec::new();
    }
    let own = Address::BOTH.map(|family| Match::In { end: End::Source, family, set: own_set(family) });
    let passing = own.into_iter().chain([Match::NeighbourDiscovery]).chain(listeners());
    let mut rules: Vec<Rule> = passing.map(|it| Rule::to(Verdict::Return).when(it)).collect();
    rules.push(guard_rule(Guard::ForgedSource, ids, ruleset));
    ruleset.chains.insert(CHAIN.to_owned(), Chain { hook: None, rules });
    jumps(endpoint, End::Destination, CHAIN)
}

/// Jumps to a chain for packets that come in by an interface of the endpoint, or leave by one.
fn jumps(endpoint: &Endpoint, end: End, to: &str) -> Vec<Rule> {
    let names = endpoint.interfaces().iter().map(|it| LinkName::Whole(it.to_string()));
    names.map(|name| Rule::to(Verdict::Jump(to.to_owned())).when(Match::Link { end, name })).collect()
}

fn accept() -> Statement {
    Statement::Verdict(Verdict::Accept)
}

fn back() -> Statement {
    Statement::Verdict(Verdict::Return)
}

fn listeners() -> impl Iterator<Item = Match> {
    let neighbours = [Neighbour::Unspecified, Neighbour::LinkLocal].into_iter();
    neighbours.flat_map(|it| [Match::ListenerDiscoveryFrom(it), Match::ListenerReportFrom(it)])
}

/// Removes everything that no packet comes to.
fn prune(ruleset: &mut Ruleset) {
    let mut chains: BTreeSet<String> = BTreeSet::new();
    let (mut maps, mut origins): (BTreeSet<String>, BTreeSet<u32>) = Default::default();
    let mut open: Vec<String> = ruleset.chains.iter().filter(|(_, it)| it.hook.is_some()).map(|(name, _)| name.clone()).collect();
    while let Some(name) = open.pop() {
        let Some(chain) = ruleset.chains.get(&name).filter(|_| !chains.contains(&name)) else { continue };
        for statement in chain.rules.iter().flat_map(|it| &it.statements) {
            match statement {
                Statement::Verdict(Verdict::Jump(to) | Verdict::Goto(to)) => open.push(to.clone()),
                Statement::Look(map) => {
                    open.extend(ruleset.verdicts.get(map).into_iter().flat_map(|it| it.elements.values().cloned()));
                    maps.insert(map.clone());
                }
                Statement::Log(number) => drop(origins.insert(*number)),
                Statement::Verdict(_) | Statement::Set(_) | Statement::Counter | Statement::Would(_) | Statement::LookTuple { .. } => {}
            }
        }
        chains.insert(name);
    }
    ruleset.chains.retain(|name, _| chains.contains(name));
    ruleset.verdicts.retain(|name, _| maps.contains(name));
    ruleset.origins.retain(|number, _| origins.contains(number));
}
