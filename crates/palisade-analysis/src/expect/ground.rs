//! The model, made ready for many questions.
//!
//! A verdict on one connection depends on the policies that select one of its ends, and on nothing else: egress on those of the source,
//! ingress on those of the destination. So each policy is kept as two halves, and only the halves that matter are put on the stage when the
//! engine is asked. Policies of other pods cost nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use palisade_engine::{Compared, selects};
use palisade_model::{Direction, EndpointId, Model, NamespaceSet, NetworkId, PerDirection, Place, Policy, SharedList, Subject};

/// The model and what was worked out about it.
pub(super) struct Ground<'m> {
    /// The model with the policies that are being asked, and with the pods that were only asked about.
    pub(super) stage: Model,
    /// How many of the endpoints were read.
    pub(super) read: usize,
    /// All CIDRs that policies speak of, exceptions too.
    pub(super) networks: BTreeSet<IpNet>,
    /// Addresses of pods, nodes and Services.
    pub(super) inside: BTreeSet<IpAddr>,
    /// What the policies with relations compare with, by place.
    pub(super) relations: BTreeMap<usize, Compared>,
    /// The policies, each with the rules of one direction only.
    halves: PerDirection<Vec<Policy>>,
    /// Policies for the pods of one namespace, by its name.
    own: BTreeMap<&'m str, Vec<usize>>,
    /// Policies that choose namespaces by labels.
    across: Vec<usize>,
    selected: BTreeMap<EndpointId, PerDirection<Vec<usize>>>,
}

impl<'m> Ground<'m> {
    pub(super) fn new(model: &'m Model) -> Ground<'m> {
        let stage = Model {
            networks: model.networks.clone(),
            namespaces: model.namespaces.clone(),
            endpoints: model.endpoints.clone(),
            nodes: model.nodes.clone(),
            services: model.services.clone(),
            policies: SharedList::default(),
            pod_ranges: model.pod_ranges.clone(),
            node_ranges: model.node_ranges.clone(),
            completed: model.completed.clone(),
            foreign: Vec::new(),
            logged: model.logged.clone(),
            audited: BTreeMap::new(),
        };
        let half = |direction| model.policies.iter().map(|policy| half(policy, direction)).collect();
        let mut ground = Ground {
            read: model.endpoints.len(),
            networks: networks(model),
            inside: model.addresses().collect(),
            halves: PerDirection { egress: half(Direction::Egress), ingress: half(Direction::Ingress) },
            relations: model.policies.iter().enumerate().filter_map(|(at, it)| Some((at, Compared::by(it)?))).collect(),
            own: BTreeMap::new(),
            across: Vec::new(),
            selected: BTreeMap::new(),
            stage,
        };
        for (at, policy) in model.policies.iter().enumerate() {
            match &policy.subject {
                Subject::Pods { namespaces: NamespaceSet::Own(own), .. } => ground.own.entry(own).or_default().push(at),
                Subject::Pods { namespaces: NamespaceSet::Matching(_), .. } => ground.across.push(at),
                Subject::Unknown => {}
            }
        }
        ground
    }

    /// Forgets the pods that were only asked about.
    pub(super) fn clear(&mut self) {
        self.stage.endpoints.truncate(self.read);
        self.stage.policies.clear();
    }

    /// One direction of one policy.
    pub(super) fn half(&self, direction: Direction, at: usize) -> Option<&Policy> {
        self.halves.of(direction).get(at)
    }

    /// Asks these policies only, from now on.
    pub(super) fn ask(&mut self, direction: Direction, policies: impl IntoIterator<Item = usize>) {
        let halves = self.halves.of(direction);
        self.stage.policies = policies.into_iter().filter_map(|at| halves.get(at)).cloned().collect();
    }

    /// The policies that judge this end in one direction, in their order.
    pub(super) fn selecting(&mut self, place: Place, direction: Direction) -> Vec<usize> {
        let Place::Pod(id) = place else { return Vec::new() };
        // A pod that was only asked about is another one next time.
        if id.0 >= self.read {
            return self.select(id).of(direction).clone();
        }
        if !self.selected.contains_key(&id) {
            let selected = self.select(id);
            self.selected.insert(id, selected);
        }
        self.selected.get(&id).map(|it| it.of(direction).clone()).unwrap_or_default()
    }

    fn select(&self, id: EndpointId) -> PerDirection<Vec<usize>> {
        let mut selected: PerDirection<Vec<usize>> = PerDirection::default();
        let Some(endpoint) = self.stage.endpoint(id) else { return selected };
        let own = self.own.get(endpoint.name.namespace.as_ref()).map_or(&[][..], Vec::as_slice);
        for at in own.iter().chain(&self.across).copied() {
            for direction in Direction::BOTH {
                let Some(half) = self.half(direction, at) else { continue };
                let speaks = *half.isolates.of(direction) || !half.rules.of(direction).is_empty();
                if speaks && selects(&self.stage, half, endpoint) {
                    selected.of_mut(direction).push(at);
                }
            }
        }
        selected
    }
}

fn half(policy: &Policy, direction: Direction) -> Policy {
    let mut half = Policy {
        network: NetworkId::DEFAULT,
        origin: policy.origin.clone(),
        tier: policy.tier,
        rank: policy.rank,
        subject: policy.subject.clone(),
        shape: policy.shape,
        isolates: PerDirection::default(),
        rules: PerDirection::default(),
    };
    *half.isolates.of_mut(direction) = *policy.isolates.of(direction);
    half.rules.of_mut(direction).clone_from(policy.rules.of(direction));
    half
}

fn networks(model: &Model) -> BTreeSet<IpNet> {
    let nets = model.ip_blocks().flat_map(|block| [block.cidr].into_iter().chain(block.except.iter().copied()));
    nets.map(|net| net.trunc()).collect()
}
