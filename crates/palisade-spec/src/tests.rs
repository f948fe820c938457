//! The rules most easily mistaken, each on the smallest cluster that can show it.

use palisade_model::*;

use crate::judge;

const WEB: Place = Place::Pod(EndpointId(0));
const DB: Place = Place::Pod(EndpointId(1));
const DB_NODE: Place = Place::Node(NodeId(1));
const OTHER_NODE: Place = Place::Node(NodeId(0));

/// Pods `web` and `db` in namespace `shop`, each on a node of its own.
fn cluster(policies: &[Policy]) -> Model {
    let sql = ContainerPort { name: Some("sql".into()), protocol: PortProtocol::Tcp, port: 5432 };
    let pod = |name: &str, at| Endpoint {
        attachment: None,
        name: PodName { namespace: "shop".into(), name: name.into() },
        labels: [("app", name)].into_iter().collect(),
        addresses: Vec::new(),
        node: Some(NodeId(at)),
        ports: vec![sql.clone()],
        owners: Vec::new(),
        readiness: Readiness::Ready,
        running: palisade_model::Running::Yes,
    };
    let endpoints = vec![pod("web", 0), pod("db", 1)].into();
    Model { endpoints, policies: policies.to_vec().into(), ..Model::default() }
}

fn flow(from: Place, to: Place) -> Flow {
    let end = |place, ip: &str| End { place, address: Some(ip.parse().unwrap()) };
    let (from, to) = (end(from, "10.0.0.1"), end(to, "10.0.0.2"));
    Flow { network: palisade_model::NetworkId::DEFAULT, from, to, protocol: Protocol::TCP, port: Some(5432), path: Path::Direct }
}

fn rule(action: Action, peers: PeerSet) -> Rule {
    Rule { index: 0, name: None, action, peers, ports: PortSet::Any, fail_closed: None }
}

fn accept(peers: Vec<Peer>) -> Rule {
    rule(Action::Accept, PeerSet::Of(peers))
}

/// A policy about every pod; one of the NetworkPolicy tier isolates where it has rules.
fn policy(tier: Tier, name: &str, egress: &[Rule], ingress: &[Rule]) -> Policy {
    let (kind, name) = (PolicyKind::ClusterNetworkPolicy, name.into());
    let namespaces = NamespaceSet::Matching(LabelSelector::default());
    Policy {
        network: palisade_model::NetworkId::DEFAULT,
        origin: PolicyRef { kind, namespace: None, name },
        tier,
        rank: 5,
        subject: Subject::Pods { namespaces, pods: LabelSelector::default() },
        shape: palisade_model::Shape::Only,
        isolates: PerDirection { egress: !egress.is_empty(), ingress: !ingress.is_empty() },
        rules: PerDirection { egress: egress.to_vec(), ingress: ingress.to_vec() },
    }
}

/// `expected` is verdict and reason of egress, then of ingress.
#[track_caller]
fn check(policies: &[Policy], flow: &Flow, expected: &str) {
    let judgement = judge(&cluster(policies), flow);
    let PerDirection { egress, ingress } = &judgement.directions;
    let shown = format!("{:?} {}, {:?} {}", egress.0, egress.1, ingress.0, ingress.1);
    assert_eq!(shown, expected, "{judgement:#?}");
}

/// `expected` is whether this rule lets an isolated `web` out.
#[track_caller]
fn check_accept(rule: &Rule, flow: &Flow, expected: Verdict) {
    let isolated = policy(Tier::NetworkPolicy, "i", std::slice::from_ref(rule), &[]);
    assert_eq!(judge(&cluster(&[isolated]), flow).verdict, expected);
}

#[test]
fn network_policy_ends_the_walk_only_in_the_direction_it_isolates() {
    let deny = [rule(Action::Deny, PeerSet::Any)];
    let egress = policy(Tier::NetworkPolicy, "e", &[rule(Action::Accept, PeerSet::Any)], &[]);
    let baseline = policy(Tier::Baseline, "b", &deny, &deny);
    check(&[egress, baseline], &flow(WEB, DB), "Accept cnp/e#0, Deny cnp/b#0");
}

