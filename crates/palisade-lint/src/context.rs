//! What checks look at: the objects as they were read, the model that they make, and who reaches whom.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_api::{Body, NetworkPolicy};
use palisade_engine::{Compiled, Reach};
use palisade_k8s::{CONTROLLER_LABEL, FieldPath, Index, ObjectKey, Sources};
use palisade_model::{
    Direction, End, EndpointId, HostPod, IpBlock, LabelSelector, Labels, Model, NamespaceSet, NodeId, Peer, PeerSet, Policy, PolicyRef,
    PortMatch, PortSet, RelativeNamespaces, RelativePods, RelativeSelector, Rule, RuleRef, Subject, Tier,
};

use crate::asking::{Blocked, all_blocked};
use crate::finding::Spot;
use crate::paths::{self, Of};
use crate::rule::{Choice, Rule as LintRule};
use crate::within::is_nobody;

/// Everything that a check may look at.
#[derive(Debug)]
pub struct Context<'a> {
    index: &'a Index,
    /// What the objects mean to us.
    pub model: &'a Model,
    /// What they mean to a controller that does not know whose policies are whose.
    pub blind: &'a Model,
    reach: RefCell<Reach<'a>>,
    blocked: OnceCell<Vec<Blocked<'a>>>,
    crowds: BTreeMap<&'a str, Vec<Crowd<'a>>>,
    /// Pods on the network of their node, by namespace.
    host_pods: BTreeMap<&'a str, Vec<&'a HostPod>>,
    /// The values that pods have for a key, and namespaces.
    values: [BTreeMap<&'a str, BTreeSet<&'a str>>; 2],
    /// Who has an address.
    addresses: BTreeMap<IpAddr, Owner>,
    /// Policies that count.
    ours: BTreeSet<ObjectKey>,
    /// Those of them that are labelled for us, and for no other controller.
    labelled: BTreeSet<ObjectKey>,
    /// Rules that are held against the objects.
    chosen: BTreeSet<&'static str>,
}

/// Who has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Pod(EndpointId),
    Node(NodeId),
    /// The place of a Service in the model.
    Service(usize),
}

/// Pods of one namespace with the same labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Crowd<'a> {
    /// Their namespace.
    pub(crate) namespace: &'a str,
    /// Their labels.
    pub(crate) labels: &'a Labels,
    /// Who they are, in name order; never empty.
    pub(crate) pods: Vec<EndpointId>,
}

/// A rule in its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) direction: Direction,
    pub(crate) rule: &'a Rule,
}

/// A block of addresses in its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a> {
    pub(crate) placed: Placed<'a>,
    /// The entry of `from` or `to`.
    pub(crate) peer: usize,
    /// Its place among the blocks of that entry.
    pub(crate) at: usize,
    pub(crate) block: &'a IpBlock,
}

impl Block<'_> {
    /// Its place in the text.
    pub(crate) fn spot(&self, label: impl Into<String>) -> Spot {
        let rule = self.placed.reference();
        Spot::of(&rule.policy, paths::block(&rule, self.peer, self.at), label)
    }

    /// Whether it is one address.
    pub(crate) fn is_one_address(&self) -> bool {
        self.block.cidr.prefix_len() == self.block.cidr.max_prefix_len()
    }
}

impl Placed<'_> {
    pub(crate) fn reference(&self) -> RuleRef {
        RuleRef { policy: self.policy.origin.clone(), direction: self.direction, index: self.rule.index, name: self.rule.name.clone() }
    }
}

