//! `palisade nft`: the ruleset of a node, and packets traced through it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_analysis::{PortAsked, node_named};
use palisade_engine::compile;
use palisade_model::{PortProtocol, Protocol};
use palisade_nft::{At, CtState, Ids, NodeView, Packet, Ruleset, Table, Traced, Unknown, audit, lower, trace as walk};
use palisade_report::Outcome;

use crate::cluster::Cluster;
use crate::error::AppError;

/// The first packet of a connection, where a node meets it.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// The node, by name.
    pub node: String,
    /// Source address.
    pub from: IpAddr,
    /// Destination address, after any Service.
    pub to: IpAddr,
    /// Destination port, after any Service.
    pub port: Option<u16>,
    /// `tcp`, `udp`, `sctp` or `icmp`.
    pub protocol: String,
    /// The hook.
    pub at: At,
}

/// The fate of a packet.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The verdict and the rules that gave it.
    pub traced: Traced,
    /// Whether the packet is accepted.
    pub outcome: Outcome,
}

/// The ruleset of a node. Interfaces of pods are not known from objects, so no source address is bound and unknown pods are not dropped.
pub fn ruleset(cluster: &Cluster, node: &str) -> Result<Ruleset, AppError> {
    // Without a refused policy the ruleset would accept more than was meant.
    cluster.complete("there is no ruleset that can be trusted")?;
    let model = &cluster.snapshot.model;
    let node = node_named(model, node).map_err(AppError::Option)?;
    let view = NodeView { node, links: BTreeMap::new(), unknown: Unknown::Open };
    Ok(lower(model, &compile(model), &view, &mut Ids::default()))
}

/// The tables of a node that objects decide: that of policies, and that of audited policies if one selects a pod of the node. The others depend on what an agent meets.
pub fn tables(cluster: &Cluster, node: &str) -> Result<Vec<(Table, Ruleset)>, AppError> {
    let own = ruleset(cluster, node)?;
    let model = &cluster.snapshot.model;
    let node = node_named(model, node).map_err(AppError::Option)?;
    let audited = audit(model, node, &mut Ids::default()).map(|it| (Table::Audit, it.ruleset));
    Ok([(Table::Own, own)].into_iter().chain(audited).collect())
}

/// Walks a packet through the ruleset of a node.
pub fn trace(cluster: &Cluster, options: &TraceOptions) -> Result<Trace, AppError> {
    let packet = packet(options).map_err(AppError::Option)?;
    let traced = walk(&ruleset(cluster, &options.node)?, &packet).map_err(|error| AppError::Trace(error.to_string()))?;
    let outcome = Outcome::found(!traced.accepted);
    Ok(Trace { traced, outcome })
}

fn packet(options: &TraceOptions) -> Result<Packet, String> {
    let Some(protocol) = Protocol::parse(&options.protocol) else {
        return Err(format!("`--protocol {}`: tcp, udp, sctp or icmp", options.protocol));
    };
    let number = match protocol {
        Protocol::Port(PortProtocol::Tcp) => 6,
        Protocol::Port(PortProtocol::Udp) => 17,
        Protocol::Port(PortProtocol::Sctp) => 132,
        Protocol::Icmp if options.from.is_ipv4() => 1,
        Protocol::Icmp => 58,
        Protocol::Other(number) => number,
    };
    if options.from.is_ipv4() != options.to.is_ipv4() {
        return Err(format!("`--from {}` and `--to {}` are of two families, and a packet is of one", options.from, options.to));
    }
    let port = match PortAsked::parse(protocol, options.port.map(|it| it.to_string()).as_deref())? {
        PortAsked::Number(port) => Some(port),
        PortAsked::None => None,
        PortAsked::Name(name) => return Err(format!("`--port {name}`: ports are 1 to 65535")),
    };
    Ok(Packet {
        at: options.at.clone(),
        source: options.from,
        destination: options.to,
        protocol: number,
        port,
        source_port: None,
        state: CtState::New,
        priority: 0,
        source_is_local: false,
        from_link: None,
        to_link: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BROKEN, SHOP, cluster};

    fn check(node: &str, from: &str, expected: Result<Outcome, &str>) {
        let options = TraceOptions {
            node: node.to_owned(),
            from: from.parse().unwrap(),
            to: "10.0.0.3".parse().unwrap(),
            port: Some(5432),
            protocol: "tcp".to_owned(),
            at: At::Forward,
        };
        let found = trace(&cluster(SHOP), &options).map(|it| it.outcome).map_err(|it| it.to_string());
        assert_eq!(found, expected.map_err(str::to_owned));
    }

    #[test]
    fn a_packet_is_accepted_or_dropped() {
        check("one", "10.0.0.1", Ok(Outcome::Yes));
        check("one", "10.0.0.2", Ok(Outcome::No));
        check("two", "10.0.0.1", Err("no node `two`; there are one"));
        check("one", "fd00::1", Err("`--from fd00::1` and `--to 10.0.0.3` are of two families, and a packet is of one"));
    }

    #[test]
    fn audited_policies_have_a_table_of_their_own() {
        let of = |texts: &str| tables(&cluster(texts), "one").unwrap().into_iter().map(|(table, _)| table).collect::<Vec<_>>();
        assert_eq!(of(SHOP), [Table::Own]);
        let audited = SHOP.replace("{name: db, namespace: shop}", "{name: db, namespace: shop, annotations: {palisade.dev/mode: audit}}");
        assert_eq!(of(&audited), [Table::Own, Table::Audit]);
    }

    #[test]
    fn refused_objects_have_no_ruleset() {
        assert!(matches!(ruleset(&cluster(BROKEN), "one"), Err(AppError::Refused { .. })));
    }
}
