//! AdminNetworkPolicy as KEP-2091 proposed it, under its original apiVersion or our own. SPEC: semantics 3.1.
//!
//! It speaks of pods and of nothing else, and it is explicit: what is left out matches nothing, never everything.

use palisade_model::{Action, Direction, PerDirection, PortMatch};

use crate::admin_network_policy::all_pods_of;
use crate::choice::{Dialect, Entry};
use crate::cluster_rule::{ClusterPeer, ClusterRule, PeerNamespaces, PeerPods, SubjectPods};
use crate::meta::Meta;
use crate::problem::Consequence;
use crate::read::{Fields, NullLabels, Reader};
use crate::tree::{Node, Value};

/// An AdminNetworkPolicy of KEP-2091.
#[derive(Clone, Debug, PartialEq)]
pub struct Kep2091Policy {
    pub meta: Meta,
    /// Larger first; 0 comes after every NetworkPolicy.
    pub priority: i32,
    pub subject: Entry<SubjectPods>,
    pub rules: PerDirection<Vec<ClusterRule>>,
}

/// The ports of a rule; none: any traffic.
type Layer4 = Option<Vec<Entry<PortMatch>>>;

const SPEC: &[&str] = &["priority", "subject", "ingress", "egress"];
const SUBJECT: &[&str] = &["namespaceSelector", "namespaceAndPodSelector"];
const INGRESS: &[&str] = &["name", "action", "l4Selector", "from"];
const EGRESS: &[&str] = &["name", "action", "l4Selector", "to"];
const PEER: &[&str] = &["namespaces", "namespacedPods"];
const NAMESPACED_PODS: &[&str] = &["namespaces", "pods"];
const NAMESPACES: &[&str] = &["self", "notSelf", "namespaceSelector", "sameLabels", "notSameLabels"];
const PODS: &[&str] = &["podSelector", "sameLabels", "notSameLabels"];
const LAYER4: &[&str] = &["allPorts", "ports"];
const ACTIONS: &[Action] = &[Action::Accept, Action::Deny, Action::Pass];

/// The rules of both directions together.
const MOST_RULES: usize = 100;
/// The largest priority of the proposal, which expects larger ones later.
const LARGEST_PRIORITY: i32 = 1000;

