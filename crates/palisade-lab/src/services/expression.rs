//! The expressions that the rules of the Services table are made of, as netlink attributes. Numbers are those of `linux/netfilter/nf_tables.h`.

use std::net::IpAddr;

use palisade_netlink::Writer;
use palisade_nft::uapi::{data, meta};

/// One step of a rule. Values go through registers.
#[derive(Clone, Debug)]
pub(crate) enum Expression {
    Meta {
        key: u32,
        to: u32,
    },
    Payload {
        base: u32,
        offset: u32,
        length: u32,
        to: u32,
    },
    /// Loads the bit of the connection's state.
    State,
    /// Keeps only some bits.
    Mask(u32),
    Equal(Vec<u8>),
    NotEqual(Vec<u8>),
    /// A random number below another.
    Random(u32),
    Value {
        value: Vec<u8>,
        to: u32,
    },
    /// Goes on if the set has what the first registers hold.
    Member(String),
    /// Does what the map says to what the first registers hold.
    VerdictOf(String),
    Goto(&'static str),
    /// Sends to the address and port of the first two registers.
    DestinationNat(Family),
    Masquerade,
    Reject(Reject),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reject {
    TcpReset,
    PortUnreachable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const BOTH: [Family; 2] = [Family::V4, Family::V6];

    pub(crate) fn of(address: IpAddr) -> Family {
        match address {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }

    /// `NFPROTO_IPV4` and `NFPROTO_IPV6`.
    fn number(self) -> u8 {
        match self {
            Family::V4 => 2,
            Family::V6 => 10,
        }
    }

    /// Bytes of an address.
    pub(crate) fn length(self) -> u32 {
        match self {
            Family::V4 => 4,
            Family::V6 => 16,
        }
    }
}

const VERDICT: u32 = 0;
/// Registers of 16 bytes, and the first of those of 4 bytes that they are made of.
const FIRST: u32 = 1;
const SECOND: u32 = 2;
const FIRST_WORD: u32 = 8;
const NETWORK: u32 = 1;
const TRANSPORT: u32 = 2;
const NAME: u16 = 1;
const BODY: u16 = 2;
const ITEM: u16 = 1;
/// `NF_CT_STATE_BIT(IP_CT_NEW)`.
const NEW: u32 = 8;

/// Only packets of a family.
pub(crate) fn of_family(family: Family) -> [Expression; 2] {
    [Expression::Meta { key: meta::FAMILY, to: FIRST }, Expression::Equal(vec![family.number()])]
}

/// Only packets of a protocol.
pub(crate) fn of_protocol(number: u8) -> [Expression; 2] {
    [Expression::Meta { key: meta::PROTOCOL, to: FIRST }, Expression::Equal(vec![number])]
}

/// Only packets that begin a connection.
pub(crate) fn of_new() -> [Expression; 3] {
    [Expression::State, Expression::Mask(NEW), Expression::NotEqual(vec![0; 4])]
}

/// Loads destination, protocol and port, one after the other.
pub(crate) fn service(family: Family) -> [Expression; 3] {
    let after = FIRST_WORD + family.length() / 4;
    let port = Expression::Payload { base: TRANSPORT, offset: 2, length: 2, to: after + 1 };
    [destination(family, FIRST), Expression::Meta { key: meta::PROTOCOL, to: after }, port]
}

/// Loads source and destination, one after the other.
pub(crate) fn ends(family: Family) -> [Expression; 2] {
    [source(family, FIRST), destination(family, FIRST_WORD + family.length() / 4)]
}

/// Sends to a backend.
pub(crate) fn send_to(address: IpAddr, port: u16) -> [Expression; 3] {
    [
        Expression::Value { value: octets(address), to: FIRST },
        Expression::Value { value: port.to_be_bytes().to_vec(), to: SECOND },
        Expression::DestinationNat(Family::of(address)),
    ]
}

pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Writes the expressions of a rule, one list item each.
pub(crate) fn write(writer: &mut Writer, expressions: &[Expression]) {
    for expression in expressions {
        writer.nest(ITEM, |writer| {
            writer.text(NAME, name(expression));
            writer.nest(BODY, |writer| body(writer, expression));
        });
    }
}

/// Writes a verdict that goes to a chain.
pub(crate) fn write_goto(writer: &mut Writer, chain: &str) {
    writer.nest(data::VERDICT, |writer| {
        writer.bytes(data::VERDICT_CODE, &data::GOTO.to_be_bytes());
        writer.text(data::VERDICT_CHAIN, chain);
    });
}

fn source(family: Family, to: u32) -> Expression {
    let offset = match family {
        Family::V4 => 12,
        Family::V6 => 8,
    };
    Expression::Payload { base: NETWORK, offset, length: family.length(), to }
}

fn destination(family: Family, to: u32) -> Expression {
    let offset = match family {
        Family::V4 => 16,
        Family::V6 => 24,
    };
    Expression::Payload { base: NETWORK, offset, length: family.length(), to }
}

fn name(expression: &Expression) -> &'static str {
    match expression {
        Expression::Meta { .. } => "meta",
        Expression::Payload { .. } => "payload",
        Expression::State => "ct",
        Expression::Mask(_) => "bitwise",
        Expression::Equal(_) | Expression::NotEqual(_) => "cmp",
        Expression::Random(_) => "numgen",
        Expression::Value { .. } | Expression::Goto(_) => "immediate",
        Expression::Member(_) | Expression::VerdictOf(_) => "lookup",
        Expression::DestinationNat(_) => "nat",
        Expression::Masquerade => "masq",
        Expression::Reject(_) => "reject",
    }
}

fn body(writer: &mut Writer, expression: &Expression) {
    match expression {
        Expression::Meta { key, to } => numbers(writer, &[(2, *key), (1, *to)]),
        Expression::Payload { base, offset, length, to } => numbers(writer, &[(1, *to), (2, *base), (3, *offset), (4, *length)]),
        // `NFT_CT_STATE`.
        Expression::State => numbers(writer, &[(2, 0), (1, FIRST)]),
        Expression::Mask(mask) => {
            numbers(writer, &[(1, FIRST), (2, FIRST), (3, 4)]);
            value(writer, 4, &mask.to_ne_bytes());
            value(writer, 5, &[0; 4]);
        }
        Expression::Equal(with) => compare(writer, 0, with),
        Expression::NotEqual(with) => compare(writer, 1, with),
        // `NFT_NG_RANDOM`.
        Expression::Random(below) => numbers(writer, &[(1, FIRST), (2, *below), (3, 1), (4, 0)]),
        Expression::Value { value: it, to } => {
            numbers(writer, &[(1, *to)]);
            value(writer, 2, it);
        }
        Expression::Goto(chain) => {
            numbers(writer, &[(1, VERDICT)]);
            writer.nest(2, |writer| write_goto(writer, chain));
        }
        Expression::Member(set) => {
            writer.text(1, set);
            numbers(writer, &[(2, FIRST)]);
        }
        Expression::VerdictOf(map) => {
            writer.text(1, map);
            numbers(writer, &[(2, FIRST), (3, VERDICT)]);
        }
        // `NFT_NAT_DNAT`.
        Expression::DestinationNat(family) => numbers(writer, &[(1, 1), (2, family.number().into()), (3, FIRST), (5, SECOND)]),
        Expression::Masquerade => {}
        Expression::Reject(Reject::TcpReset) => {
            numbers(writer, &[(1, 1)]);
            writer.bytes(2, &[0]);
        }
        // `NFT_REJECT_ICMPX_UNREACH`, `NFT_REJECT_ICMPX_PORT_UNREACH`.
        Expression::Reject(Reject::PortUnreachable) => {
            numbers(writer, &[(1, 2)]);
            writer.bytes(2, &[1]);
        }
    }
}

fn compare(writer: &mut Writer, code: u32, with: &[u8]) {
    numbers(writer, &[(1, FIRST), (2, code)]);
    value(writer, 3, with);
}

fn numbers(writer: &mut Writer, fields: &[(u16, u32)]) {
    for (kind, number) in fields {
        writer.u32(*kind, *number);
    }
}

fn value(writer: &mut Writer, kind: u16, bytes: &[u8]) {
    writer.nest(kind, |writer| writer.bytes(data::VALUE, bytes));
}
