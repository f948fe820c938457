//! The matrix of every scenario, held against `decide` for every pair of pods and both ways with addresses outside.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test that cannot read its scenarios has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use palisade_analysis::matrix::{By, Filter, Matrix, Name, Order, Row, Shown};
use palisade_engine::{PortSets, Reach, compile, decide};
use palisade_model::{End, Endpoint, EndpointId, Family, Flow, Model, NetworkId, Path as Way, Place, Protocol, Verdict};
use palisade_testkit::check::snapshot;
use palisade_testkit::pods::workload;
use palisade_testkit::scenario::{Line, RawProtocol, Scenario, all};

type Traffic = (Protocol, Option<u16>);
type Pair = (String, String);

fn scenarios() -> Vec<Scenario> {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    all(&root).unwrap()
}

/// What the scenario asks about, and some more.
fn traffics(scenario: &Scenario) -> BTreeSet<Traffic> {
    let asked = scenario.lines.iter().filter_map(|(_, line)| match line {
        Line::Probe(probe) => Some((protocol(probe.protocol), probe.port)),
        Line::Refused(_) | Line::Warned(_) | Line::Step(_) => None,
    });
    asked.chain([(Protocol::TCP, Some(80)), (Protocol::UDP, Some(53)), (Protocol::Icmp, None)]).collect()
}

fn protocol(raw: RawProtocol) -> Protocol {
    match raw {
        RawProtocol::Tcp => Protocol::TCP,
        RawProtocol::Udp => Protocol::UDP,
        RawProtocol::Sctp => Protocol::SCTP,
        RawProtocol::Icmp => Protocol::Icmp,
        RawProtocol::Other(number) => Protocol::Other(number),
    }
}

fn name(by: By, endpoint: &Endpoint) -> String {
    match by {
        By::Workload => workload(endpoint),
        By::Namespace => format!("{}[Namespace]", endpoint.name.namespace),
        By::Class => panic!("classes are not named after pods"),
    }
}

/// What `decide` says, for each family that two pods have in common; None where an address is missing.
fn decided(model: &Model, from: usize, to: usize, traffic: Traffic) -> Vec<(Option<Family>, Verdict)> {
    let ends = |at: usize| {
        let addresses = &model.endpoints[at].addresses;
        let mut ends: Vec<Option<IpAddr>> = Vec::new();
        for family in [Family::V4, Family::V6] {
            ends.extend(addresses.iter().find(|it| Family::of(**it) == family).map(|it| Some(*it)));
        }
        if ends.is_empty() { vec![None] } else { ends }
    };
    let mut said = Vec::new();
    for source in ends(from) {
        for destination in ends(to) {
            let (a, b) = (source.map(Family::of), destination.map(Family::of));
            if a.is_some() && b.is_some() && a != b {
                continue;
            }
            let end = |at, address| End { place: Place::Pod(EndpointId(at)), address };
            said.push((a.or(b), verdict(model, end(from, source), end(to, destination), traffic)));
        }
    }
    said
}

fn verdict(model: &Model, from: End, to: End, (protocol, port): Traffic) -> Verdict {
    decide(model, &Flow { network: NetworkId::DEFAULT, from, to, protocol, port, path: Way::Direct }).verdict
}

/// What a row says about some traffic: whether some pods may, whether only some, whether it depends on DNS.
fn told(sets: &PortSets, row: Option<&Row<'_>>, (protocol, port): Traffic) -> (bool, bool, bool) {
    let has = |set| sets.contains(set, protocol, port);
    row.map_or((false, false, false), |row| (has(row.allowed), has(row.only_some), has(row.depends_on_dns)))
}

fn expected(verdicts: &[Verdict]) -> (bool, bool, bool) {
    let any = verdicts.contains(&Verdict::Accept);
    (any, any && verdicts.iter().any(|it| *it != Verdict::Accept), !any && verdicts.contains(&Verdict::DependsOnDns))
}

/// Verdicts by family; those without one go with either.
fn by_family(said: &[(Option<Family>, Verdict)]) -> BTreeMap<Option<Family>, Vec<Verdict>> {
    let families: BTreeSet<Option<Family>> = said.iter().map(|it| it.0).collect();
    let known = families.iter().any(Option::is_some);
    let of = |family: Option<Family>| said.iter().filter(move |it| it.0.is_none() || it.0 == family).map(|it| it.1).collect();
    families.into_iter().filter(|it| it.is_some() || !known).map(|it| (it, of(it))).collect()
}

