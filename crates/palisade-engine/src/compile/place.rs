//! Every end in its place: pods in cells, cells in pairs.

use std::net::IpAddr;

use palisade_model::{ContainerPort, Endpoint, EndpointId, Labels, Model, NetworkId, Node, NodeAddresses, NodeId, PerDirection, Policy};
use rustc_hash::FxHashMap;

use crate::compile::by_slot::BySlot;
use crate::compile::intern::{Interned, Lists, index, number};
use crate::compile::policies::{About, Key, Memo, Policies, Stored, Tiers};
use crate::compile::ports::base;
use crate::compile::prefixes::NOWHERE;
use crate::compile::relations::{Relations, Turn};
use crate::compile::rules::{News, Parts};
use crate::compile::slab::{Slab, join, leave};
use crate::compile::{At, Compiled, Foreign, Kind, Placed, PlacedNode, Program};

/// Namespaces, and what policy makes of the pods in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spaces {
    pub(crate) all: Vec<Space>,
    by_name: FxHashMap<u32, u32>,
    pub(crate) cells: Slab<Cell>,
    cell_of: FxHashMap<(u32, u32), u32>,
    pub(crate) pairs: Slab<Pair>,
    pair_of: FxHashMap<(u32, u32), u32>,
    /// Pairs by the labels of the namespace, and by those of the pod.
    pub(crate) by_namespace: FxHashMap<u32, Vec<u32>>,
    pub(crate) by_pod: FxHashMap<u32, Vec<u32>>,
}

/// A namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Space {
    pub(crate) name: u32,
    /// Its labels as they were read, and reduced.
    pub(crate) read: u32,
    pub(crate) labels: u32,
    pub(crate) cells: Vec<u32>,
    /// Its own policies: the selector over its pods, the policy. Those that want something, and those that hold by default.
    pub(crate) wanting: Vec<(u32, u32)>,
    pub(crate) by_default: Vec<(u32, u32)>,
}

/// Pods of one namespace with one set of labels.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) space: u32,
    pub(crate) labels: u32,
    pub(crate) pair: u32,
    /// Policies of the namespace that select it.
    pub(crate) own: u32,
    pub(crate) tiers: Tiers,
    pub(crate) pods: Vec<u32>,
    /// Its seats in the namespace and in the pair.
    in_space: u32,
    in_pair: u32,
}

/// What cluster policies make of a namespace's and a pod's labels.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) of_namespace: u32,
    pub(crate) of_pod: u32,
    /// What others see.
    pub(crate) view: u32,
    /// Policies that select it.
    pub(crate) selecting: u32,
    pub(crate) cells: Vec<u32>,
    /// Its seats among those with the same labels.
    in_namespace: u32,
    in_pod: u32,
}

/// A namespace with this few policies of its own is asked policy by policy.
const FEW: usize = 24;

