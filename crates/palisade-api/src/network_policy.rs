//! networking.k8s.io/v1 NetworkPolicy.

use palisade_model::{Direction, IpBlock, LabelSelector, PerDirection, PortMatch, PortProtocol, Ports};

use crate::meta::Meta;
use crate::problem::Consequence;
use crate::read::{Fields, Reader};
use crate::syntax::{self, Oddity};
use crate::tree::{Node, Value};

/// A NetworkPolicy, defaulted.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkPolicy {
    pub meta: Meta,
    pub pod_selector: LabelSelector,
    /// The directions in `policyTypes`, or its default.
    pub types: PerDirection<bool>,
    pub rules: PerDirection<Vec<NpRule>>,
}

/// One rule. An empty list of peers or ports restricts nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct NpRule {
    pub peers: Vec<NpPeer>,
    pub ports: Vec<PortMatch>,
}

/// One peer.
#[derive(Clone, Debug, PartialEq)]
pub enum NpPeer {
    Pods {
        /// Absent: the policy's own namespace.
        namespaces: Option<LabelSelector>,
        /// Absent: all pods.
        pods: Option<LabelSelector>,
    },
    IpBlock(IpBlock),
    /// The empty object, which the API server refuses and which matches nothing.
    Empty,
}

const SPEC: &[&str] = &["podSelector", "policyTypes", "ingress", "egress"];
const INGRESS: &[&str] = &["from", "ports"];
const EGRESS: &[&str] = &["to", "ports"];
const PEER: &[&str] = &["podSelector", "namespaceSelector", "ipBlock"];
const IP_BLOCK: &[&str] = &["cidr", "except"];
const PORT: &[&str] = &["protocol", "port", "endPort"];

impl Reader {
    pub(crate) fn network_policy(&mut self, node: &Node<'_>) -> Option<NetworkPolicy> {
        let meta = self.meta(node);
        let fields = self.fields(node)?;
        // SPEC: semantics 1.1: there is no status; a tombstone of old clients may carry one, and it is harmless.
        self.only(&fields, &["apiVersion", "kind", "metadata", "spec", "status"]);
        let mut policy =
            NetworkPolicy { meta, pod_selector: LabelSelector::default(), types: PerDirection::default(), rules: PerDirection::default() };
        let Some(spec) = node.get("spec") else {
            // SPEC: semantics 1.1: everything is defaulted, so this isolates every pod of the namespace for ingress.
            policy.types.ingress = true;
            return Some(policy);
        };
        self.within("spec", |r| {
            let fields = r.fields(spec)?;
            r.only(&fields, SPEC);
            policy.pod_selector = r.optional(&fields, "podSelector", Reader::selector).unwrap_or_default();
            policy.rules.ingress = r.list(&fields, "ingress", |r, node| r.np_rule(node, Direction::Ingress));
            policy.rules.egress = r.list(&fields, "egress", |r, node| r.np_rule(node, Direction::Egress));
            policy.types = r.policy_types(&fields, !policy.rules.egress.is_empty());
            Some(policy)
        })
    }

    /// SPEC: semantics 1.1: empty or missing means Ingress, and Egress too if there is an egress rule.
    fn policy_types(&mut self, fields: &Fields<'_>, has_egress_rules: bool) -> PerDirection<bool> {
        self.count(fields, "policyTypes", 0, 2);
        let listed = self.list(fields, "policyTypes", |r, node| match r.string(node)? {
            "Ingress" => Some(Direction::Ingress),
            "Egress" => Some(Direction::Egress),
            other => {
                r.invalid(node.span, format!("`{other}` is not a policy type: Ingress or Egress"));
                None
            }
        });
        match listed.is_empty() {
            true => PerDirection { ingress: true, egress: has_egress_rules },
            false => PerDirection { ingress: listed.contains(&Direction::Ingress), egress: listed.contains(&Direction::Egress) },
        }
    }

