use palisade_engine::compile;
use palisade_model::{
    Action, Endpoint, IpBlock, LabelSelector, Labels, Model, Namespace, NamespaceSet, NetworkId, Peer, PeerSet, PerDirection, PodName,
    Policy, PolicyKind, PolicyRef, PortSet, Readiness, Rule, Running, Shape, Subject, Tier,
};

use super::{Diff, Filter, Focus, Group, Version};

/// Pods, written `namespace/name key=value …`, and policies.
fn model(pods: &[&str], policies: Vec<Policy>) -> Model {
    let mut model = Model { policies: policies.into(), ..Model::default() };
    for pod in pods {
        let (name, labels) = pod.split_once(' ').unwrap_or((pod, ""));
        let (namespace, name) = name.split_once('/').unwrap();
        let labels: Labels = labels.split_whitespace().map(|it| it.split_once('=').unwrap()).collect();
        model.namespaces.insert(namespace.into(), Namespace::default());
        let name = PodName { namespace: namespace.into(), name: name.into() };
        let (addresses, ports, owners) = (Vec::new(), Vec::new(), Vec::new());
        let (readiness, running) = (Readiness::Ready, Running::Yes);
        model.endpoints.push(Endpoint { attachment: None, name, labels, addresses, node: None, ports, owners, readiness, running });
    }
    model
}

/// A NetworkPolicy about all pods of a namespace that accepts from these.
fn policy(namespace: &str, from: Vec<Peer>) -> Policy {
    let rule = Rule { index: 0, name: None, action: Action::Accept, peers: PeerSet::Of(from), ports: PortSet::Any, fail_closed: None };
    Policy {
        network: NetworkId::DEFAULT,
        origin: PolicyRef { kind: PolicyKind::NetworkPolicy, namespace: Some(namespace.into()), name: "p".into() },
        tier: Tier::NetworkPolicy,
        rank: 0,
        subject: Subject::Pods { namespaces: NamespaceSet::Own(namespace.into()), pods: LabelSelector::default() },
        shape: Shape::Only,
        isolates: PerDirection { egress: false, ingress: true },
        rules: PerDirection { egress: Vec::new(), ingress: vec![rule] },
    }
}

fn block(cidr: &str) -> Peer {
    Peer::Networks(vec![IpBlock { cidr: cidr.parse().unwrap(), except: Vec::new() }])
}

fn own(namespace: &str) -> Peer {
    Peer::Pods { namespaces: NamespaceSet::Own(namespace.into()), pods: LabelSelector::default() }
}

fn compared(old: &Model, new: &Model, filter: &Filter) -> Diff {
    let (before, after) = (compile(old), compile(new));
    let (mut before, mut after) = (before.reach(), after.reach());
    Version { model: new, reach: &mut after }.changes_since(&mut Version { model: old, reach: &mut before }, filter)
}

fn told(diff: &Diff) -> Vec<String> {
    let said = |group: &Group| {
        let units = group.units.iter().map(|it| diff.units[it.unit].name.clone());
        units.chain(group.ranges.iter().map(|(first, last)| format!("{first}-{last}"))).collect::<Vec<_>>().join(",")
    };
    diff.changes.iter().map(|it| format!("{:?} {} -> {} {:?}", it.verb, said(&it.from), said(&it.to), it.between)).collect()
}

fn check(old: &Model, new: &Model, expected: &[&str]) {
    assert_eq!(told(&compared(old, new, &Filter::default())), expected);
}

const PODS: [&str; 4] = ["x/a app=a", "x/b app=b", "y/a app=a", "z/a app=a"];

#[test]
fn nothing_differs_between_a_cluster_and_itself() {
    let model = model(&PODS, vec![policy("x", vec![own("x"), block("10.0.0.0/8")])]);
    check(&model, &model, &[]);
}

#[test]
fn ranges_are_cut_where_either_version_cuts_them_and_joined_again() {
    let before = model(&PODS[..1], vec![policy("x", vec![block("10.0.0.0/9")])]);
    let after = model(&PODS[..1], vec![policy("x", vec![block("10.64.0.0/10"), block("10.128.0.0/9")])]);
    check(&before, &after, &["Opened 10.128.0.0-10.255.255.255 -> x/a[Pod] Any", "Closed 10.0.0.0-10.63.255.255 -> x/a[Pod] Any"]);
}

#[test]
fn a_namespace_that_closes_to_others_is_one_line() {
    let any = "0.0.0.0-255.255.255.255,::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    let (before, after) = (model(&PODS, Vec::new()), model(&PODS, vec![policy("x", vec![own("x")])]));
    check(&before, &after, &[&format!("Closed y/a[Pod],z/a[Pod],{any} -> x/a[Pod],x/b[Pod] Any")]);
    let deny = model(&PODS, vec![policy("x", Vec::new())]);
    check(&before, &deny, &[&format!("Closed x/a[Pod],x/b[Pod],y/a[Pod],z/a[Pod],{any} -> x/a[Pod],x/b[Pod] Any")]);
}

#[test]
fn every_namespace_that_closes_to_others_is_one_line_too() {
    let before = model(&PODS, Vec::new());
    let everywhere = vec![own("x"), own("y"), own("z")];
    let after = model(
        &PODS,
        ["x", "y", "z"].into_iter().zip(everywhere).map(|(it, own)| policy(it, vec![own, block("0.0.0.0/0"), block("::/0")])).collect(),
    );
    let all = "x/a[Pod],x/b[Pod],y/a[Pod],z/a[Pod]";
    check(&before, &after, &[&format!("Closed {all} -> {all} OtherNamespaces")]);
    let alone = model(&PODS, ["x", "y", "z"].into_iter().map(|it| policy(it, vec![block("0.0.0.0/0"), block("::/0")])).collect());
    check(&after, &alone, &["Closed x/a[Pod],x/b[Pod] -> x/a[Pod],x/b[Pod] SameNamespace"]);
}

#[test]
fn pods_that_come_and_go_are_told_apart() {
    let (before, after) = (model(&PODS[..2], vec![policy("x", vec![own("x")])]), model(&PODS[1..3], vec![policy("x", vec![own("x")])]));
    let diff = compared(&before, &after, &Filter { port: Some((palisade_model::PortProtocol::Tcp, 80)), focus: None });
    let any = "0.0.0.0-255.255.255.255,::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    let expected = [
        format!("Added x/b[Pod],{any} -> y/a[Pod] Any"),
        format!("Added y/a[Pod] -> {any} Any"),
        "Removed x/b[Pod] -> x/a[Pod] Any".to_owned(),
        format!("Removed x/a[Pod] -> x/b[Pod],{any} Any"),
    ];
    assert_eq!(told(&diff), expected);
}

#[test]
fn only_what_is_asked_about_is_told() {
    let (before, after) = (model(&PODS, Vec::new()), model(&PODS, vec![policy("x", Vec::new())]));
    let focus = Focus::parse(&before, &after, "y").unwrap();
    let diff = compared(&before, &after, &Filter { focus: Some(focus), port: None });
    assert_eq!(told(&diff), ["Closed y/a[Pod] -> x/a[Pod],x/b[Pod] Any"]);
    assert!(Focus::parse(&before, &after, "w").is_err());
}
