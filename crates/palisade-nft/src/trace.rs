//! A packet's way through a ruleset, step by step, as the kernel would take it.

use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};

use crate::netlink::examine::StrangeRule;
use crate::netlink::strange::Does;
use crate::ruleset::{Address, Chain, CtState, End, Hook, Match, Rule, Ruleset, Statement, Tuple, TupleKey, Value, Verdict};

/// The first packet of a connection, as a hook sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub at: At,
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: u8,
    /// Destination port.
    pub port: Option<u16>,
    /// None where it does not matter.
    pub source_port: Option<u16>,
    pub state: CtState,
    /// What the sender's TOS or SO_PRIORITY left in the packet's priority.
    pub priority: u32,
    /// Whether the source is an address of this node.
    pub source_is_local: bool,
    /// The link that it has come in by, for the hooks after routing.
    pub from_link: Option<String>,
    /// The link that it will leave by.
    pub to_link: Option<String>,
}

/// The hook that a packet is at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// It has come in by this link, in a frame of this type.
    Frame {
        link: String,
        kind: u16,
    },
    /// It has come in by this link.
    Ingress {
        link: String,
    },
    Forward,
    Input,
    Output,
}

/// `ETH_P_IP` and `ETH_P_IPV6`.
const FRAME_TYPES: [u16; 2] = [0x0800, 0x86dd];

impl Packet {
    /// The type of the frame that it is in: that of its family where nothing else is known.
    pub(crate) fn frame_type(&self) -> u16 {
        let [ip, ipv6] = FRAME_TYPES;
        match self.at {
            At::Frame { kind, .. } => kind,
            At::Ingress { .. } | At::Forward | At::Input | At::Output if self.source.is_ipv4() => ip,
            At::Ingress { .. } | At::Forward | At::Input | At::Output => ipv6,
        }
    }

    /// What a map of packets is asked for. None where a port is not known.
    fn tuple(&self, key: TupleKey) -> Option<Tuple> {
        let (from, to) = match key {
            TupleKey::Ports => (self.source_port?, self.port?),
            TupleKey::Protocol => (0, 0),
        };
        Some(Tuple::new(SocketAddr::new(self.source, from), SocketAddr::new(self.destination, to), self.protocol))
    }
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
    match (base(ruleset, &packet.at), &packet.at) {
        (Some(name), _) => walk(ruleset, packet, name),
        // No chain stands at that link, or at that hook.
        (None, At::Frame { .. } | At::Ingress { .. } | At::Output) => {
            Ok(Traced { accepted: true, origins: Vec::new(), comments: Vec::new(), priority: packet.priority })
        }
        (None, at @ (At::Forward | At::Input)) => Err(format!("no base chain for {at:?}")),
    }
}

/// The name of the base chain of a hook.
pub(crate) fn base<'a>(ruleset: &'a Ruleset, at: &At) -> Option<&'a str> {
    ruleset.chains.iter().find(|(_, chain)| meets(chain, at)).map(|(name, _)| name.as_str())
}

/// Walks a packet through a base chain.
pub(crate) fn walk<'a>(reads: impl Reads<'a>, packet: &Packet, base: &str) -> Result<Traced, String> {
    walk_to_end(reads, packet, base).map(|(traced, _)| traced)
}

/// Walks a packet through a base chain, and says how that ended.
pub(crate) fn walk_to_end<'a>(reads: impl Reads<'a>, packet: &Packet, base: &str) -> Result<(Traced, Way), String> {
    let mut walker =
        Walker { reads, packet, number: packet.priority, comments: Vec::new(), origins: Vec::new(), tried: 0, of: PhantomData };
    let way = walker.chain(base, 0)?;
    let accepted = way != Way::Dropped;
    Ok((Traced { accepted, origins: walker.origins, comments: walker.comments, priority: walker.number }, way))
}

/// What a packet reads on its way. An error names what is not there.
pub(crate) trait Reads<'a> {
    fn rules(&mut self, chain: &str) -> Result<&'a [Rule], String>;
    fn is_source(&mut self, set: &str, link: &str, source: IpAddr) -> Result<bool, String>;
    fn is_member(&mut self, set: &str, address: IpAddr) -> Result<bool, String>;
    fn is_pair(&mut self, set: &str, pair: (IpAddr, IpAddr)) -> Result<bool, String>;
    fn number(&mut self, map: &str, address: IpAddr) -> Result<Option<u32>, String>;
    fn target(&mut self, map: &str, number: u32) -> Result<Option<&'a str>, String>;
    fn tuple_target(&mut self, map: &str, tuple: &Tuple) -> Result<Option<&'a str>, String>;
    /// Rules of a chain that no ruleset has.
    fn strange(&mut self, _chain: &str) -> &'a [StrangeRule] {
        &[]
    }
}

