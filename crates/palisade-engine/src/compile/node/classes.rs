//! Ends that nothing asked on a node tells apart. The views of the whole cluster are finer, so one end of each is looked at.

use std::net::IpAddr;

use palisade_model::{ContainerPort, End, EndpointId, Family, Labels, Model, NodeId, Place};
use rustc_hash::FxHashMap;

use crate::compile::intern::{Interned, Lists, index};
use crate::compile::node::Known;
use crate::compile::node::asked::{Asked, Listing};
use crate::compile::node::holding::Holding;
use crate::compile::node::owners::Owner;
use crate::compile::node::unknown::PodRanges;
use crate::compile::node::words;
use crate::compile::prefixes::NOWHERE;
use crate::compile::{Compiled, Placed};

/// What all ends of a class have in common. Lists of numbers, each known by its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Class {
    pub(super) kind: ClassKind,
    pub(super) family: Family,
    /// Conditions on pods of any namespace that deviate.
    pub(super) peers: u32,
    /// Nothing, or the number of a namespace of the node and the selectors over its pods that hold.
    pub(super) own: u32,
    /// The set of the blocks that hold the address.
    pub(super) blocks: u32,
    /// Selectors of nodes that hold.
    pub(super) nodes: u32,
    /// Ports with a name that is asked for.
    pub(super) ports: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ClassKind {
    Pod,
    Node,
    /// The node whose programs ask.
    OwnNode,
    Outside,
    /// A pod that nobody was told of.
    UnknownPod,
}

/// The classes of a node.
#[derive(Debug)]
pub(super) struct Classes {
    pub(super) classes: Interned<Class>,
    /// Two ends of each class in different places, or as many as there are.
    pub(super) members: Vec<Vec<End>>,
    pub(super) lists: Lists,
    pub(super) holding: Holding,
    pub(super) ports: Interned<ContainerPort>,
    /// By owner.
    pub(super) known: Vec<Known>,
    pub(super) ranges: Vec<(IpAddr, IpAddr, u32)>,
    /// Where in the address space classes of ranges are.
    pub(super) lying: FxHashMap<u32, Lying>,
}

/// The widest prefix in which a class of ranges is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lying {
    prefix: u32,
    /// How long that is; zero is everywhere.
    pub(super) length: u16,
    /// The class of the range around it.
    pub(super) wider: Option<u32>,
}

/// What was worked out for numbers of the compiled cluster.
#[derive(Default)]
struct Memory {
    /// Deviating selectors by number of a namespace, and by number of a label set.
    namespaces: FxHashMap<u32, u32>,
    labels: FxHashMap<u32, u32>,
    /// By view of a pod, and of a node.
    peers: FxHashMap<u32, u32>,
    nodes: FxHashMap<u32, u32>,
    ports: FxHashMap<u32, u32>,
    /// By namespace and label set.
    own: FxHashMap<(u32, u32), u32>,
    /// Classes of pods that no namespace of the node sees from inside, by what others see.
    pods: FxHashMap<(u32, Family), u32>,
}

/// What classes are worked out from.
struct Working<'a, 'm> {
    model: &'m Model,
    compiled: &'a Compiled,
    asked: &'a mut Asked<'m>,
    /// Labels of namespaces by number.
    of_namespaces: Vec<Option<&'m Labels>>,
    known: Memory,
    found: Classes,
}