/// Every pair of units, with what `decide` says about its pods.
fn pairs(model: &Model, by: By, traffic: Traffic) -> BTreeMap<Pair, Vec<(Option<Family>, Verdict)>> {
    let mut pairs: BTreeMap<Pair, Vec<(Option<Family>, Verdict)>> = BTreeMap::new();
    for (from, source) in model.endpoints.iter().enumerate() {
        for (to, destination) in model.endpoints.iter().enumerate() {
            let pair = (name(by, source), name(by, destination));
            if from != to && (by != By::Workload || pair.0 != pair.1) {
                pairs.entry(pair).or_default().extend(decided(model, from, to, traffic));
            }
        }
    }
    pairs
}

fn check_pods(scenario: &Scenario, model: &Model, reach: &mut Reach<'_>, by: By, order: Order) -> usize {
    let matrix = Matrix::new(model, reach, by);
    let rows = matrix.all(reach, &Filter { order, ..Filter::default() });
    let mut of_pair: BTreeMap<Pair, Vec<Row<'_>>> = BTreeMap::new();
    for row in rows {
        of_pair.entry((row.from.to_string(), row.to.to_string())).or_default().push(row);
    }
    let (sets, mut asked) = (reach.sets(), 0);
    for traffic in traffics(scenario) {
        for (pair, said) in pairs(model, by, traffic) {
            let rows = of_pair.get(&pair).map_or(&[][..], Vec::as_slice);
            for (family, verdicts) in by_family(&said) {
                let row = rows.iter().find(|it| it.family.is_none() || it.family == family);
                assert_eq!(told(sets, row, traffic), expected(&verdicts), "{}: {pair:?} {traffic:?} {family:?} {row:?}", scenario.name);
                asked += 1;
            }
        }
    }
    asked
}

fn check_outside(scenario: &Scenario, model: &Model, reach: &mut Reach<'_>) -> usize {
    let matrix = Matrix::new(model, reach, By::Workload);
    let rows = matrix.all(reach, &Filter::default());
    // What somebody of the cluster has is not outside.
    let is_outside = |it: &IpAddr| {
        model.place_of(NetworkId::DEFAULT, *it) == Place::Outside && !model.services.iter().any(|service| service.addresses().contains(it))
    };
    let addresses: Vec<IpAddr> = reach.outside().flat_map(|(first, last, _)| [first, last]).filter(is_outside).collect();
    let mut units: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, endpoint) in model.endpoints.iter().enumerate() {
        units.entry(workload(endpoint)).or_default().push(at);
    }
    let holds = |name: &Name<'_>, address: IpAddr| match name {
        Name::Range { first, last } => first.is_ipv4() == address.is_ipv4() && (*first..=*last).contains(&address),
        Name::Unit { .. } => false,
    };
    let (sets, mut asked) = (reach.sets(), 0);
    for address in addresses {
        let outside = End { place: Place::Outside, address: Some(address) };
        for (unit, pods) in &units {
            let out = rows.iter().find(|it| it.from.to_string() == *unit && holds(&it.to, address));
            let back = rows.iter().find(|it| it.to.to_string() == *unit && holds(&it.from, address));
            for traffic in traffics(scenario) {
                let ends: Vec<End> = pods.iter().filter_map(|at| of_family(model, *at, address)).collect();
                let outward: Vec<Verdict> = ends.iter().map(|it| verdict(model, *it, outside, traffic)).collect();
                let inward: Vec<Verdict> = ends.iter().map(|it| verdict(model, outside, *it, traffic)).collect();
                for (row, verdicts) in [(out, outward), (back, inward)] {
                    assert_eq!(told(sets, row, traffic), expected(&verdicts), "{}: {unit} {address} {traffic:?} {row:?}", scenario.name);
                    asked += 1;
                }
            }
        }
    }
    asked
}

