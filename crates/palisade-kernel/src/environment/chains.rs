//! The tables of others: base chains, flowtables, and rules that take packets away.

use std::collections::BTreeSet;

use palisade_netlink::{Attributes, Odd, Writer};
use palisade_nft::uapi::{SUBSYSTEM, chain, flag, message, rule, table as nft_table};
use serde::{Deserialize, Serialize};

use crate::dump;
use crate::error::KernelError;
use crate::socket::{Question, Socket, Unanswered};

/// How often tables that change meanwhile are read again.
const ATTEMPTS: usize = 10;
/// The families `inet` and `netdev` as `NFPROTO_*` numbers them.
const INET: u8 = 1;
const NETDEV: u8 = 5;
const OURS: [(u8, &str); 4] = [(INET, "palisade"), (INET, "palisade-answers"), (INET, "palisade-strays"), (NETDEV, "palisade")];
/// Of these every rule is compared with what it should be, and they may have thousands.
const COMPARED: [(u8, &str); 2] = [(INET, "palisade"), (NETDEV, "palisade")];
/// `NFT_MSG_GETFLOWTABLE`.
const GET_FLOWTABLE: u16 = (SUBSYSTEM << 8) + 23;
const FLOWTABLE_TABLE: u16 = 1;
const FLOWTABLE_NAME: u16 = 2;
const FLOWTABLE_HOOK: u16 = 3;
const FLOWTABLE_HOOK_DEVICES: u16 = 3;
/// Where one device was named alone, before there could be several: `NFTA_HOOK_DEV`.
const HOOK_DEVICE: u16 = 3;
const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_BODY: u16 = 2;
/// Of the expressions that stand for an extension of iptables: `NFTA_TARGET_NAME`.
const TARGET_NAME: u16 = 1;
/// Of the expression `payload`: where it reads or writes, and what it writes from.
const PAYLOAD_BASE: u16 = 2;
const PAYLOAD_OFFSET: u16 = 3;
const PAYLOAD_LENGTH: u16 = 4;
const PAYLOAD_WRITES_FROM: u16 = 5;
/// The headers of network and transport.
const NETWORK: u32 = 1;
const TRANSPORT: u32 = 2;
/// Where the addresses of IPv4 begin; those of IPv6 begin before that and end after it, and what else may be set ends before it.
const ADDRESSES: u32 = 12;
/// Where the ports end.
const PORTS: u32 = 4;

/// A table by its family and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TableOf {
    /// `ip`, `ip6`, `inet`, `arp`, `bridge` or `netdev`.
    pub family: String,
    pub name: String,
}

/// A base chain of somebody else's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BaseChain {
    pub table: TableOf,
    pub name: String,
    /// Its type: `filter`, `nat` or `route`.
    pub kind: String,
    /// As the kernel numbers the hooks of its family.
    pub hook: u32,
    pub priority: i32,
    pub devices: BTreeSet<String>,
}

/// What forwards packets of known connections past the tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Flowtable {
    pub table: TableOf,
    pub name: String,
    pub devices: BTreeSet<String>,
}

/// A rule that takes packets away from the hooks, or from connection tracking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StrayRule {
    pub table: TableOf,
    pub chain: String,
    /// `notrack`, `fwd`, `dup`, `flow_offload`, `tproxy`, `redir`, `synproxy`, or the target of iptables that does the same; `payload set` for what writes
    /// addresses or ports.
    pub does: String,
}

/// What all tables have that matters.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) chains: Vec<BaseChain>,
    pub(super) flowtables: Vec<Flowtable>,
    pub(super) rules: Vec<StrayRule>,
}

/// Reads them in one state.
pub(super) fn read() -> Result<Tables, KernelError> {
    let mut socket = Socket::open()?;
    for _ in 0..ATTEMPTS {
        let before = dump::generation(&mut socket)?;
        let read = read_once(&mut socket);
        if dump::generation(&mut socket)? == before && !matches!(read, Err(KernelError::Unsteady(_))) {
            return read;
        }
    }
    Err(KernelError::Unsteady(ATTEMPTS))
}

fn read_once(socket: &mut Socket) -> Result<Tables, KernelError> {
    let mut tables = Tables::default();
    each(socket, message::GET_CHAIN, |payload| {
        tables.chains.extend(base_chain(payload)?);
        Ok(())
    })?;
    let mut others: BTreeSet<(u8, String)> = BTreeSet::new();
    each(socket, message::GET_TABLE, |payload| {
        let name = Attributes::of_payload(payload)?.text(nft_table::NAME)?.to_owned();
        others.extend((!COMPARED.contains(&(family(payload)?, &name))).then_some((family(payload)?, name)));
        Ok(())
    })?;
    for (family, name) in &others {
        let of_table = Question { family: *family, ..all(message::GET_RULE) };
        ask(
            socket,
            of_table,
            |writer| writer.text(rule::TABLE, name),
            |payload| {
                tables.rules.extend(stray_rules(payload)?);
                Ok(())
            },
        )?;
    }
    each(socket, GET_FLOWTABLE, |payload| {
        tables.flowtables.push(flowtable(payload)?);
        Ok(())
    })?;
    tables.rules.dedup();
    Ok(tables)
}

/// Asks for everything of one kind, in all families.
fn each(socket: &mut Socket, kind: u16, take: impl FnMut(&[u8]) -> Result<(), Odd>) -> Result<(), KernelError> {
    ask(socket, all(kind), |_| {}, take)
}

fn all(kind: u16) -> Question {
    Question { kind, flags: flag::DUMP, family: 0, resource: 0 }
}

