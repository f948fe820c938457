//! Names for addresses and for the numbers in log prefixes.

use palisade_model::{Action, Direction, Model, NodeId, Place, Reason, Shared};
use palisade_nft::{Guard, Origin};
use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::acceptance::AcceptedBy;
use crate::cluster::Cluster;
use crate::denial::{DeniedBy, Name, Side};

/// What to call the ends of a packet and what denied it: a cluster at one time and the ruleset that was made from it.
#[derive(Clone, Debug, Default)]
pub struct Names {
    pub(crate) cluster: Cluster,
    origins: Shared<BTreeMap<u32, DeniedBy>>,
    accepting: Shared<BTreeMap<u32, AcceptedBy>>,
}

impl Names {
    /// Those of a cluster, and of the `origins` of a ruleset of one of its nodes.
    pub fn of(model: &Model, origins: &BTreeMap<u32, Origin>) -> Names {
        let mut names = Names { cluster: Cluster::of(model.clone(), NodeId(0), BTreeMap::new()), ..Names::default() };
        names.name_origins(origins);
        names
    }

    fn name_origins(&mut self, origins: &BTreeMap<u32, Origin>) {
        let Names { cluster, origins: denying, accepting } = self;
        (*denying, *accepting) = (Shared::default(), Shared::default());
        for (number, origin) in origins {
            match origin {
                Origin::Accepted { direction, rule } => {
                    drop(accepting.insert(*number, AcceptedBy { direction: *direction, rule: rule.clone() }));
                }
                Origin::Guard(guard) => drop(denying.insert(*number, DeniedBy::Guard(*guard))),
                Origin::Policy { direction, reason } => {
                    drop(denying.insert(*number, by(cluster.model(), *direction, reason.clone())));
                }
            }
        }
    }

    /// Takes up the `origins` of the ruleset that is to come. Packets that the ruleset `before` denied may still be on their way, so its origins keep
    /// their names. `policies` says whether policies changed: if neither they nor the origins did, the names stay.
    pub(crate) fn follow(&mut self, before: &BTreeMap<u32, Origin>, origins: &Shared<BTreeMap<u32, Origin>>, policies: PoliciesDiffer) {
        if policies == PoliciesDiffer::No && std::ptr::eq(before, &**origins) && !origins.is_empty() {
            return;
        }
        let mut both = BTreeMap::clone(before);
        both.extend(origins.iter().map(|(number, origin)| (*number, origin.clone())));
        self.name_origins(&both);
    }

    /// The source of a packet, whose name is not its sender's if it is forged.
    pub(crate) fn source(&self, address: IpAddr, by: &DeniedBy) -> Side {
        match by {
            DeniedBy::Guard(Guard::ForgedSource | Guard::ForgedNode) => Side { address, name: Name::Forged },
            DeniedBy::Guard(Guard::InvalidState | Guard::NotABeginning | Guard::UnknownPod) => self.side(address),
            DeniedBy::Policy { .. } | DeniedBy::UnresolvedName { .. } | DeniedBy::Unknown(_) => self.side(address),
        }
    }

    pub(crate) fn side(&self, address: IpAddr) -> Side {
        Side { address, name: self.name(address).unwrap_or(Name::Outside) }
    }

    fn name(&self, address: IpAddr) -> Option<Name> {
        match self.cluster.place(address) {
            Place::Pod(id) => self.cluster.model().endpoint(id).map(|it| Name::Pod(it.name.clone())),
            Place::Node(id) => self.cluster.model().node(id).map(|it| Name::Node(it.name.to_string())),
            Place::Outside => None,
        }
    }

    /// What let a packet pass, if the number is of a rule that logs what it accepts.
    pub(crate) fn accepting(&self, number: u32) -> Option<&AcceptedBy> {
        self.accepting.get(&number)
    }

    pub(crate) fn origin(&self, number: u32) -> DeniedBy {
        self.origins.get(&number).cloned().unwrap_or(DeniedBy::Unknown(number))
    }
}

/// Whether a change has changed policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoliciesDiffer {
    Yes,
    No,
}

/// A packet is denied by a rule that accepts only when that rule accepts nothing but names.
pub(crate) fn by(model: &Model, direction: Direction, reason: Reason) -> DeniedBy {
    let Reason::Rule(rule) = &reason else { return DeniedBy::Policy { direction, reason } };
    let policy = named(model, &rule.policy);
    match policy.and_then(|it| it.rules.of(rule.direction).iter().find(|it| it.index == rule.index)).map(|it| it.action) {
        Some(Action::Accept) => DeniedBy::UnresolvedName { direction, rule: rule.clone() },
        Some(Action::Deny | Action::Pass) | None => DeniedBy::Policy { direction, reason },
    }
}

