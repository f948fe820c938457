//! A model as objects that come, change and go one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use palisade_engine::{Compiled, compile, compile_network};
use palisade_model::{
    Attachment, AuditedPolicy, Changes, Delta, Endpoint, EndpointId, Labels, Model, Namespace, Network, NetworkId, Node, NodeId, PodName,
    Policy, PolicyRef, Replica, SetChange, SharedList, SlotId, Slots,
};

use crate::random::Random;

/// The objects of a model, by name.
#[derive(Clone, Debug, Default)]
pub struct World {
    namespaces: BTreeMap<Box<str>, Namespace>,
    pods: BTreeMap<(PodName, NetworkName), Placed>,
    nodes: BTreeMap<Box<str>, Node>,
    policies: BTreeMap<(PolicyRef, NetworkName), Policy>,
    /// Networks that pods and policies may name. A model has those that some do name.
    networks: BTreeMap<Box<str>, Network>,
}

/// An endpoint with the name of its node.
type Placed = (Endpoint, Option<Box<str>>);

/// The name of a network; None for the pod network.
type NetworkName = Option<Box<str>>;

fn network_name(model: &Model, id: NetworkId) -> NetworkName {
    model.network(id).filter(|_| id != NetworkId::DEFAULT).map(|it| it.name.clone())
}

/// Names one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    Namespace(Box<str>),
    Pod(PodName, NetworkName),
    Node(Box<str>),
    Policy(PolicyRef, NetworkName),
}

impl World {
    pub fn of(model: &Model) -> World {
        let node_of = |id: NodeId| model.node(id).map(|it| it.name.clone());
        let network = |id| network_name(model, id);
        let pods = model.endpoints.iter();
        let pods = pods.map(|it| ((it.name.clone(), network(it.network())), (it.clone(), it.node.and_then(node_of))));
        World {
            namespaces: model.namespaces.clone(),
            pods: pods.collect(),
            nodes: model.nodes.iter().map(|it| (it.name.clone(), it.clone())).collect(),
            policies: model.policies.iter().map(|it| ((it.origin.clone(), network(it.network)), it.clone())).collect(),
            networks: model.networks.iter().map(|it| (it.name.clone(), it.clone())).collect(),
        }
    }

    /// The model of these objects. A node that only pods name is there without addresses.
    pub fn model(&self) -> Model {
        let mut nodes = self.nodes.clone();
        for name in self.pods.values().filter_map(|it| it.1.as_ref()) {
            nodes.entry(name.clone()).or_insert_with(|| Node {
                name: name.clone(),
                labels: Labels::default(),
                addresses: Vec::new(),
                host_pods: Vec::new(),
                assumed: true,
            });
        }
        let places: BTreeMap<&str, NodeId> = nodes.keys().enumerate().map(|(at, name)| (name.as_ref(), NodeId(at))).collect();
        let (networks, ids) = self.used_networks();
        let id = |name: &NetworkName| name.as_ref().and_then(|it| ids.get(it)).copied().unwrap_or_default();
        let placed = |((_, network), (pod, node)): (&(PodName, NetworkName), &Placed)| {
            let node = node.as_deref().and_then(|it| places.get(it)).copied();
            on_network(Endpoint { node, ..pod.clone() }, id(network))
        };
        let about = |((_, network), policy): (&(PolicyRef, NetworkName), &Policy)| Policy { network: id(network), ..policy.clone() };
        let mut policies: SharedList<Policy> = self.policies.iter().map(about).collect();
        policies.sort_by(Policy::in_order);
        Model {
            networks,
            namespaces: self.namespaces.clone(),
            endpoints: self.pods.iter().map(placed).collect(),
            policies,
            nodes: nodes.values().cloned().collect(),
            ..Model::default()
        }
    }

