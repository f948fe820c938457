//! A small cluster that changes, and the verdict of the engine about each of its flows.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use palisade_engine::decide;
use palisade_model::{
    Action, End, Endpoint, EndpointId, Flow, IpBlock, LabelSelector, Labels, Model, Namespace, NamespaceSet, NetworkId, Node, NodeId,
    Operator, Path, Peer, PeerSet, PerDirection, PodName, Policy, PolicyKind, PolicyRef, PortMatch, PortProtocol, PortSet, Ports, Protocol,
    Readiness, Requirement, Rule, Running, Shape, Subject, Tier, Verdict,
};
use palisade_nft::{At, CtState, Packet};
use palisade_testkit::random::Random;

/// Slots 1 to 4 are pods of the node behind interfaces that look like those of pods, slot 5 is one behind another interface, 6 and 7 are on another node.
pub(super) const SLOTS: std::ops::RangeInclusive<usize> = 1..=7;
const TAP: usize = 5;
const OUTSIDE: usize = 8;
const NODE: usize = 9;
pub(super) const PORTS: [u16; 2] = [80, 81];

/// The objects that exist, whether or not the agent was told of them.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    /// By slot: how many pods had the slot before, and the label.
    pub(super) pods: BTreeMap<usize, (u32, &'static str)>,
    born: u32,
    policies: BTreeMap<usize, PolicyOf>,
    team: bool,
}

/// A NetworkPolicy in few words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PolicyOf {
    subject: Option<&'static str>,
    egress: bool,
    peer: PeerOf,
    port: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PeerOf {
    Nobody,
    Pods(&'static str),
    Team,
    Block,
}

/// A first packet between two slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) port: u16,
}

pub(super) fn address(slot: usize) -> IpAddr {
    let last = u8::try_from(slot).unwrap();
    match slot {
        OUTSIDE => IpAddr::from([198, 51, 100, last]),
        NODE => IpAddr::from([192, 0, 2, 1]),
        6 | 7 => IpAddr::from([10, 0, 1, last]),
        _ => IpAddr::from([10, 0, 0, last]),
    }
}

pub(super) fn link(slot: usize) -> Option<String> {
    match slot {
        TAP => Some("tap5".to_owned()),
        1..=4 => Some(format!("p{slot}")),
        _ => None,
    }
}

pub(super) fn is_local(slot: usize) -> bool {
    link(slot).is_some()
}

/// Every flow that a table of the node judges.
pub(super) fn ways() -> Vec<Way> {
    let mut ways = Vec::new();
    for from in (1..=OUTSIDE).filter(|it| *it != NODE) {
        for to in (1..=NODE).filter(|to| *to != from && (is_local(from) || is_local(*to))) {
            ways.extend(PORTS.map(|port| Way { from, to, port }));
        }
    }
    ways.retain(|it| it.to != NODE || is_local(it.from));
    ways
}

impl Way {
    /// Whether the pod behind the interface that no pattern covers is at one end.
    pub(super) fn is_tapped(&self) -> bool {
        self.from == TAP || self.to == TAP
    }

    /// The packet at each hook of the node.
    pub(super) fn hooks(&self) -> Vec<Packet> {
        let (from, to) = (link(self.from), link(self.to));
        let at = if self.to == NODE { At::Input } else { At::Forward };
        let uplink = || "uplink".to_owned();
        let packet = Packet {
            to_link: (at == At::Forward).then(|| to.clone().unwrap_or_else(uplink)),
            at,
            source: address(self.from),
            destination: address(self.to),
            protocol: 6,
            port: Some(self.port),
            source_port: None,
            state: CtState::New,
            priority: 0,
            source_is_local: false,
            from_link: Some(from.clone().unwrap_or_else(uplink)),
        };
        let first = from.map(|link| Packet { at: At::Ingress { link }, from_link: None, to_link: None, ..packet.clone() });
        first.into_iter().chain([packet]).collect()
    }

    fn flow(&self, model: &Model) -> Flow {
        let end = |slot| End { place: model.place_of(NetworkId::DEFAULT, address(slot)), address: Some(address(slot)) };
        let (from, to) = (end(self.from), end(self.to));
        Flow {
            network: NetworkId::DEFAULT,
            from,
            to,
            protocol: Protocol::Port(PortProtocol::Tcp),
            port: Some(self.port),
            path: Path::Direct,
        }
    }

    /// Whether the policies of the node's own pods allow the flow. A pod of the node that is not known may do nothing.
    pub(super) fn is_allowed(&self, model: &Model) -> bool {
        let known = |slot: usize| !is_local(slot) || model.endpoint(EndpointId(slot)).is_some();
        let decision = decide(model, &self.flow(model));
        let of = |slot, verdict| !is_local(slot) || verdict == Verdict::Accept;
        known(self.from) && known(self.to) && of(self.from, decision.walks.egress.verdict) && of(self.to, decision.walks.ingress.verdict)
    }

    /// Whether the other node lets its pod do that.
    pub(super) fn is_allowed_elsewhere(&self, model: &Model) -> bool {
        let decision = decide(model, &self.flow(model));
        let of = |slot, verdict| is_local(slot) || verdict == Verdict::Accept;
        of(self.from, decision.walks.egress.verdict) && of(self.to, decision.walks.ingress.verdict)
    }

