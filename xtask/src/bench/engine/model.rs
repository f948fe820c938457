//! Clusters of any size, straight as models: reading manifests is measured elsewhere.

use palisade_model::{
    Action, ContainerPort, Endpoint, IpBlock, LabelSelector, Labels, Model, Namespace, NamespaceSet, NetworkId, Node, NodeId, Operator,
    Peer, PeerSet, PerDirection, PodName, Policy, PolicyKind, PolicyRef, PortMatch, PortProtocol, PortSet, Ports, Readiness, Requirement,
    Rule, Running, Shape, Subject, Tier,
};
use palisade_testkit::random::Random;

/// How large a cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) name: &'static str,
    pub(super) namespaces: usize,
    /// In each namespace.
    pub(super) workloads: usize,
    pub(super) policies: usize,
    pub(super) cluster_policies: usize,
}

const APPS: usize = 25;
const TEAMS: usize = 50;

/// The same size always gives the same cluster.
pub(super) fn model(size: Size) -> Model {
    let mut model = Model::default();
    for at in 0..size.namespaces {
        let name = namespace(at);
        let env = if at.is_multiple_of(3) { "prod" } else { "stage" };
        let team = format!("team-{}", at % TEAMS);
        let labels = [("kubernetes.io/metadata.name", name.as_str()), ("team", &team), ("env", env)];
        model.namespaces.insert(name.as_str().into(), Namespace { labels: labels.into_iter().collect(), assumed: false });
        model.endpoints.extend((0..size.workloads).map(|it| pod(&name, it, at * size.workloads + it)));
    }
    let mut random = Random::new(1);
    model.policies.extend((0..size.cluster_policies).map(|it| cluster_policy(it, &mut random)));
    model.policies.extend((0..size.policies).map(|it| network_policy(it, size.namespaces, &mut random)));
    model
}

/// The same with nodes, so many that each has so many pods, and a last one without any. Neighbours are on different ones.
pub(super) fn spread(mut model: Model, pods: usize) -> Model {
    let nodes = model.endpoints.len().div_ceil(pods);
    for (number, at) in (0x0a00_0001..).zip(0..=nodes) {
        let name = format!("node-{at:05}");
        let labels = [("kubernetes.io/hostname", name.as_str())].into_iter().collect();
        let addresses = vec![std::net::Ipv4Addr::from(number).into()];
        model.nodes.push(Node { name: name.into(), labels, addresses, host_pods: Vec::new(), assumed: false });
    }
    for (at, endpoint) in model.endpoints.iter_mut().enumerate() {
        endpoint.node = Some(NodeId(at % nodes));
    }
    model
}

pub(super) fn namespace(at: usize) -> String {
    format!("ns-{at:05}")
}

fn pod(namespace: &str, at: usize, number: usize) -> Endpoint {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    let (app, hash) = (format!("app-{}", at % APPS), format!("{:x}", number.wrapping_mul(0x9e37_79b9)));
    let tier = if at.is_multiple_of(3) { "front" } else { "back" };
    let labels: Labels = [("app", app.as_str()), ("tier", tier), ("pod-template-hash", &hash)].into_iter().collect();
    let http =
        ContainerPort { name: Some("http".into()), protocol: PortProtocol::Tcp, port: if at.is_multiple_of(2) { 8080 } else { 8081 } };
    Endpoint {
        attachment: None,
        name: PodName { namespace: namespace.into(), name: format!("app-{at}").into() },
        labels,
        addresses: vec![std::net::Ipv4Addr::from(0x0a80_0000 + number).into()],
        node: None,
        ports: vec![http],
        owners: Vec::new(),
        readiness: Readiness::Ready,
        running: Running::Yes,
    }
}

fn equals(key: &str, value: String) -> LabelSelector {
    let operator = Operator::Equals(value.into());
    LabelSelector { requirements: vec![Requirement { key: key.into(), operator }] }
}

fn app(random: &mut Random) -> LabelSelector {
    equals("app", format!("app-{}", random.below(APPS)))
}