#[test]
fn policies_are_asked_by_rank_then_name_whatever_their_order_in_the_model() {
    let deny = policy(Tier::Admin, "b", &[rule(Action::Deny, PeerSet::Any)], &[]);
    let pass = policy(Tier::Admin, "a", &[rule(Action::Pass, PeerSet::Any)], &[]);
    check(&[deny.clone(), pass.clone()], &flow(WEB, DB), "Accept default, Accept default");
    check(&[pass, Policy { rank: 4, ..deny }], &flow(WEB, DB), "Deny cnp/b#0, Accept default");
}

#[test]
fn isolation_and_fail_closed_spare_the_own_node_on_ingress_and_no_other() {
    let nobody = [accept(Vec::new())];
    let isolated = [policy(Tier::NetworkPolicy, "i", &nobody, &nobody)];
    check(&isolated, &flow(DB_NODE, DB), "Accept not-a-pod, Accept own-node");
    check(&isolated, &flow(OTHER_NODE, DB), "Accept not-a-pod, Deny isolated");
    check(&isolated, &flow(DB, DB_NODE), "Deny isolated, Accept not-a-pod");
    let unreadable = [rule(Action::Deny, PeerSet::AnyButOwnNode)];
    let closed = [policy(Tier::Admin, "f", &unreadable, &unreadable)];
    check(&closed, &flow(DB_NODE, DB), "Accept not-a-pod, Accept default");
    check(&closed, &flow(DB, DB_NODE), "Deny cnp/f#0, Accept not-a-pod");
}

#[test]
fn a_pod_reaches_itself_directly_always_and_by_a_service_if_cluster_policy_lets_it() {
    let nobody = [accept(Vec::new())];
    let isolated = policy(Tier::NetworkPolicy, "i", &nobody, &nobody);
    let deny = policy(Tier::Admin, "d", &[], &[rule(Action::Deny, PeerSet::Any)]);
    let both = [isolated, deny];
    check(&both, &flow(DB, DB), "Accept itself, Accept itself");
    check(&both, &Flow { path: Path::Service, ..flow(DB, DB) }, "Accept itself, Deny cnp/d#0");
}

#[test]
fn a_missing_key_meets_not_in_and_never_an_empty_value() {
    let pods = |key: &str, operator| {
        let pods = LabelSelector { requirements: vec![Requirement { key: key.into(), operator }] };
        accept(vec![Peer::Pods { namespaces: NamespaceSet::Own("shop".into()), pods }])
    };
    let not_in = pods("tier", Operator::NotIn(vec!["front".into()]));
    check_accept(&not_in, &flow(WEB, DB), Verdict::Accept);
    check_accept(&not_in, &flow(WEB, DB_NODE), Verdict::Deny);
    check_accept(&pods("tier", Operator::Equals("".into())), &flow(WEB, DB), Verdict::Deny);
    check_accept(&pods("app", Operator::In(vec!["db".into()])), &flow(WEB, DB), Verdict::Accept);
}

#[test]
fn networks_match_by_address_in_one_family_without_their_exceptions() {
    let networks = |cidr: &str, except: &str| {
        let block = IpBlock { cidr: cidr.parse().unwrap(), except: vec![except.parse().unwrap()] };
        accept(vec![Peer::Networks(vec![block])])
    };
    check_accept(&networks("0.0.0.0/0", "10.0.0.3/32"), &flow(WEB, DB), Verdict::Accept);
    check_accept(&networks("0.0.0.0/0", "10.0.0.2/32"), &flow(WEB, DB), Verdict::Deny);
    check_accept(&networks("::/0", "ff00::/8"), &flow(WEB, DB), Verdict::Deny);
}

