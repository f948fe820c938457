//! From options that people write to values: a connection, a port, a node.
//!
//! Messages name the option as the command line spells it, in front of the problem.

use palisade_model::{Model, NetworkId, NodeId, PortProtocol, Protocol};

use crate::explain::Asked;
use crate::party::Party;
use crate::resolve::PortAsked;

impl Asked {
    /// The connection that `--from`, `--to`, `--protocol` and `--port` describe.
    pub fn parse(from: &str, to: &str, protocol: &str, port: Option<&str>) -> Result<Asked, String> {
        let Some(known) = Protocol::parse(protocol) else { return Err(format!("`--protocol {protocol}`: tcp, udp, sctp or icmp")) };
        let port = PortAsked::parse(known, port)?;
        let party = |option: &str, text: &str| Party::parse(text).map_err(|error| format!("`{option}`: {error}"));
        Ok(Asked { network: NetworkId::DEFAULT, from: party("--from", from)?, to: party("--to", to)?, protocol: known, port })
    }
}

impl PortAsked {
    /// The port that `--port` names for a protocol.
    pub fn parse(protocol: Protocol, port: Option<&str>) -> Result<PortAsked, String> {
        let written = port.map_or("--port".to_owned(), |it| format!("--port {it}"));
        match port.and_then(with_protocol) {
            Some((protocol, port)) => Err(format!("`{written}`: write `--protocol {protocol} --port {port}`")),
            None => PortAsked::written_as(&written, protocol, port),
        }
    }

    /// A port whose problems are reported behind the text `written`.
    pub fn written_as(written: &str, protocol: Protocol, port: Option<&str>) -> Result<PortAsked, String> {
        let text = match (protocol, port) {
            (Protocol::Port(_), None) => return Err(format!("`{written}` is missing; {protocol} has ports, and policies tell them apart")),
            (Protocol::Port(_), Some(text)) => text,
            (Protocol::Icmp | Protocol::Other(_), None) => return Ok(PortAsked::None),
            (Protocol::Icmp | Protocol::Other(_), Some(_)) => return Err(format!("`{written}`: {protocol} has no ports")),
        };
        let number = text.bytes().all(|it| it.is_ascii_digit());
        match text.parse::<u16>() {
            Ok(0) => Err(format!("`{written}`: ports are 1 to 65535")),
            Ok(port) if number => Ok(PortAsked::Number(port)),
            Err(_) if number || text.is_empty() || text.starts_with('-') => Err(format!("`{written}`: ports are 1 to 65535, or a name")),
            Ok(_) | Err(_) => Ok(PortAsked::Name(text.to_owned())),
        }
    }
}

/// `udp/53` or `53/udp`: forms that other tools accept as a port.
fn with_protocol(text: &str) -> Option<(Protocol, &str)> {
    let (first, last) = text.split_once('/')?;
    Protocol::parse(first).map(|it| (it, last)).or_else(|| Protocol::parse(last).map(|it| (it, first)))
}

/// The port of a filter: `80`, `udp/53`.
pub fn port_filter(text: &str) -> Result<(PortProtocol, u16), String> {
    let (protocol, number) = text.split_once('/').unwrap_or(("tcp", text));
    let Some(Protocol::Port(protocol)) = Protocol::parse(protocol) else {
        return Err(format!("`--port {text}`: `{protocol}` has no ports; write tcp, udp or sctp"));
    };
    let digits = number.bytes().all(|it| it.is_ascii_digit());
    match number.parse::<u16>() {
        Ok(number @ 1..) if digits => Ok((protocol, number)),
        Ok(_) | Err(_) => Err(format!("`--port {text}`: ports are 1 to 65535")),
    }
}

/// The node of a name, or a message with the names of all nodes.
pub fn node_named(model: &Model, name: &str) -> Result<NodeId, String> {
    if let Some((id, _)) = model.nodes.iter_ids().find(|(_, it)| *it.name == *name) {
        return Ok(id);
    }
    let known: Vec<&str> = model.nodes.iter().map(|it| it.name.as_ref()).collect();
    Err(match known.is_empty() {
        true => format!("no node `{name}`: nothing that was read names a node (Node objects, or spec.nodeName of pods)"),
        false => format!("no node `{name}`; there are {}", known.join(", ")),
    })
}
