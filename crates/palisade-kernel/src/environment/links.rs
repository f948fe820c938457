//! The links, with what is attached to them, and which addresses are at which.

use std::collections::BTreeMap;
use std::net::IpAddr;

use nix::sys::socket::SockProtocol;
use palisade_netlink::{Attributes, Odd, field};
use serde::{Deserialize, Serialize};

use super::Way;
use crate::channel::{Awaits, Channel, Ended};
use crate::error::{Attempt, KernelError, NetworkObject};
use crate::links::{Links, NextHop};

/// How often something is read that changes meanwhile.
const ATTEMPTS: usize = 20;
const HEADER: usize = 16;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: u16 = 0x301;
const GET_LINK: u16 = 18;
const GET_NEIGHBOUR: u16 = 30;
const BRIDGE_FAMILY: u8 = 7;

/// A link, and what sees or moves its packets before or after the tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkFacts {
    pub index: u32,
    pub name: String,
    /// `veth`, `bridge` and the like. Loopback and hardware have none.
    pub kind: Option<String>,
    /// The bridge, bond or VRF that this is a part of.
    pub master: Option<u32>,
    /// The link of the same namespace that this one is made on: that of a macvlan, or of a VLAN.
    #[serde(default)]
    pub on: Option<u32>,
    #[serde(default)]
    pub up: bool,
    pub xdp: Option<Xdp>,
    /// Whether a bridge hands its IPv4 packets to the tables whatever the setting for all bridges.
    pub calls_ipv4: bool,
    pub calls_ipv6: bool,
}

/// A program that sees the packets of a link before anybody else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Xdp {
    /// As the kernel numbers programs; none where several are attached.
    pub program: Option<u32>,
}

/// All links, by index.
pub(super) fn read() -> Result<Vec<LinkFacts>, KernelError> {
    let replies = ask("links", GET_LINK, &[0; 16])?;
    let mut links = replies.iter().map(|it| link(it)).collect::<Result<Vec<_>, Odd>>().map_err(odd)?;
    links.sort_by_key(|it| it.index);
    Ok(links)
}

fn odd(odd: Odd) -> KernelError {
    KernelError::Truncated(odd.0)
}

