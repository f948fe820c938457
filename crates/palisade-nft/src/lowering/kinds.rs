//! Pods by what a ruleset can depend on. Names are not among it, and labels only if some policy asks for their key.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};

use palisade_model::{ContainerPort, Endpoint, LabelSelector, Labels, NodeId, Peer, PeerSet, Policy, RelativeSelector, Subject};

/// Kinds of pods by number, and which of them are alike.
#[derive(Debug)]
pub(super) struct Kinds {
    all: Vec<Kind>,
    by_hash: HashMap<u64, Vec<usize>>,
    hasher: RandomState,
    alike: BTreeMap<Essence, usize>,
    /// Keys of labels of pods that policies ask for.
    asked: BTreeSet<Box<str>>,
}

/// Pods that are the same but for names and addresses.
#[derive(Debug)]
struct Kind {
    namespace: Box<str>,
    labels: Labels,
    ports: Vec<ContainerPort>,
    stands: Stands,
    alike: usize,
}

/// What is left of a kind without the labels that nobody asks for.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Essence {
    namespace: Box<str>,
    labels: Labels,
    ports: Vec<ContainerPort>,
    stands: Stands,
}

/// Whether a pod runs on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Stands {
    Here,
    Elsewhere,
}

impl Stands {
    pub(super) fn of(endpoint: &Endpoint, node: NodeId) -> Stands {
        if endpoint.node == Some(node) { Stands::Here } else { Stands::Elsewhere }
    }
}

impl Kind {
    fn is_of(&self, endpoint: &Endpoint, stands: Stands) -> bool {
        self.stands == stands && self.namespace == endpoint.name.namespace && self.labels == endpoint.labels && self.ports == endpoint.ports
    }
}

impl Kinds {
    pub(super) fn asked_by(policies: &[Policy]) -> Kinds {
        let mut asked = BTreeSet::new();
        policies.iter().for_each(|it| ask(it, &mut asked));
        Kinds { all: Vec::new(), by_hash: HashMap::new(), hasher: RandomState::new(), alike: BTreeMap::new(), asked }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether a pod is of a kind.
    pub(super) fn is_of(&self, kind: usize, endpoint: &Endpoint, stands: Stands) -> bool {
        self.all.get(kind).is_some_and(|it| it.is_of(endpoint, stands))
    }

    /// The number of what is alike with a kind.
    pub(super) fn alike(&self, kind: usize) -> Option<(usize, Stands)> {
        self.all.get(kind).map(|it| (it.alike, it.stands))
    }

    /// The kind of a pod, a new one if it was not met before.
    pub(super) fn of(&mut self, endpoint: &Endpoint, stands: Stands) -> usize {
        let hash = self.hasher.hash_one((&endpoint.name.namespace, &endpoint.labels, &endpoint.ports, stands));
        let known = self.by_hash.get(&hash).into_iter().flatten();
        if let Some(known) = known.copied().find(|it| self.is_of(*it, endpoint, stands)) {
            return known;
        }
        let (namespace, ports) = (endpoint.name.namespace.clone(), endpoint.ports.clone());
        let labels = endpoint.labels.iter().filter(|(key, _)| self.asked.contains(*key)).collect();
        let next = self.alike.len();
        let alike = *self.alike.entry(Essence { namespace: namespace.clone(), labels, ports: ports.clone(), stands }).or_insert(next);
        self.all.push(Kind { namespace, labels: endpoint.labels.clone(), ports, stands, alike });
        self.by_hash.entry(hash).or_default().push(self.all.len() - 1);
        self.all.len() - 1
    }
}

/// Notes the keys that a policy asks of pods, its subjects and its peers.
fn ask(policy: &Policy, asked: &mut BTreeSet<Box<str>>) {
    let mut select = |selector: &LabelSelector| {
        for requirement in &selector.requirements {
            if !asked.contains(&requirement.key) {
                asked.insert(requirement.key.clone());
            }
        }
    };
    if let Subject::Pods { pods, .. } = &policy.subject {
        select(pods);
    }
    let mut compared: Vec<&Box<str>> = Vec::new();
    for rule in policy.rules.egress.iter().chain(&policy.rules.ingress) {
        let PeerSet::Of(peers) = &rule.peers else { continue };
        for peer in peers {
            match peer {
                Peer::Pods { pods, .. } => select(pods),
                Peer::Relative(relative) => match &relative.pods {
                    RelativeSelector::Matching(pods) => select(pods),
                    RelativeSelector::Same(keys) | RelativeSelector::NoneSame(keys) | RelativeSelector::SomeDiffer(keys) => {
                        compared.extend(keys);
                    }
                },
                Peer::Networks(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => {}
            }
        }
    }
    asked.extend(compared.into_iter().cloned());
}
