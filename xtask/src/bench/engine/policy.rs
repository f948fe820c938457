//! One policy with many rules: what a node has to do for it, from the model to the messages for the kernel. A tenant may write such a policy, so the
//! work must grow with its size and not with the square of that.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use anyhow::{Context as _, Result};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use palisade_engine::{compile, decide};
use palisade_model::{
    Action, Direction, End, Flow, IpBlock, LabelSelector, Model, NetworkId, NodeId, Path, Peer, PeerSet, PerDirection, Place, Policy,
    PortMatch, PortProtocol, PortSet, Ports, Protocol, Rule, Tier,
};
use palisade_nft::{Expected, Ids, Lowering, NodeView, Ruleset, Step, Unknown, encode, lower, plan};

use super::model::{Size, model, spread};
use crate::bench::clock::timed;

/// A cluster in which the policy is all there is to do.
const SIZE: Size = Size { name: "", namespaces: 2, workloads: 4, policies: 0, cluster_policies: 0 };

const RULES: [usize; 4] = [2_000, 5_000, 10_000, 20_000];

/// Where the work still grows with the square: every leaf says something of every rule.
const FEWER_RULES: [usize; 4] = [250, 500, 1_000, 2_000];

/// A kind of policy: its rules, as many as are wanted.
struct Case {
    name: &'static str,
    counts: [usize; 4],
    tier: Tier,
    direction: Direction,
    rules: fn(usize) -> Result<Vec<Rule>>,
}

const CASES: [Case; 12] = [
    Case { name: "IPv6 ranges, each in the one before, each with its own ports", rules: |count| each(count, nested_in_one), ..INGRESS },
    Case { name: "the same for egress", rules: |count| each(count, nested_in_one), direction: Direction::Egress, ..INGRESS },
    Case { name: "a tree of IPv4 ranges, each with its own port", rules: |count| each(count, tree_and_port), ..INGRESS },
    Case { name: "a tree of IPv4 ranges, narrow before wide, all ports", rules: |count| each(count, |at| tree(count - 1 - at)), ..INGRESS },
    Case { name: "IPv6 ranges beside each other, each with its own port", rules: |count| each(count, beside), ..INGRESS },
    Case { name: "a rule with all IPv4 ranges of a tree", rules: one_rule, ..INGRESS },
    Case { name: "a range without as many others", rules: one_range, ..INGRESS },
    Case {
        name: "all addresses but one range, each with its own port",
        counts: FEWER_RULES,
        rules: |count| each(count, all_but_one),
        ..INGRESS
    },
    Case { name: "all addresses but one range, in one rule", rules: all_but_each, ..INGRESS },
    Case { name: "ranges of ports for every peer", rules: |count| each(count, ports_for_all), ..INGRESS },
    Case { name: "ranges of ports that overlap, for every peer", rules: |count| each(count, overlapping_ports), ..INGRESS },
    Case { name: "ClusterNetworkPolicy: accept and deny, nested ranges with ports", rules: ordered, tier: Tier::Admin, ..INGRESS },
];

const INGRESS: Case = Case { name: "", counts: RULES, tier: Tier::NetworkPolicy, direction: Direction::Ingress, rules: |_| Ok(Vec::new()) };

pub(super) fn measure(_: usize) -> Result<()> {
    println!("\nOne policy of many rules, CPU time in ms; growth from the first row to the last one, by that of n log n");
    println!("{HEAD}");
    for case in CASES {
        println!("{}", case.name);
        let mut totals = Vec::new();
        for count in case.counts {
            let took = measure_one(&case, count)?;
            totals.push(took.total());
            println!("{}", took.line(count));
        }
        let (first, last) = (totals.first().context("nothing was measured")?, totals.last().context("nothing was measured")?);
        println!("  growth {:.2}", last / first / n_log_n(case.counts));
    }
    Ok(())
}

const HEAD: &str = "       n   compile  lowering      plan    encode     total    decide    ranges    leaves     rules";

/// How much more n log n is for the most rules than for the fewest.
fn n_log_n(counts: [usize; 4]) -> f64 {
    let [fewest, .., most] = counts.map(|it| u32::try_from(it).map_or(f64::NAN, f64::from));
    most * most.log2() / (fewest * fewest.log2())
}

