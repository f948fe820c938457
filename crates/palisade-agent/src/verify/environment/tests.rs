use palisade_kernel::{BaseChain, FilterSide, Flowtable, StrayRule, Way, Xdp};
use palisade_model::{Labels, PodName, Readiness, Running};

use super::*;

fn link(index: u32, name: &str) -> LinkFacts {
    let kind = Some("veth".to_owned());
    LinkFacts { index, name: name.to_owned(), kind, master: None, on: None, up: true, xdp: None, calls_ipv4: false, calls_ipv6: false }
}

fn table(family: &str, name: &str) -> TableOf {
    TableOf { family: family.to_owned(), name: name.to_owned() }
}

fn settings(of: &[(&str, &str)]) -> BTreeMap<String, String> {
    of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A node with one pod at `pod1`, and nothing that could lead past our hooks.
fn quiet() -> Environment {
    Environment {
        links: vec![link(1, "uplink"), link(2, "pod1")],
        settings: settings(&[("net/ipv4/ip_forward", "1"), ("net/ipv6/conf/all/forwarding", "0")]),
        ways: vec![Way { to: "10.0.0.1".parse().unwrap(), link: "pod1".to_owned() }],
        ..Environment::default()
    }
}

fn stray(does: &str) -> StrayRule {
    StrayRule { table: table("ip", "raw"), chain: "pre".to_owned(), does: does.to_owned() }
}

fn filter(link: &str, kind: &str, actions: &[&str]) -> Filter {
    let actions = actions.iter().map(|it| (*it).to_owned()).collect();
    Filter { link: link.to_owned(), side: FilterSide::In, kind: kind.to_owned(), actions }
}

fn judged(environment: &Environment) -> Vec<v1::VerifyFinding> {
    let pod = Endpoint {
        attachment: None,
        name: PodName { namespace: "x".into(), name: "a".into() },
        labels: Labels::default(),
        addresses: vec!["10.0.0.1".parse().unwrap()],
        node: Some(NodeId(0)),
        ports: Vec::new(),
        owners: Vec::new(),
        readiness: Readiness::Ready,
        running: Running::Yes,
    };
    let model = Model { endpoints: vec![pod].into(), ..Model::default() };
    judge(&model, NodeId(0), &BTreeMap::from([(EndpointId(0), "pod1".to_owned())]), environment)
}

#[test]
fn a_node_with_nothing_unusual_has_no_finding() {
    assert_eq!(judged(&quiet()), []);
    let calling = Environment {
        links: vec![
            LinkFacts { kind: Some("bridge".to_owned()), calls_ipv4: true, ..link(3, "br0") },
            LinkFacts { master: Some(3), ..link(2, "pod1") },
        ],
        filters: vec![filter("pod1", "flower", &["gact", "police"]), filter("pod1", "u32", &[])],
        chains: vec![BaseChain {
            table: table("inet", "filter"),
            name: "forward".to_owned(),
            kind: "filter".to_owned(),
            hook: 2,
            priority: -300,
            devices: BTreeSet::new(),
        }],
        legacy_tables: vec!["ip filter".to_owned(), "ip6 security".to_owned()],
        settings: settings(&[
            ("net/ipv4/conf/all/forwarding", "1"),
            ("net/ipv4/conf/all/accept_source_route", "0"),
            ("net/ipv4/conf/pod1/accept_source_route", "1"),
            ("net/ipv6/conf/all/seg6_enabled", "1"),
            ("net/ipv6/conf/uplink/seg6_enabled", "1"),
            ("net/ipv6/conf/pod1/seg6_enabled", "0"),
        ]),
        ..quiet()
    };
    assert_eq!(judged(&calling), []);
}

#[test]
fn links_that_lead_elsewhere_or_are_down_are_no_finding() {
    let vlan = LinkFacts { kind: Some("vlan".to_owned()), on: Some(1), ..link(7, "uplink.5") };
    let idle = LinkFacts { kind: Some("ipip".to_owned()), up: false, ..link(8, "tunl0") };
    assert_eq!(judged(&Environment { links: vec![link(1, "uplink"), link(2, "pod1"), vlan, idle], ..quiet() }), []);
}

#[test]
fn everything_that_leads_past_the_hooks_has_a_name_of_its_own() {
    use EnvironmentKind as Kind;
    let with_xdp = |name: &str| {
        let mut environment = quiet();
        environment.links.iter_mut().find(|it| it.name == name).unwrap().xdp = Some(Xdp { program: Some(7) });
        environment
    };
    let rule = |does| Environment { rules: vec![stray(does)], ..quiet() };
    let left = BaseChain {
        table: table("inet", "palisade-next"),
        name: "forward".to_owned(),
        kind: "filter".to_owned(),
        hook: 2,
        priority: 0,
        devices: BTreeSet::new(),
    };
    let flowtable = Flowtable { table: table("inet", "f"), name: "ft".to_owned(), devices: BTreeSet::from(["pod1".to_owned()]) };
    let among = |other: LinkFacts| Environment { links: vec![link(1, "uplink"), link(2, "pod1"), other], ..quiet() };
    let named = |folder: &str, name: &str| {
        let of = |link: &str| (format!("{folder}/conf/{link}/{name}"), "1".to_owned());
        Environment { settings: [of("all"), of("pod1")].into(), ..quiet() }
    };
    let bridged = vec![LinkFacts { kind: Some("bridge".to_owned()), ..link(3, "br0") }, LinkFacts { master: Some(3), ..link(2, "pod1") }];
    let cases = [
        (Kind::XdpProgram, with_xdp("pod1")),
        (Kind::OtherLink, with_xdp("uplink")),
        (Kind::TcFilter, Environment { filters: vec![filter("pod1", "bpf", &[])], ..quiet() }),
        (Kind::TcFilter, Environment { filters: vec![filter("pod1", "u32", &["gact", "pedit"])], ..quiet() }),
        (Kind::TcFilter, Environment { filters: vec![filter("pod1", "exotic", &["not known"])], ..quiet() }),
        (Kind::TcFilter, Environment { filters: vec![filter("uplink", "matchall", &["mirred redirect pod1"])], ..quiet() }),
        (Kind::OtherLink, Environment { filters: vec![filter("uplink", "bpf", &[])], ..quiet() }),
        (Kind::Notrack, rule("notrack")),
        (Kind::Notrack, rule("CT")),
        (Kind::Forwards, rule("fwd")),
        (Kind::Duplicates, rule("TEE")),
        (Kind::FlowOffload, rule("flow_offload")),
        (Kind::Tproxy, rule("tproxy")),
        (Kind::Tproxy, rule("redir")),
        (Kind::Synproxy, rule("synproxy")),
        (Kind::Synproxy, rule("SYNPROXY")),
        (Kind::Rewrites, rule("payload set")),
        (Kind::SourceRouting, named("net/ipv4", "accept_source_route")),
        (Kind::SourceRouting, named("net/ipv6", "seg6_enabled")),
        (Kind::LinkOnLink, among(LinkFacts { kind: Some("macvlan".to_owned()), on: Some(2), ..link(7, "mv0") })),
        (Kind::Tunnel, among(LinkFacts { kind: Some("vxlan".to_owned()), ..link(7, "flannel.1") })),
        (Kind::Flowtable, Environment { flowtables: vec![flowtable], ..quiet() }),
        (Kind::BridgeNotFiltered, Environment { links: bridged, ..quiet() }),
        (Kind::Ipvs, Environment { virtual_servers: 2, ..quiet() }),
        (Kind::Ipvs, Environment { links: vec![link(2, "pod1"), link(9, "kube-ipvs0")], ..quiet() }),
        (Kind::PodWithoutLink, Environment { links: vec![link(1, "uplink")], ..quiet() }),
        (Kind::ForwardingOff, Environment { settings: settings(&[("net/ipv4/ip_forward", "0")]), ..quiet() }),
        (Kind::LegacyRawTable, Environment { legacy_tables: vec!["ip raw".to_owned()], ..quiet() }),
        (Kind::LegacyTable, Environment { legacy_tables: vec!["ip6 mangle".to_owned()], ..quiet() }),
        (Kind::TableLeft, Environment { chains: vec![left], ..quiet() }),
    ];
    let mut met = BTreeSet::new();
    for (kind, environment) in cases {
        let findings = judged(&environment);
        let [only] = findings.as_slice() else { panic!("{kind:?}: {findings:#?}") };
        assert_eq!((only.name.as_str(), only.weight), (kind.name(), kind.meaning().0), "{only:?}");
        met.insert(kind);
    }
    assert_eq!(met, Kind::ALL.into(), "every kind has a case");
}