    /// Networks that some pod or policy names, and the id of each.
    fn used_networks(&self) -> (Slots<NetworkId, Network>, BTreeMap<Box<str>, NetworkId>) {
        let named = self.pods.keys().map(|it| &it.1).chain(self.policies.keys().map(|it| &it.1));
        let used: BTreeSet<&Box<str>> = named.flatten().collect();
        let (mut slots, mut ids) = (Slots::new(), BTreeMap::new());
        for (network, at) in used.into_iter().filter_map(|it| self.networks.get(it)).zip(1..) {
            slots.set(NetworkId(at), Some(Arc::new(network.clone())));
            ids.insert(network.name.clone(), NetworkId(at));
        }
        (slots, ids)
    }

    /// The same objects with each other's labels: what was related to a pod is so no longer, and something else is.
    pub fn relabelled(&self, random: &mut Random) -> World {
        let mut other = self.clone();
        let spaces: Vec<&Labels> = self.namespaces.values().map(|it| &it.labels).collect();
        for (name, namespace) in &mut other.namespaces {
            let mut labels = random.pick(&spaces).map(|it| (*it).clone()).unwrap_or_default();
            // That one is the API server's.
            labels.set("kubernetes.io/metadata.name", name);
            namespace.labels = labels;
        }
        let pods: Vec<&Labels> = self.pods.values().map(|(pod, _)| &pod.labels).collect();
        for (pod, _) in other.pods.values_mut() {
            pod.labels = random.pick(&pods).map(|it| (*it).clone()).unwrap_or_default();
        }
        other
    }

    /// The policies with each other's rules, where they are of one tier: nothing but its rules changes in a policy.
    pub fn rewritten(&self, random: &mut Random) -> World {
        let mut other = self.clone();
        for policy in other.policies.values_mut() {
            let alike: Vec<&Policy> = self.policies.values().filter(|it| it.tier == policy.tier).collect();
            policy.rules = random.pick(&alike).map(|it| it.rules.clone()).unwrap_or_default();
        }
        other
    }

    /// Every object of either, in an order of its own.
    pub fn objects(&self, other: &World, random: &mut Random) -> Vec<Object> {
        let all = [self, other].into_iter().flat_map(|it| {
            let namespaces = it.namespaces.keys().cloned().map(Object::Namespace);
            let pods = it.pods.keys().cloned().map(|(name, network)| Object::Pod(name, network));
            let nodes = it.nodes.keys().cloned().map(Object::Node);
            let policies = it.policies.keys().cloned().map(|(origin, network)| Object::Policy(origin, network));
            namespaces.chain(pods).chain(nodes).chain(policies)
        });
        let mut objects: Vec<Object> = all.collect::<BTreeSet<Object>>().into_iter().collect();
        for at in (1..objects.len()).rev() {
            objects.swap(at, random.below(at + 1));
        }
        objects
    }

    /// Makes one object what it is in another world.
    pub fn step(&mut self, object: &Object, other: &World) {
        self.networks.extend(other.networks.clone());
        match object {
            Object::Namespace(name) => put(&mut self.namespaces, name, other.namespaces.get(name)),
            Object::Pod(name, network) => {
                let key = (name.clone(), network.clone());
                put(&mut self.pods, &key, other.pods.get(&key));
            }
            Object::Node(name) => put(&mut self.nodes, name, other.nodes.get(name)),
            Object::Policy(origin, network) => {
                let key = (origin.clone(), network.clone());
                put(&mut self.policies, &key, other.policies.get(&key));
            }
        }
    }
}

/// A model that follows changes, with everything that is updated along with it. Ids stay while their objects exist, and free ids are used again.
#[derive(Debug)]
pub struct Incremental {
    pub replica: Replica,
    pub compiled: Compiled,
    /// The compiled policies of the networks besides the pod network.
    others: BTreeMap<NetworkId, Compiled>,
    random: Random,
}

/// One endpoint or policy of a model on another network.
fn on_network(mut endpoint: Endpoint, network: NetworkId) -> Endpoint {
    if let Some(attachment) = &mut endpoint.attachment {
        *attachment = Arc::new(Attachment { network, interfaces: attachment.interfaces.clone() });
    }
    endpoint
}