fn ask(
    socket: &mut Socket,
    question: Question,
    about: impl FnOnce(&mut Writer),
    take: impl FnMut(&[u8]) -> Result<(), Odd>,
) -> Result<(), KernelError> {
    let kind = question.kind;
    match socket.each(question, about, take) {
        Ok(()) => Ok(()),
        // A kernel without flowtables does not know the question.
        Err(Unanswered::Refused(errno)) if kind == GET_FLOWTABLE && crate::socket::is_no_support(errno) => Ok(()),
        Err(Unanswered::Refused(errno)) => Err(KernelError::Socket { doing: "read the tables of others", errno }),
        Err(Unanswered::TooLong) => Err(KernelError::Truncated("a question that is too long".to_owned())),
        Err(Unanswered::Failed(error)) => Err(error),
    }
}

fn table(payload: &[u8], name: &str) -> Result<Option<TableOf>, Odd> {
    let family = family(payload)?;
    Ok(is_of_others(family, name).then(|| TableOf { family: family_name(family), name: name.to_owned() }))
}

fn family(payload: &[u8]) -> Result<u8, Odd> {
    payload.first().copied().ok_or_else(|| Odd::new("an answer without a family"))
}

fn is_of_others(family: u8, name: &str) -> bool {
    !OURS.contains(&(family, name))
}

fn family_name(family: u8) -> String {
    match family {
        INET => "inet".to_owned(),
        2 => "ip".to_owned(),
        3 => "arp".to_owned(),
        NETDEV => "netdev".to_owned(),
        7 => "bridge".to_owned(),
        10 => "ip6".to_owned(),
        other => other.to_string(),
    }
}

fn base_chain(payload: &[u8]) -> Result<Option<BaseChain>, Odd> {
    let from = Attributes::of_payload(payload)?;
    let Some(table) = table(payload, from.text(chain::TABLE)?)? else { return Ok(None) };
    if from.find(chain::HOOK).is_none() {
        return Ok(None);
    }
    let hook = from.nest(chain::HOOK)?;
    Ok(Some(BaseChain {
        table,
        name: from.text(chain::NAME)?.to_owned(),
        kind: from.text(chain::TYPE)?.to_owned(),
        hook: hook.u32(chain::HOOK_NUMBER)?,
        priority: i32::from_be_bytes(hook.u32(chain::HOOK_PRIORITY)?.to_be_bytes()),
        devices: devices(&hook, chain::HOOK_DEVICES)?,
    }))
}

fn devices(hook: &Attributes<'_>, list: u16) -> Result<BTreeSet<String>, Odd> {
    let mut devices = BTreeSet::new();
    if list != HOOK_DEVICE && hook.find(HOOK_DEVICE).is_some() {
        devices.insert(hook.text(HOOK_DEVICE)?.to_owned());
    }
    if hook.find(list).is_some() {
        for (_, name) in hook.nest(list)?.iter() {
            let name = name.strip_suffix(&[0]).unwrap_or(name);
            devices.insert(std::str::from_utf8(name).map_err(|_| Odd::new("a device whose name is no text"))?.to_owned());
        }
    }
    Ok(devices)
}

fn flowtable(payload: &[u8]) -> Result<Flowtable, Odd> {
    let from = Attributes::of_payload(payload)?;
    let devices = match from.find(FLOWTABLE_HOOK).is_some() {
        true => devices(&from.nest(FLOWTABLE_HOOK)?, FLOWTABLE_HOOK_DEVICES)?,
        false => BTreeSet::new(),
    };
    // One in our own table is somebody else's as well.
    let table = TableOf { family: family_name(family(payload)?), name: from.text(FLOWTABLE_TABLE)?.to_owned() };
    Ok(Flowtable { table, name: from.text(FLOWTABLE_NAME)?.to_owned(), devices })
}

/// What a rule does that takes packets away.
fn stray_rules(payload: &[u8]) -> Result<Vec<StrayRule>, Odd> {
    let from = Attributes::of_payload(payload)?;
    let table = TableOf { family: family_name(family(payload)?), name: from.text(rule::TABLE)?.to_owned() };
    if from.find(rule::EXPRESSIONS).is_none() {
        return Ok(Vec::new());
    }
    let mut strays = Vec::new();
    for (_, item) in from.nest(rule::EXPRESSIONS)?.iter() {
        let expression = Attributes::read(item)?;
        let does = match expression.text(EXPRESSION_NAME)? {
            name @ ("notrack" | "fwd" | "dup" | "flow_offload" | "tproxy" | "redir" | "synproxy") => Some(name.to_owned()),
            "payload" => writes_ends(&expression.nest(EXPRESSION_BODY)?)?.then(|| "payload set".to_owned()),
            "target" => Some(expression.nest(EXPRESSION_BODY)?.text(TARGET_NAME)?.to_owned()).filter(|it| takes_away(it)),
            _ => None,
        };
        let chain = from.text(rule::CHAIN)?.to_owned();
        strays.extend(does.map(|does| StrayRule { table: table.clone(), chain: chain.clone(), does }));
    }
    Ok(strays)
}

/// Whether an address or a port is written, of which connection tracking knows nothing.
fn writes_ends(payload: &Attributes<'_>) -> Result<bool, Odd> {
    if payload.find(PAYLOAD_WRITES_FROM).is_none() {
        return Ok(false);
    }
    let (first, length) = (payload.u32(PAYLOAD_OFFSET)?, payload.u32(PAYLOAD_LENGTH)?);
    Ok(match payload.u32(PAYLOAD_BASE)? {
        NETWORK => first.saturating_add(length) > ADDRESSES,
        TRANSPORT => first < PORTS,
        _ => false,
    })
}

/// Targets of iptables that take packets from tracking or from the hooks. `CT` may do the first.
fn takes_away(target: &str) -> bool {
    ["NOTRACK", "CT", "TEE", "TPROXY", "REDIRECT", "SYNPROXY", "FLOWOFFLOAD"].contains(&target)
}
