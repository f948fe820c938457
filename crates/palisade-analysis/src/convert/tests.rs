use palisade_model::{
    Action, IpBlock, LabelSelector, Model, NamespaceSet, NetworkId, Peer, PeerSet, PerDirection, Policy, PolicyKind, PolicyRef, PortSet,
    Rule, Shape, Subject, Tier,
};

use super::*;

fn rule(index: usize, action: Action, peers: Vec<Peer>) -> Rule {
    Rule { index, name: None, action, peers: PeerSet::Of(peers), ports: PortSet::Any, fail_closed: None }
}

fn everybody() -> Peer {
    Peer::Pods { namespaces: NamespaceSet::Matching(LabelSelector::default()), pods: LabelSelector::default() }
}

fn policy(kind: PolicyKind, name: &str, tier: Tier, rank: i64, ingress: Vec<Rule>) -> Policy {
    let shape = match kind {
        PolicyKind::NetworkPolicy | PolicyKind::ClusterNetworkPolicy => Shape::Only,
        PolicyKind::AdminNetworkPolicy | PolicyKind::BaselineAdminNetworkPolicy => Shape::Late,
        PolicyKind::Kep2091 => Shape::Kep2091,
    };
    Policy {
        network: NetworkId::DEFAULT,
        origin: PolicyRef { kind, namespace: None, name: name.into() },
        shape,
        tier,
        rank,
        subject: Subject::Pods { namespaces: NamespaceSet::Matching(LabelSelector::default()), pods: LabelSelector::default() },
        isolates: PerDirection::default(),
        rules: PerDirection { egress: Vec::new(), ingress },
    }
}

fn model(policies: Vec<Policy>) -> Model {
    Model { policies: policies.into(), ..Model::default() }
}

/// Name, rank and number of ingress rules of what is written.
fn written(converted: &Converted) -> Vec<(&str, i64, usize)> {
    converted.written.iter().map(|it| (&*it.policy.origin.name, it.policy.rank, it.policy.rules.ingress.len())).collect()
}

fn denies(count: usize) -> Vec<Rule> {
    (0..count).map(|at| rule(at, Action::Deny, vec![everybody()])).collect()
}

#[test]
fn more_rules_than_a_policy_has_are_several_policies_in_order() {
    let model = model(vec![
        policy(PolicyKind::AdminNetworkPolicy, "before", Tier::Admin, 8, denies(1)),
        policy(PolicyKind::AdminNetworkPolicy, "long", Tier::Admin, 10, denies(60)),
    ]);
    let converted = convert(&model, &Objects::default(), Target::ClusterNetworkPolicy, None, Unsayable::Dropped);
    // The last part keeps the priority; those before it make room.
    assert_eq!(written(&converted), [("before", 7, 1), ("long", 8, 25), ("long-2", 9, 25), ("long-3", 10, 10)]);
    assert!(converted.losses.iter().all(|it| it.weight == Weight::Form), "{:#?}", converted.losses);
}

#[test]
fn parts_without_room_are_asked_by_name() {
    let model = model(vec![policy(PolicyKind::AdminNetworkPolicy, "long", Tier::Admin, 0, denies(30))]);
    let mut full: Vec<Policy> =
        (0..=1000).map(|rank| policy(PolicyKind::ClusterNetworkPolicy, &format!("c{rank}"), Tier::Admin, rank, Vec::new())).collect();
    full.splice(1..1, model.policies.iter().cloned());
    let model = Model { policies: full.into(), ..Model::default() };
    let converted = convert(&model, &Objects::default(), Target::ClusterNetworkPolicy, None, Unsayable::Dropped);
    assert_eq!(written(&converted), [("long", 0, 25), ("long-2", 0, 5)]);
    assert!(converted.losses.iter().any(|it| it.path == "spec.priority" && it.weight == Weight::Form), "{:#?}", converted.losses);
}

#[test]
fn the_last_priority_of_one_scale_is_not_baseline_in_the_other() {
    let model = model(vec![
        policy(PolicyKind::ClusterNetworkPolicy, "b", Tier::Admin, 999, denies(1)),
        policy(PolicyKind::ClusterNetworkPolicy, "a", Tier::Admin, 1000, denies(1)),
    ]);
    let converted = convert(&model, &Objects::default(), Target::Kep2091, None, Unsayable::Dropped);
    assert_eq!(written(&converted), [("b", 998, 1), ("a", 999, 1)]);
}

#[test]
fn baseline_policies_of_one_priority_get_names_in_their_order() {
    let model = model(vec![
        policy(PolicyKind::ClusterNetworkPolicy, "z", Tier::Baseline, 1, denies(1)),
        policy(PolicyKind::ClusterNetworkPolicy, "a", Tier::Baseline, 2, denies(2)),
    ]);
    let converted = convert(&model, &Objects::default(), Target::Kep2091, None, Unsayable::Dropped);
    assert_eq!(written(&converted), [("1-z", 1000, 1), ("2-a", 1000, 2)]);
}

#[test]
fn a_priority_beyond_the_scale_stays_the_first() {
    let model = model(vec![
        policy(PolicyKind::Kep2091, "b", Tier::Admin, -1000, denies(1)),
        policy(PolicyKind::Kep2091, "a", Tier::Admin, -5, denies(1)),
        policy(PolicyKind::Kep2091, "c", Tier::Admin, 0, denies(1)),
    ]);
    let converted = convert(&model, &Objects::default(), Target::ClusterNetworkPolicy, None, Unsayable::Dropped);
    assert_eq!(written(&converted), [("b", 0, 1), ("a", 1, 1), ("c", 2, 1)]);
}