/// The policy of a name. Most are NetworkPolicies, which stand together in the order of their names: a node may have to find thousands.
fn named<'m>(model: &'m Model, origin: &palisade_model::PolicyRef) -> Option<&'m palisade_model::Policy> {
    use palisade_model::{Policy, Tier};
    let is_before = |it: &Policy| (it.tier, &it.origin.name, &it.origin) < (Tier::NetworkPolicy, &origin.name, origin);
    let found = model.policies.get(model.policies.partition_point(is_before)).filter(|it| it.origin == *origin);
    found.or_else(|| model.policies.iter().find(|it| it.origin == *origin))
}

#[cfg(test)]
mod tests {
    use palisade_model::{
        Endpoint, EndpointId, Labels, NetworkId, Node, PeerSet, PerDirection, Place, PodName, Policy, PolicyKind, PolicyRef, PortSet,
        Readiness, Rule, RuleRef, Running, Subject, Tier,
    };

    use super::*;

    fn pod(name: &str, running: Running, addresses: &[&str]) -> Endpoint {
        Endpoint {
            attachment: None,
            name: PodName { namespace: "shop".into(), name: name.into() },
            labels: Labels::default(),
            addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
            node: None,
            ports: Vec::new(),
            owners: Vec::new(),
            readiness: Readiness::Ready,
            running,
        }
    }

    fn node(name: &str, addresses: &[&str]) -> Node {
        let addresses = addresses.iter().map(|it| it.parse().unwrap()).collect();
        Node { name: name.into(), labels: Labels::default(), addresses, host_pods: Vec::new(), assumed: false }
    }

    /// A cluster policy with these rules.
    fn admin(origin: &PolicyRef, rules: PerDirection<Vec<Rule>>) -> Policy {
        Policy {
            network: NetworkId::DEFAULT,
            origin: origin.clone(),
            shape: palisade_model::Shape::Only,
            tier: Tier::Admin,
            rank: 0,
            subject: Subject::Unknown,
            isolates: PerDirection::default(),
            rules,
        }
    }

    #[test]
    fn an_address_has_the_name_of_its_place_in_the_model() {
        let endpoints = vec![
            pod("a", Running::NotSaid, &["10.0.0.1", "fd00::1"]),
            pod("b", Running::Yes, &["10.0.0.1", "192.0.2.1"]),
            pod("c", Running::Yes, &["10.0.0.1"]),
        ]
        .into();
        let nodes = vec![node("m", &["192.0.2.1", "192.0.2.2"]), node("n", &["192.0.2.2", "192.0.2.3"])].into();
        let model = Model { endpoints, nodes, ..Model::default() };
        let names = Names::of(&model, &BTreeMap::new());
        let mut met = Vec::new();
        for address in ["10.0.0.1", "fd00::1", "192.0.2.1", "192.0.2.2", "192.0.2.3", "203.0.113.1"] {
            let address = address.parse().unwrap();
            let place = model.place_of(NetworkId::DEFAULT, address);
            let name = match place {
                Place::Pod(EndpointId(at)) => Name::Pod(model.endpoints[at].name.clone()),
                Place::Node(NodeId(at)) => Name::Node(model.nodes[at].name.to_string()),
                Place::Outside => Name::Outside,
            };
            assert_eq!(names.side(address), Side { address, name }, "{address}");
            met.push(place);
        }
        let (pod, node) = (|at| Place::Pod(EndpointId(at)), |at| Place::Node(NodeId(at)));
        assert_eq!(met, [pod(1), pod(0), pod(1), node(0), node(1), Place::Outside]);
    }

    #[test]
    fn an_origin_is_what_the_ruleset_says_and_a_rule_that_accepts_does_not_deny() {
        let policy = PolicyRef { kind: PolicyKind::ClusterNetworkPolicy, namespace: None, name: "x".into() };
        let rule = |index, action| Rule { index, name: None, action, peers: PeerSet::Any, ports: PortSet::Any, fail_closed: None };
        // The first rule could not be read, and is not there.
        let rules = PerDirection { egress: vec![rule(1, Action::Deny), rule(2, Action::Accept)], ingress: Vec::new() };
        let read = admin(&policy, rules);
        let model = Model { policies: vec![read].into(), ..Model::default() };
        let direction = Direction::Egress;
        let rule = |index| RuleRef { policy: policy.clone(), direction, index, name: None };
        let reason = |index| Reason::Rule(rule(index));
        let mut origins = BTreeMap::from([(3, Origin::Guard(Guard::ForgedNode))]);
        origins.extend([0, 1, 2].map(|it| (u32::try_from(it).unwrap(), Origin::Policy { direction, reason: reason(it) })));
        let names = Names::of(&model, &origins);
        let expected = [
            DeniedBy::Policy { direction, reason: reason(0) },
            DeniedBy::Policy { direction, reason: reason(1) },
            DeniedBy::UnresolvedName { direction, rule: rule(2) },
            DeniedBy::Guard(Guard::ForgedNode),
            DeniedBy::Unknown(4),
        ];
        assert_eq!([0, 1, 2, 3, 4].map(|it| names.origin(it)), expected);
    }

