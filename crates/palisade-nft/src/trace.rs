//! A packet's way through a ruleset, step by step, as the kernel would take it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::netlink::examine::StrangeRule;
use crate::netlink::strange::Does;
use crate::ruleset::{Address, Chain, CtState, End, Hook, Match, Rule, Ruleset, Statement, Value, Verdict};

/// The first packet of a connection, as a hook sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub at: At,
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: u8,
    pub port: Option<u16>,
    pub state: CtState,
    /// What the sender's TOS or SO_PRIORITY left in the packet's priority.
    pub priority: u32,
    /// Whether the source is an address of this node.
    pub source_is_local: bool,
}

/// The hook that a packet is at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// It has come in by this link.
    Ingress {
        link: String,
    },
    Forward,
    Input,
}

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    pub accepted: bool,
    /// Numbers of the origins whose rules matched, in order.
    pub origins: Vec<u32>,
    /// Comments of the rules that matched in leaves, in order.
    pub comments: Vec<String>,
    /// What is left in the packet's priority.
    pub priority: u32,
}

/// Walks a packet through the base chain of its hook. An error names something the ruleset refers to and does not have, or a walk without end.
pub fn trace(ruleset: &Ruleset, packet: &Packet) -> Result<Traced, String> {
    let base = ruleset.chains.iter().find(|(_, chain)| meets(chain, &packet.at));
    let walked = match (base, &packet.at) {
        (Some((name, _)), _) => walk(ruleset, &NO_STRANGERS, name, packet)?,
        // Nothing is bound to that link.
        (None, At::Ingress { .. }) => Walked { number: packet.priority, ..Walked::default() },
        (None, at @ (At::Forward | At::Input)) => return Err(format!("no base chain for {at:?}")),
    };
    let comments = walked.comments.into_iter().map(str::to_owned).collect();
    Ok(Traced { accepted: walked.way != Way::Dropped, origins: walked.origins, comments, priority: walked.number })
}

/// Rules that no ruleset has, by chain.
pub(crate) type Strangers = BTreeMap<String, Vec<StrangeRule>>;

pub(crate) static NO_STRANGERS: Strangers = BTreeMap::new();

/// A packet's way through one base chain, and what it met there.
#[derive(Debug, Default)]
pub(crate) struct Walked<'a> {
    pub(crate) way: Way,
    pub(crate) number: u32,
    pub(crate) origins: Vec<u32>,
    pub(crate) comments: Vec<&'a str>,
    pub(crate) chains: Vec<&'a str>,
    /// What was looked up, where.
    pub(crate) lookups: Vec<(&'a str, Key)>,
}

/// What is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Address(IpAddr),
    Number(u32),
    /// The source of a packet, with its link or its destination.
    Source,
}

/// How a chain ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    Accepted,
    Dropped,
    /// Out of this chain, back to after the last jump.
    #[default]
    Back,
}

/// Walks a packet through a base chain. An error names something that is missing, a rule whose effect cannot be known, or a walk without end.
pub(crate) fn walk<'a>(ruleset: &'a Ruleset, strangers: &'a Strangers, base: &'a str, packet: &'a Packet) -> Result<Walked<'a>, String> {
    let walked = Walked { number: packet.priority, ..Walked::default() };
    let mut walker = Walker { ruleset, strangers, packet, walked };
    walker.walked.way = walker.chain(base, 0)?;
    Ok(walker.walked)
}

/// Whether a chain is a base chain that a packet comes to.
pub(crate) fn meets(chain: &Chain, at: &At) -> bool {
    match (&chain.hook, at) {
        (Some(Hook::Ingress { devices }), At::Ingress { link }) => devices.contains(link),
        (Some(Hook::Forward), At::Forward) | (Some(Hook::Input), At::Input) => true,
        (Some(Hook::Ingress { .. } | Hook::Forward | Hook::Input) | None, _) => false,
    }
}

/// The kernel allows 16 nested chains, gotos included.
const DEPTH: usize = 16;

struct Walker<'a> {
    ruleset: &'a Ruleset,
    strangers: &'a Strangers,
    packet: &'a Packet,
    walked: Walked<'a>,
}

impl<'a> Walker<'a> {
    fn chain(&mut self, name: &'a str, depth: usize) -> Result<Way, String> {
        if depth > DEPTH {
            return Err(format!("chains nest deeper than {DEPTH} at `{name}`"));
        }
        let chain = self.ruleset.chains.get(name).ok_or_else(|| format!("no chain `{name}`"))?;
        self.walked.chains.push(name);
        let mut strange = self.strangers.get(name).map_or(&[][..], Vec::as_slice);
        for (place, rule) in chain.rules.iter().map(Some).chain([None]).enumerate() {
            while let Some((first, rest)) = strange.split_first().filter(|(first, _)| first.after <= place) {
                strange = rest;
                if let Some(way) = self.run_strange(name, first, depth)? {
                    return Ok(way);
                }
            }
            let Some(rule) = rule else { break };
            if self.all_match(rule)?
                && let Some(way) = self.run(rule, depth)?
            {
                return Ok(way);
            }
        }
        Ok(Way::Back)
    }