impl Classes {
    pub(super) fn of<'m>(model: &'m Model, compiled: &Compiled, asked: &mut Asked<'m>, node: NodeId, owners: &[Owner]) -> Classes {
        let holding = Holding::of(asked, &compiled.parts.prefixes);
        let of_namespaces = of_namespaces(model, compiled);
        let mut working =
            Working { model, compiled, asked, of_namespaces, known: Memory::default(), found: Classes::without_members(holding) };
        working.found.lists.intern(&[]);
        working.found.known.reserve(owners.len());
        for owner in owners {
            let class = match owner.place {
                Place::Pod(id) => working.pod(id, owner),
                Place::Node(id) => working.node(id, if id == node { ClassKind::OwnNode } else { ClassKind::Node }, owner),
                Place::Outside => None,
            };
            // Everybody who owns an address was compiled.
            let Some(class) = class else { continue };
            working.found.join(class, End { place: owner.place, address: Some(owner.address) });
            working.found.known.push(Known { address: owner.address, place: owner.place, class: index(class) });
        }
        let pods = PodRanges::of(&model.pod_ranges);
        for (first, last, prefix) in compiled.parts.prefixes.ranges() {
            for (first, last, kind) in pods.pieces(first, last) {
                working.range(first, last, kind, prefix);
            }
        }
        working.nest();
        working.found
    }

    fn without_members(holding: Holding) -> Classes {
        Classes {
            classes: Interned::default(),
            members: Vec::new(),
            lists: Lists::default(),
            holding,
            ports: Interned::default(),
            known: Vec::new(),
            ranges: Vec::new(),
            lying: FxHashMap::default(),
        }
    }

    fn join(&mut self, class: u32, end: End) {
        if self.members.len() <= index(class) {
            self.members.resize_with(index(class) + 1, Vec::new);
        }
        let Some(members) = self.members.get_mut(index(class)) else { return };
        if members.len() < 2 && members.iter().all(|it| it.place != end.place) {
            members.push(end);
        }
    }

    /// The words of each class. Those of different classes differ, also where the digests of their blocks are the same.
    pub(super) fn all_words(&self, asked: &Asked<'_>) -> Vec<String> {
        let mut all: Vec<String> = self.classes.values().iter().map(|it| self.words(it, asked, Listing::Short)).collect();
        let mut count: FxHashMap<String, usize> = FxHashMap::default();
        all.iter().for_each(|it| *count.entry(it.clone()).or_default() += 1);
        if count.len() < all.len() {
            for (words, class) in all.iter_mut().zip(self.classes.values()).filter(|(it, _)| count.get(*it).is_some_and(|it| *it > 1)) {
                *words = self.words(class, asked, Listing::Full);
            }
        }
        all
    }

    fn words(&self, class: &Class, asked: &Asked<'_>, listing: Listing) -> String {
        let kind = match class.kind {
            ClassKind::Pod => "pod",
            ClassKind::Node => "node",
            ClassKind::OwnNode => "own node",
            ClassKind::Outside => "outside",
            ClassKind::UnknownPod => "unknown pod",
        };
        let list = |id| self.lists.get(id).iter().copied();
        let mut said: Vec<String> = list(class.peers).map(|it| asked.peer_word(it)).collect();
        said.extend(self.block_words(class, asked, listing));
        said.extend(list(class.nodes).map(|it| asked.node_word(it)));
        said.extend(list(class.ports).filter_map(|it| self.ports.get(it)).map(|it| format!("port {}", words::port(it))));
        if let [namespace, holding @ ..] = self.lists.get(class.own)
            && let Some(own) = asked.own.get(namespace)
        {
            said.push(format!("in {:?}", own.name));
            let deviates = |it: &&u32| asked.pods.default_of(**it) != holding.contains(it);
            said.extend(own.selectors.iter().filter(deviates).map(|it| asked.own_word(*it)));
        }
        format!("{kind} {} {}", words::family(class.family), words::listed(said))
    }
}

impl Classes {
    /// The blocks that hold a class, or do not and hold all others of the family.
    fn block_words(&self, class: &Class, asked: &Asked<'_>, listing: Listing) -> Vec<String> {
        let (blocks, family) = (class.blocks, class.family);
        let count = self.holding.deviating_count(blocks, family);
        if listing == Listing::Short && usize::try_from(count).is_ok_and(|it| it > words::SPELT_OUT) {
            return vec![format!("{count} blocks of digest {:032x}", self.holding.deviating_digest(blocks, family))];
        }
        self.holding.deviating_blocks(blocks, family).into_iter().map(|it| asked.block_word(it, listing)).collect()
    }
}