/// In seconds, and what came of it.
struct Measured {
    compile: f64,
    lower: f64,
    plan: f64,
    encode: f64,
    decide: f64,
    ruleset: Ruleset,
}

impl Measured {
    fn total(&self) -> f64 {
        self.compile + self.lower + self.plan + self.encode
    }

    fn line(&self, count: usize) -> String {
        let times = [self.compile, self.lower, self.plan, self.encode, self.total(), self.decide];
        let times: String = times.iter().map(|it| format!(" {:>9.1}", it * 1e3)).collect();
        let ranges: usize = self.ruleset.intervals.values().map(|it| it.elements.len()).sum();
        let leaves = || self.ruleset.chains.iter().filter(|(name, _)| name.starts_with("leaf-"));
        let rules: usize = leaves().map(|(_, it)| it.rules.len()).sum();
        format!("{count:>8}{times} {ranges:>9} {:>9} {rules:>9}", leaves().count())
    }
}

fn measure_one(case: &Case, count: usize) -> Result<Measured> {
    let before = spread(model(SIZE), 2);
    let mut model = before.clone();
    model.policies.push(policy(case, count)?);
    let view = NodeView { node: NodeId(0), links: BTreeMap::new(), unknown: Unknown::Open };
    let (old, _) = Lowering::default().lower(&before, &view);
    let (compiled, compiling) = timed(|| Ok(compile(&model)))?;
    let (ruleset, lowering) = timed(|| Ok(lower(&model, &compiled, &view, &mut Ids::default())))?;
    let (steps, planning) = timed(|| Ok(plan(&old, &ruleset)))?;
    let ((), encoding) = timed(|| {
        for step in &steps {
            if let Step::Commit(transaction) = step {
                encode(transaction, 1, Expected::Anything)?;
            }
        }
        Ok(())
    })?;
    let flow = flow(&model, case.direction)?;
    let (_, deciding) = timed(|| Ok(decide(&model, &flow)))?;
    let [compile, lower, plan, encode, decide] = [compiling, lowering, planning, encoding, deciding].map(|it| it.cpu.as_secs_f64());
    Ok(Measured { compile, lower, plan, encode, decide, ruleset })
}

/// From an address that many of the ranges hold, to a port that the last of the rules may be about; or the other way round.
fn flow(model: &Model, direction: Direction) -> Result<Flow> {
    let (id, pod) = model.endpoints.iter_ids().find(|(_, it)| it.node == Some(NodeId(0))).context("a node without a pod")?;
    let pod = End { place: Place::Pod(id), address: pod.addresses.first().copied() };
    let other = End { place: Place::Outside, address: Some(Ipv6Addr::from_bits(1 << 127).into()) };
    let (from, to) = match direction {
        Direction::Egress => (pod, other),
        Direction::Ingress => (other, pod),
    };
    Ok(Flow { network: NetworkId::DEFAULT, from, to, protocol: Protocol::Port(PortProtocol::Tcp), port: Some(60_003), path: Path::Direct })
}

fn policy(case: &Case, count: usize) -> Result<Policy> {
    let like = model(Size { policies: 1, ..SIZE }).policies.pop().context("a model without its policy")?;
    let mut rules = PerDirection::default();
    *rules.of_mut(case.direction) = (case.rules)(count)?;
    let mut isolates = PerDirection::default();
    *isolates.of_mut(case.direction) = case.tier == Tier::NetworkPolicy;
    let mut policy = Policy { tier: case.tier, rules, isolates, ..like.as_ref().clone() };
    if let palisade_model::Subject::Pods { pods, .. } = &mut policy.subject {
        *pods = LabelSelector::default();
    }
    Ok(policy)
}

fn each(count: usize, part: impl Fn(usize) -> Result<(Option<IpBlock>, PortSet)>) -> Result<Vec<Rule>> {
    (0..count).map(|at| part(at).map(|(block, ports)| rule(at, Action::Accept, block.into_iter().collect(), ports))).collect()
}

