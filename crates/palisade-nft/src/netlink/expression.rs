//! The expressions that our rules are made of, to attributes and back.
//!
//! Only the forms that our rules use exist here: anything else in the table is somebody else's and is refused when read.

use palisade_netlink::{Attributes, Odd, Writer};

use crate::netlink::uapi::{data, meta};
use crate::ruleset::Verdict;

/// One step of a rule. Unless it says otherwise, it reads from and writes to the first register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expression {
    /// Loads a key of `meta`.
    Meta(u32),
    /// Loads a key of `meta` to another register.
    MetaTo {
        key: u32,
        to: u32,
    },
    /// Sets the packet's priority.
    SetPriority,
    /// Loads the bit of the connection's state.
    State,
    /// Loads what kind of address the source is to this node.
    SourceType,
    Payload {
        base: u32,
        offset: u32,
        length: u32,
        to: u32,
    },
    /// Keeps only the bits of the mask.
    Mask(Vec<u8>),
    Compare(Compare, Vec<u8>),
    Value(Vec<u8>),
    Verdict(Verdict),
    Lookup(Lookup),
    Counter,
    Log {
        prefix: String,
        group: u16,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Equal,
    NotEqual,
    AtMost,
    AtLeast,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lookup {
    pub(crate) set: String,
    /// By which a transaction knows a set that has no name yet.
    pub(crate) id: Option<u32>,
    pub(crate) result: LookupResult,
}

/// Where the answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupResult {
    /// Only whether there is one counts.
    Found,
    Verdict,
    Value,
}

pub(crate) const LINK_LAYER: u32 = 0;
pub(crate) const NETWORK: u32 = 1;
pub(crate) const TRANSPORT: u32 = 2;
const FIRST: u32 = 1;
const VERDICT: u32 = 0;
const NAME: u16 = 1;
const BODY: u16 = 2;
const ITEM: u16 = 1;
/// `NFT_CT_STATE`, `NFT_FIB_RESULT_ADDRTYPE`, `NFTA_FIB_F_SADDR`.
const CT_STATE: u32 = 0;
const FIB_TYPE: u32 = 3;
const FIB_SOURCE: u32 = 1;
const COUNTER_BYTES: u16 = 1;
const COUNTER_PACKETS: u16 = 2;

/// Writes the expressions of a rule, one list item each.
pub(crate) fn write(writer: &mut Writer, expressions: &[Expression]) {
    for expression in expressions {
        writer.nest(ITEM, |writer| {
            writer.text(NAME, name(expression));
            writer.nest(BODY, |writer| body(writer, expression));
        });
    }
}

/// Reads the expressions of a rule.
pub(crate) fn read(list: &Attributes<'_>) -> Result<Vec<Expression>, Odd> {
    list.only(&[ITEM])?;
    list.iter().map(|(_, item)| expression(&Attributes::read(item)?)).collect()
}

/// Reads each expression of a rule for itself; of one that no rule of ours has, its name.
pub(crate) fn read_each(list: &Attributes<'_>) -> Vec<Result<Expression, String>> {
    let one = |item: &[u8]| {
        let item = Attributes::read(item).map_err(|odd| odd.0)?;
        expression(&item).map_err(|odd| item.text(NAME).map_or(odd.0, str::to_owned))
    };
    list.iter().map(|(_, item)| one(item)).collect()
}

/// Packets and bytes of the first counter of a rule, if it has one.
pub(crate) fn read_counter(list: &Attributes<'_>) -> Result<Option<(u64, u64)>, Odd> {
    for (_, item) in list.iter() {
        let item = Attributes::read(item)?;
        if item.text(NAME)? == "counter" {
            let body = item.nest(BODY)?;
            let number = |kind| body.bytes(kind)?.try_into().map(u64::from_be_bytes).map_err(|_| Odd::new("a count that is no number"));
            return Ok(Some((number(COUNTER_PACKETS)?, number(COUNTER_BYTES)?)));
        }
    }
    Ok(None)
}

/// Writes a verdict, as it stands in a register or an element.
pub(crate) fn write_verdict(writer: &mut Writer, verdict: &Verdict) {
    let (code, chain) = match verdict {
        Verdict::Accept => (data::ACCEPT, None),
        Verdict::Drop => (data::DROP, None),
        Verdict::Return => (data::RETURN, None),
        Verdict::Jump(chain) => (data::JUMP, Some(chain)),
        Verdict::Goto(chain) => (data::GOTO, Some(chain)),
    };
    writer.nest(data::VERDICT, |writer| {
        writer.bytes(data::VERDICT_CODE, &code.to_be_bytes());
        if let Some(chain) = chain {
            writer.text(data::VERDICT_CHAIN, chain);
        }
    });
}

