//! From live connections that a node has ended to the answer that leaves the house, and that answer as one line.

use palisade_model::Protocol;

use crate::denied::{DecidedBy, Denied, denied, side};
use crate::v1;

/// Connections that were ended.
#[derive(Clone, Debug)]
pub struct Ended<'a> {
    /// The node that did so.
    pub node: &'a str,
    /// Who opened them.
    pub from: v1::DenialSide,
    /// Who was called.
    pub to: v1::DenialSide,
    /// The IP protocol.
    pub protocol: Protocol,
    /// The port that was called.
    pub port: Option<u16>,
    /// Why.
    pub by: EndedBy<'a>,
    /// How many these were.
    pub connections: u64,
}

/// Why connections were ended.
#[derive(Clone, Copy, Debug)]
pub enum EndedBy<'a> {
    /// This denies them now.
    Denied(DecidedBy<'a>),
    /// The pod of this name, at one end, is gone.
    Gone(&'a str),
}

/// Writes down connections that were ended.
pub fn ended(it: Ended<'_>) -> v1::Cut {
    let Ended { node, from, to, protocol, port, by, connections } = it;
    let cut = |direction, reason, sentence, rule, isolated_by| v1::Cut {
        api_version: v1::API_VERSION.to_owned(),
        kind: "Cut".to_owned(),
        node: node.to_owned(),
        from: from.clone(),
        to: to.clone(),
        protocol: protocol.to_string(),
        port,
        direction,
        reason,
        sentence,
        rule,
        isolated_by,
        connections,
    };
    match by {
        EndedBy::Gone(pod) => cut(None, "pod-gone".to_owned(), format!("pod {pod} is gone"), None, Vec::new()),
        EndedBy::Denied(by) => {
            let (from, to) = (from.clone(), to.clone());
            let now = denied(Denied { from, to, protocol, source_port: None, port, icmp: None, by, packets: 0 });
            cut(now.direction, now.reason, now.sentence, now.rule, now.isolated_by)
        }
    }
}

/// One line, after the word `cut`.
pub(crate) fn told(it: &v1::Cut) -> String {
    let v1::Cut { node, from, to, protocol, port, direction, sentence, connections, .. } = it;
    let port = port.map(|it| format!("/{it}")).unwrap_or_default();
    let direction = direction.as_ref().map(|it| format!("{it}: ")).unwrap_or_default();
    let connections = if *connections == 1 { String::new() } else { format!("  ({connections} connections)") };
    // Each end's node cuts a connection for itself.
    format!("{} → {} {protocol}{port}  {direction}{sentence}{connections}  on node {node}", side(from), side(to))
}

#[cfg(test)]
mod tests {
    use palisade_model::{Direction, PolicyKind, PolicyRef, Reason};
    use serde_json::json;

    use super::*;

    fn line(it: &v1::Cut) -> String {
        anstream::adapter::strip_str(&crate::text::cut(it)).to_string()
    }

    fn web_to_db(by: EndedBy<'_>, connections: u64) -> v1::Cut {
        let side = |pod: &str, address: &str| v1::DenialSide { pod: Some(pod.to_owned()), node: None, address: address.to_owned() };
        let (from, to) = (side("shop/web", "10.1.0.4"), side("shop/db", "10.1.0.7"));
        ended(Ended { node: "n1", from, to, protocol: Protocol::TCP, port: Some(5432), by, connections })
    }

    #[test]
    fn what_denies_connections_now_is_named() {
        let policy = PolicyRef { kind: PolicyKind::NetworkPolicy, namespace: Some("shop".into()), name: "db".into() };
        let reason = Reason::Isolated(vec![policy]);
        let cut = web_to_db(EndedBy::Denied(DecidedBy::Policy { direction: Direction::Ingress, reason: &reason }), 3);
        let expected = "cut     shop/web (10.1.0.4) → shop/db (10.1.0.7) tcp/5432  ingress: isolated by NetworkPolicy shop/db, no rule accepts  (3 connections)  on node n1\n";
        assert_eq!(line(&cut), expected);
        let expected = json!({
            "apiVersion": "palisade.dev/v1", "kind": "Cut", "node": "n1",
            "from": { "pod": "shop/web", "address": "10.1.0.4" }, "to": { "pod": "shop/db", "address": "10.1.0.7" },
            "protocol": "tcp", "port": 5432, "direction": "ingress", "reason": "isolated",
            "sentence": "isolated by NetworkPolicy shop/db, no rule accepts",
            "isolatedBy": [{ "kind": "NetworkPolicy", "namespace": "shop", "name": "db" }],
            "connections": 3,
        });
        assert_eq!(serde_json::to_value(&cut).unwrap(), expected);
    }

    #[test]
    fn a_pod_that_is_gone_is_named() {
        let cut = web_to_db(EndedBy::Gone("shop/web"), 1);
        assert_eq!(line(&cut), "cut     shop/web (10.1.0.4) → shop/db (10.1.0.7) tcp/5432  pod shop/web is gone  on node n1\n");
        assert_eq!((cut.reason.as_str(), cut.direction), ("pod-gone", None));
    }
}