/// Everything that is compiled of a model at once, network by network.
pub fn compiled_at_once(model: &Model) -> String {
    in_order(model, model.networks.ids().map(|it| compile_network(model, it)).chain([compile(model)]))
}

fn in_order<C: std::borrow::Borrow<Compiled>>(model: &Model, all: impl Iterator<Item = C>) -> String {
    let words = |it: C| format!("network {:?}\n{}", network_name(model, it.borrow().network()), it.borrow().canonical(model));
    all.map(words).collect::<BTreeSet<String>>().into_iter().collect()
}

impl Incremental {
    pub fn of(world: &World, seed: u64) -> Incremental {
        Incremental::of_model(world.model(), seed)
    }

    pub fn of_model(model: Model, seed: u64) -> Incremental {
        let compiled = compile(&model);
        let others = model.networks.ids().map(|it| (it, compile_network(&model, it))).collect();
        Incremental { replica: Replica::of(model), compiled, others, random: Random::new(seed) }
    }

    /// The compiled policies of a network of the model.
    pub fn of_network(&self, network: NetworkId) -> Option<&Compiled> {
        if network == NetworkId::DEFAULT { Some(&self.compiled) } else { self.others.get(&network) }
    }

    /// Everything that is compiled, network by network.
    pub fn canonical(&self) -> String {
        in_order(self.model(), self.others.values().chain([&self.compiled]))
    }

    pub fn model(&self) -> &Model {
        self.replica.model()
    }

    /// Makes one object what it is in another world, in `world` and here. Returns the pods that policy sees or treats differently.
    ///
    /// Panics if the model that followed the changes is not the one of the world.
    pub fn step(&mut self, world: &mut World, object: &Object, other: &World) -> Vec<EndpointId> {
        world.step(object, other);
        self.follow(&world.model())
    }

    /// Follows the difference to a model that was made at once.
    pub fn follow(&mut self, target: &Model) -> Vec<EndpointId> {
        let changes = self.changes_to(target);
        let applied = self.replica.apply(&changes);
        assert_eq!((applied, self.model().canonical()), (Ok(()), target.canonical()), "{changes:?}");
        let model = self.replica.model();
        self.others.retain(|it, _| model.networks.get(*it).is_some());
        self.others.values_mut().for_each(|it| drop(it.update(&changes)));
        for network in model.networks.ids() {
            self.others.entry(network).or_insert_with(|| compile_network(model, network));
        }
        self.compiled.update(&changes)
    }

    /// The changes to another model, object by object by name. A new object gets any of the free ids.
    fn changes_to(&mut self, target: &Model) -> Changes {
        let (model, random) = (self.replica.model(), &mut self.random);
        let mut changes = Changes { from: self.replica.revision(), ..Changes::default() };
        changes.namespaces = of_maps(&model.namespaces, &target.namespaces);
        let networks = of_slots(&model.networks, &target.networks, |it| it.name.clone(), 1, random);
        let network = |id| network_name(target, id).and_then(|it| networks.ids.get(&it).copied()).unwrap_or_default();
        let about = |it: &Policy| Policy { network: network(it.network), ..it.clone() };
        let held = model.policies.iter().map(|it| (it.key(), it.clone())).collect();
        let wanted = target.policies.iter().map(about).map(|it| (it.key(), it)).collect();
        changes.policies = of_maps(&held, &wanted);
        let mut nodes = of_slots(&model.nodes, &target.nodes, |it| it.name.clone(), 0, random);
        let ids = nodes.ids;
        let placed = |it: &Endpoint| {
            let node = it.node.and_then(|it| target.node(it)).and_then(|it| ids.get(&it.name)).copied();
            on_network(Endpoint { node, ..it.clone() }, network(it.network()))
        };
        let endpoints = target.endpoints.iter().map(placed).collect();
        changes.nodes.append(&mut nodes.deltas);
        changes.endpoints = of_slots(&model.endpoints, &endpoints, |it| (it.name.clone(), it.network()), 0, random).deltas;
        changes.networks = networks.deltas;
        changes.to = changes.revision_after(changes.from);
        changes
    }
}

