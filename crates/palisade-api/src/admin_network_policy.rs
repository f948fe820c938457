//! policy.networking.k8s.io/v1alpha1 AdminNetworkPolicy and BaselineAdminNetworkPolicy, in both shapes that were shipped: that of v0.1.0 to v0.1.2,
//! whose peers may be relative to the subject, and that of v0.1.7. SPEC: semantics 2.7 to 2.9.

use palisade_model::{Action, Direction, LabelSelector, PerDirection, PortMatch, PortProtocol, Ports, Shape};

use crate::choice::{Dialect, Entry};
use crate::cluster_rule::{ClusterPeer, ClusterRule, NamedPorts, PeerNamespaces, PeerPods, SubjectPods};
use crate::meta::Meta;
use crate::problem::Consequence;
use crate::read::{Fields, NullLabels, Reader};
use crate::syntax;
use crate::tree::{Node, Value};

/// An AdminNetworkPolicy in a shape that was shipped.
#[derive(Clone, Debug, PartialEq)]
pub struct AdminNetworkPolicy {
    pub meta: Meta,
    /// Early or late.
    pub shape: Shape,
    /// Smaller first.
    pub priority: i64,
    pub subject: Entry<SubjectPods>,
    pub rules: PerDirection<Vec<ClusterRule>>,
}

/// The BaselineAdminNetworkPolicy, of which a cluster has one.
#[derive(Clone, Debug, PartialEq)]
pub struct BaselineAdminNetworkPolicy {
    pub meta: Meta,
    /// Early or late.
    pub shape: Shape,
    pub subject: Entry<SubjectPods>,
    pub rules: PerDirection<Vec<ClusterRule>>,
}

/// What is read, besides the shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Admin(Shape),
    Baseline(Shape),
}

const OBJECT: &[&str] = &["apiVersion", "kind", "metadata", "spec", "status"];
const SPEC: &[&str] = &["priority", "subject", "ingress", "egress"];
const BASELINE_SPEC: &[&str] = &["subject", "ingress", "egress"];
const SUBJECT: &[&str] = &["namespaces", "pods"];
const PODS: &[&str] = &["namespaceSelector", "podSelector"];
const EARLY_PODS: &[&str] = &["namespaces", "podSelector"];
const EARLY_NAMESPACES: &[&str] = &["namespaceSelector", "sameLabels", "notSameLabels"];
const INGRESS: &[&str] = &["name", "action", "from", "ports"];
const EGRESS: &[&str] = &["name", "action", "to", "ports"];
const PEER: &[&str] = &["namespaces", "pods"];
const EGRESS_PEER: &[&str] = &["namespaces", "pods", "networks", "nodes", "domainNames"];
const BASELINE_EGRESS_PEER: &[&str] = &["namespaces", "pods", "networks", "nodes"];
const PORT: &[&str] = &["portNumber", "portRange", "namedPort"];
const NUMBER: &[&str] = &["protocol", "port"];
const RANGE: &[&str] = &["protocol", "start", "end"];
const NAMED: NamedPorts = NamedPorts { list: "ports", key: "namedPort" };
const ADMIN_ACTIONS: &[Action] = &[Action::Accept, Action::Deny, Action::Pass];
const BASELINE_ACTIONS: &[Action] = &[Action::Accept, Action::Deny];

impl Of {
    fn shape(self) -> Shape {
        match self {
            Of::Admin(shape) | Of::Baseline(shape) => shape,
        }
    }

    fn actions(self) -> &'static [Action] {
        match self {
            Of::Admin(_) => ADMIN_ACTIONS,
            Of::Baseline(_) => BASELINE_ACTIONS,
        }
    }

    fn peers(self, direction: Direction) -> &'static [&'static str] {
        match (self, self.shape(), direction) {
            (_, _, Direction::Ingress) | (_, Shape::Early, Direction::Egress) => PEER,
            (Of::Admin(_), Shape::Only | Shape::Late | Shape::Kep2091, Direction::Egress) => EGRESS_PEER,
            (Of::Baseline(_), Shape::Only | Shape::Late | Shape::Kep2091, Direction::Egress) => BASELINE_EGRESS_PEER,
        }
    }
}