/// Labels of namespaces by number. Pods are in the order of their names, so that both are walked together.
fn of_namespaces<'m>(model: &'m Model, compiled: &Compiled) -> Vec<Option<&'m Labels>> {
    let mut found: Vec<Option<&Labels>> = Vec::new();
    let mut named = model.namespaces.iter().peekable();
    for ((_, placed), endpoint) in compiled.pods.iter().zip(&model.endpoints) {
        let (at, name) = (index(placed.namespace), &endpoint.name.namespace);
        if found.len() <= at {
            found.resize(at + 1, None);
        }
        let Some(slot) = found.get_mut(at).filter(|it| it.is_none()) else { continue };
        while named.next_if(|(it, _)| *it < name).is_some() {}
        *slot = match named.peek() {
            Some((it, namespace)) if *it == name => Some(&namespace.labels),
            Some(_) | None => Some(model.namespace_labels(name)),
        };
    }
    found
}

impl Working<'_, '_> {
    fn pod(&mut self, id: EndpointId, owner: &Owner) -> Option<u32> {
        let (compiled, family) = (self.compiled, Family::of(owner.address));
        let placed = compiled.pod(id)?;
        let is_own = self.asked.own.contains_key(&placed.namespace);
        if !is_own && let Some(known) = self.known.pods.get(&(owner.seen, family)) {
            return Some(*known);
        }
        let foreign = compiled.foreign.get(owner.seen)?;
        let peers = match self.known.peers.get(&foreign.view) {
            Some(known) => *known,
            None => {
                let peers = self.peers(id, placed);
                self.known.peers.insert(foreign.view, peers);
                peers
            }
        };
        let ports = match self.known.ports.get(&foreign.ports) {
            Some(known) => *known,
            None => {
                let ports = self.ports(id);
                self.known.ports.insert(foreign.ports, ports);
                ports
            }
        };
        let own = if is_own { self.own(id, placed) } else { 0 };
        let blocks = self.found.holding.blocks_of(foreign.prefix);
        let class = self.found.classes.intern(Class { kind: ClassKind::Pod, family, peers, own, blocks, nodes: 0, ports });
        if !is_own {
            self.known.pods.insert((owner.seen, family), class);
        }
        Some(class)
    }

    /// Conditions that deviate for a pod.
    fn peers(&mut self, id: EndpointId, placed: &Placed) -> u32 {
        let of_namespace = match self.known.namespaces.get(&placed.namespace) {
            Some(known) => *known,
            None => {
                let labels = self.of_namespaces.get(index(placed.namespace)).copied().flatten();
                let deviating = self.found.lists.intern(self.asked.of_namespace(labels.unwrap_or(&Labels::default())));
                self.known.namespaces.insert(placed.namespace, deviating);
                deviating
            }
        };
        let of_pod = self.deviating(id, placed);
        let lists = &self.found.lists;
        let deviating = self.asked.peers.deviating(lists.get(of_namespace), lists.get(of_pod));
        self.found.lists.intern(&deviating)
    }

    /// Selectors of pods that deviate for one.
    fn deviating(&mut self, id: EndpointId, placed: &Placed) -> u32 {
        if let Some(known) = self.known.labels.get(&placed.labels) {
            return *known;
        }
        let Some(endpoint) = self.model.endpoint(id) else { return 0 };
        let deviating = self.found.lists.intern(self.asked.of_pod(&endpoint.labels));
        self.known.labels.insert(placed.labels, deviating);
        deviating
    }

    /// What the namespace of a pod sees of it from inside; nothing if no selector holds.
    fn own(&mut self, id: EndpointId, placed: &Placed) -> u32 {
        let key = (placed.namespace, placed.labels);
        if let Some(known) = self.known.own.get(&key) {
            return *known;
        }
        let deviating = self.deviating(id, placed);
        let deviating = self.found.lists.get(deviating);
        let selectors = self.asked.own.get(&placed.namespace).map(|it| &it.selectors).into_iter().flatten();
        let holds = |it: &&u32| self.asked.pods.default_of(**it) != deviating.binary_search(it).is_ok();
        let mut list = vec![placed.namespace];
        list.extend(selectors.filter(holds));
        let own = if list.len() == 1 { 0 } else { self.found.lists.intern(&list) };
        self.known.own.insert(key, own);
        own
    }