impl Spaces {
    pub(crate) fn find(&self, name: u32) -> Option<u32> {
        self.by_name.get(&name).copied()
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Space> {
        self.all.get(index(id))
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Space> {
        self.all.get_mut(index(id))
    }
}

pub(crate) fn place(model: &Model) -> Compiled {
    let mut compiled = Compiled::empty();
    // Names of pods and of policies are rarely the same.
    compiled.parts.symbols.reserve(model.endpoints.len() + model.policies.len());
    compiled.pods.reserve(model.endpoints.slot_count());
    compiled.policies.reserve(model.policies.len());
    let mut news = News::default();
    let mut put = |compiled: &mut Compiled, key: Key, policy: &Policy| {
        let stored = Stored::add(policy, key, &mut compiled.parts, &mut compiled.policies.subjects, &mut news);
        compiled.put_policy(stored);
    };
    let turns = compiled.relate(model);
    for policy in &model.policies {
        if compiled.relations.has(&policy.origin) {
            continue;
        }
        let key = Key::of(&policy.origin, &mut compiled.parts.symbols);
        put(&mut compiled, key, policy);
    }
    for Turn { key, policy } in turns {
        policy.iter().for_each(|it| put(&mut compiled, key, it));
    }
    for (name, namespace) in &model.namespaces {
        let id = compiled.space(name);
        compiled.label_space(id, &namespace.labels);
    }
    for (id, node) in model.nodes.iter_ids() {
        compiled.set_node(id, node);
    }
    // Pods are in the order of their names, so that most are in the namespace of the one before.
    let mut last: (&str, u32) = ("", u32::MAX);
    for (id, endpoint) in model.endpoints.iter_ids() {
        if last.1 == u32::MAX || *last.0 != *endpoint.name.namespace {
            last = (&endpoint.name.namespace, compiled.space(&endpoint.name.namespace));
        }
        compiled.enter_pod(id, endpoint, last.1);
        compiled.settle(number(id.0));
    }
    compiled.see_outside();
    compiled.born = compiled.size();
    compiled
}

impl Compiled {
    /// No policies, no ends.
    fn empty() -> Compiled {
        let mut empty = Compiled {
            parts: Parts::default(),
            policies: Policies::default(),
            relations: Relations::default(),
            slots: Lists::default(),
            memo: Memo::default(),
            views: Lists::default(),
            ports: Lists::default(),
            port_views: Lists::default(),
            foreign: Interned::default(),
            programs: PerDirection::default(),
            spaces: Spaces::default(),
            pods: BySlot::default(),
            nodes: BySlot::default(),
            born: 0,
            network: NetworkId::DEFAULT,
            node_addresses: NodeAddresses::Present,
        };
        // The first list of each is the empty one.
        for lists in [&mut empty.slots, &mut empty.views, &mut empty.ports, &mut empty.port_views, &mut empty.parts.lists] {
            lists.intern(&[]);
        }
        for selectors in [&mut empty.parts.namespaces, &mut empty.parts.pods, &mut empty.parts.nodes] {
            let nothing = selectors.read(&Labels::default(), &mut empty.parts.symbols);
            selectors.reduce(nothing);
        }
        empty
    }

    /// Notes a policy, and whose it is.
    pub(crate) fn put_policy(&mut self, policy: Stored) -> u32 {
        let about = policy.about;
        let id = self.policies.insert(policy);
        if let About::Own { namespace, pods } = about {
            let space = self.space_of(namespace);
            let by_default = self.parts.pods.default_of(pods);
            if let Some(space) = self.spaces.get_mut(space) {
                let list = if by_default { &mut space.by_default } else { &mut space.wanting };
                let at = list.partition_point(|it| *it < (pods, id));
                list.insert(at, (pods, id));
            }
        }
        id
    }

    /// Takes a policy out.
    pub(crate) fn take_policy(&mut self, id: u32) -> Option<Stored> {
        let policy = self.policies.remove(id)?;
        if let About::Own { namespace, .. } = policy.about
            && let Some(space) = self.spaces.find(namespace).and_then(|it| self.spaces.get_mut(it))
        {
            space.wanting.retain(|it| it.1 != id);
            space.by_default.retain(|it| it.1 != id);
        }
        Some(policy)
    }

    /// The number of a namespace. One that nobody has described has no labels.
    pub(crate) fn space(&mut self, name: &str) -> u32 {
        let name = self.parts.symbols.intern(name);
        self.space_of(name)
    }

    fn space_of(&mut self, name: u32) -> u32 {
        let known = number(self.spaces.all.len());
        let id = *self.spaces.by_name.entry(name).or_insert(known);
        if id == known {
            // The first set of labels is the empty one.
            self.spaces.all.push(Space { name, ..Space::default() });
        }
        id
    }

    /// Notes the labels of a namespace; true if policy can tell them from those it had.
    pub(crate) fn label_space(&mut self, id: u32, labels: &Labels) -> bool {
        let read = self.parts.namespaces.read(labels, &mut self.parts.symbols);
        if let Some(space) = self.spaces.get_mut(id) {
            space.read = read;
        }
        self.reduce_space(id)
    }

    /// Reduces the labels of a namespace anew; true if they come to something else.
    pub(crate) fn reduce_space(&mut self, id: u32) -> bool {
        let Some(space) = self.spaces.get_mut(id) else { return false };
        let labels = self.parts.namespaces.reduce(space.read);
        std::mem::replace(&mut space.labels, labels) != labels
    }

    /// The cell of pods with some labels in a namespace.
    fn cell(&mut self, space: u32, labels: u32) -> u32 {
        if let Some(known) = self.spaces.cell_of.get(&(space, labels)) {
            return *known;
        }
        let of_namespace = self.spaces.get(space).map_or(0, |it| it.labels);
        let pair = self.pair(of_namespace, labels);
        let own = self.own_policies(space, labels);
        let selecting = self.spaces.pairs.get(pair).map_or(0, |it| it.selecting);
        let tiers = self.policies.tiers(selecting, own, &self.slots, &mut self.parts, &mut self.memo);
        let spaces = &mut self.spaces;
        let id = spaces.cells.insert(Cell { space, labels, pair, own, tiers, pods: Vec::new(), in_space: 0, in_pair: 0 });
        spaces.cell_of.insert((space, labels), id);
        let in_space = spaces.all.get_mut(index(space)).map_or(0, |it| join(&mut it.cells, id));
        let in_pair = spaces.pairs.get_mut(pair).map_or(0, |it| join(&mut it.cells, id));
        if let Some(cell) = spaces.cells.get_mut(id) {
            (cell.in_space, cell.in_pair) = (in_space, in_pair);
        }
        id
    }

    /// The policies of a namespace that select pods with some labels.
    pub(crate) fn own_policies(&mut self, space: u32, labels: u32) -> u32 {
        let Compiled { spaces, parts, slots, .. } = self;
        let Some(space) = spaces.get(space) else { return 0 };
        let mut found: Vec<u32> = Vec::new();
        if space.wanting.len() + space.by_default.len() <= FEW {
            let all = space.wanting.iter().chain(&space.by_default);
            found.extend(all.filter(|it| parts.pods.holds(it.0, labels)).map(|it| it.1));
        } else {
            parts.pods.prepare(labels);
            let deviating = parts.pods.deviating(labels);
            for selector in deviating {
                let first = space.wanting.partition_point(|it| it.0 < *selector);
                let of_selector = space.wanting.iter().skip(first).take_while(|it| it.0 == *selector);
                found.extend(of_selector.map(|it| it.1));
            }
            found.extend(space.by_default.iter().filter(|it| deviating.binary_search(&it.0).is_err()).map(|it| it.1));
        }
        found.sort_unstable();
        slots.intern(&found)
    }

    /// The pair of a namespace's and a pod's labels.
    fn pair(&mut self, of_namespace: u32, of_pod: u32) -> u32 {
        if let Some(known) = self.spaces.pair_of.get(&(of_namespace, of_pod)) {
            return *known;
        }
        let (view, selecting) = (self.look(of_namespace, of_pod), self.selecting(of_namespace, of_pod));
        let spaces = &mut self.spaces;
        let new = Pair { of_namespace, of_pod, view, selecting, cells: Vec::new(), in_namespace: 0, in_pod: 0 };
        let id = spaces.pairs.insert(new);
        spaces.pair_of.insert((of_namespace, of_pod), id);
        let in_namespace = join(spaces.by_namespace.entry(of_namespace).or_default(), id);
        let in_pod = join(spaces.by_pod.entry(of_pod).or_default(), id);
        if let Some(pair) = spaces.pairs.get_mut(id) {
            (pair.in_namespace, pair.in_pod) = (in_namespace, in_pod);
        }
        id
    }

    /// What others see of pods with these labels.
    fn look(&mut self, of_namespace: u32, of_pod: u32) -> u32 {
        let Parts { namespaces, pods, peers, .. } = &mut self.parts;
        namespaces.prepare(of_namespace);
        pods.prepare(of_pod);
        self.views.intern(&peers.deviating(namespaces.deviating(of_namespace), pods.deviating(of_pod)))
    }

    /// The policies that select pods with these labels.
    pub(crate) fn selecting(&mut self, of_namespace: u32, of_pod: u32) -> u32 {
        let Parts { namespaces, pods, .. } = &mut self.parts;
        namespaces.prepare(of_namespace);
        pods.prepare(of_pod);
        self.slots.intern(&self.policies.selecting(namespaces.deviating(of_namespace), pods.deviating(of_pod)))
    }

    /// Moves a cell to the pair of its namespace's present labels.
    pub(crate) fn pair_again(&mut self, cell: u32) {
        let Some((space, labels)) = self.spaces.cells.get(cell).map(|it| (it.space, it.labels)) else { return };
        let of_namespace = self.spaces.get(space).map_or(0, |it| it.labels);
        let pair = self.pair(of_namespace, labels);
        self.leave_pair(cell);
        let seat = self.spaces.pairs.get_mut(pair).map_or(0, |it| join(&mut it.cells, cell));
        if let Some(cell) = self.spaces.cells.get_mut(cell) {
            (cell.pair, cell.in_pair) = (pair, seat);
        }
    }

    fn leave_pair(&mut self, cell: u32) {
        let spaces = &mut self.spaces;
        let Some((id, seat)) = spaces.cells.get(cell).map(|it| (it.pair, it.in_pair)) else { return };
        let Some(pair) = spaces.pairs.get_mut(id) else { return };
        if let Some(moved) = leave(&mut pair.cells, seat).and_then(|it| spaces.cells.get_mut(it)) {
            moved.in_pair = seat;
        }
        if !pair.cells.is_empty() {
            return;
        }
        let Some(pair) = spaces.pairs.remove(id) else { return };
        spaces.pair_of.remove(&(pair.of_namespace, pair.of_pod));
        if let Some(moved) = leave(spaces.by_namespace.entry(pair.of_namespace).or_default(), pair.in_namespace) {
            spaces.pairs.get_mut(moved).into_iter().for_each(|it| it.in_namespace = pair.in_namespace);
        }
        if let Some(moved) = leave(spaces.by_pod.entry(pair.of_pod).or_default(), pair.in_pod) {
            spaces.pairs.get_mut(moved).into_iter().for_each(|it| it.in_pod = pair.in_pod);
        }
    }

    /// Puts a pod into the cell of its labels.
    pub(crate) fn enter_cell(&mut self, id: u32) {
        let Some((space, read)) = self.pods.get(id).map(|it| (it.namespace, it.read)) else { return };
        let labels = self.parts.pods.reduce(read);
        let cell = self.cell(space, labels);
        let seat = self.spaces.cells.get_mut(cell).map_or(0, |it| join(&mut it.pods, id));
        if let Some(pod) = self.pods.get_mut(id) {
            (pod.labels, pod.cell, pod.seat) = (labels, cell, seat);
        }
    }

    /// Takes a pod out of its cell. A cell without pods is forgotten.
    pub(crate) fn leave_cell(&mut self, id: u32) {
        let Some((cell, seat)) = self.pods.get(id).map(|it| (it.cell, it.seat)) else { return };
        let Some(of_pod) = self.spaces.cells.get_mut(cell) else { return };
        if let Some(moved) = leave(&mut of_pod.pods, seat).and_then(|it| self.pods.get_mut(it)) {
            moved.seat = seat;
        }
        if !of_pod.pods.is_empty() {
            return;
        }
        self.leave_pair(cell);
        let spaces = &mut self.spaces;
        let Some(gone) = spaces.cells.remove(cell) else { return };
        spaces.cell_of.remove(&(gone.space, gone.labels));
        let moved = spaces.all.get_mut(index(gone.space)).and_then(|it| leave(&mut it.cells, gone.in_space));
        if let Some(moved) = moved.and_then(|it| spaces.cells.get_mut(it)) {
            moved.in_space = gone.in_space;
        }
    }

    /// A new pod, in its cell; it is settled after that.
    pub(crate) fn enter_pod(&mut self, EndpointId(slot): EndpointId, endpoint: &Endpoint, namespace: u32) {
        let read = self.parts.pods.read(&endpoint.labels, &mut self.parts.symbols);
        let ports = self.named_ports(&endpoint.ports);
        let seen =
            |address: Option<IpAddr>| At { address, prefix: address.map_or(NOWHERE, |it| self.parts.prefixes.locate(it)), foreign: 0 };
        let seen = match endpoint.addresses.as_slice() {
            [] => vec![seen(None)],
            addresses => addresses.iter().map(|it| seen(Some(*it))).collect(),
        };
        let programs = PerDirection { egress: 0, ingress: 0 };
        let pod = Placed { namespace, read, labels: 0, ports, node: endpoint.node, cell: 0, seat: 0, seen, programs };
        self.pods.set(number(slot), pod);
        self.enter_cell(number(slot));
    }

    /// The named ports of a pod as they were read.
    fn named_ports(&mut self, ports: &[ContainerPort]) -> u32 {
        let named = ports.iter().filter_map(|it| Some((it.name.as_deref()?, base(it.protocol) + u32::from(it.port))));
        let mut named: Vec<[u32; 2]> = named.map(|(name, port)| [self.parts.symbols.intern(name), port]).collect();
        named.sort_unstable();
        named.dedup();
        self.ports.intern(&named.concat())
    }

    /// The ports of a pod whose names some rule asks for.
    fn asked_ports(&mut self, ports: u32) -> u32 {
        let all = self.ports.get(ports).chunks(2);
        let asked: Vec<u32> =
            all.filter(|it| it.first().is_some_and(|it| self.parts.port_names.contains_key(it))).flatten().copied().collect();
        self.port_views.intern(&asked)
    }

    /// Works out what others see of a pod, and its programs. True if either is not what it was.
    pub(crate) fn settle(&mut self, id: u32) -> bool {
        let Some((cell, ports)) = self.pods.get(id).map(|it| (it.cell, it.ports)) else { return false };
        let Some((tiers, pair)) = self.spaces.cells.get(cell).map(|it| (it.tiers, it.pair)) else { return false };
        let view = self.spaces.pairs.get(pair).map_or(0, |it| it.view);
        let ports = self.asked_ports(ports);
        // Its own port names matter to what comes in, and only if a rule asks for one.
        let own = if tiers.asks_names { ports } else { 0 };
        let egress = Program { admin: tiers.admin.egress, network: tiers.network.egress, baseline: tiers.baseline.egress, ports: 0 };
        let ingress = Program { admin: tiers.admin.ingress, network: tiers.network.ingress, baseline: tiers.baseline.ingress, ports: own };
        let programs = PerDirection { egress: self.programs.egress.intern(egress), ingress: self.programs.ingress.intern(ingress) };
        let Compiled { pods, foreign, .. } = self;
        let Some(pod) = pods.get_mut(id) else { return false };
        let mut changed = std::mem::replace(&mut pod.programs, programs) != programs;
        for seen in &mut pod.seen {
            let now = foreign.intern(Foreign { kind: Kind::Pod, view, prefix: seen.prefix, ports });
            changed |= std::mem::replace(&mut seen.foreign, now) != now;
        }
        changed
    }

    /// Takes the labels and addresses of a node in.
    pub(crate) fn set_node(&mut self, id: NodeId, node: &Node) {
        let read = self.parts.nodes.read(&node.labels, &mut self.parts.symbols);
        let seen = node.addresses.iter().map(|it| At { address: Some(*it), prefix: self.parts.prefixes.locate(*it), foreign: 0 }).collect();
        self.nodes.set(number(id.0), PlacedNode { read, seen });
        self.settle_node(number(id.0));
    }

    /// Works out what others see of a node.
    pub(crate) fn settle_node(&mut self, slot: u32) {
        let Some(node) = self.nodes.get_mut(slot) else { return };
        let labels = self.parts.nodes.reduce(node.read);
        let holding: Vec<u32> = self.parts.nodes.used().filter(|it| self.parts.nodes.holds(*it, labels)).collect();
        let view = self.views.intern(&holding);
        for seen in &mut node.seen {
            seen.foreign = self.foreign.intern(Foreign { kind: Kind::Node, view, prefix: seen.prefix, ports: 0 });
        }
    }

    /// Addresses that nobody of the cluster has are seen by their prefix alone.
    pub(crate) fn see_outside(&mut self) {
        for prefix in std::iter::once(NOWHERE).chain(self.parts.prefixes.ids()) {
            self.foreign.intern(Foreign { kind: Kind::Outside, view: 0, prefix, ports: 0 });
        }
    }
}