    fn run_strange(&mut self, chain: &str, it: &'a StrangeRule, depth: usize) -> Result<Option<Way>, String> {
        match it.rule.run(self.packet, self.walked.number) {
            Does::GoesOn(number) => {
                self.walked.number = number;
                Ok(None)
            }
            Does::Goes(verdict) => self.go(verdict, depth),
            Does::Unknown => Err(format!("what {} in chain `{chain}` does is not known", it.rule.words())),
        }
    }

    fn run(&mut self, rule: &'a Rule, depth: usize) -> Result<Option<Way>, String> {
        for statement in &rule.statements {
            let target = match statement {
                Statement::Counter => {
                    self.walked.comments.extend(rule.comment.as_deref());
                    continue;
                }
                Statement::Log(origin) => {
                    self.walked.origins.push(*origin);
                    continue;
                }
                Statement::Set(value) => match self.value(value)? {
                    Some(number) => {
                        self.walked.number = number;
                        continue;
                    }
                    // A lookup that finds nothing ends the rule, and the number stays.
                    None => return Ok(None),
                },
                Statement::Look(map) => match self.look(map)? {
                    Some(chain) => return self.chain(chain, depth + 1).map(Some),
                    None => return Ok(None),
                },
                Statement::Verdict(verdict) => verdict,
            };
            return self.go(target, depth);
        }
        Ok(None)
    }

    fn go(&mut self, verdict: &'a Verdict, depth: usize) -> Result<Option<Way>, String> {
        match verdict {
            Verdict::Accept => Ok(Some(Way::Accepted)),
            Verdict::Drop => Ok(Some(Way::Dropped)),
            Verdict::Return => Ok(Some(Way::Back)),
            Verdict::Goto(chain) => self.chain(chain, depth + 1).map(Some),
            Verdict::Jump(chain) => match self.chain(chain, depth + 1)? {
                Way::Back => Ok(None),
                way @ (Way::Accepted | Way::Dropped) => Ok(Some(way)),
            },
        }
    }

    fn all_match(&mut self, rule: &'a Rule) -> Result<bool, String> {
        for condition in &rule.matches {
            if !self.matches(condition)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn matches(&mut self, condition: &'a Match) -> Result<bool, String> {
        let packet = self.packet;
        Ok(match condition {
            Match::Ct(state) => packet.state == *state,
            Match::Protocol(protocols) => protocols.contains(&packet.protocol),
            Match::Port { first, last } => packet.port.is_some_and(|port| (*first..=*last).contains(&port)),
            Match::Number(number) => self.walked.number == *number,
            // Connections are traced, and neighbour and listener discovery are none.
            Match::NeighbourDiscovery | Match::RouterSolicitationFrom(_) | Match::NeighbourDiscoveryFrom(_) => false,
            Match::ListenerDiscoveryFrom(_) | Match::ListenerReportFrom(_) => false,
            Match::LinkAndSource { family, set } => self.is_own(*family, set)?,
            Match::Pair { family, set } => self.is_pair(*family, set)?,
            Match::SourceIsLocal => packet.source_is_local,
            Match::NotSyn => false,
        })
    }

    fn is_own(&mut self, family: Address, name: &'a str) -> Result<bool, String> {
        self.walked.lookups.push((name, Key::Source));
        let set = self.ruleset.sets.get(name).ok_or_else(|| format!("no set `{name}`"))?;
        let source = self.packet.source;
        match &self.packet.at {
            At::Ingress { link } => Ok(Address::of(source) == family && set.elements.contains(&(link.clone(), source))),
            At::Forward | At::Input => Err("the link is known at ingress only".to_owned()),
        }
    }

    fn is_pair(&mut self, family: Address, name: &'a str) -> Result<bool, String> {
        self.walked.lookups.push((name, Key::Source));
        let set = self.ruleset.pairs.get(name).ok_or_else(|| format!("no set `{name}`"))?;
        let (source, destination) = (self.packet.source, self.packet.destination);
        Ok(Address::of(source) == family && set.elements.contains(&(source, destination)))
    }

    fn value(&mut self, value: &'a Value) -> Result<Option<u32>, String> {
        let (end, family, map) = match value {
            Value::Zero => return Ok(Some(0)),
            Value::From { end, family, map } => (end, family, map),
        };
        let address = match end {
            End::Source => self.packet.source,
            End::Destination => self.packet.destination,
        };
        if Address::of(address) != *family {
            return Ok(None);
        }
        self.walked.lookups.push((map, Key::Address(address)));
        if let Some(exact) = self.ruleset.data.get(map) {
            return Ok(exact.elements.get(&address).copied());
        }
        let ranges = self.ruleset.intervals.get(map).ok_or_else(|| format!("no map `{map}`"))?;
        let below = ranges.elements.range(..=address).next_back();
        Ok(below.filter(|(_, (last, _))| address <= *last).map(|(_, (_, number))| *number))
    }

    fn look(&mut self, map: &'a str) -> Result<Option<&'a str>, String> {
        self.walked.lookups.push((map, Key::Number(self.walked.number)));
        let found = self.ruleset.verdicts.get(map).ok_or_else(|| format!("no map `{map}`"))?;
        Ok(found.elements.get(&self.walked.number).map(String::as_str))
    }
}
