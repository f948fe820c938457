//! The ruleset as a value: the content of one nftables table of a node.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::net::{IpAddr, SocketAddr};

use palisade_model::{Direction, Reason, RuleRef, Shared};

use crate::layout::Layout;
use crate::shared_map::SharedMap;

/// The NFLOG group that denied packets are sent to.
pub const LOG_GROUP: u16 = 4791;

/// What the prefix of a logged packet begins with; the number of its origin follows, eight hexadecimal digits wide.
pub const LOG_PREFIX: &str = "palisade:";

/// The NFLOG group of packets that audited policies would treat otherwise.
pub const AUDIT_GROUP: u16 = 4792;

/// What their prefix begins with; the number of what would become of them follows.
pub const AUDIT_PREFIX: &str = "palisade-would:";

/// Everything in the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ruleset {
    /// What the table says of itself.
    pub layout: Layout,
    /// By name.
    pub chains: Shared<BTreeMap<String, Chain>>,
    /// Address → number, by name: programs of local pods, classes of known addresses.
    pub data: BTreeMap<String, DataMap>,
    /// Address range → class, by name: everything that is no known address. Ranges of one map never overlap and cover the family.
    pub intervals: BTreeMap<String, IntervalMap>,
    /// Number → chain, by name.
    pub verdicts: Shared<BTreeMap<String, VerdictMap>>,
    /// Which source addresses may come in by which link, by name.
    pub sets: BTreeMap<String, SourceSet>,
    /// Pairs of source and destination, by name: the local pods, each with itself.
    pub pairs: BTreeMap<String, PairSet>,
    /// Addresses, by name: those that need not be known.
    pub addresses: BTreeMap<String, AddressSet>,
    /// Packets → chain, by name: replies of connections that were cut.
    pub tuples: BTreeMap<String, TupleMap>,
    /// What the numbers in log prefixes stand for.
    pub origins: Shared<BTreeMap<u32, Origin>>,
}

/// A chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Set for a base chain.
    pub hook: Option<Hook>,
    pub rules: Vec<Rule>,
}

/// Where a base chain stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    /// Every frame that arrives on these links of the node, also one with VLAN tags. Only a table of the family `netdev` has it.
    Frames { devices: BTreeSet<String> },
    /// Whatever a pod sends, on these links of the node, before anything else.
    Ingress { devices: BTreeSet<String> },
    /// Pod ↔ anything else.
    Forward,
    /// Pod → its own node.
    Input,
    /// The node itself → anything.
    Output,
}

impl Hook {
    /// The links of a chain that stands at links. None for hooks that see packets of all links.
    pub fn devices(&self) -> Option<&BTreeSet<String>> {
        match self {
            Hook::Frames { devices } | Hook::Ingress { devices } => Some(devices),
            Hook::Forward | Hook::Input | Hook::Output => None,
        }
    }

    pub(crate) fn devices_mut(&mut self) -> Option<&mut BTreeSet<String>> {
        match self {
            Hook::Frames { devices } | Hook::Ingress { devices } => Some(devices),
            Hook::Forward | Hook::Input | Hook::Output => None,
        }
    }

    /// Whether both are the same hook, at whatever links.
    pub(crate) fn is_same_point(&self, other: &Hook) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// One rule: all matches must hold, then the statements run in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub matches: Vec<Match>,
    pub statements: Vec<Statement>,
    /// At most 128 bytes: the policy and rule it comes from.
    pub comment: Option<String>,
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    Ct(CtState),
    /// One of these IP protocols.
    Protocol(Vec<u8>),
    /// Destination port, inclusive on both ends.
    Port {
        first: u16,
        last: u16,
    },
    /// The number that earlier statements left.
    Number(u32),
    /// ICMPv6 neighbour and router discovery that no router has forwarded.
    NeighbourDiscovery,
    /// ICMPv6 router solicitation that no router has forwarded, from a source that only neighbours have.
    RouterSolicitationFrom(Neighbour),
    /// ICMPv6 neighbour solicitation and advertisement, likewise.
    NeighbourDiscoveryFrom(Neighbour),
    /// ICMPv6 multicast listener discovery, queries and version 1, that no router has forwarded, from a source that only neighbours have.
    ListenerDiscoveryFrom(Neighbour),
    /// ICMPv6 multicast listener report, version 2, likewise.
    ListenerReportFrom(Neighbour),
    /// The link that a packet comes in by and its source are in a set; never so for the other family.
    LinkAndSource {
        family: Address,
        set: String,
    },
    /// The link that a packet leaves by and its destination are in a set; never so for the other family.
    LinkAndDestination {
        family: Address,
        set: String,
    },
    /// The link that a packet comes in by, or leaves by, has such a name.
    Link {
        end: End,
        name: LinkName,
    },
    /// The address is in a set; never so for the other family.
    In {
        end: End,
        family: Address,
        set: String,
    },
    /// Source and destination are in a set; never so for the other family.
    Pair {
        family: Address,
        set: String,
    },
    /// The source is an address of this node: in the forward hook that is forged.
    SourceIsLocal,
    /// A TCP segment that does not open a connection.
    NotSyn,
    /// An Ethernet frame of none of these types. The type of a frame with VLAN tags is that of its first tag.
    FrameTypeNotIn(Vec<u16>),
}