impl<'a> Context<'a> {
    /// The context of the objects of an index, for a choice of rules.
    pub fn new(index: &'a Index, model: &'a Model, blind: &'a Model, compiled: &'a Compiled, choice: &Choice) -> Context<'a> {
        let mut by_labels: BTreeMap<(&str, &Labels), Vec<EndpointId>> = BTreeMap::new();
        for (at, endpoint) in model.endpoints.iter().enumerate() {
            by_labels.entry((&endpoint.name.namespace, &endpoint.labels)).or_default().push(EndpointId(at));
        }
        let mut crowds: BTreeMap<&str, Vec<Crowd<'_>>> = BTreeMap::new();
        for ((namespace, labels), pods) in by_labels {
            crowds.entry(namespace).or_default().push(Crowd { namespace, labels, pods });
        }
        let mut host_pods: BTreeMap<&str, Vec<&HostPod>> = BTreeMap::new();
        for pod in model.nodes.iter().flat_map(|it| &it.host_pods) {
            host_pods.entry(&pod.name.namespace).or_default().push(pod);
        }
        let of_pods = values(crowds.values().flatten().map(|it| it.labels).chain(host_pods.values().flatten().map(|it| &it.labels)));
        let of_namespaces = values(model.namespaces.values().map(|it| &it.labels));
        let ours = model.policies.iter().map(|it| ObjectKey::from(&it.origin)).collect();
        Context {
            index,
            model,
            blind,
            reach: RefCell::new(compiled.reach()),
            blocked: OnceCell::new(),
            crowds,
            host_pods,
            values: [of_pods, of_namespaces],
            addresses: owners(model),
            ours,
            labelled: index.objects().filter(|it| is_labelled(it.1)).map(|it| it.0.clone()).collect(),
            chosen: choice.rules().map(|it| it.name).collect(),
        }
    }

    /// Whether every controller that enforces `part` enforces `whole`: other controllers leave out what is labelled for us.
    pub(crate) fn is_enforced_with(&self, part: &Policy, whole: &Policy) -> bool {
        let is_labelled = |it: &Policy| self.labelled.contains(&self.sources().key_of(&it.origin));
        !is_labelled(whole) || is_labelled(part)
    }

    /// Whether a rule is held against the objects, so that others may leave something to it.
    pub(crate) fn is_chosen(&self, rule: &LintRule) -> bool {
        self.chosen.contains(rule.name)
    }

    /// Who of the cluster is in a block.
    pub(crate) fn owners_in<'s>(&'s self, block: &'s IpBlock) -> impl Iterator<Item = Owner> + 's {
        let (first, last) = (block.cidr.network(), block.cidr.broadcast());
        self.addresses.range(first..=last).filter(|(address, _)| block.contains(**address)).map(|(_, owner)| *owner)
    }

    /// Who reaches whom.
    pub(crate) fn reach(&self) -> RefMut<'_, Reach<'a>> {
        self.reach.borrow_mut()
    }

    /// Rules that accept something between pods of which nothing passes.
    pub(crate) fn blocked(&self) -> &[Blocked<'a>] {
        self.blocked.get_or_init(|| all_blocked(self))
    }

    /// The texts.
    pub(crate) fn sources(&self) -> &'a Sources {
        self.index.sources()
    }

    /// The NetworkPolicies that count, as they were read.
    pub(crate) fn network_policies(&self) -> impl Iterator<Item = (&'a ObjectKey, &'a NetworkPolicy)> {
        let all = self.index.objects().filter_map(|(key, body)| if let Body::NetworkPolicy(it) = body { Some((key, it)) } else { None });
        all.filter(|(key, _)| self.ours.contains(key))
    }

    /// Whether a field was written, whatever its value.
    pub(crate) fn is_written(&self, key: &ObjectKey, path: &FieldPath) -> bool {
        self.sources().find(key, std::slice::from_ref(path)).is_some_and(|it| it.path == *path)
    }

    /// The text of a field that holds one word.
    pub(crate) fn scalar(&self, key: &ObjectKey, path: &FieldPath) -> Option<String> {
        let excerpt = self.sources().find(key, std::slice::from_ref(path)).filter(|it| it.path == *path)?;
        let (_, value) = excerpt.content.get(excerpt.start..excerpt.end)?.split_once(':')?;
        Some(value.trim().trim_matches(['"', '\'']).to_owned())
    }

    /// Whether every namespace was read as an object, so that its labels are known.
    pub(crate) fn knows_namespace_labels(&self) -> bool {
        self.model.namespaces.values().all(|it| !it.assumed)
    }

    /// The namespaces of a set.
    pub(crate) fn namespaces<'s>(&'s self, set: &'s NamespaceSet) -> impl Iterator<Item = &'a str> + 's {
        let names = self.model.namespaces.iter().filter(move |(name, namespace)| match set {
            NamespaceSet::Own(own) => own == *name,
            NamespaceSet::Matching(selector) => selector.matches(&namespace.labels),
        });
        names.map(|(name, _)| name.as_ref())
    }

    /// The pods of a set.
    pub(crate) fn pods<'s>(&'s self, namespaces: &'s NamespaceSet, pods: &'s LabelSelector) -> impl Iterator<Item = &'s Crowd<'a>> + 's {
        let crowds = self.namespaces(namespaces).filter_map(|name| self.crowds.get(name)).flatten();
        crowds.filter(move |it| pods.matches(it.labels))
    }

    /// The host-network pods that a selector would mean, if it could.
    pub(crate) fn host_pods<'s>(&'s self, namespaces: &'s NamespaceSet, pods: &'s LabelSelector) -> impl Iterator<Item = &'a HostPod> + 's {
        let all = self.namespaces(namespaces).filter_map(|name| self.host_pods.get(name)).flatten().copied();
        all.filter(move |it| pods.matches(&it.labels))
    }

    /// The values that somebody of the cluster has for a key.
    pub(crate) fn values(&self, of: Of) -> &BTreeMap<&'a str, BTreeSet<&'a str>> {
        let [pods, namespaces] = &self.values;
        match of {
            Of::Pods => pods,
            Of::Namespaces => namespaces,
        }
    }

    /// A pod of a crowd, at its first address: policy does the same with the traffic of all of them.
    pub(crate) fn end(&self, crowd: &Crowd<'_>) -> Option<End> {
        self.reach().ends(*crowd.pods.first()?).next()
    }

    /// The tiers that have something to say about the traffic of pods.
    pub(crate) fn tiers(&self, crowd: &Crowd<'_>, direction: Direction) -> Vec<Tier> {
        let Some(end) = self.end(crowd) else { return Vec::new() };
        let reach = self.reach();
        reach.alike(&end).map(|it| reach.tiers(it.treated(direction)).collect()).unwrap_or_default()
    }

    /// All pods.
    pub(crate) fn all_pods(&self) -> impl Iterator<Item = &Crowd<'a>> {
        self.crowds.values().flatten()
    }

    /// The pods that a policy speaks about.
    pub(crate) fn subjects<'s>(&'s self, policy: &'s Policy) -> Vec<&'s Crowd<'a>> {
        match &policy.subject {
            Subject::Pods { namespaces, pods } => self.pods(namespaces, pods).collect(),
            Subject::Unknown => Vec::new(),
        }
    }

    /// Every rule of every policy.
    pub(crate) fn rules(&self) -> impl Iterator<Item = Placed<'a>> {
        let of = |policy: &'a Policy| {
            Direction::BOTH
                .into_iter()
                .flat_map(move |direction| policy.rules.of(direction).iter().map(move |rule| Placed { policy, direction, rule }))
        };
        self.model.policies.iter().flat_map(of)
    }

    /// Every block of addresses that some rule names.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Block<'a>> {
        self.rules().flat_map(|placed| {
            let entries = peers(placed.rule).iter().enumerate();
            entries
                .flat_map(move |(peer, entry)| networks(entry).iter().enumerate().map(move |(at, block)| Block { placed, peer, at, block }))
        })
    }

    /// The name of a pod.
    pub(crate) fn name(&self, pod: EndpointId) -> String {
        self.model.endpoint(pod).map(|it| it.name.to_string()).unwrap_or_default()
    }

    /// Some of the pods by name, and how many more there are.
    pub(crate) fn named(&self, pods: impl IntoIterator<Item = EndpointId>) -> String {
        listed(pods.into_iter().map(|it| self.name(it)))
    }
}