impl Reader {
    pub(crate) fn kep2091<'n>(&mut self, node: &'n Node<'n>) -> Option<Kep2091Policy> {
        let meta = self.meta(node);
        self.null_labels = NullLabels::Dropped;
        self.dialect = Dialect::AllowPods;
        let fields = self.fields(node)?;
        self.only(&fields, &["apiVersion", "kind", "metadata", "spec", "status"]);
        self.required(&fields, "spec", |r, spec| {
            let fields = r.fields(spec)?;
            r.only(&fields, SPEC);
            let priority = r.required(&fields, "priority", |r, node| r.kep2091_priority(node));
            let subject = r.required(&fields, "subject", |r, node| {
                r.subject(node, SUBJECT, |r, key, node| match key {
                    "namespaceSelector" => r.selector(node).map(SubjectPods::all_of),
                    _ => r.pods_by_both(node),
                })
            });
            let ingress = r.cluster_rules(&fields, "ingress", |r, node| r.kep2091_rule(node, Direction::Ingress));
            let egress = r.cluster_rules(&fields, "egress", |r, node| r.kep2091_rule(node, Direction::Egress));
            let rules = written(&fields, "ingress") + written(&fields, "egress");
            if rules > MOST_RULES {
                r.invalid(spec.span, format!("{rules} rules in both directions, but KEP-2091 takes {MOST_RULES} in total"));
            }
            Some(Kep2091Policy { meta, priority: priority?, subject: subject?, rules: PerDirection { ingress, egress } })
        })
    }

    fn kep2091_priority(&mut self, node: &Node<'_>) -> Option<i32> {
        let priority = self.bounded::<i32>(node, 0, i64::from(i32::MAX))?;
        if priority > LARGEST_PRIORITY {
            let message =
                format!("{priority} is above {LARGEST_PRIORITY}, the largest priority of KEP-2091; it counts as the larger one that it is");
            let help = Some(format!("a cluster with our CRD refuses it; write {LARGEST_PRIORITY} or less"));
            self.problem(Consequence::Narrowed, "priority-above-1000", node.span, message, help);
        }
        Some(priority)
    }

    fn kep2091_rule<'n>(&mut self, node: &'n Node<'n>, direction: Direction) -> Option<ClusterRule> {
        let fields = self.fields(node)?;
        let (known, list) = match direction {
            Direction::Ingress => (INGRESS, "from"),
            Direction::Egress => (EGRESS, "to"),
        };
        let unknown = self.newer_fields(&fields, known);
        let name = self.optional(&fields, "name", |r, node| r.string(node).map(str::to_owned));
        let action = self.required(&fields, "action", |r, node| r.action(node, ACTIONS));
        // SPEC: semantics 3.1: an empty or missing list matches nothing, and is legal.
        let peers = self.list(&fields, list, Reader::kep2091_peer);
        let layer4 = self.required(&fields, "l4Selector", Reader::layer4_selector);
        let (ports, unreadable) = match layer4? {
            Entry::Known(ports) => (ports, None),
            Entry::Unknown(reason) => (Some(Vec::new()), Some(reason)),
        };
        Some(ClusterRule { name, action: action?, peers, ports, unknown: unknown.or(unreadable) })
    }

    /// SPEC: semantics 3.1: without a usable field it is unknown and fails closed, never unrestricted.
    fn layer4_selector<'n>(&mut self, node: &'n Node<'n>) -> Option<Entry<Layer4>> {
        let layer4 = self.one_of(node, LAYER4, |r, key, node| match key {
            "allPorts" => r.only_true(node).map(|()| Entry::Known(None)),
            _ => r.kep2091_ports(node),
        })?;
        Some(layer4.flatten())
    }

    fn kep2091_ports<'n>(&mut self, node: &'n Node<'n>) -> Option<Entry<Layer4>> {
        let Value::List(items) = &node.value else {
            self.wrong_type(node, "a list");
            return None;
        };
        if items.is_empty() {
            let message = "an empty list of ports: KEP-2091 calls it both no port and every port; the rule fails closed";
            self.problem(
                Consequence::Untrusted,
                "empty-choice",
                node.span,
                message,
                Some("write `allPorts: true` if that is meant".to_owned()),
            );
            return Some(Entry::Unknown(self.fail_closed("an empty list".to_owned())));
        }
        // SPEC: semantics 3.1: an entry without a port matches no traffic, the opposite of a NetworkPolicy.
        let ports: Option<Vec<_>> = self.each(items, |r, node| r.port_entry(node, |_| PortMatch::Unreadable)).into_iter().collect();
        Some(Entry::Known(Some(ports?.into_iter().map(Entry::Known).collect())))
    }

    fn kep2091_peer<'n>(&mut self, node: &'n Node<'n>) -> Option<Entry<ClusterPeer>> {
        let peer = self.one_of(node, PEER, |r, key, node| match key {
            "namespaces" => r.namespace_set(node).map(|it| it.map(all_pods_of)),
            _ => r.namespaced_pods(node),
        })?;
        Some(peer.flatten())
    }

    fn namespaced_pods<'n>(&mut self, node: &'n Node<'n>) -> Option<Entry<ClusterPeer>> {
        let fields = self.fields(node)?;
        self.only(&fields, NAMESPACED_PODS);
        let namespaces = self.required(&fields, "namespaces", Reader::namespace_set);
        let pods = self.required(&fields, "pods", Reader::pod_set);
        let (namespaces, pods) = (namespaces?, pods?);
        Some(namespaces.map(|namespaces| pods.map(|pods| ClusterPeer::Pods { namespaces, pods })).flatten())
    }

    fn namespace_set<'n>(&mut self, node: &'n Node<'n>) -> Option<Entry<PeerNamespaces>> {
        self.one_of(node, NAMESPACES, |r, key, node| match key {
            "self" => r.only_true(node).map(|()| PeerNamespaces::Own),
            "notSelf" => r.only_true(node).map(|()| PeerNamespaces::Others),
            "namespaceSelector" => r.selector(node).map(PeerNamespaces::Matching),
            "sameLabels" => r.label_keys(node, None).map(PeerNamespaces::SameLabels),
            _ => r.label_keys(node, None).map(PeerNamespaces::NotSameLabels),
        })
    }

    fn pod_set<'n>(&mut self, node: &'n Node<'n>) -> Option<Entry<PeerPods>> {
        self.one_of(node, PODS, |r, key, node| match key {
            "podSelector" => r.selector(node).map(PeerPods::Matching),
            "sameLabels" => r.label_keys(node, None).map(PeerPods::SameLabels),
            _ => r.label_keys(node, None).map(PeerPods::NotSameLabels),
        })
    }

    /// A field that is either absent or true.
    fn only_true(&mut self, node: &Node<'_>) -> Option<()> {
        let set = self.boolean(node)?;
        if !set {
            self.invalid_with_help(node.span, "`false` is no choice here: the field is either `true` or left out", "choose another field");
        }
        set.then_some(())
    }
}

/// How many entries a list has as written.
fn written(fields: &Fields<'_>, list: &str) -> usize {
    match fields.get(list).map(|it| &it.value) {
        Some(Value::List(items)) => items.len(),
        Some(Value::Null | Value::Bool(_) | Value::Int(_) | Value::Number(_) | Value::Str(_) | Value::Map(_)) | None => 0,
    }
}
