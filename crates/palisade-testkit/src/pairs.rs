//! Every pair of ends of a cluster, with traffic at the edges of what its policies say.
//!
//! Ends are asked about by their addresses, so nothing has to be resolved, and each judge works through all flows before the next one begins.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use palisade_model::{End, Flow, Model, NetworkId, Path, Place, PortMatch, PortProtocol, PortSet, Verdict};

use crate::check::expectation;
use crate::compare::{
    Between, Difference, Found, Judges, Question, Reasoned, by_engine, by_spec, end_of, same_as_reached, same_on_nodes, same_reasons,
};
use crate::random::Random;
use crate::raw_judge::RawEnd;
use crate::scenario::{Party, RawProtocol};

/// How long each judge took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    pub spec: Duration,
    pub decide: Duration,
    pub reach: Duration,
    pub nodes: Duration,
    pub raw: Duration,
}

impl Times {
    pub(crate) fn add(&mut self, other: &Times) {
        self.spec += other.spec;
        self.decide += other.decide;
        self.reach += other.reach;
        self.nodes += other.nodes;
        self.raw += other.raw;
    }
}

/// Traffic: a protocol, and a port if it has any.
type Traffic = (RawProtocol, Option<u16>);

/// Two ends and what is sent from one to the other.
struct Pair<'p> {
    from: (&'p Party, End),
    to: (&'p Party, End),
    traffic: Vec<Traffic>,
}

impl Judges<'_> {
    /// Asks about all pairs, each with so much traffic, drawn from what policy tells apart. The number of flows, or the first one that is judged differently.
    pub fn ask_pairs(&mut self, random: &mut Random, each: usize, times: &mut Times) -> Result<usize, Box<Found>> {
        let parties = parties(random, &self.view);
        let ends: Vec<(&Party, End)> = parties.iter().filter_map(|it| Some((it, end_of(self.model, self.network, it)?))).collect();
        let traffic = traffic(&self.view);
        let mut pairs = Vec::with_capacity(ends.len() * ends.len());
        for from in &ends {
            for to in ends.iter().filter(|to| can_meet(&from.1, &to.1)) {
                let drawn = (0..each).filter_map(|_| random.pick(&traffic).copied()).collect();
                pairs.push(Pair { from: *from, to: *to, traffic: drawn });
            }
        }
        self.judge(&pairs, times)
    }

    /// Asks about one flow in the same way; nobody, if its ends are not found by address.
    pub fn ask_directly(&mut self, question: &Question) -> Result<usize, Difference> {
        let (Some(from), Some(to)) = (self.end(&question.from), self.end(&question.to)) else { return Ok(0) };
        if !can_meet(&from, &to) {
            return Ok(0);
        }
        let traffic = vec![(question.protocol, question.port)];
        let pair = Pair { from: (&question.from, from), to: (&question.to, to), traffic };
        self.judge(&[pair], &mut Times::default()).map_err(|found| found.difference)
    }

    fn end(&self, party: &Party) -> Option<End> {
        end_of(self.model, self.network, party)
    }

    /// A question that shows a difference names its network.
    fn judge(&mut self, pairs: &[Pair<'_>], times: &mut Times) -> Result<usize, Box<Found>> {
        self.judge_pairs(pairs, times).map_err(|mut found| {
            let name = self.network_name();
            found.question.iter_mut().for_each(|it| it.network.clone_from(&name));
            found
        })
    }

    fn judge_pairs(&mut self, pairs: &[Pair<'_>], times: &mut Times) -> Result<usize, Box<Found>> {
        let flows: Vec<Vec<Flow>> = pairs.iter().map(|it| flows(self.network, it)).collect();
        let model = self.model;
        let spec: Vec<Vec<Reasoned>> = timed(&mut times.spec, || each(&flows, |flow| by_spec(model, flow)));
        let decided: Vec<Vec<Reasoned>> = timed(&mut times.decide, || each(&flows, |flow| by_engine(model, flow)));
        for (pair, (spec, decided)) in pairs.iter().zip(spec.iter().zip(&decided)) {
            for (at, (spec, decided)) in spec.iter().zip(decided).enumerate() {
                same_reasons(spec, decided).map_err(|it| Found::by(pair.question(at), it))?;
            }
        }
        timed(&mut times.reach, || self.by_reach(pairs, &flows, &decided))?;
        timed(&mut times.nodes, || self.by_nodes(pairs, &flows, &decided))?;
        timed(&mut times.raw, || self.by_raw(pairs, &decided))?;
        Ok(flows.iter().map(Vec::len).sum())
    }

    fn by_reach(&mut self, pairs: &[Pair<'_>], flows: &[Vec<Flow>], decided: &[Vec<Reasoned>]) -> Result<(), Box<Found>> {
        for (pair, (flows, decided)) in pairs.iter().zip(flows.iter().zip(decided)) {
            let reached = self.reach.between(&pair.from.1, &pair.to.1);
            for (at, (flow, decided)) in flows.iter().zip(decided).enumerate() {
                same_as_reached(&self.reach, reached, flow, decided.verdict).map_err(|it| Found::by(pair.question(at), it))?;
            }
            let Some(updated) = &mut self.updated else { continue };
            let reached = updated.between(self.model, &pair.from.1, &pair.to.1);
            for (at, (flow, decided)) in flows.iter().zip(decided).enumerate() {
                updated.same_as_reached(reached, flow, decided.verdict).map_err(|it| Found::by(pair.question(at), it))?;
            }
        }
        Ok(())
    }

    fn by_nodes(&self, pairs: &[Pair<'_>], flows: &[Vec<Flow>], decided: &[Vec<Reasoned>]) -> Result<(), Box<Found>> {
        for (pair, (flows, decided)) in pairs.iter().zip(flows.iter().zip(decided)) {
            for (at, (flow, decided)) in flows.iter().zip(decided).enumerate() {
                same_on_nodes(self.model, &self.nodes, flow, decided).map_err(|it| Found::by(pair.question(at), it))?;
            }
        }
        Ok(())
    }

    fn by_raw(&self, pairs: &[Pair<'_>], decided: &[Vec<Reasoned>]) -> Result<(), Box<Found>> {
        let Some(raw) = &self.raw else { return Ok(()) };
        let mut known: Vec<(&Party, Result<RawEnd<'_>, String>)> = Vec::new();
        for party in pairs.iter().flat_map(|it| [it.from.0, it.to.0]) {
            if !known.iter().any(|(it, _)| std::ptr::eq(*it, party)) {
                known.push((party, raw.as_ref().map_err(String::clone).and_then(|raw| raw.find(party))));
            }
        }
        let find = |party: &Party| known.iter().find(|(it, _)| std::ptr::eq(*it, party)).map(|(_, found)| found);
        for (pair, decided) in pairs.iter().zip(decided) {
            let ends = (raw, find(pair.from.0), find(pair.to.0));
            for (at, decided) in decided.iter().enumerate() {
                let question = pair.question(at);
                let verdict = match ends {
                    (Ok(raw), Some(Ok(from)), Some(Ok(to))) => raw.between(from, to, question.protocol, question.port),
                    (Err(error), ..) | (_, Some(Err(error)), _) | (.., Some(Err(error))) => Err(error.clone()),
                    (Ok(_), None, _) | (Ok(_), _, None) => Err("a party that nobody looked for".to_owned()),
                };
                same_as_raw(&verdict, decided.verdict).map_err(|it| Found::by(question, it))?;
            }
        }
        Ok(())
    }
}

fn same_as_raw(raw: &Result<crate::scenario::Expect, String>, decided: Verdict) -> Result<(), Difference> {
    let expected = expectation(decided);
    let between = match raw {
        Ok(raw) if *raw == expected => return Ok(()),
        Ok(_) => Between::RawJudgeAndEngine,
        Err(_) => Between::Askable,
    };
    Err(Difference { between, text: format!("the raw judge says {raw:?}, the engine {expected:?}") })
}

fn timed<T>(total: &mut Duration, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = work();
    *total += start.elapsed();
    done
}

fn each<T>(flows: &[Vec<Flow>], judge: impl Fn(&Flow) -> T) -> Vec<Vec<T>> {
    flows.iter().map(|flows| flows.iter().map(&judge).collect()).collect()
}

fn flows(network: NetworkId, pair: &Pair<'_>) -> Vec<Flow> {
    let flow = |at| {
        let asked = pair.question(at).asked();
        let (_, port) = pair.traffic.get(at).copied().unwrap_or((RawProtocol::Icmp, None));
        Flow { network, from: pair.from.1, to: pair.to.1, protocol: asked.protocol, port, path: Path::Direct }
    };
    (0..pair.traffic.len()).map(flow).collect()
}

impl Pair<'_> {
    fn question(&self, at: usize) -> Question {
        let (protocol, port) = self.traffic.get(at).copied().unwrap_or((RawProtocol::Icmp, None));
        Question { network: None, from: self.from.0.clone(), to: self.to.0.clone(), protocol, port }
    }
}

/// Connections between all pairs of a model's ends, each with so much traffic, as `ask_pairs` asks about them.
pub fn all_flows(random: &mut Random, model: &Model, each: usize) -> Vec<Flow> {
    let parties = parties(random, model);
    let ends: Vec<(&Party, End)> = parties.iter().filter_map(|it| Some((it, end_of(model, NetworkId::DEFAULT, it)?))).collect();
    let traffic = traffic(model);
    let mut all = Vec::new();
    for from in &ends {
        for to in ends.iter().filter(|to| can_meet(&from.1, &to.1)) {
            let traffic = (0..each).filter_map(|_| random.pick(&traffic).copied()).collect();
            all.extend(flows(NetworkId::DEFAULT, &Pair { from: *from, to: *to, traffic }));
        }
    }
    all
}

/// Policy protects pods, and a packet has one family. What has no address may be a workload, and that meets itself as two of its pods.
fn can_meet(from: &End, to: &End) -> bool {
    if from == to && from.address.is_none() {
        return false;
    }
    let is_pod = |end: &End| matches!(end.place, Place::Pod(_));
    let one_family = match (from.address, to.address) {
        (Some(from), Some(to)) => from.is_ipv4() == to.is_ipv4(),
        (None, _) | (_, None) => true,
    };
    one_family && (is_pod(from) || is_pod(to))
}

/// How many addresses that nobody has are asked about.
const OUTSIDE: usize = 6;

/// All addresses of the cluster, pods that have none, and some addresses of nobody, most of them at the edges of blocks.
fn parties(random: &mut Random, model: &Model) -> Vec<Party> {
    let pods = model.endpoints.iter().flat_map(|it| &it.addresses);
    let known: BTreeSet<IpAddr> = pods.chain(model.nodes.iter().flat_map(|it| &it.addresses)).copied().collect();
    let mut parties: Vec<Party> = known.iter().copied().map(Party::Address).collect();
    let nowhere = model.endpoints.iter().filter(|it| it.addresses.is_empty());
    parties.extend(nowhere.map(|it| Party::Pod { namespace: it.name.namespace.to_string(), name: it.name.name.to_string() }));
    let edges: BTreeSet<IpAddr> = model.ip_blocks().flat_map(|it| std::iter::once(&it.cidr).chain(&it.except)).flat_map(edges).collect();
    let plain = ["203.0.113.5", "2001:db8::5"].into_iter().filter_map(|it| it.parse().ok());
    let mut outside: Vec<IpAddr> = edges.into_iter().chain(plain).filter(|it| !known.contains(it)).collect();
    for _ in 0..OUTSIDE.min(outside.len()) {
        let at = random.below(outside.len());
        parties.push(Party::Address(outside.swap_remove(at)));
    }
    parties
}

/// The first and the last address of a block, and their neighbours.
fn edges(net: &ipnet::IpNet) -> Vec<IpAddr> {
    let (first, last) = (net.network(), net.broadcast());
    [Some(first), Some(last), beside(first, |it| it.checked_sub(1)), beside(last, |it| it.checked_add(1))].into_iter().flatten().collect()
}

fn beside(address: IpAddr, step: impl Fn(u128) -> Option<u128>) -> Option<IpAddr> {
    match address {
        IpAddr::V4(it) => step(u128::from(u32::from(it))).and_then(|it| u32::try_from(it).ok()).map(|it| IpAddr::V4(it.into())),
        IpAddr::V6(it) => step(u128::from(it)).map(|it| IpAddr::V6(it.into())),
    }
}

/// The ports at which some rule may change its mind, those that pods declare, and protocols without ports.
fn traffic(model: &Model) -> Vec<Traffic> {
    let mut ports: BTreeSet<(PortProtocol, u16)> =
        BTreeSet::from([(PortProtocol::Tcp, 80), (PortProtocol::Udp, 53), (PortProtocol::Sctp, 9)]);
    let rules = model.policies.iter().flat_map(|it| it.rules.egress.iter().chain(&it.rules.ingress));
    for rule in rules {
        let PortSet::Of(entries) = &rule.ports else { continue };
        for entry in entries {
            let PortMatch::Numbers { protocol, ports: numbers } = entry else { continue };
            let (first, last) = (numbers.first(), numbers.last());
            let near = [Some(first), Some(last), first.checked_sub(1), last.checked_add(1)];
            ports.extend(near.into_iter().flatten().map(|port| (*protocol, port)));
        }
    }
    let declared = model.endpoints.iter().flat_map(|it| &it.ports);
    ports.extend(declared.map(|it| (it.protocol, it.port)));
    // A number of one protocol under another, now and then.
    let turned: Vec<(PortProtocol, u16)> = ports.iter().step_by(3).map(|(protocol, port)| (next(*protocol), *port)).collect();
    ports.extend(turned);
    let with_ports = ports.into_iter().filter(|(_, port)| *port > 0).map(|(protocol, port)| (raw(protocol), Some(port)));
    let without = [RawProtocol::Icmp, RawProtocol::Icmp, RawProtocol::Other(47), RawProtocol::Other(255)];
    with_ports.chain(without.map(|it| (it, None))).collect()
}

fn next(protocol: PortProtocol) -> PortProtocol {
    match protocol {
        PortProtocol::Tcp => PortProtocol::Udp,
        PortProtocol::Udp => PortProtocol::Sctp,
        PortProtocol::Sctp => PortProtocol::Tcp,
    }
}

fn raw(protocol: PortProtocol) -> RawProtocol {
    match protocol {
        PortProtocol::Tcp => RawProtocol::Tcp,
        PortProtocol::Udp => RawProtocol::Udp,
        PortProtocol::Sctp => RawProtocol::Sctp,
    }
}