fn is_labelled(body: &Body) -> bool {
    let meta = match body {
        Body::NetworkPolicy(it) => &it.meta,
        Body::ClusterNetworkPolicy(it) => &it.meta,
        Body::AdminNetworkPolicy(it) => &it.meta,
        Body::BaselineAdminNetworkPolicy(it) => &it.meta,
        Body::Kep2091(it) => &it.meta,
        Body::Pod(_) | Body::Workload(_) | Body::Namespace(_) | Body::Node(_) | Body::Service(_) | Body::Nothing(_) => return false,
    };
    meta.labels.get(CONTROLLER_LABEL).is_some()
}

fn values<'a>(all: impl Iterator<Item = &'a Labels>) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (key, value) in all.flat_map(Labels::iter) {
        values.entry(key).or_default().insert(value);
    }
    values
}

/// A pod before a node before a Service, where several claim an address.
fn owners(model: &Model) -> BTreeMap<IpAddr, Owner> {
    let mut owners = BTreeMap::new();
    let pods = model.endpoints.iter().enumerate().map(|(at, it)| (Owner::Pod(EndpointId(at)), it.addresses.as_slice()));
    let nodes = model.nodes.iter().enumerate().map(|(at, it)| (Owner::Node(NodeId(at)), it.addresses.as_slice()));
    let services = model.services.iter().enumerate().map(|(at, it)| (Owner::Service(at), it.addresses()));
    for (owner, addresses) in pods.chain(nodes).chain(services) {
        for address in addresses {
            owners.entry(*address).or_insert(owner);
        }
    }
    owners
}

