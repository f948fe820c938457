//! A packet's way through a ruleset, step by step, as the kernel would take it.

use std::net::IpAddr;

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
    let mut walker = Walker { ruleset, packet, number: packet.priority, comments: Vec::new(), origins: Vec::new(), tried: 0 };
    let end = match (base, &packet.at) {
        (Some((name, _)), _) => walker.chain(name, 0)?,
        // Nothing is bound to that link.
        (None, At::Ingress { .. }) => Way::Back,
        (None, at @ (At::Forward | At::Input)) => return Err(format!("no base chain for {at:?}")),
    };
    let accepted = !matches!(end, Way::Dropped);
    Ok(Traced { accepted, origins: walker.origins, comments: walker.comments, priority: walker.number })
}

fn meets(chain: &Chain, at: &At) -> bool {
    match (&chain.hook, at) {
        (Some(Hook::Ingress { devices }), At::Ingress { link }) => devices.contains(link),
        (Some(Hook::Forward), At::Forward) | (Some(Hook::Input), At::Input) => true,
        (Some(Hook::Ingress { .. } | Hook::Forward | Hook::Input) | None, _) => false,
    }
}

/// The kernel allows 16 nested chains, gotos included.
const DEPTH: usize = 16;
/// How many rules are tried at most: chains of jumps can make a walk that nobody would wait for.
const RULES: usize = 1 << 16;

enum Way {
    Accepted,
    Dropped,
    /// Out of this chain, back to after the last jump.
    Back,
}

struct Walker<'a> {
    ruleset: &'a Ruleset,
    packet: &'a Packet,
    number: u32,
    comments: Vec<String>,
    origins: Vec<u32>,
    /// Rules so far.
    tried: usize,
}

impl Walker<'_> {
    fn chain(&mut self, name: &str, depth: usize) -> Result<Way, String> {
        if depth > DEPTH {
            return Err(format!("chains nest deeper than {DEPTH} at `{name}`"));
        }
        let chain = self.ruleset.chains.get(name).ok_or_else(|| format!("no chain `{name}`"))?;
        for rule in &chain.rules {
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

    fn run(&mut self, rule: &Rule, depth: usize) -> Result<Option<Way>, String> {
        for statement in &rule.statements {
            let target = match statement {
                Statement::Counter => {
                    self.comments.extend(rule.comment.clone());
                    continue;
                }
                Statement::Log(origin) => {
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
                Statement::Look(map) => match self.look(map)? {
                    Some(chain) => Verdict::Goto(chain),
                    None => return Ok(None),
                },
                Statement::Verdict(verdict) => verdict.clone(),
            };
            return match target {
                Verdict::Accept => Ok(Some(Way::Accepted)),
                Verdict::Drop => Ok(Some(Way::Dropped)),
                Verdict::Return => Ok(Some(Way::Back)),
                Verdict::Goto(chain) => self.chain(&chain, depth + 1).map(Some),
                Verdict::Jump(chain) => match self.chain(&chain, depth + 1)? {
                    Way::Back => Ok(None),
                    way @ (Way::Accepted | Way::Dropped) => Ok(Some(way)),
                },
            };
        }
        Ok(None)
    }

    fn all_match(&self, rule: &Rule) -> Result<bool, String> {
        for condition in &rule.matches {
            if !self.matches(condition)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn matches(&self, condition: &Match) -> Result<bool, String> {
        let packet = self.packet;
        Ok(match condition {
            Match::Ct(state) => packet.state == *state,
            Match::Protocol(protocols) => protocols.contains(&packet.protocol),
            Match::Port { first, last } => packet.port.is_some_and(|port| (*first..=*last).contains(&port)),
            Match::Number(number) => self.number == *number,
            // Connections are traced, and neighbour and listener discovery are none.
            Match::NeighbourDiscovery | Match::RouterSolicitationFrom(_) | Match::NeighbourDiscoveryFrom(_) => false,
            Match::ListenerDiscoveryFrom(_) | Match::ListenerReportFrom(_) => false,
            Match::LinkAndSource { family, set } => self.is_own(*family, set)?,
            Match::Pair { family, set } => self.is_pair(*family, set)?,
            Match::SourceIsLocal => packet.source_is_local,
            Match::NotSyn => false,
        })
    }

    fn is_own(&self, family: Address, set: &str) -> Result<bool, String> {
        let set = self.ruleset.sets.get(set).ok_or_else(|| format!("no set `{set}`"))?;
        let source = self.packet.source;
        match &self.packet.at {
            At::Ingress { link } => Ok(Address::of(source) == family && set.elements.contains(&(link.clone(), source))),
            At::Forward | At::Input => Err("the link is known at ingress only".to_owned()),
        }
    }

    fn is_pair(&self, family: Address, set: &str) -> Result<bool, String> {
        let set = self.ruleset.pairs.get(set).ok_or_else(|| format!("no set `{set}`"))?;
        let (source, destination) = (self.packet.source, self.packet.destination);
        Ok(Address::of(source) == family && set.elements.contains(&(source, destination)))
    }

    fn value(&self, value: &Value) -> Result<Option<u32>, String> {
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
        if let Some(exact) = self.ruleset.data.get(map) {
            return Ok(exact.elements.get(&address).copied());
        }
        let ranges = self.ruleset.intervals.get(map).ok_or_else(|| format!("no map `{map}`"))?;
        let below = ranges.elements.range(..=address).next_back();
        Ok(below.filter(|(_, (last, _))| address <= *last).map(|(_, (_, number))| *number))
    }

    fn look(&self, map: &str) -> Result<Option<String>, String> {
        let found = self.ruleset.verdicts.get(map).ok_or_else(|| format!("no map `{map}`"))?;
        Ok(found.elements.get(&self.number).cloned())
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
            state: CtState::New,
            priority: 0,
            source_is_local: false,
        };
        assert!(trace(&ruleset, &packet).is_err_and(|it| it.starts_with("more than 65536 rules are tried")));
    }
}