/// What a link is called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkName {
    /// Exactly so.
    Whole(String),
    /// Its name begins so.
    Beginning(String),
}

/// Sources that no router forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// `::`: it has no address yet.
    Unspecified,
    /// One of `fe80::/10`.
    LinkLocal,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CtState {
    Established,
    Related,
    Invalid,
    New,
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// Sets the number.
    Set(Value),
    Counter,
    /// Sends the packet to the reader, with the origin's number in the prefix.
    Log(u32),
    /// Sends the packet to the reader of audits, with the number of what would become of it.
    Would(u32),
    Verdict(Verdict),
    /// Goes where the map says for the number; goes on if it says nothing.
    Look(String),
    /// Goes where the map says for the addresses, protocol and ports of the packet; goes on if it says nothing, or the packet is of the other family.
    LookTuple {
        family: Address,
        key: TupleKey,
        map: String,
    },
}

/// A number to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Never left over from another packet, and never chosen by its sender.
    Zero,
    /// From a data or interval map; the number stays as it is when the map says nothing, or the packet is of the other family.
    From { end: End, family: Address, map: String },
}

/// Which address of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Source,
    Destination,
}

/// The family of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    V4,
    V6,
}

/// Where a packet goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Out of the hook, only from a base chain.
    Accept,
    Drop,
    /// Back to after the last jump.
    Return,
    Jump(String),
    Goto(String),
}

/// Exact addresses with a number each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataMap {
    pub family: Address,
    pub elements: SharedMap<IpAddr, u32>,
}

/// Ranges of addresses with a number each, by their first address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntervalMap {
    pub family: Address,
    /// First address → (last address, number).
    pub elements: BTreeMap<IpAddr, (IpAddr, u32)>,
}

/// Numbers with a chain each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerdictMap {
    pub elements: BTreeMap<u32, String>,
}

/// Links, each with the source addresses that are its pod's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSet {
    pub family: Address,
    /// Link and address.
    pub elements: BTreeSet<(String, IpAddr)>,
}

/// Pairs of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairSet {
    pub family: Address,
    /// Source and destination.
    pub elements: BTreeSet<(IpAddr, IpAddr)>,
}

/// Addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressSet {
    pub family: Address,
    pub elements: BTreeSet<IpAddr>,
}

/// Packets with a chain each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TupleMap {
    pub family: Address,
    pub key: TupleKey,
    pub elements: BTreeMap<Tuple, String>,
}

/// The parts of a packet that a `TupleMap` compares besides its two addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TupleKey {
    /// Protocol, source port and destination port.
    Ports,
    /// The protocol alone.
    Protocol,
}

/// Protocols that have ports where TCP has them: TCP, UDP, DCCP, SCTP and UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// Packets of one protocol from one address to another, and from one port to another where the protocol has ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tuple {
    // INVARIANT: the port is 0 where the protocol has none.
    from: SocketAddr,
    to: SocketAddr,
    protocol: u8,
}

impl Tuple {
    /// Ports of a protocol that has none are dropped, whatever connection tracking calls so.
    pub fn new(from: SocketAddr, to: SocketAddr, protocol: u8) -> Tuple {
        let [from, to] = [from, to].map(|it| SocketAddr::new(it.ip(), if WITH_PORTS.contains(&protocol) { it.port() } else { 0 }));
        Tuple { from, to, protocol }
    }

    pub fn from(&self) -> SocketAddr {
        self.from
    }

    pub fn to(&self) -> SocketAddr {
        self.to
    }

    /// The IP protocol.
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    pub fn key(&self) -> TupleKey {
        if WITH_PORTS.contains(&self.protocol) { TupleKey::Ports } else { TupleKey::Protocol }
    }
}

/// `10.0.0.1 . 10.0.0.2 . 17 . 53 . 4000`, as `nft -n` prints an element.
impl fmt::Display for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} . {} . {}", self.from.ip(), self.to.ip(), self.protocol)?;
        match self.key() {
            TupleKey::Ports => write!(f, " . {} . {}", self.from.port(), self.to.port()),
            TupleKey::Protocol => Ok(()),
        }
    }
}

/// What decided, as counters and events quote it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Policy, in one direction.
    Policy { direction: Direction, reason: Reason },
    /// A rule that accepts, in one direction, and logs what it accepts.
    Accepted { direction: Direction, rule: RuleRef },
    /// The packet was dropped before any policy was asked.
    Guard(Guard),
}

/// What is dropped whatever policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guard {
    /// A pod sent it with a source that is not its own.
    ForgedSource,
    /// It is forwarded, and its source is an address of this node.
    ForgedNode,
    /// It belongs to no connection and cannot start one.
    InvalidState,
    /// TCP of an unknown connection that does not open one.
    NotABeginning,
    /// It is from or for a pod of this node that is not known yet.
    UnknownPod,
}