/// How many names a message has.
const NAMED: usize = 3;

/// Some names, and how many more there are.
pub(crate) fn listed(names: impl IntoIterator<Item = String>) -> String {
    let names: Vec<String> = names.into_iter().collect();
    let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The entries of a rule's peers; none for everyone.
pub(crate) fn peers(rule: &Rule) -> &[Peer] {
    match &rule.peers {
        PeerSet::Of(peers) => peers,
        PeerSet::Any | PeerSet::AnyButOwnNode => &[],
    }
}

/// Pods that an entry of a rule could mean.
pub(crate) struct Meant<'a> {
    pub(crate) namespaces: Cow<'a, NamespaceSet>,
    pub(crate) pods: Cow<'a, LabelSelector>,
    /// Whose labels the entry names itself.
    pub(crate) named: &'static [Of],
}

/// The pods that an entry means, or could mean where that depends on the subject. None where it speaks of something else.
pub(crate) fn meant<'a>(policy: &'a Policy, peer: &'a Peer) -> Option<Meant<'a>> {
    match peer {
        Peer::Pods { namespaces, pods } => {
            let named: &[Of] = match namespaces {
                NamespaceSet::Own(_) => &[Of::Pods],
                NamespaceSet::Matching(_) => &[Of::Namespaces, Of::Pods],
            };
            Some(Meant { namespaces: Cow::Borrowed(namespaces), pods: Cow::Borrowed(pods), named })
        }
        Peer::Relative(_) if is_nobody(peer) => None,
        Peer::Relative(RelativePods { namespaces, pods }) => {
            let all = || Cow::Owned(NamespaceSet::Matching(LabelSelector::default()));
            let (namespaces, named): (_, &[Of]) = match (namespaces, &policy.subject) {
                (RelativeNamespaces::Own, Subject::Pods { namespaces, .. }) => (Cow::Borrowed(namespaces), &[Of::Pods]),
                (RelativeNamespaces::Own, Subject::Unknown) | (RelativeNamespaces::Others, _) => (all(), &[Of::Pods]),
                (RelativeNamespaces::Labelled(RelativeSelector::Matching(selector)), _) => {
                    (Cow::Owned(NamespaceSet::Matching(selector.clone())), &[Of::Namespaces, Of::Pods])
                }
                (RelativeNamespaces::Labelled(_), _) => (all(), &[Of::Pods]),
            };
            let pods = match pods {
                RelativeSelector::Matching(selector) => Cow::Borrowed(selector),
                RelativeSelector::Same(_) | RelativeSelector::NoneSame(_) | RelativeSelector::SomeDiffer(_) => Cow::default(),
            };
            Some(Meant { namespaces, pods, named })
        }
        Peer::Networks(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => None,
    }
}

/// The blocks of an entry.
pub(crate) fn networks(peer: &Peer) -> &[IpBlock] {
    match peer {
        Peer::Networks(blocks) => blocks,
        Peer::Pods { .. } | Peer::Relative(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => &[],
    }
}

/// The entries of a rule's traffic; none for any.
pub(crate) fn ports(rule: &Rule) -> &[PortMatch] {
    match &rule.ports {
        PortSet::Of(ports) => ports,
        PortSet::Any => &[],
    }
}

/// `np/shop/db` as people say it: `NetworkPolicy shop/db`.
pub(crate) fn called(policy: &PolicyRef) -> String {
    match &policy.namespace {
        Some(namespace) => format!("{} {namespace}/{}", policy.kind.as_str(), policy.name),
        None => format!("{} {}", policy.kind.as_str(), policy.name),
    }
}
