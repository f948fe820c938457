//! The changes that a soak makes: one of a kind, drawn at random.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use palisade_model::{Action, IpBlock, Labels, NodeId, Peer, PeerSet, Policy, PortMatch, PortProtocol, PortSet, Ports, Rule, Tier};

use crate::soak::random::Random;
use crate::soak::world::{APPS, COMMON, GUEST, Pod, Presence, TIERS, World, app, cluster, is, network, only, other_tier, pods, rule};

/// What changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    PodAdd,
    PodRemove,
    /// Of one pod; others of its node speak with it.
    Relabel,
    PolicyAdd,
    PolicyChange,
    PolicyRemove,
    /// A selector comes or goes that tells pods apart that were alike.
    Split,
    /// Pods change their labels, and policies what they say of both labels.
    Move,
    /// What egress held back ingress holds back, or the other way round.
    Swap,
    /// Of addresses, those outside among them.
    Networks,
    /// An agent starts anew with another model than that of the table which it finds.
    Reload,
    /// An agent starts anew, and nothing changes.
    Restart,
}

impl Kind {
    pub const ALL: [Kind; 12] = [
        Kind::PodAdd,
        Kind::PodRemove,
        Kind::Relabel,
        Kind::PolicyAdd,
        Kind::PolicyChange,
        Kind::PolicyRemove,
        Kind::Split,
        Kind::Move,
        Kind::Swap,
        Kind::Networks,
        Kind::Reload,
        Kind::Restart,
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::PodAdd => "pod added",
            Kind::PodRemove => "pod removed",
            Kind::Relabel => "pod relabelled",
            Kind::PolicyAdd => "policy added",
            Kind::PolicyChange => "policy changed",
            Kind::PolicyRemove => "policy removed",
            Kind::Split => "class split or joined",
            Kind::Move => "class moved with its verdict",
            Kind::Swap => "egress and ingress swapped",
            Kind::Networks => "networks changed",
            Kind::Reload => "agent restarted with a change",
            Kind::Restart => "agent restarted",
        })
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) kind: Kind,
    /// What it does, for people.
    pub(crate) words: String,
    /// What it leads to.
    pub(crate) world: World,
    /// Nodes whose agents start anew with it.
    pub(crate) restarts: Vec<NodeId>,
}

/// How many policies there can be that are random as a whole.
const SLOTS: usize = 6;
/// How often a draw is repeated that changes nothing.
const DRAWS: usize = 100;

/// Addresses outside of the cluster that are spoken with.
pub(crate) const OUTSIDE: [IpAddr; 5] = [
    IpAddr::V4(Ipv4Addr::new(203, 0, 113, 10)),
    IpAddr::V4(Ipv4Addr::new(203, 0, 113, 70)),
    IpAddr::V4(Ipv4Addr::new(203, 0, 113, 200)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x10)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0x10)),
];

/// The next change of a world; of another kind if that which was drawn is not possible now. None only if nothing is.
pub(crate) fn next(world: &World, random: &mut Random) -> Option<Change> {
    (0..DRAWS).find_map(|_| {
        let kind = random.of(Kind::ALL);
        let mut next = world.clone();
        let words = change(&mut next, kind, random)?;
        let restarts = match kind {
            Kind::Reload | Kind::Restart => vec![NodeId(random.below(2))],
            Kind::PodAdd
            | Kind::PodRemove
            | Kind::Relabel
            | Kind::PolicyAdd
            | Kind::PolicyChange
            | Kind::PolicyRemove
            | Kind::Split
            | Kind::Move
            | Kind::Swap
            | Kind::Networks => Vec::new(),
        };
        (kind == Kind::Restart || next != *world).then_some(Change { kind, words, world: next, restarts })
    })
}