impl<'a> Reads<'a> for &'a Ruleset {
    fn rules(&mut self, chain: &str) -> Result<&'a [Rule], String> {
        self.chains.get(chain).map(|it| it.rules.as_slice()).ok_or_else(|| format!("no chain `{chain}`"))
    }

    fn is_source(&mut self, set: &str, link: &str, source: IpAddr) -> Result<bool, String> {
        let found = self.sets.get(set).ok_or_else(|| format!("no set `{set}`"))?;
        Ok(found.elements.contains(&(link.to_owned(), source)))
    }

    fn is_member(&mut self, set: &str, address: IpAddr) -> Result<bool, String> {
        let found = self.addresses.get(set).ok_or_else(|| format!("no set `{set}`"))?;
        Ok(found.elements.contains(&address))
    }

    fn is_pair(&mut self, set: &str, pair: (IpAddr, IpAddr)) -> Result<bool, String> {
        let found = self.pairs.get(set).ok_or_else(|| format!("no set `{set}`"))?;
        Ok(found.elements.contains(&pair))
    }

    fn number(&mut self, map: &str, address: IpAddr) -> Result<Option<u32>, String> {
        if let Some(exact) = self.data.get(map) {
            return Ok(exact.elements.get(&address).copied());
        }
        let ranges = self.intervals.get(map).ok_or_else(|| format!("no map `{map}`"))?;
        let below = ranges.elements.range(..=address).next_back();
        Ok(below.filter(|(_, (last, _))| address <= *last).map(|(_, (_, number))| *number))
    }

    fn target(&mut self, map: &str, number: u32) -> Result<Option<&'a str>, String> {
        let found = self.verdicts.get(map).ok_or_else(|| format!("no map `{map}`"))?;
        Ok(found.elements.get(&number).map(String::as_str))
    }

    fn tuple_target(&mut self, map: &str, tuple: &Tuple) -> Result<Option<&'a str>, String> {
        let found = self.tuples.get(map).ok_or_else(|| format!("no map `{map}`"))?;
        Ok(found.elements.get(tuple).map(String::as_str))
    }
}

/// Whether a chain is a base chain that a packet comes to.
pub(crate) fn meets(chain: &Chain, at: &At) -> bool {
    match (&chain.hook, at) {
        (Some(Hook::Frames { devices }), At::Frame { link, .. }) => devices.contains(link),
        (Some(Hook::Ingress { devices }), At::Ingress { link }) => devices.contains(link),
        (Some(Hook::Forward), At::Forward) | (Some(Hook::Input), At::Input) | (Some(Hook::Output), At::Output) => true,
        (Some(Hook::Frames { .. } | Hook::Ingress { .. } | Hook::Forward | Hook::Input | Hook::Output) | None, _) => false,
    }
}

/// The kernel allows 16 nested chains, gotos included.
const DEPTH: usize = 16;
/// How many rules are tried at most: chains of jumps can make a walk that nobody would wait for.
const RULES: usize = 1 << 16;

/// How a chain ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Accepted,
    Dropped,
    /// Out of this chain, back to after the last jump.
    Back,
}

struct Walker<'a, 'p, R> {
    reads: R,
    packet: &'p Packet,
    number: u32,
    comments: Vec<String>,
    origins: Vec<u32>,
    of: PhantomData<&'a Ruleset>,
    /// Rules so far.
    tried: usize,
}

impl<'a, R: Reads<'a>> Walker<'a, '_, R> {
    fn chain(&mut self, name: &str, depth: usize) -> Result<Way, String> {
        if depth > DEPTH {
            return Err(format!("chains nest deeper than {DEPTH} at `{name}`"));
        }
        let rules = self.reads.rules(name)?;
        let mut strange = self.reads.strange(name);
        for (place, rule) in rules.iter().map(Some).chain([None]).enumerate() {
            while let Some((first, rest)) = strange.split_first().filter(|(first, _)| first.after <= place) {
                strange = rest;
                if let Some(way) = self.run_strange(name, first, depth)? {
                    return Ok(way);
                }
            }
            let Some(rule) = rule else { break };
            self.tried += 1;
            if self.tried > RULES {
                return Err(format!("more than {RULES} rules are tried, the last one in `{name}`"));
            }
            if !self.all_match(rule)? {
                continue;
            }
            if let Some(way) = self.run(rule, depth)? {
                return Ok(way);
            }
        }
        Ok(Way::Back)
    }

    fn run_strange(&mut self, chain: &str, it: &StrangeRule, depth: usize) -> Result<Option<Way>, String> {
        match it.rule.run(self.packet, self.number) {
            Does::GoesOn(number) => {
                self.number = number;
                Ok(None)
            }
            Does::Goes(verdict) => self.go(verdict, depth),
            Does::Unknown => Err(format!("what {} in chain `{chain}` does is not known", it.rule.words())),
        }
    }

    fn run(&mut self, rule: &Rule, depth: usize) -> Result<Option<Way>, String> {
        for statement in &rule.statements {
            let target = match statement {
                Statement::Counter => {
                    self.comments.extend(rule.comment.clone());
                    continue;
                }
                Statement::Log(origin) | Statement::Would(origin) => {
                    self.origins.push(*origin);
                    continue;
                }
                Statement::Set(value) => match self.value(value)? {
                    Some(number) => {
                        self.number = number;
                        continue;
                    }
                    // A lookup that finds nothing ends the rule, and the number stays.
                    None => return Ok(None),
                },
                Statement::Look(map) => match self.reads.target(map, self.number)? {
                    Some(chain) => Verdict::Goto(chain.to_owned()),
                    None => return Ok(None),
                },
                Statement::LookTuple { family, key, map } => match self.tuple_target(*family, *key, map)? {
                    Some(chain) => Verdict::Goto(chain.to_owned()),
                    None => return Ok(None),
                },
                Statement::Verdict(verdict) => verdict.clone(),
            };
            return self.go(&target, depth);
        }
        Ok(None)
    }