fn rule(index: usize, action: Action, blocks: Vec<IpBlock>, ports: PortSet) -> Rule {
    let peers = if blocks.is_empty() { PeerSet::Any } else { PeerSet::Of(blocks.into_iter().map(|it| Peer::Networks(vec![it])).collect()) };
    Rule { index, name: None, action, peers, ports, fail_closed: None }
}

type Part = Result<(Option<IpBlock>, PortSet)>;

fn tcp(first: usize, last: usize) -> Result<PortSet> {
    let ports = Ports::range(u16::try_from(first)?, u16::try_from(last)?).context("an empty range of ports")?;
    Ok(PortSet::Of(vec![PortMatch::Numbers { protocol: PortProtocol::Tcp, ports }]))
}

fn nested_in_one(at: usize) -> Part {
    let net = Ipv6Net::new(Ipv6Addr::from_bits(1 << 127), u8::try_from(1 + at % 124)?)?;
    Ok((Some(IpBlock::whole(net.into())), tcp(1 + (at * 7) % 60_000, 4 + (at * 7) % 60_000)?))
}

/// The ranges of a tree that halves `10.0.0.0/8` again and again, wide before narrow.
fn in_tree(at: usize) -> Result<IpNet> {
    let node = u32::try_from(at + 1)?;
    let depth = node.ilog2();
    let network = (10 << 24) | ((node - (1 << depth)) << (24 - depth));
    Ok(Ipv4Net::new(Ipv4Addr::from_bits(network), u8::try_from(8 + depth)?)?.into())
}

fn tree(at: usize) -> Part {
    Ok((Some(IpBlock::whole(in_tree(at)?)), PortSet::Any))
}

fn tree_and_port(at: usize) -> Part {
    Ok((Some(IpBlock::whole(in_tree(at)?)), tcp(1 + at, 1 + at)?))
}

fn beside(at: usize) -> Part {
    let net = Ipv6Net::new(Ipv6Addr::from_bits((0xfd00 << 112) | (u128::try_from(at)? << 64)), 64)?;
    Ok((Some(IpBlock::whole(net.into())), tcp(1 + at, 1 + at)?))
}

fn one_rule(count: usize) -> Result<Vec<Rule>> {
    let blocks = (0..count).map(|at| in_tree(at).map(IpBlock::whole)).collect::<Result<_>>()?;
    Ok(vec![rule(0, Action::Accept, blocks, tcp(80, 80)?)])
}

fn one_range(count: usize) -> Result<Vec<Rule>> {
    let except = (1..=count).map(in_tree).collect::<Result<_>>()?;
    Ok(vec![rule(0, Action::Accept, vec![IpBlock { cidr: "0.0.0.0/0".parse()?, except }], tcp(80, 80)?)])
}

fn but_one(at: usize) -> Result<IpBlock> {
    let except = Ipv4Net::new(Ipv4Addr::from_bits((198 << 24) | (u32::try_from(at)? << 8)), 24)?;
    Ok(IpBlock { cidr: "0.0.0.0/0".parse()?, except: vec![except.into()] })
}

fn all_but_one(at: usize) -> Part {
    Ok((Some(but_one(at)?), tcp(1 + at, 1 + at)?))
}

fn all_but_each(count: usize) -> Result<Vec<Rule>> {
    let blocks = (0..count).map(but_one).collect::<Result<_>>()?;
    Ok(vec![rule(0, Action::Accept, blocks, tcp(80, 80)?)])
}

fn ports_for_all(at: usize) -> Part {
    Ok((None, tcp(1 + at * 3, 2 + at * 3)?))
}

fn overlapping_ports(at: usize) -> Part {
    Ok((None, tcp(1 + at, 20_000 + at)?))
}

/// As many rules as such a policy has at most, with as many ranges each as come to the number.
fn ordered(count: usize) -> Result<Vec<Rule>> {
    const MOST: usize = 100;
    let of_rule = |at: usize| {
        let blocks = (0..count / MOST).map(|it| in_tree(it * MOST + at).map(IpBlock::whole)).collect::<Result<_>>()?;
        let action = if at.is_multiple_of(2) { Action::Deny } else { Action::Accept };
        Ok(rule(at, action, blocks, tcp(1 + at * 3, 80 + at * 4)?))
    };
    (0..MOST).map(of_rule).collect()
}
