//! Clusters made to be hard on an engine that has classes: each multiplies something that is usually shared.

use palisade_model::{
    Action, Endpoint, IpBlock, LabelSelector, Model, NamespaceSet, NetworkId, Operator, Peer, PeerSet, PerDirection, Policy, PolicyKind,
    PolicyRef, PortMatch, PortProtocol, PortSet, Ports, RelativeNamespaces, RelativePods, RelativeSelector, Requirement, Rule, Shape,
    Subject, Tier,
};

use super::model::{Size, model, namespace};

/// A hard case: what it multiplies, its cluster, and how large a cluster is asked who reaches whom.
pub(super) struct Worst {
    pub(super) name: &'static str,
    pub(super) change: fn(&mut Model, Size),
}

pub(super) const WORST: [Worst; 11] = [
    Worst { name: "every tenant by an admin policy of its own", change: tenants },
    Worst { name: "every tenant by one relation of labels", change: same_tenant },
    Worst { name: "every namespace by a relation to itself", change: |model, _| related(model, RelativeNamespaces::Own, Action::Pass) },
    Worst {
        name: "every namespace by a relation to all others",
        change: |model, _| related(model, RelativeNamespaces::Others, Action::Deny),
    },
    Worst { name: "every policy asks for a label of its own", change: |model, size| every_unlike(model, size, own_key) },
    Worst { name: "any namespace, pods by a label of each policy's own", change: |model, size| every_unlike(model, size, own_value) },
    Worst { name: "every policy says who it is not", change: |model, size| every_unlike(model, size, own_exclusion) },
    Worst { name: "10,000 blocks: half of 16 pods, half all but one network", change: blocks },
    Worst { name: "blocks over the addresses of all pods", change: |model, size| every(model, size, pod_block) },
    Worst { name: "every policy a range of ports of its own", change: own_ranges },
    Worst { name: "all pods and policies in one namespace", change: one_namespace },
];

/// The cluster of a hard case.
pub(super) fn worst(size: Size, case: &Worst) -> Model {
    let mut model = model(size);
    (case.change)(&mut model, size);
    model
}

fn requirement(key: &str, operator: Operator) -> LabelSelector {
    LabelSelector { requirements: vec![Requirement { key: key.into(), operator }] }
}

fn equals(key: &str, value: &str) -> LabelSelector {
    requirement(key, Operator::Equals(value.into()))
}

fn anywhere(pods: LabelSelector) -> Peer {
    Peer::Pods { namespaces: NamespaceSet::Matching(LabelSelector::default()), pods }
}

/// Gives every pod a key and a value that no other has.
fn unlike(model: &mut Model) {
    for (at, Endpoint { labels, .. }) in model.endpoints.iter_mut().enumerate() {
        let (key, value) = (format!("key-{at}"), format!("own-{at}"));
        let before: Vec<(String, String)> = labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let all = before.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        *labels = all.chain([(key.as_str(), "x"), ("own", value.as_str())]).collect();
    }
}

/// Gives the first rule of every NetworkPolicy one peer more, where all pods are unlike.
fn every_unlike(model: &mut Model, size: Size, peer: fn(usize, Size) -> Peer) {
    unlike(model);
    every(model, size, peer);
}

/// Gives the first rule of every NetworkPolicy one peer more.
fn every(model: &mut Model, size: Size, peer: fn(usize, Size) -> Peer) {
    for (at, policy) in model.policies.iter_mut().filter(|it| it.tier == Tier::NetworkPolicy).enumerate() {
        if let Some(Rule { peers: PeerSet::Of(peers), .. }) = policy.rules.ingress.first_mut() {
            peers.push(peer(at, size));
        }
    }
}

fn own_key(at: usize, size: Size) -> Peer {
    let namespaces = NamespaceSet::Matching(equals("kubernetes.io/metadata.name", &namespace(at / size.workloads % size.namespaces)));
    Peer::Pods { namespaces, pods: requirement(&format!("key-{at}"), Operator::Exists) }
}

fn own_value(at: usize, _: Size) -> Peer {
    anywhere(equals("own", &format!("own-{at}")))
}

fn own_exclusion(at: usize, _: Size) -> Peer {
    anywhere(requirement("own", Operator::NotIn(vec![format!("own-{at}").into()])))
}

fn pod_block(at: usize, size: Size) -> Peer {
    // Sixteen pods each, until all have been named; then the same again.
    let pods = size.namespaces * size.workloads;
    let first = u32::try_from((at * 16) % pods.max(16)).unwrap_or(0) & !15;
    let cidr = format!("{}/28", std::net::Ipv4Addr::from(0x0a80_0000 + first)).parse();
    Peer::Networks(cidr.into_iter().map(IpBlock::whole).collect())
}

fn blocks(model: &mut Model, size: Size) {
    every(model, size, |at, size| match at % 10_000 {
        it if it.is_multiple_of(2) => pod_block(it / 2, size),
        it => {
            let except = format!("198.{}.{}.0/24", 18 + (it / 2) / 250, (it / 2) % 250).parse();
            let all: Result<ipnet::IpNet, _> = "0.0.0.0/0".parse();
            Peer::Networks(all.into_iter().map(|cidr| IpBlock { cidr, except: except.clone().into_iter().collect() }).collect())
        }
    });
}