    fn go(&mut self, verdict: &Verdict, depth: usize) -> Result<Option<Way>, String> {
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

    fn all_match(&mut self, rule: &Rule) -> Result<bool, String> {
        for condition in &rule.matches {
            if !self.matches(condition)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn matches(&mut self, condition: &Match) -> Result<bool, String> {
        let packet = self.packet;
        Ok(match condition {
            Match::Ct(state) => packet.state == *state,
            Match::Protocol(protocols) => protocols.contains(&packet.protocol),
            Match::Port { first, last } => packet.port.is_some_and(|port| (*first..=*last).contains(&port)),
            Match::Number(number) => self.number == *number,
            // Connections are traced, and neighbour and listener discovery are none.
            Match::NeighbourDiscovery | Match::RouterSolicitationFrom(_) | Match::NeighbourDiscoveryFrom(_) => false,
            Match::ListenerDiscoveryFrom(_) | Match::ListenerReportFrom(_) => false,
            Match::LinkAndSource { family, set } => self.is_known(End::Source, *family, set)?,
            Match::LinkAndDestination { family, set } => self.is_known(End::Destination, *family, set)?,
            Match::Link { end, name } => self.link(*end).is_some_and(|it| name.is(it)),
            Match::In { end, family, set } => self.is_in(*end, *family, set)?,
            Match::Pair { family, set } => self.is_pair(*family, set)?,
            Match::SourceIsLocal => packet.source_is_local,
            Match::NotSyn => false,
            Match::FrameTypeNotIn(kinds) => !kinds.contains(&packet.frame_type()),
        })
    }

    /// The link at an end.
    fn link(&self, end: End) -> Option<&str> {
        match (end, &self.packet.at) {
            (End::Source, At::Frame { link, .. } | At::Ingress { link }) => Some(link),
            (End::Source, At::Forward | At::Input) => self.packet.from_link.as_deref(),
            (End::Destination, At::Forward | At::Output) => self.packet.to_link.as_deref(),
            (End::Source, At::Output) | (End::Destination, At::Frame { .. } | At::Ingress { .. } | At::Input) => None,
        }
    }

    fn address(&self, end: End) -> IpAddr {
        match end {
            End::Source => self.packet.source,
            End::Destination => self.packet.destination,
        }
    }

    fn is_known(&mut self, end: End, family: Address, set: &str) -> Result<bool, String> {
        let address = self.address(end);
        let Some(link) = self.link(end).map(ToOwned::to_owned) else { return Ok(false) };
        Ok(Address::of(address) == family && self.reads.is_source(set, &link, address)?)
    }

    fn is_in(&mut self, end: End, family: Address, set: &str) -> Result<bool, String> {
        let address = self.address(end);
        Ok(Address::of(address) == family && self.reads.is_member(set, address)?)
    }

    fn is_pair(&mut self, family: Address, set: &str) -> Result<bool, String> {
        let (source, destination) = (self.packet.source, self.packet.destination);
        Ok(Address::of(source) == family && self.reads.is_pair(set, (source, destination))?)
    }

    fn tuple_target(&mut self, family: Address, key: TupleKey, map: &str) -> Result<Option<&'a str>, String> {
        if Address::of(self.packet.source) != family {
            return Ok(None);
        }
        self.packet.tuple(key).map_or(Ok(None), |tuple| self.reads.tuple_target(map, &tuple))
    }

    fn value(&mut self, value: &Value) -> Result<Option<u32>, String> {
        let (end, family, map) = match value {
            Value::Zero => return Ok(Some(0)),
            Value::From { end, family, map } => (end, family, map),
        };
        let address = self.address(*end);
        if Address::of(address) == *family { self.reads.number(map, address) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_walk_that_nobody_would_wait_for_ends() {
        // Each chain goes through the next one eight times: 8^14 rules.
        let mut ruleset = Ruleset::default();
        for depth in 0..14 {
            let rules = vec![Rule::to(Verdict::Jump(format!("c{}", depth + 1))); 8];
            ruleset.chains.insert(format!("c{depth}"), Chain { hook: (depth == 0).then_some(Hook::Forward), rules });
        }
        ruleset.chains.insert("c14".to_owned(), Chain::default());
        let address = IpAddr::from(Ipv4Addr::LOCALHOST);
        let packet = Packet {
            at: At::Forward,
            source: address,
            destination: address,
            protocol: 6,
            port: None,
            source_port: None,
            state: CtState::New,
            priority: 0,
            from_link: None,
            to_link: None,
            source_is_local: false,
        };
        assert!(trace(&ruleset, &packet).is_err_and(|it| it.starts_with("more than 65536 rules are tried")));
    }
}