#[test]
fn a_named_port_is_the_destination_pods_and_of_its_protocol() {
    let ports = PortSet::Of(vec![PortMatch::Named { protocol: None, name: "sql".into() }]);
    let named = Rule { ports, ..rule(Action::Accept, PeerSet::Any) };
    check_accept(&named, &flow(WEB, DB), Verdict::Accept);
    check_accept(&named, &flow(WEB, Place::Outside), Verdict::Deny);
    check_accept(&named, &Flow { port: Some(80), ..flow(WEB, DB) }, Verdict::Deny);
    check_accept(&named, &Flow { protocol: Protocol::UDP, ..flow(WEB, DB) }, Verdict::Deny);
    let icmp = Flow { protocol: Protocol::Icmp, port: None, ..flow(WEB, DB) };
    check_accept(&named, &icmp, Verdict::Deny);
}

#[test]
fn a_domain_name_decides_only_what_would_be_denied_without_it() {
    let domain = |name| accept(vec![Peer::Domains(vec![DomainPattern::parse(name).unwrap()])]);
    let outside = flow(WEB, Place::Outside);
    let open = policy(Tier::Admin, "d", &[domain("example.com")], &[]);
    let guard = policy(Tier::Baseline, "g", &[rule(Action::Deny, PeerSet::Any)], &[]);
    let both = [open, guard];
    check(&both[..1], &outside, "Accept default, Accept not-a-pod");
    check(&both, &outside, "DependsOnDns cnp/d#0, Accept not-a-pod");
    check_accept(&domain("example.com"), &flow(WEB, DB), Verdict::Deny);
    check_accept(&domain("*.cluster.local"), &flow(WEB, DB), Verdict::DependsOnDns);
}

/// An address of the pod ranges that nobody has calls `db`, or is called by `web`. `expected` is verdict and reason at the pod.
#[track_caller]
fn check_unknown(policies: &[Policy], direction: Direction, expected: &str) {
    let range = IpBlock { cidr: "10.0.0.0/24".parse().unwrap(), except: vec!["10.0.0.240/28".parse().unwrap()] };
    let model = Model { pod_ranges: vec![range], ..cluster(policies) };
    let flow = match direction {
        Direction::Egress => flow(WEB, Place::Outside),
        Direction::Ingress => flow(Place::Outside, DB),
    };
    let judgement = judge(&model, &flow);
    let (verdict, reason) = judgement.directions.of(direction);
    assert_eq!(format!("{verdict:?} {reason}"), expected, "{judgement:#?}");
}

fn some_pods() -> Peer {
    let requirements = vec![Requirement { key: "app".into(), operator: Operator::Exists }];
    Peer::Pods { namespaces: NamespaceSet::Matching(LabelSelector::default()), pods: LabelSelector { requirements } }
}

fn all_pods() -> Peer {
    Peer::Pods { namespaces: NamespaceSet::Matching(LabelSelector::default()), pods: LabelSelector::default() }
}

fn block(cidr: &str) -> Peer {
    Peer::Networks(vec![IpBlock::whole(cidr.parse().unwrap())])
}

fn only(action: Action, peer: Peer) -> Rule {
    rule(action, PeerSet::Of(vec![peer]))
}

#[test]
fn an_unknown_pod_is_accepted_only_where_all_pods_are() {
    let own = Peer::Pods { namespaces: NamespaceSet::Own("shop".into()), pods: LabelSelector::default() };
    let isolated = |rule: Rule| [policy(Tier::NetworkPolicy, "i", std::slice::from_ref(&rule), std::slice::from_ref(&rule))];
    for direction in Direction::BOTH {
        check_unknown(&[], direction, "Accept default");
        check_unknown(&isolated(rule(Action::Accept, PeerSet::Any)), direction, "Accept cnp/i#0");
        check_unknown(&isolated(accept(vec![all_pods()])), direction, "Accept cnp/i#0");
        let names = Peer::Domains(vec![DomainPattern::parse("*.cluster.local").unwrap()]);
        for peer in [some_pods(), own.clone(), block("0.0.0.0/0"), block("10.0.0.0/24"), names, Peer::Nodes(LabelSelector::default())] {
            check_unknown(&isolated(accept(vec![peer])), direction, "Deny isolated");
        }
    }
}