/// Asks rtnetlink for all of a kind, until the answer is of one state. Gives what follows the header of each message.
pub(super) fn ask(what: &'static str, kind: u16, body: &[u8]) -> Result<Vec<Vec<u8>>, KernelError> {
    let mut channel = Channel::open(SockProtocol::NetlinkRoute)?;
    for _ in 0..ATTEMPTS {
        let sequence = channel.next();
        let length = u32::try_from(HEADER + body.len()).unwrap_or(u32::MAX);
        let mut bytes = Vec::with_capacity(HEADER + body.len());
        bytes.extend(length.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(DUMP.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(body);
        channel.send(&bytes)?;
        match channel.answer(sequence, Awaits::End)? {
            Ended::Complete(replies) => return Ok(replies.into_iter().map(|(_, payload)| payload).collect()),
            Ended::Refused(errno) => return Err(KernelError::refused(Attempt::Read, NetworkObject::All(what), errno)),
            Ended::Interrupted => {}
        }
    }
    Err(KernelError::UnsteadyNetwork { what, attempts: ATTEMPTS })
}

/// The attributes after a header of so many bytes.
pub(super) fn attributes(payload: &[u8], header: usize) -> Result<Attributes<'_>, Odd> {
    Attributes::read(payload.get(header..).ok_or_else(|| Odd::new("a message is cut short"))?)
}

/// A number in the order of this machine, as rtnetlink has them.
pub(super) fn number(payload: &[u8], at: usize) -> Result<u32, Odd> {
    field(payload, at).map(u32::from_ne_bytes).ok_or_else(|| Odd::new("a number is cut short"))
}

fn link(payload: &[u8]) -> Result<LinkFacts, Odd> {
    const NAME: u16 = 3;
    const ON: u16 = 5;
    const MASTER: u16 = 10;
    const INFO: u16 = 18;
    const ON_IN_ANOTHER_NAMESPACE: u16 = 37;
    const XDP: u16 = 43;
    const UP: u32 = 1;
    let from = attributes(payload, 16)?;
    let mut facts = LinkFacts {
        index: number(payload, 4)?,
        name: from.text(NAME)?.to_owned(),
        kind: None,
        master: from.find(MASTER).map(|it| number(it, 0)).transpose()?,
        on: from.find(ON).filter(|_| from.find(ON_IN_ANOTHER_NAMESPACE).is_none()).map(|it| number(it, 0)).transpose()?,
        up: number(payload, 8)? & UP != 0,
        xdp: None,
        calls_ipv4: false,
        calls_ipv6: false,
    };
    if from.find(INFO).is_some() {
        info(&from.nest(INFO)?, &mut facts)?;
    }
    if from.find(XDP).is_some() {
        facts.xdp = xdp(&from.nest(XDP)?)?;
    }
    Ok(facts)
}

fn info(from: &Attributes<'_>, facts: &mut LinkFacts) -> Result<(), Odd> {
    const KIND: u16 = 1;
    const DATA: u16 = 2;
    const BRIDGE_CALLS_IPV4: u16 = 36;
    const BRIDGE_CALLS_IPV6: u16 = 37;
    facts.kind = from.find(KIND).is_some().then(|| from.text(KIND)).transpose()?.map(str::to_owned);
    if facts.kind.as_deref() == Some("bridge") && from.find(DATA).is_some() {
        let data = from.nest(DATA)?;
        facts.calls_ipv4 = data.find(BRIDGE_CALLS_IPV4).is_some_and(|it| it != [0]);
        facts.calls_ipv6 = data.find(BRIDGE_CALLS_IPV6).is_some_and(|it| it != [0]);
    }
    Ok(())
}

fn xdp(from: &Attributes<'_>) -> Result<Option<Xdp>, Odd> {
    const ATTACHED: u16 = 2;
    const PROGRAM: u16 = 4;
    if from.find(ATTACHED).is_none_or(|it| it == [0]) {
        return Ok(None);
    }
    Ok(Some(Xdp { program: from.find(PROGRAM).map(|it| number(it, 0)).transpose()? }))
}

/// Which address is at which link: by host routes, and behind a bridge by its neighbours and the port that each is at. And all host routes.
pub(super) fn ways(links: &[LinkFacts]) -> Result<(Vec<Way>, Vec<Way>), KernelError> {
    let bridges: Vec<&LinkFacts> = links.iter().filter(|it| it.kind.as_deref() == Some("bridge")).collect();
    let mut routes = Links::open()?.routes_by_metric()?;
    routes.retain(|(_, it)| it.to.prefix_len() == it.to.max_prefix_len() && it.via == NextHop::Destination);
    let mut host_routes: Vec<Way> = routes.iter().map(|(_, it)| Way { to: it.to.addr(), link: it.link.clone() }).collect();
    host_routes.sort();
    // Of several to one address the kernel takes the one with the least metric.
    let mut least: BTreeMap<IpAddr, u32> = BTreeMap::new();
    for (metric, route) in &routes {
        least.entry(route.to.addr()).and_modify(|it| *it = (*it).min(*metric)).or_insert(*metric);
    }
    let mut ways: Vec<Way> = routes
        .into_iter()
        .filter(|(metric, it)| least.get(&it.to.addr()) == Some(metric) && !bridges.iter().any(|bridge| bridge.name == it.link))
        .map(|(_, it)| Way { to: it.to.addr(), link: it.link })
        .collect();
    if !bridges.is_empty() {
        let names: BTreeMap<u32, &str> = links.iter().map(|it| (it.index, it.name.as_str())).collect();
        let ports = ports()?;
        for (bridge, hardware, address) in neighbours()? {
            let port = ports.get(&(bridge, hardware)).and_then(|it| names.get(it));
            ways.extend(port.map(|link| Way { to: address, link: (*link).to_owned() }));
        }
    }
    ways.sort();
    ways.dedup();
    Ok((ways, host_routes))
}

const NEIGHBOUR: usize = 12;
const NEIGHBOUR_ADDRESS: u16 = 1;
const NEIGHBOUR_HARDWARE: u16 = 2;
const NEIGHBOUR_MASTER: u16 = 9;

/// Link, hardware address and address of every neighbour that has all three.
fn neighbours() -> Result<Vec<(u32, Vec<u8>, IpAddr)>, KernelError> {
    let mut neighbours = Vec::new();
    for payload in ask("neighbours", GET_NEIGHBOUR, &[0; NEIGHBOUR])? {
        let from = attributes(&payload, NEIGHBOUR).map_err(odd)?;
        let address = from.find(NEIGHBOUR_ADDRESS).and_then(address);
        if let (Some(address), Some(hardware)) = (address, from.find(NEIGHBOUR_HARDWARE)) {
            neighbours.push((number(&payload, 4).map_err(odd)?, hardware.to_vec(), address));
        }
    }
    Ok(neighbours)
}

/// The port of each hardware address that a bridge knows.
fn ports() -> Result<BTreeMap<(u32, Vec<u8>), u32>, KernelError> {
    let mut question = [0; 16];
    question[0] = BRIDGE_FAMILY;
    let mut ports = BTreeMap::new();
    for payload in ask("addresses of bridges", GET_NEIGHBOUR, &question)? {
        let from = attributes(&payload, NEIGHBOUR).map_err(odd)?;
        let master = from.find(NEIGHBOUR_MASTER).map(|it| number(it, 0)).transpose().map_err(odd)?;
        if let (Some(master), Some(hardware)) = (master, from.find(NEIGHBOUR_HARDWARE)) {
            ports.insert((master, hardware.to_vec()), number(&payload, 4).map_err(odd)?);
        }
    }
    Ok(ports)
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    }
}