/// Reads a verdict.
pub(crate) fn read_verdict(from: &Attributes<'_>) -> Result<Verdict, Odd> {
    let verdict = from.nest(data::VERDICT)?;
    let chain = || verdict.text(data::VERDICT_CHAIN).map(str::to_owned);
    match i32::from_be_bytes(verdict.u32(data::VERDICT_CODE)?.to_be_bytes()) {
        data::ACCEPT => Ok(Verdict::Accept),
        data::DROP => Ok(Verdict::Drop),
        data::RETURN => Ok(Verdict::Return),
        data::JUMP => Ok(Verdict::Jump(chain()?)),
        data::GOTO => Ok(Verdict::Goto(chain()?)),
        code => Err(Odd(format!("verdict {code}"))),
    }
}

fn name(expression: &Expression) -> &'static str {
    match expression {
        Expression::Meta(_) | Expression::MetaTo { .. } | Expression::SetPriority => "meta",
        Expression::State => "ct",
        Expression::SourceType => "fib",
        Expression::Payload { .. } => "payload",
        Expression::Mask(_) => "bitwise",
        Expression::Compare(..) => "cmp",
        Expression::Value(_) | Expression::Verdict(_) => "immediate",
        Expression::Lookup(_) => "lookup",
        Expression::Counter => "counter",
        Expression::Log { .. } => "log",
    }
}

fn body(writer: &mut Writer, expression: &Expression) {
    match expression {
        Expression::Meta(key) => numbers(writer, &[(2, *key), (1, FIRST)]),
        Expression::MetaTo { key, to } => numbers(writer, &[(2, *key), (1, *to)]),
        Expression::SetPriority => numbers(writer, &[(2, meta::PRIORITY), (3, FIRST)]),
        Expression::State => numbers(writer, &[(2, CT_STATE), (1, FIRST)]),
        Expression::SourceType => numbers(writer, &[(3, FIB_SOURCE), (2, FIB_TYPE), (1, FIRST)]),
        Expression::Payload { base, offset, length, to } => numbers(writer, &[(1, *to), (2, *base), (3, *offset), (4, *length)]),
        Expression::Mask(mask) => {
            // A mask is as long as a register at most.
            let length = u32::try_from(mask.len()).unwrap_or(u32::MAX);
            numbers(writer, &[(1, FIRST), (2, FIRST), (3, length)]);
            value(writer, 4, mask);
            value(writer, 5, &vec![0; mask.len()]);
        }
        Expression::Compare(compare, with) => {
            numbers(writer, &[(1, FIRST), (2, code(*compare))]);
            value(writer, 3, with);
        }
        Expression::Value(it) => {
            numbers(writer, &[(1, FIRST)]);
            value(writer, 2, it);
        }
        Expression::Verdict(verdict) => {
            numbers(writer, &[(1, VERDICT)]);
            writer.nest(2, |writer| write_verdict(writer, verdict));
        }
        Expression::Lookup(Lookup { set, id, result }) => {
            numbers(writer, &[(2, FIRST)]);
            match result {
                LookupResult::Found => {}
                LookupResult::Verdict => writer.u32(3, VERDICT),
                LookupResult::Value => writer.u32(3, FIRST),
            }
            writer.text(1, set);
            if let Some(id) = id {
                writer.u32(4, *id);
            }
        }
        Expression::Counter => {}
        Expression::Log { prefix, group } => {
            writer.text(2, prefix);
            writer.bytes(1, &group.to_be_bytes());
        }
    }
}

fn numbers(writer: &mut Writer, fields: &[(u16, u32)]) {
    for (kind, number) in fields {
        writer.u32(*kind, *number);
    }
}

fn value(writer: &mut Writer, kind: u16, bytes: &[u8]) {
    writer.nest(kind, |writer| writer.bytes(data::VALUE, bytes));
}

fn code(compare: Compare) -> u32 {
    match compare {
        Compare::Equal => 0,
        Compare::NotEqual => 1,
        Compare::AtMost => 3,
        Compare::AtLeast => 5,
    }
}

