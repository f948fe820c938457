//! From a packet that a node dropped to the answer that leaves the house, and that answer as one line.

use palisade_model::{Direction, PolicyRef, Protocol, Reason, RuleRef};

use crate::{explained, v1, words};

/// A packet that was dropped, and what is known about it.
#[derive(Clone, Debug)]
pub struct Denied<'a> {
    /// The source.
    pub from: v1::DenialSide,
    /// The destination.
    pub to: v1::DenialSide,
    /// The IP protocol.
    pub protocol: Protocol,
    /// The source's port.
    pub source_port: Option<u16>,
    /// The destination's port.
    pub port: Option<u16>,
    /// Type and code.
    pub icmp: Option<v1::DenialIcmp>,
    /// What dropped it.
    pub by: DecidedBy<'a>,
    /// How many packets of this connection so far.
    pub packets: u64,
}

/// What dropped a packet.
#[derive(Clone, Copy, Debug)]
pub enum DecidedBy<'a> {
    /// The policies at one of its ends.
    Policy {
        /// Which end.
        direction: Direction,
        /// What they say.
        reason: &'a Reason,
    },
    /// A rule of one of its ends that accepts only domain names, none of which was known to be this address.
    UnresolvedName {
        /// Which end.
        direction: Direction,
        /// The rule.
        rule: &'a RuleRef,
    },
    /// No policy: the packet broke a rule of the network.
    Broken(Broken),
    /// An origin that nobody knows any more, by its number.
    Unknown(u32),
}

/// What a packet must not be, whatever policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A pod sent it with a source that is not its own.
    ForgedSource,
    /// It is forwarded, and its source is an address of the node.
    ForgedNode,
    /// It belongs to no connection and cannot start one.
    InvalidState,
    /// TCP of an unknown connection that does not open one.
    NotABeginning,
    /// It is from or for a pod of the node whose policy is not in force yet.
    UnknownPod,
}

impl Broken {
    fn reason(self) -> &'static str {
        match self {
            Broken::ForgedSource => "forged-source",
            Broken::ForgedNode => "forged-node",
            Broken::InvalidState => "invalid-state",
            Broken::NotABeginning => "not-a-beginning",
            Broken::UnknownPod => "unknown-pod",
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Broken::ForgedSource => "forged source: not an address of this pod",
            Broken::ForgedNode => "forged source: an address of this node",
            Broken::InvalidState => "invalid connection state",
            Broken::NotABeginning => "not the beginning of a connection",
            Broken::UnknownPod => "a pod that is not known yet",
        }
    }
}

/// Writes down a denial.
pub fn denied(it: Denied<'_>) -> v1::Denial {
    let (direction, reason, rule, isolated_by) = match it.by {
        DecidedBy::Unknown(_) => (None, "unknown".to_owned(), None, Vec::new()),
        DecidedBy::Broken(broken) => (None, broken.reason().to_owned(), None, Vec::new()),
        DecidedBy::UnresolvedName { direction, rule } => {
            (Some(direction.to_string()), rule.to_string(), Some(written_rule(rule)), Vec::new())
        }
        DecidedBy::Policy { direction, reason } => {
            let (rule, isolated_by) = match reason {
                Reason::Rule(rule) => (Some(written_rule(rule)), Vec::new()),
                Reason::Isolated(policies) => (None, policies.iter().map(written_policy).collect()),
                Reason::NotAPod | Reason::Itself | Reason::OwnNode | Reason::Default => (None, Vec::new()),
            };
            (Some(direction.to_string()), reason.to_string(), rule, isolated_by)
        }
    };
    v1::Denial {
        api_version: v1::API_VERSION.to_owned(),
        kind: "Denial".to_owned(),
        from: it.from,
        to: it.to,
        protocol: it.protocol.to_string(),
        source_port: it.source_port,
        port: it.port,
        icmp: it.icmp,
        direction,
        reason,
        sentence: sentence(it.by),
        rule,
        isolated_by,
        packets: it.packets,
    }
}

/// What dropped a packet, in a sentence with the direction in front where it has one.
pub fn denied_by(by: DecidedBy<'_>) -> String {
    let direction = match by {
        DecidedBy::Policy { direction, .. } | DecidedBy::UnresolvedName { direction, .. } => format!("{direction}: "),
        DecidedBy::Broken(_) | DecidedBy::Unknown(_) => String::new(),
    };
    format!("{direction}{}", sentence(by))
}

/// A denial in one line, after the word `denied`.
pub(crate) fn told(it: &v1::Denial) -> String {
    let v1::Denial { from, to, protocol, port, icmp, direction, sentence, packets, .. } = it;
    let direction = direction.as_ref().map(|it| format!("{it}: ")).unwrap_or_default();
    let packets = if *packets == 1 { String::new() } else { format!("  ({packets} packets)") };
    format!("{}  {direction}{sentence}{packets}", ends(from, to, protocol, *port, *icmp))
}