fn peer(own: &str, namespaces: usize, random: &mut Random) -> Peer {
    let matching = NamespaceSet::Matching;
    let not_stage = Requirement { key: "env".into(), operator: Operator::NotIn(vec!["stage".into()]) };
    match random.below(10) {
        0..=4 => Peer::Pods { namespaces: NamespaceSet::Own(own.into()), pods: app(random) },
        5 => Peer::Pods { namespaces: NamespaceSet::Own(own.into()), pods: LabelSelector::default() },
        6 => {
            let team = equals("team", format!("team-{}", random.below(TEAMS)));
            Peer::Pods { namespaces: matching(team), pods: equals("tier", "front".to_owned()) }
        }
        7 => {
            let other = random.below(namespaces);
            Peer::Pods { namespaces: matching(equals("kubernetes.io/metadata.name", namespace(other))), pods: LabelSelector::default() }
        }
        8 => Peer::Pods { namespaces: matching(LabelSelector { requirements: vec![not_stage] }), pods: app(random) },
        _ => Peer::Networks(block(random).into_iter().collect()),
    }
}

fn block(random: &mut Random) -> Option<IpBlock> {
    let cidr = "198.18.0.0/15".parse().ok()?;
    Some(IpBlock { cidr, except: vec![format!("198.18.{}.0/24", random.below(200)).parse().ok()?] })
}

fn ports(random: &mut Random) -> PortSet {
    let numbers = |protocol, ports| PortMatch::Numbers { protocol, ports };
    let near = u16::try_from(random.below(4)).unwrap_or(0);
    match random.below(5) {
        0 => PortSet::Any,
        1 => PortSet::Of(vec![PortMatch::Named { protocol: Some(PortProtocol::Tcp), name: "http".into() }]),
        2 => PortSet::Of(Ports::range(8000, 8100 + near).map(|it| numbers(PortProtocol::Tcp, it)).into_iter().collect()),
        _ => PortSet::Of(vec![numbers(PortProtocol::Tcp, Ports::one(8080 + near)), numbers(PortProtocol::Udp, Ports::one(53))]),
    }
}

fn network_policy(at: usize, namespaces: usize, random: &mut Random) -> Policy {
    let own = namespace(at % namespaces);
    let rules = |random: &mut Random| -> Vec<Rule> {
        let number = random.between(1, 3);
        let rule = |index, random: &mut Random| {
            let peers = (0..=random.below(2)).map(|_| peer(&own, namespaces, random)).collect();
            Rule { index, name: None, action: Action::Accept, peers: PeerSet::Of(peers), ports: ports(random), fail_closed: None }
        };
        (0..number).map(|index| rule(index, random)).collect()
    };
    let egress = random.below(3) == 0;
    let pods = if random.below(10) == 0 { LabelSelector::default() } else { app(random) };
    let ingress_rules = rules(random);
    let egress_rules = if egress { rules(random) } else { Vec::new() };
    Policy {
        network: NetworkId::DEFAULT,
        origin: PolicyRef { kind: PolicyKind::NetworkPolicy, namespace: Some(own.as_str().into()), name: format!("np-{at}").into() },
        tier: Tier::NetworkPolicy,
        rank: 0,
        subject: Subject::Pods { namespaces: NamespaceSet::Own(own.as_str().into()), pods },
        shape: Shape::Only,
        isolates: PerDirection { egress, ingress: true },
        rules: PerDirection { egress: egress_rules, ingress: ingress_rules },
    }
}

fn cluster_policy(at: usize, random: &mut Random) -> Policy {
    let action = match at % 3 {
        0 => Action::Pass,
        1 => Action::Accept,
        _ => Action::Deny,
    };
    let peer =
        Peer::Pods { namespaces: NamespaceSet::Matching(equals("team", format!("team-{}", at % TEAMS))), pods: LabelSelector::default() };
    let rule = Rule { index: 0, name: None, action, peers: PeerSet::Of(vec![peer]), ports: ports(random), fail_closed: None };
    let subject = if at.is_multiple_of(2) { LabelSelector::default() } else { equals("env", "prod".to_owned()) };
    Policy {
        network: NetworkId::DEFAULT,
        origin: PolicyRef { kind: PolicyKind::ClusterNetworkPolicy, namespace: None, name: format!("cnp-{at}").into() },
        tier: if at % 4 == 3 { Tier::Baseline } else { Tier::Admin },
        rank: i64::try_from(at).unwrap_or(i64::MAX),
        subject: Subject::Pods { namespaces: NamespaceSet::Matching(subject), pods: LabelSelector::default() },
        shape: Shape::Only,
        isolates: PerDirection { egress: false, ingress: false },
        rules: PerDirection { egress: Vec::new(), ingress: vec![rule] },
    }
}