/// `np/NAMESPACE/NAME#RULE`, `isolated np/…,np/…`, `default`, `forged source` and so on, as comments say it.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self {
            Origin::Policy { reason, .. } => reason,
            Origin::Accepted { rule, .. } => return rule.fmt(f),
            Origin::Guard(guard) => return guard.fmt(f),
        };
        match reason {
            Reason::Isolated(policies) => {
                f.write_str("isolated ")?;
                policies.iter().enumerate().try_for_each(|(at, it)| write!(f, "{}{it}", if at == 0 { "" } else { "," }))
            }
            reason @ (Reason::NotAPod | Reason::Itself | Reason::Rule(_) | Reason::OwnNode | Reason::Default) => reason.fmt(f),
        }
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Guard::ForgedSource => "forged source",
            Guard::ForgedNode => "forged source: an address of this node",
            Guard::InvalidState => "invalid connection state",
            Guard::NotABeginning => "not the beginning of a connection",
            Guard::UnknownPod => "a pod that is not known yet",
        })
    }
}

/// A comment may be this long.
const COMMENT: usize = 120;

impl Origin {
    /// Its words as far as they fit into a comment: thousands of policies may isolate a pod.
    pub(crate) fn comment(&self) -> String {
        let mut beginning = Beginning { text: String::new(), room: COMMENT };
        // An error says that there is no room for more.
        let (Ok(()) | Err(fmt::Error)) = write!(beginning, "{self}");
        beginning.text
    }
}

/// So many characters of what is written.
struct Beginning {
    text: String,
    room: usize,
}

impl fmt::Write for Beginning {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = text.char_indices().nth(self.room).map_or(text.len(), |(at, _)| at);
        let part = text.get(..end).unwrap_or("");
        self.text.push_str(part);
        self.room -= part.chars().count();
        if part.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

impl LinkName {
    /// Whether a link is called so.
    pub fn is(&self, link: &str) -> bool {
        match self {
            LinkName::Whole(name) => link == name,
            LinkName::Beginning(start) => link.starts_with(start.as_str()),
        }
    }
}

impl Address {
    /// The family of an address.
    pub fn of(address: IpAddr) -> Address {
        match address {
            IpAddr::V4(_) => Address::V4,
            IpAddr::V6(_) => Address::V6,
        }
    }

    /// Both.
    pub const BOTH: [Address; 2] = [Address::V4, Address::V6];

    /// As it stands in names of maps.
    pub fn digit(self) -> char {
        match self {
            Address::V4 => '4',
            Address::V6 => '6',
        }
    }
}

impl Rule {
    /// A rule that only goes somewhere.
    pub fn to(verdict: Verdict) -> Rule {
        Rule { statements: vec![Statement::Verdict(verdict)], ..Rule::default() }
    }

    /// A rule that only sets the number.
    pub fn set(value: Value) -> Rule {
        Rule { statements: vec![Statement::Set(value)], ..Rule::default() }
    }

    /// The rule as a table keeps it: several protocols are a set, and a comment is one that nft can quote.
    #[must_use]
    pub fn as_kept(&self) -> Rule {
        let mut rule = self.clone();
        for condition in &mut rule.matches {
            if let Match::Protocol(protocols) = condition
                && protocols.len() > 1
            {
                protocols.sort_unstable();
                protocols.dedup();
            }
        }
        rule.comment = rule.comment.as_deref().map(quotable);
        rule
    }

    /// A rule with a condition.
    #[must_use]
    pub fn when(mut self, condition: Match) -> Rule {
        // Large rulesets have many rules, and a vector that grows by itself has room for four.
        self.matches.reserve_exact(1);
        self.matches.push(condition);
        self
    }
}

/// A text as it can stand between the quotes of nft: it has no way to quote a quote, and a line would end there.
pub(crate) fn quotable(text: &str) -> String {
    let each = text.chars().map(|it| match it {
        '"' => '\'',
        it if it.is_control() => '?',
        it => it,
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use palisade_model::{PolicyKind, PolicyRef};

    use super::*;

    #[test]
    fn a_comment_is_the_beginning_of_the_words() {
        let origin = |names: &[String]| {
            let named =
                |it: &String| PolicyRef { kind: PolicyKind::NetworkPolicy, namespace: Some("caf\u{e9}".into()), name: it.as_str().into() };
            Origin::Policy { direction: Direction::Ingress, reason: Reason::Isolated(names.iter().map(named).collect()) }
        };
        assert_eq!(origin(&["a".to_owned(), "b".to_owned()]).comment(), "isolated np/caf\u{e9}/a,np/caf\u{e9}/b");
        for count in 0..40 {
            for name in ["p", "\u{e9}t\u{e9}"] {
                let names: Vec<String> = (0..count).map(|at| format!("{name}-{at}")).collect();
                let origin = origin(&names);
                assert_eq!(origin.comment(), origin.to_string().chars().take(COMMENT).collect::<String>());
            }
        }
    }
}