#[test]
fn an_unknown_pod_is_denied_wherever_some_pod_is() {
    for direction in Direction::BOTH {
        for tier in [Tier::Admin, Tier::Baseline] {
            let deny = |peer: Peer| [policy(tier, "d", &[only(Action::Deny, peer.clone())], &[only(Action::Deny, peer)])];
            for peer in [some_pods(), all_pods(), block("0.0.0.0/0"), block("10.0.0.0/29")] {
                check_unknown(&deny(peer), direction, "Deny cnp/d#0");
            }
            for peer in [block("10.0.0.128/25"), Peer::Nodes(LabelSelector::default())] {
                check_unknown(&deny(peer), direction, "Accept default");
            }
        }
    }
}

#[test]
fn an_unknown_pod_passes_or_not_as_is_worse_for_it() {
    let any = |action| rule(action, PeerSet::Any);
    let admin = |rules: [Rule; 2]| {
        let [first, second] = rules;
        let rules = [first, Rule { index: 1, ..second }];
        policy(Tier::Admin, "a", &rules, &rules)
    };
    let nobody = [accept(Vec::new())];
    let isolated = policy(Tier::NetworkPolicy, "i", &nobody, &nobody);
    for direction in Direction::BOTH {
        let accepts = admin([only(Action::Pass, some_pods()), any(Action::Accept)]);
        check_unknown(std::slice::from_ref(&accepts), direction, "Accept cnp/a#1");
        check_unknown(&[accepts, isolated.clone()], direction, "Deny isolated");
        check_unknown(&[admin([only(Action::Pass, some_pods()), any(Action::Deny)])], direction, "Deny cnp/a#1");
        for peer in [all_pods(), block("10.0.0.0/24")] {
            check_unknown(&[admin([only(Action::Pass, peer), any(Action::Deny)])], direction, "Accept default");
        }
        let last = [only(Action::Pass, some_pods()), Rule { index: 1, ..any(Action::Deny) }];
        check_unknown(&[policy(Tier::Baseline, "b", &last, &last)], direction, "Deny cnp/b#1");
    }
}

#[test]
fn a_port_that_an_unknown_pod_would_name_may_be_any() {
    let named = |action, protocol| {
        let ports = PortSet::Of(vec![PortMatch::Named { protocol, name: "sql".into() }]);
        [Rule { ports, ..rule(action, PeerSet::Any) }]
    };
    let check = |action, protocol, expected| {
        let tier = if action == Action::Accept { Tier::NetworkPolicy } else { Tier::Admin };
        check_unknown(&[policy(tier, "p", &named(action, protocol), &[])], Direction::Egress, expected);
    };
    check(Action::Accept, None, "Deny isolated");
    check(Action::Deny, None, "Deny cnp/p#0");
    check(Action::Deny, Some(PortProtocol::Tcp), "Deny cnp/p#0");
    check(Action::Deny, Some(PortProtocol::Udp), "Accept default");
    // On ingress the name is that of `db`, which is known.
    check_unknown(&[policy(Tier::NetworkPolicy, "p", &[], &named(Action::Accept, None))], Direction::Ingress, "Accept cnp/p#0");
}

#[test]
fn what_is_excepted_from_the_ranges_of_pods_is_of_the_outside() {
    let isolated = policy(Tier::NetworkPolicy, "i", &[], &[accept(vec![block("0.0.0.0/0")])]);
    let range = IpBlock { cidr: "10.0.0.0/24".parse().unwrap(), except: vec!["10.0.0.1/32".parse().unwrap()] };
    let model = Model { pod_ranges: vec![range], ..cluster(&[isolated]) };
    assert_eq!(judge(&model, &flow(Place::Outside, DB)).verdict, Verdict::Accept);
}