fn own_ranges(model: &mut Model, _: Size) {
    for (at, policy) in model.policies.iter_mut().filter(|it| it.tier == Tier::NetworkPolicy).enumerate() {
        let first = u16::try_from(1_000 + at % 30_000).unwrap_or(1_000);
        let last = first.saturating_add(u16::try_from(at / 30_000).unwrap_or(0) + 100);
        for rule in policy.rules.ingress.iter_mut().take(1) {
            let range = Ports::range(first, last).map(|ports| PortMatch::Numbers { protocol: PortProtocol::Tcp, ports });
            rule.ports = PortSet::Of(range.into_iter().collect());
        }
    }
}

/// Gives every namespace a tenant; how many there are.
fn label_tenants(model: &mut Model, size: Size) -> usize {
    let tenants = (size.namespaces / 5).max(1);
    for (at, (_, namespace)) in model.namespaces.iter_mut().enumerate() {
        let tenant = format!("tenant-{}", at % tenants);
        let labels: Vec<(String, String)> = namespace.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let labels = labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).chain([("tenant", tenant.as_str())]);
        namespace.labels = labels.collect();
    }
    tenants
}

/// A policy of the Admin tier that asks for each peer in turn.
fn admin(name: &str, kind: PolicyKind, namespaces: LabelSelector, rules: Vec<(Action, Peer)>) -> Policy {
    let rule = |(index, (action, peer)): (usize, (Action, Peer))| {
        let peers = PeerSet::Of(vec![peer]);
        Rule { index, name: None, action, peers, ports: PortSet::Any, fail_closed: None }
    };
    Policy {
        network: NetworkId::DEFAULT,
        origin: PolicyRef { kind, namespace: None, name: name.into() },
        tier: Tier::Admin,
        rank: 1_000,
        subject: Subject::Pods { namespaces: NamespaceSet::Matching(namespaces), pods: LabelSelector::default() },
        shape: if kind == PolicyKind::Kep2091 { Shape::Kep2091 } else { Shape::Only },
        isolates: PerDirection { egress: false, ingress: false },
        rules: PerDirection { egress: Vec::new(), ingress: rules.into_iter().enumerate().map(rule).collect() },
    }
}

/// As `sameLabels` would be written without it: a policy for each tenant.
fn tenants(model: &mut Model, size: Size) {
    for at in 0..label_tenants(model, size) {
        let tenant = equals("tenant", &format!("tenant-{at}"));
        let own = Peer::Pods { namespaces: NamespaceSet::Matching(tenant.clone()), pods: LabelSelector::default() };
        let rules = vec![(Action::Pass, own), (Action::Deny, anywhere(LabelSelector::default()))];
        model.policies.push(admin(&format!("tenant-{at}"), PolicyKind::ClusterNetworkPolicy, tenant, rules));
    }
}

/// One policy that means other peers for every subject.
fn related(model: &mut Model, namespaces: RelativeNamespaces, action: Action) {
    let relative = Peer::Relative(RelativePods { namespaces, pods: RelativeSelector::Matching(LabelSelector::default()) });
    let rules = vec![(action, relative), (Action::Deny, anywhere(LabelSelector::default()))];
    model.policies.push(admin("related", PolicyKind::Kep2091, LabelSelector::default(), rules));
}

/// The same with it.
fn same_tenant(model: &mut Model, size: Size) {
    label_tenants(model, size);
    related(model, RelativeNamespaces::Labelled(RelativeSelector::Same(vec!["tenant".into()])), Action::Pass);
}

/// A tenth of everything, but all of it together.
fn one_namespace(model: &mut Model, _: Size) {
    let only = namespace(0);
    model.endpoints.truncate(model.endpoints.len() / 10);
    let keep = model.policies.len() / 10;
    model.policies.truncate(keep.max(1));
    for (at, Endpoint { name, labels, .. }) in model.endpoints.iter_mut().enumerate() {
        name.namespace = only.as_str().into();
        name.name = format!("pod-{at}").into();
        *labels = [("app", format!("app-{at}").as_str())].into_iter().collect();
    }
    for (at, policy) in model.policies.iter_mut().filter(|it| it.tier == Tier::NetworkPolicy).enumerate() {
        policy.origin.namespace = Some(only.as_str().into());
        let pods = equals("app", &format!("app-{at}"));
        policy.subject = Subject::Pods { namespaces: NamespaceSet::Own(only.as_str().into()), pods };
        for rule in policy.rules.ingress.iter_mut().chain(&mut policy.rules.egress) {
            if let PeerSet::Of(peers) = &mut rule.peers {
                for peer in peers {
                    if let Peer::Pods { namespaces: own @ NamespaceSet::Own(_), .. } = peer {
                        *own = NamespaceSet::Own(only.as_str().into());
                    }
                }
            }
        }
    }
}
