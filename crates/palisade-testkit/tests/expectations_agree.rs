//! Expectations agree with asking about every pair, on every cluster of the scenarios.
#![expect(clippy::unwrap_used, reason = "all of this is tests, and clippy knows them by their attribute only")]

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use palisade_analysis::expect::{Counterexample, Expectation, Held, parse, run};
use palisade_analysis::{Asked, Party, PortAsked, answer};
use palisade_model::{Model, NetworkId, Peer, PeerSet, Place, PortMatch, PortSet, Protocol, Verdict};
use palisade_testkit::check::snapshot;
use palisade_testkit::scenario::all;

fn read(sentence: &str) -> Expectation {
    let (mut expectations, diagnostics) = parse("e.yaml", &format!("- '{sentence}'\n"));
    assert_eq!(diagnostics, [], "{sentence}");
    expectations.pop().unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// Every cluster of the scenarios.
fn clusters() -> Vec<(String, Model)> {
    let read = |path: PathBuf| snapshot("cluster.yaml", &std::fs::read_to_string(path).unwrap()).model;
    all(&root()).unwrap().iter().map(|it| (it.name.clone(), read(it.cluster()))).collect()
}

fn ask(model: &Model, from: Party, to: Party, protocol: Protocol, port: Option<u16>) -> Vec<Verdict> {
    let port = port.map_or(PortAsked::None, PortAsked::Number);
    let explanation = answer(model, &Asked { network: NetworkId::DEFAULT, from, to, protocol, port }).unwrap();
    explanation.cases.iter().map(|case| case.decision.verdict).collect()
}

fn pods(model: &Model) -> Vec<Party> {
    let party = |it: &palisade_model::PodName| Party::Pod { namespace: it.namespace.to_string(), name: it.name.to_string() };
    model.endpoints.iter().map(|it| party(&it.name)).collect()
}

fn can_meet(from: &palisade_model::Endpoint, to: &palisade_model::Endpoint) -> bool {
    let families = |it: &palisade_model::Endpoint| -> Vec<bool> { it.addresses.iter().map(IpAddr::is_ipv4).collect() };
    let (from, to) = (families(from), families(to));
    from.is_empty() || to.is_empty() || from.iter().any(|it| to.contains(it))
}

/// Pairs of pods that have a verdict other than the wanted one, asked one by one.
fn wrong_pairs(model: &Model, (protocol, port): (Protocol, Option<u16>), wanted: Verdict) -> impl Iterator<Item = (Party, Party)> {
    let parties = pods(model);
    let ends: Vec<_> = parties.into_iter().zip(&model.endpoints).collect();
    let pairs = ends.clone().into_iter().flat_map(move |from| ends.clone().into_iter().map(move |to| (from.clone(), to)));
    pairs.filter_map(move |((from, from_pod), (to, to_pod))| {
        let workload = to_pod.workload().is_some_and(|it| it.name == to_pod.name.name);
        if (from == to && !workload) || !can_meet(from_pod, to_pod) {
            return None;
        }
        let verdicts = ask(model, from.clone(), to.clone(), protocol, port);
        verdicts.iter().any(|it| *it != wanted && *it != Verdict::DependsOnDns).then_some((from, to))
    })
}

fn wrong(held: &Held) -> (&[Counterexample], u64) {
    match held {
        Held::No { counterexamples, more } => (counterexamples, u64::try_from(counterexamples.len()).unwrap() + more),
        Held::Yes { .. } | Held::CannotTell { .. } | Held::MatchesNothing { .. } => (&[], 0),
    }
}

#[test]
fn classes_agree_with_every_pair_of_every_scenario() {
    let mut met = 0;
    for (name, model) in clusters() {
        for (text, protocol, port) in
            [("tcp/80", Protocol::TCP, Some(80)), ("udp/53", Protocol::UDP, Some(53)), ("icmp", Protocol::Icmp, None)]
        {
            for (verdict, wanted) in [("allowed", Verdict::Accept), ("denied", Verdict::Deny)] {
                let sentence = format!("* -> * {text} {verdict}");
                let held = run(&model, &read(&sentence)).result;
                let (examples, found) = wrong(&held);
                assert_eq!(
                    found,
                    u64::try_from(wrong_pairs(&model, (protocol, port), wanted).count()).unwrap(),
                    "{name}: {sentence}: {held:#?}"
                );
                for it in examples {
                    let verdicts: Vec<Verdict> =
                        answer(&model, &it.asked).unwrap().cases.iter().map(|case| case.decision.verdict).collect();
                    assert!(verdicts.contains(&it.verdict), "{name}: {it:?}: {verdicts:?}");
                    met += 1;
                }
            }
        }
    }
    assert!(met > 500, "{met} counterexamples are too few to mean anything");
}

/// The CIDRs of all policies, exceptions too.
fn networks(model: &Model) -> BTreeSet<IpNet> {
    let rules = model.policies.iter().flat_map(|policy| policy.rules.egress.iter().chain(&policy.rules.ingress));
    let mut networks = BTreeSet::new();
    for rule in rules {
        let PeerSet::Of(peers) = &rule.peers else { continue };
        for peer in peers {
            let Peer::Networks(blocks) = peer else { continue };
            networks.extend(blocks.iter().flat_map(|block| [block.cidr].into_iter().chain(block.except.clone())));
        }
    }
    networks
}

/// The bounds of every block, and one of each family in between.
fn addresses(model: &Model) -> BTreeSet<IpAddr> {
    let owned = |address: &IpAddr| {
        model.place_of(NetworkId::DEFAULT, *address) != Place::Outside
            || model.services.iter().any(|it| matches!(&it.reached, palisade_model::Reached::Virtual(all) if all.contains(address)))
    };
    let bounds = networks(model).into_iter().flat_map(|it| [it.network(), it.broadcast()]);
    let others = ["192.0.2.77", "10.200.3.4", "2001:db8:77::1", "fd00:77::1"].map(|it| it.parse().unwrap());
    bounds.chain(others).filter(|it| !owned(it)).collect()
}

#[test]
fn no_address_outside_is_unlike_all_that_stand_for_it() {
    let mut met = 0;
    for (name, model) in clusters() {
        let outside = addresses(&model);
        for to in pods(&model) {
            let Party::Pod { namespace, name: pod } = &to else { continue };
            let held = |sentence: String| run(&model, &read(&sentence)).result;
            let allowed = held(format!("external -> {namespace}/{pod} tcp/80 allowed"));
            let denied = held(format!("external -> {namespace}/{pod} tcp/80 denied"));
            let family = |address: &IpAddr| {
                let pod = model.endpoints.iter().find(|it| *it.name.namespace == **namespace && *it.name.name == **pod).unwrap();
                pod.addresses.is_empty() || pod.addresses.iter().any(|it| it.is_ipv4() == address.is_ipv4())
            };
            for address in outside.iter().filter(|it| family(it)) {
                let verdict = ask(&model, Party::Address(*address), to.clone(), Protocol::TCP, Some(80));
                let against = match verdict.as_slice() {
                    [Verdict::Accept] => &denied,
                    [Verdict::Deny] => &allowed,
                    _ => continue,
                };
                assert!(matches!(against, Held::No { .. }), "{name}: {address} -> {namespace}/{pod}: {verdict:?}, but {against:?}");
                met += 1;
            }
        }
    }
    assert!(met > 500, "{met} addresses are too few to mean anything");
}

/// Ports at and next to every bound in the policies, and those of the pods.
fn ports(model: &Model) -> BTreeSet<u16> {
    let rules = model.policies.iter().flat_map(|policy| policy.rules.egress.iter().chain(&policy.rules.ingress));
    let mut ports = BTreeSet::from([1, 7777]);
    for rule in rules {
        let PortSet::Of(entries) = &rule.ports else { continue };
        for entry in entries {
            let PortMatch::Numbers { ports: range, .. } = entry else { continue };
            let (first, last) = (range.first(), range.last());
            ports.extend([first.saturating_sub(1).max(1), first.max(1), last, last.saturating_add(1)]);
        }
    }
    ports.extend(model.endpoints.iter().flat_map(|it| it.ports.iter().map(|it| it.port)));
    ports
}

#[test]
fn no_port_is_unlike_all_that_stand_for_it() {
    let mut met = 0;
    for (name, model) in clusters() {
        let held = |verdict: &str| run(&model, &read(&format!("* -> * {verdict}"))).result;
        let (allowed, denied) = (held("allowed"), held("denied"));
        let ports = ports(&model);
        for (protocol, port) in ports.iter().flat_map(|port| [(Protocol::TCP, *port), (Protocol::UDP, *port), (Protocol::SCTP, *port)]) {
            for (held, wanted) in [(&allowed, Verdict::Accept), (&denied, Verdict::Deny)] {
                let wrong = wrong_pairs(&model, (protocol, Some(port)), wanted).next();
                assert!(wrong.is_none() || matches!(held, Held::No { .. }), "{name}: {protocol}/{port} is not {wanted:?} for {wrong:?}");
                met += usize::from(wrong.is_some());
            }
        }
    }
    assert!(met > 500, "{met} ports are too few to mean anything");
}