    fn np_rule<'n>(&mut self, node: &'n Node<'n>, direction: Direction) -> Option<NpRule> {
        // A null item decodes to the empty rule, which allows everything: nobody means that.
        if node.value == Value::Null {
            self.invalid_with_help(
                node.span,
                "an empty item would be a rule that allows everything",
                "write `{}` if that is meant, or remove it",
            );
            return None;
        }
        let fields = self.fields(node)?;
        let (known, peers) = match direction {
            Direction::Ingress => (INGRESS, "from"),
            Direction::Egress => (EGRESS, "to"),
        };
        self.only(&fields, known);
        let peers = self.list(&fields, peers, Reader::np_peer);
        let ports =
            self.list(&fields, "ports", |r, node| r.port_entry(node, |protocol| PortMatch::Numbers { protocol, ports: Ports::ALL }));
        Some(NpRule { peers, ports })
    }

    fn np_peer<'n>(&mut self, node: &'n Node<'n>) -> Option<NpPeer> {
        if node.value == Value::Null {
            return Some(self.empty_peer(node));
        }
        let fields = self.fields(node)?;
        self.only(&fields, PEER);
        let pods = self.optional(&fields, "podSelector", Reader::selector);
        let namespaces = self.optional(&fields, "namespaceSelector", Reader::selector);
        let block = fields.get("ipBlock");
        match (block, fields.get("podSelector").or(fields.get("namespaceSelector"))) {
            (Some(block), Some(_)) => {
                let help = "start a second entry with `- ` if either should match";
                self.invalid_with_help(block.span, "ipBlock cannot be combined with a selector in one entry", help);
                None
            }
            (Some(block), None) => self.within("ipBlock", |r| r.ip_block(block)).map(NpPeer::IpBlock),
            (None, Some(_)) => Some(NpPeer::Pods { namespaces, pods }),
            (None, None) => Some(self.empty_peer(node)),
        }
    }

    /// SPEC: semantics 1.1: refused by the API server; an offline reader takes it as matching nothing.
    fn empty_peer(&mut self, node: &Node<'_>) -> NpPeer {
        let help = Some("write `podSelector: {}` for the pods of this namespace, or leave out the list for everyone".to_owned());
        self.problem(
            Consequence::Untrusted,
            "empty-peer",
            node.span,
            "an empty peer is refused by the API server and matches nothing",
            help,
        );
        NpPeer::Empty
    }

    fn ip_block<'n>(&mut self, node: &'n Node<'n>) -> Option<IpBlock> {
        let fields = self.fields(node)?;
        self.only(&fields, IP_BLOCK);
        let cidr = self.required(&fields, "cidr", |r, node| r.cidr(node, Spelling::Stored))?;
        let except = self.list(&fields, "except", |r, node| {
            let except = r.cidr(node, Spelling::Stored)?;
            let inside = cidr.contains(&except) && cidr.prefix_len() < except.prefix_len();
            if !inside {
                r.invalid(node.span, format!("`{except}` is not a part of `{cidr}`"));
            }
            inside.then_some(except)
        });
        Some(IpBlock { cidr, except })
    }

    /// A CIDR. Odd spellings are taken with a warning where stored objects may have them.
    pub(crate) fn cidr(&mut self, node: &Node<'_>, spelling: Spelling) -> Option<ipnet::IpNet> {
        let text = node.as_str().or_else(|| {
            self.string(node);
            None
        })?;
        match syntax::cidr(text) {
            Err(message) => {
                self.invalid(node.span, message);
                None
            }
            Ok(syntax::Cidr { net, oddity: None }) => Some(net),
            Ok(syntax::Cidr { net, oddity: Some(oddity) }) => {
                let (consequence, message) = match (oddity, spelling) {
                    (Oddity::Spelling(message), Spelling::Strict) => (Consequence::Refused, message),
                    (Oddity::Spelling(message), Spelling::Stored) | (Oddity::HostBits(message), _) => (Consequence::Narrowed, message),
                };
                self.problem(consequence, "odd-cidr", node.span, message, None);
                Some(net)
            }
        }
    }

    /// Ports of one protocol; `portless` says what an entry matches that names none.
    pub(crate) fn port_entry<'n>(&mut self, node: &'n Node<'n>, portless: fn(PortProtocol) -> PortMatch) -> Option<PortMatch> {
        if node.value == Value::Null {
            let meant = match portless(PortProtocol::Tcp) {
                PortMatch::Unreadable => "no port at all",
                PortMatch::Numbers { .. } | PortMatch::Named { .. } => "all TCP ports",
            };
            self.invalid(node.span, format!("an empty item would be {meant}; write `{{protocol: TCP}}` if that is meant"));
            return None;
        }
        let fields = self.fields(node)?;
        self.only(&fields, PORT);
        let protocol = match fields.get("protocol") {
            None => PortProtocol::Tcp,
            // Only what is absent is defaulted here; of container ports the empty one is, too.
            Some(node) if node.as_str() == Some("") => {
                self.within("protocol", |r| r.invalid(node.span, "an empty protocol; write TCP, UDP or SCTP"));
                return None;
            }
            Some(node) => self.within("protocol", |r| r.port_protocol(node))?,
        };
        let end = self.optional(&fields, "endPort", |r, node| r.port(node).map(|port| (port, node.span)));
        let end_given = fields.get("endPort").is_some();
        let end_span = fields.get("endPort").map_or(node.span, |it| it.span);
        let Some(port) = fields.get("port") else {
            if end_given {
                self.within("endPort", |r| r.invalid(end_span, "endPort needs a port to start from"));
                return None;
            }
            return Some(portless(protocol));
        };
        if let Value::Str(name) = &port.value {
            self.within("port", |r| r.spelt(port, syntax::port_name))?;
            if end_given {
                self.within("endPort", |r| r.invalid(end_span, format!("endPort cannot be combined with the named port `{name}`")));
                return None;
            }
            return Some(PortMatch::Named { protocol: Some(protocol), name: name.as_ref().into() });
        }
        let first = self.within("port", |r| r.port(port))?;
        match (end, end_given) {
            (Some((last, span)), _) => {
                let ports = Ports::range(first, last);
                if ports.is_none() {
                    self.within("endPort", |r| r.invalid(span, format!("endPort `{last}` is below port `{first}`")));
                }
                Some(PortMatch::Numbers { protocol, ports: ports? })
            }
            (None, true) => None,
            (None, false) => Some(PortMatch::Numbers { protocol, ports: Ports::one(first) }),
        }
    }

    pub(crate) fn port_protocol<'n>(&mut self, node: &'n Node<'n>) -> Option<PortProtocol> {
        match self.string(node)? {
            "TCP" | "" => Some(PortProtocol::Tcp),
            "UDP" => Some(PortProtocol::Udp),
            "SCTP" => Some(PortProtocol::Sctp),
            other => {
                self.invalid(node.span, format!("`{other}` is not a protocol: TCP, UDP or SCTP"));
                None
            }
        }
    }
}

/// How strictly a CIDR must be spelt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// As old API servers stored it.
    Stored,
    /// As a CRD with a CEL rule takes it.
    Strict,
}
