//! policy.networking.k8s.io/v1alpha2 ClusterNetworkPolicy, standard and experimental channel.
//!
//! The API is expected to grow: a peer, protocol or field that nothing here resembles makes its rule fail closed (`choice`).

use palisade_model::{Action, Direction, PerDirection, PortMatch, PortProtocol, Ports};

use crate::choice::{Dialect, Entry};
use crate::cluster_rule::{ClusterPeer, ClusterRule, NamedPorts, SubjectPods};
use crate::meta::Meta;
use crate::problem::Consequence;
use crate::read::{NullLabels, Reader};
use crate::tree::Node;

/// A ClusterNetworkPolicy.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterNetworkPolicy {
    pub meta: Meta,
    pub tier: CnpTier,
    pub priority: i64,
    pub subject: Entry<SubjectPods>,
    pub rules: PerDirection<Vec<ClusterRule>>,
}

/// `spec.tier`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CnpTier {
    Admin,
    Baseline,
}

const SPEC: &[&str] = &["tier", "priority", "subject", "ingress", "egress"];
const ACTIONS: &[Action] = &[Action::Accept, Action::Deny, Action::Pass];
const NAMED: NamedPorts = NamedPorts { list: "protocols", key: "destinationNamedPort" };
const SUBJECT: &[&str] = &["namespaces", "pods"];
const PODS: &[&str] = &["namespaceSelector", "podSelector"];
const INGRESS: &[&str] = &["name", "action", "from", "protocols"];
const EGRESS: &[&str] = &["name", "action", "to", "protocols"];
const INGRESS_PEER: &[&str] = &["namespaces", "pods"];
const EGRESS_PEER: &[&str] = &["namespaces", "pods", "networks", "nodes", "domainNames"];
const PROTOCOL: &[&str] = &["tcp", "udp", "sctp", "destinationNamedPort"];
const LAYER4: &[&str] = &["destinationPort"];
const DESTINATION: &[&str] = &["number", "range"];
const RANGE: &[&str] = &["start", "end"];

impl Reader {
    pub(crate) fn cluster_network_policy(&mut self, node: &Node<'_>) -> Option<ClusterNetworkPolicy> {
        let meta = self.meta(node);
        self.null_labels = NullLabels::Dropped;
        self.dialect = Dialect::Accept;
        let fields = self.fields(node)?;
        self.only(&fields, &["apiVersion", "kind", "metadata", "spec", "status"]);
        self.required(&fields, "spec", |r, spec| {
            let fields = r.fields(spec)?;
            r.only(&fields, SPEC);
            let tier = r.required(&fields, "tier", Reader::cnp_tier);
            let priority = r.required(&fields, "priority", |r, node| r.bounded::<i64>(node, 0, 1000));
            let subject = r.required(&fields, "subject", |r, node| {
                r.subject(node, SUBJECT, |r, key, node| match key {
                    "namespaces" => r.selector(node).map(SubjectPods::all_of),
                    _ => r.cnp_pods(node),
                })
            });
            r.count(&fields, "ingress", 0, 25);
            r.count(&fields, "egress", 0, 25);
            let ingress = r.cluster_rules(&fields, "ingress", |r, node| r.cnp_rule(node, Direction::Ingress));
            let egress = r.cluster_rules(&fields, "egress", |r, node| r.cnp_rule(node, Direction::Egress));
            let domains = egress.iter().flat_map(|rule| &rule.peers).any(|peer| matches!(peer, Entry::Known(ClusterPeer::Domains(_))));
            if domains && tier == Some(CnpTier::Baseline) {
                let message = "domainNames work in the Baseline tier here, but newer versions of the API refuse them";
                r.problem(Consequence::Narrowed, "domain-names-in-baseline", spec.span, message, None);
            }
            Some(ClusterNetworkPolicy {
                meta,
                tier: tier?,
                priority: priority?,
                subject: subject?,
                rules: PerDirection { ingress, egress },
            })
        })
    }