    /// Ports of a pod whose names are asked for.
    fn ports(&mut self, id: EndpointId) -> u32 {
        let ports = self.model.endpoint(id).map_or(&[][..], |it| &it.ports);
        let asked = ports.iter().filter(|it| it.name.as_deref().is_some_and(|it| self.asked.port_names.contains(it)));
        let mut list: Vec<u32> = asked.map(|it| self.found.ports.intern(it.clone())).collect();
        list.sort_unstable();
        list.dedup();
        self.found.lists.intern(&list)
    }

    fn node(&mut self, id: NodeId, kind: ClassKind, owner: &Owner) -> Option<u32> {
        let foreign = self.compiled.foreign.get(owner.seen)?;
        let nodes = match self.known.nodes.get(&foreign.view) {
            Some(known) => *known,
            None => {
                let holding = self.asked.of_node(&self.model.node(id)?.labels);
                let nodes = self.found.lists.intern(&holding);
                self.known.nodes.insert(foreign.view, nodes);
                nodes
            }
        };
        let family = Family::of(owner.address);
        let blocks = self.found.holding.blocks_of(foreign.prefix);
        Some(self.found.classes.intern(Class { kind, family, peers: 0, own: 0, blocks, nodes, ports: 0 }))
    }

    /// A range of addresses that nobody is known to have. It goes on where the one before ends.
    fn range(&mut self, first: IpAddr, last: IpAddr, kind: ClassKind, prefix: u32) {
        let family = Family::of(first);
        let blocks = self.found.holding.blocks_of(prefix);
        let class = Class { kind, family, peers: 0, own: 0, blocks, nodes: 0, ports: 0 };
        let class = self.found.classes.intern(class);
        self.found.join(class, End { place: Place::Outside, address: Some(first) });
        let prefix = self.outermost(prefix);
        let length = self.compiled.parts.prefixes.get(prefix).map_or(0, |it| u16::from(it.prefix_len()) + 1);
        let lying = self.found.lying.entry(class).or_insert(Lying { prefix, length, wider: None });
        if length < lying.length {
            (lying.prefix, lying.length) = (prefix, length);
        }
        match self.found.ranges.last_mut().filter(|it| it.2 == class && Family::of(it.1) == family) {
            Some(before) => before.1 = last,
            None => self.found.ranges.push((first, last, class)),
        }
    }

    /// The widest prefix around one that the same blocks hold, up to where others do.
    fn outermost(&self, mut prefix: u32) -> u32 {
        let (prefixes, holding) = (&self.compiled.parts.prefixes, &self.found.holding);
        while prefix != NOWHERE && holding.blocks_of(prefixes.wider(prefix)) == holding.blocks_of(prefix) {
            prefix = prefixes.wider(prefix);
        }
        prefix
    }

    /// Notes which class of ranges lies around which.
    fn nest(&mut self) {
        let found: Vec<(u32, u32)> = self.found.lying.keys().filter_map(|class| Some((*class, self.around(*class)?))).collect();
        for (class, wider) in found {
            self.found.lying.entry(class).and_modify(|it| it.wider = Some(wider));
        }
    }

    /// The class of the next wider prefix in which some address has one.
    fn around(&self, id: u32) -> Option<u32> {
        let (class, lying) = (self.found.classes.get(id)?, self.found.lying.get(&id)?);
        let mut prefix = lying.prefix;
        while prefix != NOWHERE {
            prefix = self.compiled.parts.prefixes.wider(prefix);
            let wider = self.found.classes.id_of(&Class { blocks: self.found.holding.blocks_of(prefix), ..*class });
            // It may be one that only lies in narrower prefixes elsewhere.
            let found = wider.filter(|it| *it != id && self.found.lying.get(it).is_some_and(|it| it.length < lying.length));
            if found.is_some() {
                return found;
            }
        }
        None
    }
}