#[test]
fn baseline_policies_of_one_subject_are_one_and_pass_is_allow() {
    let model = model(vec![
        policy(PolicyKind::ClusterNetworkPolicy, "a", Tier::Baseline, 1, vec![rule(0, Action::Pass, vec![everybody()])]),
        policy(PolicyKind::ClusterNetworkPolicy, "b", Tier::Baseline, 2, denies(1)),
    ]);
    let converted = convert(&model, &Objects::default(), Target::AdminNetworkPolicy, None, Unsayable::Dropped);
    assert_eq!(written(&converted), [("default", 1001, 2)]);
    let actions: Vec<Action> = converted.written.iter().flat_map(|it| &it.policy.rules.ingress).map(|it| it.action).collect();
    assert_eq!(actions, [Action::Accept, Action::Deny]);
    assert!(converted.losses.iter().all(|it| it.weight == Weight::Form), "{:#?}", converted.losses);
}

#[test]
fn more_peers_than_a_rule_has_are_several_rules() {
    let blocks: Vec<IpBlock> = (0..30).map(|at| IpBlock::whole(format!("10.0.{at}.0/24").parse().unwrap())).collect();
    let peers: Vec<Peer> = (0..40).map(|_| everybody()).collect();
    let mut long = policy(PolicyKind::AdminNetworkPolicy, "long", Tier::Admin, 1, vec![rule(0, Action::Accept, peers)]);
    long.rules.egress = vec![rule(0, Action::Deny, vec![Peer::Networks(blocks)])];
    let converted = convert(&model(vec![long]), &Objects::default(), Target::ClusterNetworkPolicy, None, Unsayable::Dropped);
    let [one] = converted.written.as_slice() else { panic!("{converted:#?}") };
    let count = |rules: &[Rule]| {
        let peers = |it: &Rule| match &it.peers {
            PeerSet::Of(peers) => peers.len(),
            PeerSet::Any | PeerSet::AnyButOwnNode => 0,
        };
        rules.iter().map(peers).collect::<Vec<usize>>()
    };
    assert_eq!((count(&one.policy.rules.ingress), count(&one.policy.rules.egress)), (vec![25, 15], vec![2]));
    assert!(one.rules.ingress.iter().all(|it| it.index == 0), "both are the old rule");
}

#[test]
fn a_name_that_is_taken_gets_the_old_kind() {
    let model = model(vec![
        policy(PolicyKind::AdminNetworkPolicy, "a", Tier::Admin, 1, denies(1)),
        policy(PolicyKind::ClusterNetworkPolicy, "a", Tier::Admin, 5, denies(1)),
        policy(PolicyKind::Kep2091, "a", Tier::Admin, 7, denies(1)),
    ]);
    let converted = convert(&model, &Objects::default(), Target::ClusterNetworkPolicy, None, Unsayable::Dropped);
    assert_eq!(written(&converted), [("a-anp", 1, 1), ("a-kep2091", 7, 1)]);
}

#[test]
fn a_name_is_taken_by_a_new_policy_of_the_other_tier_too() {
    let model = model(vec![
        policy(PolicyKind::AdminNetworkPolicy, "a", Tier::Admin, 1, denies(1)),
        policy(PolicyKind::ClusterNetworkPolicy, "a", Tier::Baseline, 5, denies(1)),
    ]);
    let converted = convert(&model, &Objects::default(), Target::Kep2091, None, Unsayable::Dropped);
    assert_eq!(written(&converted), [("a", 1, 1), ("a-cnp", 1000, 1)]);
}

#[test]
fn a_name_with_a_number_is_free_and_a_name() {
    let long = "z".repeat(253);
    let model = model(vec![
        policy(PolicyKind::Kep2091, "1-z", Tier::Admin, 1, denies(1)),
        policy(PolicyKind::ClusterNetworkPolicy, &long, Tier::Baseline, 1, denies(1)),
        policy(PolicyKind::ClusterNetworkPolicy, "z", Tier::Baseline, 2, denies(1)),
        policy(PolicyKind::ClusterNetworkPolicy, "a", Tier::Baseline, 3, denies(2)),
    ]);
    let other = PolicyRef { kind: PolicyKind::Kep2091, namespace: None, name: "2-z".into() };
    let objects = Objects { others: [other].into(), ..Objects::default() };
    let converted = convert(&model, &objects, Target::Kep2091, None, Unsayable::Dropped);
    assert_eq!(written(&converted), [(&*format!("01-{}", "z".repeat(240)), 1000, 1), ("02-z", 1000, 1), ("03-a", 1000, 2)]);
}

#[test]
fn a_policy_without_a_name_gets_one_from_its_place() {
    let place = "some/where/Cluster.yaml:46";
    let model = model(vec![policy(PolicyKind::Kep2091, place, Tier::Admin, 1, denies(1))]);
    let converted = convert(&model, &Objects::default(), Target::ClusterNetworkPolicy, None, Unsayable::Dropped);
    assert_eq!(written(&converted), [("cluster-yaml-46", 1, 1)]);
    let told: Vec<(&str, &str)> = converted.losses.iter().map(|it| (it.path.as_str(), it.why.as_str())).collect();
    assert_eq!(told, [("metadata.name", "the policy has no name")]);
}