    /// SPEC: semantics 2.4: a policy of an unknown tier is ignored, loudly.
    fn cnp_tier<'n>(&mut self, node: &'n Node<'n>) -> Option<CnpTier> {
        match self.string(node)? {
            "Admin" => Some(CnpTier::Admin),
            "Baseline" => Some(CnpTier::Baseline),
            other => {
                self.invalid(node.span, format!("`{other}` is not a tier: Admin or Baseline"));
                None
            }
        }
    }

    fn cnp_pods<'n>(&mut self, node: &'n Node<'n>) -> Option<SubjectPods> {
        let fields = self.fields(node)?;
        self.only(&fields, PODS);
        let namespaces = self.optional(&fields, "namespaceSelector", Reader::selector).unwrap_or_default();
        let pods = self.required(&fields, "podSelector", Reader::selector)?;
        Some(SubjectPods { namespaces, pods })
    }

    fn cnp_rule<'n>(&mut self, node: &'n Node<'n>, direction: Direction) -> Option<ClusterRule> {
        let fields = self.fields(node)?;
        let (known, list) = match direction {
            Direction::Ingress => (INGRESS, "from"),
            Direction::Egress => (EGRESS, "to"),
        };
        let unknown = self.newer_fields(&fields, known);
        let name = self.optional(&fields, "name", Reader::rule_name);
        let action = self.required(&fields, "action", |r, node| r.action(node, ACTIONS))?;
        self.required(&fields, list, |_, _| Some(()));
        self.count(&fields, list, 1, 25);
        let peers = self.list(&fields, list, |r, node| r.cnp_peer(node, direction));
        self.count(&fields, "protocols", 1, 25);
        let ports = fields.get("protocols").map(|_| self.list(&fields, "protocols", Reader::cnp_protocol));
        self.named_port_needs_pods(&fields, list, NAMED);
        let unknown = unknown.or_else(|| self.domains_only_accept(node, &action, &peers));
        Some(ClusterRule { name, action, peers, ports, unknown })
    }

    fn cnp_peer<'n>(&mut self, node: &'n Node<'n>, direction: Direction) -> Option<Entry<ClusterPeer>> {
        let known = match direction {
            Direction::Ingress => INGRESS_PEER,
            Direction::Egress => EGRESS_PEER,
        };
        self.one_of(node, known, |r, key, node| match key {
            "namespaces" => r.selector(node).map(SubjectPods::all_of).map(ClusterPeer::matching),
            "pods" => r.cnp_pods(node).map(ClusterPeer::matching),
            "networks" => r.networks(node).map(ClusterPeer::Networks),
            "nodes" => r.selector(node).map(ClusterPeer::Nodes),
            _ => r.domains(node).map(ClusterPeer::Domains),
        })
    }

    fn cnp_protocol<'n>(&mut self, node: &'n Node<'n>) -> Option<Entry<PortMatch>> {
        let entry = self.one_of(node, PROTOCOL, |r, key, node| match key {
            "tcp" => r.layer4(node, PortProtocol::Tcp),
            "udp" => r.layer4(node, PortProtocol::Udp),
            "sctp" => r.layer4(node, PortProtocol::Sctp),
            _ => r.any_named_port(node),
        })?;
        Some(entry.flatten())
    }

    fn layer4<'n>(&mut self, node: &'n Node<'n>, protocol: PortProtocol) -> Option<Entry<PortMatch>> {
        let entry = self.one_of(node, LAYER4, |r, _, node| {
            r.one_of(node, DESTINATION, |r, key, node| match key {
                "number" => r.port(node).map(Ports::one),
                _ => r.cnp_range(node),
            })
        })?;
        Some(entry.flatten().map(|ports| PortMatch::Numbers { protocol, ports }))
    }

    fn cnp_range<'n>(&mut self, node: &'n Node<'n>) -> Option<Ports> {
        let fields = self.fields(node)?;
        self.only(&fields, RANGE);
        let start = self.required(&fields, "start", |r, node| r.port(node))?;
        let end = self.required(&fields, "end", |r, node| r.port(node))?;
        if start >= end {
            let help = "write `number` for a single port";
            self.invalid_with_help(node.span, format!("start `{start}` must be below end `{end}`"), help);
            return None;
        }
        Ports::range(start, end)
    }
}