/// Who called whom, and with which traffic.
pub(crate) fn ends(from: &v1::DenialSide, to: &v1::DenialSide, protocol: &str, port: Option<u16>, icmp: Option<v1::DenialIcmp>) -> String {
    format!("{} → {} {}", side(from), side(to), traffic(protocol, port, icmp))
}

pub(crate) fn traffic(protocol: &str, port: Option<u16>, icmp: Option<v1::DenialIcmp>) -> String {
    match (port, icmp) {
        (Some(port), _) => format!("{protocol}/{port}"),
        (None, Some(v1::DenialIcmp { r#type, code })) => format!("{protocol} type {type} code {code}"),
        (None, None) => protocol.to_owned(),
    }
}
pub(crate) fn side(it: &v1::DenialSide) -> String {
    match (&it.pod, &it.node) {
        (Some(pod), _) => format!("{pod} ({})", it.address),
        (None, Some(node)) => format!("node {node} ({})", it.address),
        (None, None) => it.address.clone(),
    }
}

fn sentence(by: DecidedBy<'_>) -> String {
    match by {
        DecidedBy::Unknown(number) => format!("denied by rules that have changed meanwhile (origin {number:08x})"),
        DecidedBy::Broken(broken) => broken.sentence().to_owned(),
        DecidedBy::UnresolvedName { rule, .. } => {
            format!("{} {} accepts a domain name, and none is known to be this address", words::policy(&rule.policy), words::rule(rule))
        }
        DecidedBy::Policy { reason: Reason::Rule(rule), .. } => {
            format!("{} {} denies", words::policy(&rule.policy), words::rule(rule))
        }
        DecidedBy::Policy { reason: Reason::Isolated(policies), .. } => {
            let policies: Vec<String> = policies.iter().map(words::policy).collect();
            format!("isolated by {}, no rule accepts", policies.join(", "))
        }
        DecidedBy::Policy { reason: reason @ (Reason::NotAPod | Reason::Itself | Reason::OwnNode | Reason::Default), direction } => {
            explained::reason(reason, direction)
        }
    }
}

pub(crate) fn written_rule(it: &RuleRef) -> v1::DenialRule {
    let v1::Policy { kind, namespace, name, .. } = written_policy(&it.policy);
    v1::DenialRule { kind, namespace, name, index: it.index, rule_name: it.name.as_deref().map(str::to_owned) }
}

pub(crate) fn written_policy(it: &PolicyRef) -> v1::Policy {
    v1::Policy {
        shape: None,
        priority: None,
        kind: it.kind.as_str().to_owned(),
        namespace: it.namespace.as_deref().map(str::to_owned),
        name: it.name.to_string(),
        place: None,
    }
}

#[cfg(test)]
mod tests {
    use palisade_model::PolicyKind;
    use serde_json::json;

    use super::*;

    fn line(it: &v1::Denial) -> String {
        anstream::adapter::strip_str(&crate::text::denial(it)).to_string()
    }

    fn side(pod: Option<&str>, node: Option<&str>, address: &str) -> v1::DenialSide {
        v1::DenialSide { pod: pod.map(str::to_owned), node: node.map(str::to_owned), address: address.to_owned() }
    }

    fn policy(namespace: Option<&str>, name: &str) -> PolicyRef {
        let kind = if namespace.is_some() { PolicyKind::NetworkPolicy } else { PolicyKind::ClusterNetworkPolicy };
        PolicyRef { kind, namespace: namespace.map(Into::into), name: name.into() }
    }

    fn web_to_db(by: DecidedBy<'_>) -> v1::Denial {
        denied(Denied {
            from: side(Some("shop/web"), None, "10.1.0.4"),
            to: side(Some("shop/db"), None, "10.1.0.7"),
            protocol: Protocol::TCP,
            source_port: Some(40_000),
            port: Some(5432),
            icmp: None,
            by,
            packets: 1,
        })
    }

    #[test]
    fn an_isolated_pod_names_what_isolates_it() {
        let reason = Reason::Isolated(vec![policy(Some("shop"), "db-ingress")]);
        let denial = web_to_db(DecidedBy::Policy { direction: Direction::Ingress, reason: &reason });
        let expected = "denied  shop/web (10.1.0.4) → shop/db (10.1.0.7) tcp/5432  ingress: isolated by NetworkPolicy shop/db-ingress, no rule accepts\n";
        assert_eq!(line(&denial), expected);
        let expected = json!({
            "apiVersion": "palisade.dev/v1", "kind": "Denial",
            "from": { "pod": "shop/web", "address": "10.1.0.4" }, "to": { "pod": "shop/db", "address": "10.1.0.7" },
            "protocol": "tcp", "sourcePort": 40000, "port": 5432, "direction": "ingress", "reason": "isolated",
            "sentence": "isolated by NetworkPolicy shop/db-ingress, no rule accepts",
            "isolatedBy": [{ "kind": "NetworkPolicy", "namespace": "shop", "name": "db-ingress" }],
            "packets": 1,
        });
        assert_eq!(serde_json::to_value(&denial).unwrap(), expected);
    }

    #[test]
    fn a_rule_is_named_with_its_policy() {
        let rule = RuleRef { policy: policy(None, "tenants"), direction: Direction::Egress, index: 1, name: Some("cross-tenant".into()) };
        let reason = Reason::Rule(rule);
        let denial = web_to_db(DecidedBy::Policy { direction: Direction::Egress, reason: &reason });
        let expected = "denied  shop/web (10.1.0.4) → shop/db (10.1.0.7) tcp/5432  egress: ClusterNetworkPolicy tenants rule 1 \"cross-tenant\" denies\n";
        assert_eq!(line(&denial), expected);
        let value = serde_json::to_value(&denial).unwrap();
        let expected = json!({ "kind": "ClusterNetworkPolicy", "name": "tenants", "index": 1, "ruleName": "cross-tenant" });
        assert_eq!((&value["rule"], &value["reason"], &value["isolatedBy"]), (&expected, &json!("cnp/tenants#1"), &json!(null)));
    }

    #[test]
    fn a_rule_that_accepts_names_only_is_not_said_to_deny() {
        let rule = RuleRef { policy: policy(None, "web"), direction: Direction::Egress, index: 0, name: None };
        let denial = web_to_db(DecidedBy::UnresolvedName { direction: Direction::Egress, rule: &rule });
        let expected = "ClusterNetworkPolicy web rule 0 accepts a domain name, and none is known to be this address";
        assert_eq!((denial.sentence.as_str(), denial.reason.as_str()), (expected, "cnp/web#0"));
        assert_eq!(denied_by(DecidedBy::UnresolvedName { direction: Direction::Egress, rule: &rule }), format!("egress: {expected}"));
    }

    #[test]
    fn what_is_dropped_before_policy_has_a_reason_and_no_direction() {
        let check = |broken, reason: &str, sentence: &str| {
            let denial = v1::Denial { from: side(None, None, "192.0.2.7"), ..web_to_db(DecidedBy::Broken(broken)) };
            assert_eq!((denial.reason.as_str(), &denial.direction), (reason, &None));
            assert_eq!(line(&denial), format!("denied  192.0.2.7 → shop/db (10.1.0.7) tcp/5432  {sentence}\n"));
        };
        check(Broken::ForgedSource, "forged-source", "forged source: not an address of this pod");
        check(Broken::ForgedNode, "forged-node", "forged source: an address of this node");
        check(Broken::InvalidState, "invalid-state", "invalid connection state");
        check(Broken::NotABeginning, "not-a-beginning", "not the beginning of a connection");
        check(Broken::UnknownPod, "unknown-pod", "a pod that is not known yet");
    }

    #[test]
    fn what_is_not_known_any_more_is_said() {
        let denial = web_to_db(DecidedBy::Unknown(42));
        let expected =
            "denied  shop/web (10.1.0.4) → shop/db (10.1.0.7) tcp/5432  denied by rules that have changed meanwhile (origin 0000002a)\n";
        assert_eq!(line(&denial), expected);
        assert_eq!((denial.reason.as_str(), denial.direction), ("unknown", None));
    }

    #[test]
    fn ends_and_traffic_without_a_name_show_what_there_is() {
        let reason = Reason::Isolated(vec![policy(Some("a"), "b"), policy(Some("a"), "c")]);
        let by = DecidedBy::Policy { direction: Direction::Ingress, reason: &reason };
        let icmp = Some(v1::DenialIcmp { r#type: 8, code: 0 });
        let denial = v1::Denial {
            from: side(None, Some("n1"), "192.0.2.1"),
            to: side(None, None, "fd00::1"),
            protocol: "icmp".to_owned(),
            port: None,
            icmp,
            packets: 3,
            ..web_to_db(by)
        };
        let tail = "ingress: isolated by NetworkPolicy a/b, NetworkPolicy a/c, no rule accepts  (3 packets)";
        assert_eq!(line(&denial), format!("denied  node n1 (192.0.2.1) → fd00::1 icmp type 8 code 0  {tail}\n"));
        let denial = v1::Denial { icmp: None, protocol: "protocol 47".to_owned(), ..denial };
        assert_eq!(line(&denial), format!("denied  node n1 (192.0.2.1) → fd00::1 protocol 47  {tail}\n"));
    }
}