/// A pod as an end of a connection with an address, if it has the family.
fn of_family(model: &Model, at: usize, address: IpAddr) -> Option<End> {
    let own = &model.endpoints[at].addresses;
    let same = own.iter().find(|it| Family::of(**it) == Family::of(address)).copied();
    (own.is_empty() || same.is_some()).then_some(End { place: Place::Pod(EndpointId(at)), address: same })
}

/// Every pair of units is in one of the two matrices and never in both, and the rows are in order.
fn check_halves(scenario: &Scenario, model: &Model, reach: &mut Reach<'_>) {
    let matrix = Matrix::new(model, reach, By::Workload);
    let mut half = |shown| matrix.all(reach, &Filter { shown, ..Filter::default() });
    let (connections, denied) = (half(Shown::Connections), half(Shown::Denied));
    let pair = |row: &Row<'_>| (row.from.to_string(), row.to.to_string());
    let (open, shut): (BTreeSet<Pair>, BTreeSet<Pair>) = (connections.iter().map(pair).collect(), denied.iter().map(pair).collect());
    assert!(open.is_disjoint(&shut), "{}", scenario.name);
    let mut all = pairs(model, By::Workload, (Protocol::Icmp, None));
    all.retain(|_, said| !said.is_empty());
    for pair in all.keys() {
        assert!(open.contains(pair) || shut.contains(pair), "{}: {pair:?} is in neither", scenario.name);
    }
    let key = |row: &Row<'_>| (ordered(row.from), ordered(row.to), row.family);
    for rows in [&connections, &denied] {
        assert!(rows.windows(2).all(|two| key(&two[0]) < key(&two[1])), "{}: rows are out of order", scenario.name);
        assert!(rows.iter().all(|row| row.from != row.to), "{}: a workload and itself", scenario.name);
    }
}

fn ordered(name: Name<'_>) -> (Option<(IpAddr, IpAddr)>, String) {
    match name {
        Name::Unit { name, .. } => (None, name.to_owned()),
        Name::Range { first, last } => (Some((first, last)), String::new()),
    }
}

#[test]
fn the_matrix_says_what_decide_says() {
    let scenarios = scenarios();
    assert!(scenarios.len() >= 100, "{} scenarios are too few to mean anything", scenarios.len());
    let (mut pods, mut outside) = (0, 0);
    for scenario in &scenarios {
        let text = std::fs::read_to_string(scenario.cluster()).unwrap();
        let model = snapshot("cluster.yaml", &text).model;
        let compiled = compile(&model);
        let mut reach = compiled.reach();
        pods += check_pods(scenario, &model, &mut reach, By::Workload, Order::BySource);
        pods += check_pods(scenario, &model, &mut reach, By::Namespace, Order::ByDestination);
        outside += check_outside(scenario, &model, &mut reach);
        check_halves(scenario, &model, &mut reach);
    }
    assert!(pods > 10_000 && outside > 1_000, "{pods} pairs and {outside} addresses are too few");
}

const REPLICAS: &str = r#"
{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}},
  {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "namespace": "x", "labels": {"n": "0"},
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "1", "controller": true}]}},
  {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1", "namespace": "x", "labels": {"n": "1"},
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "1", "controller": true}]}},
  {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db", "namespace": "x", "labels": {"app": "db"}}},
  {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "first-only", "namespace": "x"},
   "spec": {"podSelector": {"matchLabels": {"app": "db"}}, "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"n": "0"}}}], "ports": [{"port": 80}]},
                        {"from": [{"podSelector": {}}], "ports": [{"port": 443}]}]}}
]}"#;

#[test]
fn pods_of_a_workload_that_fare_differently_are_told() {
    let model = snapshot("cluster.json", REPLICAS).model;
    let compiled = compile(&model);
    let mut reach = compiled.reach();
    let matrix = Matrix::new(&model, &reach, By::Workload);
    let rows = matrix.all(&mut reach, &Filter::default());
    let row = rows.iter().find(|it| it.from.to_string() == "x/web[StatefulSet]" && it.to.to_string() == "x/db[Pod]").unwrap();
    let tcp = |port| told(reach.sets(), Some(row), (Protocol::TCP, Some(port)));
    assert_eq!((tcp(80), tcp(443), tcp(22)), ((true, true, false), (true, false, false), (false, false, false)));
}
