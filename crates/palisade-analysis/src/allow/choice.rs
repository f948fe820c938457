//! Which policies could open one side of a connection, the best first.

use palisade_model::{
    Action, ContainerPort, Direction, Endpoint, Flow, LabelSelector, Labels, Model, NamespaceSet, NetworkId, Operator, Peer, PeerSet,
    PerDirection, Policy, PolicyKind, PolicyRef, PortMatch, PortSet, Ports, Requirement, Rule, Shape, Subject, Tier,
};

use super::{Addition, Change, Form, Why};
use crate::flip::{exact_rule, other, own, peer_name, pod_at, short_name, telling_labels, unused_name};

/// One side, and what was proposed already.
#[derive(Debug)]
pub(super) struct Choosing<'w> {
    pub(super) model: &'w Model,
    pub(super) made: &'w [Change],
    pub(super) flow: &'w Flow,
    pub(super) direction: Direction,
}

impl Choosing<'_> {
    /// For a pod that is isolated by these policies.
    pub(super) fn isolated(&self, form: Form, by: &[PolicyRef]) -> Result<Vec<Change>, Why> {
        let (subject, rule) = (self.subject()?, self.rule()?);
        let policies: Vec<&Policy> = self.model.policies.iter().filter(|it| by.contains(&it.origin)).collect();
        let (mine, theirs): (Vec<&Policy>, Vec<&Policy>) = policies.iter().partition(|it| self.is_mine(&it.origin));
        let telling = telling_labels(&subject.labels);
        let fits = |it: &&&Policy| self.is_about(it, subject, &telling) && !it.rules.of(self.direction).is_empty();
        let mut fitting: Vec<&Policy> = theirs.iter().filter(fits).copied().collect();
        fitting.sort_by_key(|it| (matches!(self.addition(it, &rule), Addition::Rule { .. }), it.origin.clone()));
        let mut any = theirs.clone();
        any.sort_by_key(|it| (it.rules.of(self.direction).is_empty(), self.selected(it), it.origin.clone()));
        let extended = |policies: &[&Policy]| policies.iter().map(|it| self.extend(it, &rule)).collect::<Vec<Change>>();
        let new = policies.iter().map(|it| together(&telling, it)).min_by_key(|it| it.requirements.len());
        let new: Vec<Change> =
            new.map(|it| Change::Create { policy: self.policy(subject, it, &rule), isolates: Vec::new() }).into_iter().collect();
        let rest = match form {
            Form::Fitting => [extended(&fitting), new, extended(&any)].concat(),
            Form::New => [new, extended(&any)].concat(),
            Form::Addition => [extended(&fitting), extended(&any), new].concat(),
        };
        Ok([extended(&mine), rest].concat())
    }

    /// For a pod that nothing isolates: a policy that does.
    pub(super) fn isolating(&self) -> Result<Change, Why> {
        let (subject, rule) = (self.subject()?, self.rule()?);
        let telling = telling_labels(&subject.labels);
        if telling.selects_everything() {
            return Err(Why::NoLabels);
        }
        Ok(Change::Create { policy: self.policy(subject, telling, &rule), isolates: vec![self.direction] })
    }

    fn subject(&self) -> Result<&Endpoint, Why> {
        pod_at(self.model, own(self.flow, self.direction)).ok_or(Why::NothingHelps)
    }

    /// Just the other end and just this traffic.
    fn rule(&self) -> Result<Rule, Why> {
        exact_rule(self.model, self.flow, self.direction, 0, Action::Accept).ok_or(Why::NoWords)
    }

    fn is_mine(&self, policy: &PolicyRef) -> bool {
        self.made.iter().any(|it| matches!(it, Change::Create { policy: created, .. } if created.origin == *policy))
    }

    /// Whether a policy is about the pods that are called as the subject is, and about no others.
    fn is_about(&self, policy: &Policy, subject: &Endpoint, telling: &LabelSelector) -> bool {
        let Subject::Pods { pods, .. } = &policy.subject else { return false };
        let mut neighbours = self.model.endpoints.iter().filter(|it| it.name.namespace == subject.name.namespace);
        !pods.selects_everything() && neighbours.all(|it| pods.matches(&it.labels) == telling.matches(&it.labels))
    }

    /// How many pods a policy is about.
    fn selected(&self, policy: &Policy) -> usize {
        self.model.endpoints.iter().filter(|it| palisade_engine::selects(self.model, policy, it)).count()
    }

    fn extend(&self, policy: &Policy, rule: &Rule) -> Change {
        Change::Extend { policy: policy.origin.clone(), additions: vec![self.addition(policy, rule)] }
    }

    /// The smallest addition that accepts what the rule does, and no more: one more peer for the same ports, one more port for the same peer, or
    /// the rule itself.
    fn addition(&self, policy: &Policy, rule: &Rule) -> Addition {
        let rules = policy.rules.of(self.direction);
        let direction = self.direction;
        if let PeerSet::Of(wanted) = &rule.peers
            && let [peer] = wanted.as_slice()
        {
            let some = |it: &&Rule| it.fail_closed.is_none() && matches!(&it.peers, PeerSet::Of(peers) if !peers.is_empty());
            if let Some(known) = rules.iter().filter(some).find(|it| it.ports == rule.ports || self.names(policy, it, rule)) {
                return Addition::Peer { direction, index: known.index, peer: peer.clone() };
            }
            if let PortSet::Of(ports) = &rule.ports
                && let [port] = ports.as_slice()
            {
                let same =
                    |it: &&Rule| matches!(&it.peers, PeerSet::Of(peers) if matches!(peers.as_slice(), [only] if self.is_same(only, peer)));
                let numbered = |it: &&Rule| it.fail_closed.is_none() && matches!(&it.ports, PortSet::Of(ports) if !ports.is_empty());
                if let Some(known) = rules.iter().filter(numbered).find(same) {
                    return Addition::Port { direction, index: known.index, port: port.clone() };
                }
            }
        }
        let index = rules.iter().map(|it| it.index + 1).max().unwrap_or(0);
        Addition::Rule { direction, rule: Rule { index, ..rule.clone() } }
    }

    /// Whether a rule names the wanted port as all pods of the policy have it.
    fn names(&self, policy: &Policy, known: &Rule, wanted: &Rule) -> bool {
        let single = |it: &PortSet| match it {
            PortSet::Of(entries) => match entries.as_slice() {
                [only] => Some(only.clone()),
                [] | [_, _, ..] => None,
            },
            PortSet::Any => None,
        };
        let (Some(PortMatch::Named { protocol, name }), Some(PortMatch::Numbers { protocol: asked, ports })) =
            (single(&known.ports), single(&wanted.ports))
        else {
            return false;
        };
        let same = |it: &ContainerPort| it.name.as_ref() != Some(&name) || (it.protocol == asked && Ports::one(it.port) == ports);
        let has = |it: &Endpoint| it.ports.iter().any(|it| it.name.as_ref() == Some(&name)) && it.ports.iter().all(same);
        let mut subjects = self.model.endpoints.iter().filter(|it| palisade_engine::selects(self.model, policy, it));
        self.direction == Direction::Ingress && protocol.is_none_or(|it| it == asked) && subjects.all(has)
    }

    /// Whether two entries are about the same pods.
    fn is_same(&self, a: &Peer, b: &Peer) -> bool {
        let (Peer::Pods { namespaces: in_a, pods: a_pods }, Peer::Pods { namespaces: in_b, pods: b_pods }) = (a, b) else { return a == b };
        let among = |namespaces: &NamespaceSet, it: &Endpoint| match namespaces {
            NamespaceSet::Own(own) => *own == it.name.namespace,
            NamespaceSet::Matching(selector) => selector.matches(self.model.namespace_labels(&it.name.namespace)),
        };
        let mut all = self.model.endpoints.iter();
        let selective = !a_pods.selects_everything() || b_pods.selects_everything();
        selective && all.all(|it| (among(in_a, it) && a_pods.matches(&it.labels)) == (among(in_b, it) && b_pods.matches(&it.labels)))
    }

    /// A policy about some pods of the subject's namespace that has just this rule.
    fn policy(&self, subject: &Endpoint, pods: LabelSelector, rule: &Rule) -> Policy {
        let peer = peer_name(self.model, other(self.flow, self.direction));
        let name = match self.direction {
            Direction::Ingress => format!("allow-{peer}-to-{}", short_name(subject)),
            Direction::Egress => format!("allow-{}-out-to-{peer}", short_name(subject)),
        };
        let namespace = subject.name.namespace.clone();
        let mut origin = PolicyRef { kind: PolicyKind::NetworkPolicy, namespace: Some(namespace.clone()), name: Box::default() };
        origin.name = unused_name(self.model, &origin, &name);
        let (mut isolates, mut rules) = (PerDirection::default(), PerDirection::default());
        *isolates.of_mut(self.direction) = true;
        *rules.of_mut(self.direction) = vec![rule.clone()];
        let subject = Subject::Pods { namespaces: NamespaceSet::Own(namespace), pods };
        Policy { network: NetworkId::DEFAULT, origin, shape: Shape::Only, tier: Tier::NetworkPolicy, rank: 0, subject, isolates, rules }
    }
}

/// These labels, and whatever else a policy wants of the pods that it isolates: so nobody is selected that was not isolated, now or later.
fn together(telling: &LabelSelector, policy: &Policy) -> LabelSelector {
    let mut all = telling.clone();
    let Subject::Pods { pods, .. } = &policy.subject else { return all };
    let known: Labels = telling.requirements.iter().filter_map(equals).collect();
    all.requirements.extend(pods.requirements.iter().filter(|it| known.get(&it.key).is_none() || !it.matches(&known)).cloned());
    all
}

fn equals(it: &Requirement) -> Option<(&str, &str)> {
    match &it.operator {
        Operator::Equals(value) => Some((&it.key, value)),
        Operator::In(_) | Operator::NotIn(_) | Operator::Exists | Operator::DoesNotExist => None,
    }
}