/// Changes a world, and says how; None if that cannot be done to it.
fn change(world: &mut World, kind: Kind, random: &mut Random) -> Option<String> {
    match kind {
        Kind::PodAdd => {
            let pod = one_of(world, random, |it| it.presence == Presence::Gone)?;
            let (tier, part) = (random.of(TIERS), random.of(["one", "two"]));
            pod.labels = Labels::from_iter([("app", GUEST), ("tier", tier), ("part", part)]);
            pod.presence = Presence::Here;
            Some(format!("pod {} with {}", pod.name, pod.labels))
        }
        Kind::PodRemove => {
            let pod = one_of(world, random, |it| it.presence == Presence::Here && it.app == GUEST)?;
            pod.presence = Presence::Gone;
            Some(format!("pod {}", pod.name))
        }
        Kind::Relabel => {
            let pod = one_of(world, random, |it| it.presence == Presence::Here)?;
            let tier = other_tier(pod.labels.get("tier").unwrap_or_default());
            pod.labels.set("tier", tier);
            Some(format!("pod {} gets tier={tier}", pod.name))
        }
        Kind::PolicyAdd => {
            let free: Vec<String> = (0..SLOTS).map(slot).filter(|it| in_slot(world, it).is_none()).collect();
            let policy = draw(random.pick(&free)?, random);
            let words = format!("{} {}", policy.origin, said(&policy));
            world.set(policy);
            Some(words)
        }
        Kind::PolicyRemove => {
            let key = taken(world, random)?;
            world.policies.remove(&key);
            Some(key.into())
        }
        Kind::PolicyChange | Kind::Reload => {
            let before = world.policies.remove(&taken(world, random)?)?;
            let mut policy = draw(&before.origin.name, random);
            if policy.tier == before.tier && random.percent(70) {
                policy.subject = before.subject;
            }
            let words = format!("{} is now {} {}", before.origin, policy.origin, said(&policy));
            world.set(policy);
            Some(words)
        }
        Kind::Split => Some(split(world, random)),
        Kind::Move => {
            world.denied = other_tier(world.denied);
            for pod in world.pods.iter_mut().filter(|it| it.app == "a") {
                let tier = other_tier(pod.labels.get("tier").unwrap_or_default());
                pod.labels.set("tier", tier);
            }
            world.settle();
            Some(format!("pods of app a change tiers, and tier {} is denied instead of {}", world.denied, other_tier(world.denied)))
        }
        Kind::Swap => {
            let (held, tier) = if random.percent(50) {
                world.swap = world.swap.other();
                (world.swap, "Admin")
            } else {
                world.isolation = world.isolation.other();
                (world.isolation, "NetworkPolicy")
            };
            world.settle();
            Some(format!("in tier {tier}, from a to b: {held:?}"))
        }
        Kind::Networks => {
            let policy = networks(random);
            let words = format!("{} {}", policy.origin, said(&policy));
            world.set(policy);
            Some(words)
        }
        Kind::Restart => Some("nothing else".to_owned()),
    }
}

fn one_of<'a>(world: &'a mut World, random: &mut Random, wanted: impl Fn(&Pod) -> bool) -> Option<&'a mut Pod> {
    let mut fitting: Vec<&mut Pod> = world.pods.iter_mut().filter(|it| wanted(it)).collect();
    let at = random.below(fitting.len());
    (at < fitting.len()).then(|| fitting.swap_remove(at))
}

/// The name of a policy that is random as a whole.
fn slot(number: usize) -> String {
    format!("random-{number}")
}

fn in_slot<'a>(world: &'a World, name: &str) -> Option<&'a Policy> {
    world.policies.values().find(|it| *it.origin.name == *name)
}

/// One of the random policies, by its key.
fn taken(world: &World, random: &mut Random) -> Option<Box<str>> {
    let names: Vec<String> = (0..SLOTS).map(slot).collect();
    let all = world.policies.iter().filter(|(_, it)| names.iter().any(|name| *name == *it.origin.name));
    let keys: Vec<&Box<str>> = all.map(|(key, _)| key).collect();
    random.pick(&keys).map(|it| (*it).clone())
}

/// A selector over `part` comes, goes, or tells the other half apart.
fn split(world: &mut World, random: &mut Random) -> String {
    let (name, key) = ("split", "cnp/split");
    if world.policies.remove(key).is_some() && random.percent(60) {
        return "no policy tells parts apart any more".to_owned();
    }
    let (part, subject, action) = (random.of(["one", "two"]), random.of(["a", "b", "c"]), random.of([Action::Accept, Action::Deny]));
    let rules = vec![rule(0, action, pods(is("part", part)), some_ports(random))];
    let rules = if random.percent(50) { [rules, vec![]] } else { [vec![], rules] };
    let policy = cluster(name, Tier::Admin, 2, app(subject), rules);
    let words = format!("{} tells part {part} apart {}", policy.origin, said(&policy));
    world.set(policy);
    words
}

/// A policy about addresses.
fn networks(random: &mut Random) -> Policy {
    let mut direction = |index| {
        let blocks = (0..=random.below(3)).map(|_| block(random)).collect();
        let by_address = rule(index, Action::Accept, PeerSet::Of(vec![Peer::Networks(blocks)]), PortSet::Any);
        vec![by_address, rule(index + 1, Action::Accept, pods(app(random.of(APPS))), some_ports(random))]
    };
    let rules = [Some(direction(0)), Some(direction(0))];
    network("networks", app("c"), rules)
}