/// The difference between two models whose ids mean the same.
pub fn between(old: &Model, new: &Model) -> Changes {
    let policies = |model: &Model| model.policies.iter().map(|it| (it.key(), it.clone())).collect();
    let audited = |model: &Model| {
        let all = model.audited.iter().flat_map(|(set, policies)| policies.iter().map(move |it| (set.clone(), it)));
        all.map(|(set, it)| (AuditedPolicy { set, policy: it.key() }, it.clone())).collect()
    };
    let logged = |one: &Model, other: &Model| one.logged.difference(&other.logged).cloned().collect();
    let shared = |it: Option<&Arc<_>>| it.cloned();
    let nodes = new.nodes.changes_since(&old.nodes);
    let endpoints = new.endpoints.changes_since(&old.endpoints);
    let networks = new.networks.changes_since(&old.networks);
    Changes {
        networks: networks.into_iter().map(|it| Delta { id: it.id, old: it.old.cloned(), new: it.new.cloned() }).collect(),
        namespaces: of_maps(&old.namespaces, &new.namespaces),
        nodes: nodes.into_iter().map(|it| Delta { id: it.id, old: it.old.cloned(), new: it.new.cloned() }).collect(),
        endpoints: endpoints.into_iter().map(|it| Delta { id: it.id, old: shared(it.old), new: shared(it.new) }).collect(),
        policies: of_maps(&policies(old), &policies(new)),
        audited: of_maps(&audited(old), &audited(new)),
        logged: SetChange { removed: logged(old, new), added: logged(new, old) },
        ..Changes::default()
    }
}

fn of_maps<K: Clone + Ord, V: Clone + PartialEq>(old: &BTreeMap<K, V>, new: &BTreeMap<K, V>) -> Vec<Delta<K, V>> {
    let keys: BTreeSet<&K> = old.keys().chain(new.keys()).collect();
    let shared = |map: &BTreeMap<K, V>, key: &K| map.get(key).cloned().map(Arc::new);
    keys.into_iter().filter_map(|key| Delta::between(key.clone(), shared(old, key), shared(new, key))).collect()
}

struct OfSlots<I, K, T> {
    deltas: Vec<Delta<I, T>>,
    /// By name, after the change.
    ids: BTreeMap<K, I>,
}

fn of_slots<I: SlotId + Ord, K: Clone + Ord, T: Clone + PartialEq>(
    old: &Slots<I, T>,
    new: &Slots<I, T>,
    name: impl Fn(&T) -> K,
    first: usize,
    random: &mut Random,
) -> OfSlots<I, K, T> {
    let mut found = OfSlots { deltas: Vec::new(), ids: old.iter_ids().map(|(id, it)| (name(it), id)).collect() };
    let mut wanted: BTreeMap<K, &Arc<T>> = new.iter_shared().map(|(_, it)| (name(it), it)).collect();
    let mut free: Vec<I> = (first..old.slot_count()).map(I::at).filter(|it| old.get(*it).is_none()).collect();
    for (id, held) in old.iter_shared() {
        let now = wanted.remove(&name(held)).cloned();
        if now.is_none() {
            found.ids.remove(&name(held));
        }
        found.deltas.extend(Delta::between(id, Some(Arc::clone(held)), now));
    }
    for (at, (name, it)) in wanted.into_iter().enumerate() {
        let id = if free.is_empty() { I::at(old.slot_count().max(first) + at) } else { free.swap_remove(random.below(free.len())) };
        found.ids.insert(name, id);
        found.deltas.push(Delta { id, old: None, new: Some(Arc::clone(it)) });
    }
    found.deltas.sort_by_key(|it| it.id);
    found
}

fn put<K: Clone + Ord, V: Clone>(map: &mut BTreeMap<K, V>, key: &K, value: Option<&V>) {
    match value {
        Some(value) => drop(map.insert(key.clone(), value.clone())),
        None => drop(map.remove(key)),
    }
}