    /// Whether the policies of both ends allow the flow.
    pub(super) fn is_allowed_by_both(&self, model: &Model) -> bool {
        decide(model, &self.flow(model)).verdict == Verdict::Accept
    }
}

impl World {
    /// Changes one object, or several.
    pub(super) fn change(&mut self, random: &mut Random) {
        match random.below(10) {
            0..=3 => {
                let slot = random.between(1, 7);
                if self.pods.remove(&slot).is_none() || random.percent(50) {
                    self.born += 1;
                    self.pods.insert(slot, (self.born, random.of(["a", "b", "c"])));
                }
            }
            4 => {
                let slot = random.between(1, 7);
                let label = random.of(["a", "b", "c"]);
                self.pods.entry(slot).and_modify(|it| it.1 = label);
            }
            5 => self.team = !self.team,
            _ => {
                let name = random.below(4);
                let policy = PolicyOf {
                    subject: random.of([None, Some("a"), Some("b")]),
                    egress: random.percent(40),
                    peer: random.of([PeerOf::Nobody, PeerOf::Pods("a"), PeerOf::Pods("b"), PeerOf::Team, PeerOf::Block]),
                    port: random.of([None, Some(80)]),
                };
                if self.policies.insert(name, policy) == Some(policy) || random.percent(30) {
                    self.policies.remove(&name);
                }
            }
        }
    }

    pub(super) fn pod_name(&self, slot: usize) -> Option<String> {
        self.pods.get(&slot).map(|(born, _)| format!("p{slot}-{born}"))
    }

    pub(super) fn model(&self) -> Model {
        let mut model = Model::default();
        let labels = [("kubernetes.io/metadata.name", "x"), ("team", if self.team { "t" } else { "u" })].into_iter().collect();
        model.namespaces.insert("x".into(), Namespace { labels, assumed: false });
        for (name, last) in [("n1", 1), ("n2", 2)] {
            let addresses = vec![IpAddr::from([192, 0, 2, last])];
            model.nodes.push(Node { name: name.into(), labels: Labels::default(), addresses, host_pods: Vec::new(), assumed: false });
        }
        for (slot, (_, label)) in &self.pods {
            let pod = Endpoint {
                attachment: None,
                name: PodName { namespace: "x".into(), name: self.pod_name(*slot).unwrap_or_default().into() },
                labels: [("app", *label)].into_iter().collect(),
                addresses: vec![address(*slot)],
                node: Some(NodeId(usize::from(!is_local(*slot)))),
                ports: Vec::new(),
                owners: Vec::new(),
                readiness: Readiness::Ready,
                running: Running::Yes,
            };
            drop(model.endpoints.set(EndpointId(*slot), Some(Arc::new(pod))));
        }
        model.policies = self.policies.iter().map(|(name, it)| it.policy(*name)).collect::<Vec<Policy>>().into();
        model.policies.sort_by(Policy::in_order);
        model.close_ranges(&["10.0.0.0/24".parse().unwrap()], &Default::default());
        model
    }

    /// The interfaces of the node's pods.
    pub(super) fn links(&self) -> BTreeMap<EndpointId, String> {
        self.pods.keys().filter_map(|it| Some((EndpointId(*it), link(*it)?))).collect()
    }
}

impl PolicyOf {
    fn policy(&self, name: usize) -> Policy {
        let selector = |key: &str, value: &str| {
            let requirement = Requirement { key: key.into(), operator: Operator::Equals(value.into()) };
            LabelSelector { requirements: vec![requirement] }
        };
        let app = |value: &str| selector("app", value);
        let own = || NamespaceSet::Own("x".into());
        let peers = match self.peer {
            PeerOf::Nobody => Vec::new(),
            PeerOf::Pods(label) => vec![Peer::Pods { namespaces: own(), pods: app(label) }],
            PeerOf::Team => {
                vec![Peer::Pods { namespaces: NamespaceSet::Matching(selector("team", "t")), pods: LabelSelector::default() }]
            }
            PeerOf::Block => vec![Peer::Networks(vec![IpBlock { cidr: "198.51.100.0/24".parse().unwrap(), except: Vec::new() }])],
        };
        let ports = self
            .port
            .map_or(PortSet::Any, |it| PortSet::Of(vec![PortMatch::Numbers { protocol: PortProtocol::Tcp, ports: Ports::one(it) }]));
        let rule = Rule { index: 0, name: None, action: Action::Accept, peers: PeerSet::Of(peers), ports, fail_closed: None };
        let rules = if self.peer == PeerOf::Nobody { Vec::new() } else { vec![rule] };
        let (egress, ingress) = if self.egress { (rules, Vec::new()) } else { (Vec::new(), rules) };
        Policy {
            network: NetworkId::DEFAULT,
            origin: PolicyRef { kind: PolicyKind::NetworkPolicy, namespace: Some("x".into()), name: format!("p{name}").into() },
            shape: Shape::Only,
            tier: Tier::NetworkPolicy,
            rank: 0,
            subject: Subject::Pods { namespaces: own(), pods: self.subject.map(app).unwrap_or_default() },
            isolates: PerDirection { egress: self.egress, ingress: !self.egress },
            rules: PerDirection { egress, ingress },
        }
    }
}