fn expression(item: &Attributes<'_>) -> Result<Expression, Odd> {
    let name = item.text(NAME)?;
    let body = match item.find(BODY) {
        Some(bytes) => Attributes::read(bytes)?,
        None => Attributes::read(&[])?,
    };
    let held = |kind| body.nest(kind)?.bytes(data::VALUE).map(<[u8]>::to_vec);
    match name {
        "meta" if body.find(3).is_some() => {
            expect(&body, &[(2, meta::PRIORITY), (3, FIRST)], &[])?;
            Ok(Expression::SetPriority)
        }
        "meta" => {
            expect(&body, &[], &[1, 2])?;
            let (key, to) = (body.u32(2)?, body.u32(1)?);
            Ok(if to == FIRST { Expression::Meta(key) } else { Expression::MetaTo { key, to } })
        }
        "ct" => {
            // The state has no direction; other keys would have that attribute too.
            expect(&body, &[(1, FIRST), (2, CT_STATE)], &[])?;
            Ok(Expression::State)
        }
        "fib" => {
            expect(&body, &[(1, FIRST), (2, FIB_TYPE), (3, FIB_SOURCE)], &[])?;
            Ok(Expression::SourceType)
        }
        "payload" => {
            expect(&body, &[], &[1, 2, 3, 4])?;
            Ok(Expression::Payload { base: body.u32(2)?, offset: body.u32(3)?, length: body.u32(4)?, to: body.u32(1)? })
        }
        "bitwise" => mask(&body),
        "cmp" => {
            expect(&body, &[(1, FIRST)], &[2, 3])?;
            let all = [Compare::Equal, Compare::NotEqual, Compare::AtMost, Compare::AtLeast];
            let wanted = body.u32(2)?;
            let compare = all.into_iter().find(|it| code(*it) == wanted).ok_or_else(|| Odd(format!("comparison {wanted}")))?;
            Ok(Expression::Compare(compare, held(3)?))
        }
        "immediate" if body.u32(1)? == VERDICT => {
            expect(&body, &[], &[1, 2])?;
            read_verdict(&body.nest(2)?).map(Expression::Verdict)
        }
        "immediate" => {
            expect(&body, &[(1, FIRST)], &[2])?;
            Ok(Expression::Value(held(2)?))
        }
        "lookup" => lookup(&body),
        "counter" => Ok(Expression::Counter),
        "log" => {
            expect(&body, &[], &[1, 2])?;
            let group = body.bytes(1)?.try_into().map_err(|_| Odd::new("a log group that is no number"))?;
            Ok(Expression::Log { prefix: body.text(2)?.to_owned(), group: u16::from_be_bytes(group) })
        }
        other => Err(Odd(format!("expression `{other}`"))),
    }
}

fn mask(body: &Attributes<'_>) -> Result<Expression, Odd> {
    // The operation is masking and xor, which old kernels do not even name.
    expect(body, &[(1, FIRST), (2, FIRST)], &[3, 4, 5, 6])?;
    if body.find(6).is_some() && body.u32(6)? != 0 {
        return Err(Odd::new("a bitwise operation other than a mask"));
    }
    if body.nest(5)?.bytes(data::VALUE)?.iter().any(|it| *it != 0) {
        return Err(Odd::new("a bitwise xor"));
    }
    Ok(Expression::Mask(body.nest(4)?.bytes(data::VALUE)?.to_vec()))
}

fn lookup(body: &Attributes<'_>) -> Result<Expression, Odd> {
    expect(body, &[(2, FIRST)], &[1, 3, 4, 5])?;
    if body.find(5).is_some() && body.u32(5)? != 0 {
        return Err(Odd::new("a lookup that matches what is not there"));
    }
    let result = match body.find(3).is_some().then(|| body.u32(3)).transpose()? {
        None => LookupResult::Found,
        Some(VERDICT) => LookupResult::Verdict,
        Some(FIRST) => LookupResult::Value,
        Some(other) => return Err(Odd(format!("a lookup into register {other}"))),
    };
    Ok(Expression::Lookup(Lookup { set: body.text(1)?.to_owned(), id: None, result }))
}

/// These fields with these numbers, and no others but those that are looked at elsewhere.
fn expect(body: &Attributes<'_>, numbers: &[(u16, u32)], others: &[u16]) -> Result<(), Odd> {
    let known: Vec<u16> = numbers.iter().map(|(kind, _)| *kind).chain(others.iter().copied()).collect();
    body.only(&known)?;
    for (kind, number) in numbers {
        let found = body.u32(*kind)?;
        if found != *number {
            return Err(Odd(format!("{found} instead of {number} in attribute {kind}")));
        }
    }
    Ok(())
}