impl Reader {
    pub(crate) fn admin_network_policy<'n>(&mut self, node: &'n Node<'n>, shape: Shape) -> Option<AdminNetworkPolicy> {
        let meta = self.anp_meta(node);
        let fields = self.fields(node)?;
        self.only(&fields, OBJECT);
        self.required(&fields, "spec", |r, spec| {
            let fields = r.fields(spec)?;
            r.only(&fields, SPEC);
            let priority = r.required(&fields, "priority", |r, node| r.bounded::<i64>(node, 0, 1000));
            let (subject, rules) = r.anp_spec(&fields, Of::Admin(shape));
            Some(AdminNetworkPolicy { meta, shape, priority: priority?, subject: subject?, rules })
        })
    }

    pub(crate) fn baseline_admin_network_policy<'n>(&mut self, node: &'n Node<'n>, shape: Shape) -> Option<BaselineAdminNetworkPolicy> {
        let meta = self.anp_meta(node);
        if meta.name != "default" {
            let span = node.get("metadata").and_then(|it| it.get("name")).map_or(node.span, |it| it.span);
            let message = "a cluster has one BaselineAdminNetworkPolicy, and its name is `default`";
            self.within("metadata", |r| r.within("name", |r| r.invalid_with_help(span, message, "write `name: default`")));
        }
        let fields = self.fields(node)?;
        self.only(&fields, OBJECT);
        self.required(&fields, "spec", |r, spec| {
            let fields = r.fields(spec)?;
            r.only(&fields, BASELINE_SPEC);
            let (subject, rules) = r.anp_spec(&fields, Of::Baseline(shape));
            Some(BaselineAdminNetworkPolicy { meta, shape, subject: subject?, rules })
        })
    }

    fn anp_meta(&mut self, node: &Node<'_>) -> Meta {
        let meta = self.meta(node);
        self.null_labels = NullLabels::Dropped;
        self.dialect = Dialect::Allow;
        meta
    }

    fn anp_spec<'n>(&mut self, fields: &Fields<'n>, of: Of) -> (Option<Entry<SubjectPods>>, PerDirection<Vec<ClusterRule>>) {
        let subject = self.required(fields, "subject", |r, node| {
            r.subject(node, SUBJECT, |r, key, node| match key {
                "namespaces" => r.selector(node).map(SubjectPods::all_of),
                _ => r.pods_by_both(node),
            })
        });
        // SPEC: semantics 2.7: 100 each, although the text of the API says 100 in total.
        self.count(fields, "ingress", 0, 100);
        self.count(fields, "egress", 0, 100);
        let ingress = self.cluster_rules(fields, "ingress", |r, node| r.anp_rule(node, Direction::Ingress, of));
        let egress = self.cluster_rules(fields, "egress", |r, node| r.anp_rule(node, Direction::Egress, of));
        (subject, PerDirection { ingress, egress })
    }

    /// Pods by two selectors, neither of which may be left out.
    pub(crate) fn pods_by_both<'n>(&mut self, node: &'n Node<'n>) -> Option<SubjectPods> {
        let fields = self.fields(node)?;
        self.only(&fields, PODS);
        let namespaces = self.required(&fields, "namespaceSelector", Reader::selector);
        let pods = self.required(&fields, "podSelector", Reader::selector);
        Some(SubjectPods { namespaces: namespaces?, pods: pods? })
    }

    fn anp_rule<'n>(&mut self, node: &'n Node<'n>, direction: Direction, of: Of) -> Option<ClusterRule> {
        let fields = self.fields(node)?;
        let (known, list) = match direction {
            Direction::Ingress => (INGRESS, "from"),
            Direction::Egress => (EGRESS, "to"),
        };
        let unknown = self.newer_fields(&fields, known);
        let name = self.optional(&fields, "name", Reader::rule_name);
        let action = self.required(&fields, "action", |r, node| r.action(node, of.actions()))?;
        self.required(&fields, list, |_, _| Some(()));
        self.count(&fields, list, 1, 100);
        let peers = self.list(&fields, list, |r, node| r.anp_peer(node, direction, of));
        self.count(&fields, "ports", 1, 100);
        let ports = fields.get("ports").map(|_| self.list(&fields, "ports", Reader::anp_port));
        self.named_port_needs_pods(&fields, list, NAMED);
        let unknown = unknown.or_else(|| self.domains_only_accept(node, &action, &peers));
        Some(ClusterRule { name, action, peers, ports, unknown })
    }

    fn anp_peer<'n>(&mut self, node: &'n Node<'n>, direction: Direction, of: Of) -> Option<Entry<ClusterPeer>> {
        let early = of.shape() == Shape::Early;
        let peer = self.one_of(node, of.peers(direction), |r, key, node| match key {
            "namespaces" if early => r.early_namespaces(node).map(|it| it.map(all_pods_of)),
            "pods" if early => r.early_pods(node),
            "namespaces" => r.selector(node).map(SubjectPods::all_of).map(ClusterPeer::matching).map(Entry::Known),
            "pods" => r.pods_by_both(node).map(ClusterPeer::matching).map(Entry::Known),
            "networks" => r.networks(node).map(ClusterPeer::Networks).map(Entry::Known),
            "nodes" => r.selector(node).map(ClusterPeer::Nodes).map(Entry::Known),
            _ => r.domains(node).map(ClusterPeer::Domains).map(Entry::Known),
        })?;
        Some(peer.flatten())
    }

    fn early_namespaces<'n>(&mut self, node: &'n Node<'n>) -> Option<Entry<PeerNamespaces>> {
        self.one_of(node, EARLY_NAMESPACES, |r, key, node| match key {
            "namespaceSelector" => r.selector(node).map(PeerNamespaces::Matching),
            "sameLabels" => r.label_keys(node, Some(100)).map(PeerNamespaces::SameLabels),
            _ => r.label_keys(node, Some(100)).map(PeerNamespaces::NotSameLabels),
        })
    }

    fn early_pods<'n>(&mut self, node: &'n Node<'n>) -> Option<Entry<ClusterPeer>> {
        let fields = self.fields(node)?;
        self.only(&fields, EARLY_PODS);
        let namespaces = self.required(&fields, "namespaces", Reader::early_namespaces);
        let pods = self.required(&fields, "podSelector", Reader::selector);
        let (namespaces, pods) = (namespaces?, PeerPods::Matching(pods?));
        Some(namespaces.map(|namespaces| ClusterPeer::Pods { namespaces, pods }))
    }

    /// Label keys, whose values are compared with those of the subject.
    pub(crate) fn label_keys<'n>(&mut self, node: &'n Node<'n>, most: Option<usize>) -> Option<Vec<Box<str>>> {
        let Value::List(items) = &node.value else {
            self.wrong_type(node, "a list");
            return None;
        };
        if let Some(most) = most.filter(|it| items.len() > *it) {
            self.invalid(node.span, format!("{} entries, but the API takes 0 to {most}", items.len()));
        }
        self.each(items, |r, node| r.spelt(node, syntax::label_key).map(Box::from)).into_iter().collect()
    }

    fn anp_port<'n>(&mut self, node: &'n Node<'n>) -> Option<Entry<PortMatch>> {
        let entry = self.one_of(node, PORT, |r, key, node| match key {
            "portNumber" => r.anp_number(node),
            "portRange" => r.anp_range(node),
            _ => r.any_named_port(node),
        })?;
        Some(entry.flatten())
    }

    fn anp_number<'n>(&mut self, node: &'n Node<'n>) -> Option<Entry<PortMatch>> {
        let fields = self.fields(node)?;
        self.only(&fields, NUMBER);
        let protocol = self.anp_protocol(&fields);
        let port = self.required(&fields, "port", |r, node| r.port(node))?;
        Some(protocol?.map(|protocol| PortMatch::Numbers { protocol, ports: Ports::one(port) }))
    }

    fn anp_range<'n>(&mut self, node: &'n Node<'n>) -> Option<Entry<PortMatch>> {
        let fields = self.fields(node)?;
        self.only(&fields, RANGE);
        let protocol = self.anp_protocol(&fields);
        let start = self.required(&fields, "start", |r, node| r.port(node));
        let end = self.required(&fields, "end", |r, node| r.port(node));
        let (start, end) = (start?, end?);
        let Some(ports) = Ports::range(start, end) else {
            // SPEC: semantics 2.7: the CRD does not compare them, so such an object may be stored.
            let message = format!("start `{start}` is above end `{end}`, which is no range; the rule fails closed");
            self.problem(Consequence::Untrusted, "empty-range", node.span, message, Some("swap them".to_owned()));
            return Some(Entry::Unknown(self.fail_closed(format!("ports {start} to {end}"))));
        };
        Some(protocol?.map(|protocol| PortMatch::Numbers { protocol, ports }))
    }

    /// SPEC: semantics 2.7: the CRD takes any text as a protocol, so what is none may be stored, and fails closed.
    fn anp_protocol(&mut self, fields: &Fields<'_>) -> Option<Entry<PortProtocol>> {
        let Some(node) = fields.get("protocol") else { return Some(Entry::Known(PortProtocol::Tcp)) };
        self.within("protocol", |r| {
            Some(match r.string(node)? {
                "TCP" => Entry::Known(PortProtocol::Tcp),
                "UDP" => Entry::Known(PortProtocol::Udp),
                "SCTP" => Entry::Known(PortProtocol::Sctp),
                other => {
                    let message = format!("`{other}` is not a protocol: TCP, UDP or SCTP; the rule fails closed");
                    r.problem(Consequence::Untrusted, "unknown-protocol", node.span, message, None);
                    Entry::Unknown(r.fail_closed(format!("protocol `{other}`")))
                }
            })
        })
    }
}

/// All pods of a peer's namespaces.
pub(crate) fn all_pods_of(namespaces: PeerNamespaces) -> ClusterPeer {
    ClusterPeer::Pods { namespaces, pods: PeerPods::Matching(LabelSelector::default()) }
}