fn block(random: &mut Random) -> IpBlock {
    let part = |first: [u8; 4], length| IpNet::new_assert(IpAddr::from(first), length);
    let part6 = |first: [u16; 8], length| IpNet::new_assert(IpAddr::from(first), length);
    let documentation = part([203, 0, 113, 0], 24);
    let documentation6 = part6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32);
    match random.below(8) {
        0 => IpBlock::whole(documentation),
        1 => IpBlock::whole(part([203, 0, 113, 0], 25)),
        2 => IpBlock::whole(part([203, 0, 113, 128], 25)),
        3 => IpBlock { cidr: documentation, except: vec![part([203, 0, 113, 64], 26)] },
        4 => IpBlock { cidr: part([0, 0, 0, 0], 0), except: vec![documentation] },
        5 => IpBlock::whole(documentation6),
        6 => IpBlock { cidr: documentation6, except: vec![part6([0x2001, 0xdb8, 1, 0, 0, 0, 0, 0], 48)] },
        _ => IpBlock { cidr: part6([0; 8], 0), except: vec![part6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 48)] },
    }
}

/// A policy of any tier.
fn draw(name: &str, random: &mut Random) -> Policy {
    let subject = if random.percent(60) { app(random.of(APPS)) } else { is("tier", random.of(TIERS)) };
    let tier = if random.percent(50) { Tier::NetworkPolicy } else { random.of([Tier::Admin, Tier::Baseline]) };
    let mut some = |least: usize| -> Vec<Rule> {
        let number = least + random.below(2);
        (0..number)
            .map(|index| {
                let action = match tier {
                    Tier::NetworkPolicy => Action::Accept,
                    Tier::Admin => random.of([Action::Accept, Action::Deny, Action::Deny, Action::Pass]),
                    Tier::Baseline => random.of([Action::Accept, Action::Deny]),
                };
                rule(index, action, peers(random), some_ports(random))
            })
            .collect()
    };
    let (egress, ingress) = (some(1), some(1));
    let directions = random.below(3);
    match tier {
        Tier::NetworkPolicy => match directions {
            0 => network(name, subject, [Some(egress), None]),
            1 => network(name, subject, [None, Some(ingress)]),
            _ => network(name, subject, [Some(egress), Some(ingress)]),
        },
        Tier::Admin | Tier::Baseline => {
            let rank = i64::try_from(random.below(7)).unwrap_or_default() + 3;
            cluster(name, tier, rank, subject, [egress, ingress])
        }
    }
}

fn peers(random: &mut Random) -> PeerSet {
    match random.below(10) {
        0..4 => pods(app(random.of(APPS))),
        4..8 => pods(is("tier", random.of(TIERS))),
        8 => PeerSet::Of(vec![Peer::Networks(vec![block(random), block(random)])]),
        _ => PeerSet::Any,
    }
}

fn some_ports(random: &mut Random) -> PortSet {
    let [first, second] = COMMON;
    let both = |first: u16, last: u16| {
        let ports = Ports::range(first, last).unwrap_or(Ports::one(first));
        PortSet::Of([PortProtocol::Udp, PortProtocol::Tcp].map(|protocol| PortMatch::Numbers { protocol, ports }).to_vec())
    };
    match random.below(5) {
        0 => only(PortProtocol::Udp, Ports::one(first)),
        1 => both(second, second),
        2 => both(first, second),
        3 => both(first, first),
        _ => PortSet::Any,
    }
}

/// A policy in short, for people.
fn said(policy: &Policy) -> String {
    let rules = |rules: &[Rule]| -> String {
        rules.iter().map(|it| format!("{} {}", it.action, peers_said(&it.peers))).collect::<Vec<_>>().join(", ")
    };
    let subject = match &policy.subject {
        palisade_model::Subject::Pods { pods, .. } => pods.to_string(),
        palisade_model::Subject::Unknown => "nobody".to_owned(),
    };
    format!("({}, {subject}; egress: {}; ingress: {})", policy.tier, rules(&policy.rules.egress), rules(&policy.rules.ingress))
}

fn peers_said(peers: &PeerSet) -> String {
    let peer = |it: &Peer| match it {
        Peer::Pods { pods, .. } => pods.to_string(),
        Peer::Networks(blocks) => blocks.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or "),
        Peer::Relative(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => "others".to_owned(),
    };
    match peers {
        PeerSet::Any => "anybody".to_owned(),
        PeerSet::AnyButOwnNode => "anybody but the own node".to_owned(),
        PeerSet::Of(peers) => peers.iter().map(peer).collect::<Vec<_>>().join(" or "),
    }
}
