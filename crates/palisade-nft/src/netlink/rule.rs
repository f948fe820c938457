//! A rule as the expressions that nft itself would make of its text, and back.
//!
//! Both ways stand side by side here so that one cannot change without the other: what `lower` writes, `raise` reads.

use palisade_netlink::Odd;

use crate::netlink::expression::{Compare, Expression, LINK_LAYER, Lookup, LookupResult, NETWORK, TRANSPORT};
use crate::netlink::map::{self, LINK};
use crate::netlink::uapi::meta;
use crate::ruleset::{
    AUDIT_GROUP, AUDIT_PREFIX, Address, CtState, End, LOG_GROUP, LOG_PREFIX, LinkName, Match, Neighbour, Rule, Statement, TupleKey, Value,
};

/// `RTN_LOCAL`.
const LOCAL: u32 = 2;
/// The second half of a pair of addresses: after four bytes, or after a whole register of sixteen.
const SECOND_OF_V4: u32 = 9;
const SECOND_OF_V6: u32 = 2;
/// The source after the name of a link, which fills a register.
const AFTER_LINK: u32 = 2;
/// The first ten bits of an address, and those of `fe80::/10`.
const LINK_LOCAL_MASK: [u8; 16] = [0xff, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const LINK_LOCAL: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const ICMPV6: u8 = 58;
const TCP: u8 = 6;
/// FIN, SYN, RST and ACK, and of them SYN alone.
const TCP_FLAGS: u8 = 0x17;
const SYN: u8 = 2;
/// `ARPHRD_ETHER`.
const ETHERNET: u16 = 1;

/// The expressions of a rule. Protocols of which there are several need a set without a name; `set` gives its number.
pub(crate) fn lower(rule: &Rule, mut set: impl FnMut(&[u8]) -> u32) -> Vec<Expression> {
    let mut out = Vec::new();
    for condition in &rule.matches {
        lower_match(condition, &mut set, &mut out);
    }
    for statement in &rule.statements {
        lower_statement(statement, &mut out);
    }
    out
}

/// The matches and statements of a rule. `set` gives the protocols of a set without a name.
pub(crate) fn raise(mut rest: &[Expression], set: impl Fn(&str) -> Option<Vec<u8>>) -> Result<Rule, Odd> {
    let mut rule = Rule::default();
    while !rest.is_empty() {
        if let Some((condition, after)) = raise_match(rest, &set) {
            if !rule.statements.is_empty() {
                return Err(Odd::new("a condition after a statement"));
            }
            rule.matches.push(condition);
            rest = after;
        } else if let Some((statement, after)) = raise_statement(rest) {
            rule.statements.push(statement);
            rest = after;
        } else {
            return Err(Odd(format!("no rule of ours has {}", rest.iter().map(|it| format!("{it:?}")).collect::<Vec<_>>().join(", "))));
        }
    }
    Ok(rule)
}

fn lower_match(condition: &Match, set: &mut impl FnMut(&[u8]) -> u32, out: &mut Vec<Expression>) {
    match condition {
        Match::Ct(state) => out.extend([
            Expression::State,
            Expression::Mask(state_bit(*state).to_ne_bytes().to_vec()),
            Expression::Compare(Compare::NotEqual, vec![0; 4]),
        ]),
        Match::Protocol(protocols) => {
            out.push(Expression::Meta(meta::PROTOCOL));
            out.push(match protocols.as_slice() {
                [only] => equal(&[*only]),
                several => Expression::Lookup(Lookup { set: NO_NAME.to_owned(), id: Some(set(several)), result: LookupResult::Found }),
            });
        }
        Match::Port { first, last } => {
            out.push(destination_port());
            if first == last {
                out.push(equal(&first.to_be_bytes()));
            } else {
                out.extend(between(&first.to_be_bytes(), &last.to_be_bytes()));
            }
        }
        Match::Number(number) => out.extend([Expression::Meta(meta::PRIORITY), equal(&number.to_ne_bytes())]),
        Match::LinkAndSource { family, set } => {
            out.extend(link_and_address(End::Source, *family));
            out.push(found_in(set));
        }
        Match::LinkAndDestination { family, set } => {
            out.extend(link_and_address(End::Destination, *family));
            out.push(found_in(set));
        }
        Match::Link { end, name } => out.extend([Expression::Meta(link_key(*end)), equal(&name_bytes(name))]),
        Match::In { end, family, set } => {
            out.extend(one_address(*end, *family));
            out.push(found_in(set));
        }
        Match::Pair { family, set } => {
            out.extend(pair(*family));
            out.push(found_in(set));
        }
        Match::NeighbourDiscovery => out.extend(icmpv6(None, (133, 137), 255)),
        Match::RouterSolicitationFrom(source) => out.extend(icmpv6(Some(*source), (133, 133), 255)),
        Match::NeighbourDiscoveryFrom(source) => out.extend(icmpv6(Some(*source), (135, 136), 255)),
        Match::ListenerDiscoveryFrom(source) => out.extend(icmpv6(Some(*source), (130, 132), 1)),
        Match::ListenerReportFrom(source) => out.extend(icmpv6(Some(*source), (143, 143), 1)),
        Match::SourceIsLocal => out.extend([Expression::SourceType, equal(&LOCAL.to_ne_bytes())]),
        Match::NotSyn => out.extend(not_syn()),
        Match::FrameTypeNotIn(kinds) => {
            out.extend(is_ethernet());
            for kind in kinds {
                out.extend([frame_type(), Expression::Compare(Compare::NotEqual, kind.to_be_bytes().to_vec())]);
            }
        }
    }
}

/// Conditions that always are the same expressions.
const FIXED: [Match; 11] = [
    Match::NeighbourDiscovery,
    Match::RouterSolicitationFrom(Neighbour::Unspecified),
    Match::RouterSolicitationFrom(Neighbour::LinkLocal),
    Match::NeighbourDiscoveryFrom(Neighbour::Unspecified),
    Match::NeighbourDiscoveryFrom(Neighbour::LinkLocal),
    Match::ListenerDiscoveryFrom(Neighbour::Unspecified),
    Match::ListenerDiscoveryFrom(Neighbour::LinkLocal),
    Match::ListenerReportFrom(Neighbour::Unspecified),
    Match::ListenerReportFrom(Neighbour::LinkLocal),
    Match::SourceIsLocal,
    Match::NotSyn,
];

/// What the kernel replaces with a name.
pub(crate) const NO_NAME: &str = "__set%d";

fn raise_match(rest: &[Expression], set: impl Fn(&str) -> Option<Vec<u8>>) -> Option<(Match, &[Expression])> {
    // The longer ones first: they start like the shorter ones.
    for condition in FIXED {
        let mut expressions = Vec::new();
        lower_match(&condition, &mut |_| 0, &mut expressions);
        if let Some(after) = rest.strip_prefix(expressions.as_slice()) {
            return Some((condition, after));
        }
    }
    for family in Address::BOTH {
        let asks = |key: Vec<Expression>| match rest.strip_prefix(key.as_slice())? {
            [Expression::Lookup(Lookup { set, result: LookupResult::Found, .. }), after @ ..] => Some((set.clone(), after)),
            _ => None,
        };
        if let Some((set, after)) = asks(link_and_address(End::Source, family)) {
            return Some((Match::LinkAndSource { family, set }, after));
        }
        if let Some((set, after)) = asks(link_and_address(End::Destination, family)) {
            return Some((Match::LinkAndDestination { family, set }, after));
        }
        for end in [End::Source, End::Destination] {
            if let Some((set, after)) = asks(one_address(end, family)) {
                return Some((Match::In { end, family, set }, after));
            }
        }
        if let Some((set, after)) = asks(pair(family)) {
            return Some((Match::Pair { family, set }, after));
        }
    }
    if let Some(after) = rest.strip_prefix(is_ethernet().as_slice()) {
        return raise_frame_types(after);
    }
    match rest {
        [Expression::State, Expression::Mask(bit), Expression::Compare(Compare::NotEqual, zero), after @ ..] if *zero == [0; 4] => {
            let all = [CtState::Established, CtState::Related, CtState::Invalid, CtState::New];
            let state = all.into_iter().find(|it| *bit == state_bit(*it).to_ne_bytes())?;
            Some((Match::Ct(state), after))
        }
        [Expression::Meta(meta::PROTOCOL), Expression::Compare(Compare::Equal, protocol), after @ ..] if protocol.len() == 1 => {
            Some((Match::Protocol(protocol.clone()), after))
        }
        [Expression::Meta(meta::PROTOCOL), Expression::Lookup(Lookup { set: name, result: LookupResult::Found, .. }), after @ ..] => {
            Some((Match::Protocol(set(name)?), after))
        }
        [port, Expression::Compare(Compare::Equal, number), after @ ..] if *port == destination_port() => {
            let port = u16::from_be_bytes(number.as_slice().try_into().ok()?);
            Some((Match::Port { first: port, last: port }, after))
        }
        [port, Expression::Compare(Compare::AtLeast, first), Expression::Compare(Compare::AtMost, last), after @ ..]
            if *port == destination_port() =>
        {
            let number = |bytes: &[u8]| bytes.try_into().ok().map(u16::from_be_bytes);
            Some((Match::Port { first: number(first)?, last: number(last)? }, after))
        }
        [Expression::Meta(key @ (meta::LINK | meta::OUT_LINK)), Expression::Compare(Compare::Equal, name), after @ ..] => {
            let end = if *key == meta::LINK { End::Source } else { End::Destination };
            Some((Match::Link { end, name: raise_name(name)? }, after))
        }
        [Expression::Meta(meta::PRIORITY), Expression::Compare(Compare::Equal, number), after @ ..] => {
            Some((Match::Number(u32::from_ne_bytes(number.as_slice().try_into().ok()?)), after))
        }
        _ => None,
    }
}

/// The types that a frame must not have, as many as follow each other.
fn raise_frame_types(mut rest: &[Expression]) -> Option<(Match, &[Expression])> {
    let mut kinds = Vec::new();
    while let [load, Expression::Compare(Compare::NotEqual, kind), after @ ..] = rest
        && *load == frame_type()
        && let Ok(kind) = kind.as_slice().try_into()
    {
        kinds.push(u16::from_be_bytes(kind));
        rest = after;
    }
    (!kinds.is_empty()).then_some((Match::FrameTypeNotIn(kinds), rest))
}

fn lower_statement(statement: &Statement, out: &mut Vec<Expression>) {
    let lookup = |map: &String, result| Expression::Lookup(Lookup { set: map.clone(), id: None, result });
    match statement {
        Statement::Set(Value::Zero) => out.extend([Expression::Value(vec![0; 4]), Expression::SetPriority]),
        Statement::Set(Value::From { end, family, map }) => {
            out.extend(of_family(*family));
            out.extend([address(*end, *family, 1), lookup(map, LookupResult::Value), Expression::SetPriority]);
        }
        Statement::Counter => out.push(Expression::Counter),
        Statement::Log(origin) => out.push(Expression::Log { prefix: format!("{LOG_PREFIX}{origin:08x} "), group: LOG_GROUP }),
        Statement::Would(number) => out.push(Expression::Log { prefix: format!("{AUDIT_PREFIX}{number:08x} "), group: AUDIT_GROUP }),
        Statement::Verdict(verdict) => out.push(Expression::Verdict(verdict.clone())),
        Statement::Look(map) => {
            out.extend([Expression::Meta(meta::PRIORITY), lookup(map, LookupResult::Verdict)]);
        }
        Statement::LookTuple { family, key, map } => {
            out.extend(tuple(*family, *key));
            out.push(lookup(map, LookupResult::Verdict));
        }
    }
}

fn raise_statement(rest: &[Expression]) -> Option<(Statement, &[Expression])> {
    match rest {
        [Expression::Value(zero), Expression::SetPriority, after @ ..] if *zero == [0; 4] => Some((Statement::Set(Value::Zero), after)),
        [Expression::Counter, after @ ..] => Some((Statement::Counter, after)),
        [Expression::Log { prefix, group: LOG_GROUP }, after @ ..] => {
            let digits = prefix.strip_prefix(LOG_PREFIX)?.strip_suffix(' ')?;
            Some((Statement::Log(u32::from_str_radix(digits, 16).ok()?), after))
        }
        [Expression::Log { prefix, group: AUDIT_GROUP }, after @ ..] => {
            let digits = prefix.strip_prefix(AUDIT_PREFIX)?.strip_suffix(' ')?;
            Some((Statement::Would(u32::from_str_radix(digits, 16).ok()?), after))
        }
        [Expression::Verdict(verdict), after @ ..] => Some((Statement::Verdict(verdict.clone()), after)),
        [Expression::Meta(meta::PRIORITY), Expression::Lookup(Lookup { set, result: LookupResult::Verdict, .. }), after @ ..] => {
            Some((Statement::Look(set.clone()), after))
        }
        _ => raise_by_address(rest).or_else(|| raise_by_tuple(rest)),
    }
}

fn raise_by_tuple(rest: &[Expression]) -> Option<(Statement, &[Expression])> {
    let all = Address::BOTH.into_iter().flat_map(|family| [TupleKey::Ports, TupleKey::Protocol].map(|key| (family, key)));
    all.into_iter().find_map(|(family, key)| match rest.strip_prefix(tuple(family, key).as_slice())? {
        [Expression::Lookup(Lookup { set, result: LookupResult::Verdict, .. }), after @ ..] => {
            Some((Statement::LookTuple { family, key, map: set.clone() }, after))
        }
        _ => None,
    })
}

fn raise_by_address(rest: &[Expression]) -> Option<(Statement, &[Expression])> {
    let found = |family| Some((family, rest.strip_prefix(of_family(family).as_slice())?));
    let (family, rest) = Address::BOTH.into_iter().find_map(found)?;
    match rest {
        [field, Expression::Lookup(Lookup { set, result: LookupResult::Value, .. }), Expression::SetPriority, after @ ..] => {
            let end = [End::Source, End::Destination].into_iter().find(|end| *field == address(*end, family, 1))?;
            Some((Statement::Set(Value::From { end, family, map: set.clone() }), after))
        }
        _ => None,
    }
}

fn equal(to: &[u8]) -> Expression {
    Expression::Compare(Compare::Equal, to.to_vec())
}

fn between(first: &[u8], last: &[u8]) -> [Expression; 2] {
    [Expression::Compare(Compare::AtLeast, first.to_vec()), Expression::Compare(Compare::AtMost, last.to_vec())]
}

pub(crate) fn state_bit(state: CtState) -> u32 {
    match state {
        CtState::Invalid => 1,
        CtState::Established => 2,
        CtState::Related => 4,
        CtState::New => 8,
    }
}

fn of_family(family: Address) -> [Expression; 2] {
    // `NFPROTO_IPV4` and `NFPROTO_IPV6`.
    let number = match family {
        Address::V4 => 2,
        Address::V6 => 10,
    };
    [Expression::Meta(meta::FAMILY), equal(&[number])]
}

fn address(end: End, family: Address, to: u32) -> Expression {
    let (offset, length) = match (family, end) {
        (Address::V4, End::Source) => (12, 4),
        (Address::V4, End::Destination) => (16, 4),
        (Address::V6, End::Source) => (8, 16),
        (Address::V6, End::Destination) => (24, 16),
    };
    Expression::Payload { base: NETWORK, offset, length, to }
}

fn pair(family: Address) -> Vec<Expression> {
    let second = match family {
        Address::V4 => SECOND_OF_V4,
        Address::V6 => SECOND_OF_V6,
    };
    let mut out = of_family(family).to_vec();
    out.extend([address(End::Source, family, 1), address(End::Destination, family, second)]);
    out
}

/// Loads addresses, protocol and ports, each filled up to whole words of four bytes.
fn tuple(family: Address, key: TupleKey) -> Vec<Expression> {
    let protocol = match family {
        Address::V4 => 2,
        Address::V6 => 8,
    };
    let mut out = pair(family);
    out.push(Expression::MetaTo { key: meta::PROTOCOL, to: register(protocol) });
    let port = |offset, word| Expression::Payload { base: TRANSPORT, offset, length: 2, to: register(word) };
    match key {
        TupleKey::Ports => out.extend([port(0, protocol + 1), port(2, protocol + 2)]),
        TupleKey::Protocol => {}
    }
    out
}

/// The number by which the kernel names the register that begins with a word of four bytes: that of sixteen bytes where one begins there.
fn register(word: u32) -> u32 {
    if word.is_multiple_of(4) { word / 4 + 1 } else { word + 8 }
}

/// The link is Ethernet. nft asks for that before it asks for the type of a frame.
fn is_ethernet() -> [Expression; 2] {
    [Expression::Meta(meta::LINK_TYPE), equal(&ETHERNET.to_ne_bytes())]
}

/// Loads the type of a frame, or that of its first VLAN tag.
fn frame_type() -> Expression {
    Expression::Payload { base: LINK_LAYER, offset: 12, length: 2, to: 1 }
}

fn destination_port() -> Expression {
    Expression::Payload { base: TRANSPORT, offset: 2, length: 2, to: 1 }
}

fn found_in(set: &str) -> Expression {
    Expression::Lookup(Lookup { set: set.to_owned(), id: None, result: LookupResult::Found })
}

fn link_key(end: End) -> u32 {
    match end {
        End::Source => meta::LINK,
        End::Destination => meta::OUT_LINK,
    }
}

fn link_and_address(end: End, family: Address) -> Vec<Expression> {
    let mut out = of_family(family).to_vec();
    out.extend([Expression::Meta(link_key(end)), address(end, family, AFTER_LINK)]);
    out
}

fn one_address(end: End, family: Address) -> Vec<Expression> {
    let mut out = of_family(family).to_vec();
    out.push(address(end, family, 1));
    out
}

/// A whole name fills its register; a beginning is as long as it is.
fn name_bytes(name: &LinkName) -> Vec<u8> {
    match name {
        LinkName::Whole(name) => {
            let mut field = name.as_bytes().to_vec();
            field.resize(LINK.max(field.len()), 0);
            field
        }
        LinkName::Beginning(start) => start.as_bytes().to_vec(),
    }
}

fn raise_name(bytes: &[u8]) -> Option<LinkName> {
    if bytes.len() == LINK {
        return map::name(bytes).map(LinkName::Whole);
    }
    std::str::from_utf8(bytes).ok().map(|it| LinkName::Beginning(it.to_owned()))
}

/// ICMPv6 of some types, the last included, with a hop limit.
fn icmpv6(source: Option<Neighbour>, (first, last): (u8, u8), hop_limit: u8) -> Vec<Expression> {
    let mut out = of_family(Address::V6).to_vec();
    let load = || address(End::Source, Address::V6, 1);
    match source {
        Some(Neighbour::Unspecified) => out.extend([load(), equal(&[0; 16])]),
        Some(Neighbour::LinkLocal) => out.extend([load(), Expression::Mask(LINK_LOCAL_MASK.to_vec()), equal(&LINK_LOCAL)]),
        None => {}
    }
    out.extend([Expression::Meta(meta::PROTOCOL), equal(&[ICMPV6])]);
    out.push(Expression::Payload { base: TRANSPORT, offset: 0, length: 1, to: 1 });
    if first == last {
        out.push(equal(&[first]));
    } else {
        out.extend(between(&[first], &[last]));
    }
    out.extend([Expression::Payload { base: NETWORK, offset: 7, length: 1, to: 1 }, equal(&[hop_limit])]);
    out
}

fn not_syn() -> Vec<Expression> {
    vec![
        Expression::Meta(meta::PROTOCOL),
        equal(&[TCP]),
        Expression::Payload { base: TRANSPORT, offset: 13, length: 1, to: 1 },
        Expression::Mask(vec![TCP_FLAGS]),
        Expression::Compare(Compare::NotEqual, vec![SYN]),
    ]
}

#[cfg(test)]
mod tests {
    use crate::ruleset::Verdict;

    use super::*;

    fn check(rule: &Rule) {
        let expressions = lower(rule, |_| 1);
        let mut writer = palisade_netlink::Writer::default();
        crate::netlink::expression::write(&mut writer, &expressions);
        let bytes = writer.finish().unwrap();
        let read = crate::netlink::expression::read(&palisade_netlink::Attributes::read(&bytes).unwrap()).unwrap();
        let raised = raise(&read, |name| (name == NO_NAME).then(|| vec![1, 58])).unwrap();
        assert_eq!(raised, *rule, "{read:?}");
    }

    #[test]
    fn every_condition_and_statement_reads_back() {
        let conditions = [CtState::Established, CtState::Related, CtState::Invalid, CtState::New].map(Match::Ct).into_iter().chain([
            Match::Protocol(vec![6]),
            Match::Protocol(vec![1, 58]),
            Match::Port { first: 0, last: 65535 },
            Match::Port { first: 80, last: 80 },
            Match::Number(0x12345),
            Match::LinkAndSource { family: Address::V4, set: "s".to_owned() },
            Match::LinkAndSource { family: Address::V6, set: "s".to_owned() },
            Match::LinkAndDestination { family: Address::V4, set: "s".to_owned() },
            Match::LinkAndDestination { family: Address::V6, set: "s".to_owned() },
            Match::Link { end: End::Source, name: LinkName::Whole("fifteen-letters".to_owned()) },
            Match::Link { end: End::Destination, name: LinkName::Whole("a".to_owned()) },
            Match::Link { end: End::Source, name: LinkName::Beginning("fourteen-lette".to_owned()) },
            Match::Link { end: End::Destination, name: LinkName::Beginning("a".to_owned()) },
            Match::In { end: End::Source, family: Address::V4, set: "s".to_owned() },
            Match::In { end: End::Destination, family: Address::V6, set: "s".to_owned() },
            Match::Pair { family: Address::V4, set: "s".to_owned() },
            Match::Pair { family: Address::V6, set: "s".to_owned() },
            Match::FrameTypeNotIn(vec![0x0800]),
            Match::FrameTypeNotIn(vec![0x0800, 0x86dd, 0x0806]),
        ]);
        let conditions: Vec<Match> = conditions.chain(FIXED).collect();
        let map = || "m".to_owned();
        let mut statements = vec![Statement::Set(Value::Zero), Statement::Counter, Statement::Log(0xabcdef), Statement::Would(0x12)];
        for family in Address::BOTH {
            for end in [End::Source, End::Destination] {
                statements.push(Statement::Set(Value::From { end, family, map: map() }));
            }
            for key in [TupleKey::Ports, TupleKey::Protocol] {
                statements.push(Statement::LookTuple { family, key, map: map() });
            }
        }
        statements.push(Statement::Look(map()));
        let verdicts = [Verdict::Accept, Verdict::Drop, Verdict::Return, Verdict::Jump(map()), Verdict::Goto(map())];
        statements.extend(verdicts.map(Statement::Verdict));
        for first in &conditions {
            for second in &conditions {
                let rule = Rule { matches: vec![first.clone(), second.clone()], statements: statements.clone(), comment: None };
                check(&rule);
            }
        }
        for statement in statements {
            check(&Rule { statements: vec![statement], ..Rule::default() });
        }
    }

    #[test]
    fn what_no_rule_of_ours_has_is_refused() {
        let odd = raise(&[Expression::Meta(99)], |_| None);
        assert_eq!(odd, Err(Odd::new("no rule of ours has Meta(99)")));
    }
}