    #[test]
    fn names_follow_pods_and_policies() {
        let (direction, policy) =
            (Direction::Egress, PolicyRef { kind: PolicyKind::ClusterNetworkPolicy, namespace: None, name: "x".into() });
        let rule = RuleRef { policy: policy.clone(), direction, index: 0, name: None };
        let cluster = |action, pods: &[&str]| {
            let rules = vec![Rule { index: 0, name: None, action, peers: PeerSet::Any, ports: PortSet::Any, fail_closed: None }];
            let read = admin(&policy, PerDirection { egress: rules, ingress: Vec::new() });
            let endpoints = pods.iter().map(|it| pod(it, Running::Yes, &[it])).collect();
            Cluster::of(Model { endpoints, policies: vec![read].into(), ..Model::default() }, NodeId(0), BTreeMap::new())
        };
        let is_pod = |names: &Names, address: &str| matches!(names.side(address.parse().unwrap()).name, Name::Pod(_));
        let origin = Origin::Policy { direction, reason: Reason::Rule(rule.clone()) };
        let first: Shared<BTreeMap<u32, Origin>> = [(1, origin.clone())].into();
        let (mut names, none) = (Names::default(), BTreeMap::new());
        names.cluster = cluster(Action::Accept, &["10.0.0.1"]);
        names.follow(&none, &first, PoliciesDiffer::Yes);
        let unresolved = DeniedBy::UnresolvedName { direction, rule: rule.clone() };
        assert_eq!((names.origin(1), is_pod(&names, "10.0.0.1"), is_pod(&names, "10.0.0.2")), (unresolved.clone(), true, false));
        // A pod comes and nothing else changes.
        names.cluster = cluster(Action::Accept, &["10.0.0.1", "10.0.0.2"]);
        names.follow(&first, &first, PoliciesDiffer::No);
        assert_eq!((names.origin(1), is_pod(&names, "10.0.0.2")), (unresolved, true));
        // The rule says something else, under the same number.
        names.cluster = cluster(Action::Deny, &[]);
        names.follow(&first, &first, PoliciesDiffer::Yes);
        let denied = DeniedBy::Policy { direction, reason: Reason::Rule(rule) };
        assert_eq!((names.origin(1), is_pod(&names, "10.0.0.1")), (denied.clone(), false));
        // An origin whose packets may be on their way keeps its name for one change.
        let second: Shared<BTreeMap<u32, Origin>> = [(2, origin)].into();
        names.follow(&first, &second, PoliciesDiffer::No);
        assert_eq!([1, 2].map(|it| names.origin(it)), [denied.clone(), denied.clone()]);
        names.follow(&second, &first, PoliciesDiffer::No);
        let third: Shared<BTreeMap<u32, Origin>> = [(3, Origin::Guard(Guard::ForgedNode))].into();
        names.follow(&first, &third, PoliciesDiffer::No);
        assert_eq!([1, 2].map(|it| names.origin(it)), [denied, DeniedBy::Unknown(2)]);
    }

    #[test]
    fn a_policy_is_found_wherever_it_stands() {
        let policy = |(tier, name): (Tier, &str)| {
            let kind = if tier == Tier::NetworkPolicy { PolicyKind::NetworkPolicy } else { PolicyKind::ClusterNetworkPolicy };
            let namespace = (tier == Tier::NetworkPolicy).then(|| "shop".into());
            Policy {
                network: NetworkId::DEFAULT,
                origin: PolicyRef { kind, namespace, name: name.into() },
                shape: palisade_model::Shape::Only,
                tier,
                rank: 0,
                subject: Subject::Unknown,
                isolates: PerDirection::default(),
                rules: PerDirection::default(),
            }
        };
        let network = ["a", "b", "c", "d", "e"].map(|it| (Tier::NetworkPolicy, it));
        let all = [(Tier::Admin, "a"), (Tier::Admin, "z")].into_iter().chain(network).chain([(Tier::Baseline, "c")]);
        let in_order: Vec<Policy> = all.map(policy).collect();
        let backwards: Vec<Policy> = in_order.iter().rev().cloned().collect();
        for policies in [in_order, backwards] {
            let model = Model { policies: policies.into(), ..Model::default() };
            for it in &model.policies {
                assert_eq!(named(&model, &it.origin), Some(it));
            }
            assert_eq!(named(&model, &policy((Tier::NetworkPolicy, "bb")).origin), None);
        }
    }

    #[test]
    fn a_forged_source_does_not_have_the_name_of_its_owner() {
        let model = Model { endpoints: vec![pod("a", Running::Yes, &["10.0.0.1"])].into(), ..Model::default() };
        let names = Names::of(&model, &BTreeMap::new());
        let address = "10.0.0.1".parse().unwrap();
        for (guard, forged) in
            [(Guard::ForgedSource, true), (Guard::ForgedNode, true), (Guard::InvalidState, false), (Guard::NotABeginning, false)]
        {
            let name = if forged { Name::Forged } else { Name::Pod(model.endpoints[0].name.clone()) };
            assert_eq!(names.source(address, &DeniedBy::Guard(guard)), Side { address, name }, "{guard}");
        }
    }
}
