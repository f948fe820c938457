//! Closed forms of policies that an API server stored and this reader refuses.
//!
//! An agent cannot refuse to start for such a policy, and leaving the policy out would widen access: pods that it isolates would be open. Its closed form
//! depends on the stored object alone, so that it is the same on every node and after a restart.
//!
//! - NetworkPolicy: its subject is isolated in both directions without rules; if the subject cannot be read, every pod of the namespace.
//! - Cluster policies: SPEC: semantics 2.4. A refused rule that accepts matches nothing, any other one denies everything in its direction; a subject that
//!   cannot be read selects nothing. A policy without a tier, priority or known shape has no closed form.

use palisade_model::{Action, FailClosed, LabelSelector, PerDirection};

use crate::choice::Entry;
use crate::cluster_rule::ClusterRule;
use crate::json::TypeMeta;
use crate::network_policy::NetworkPolicy;
use crate::object::{Body, Object, Skipped};
use crate::problem::{Consequence, Problem};
use crate::read::{Fields, Reader};
use crate::tree::{Node, Step, Value};

/// The closed form of a refused object, from what could be read of it.
pub(crate) fn body(version: Option<&str>, kind: Option<&str>, node: &Node<'_>, body: Option<Body>, problems: &[Problem]) -> Option<Body> {
    match body {
        Some(Body::NetworkPolicy(policy)) => Some(network_policy(policy, problems)),
        None if (version, kind) == (Some("networking.k8s.io/v1"), Some("NetworkPolicy")) => {
            let meta = Reader::default().meta(node);
            let policy = NetworkPolicy {
                meta,
                pod_selector: LabelSelector::default(),
                types: PerDirection::default(),
                rules: PerDirection::default(),
            };
            Some(network_policy(policy, problems))
        }
        // Their rules and subjects were closed while they were read.
        Some(
            body @ (Body::ClusterNetworkPolicy(_) | Body::AdminNetworkPolicy(_) | Body::BaselineAdminNetworkPolicy(_) | Body::Kep2091(_)),
        ) => Some(body),
        Some(Body::Pod(_) | Body::Workload(_) | Body::Namespace(_) | Body::Node(_) | Body::Service(_) | Body::Nothing(_)) | None => None,
    }
}

/// An object of which no more than its name can be read, as its JSON is not valid.
pub fn unread(of: &TypeMeta, namespace: Option<String>, name: Option<String>) -> Object {
    let is_network_policy = (of.api_version.as_str(), of.kind.as_str()) == ("networking.k8s.io/v1", "NetworkPolicy") && name.is_some();
    let node = Node { span: Default::default(), value: Value::Null };
    let closed = is_network_policy.then(|| body(Some(&of.api_version), Some(&of.kind), &node, None, &[])).flatten();
    Object {
        api_version: Some(of.api_version.clone()),
        kind: of.kind.clone(),
        namespace,
        name,
        body: Body::Nothing(Skipped::Refused),
        closed: closed.map(Box::new),
        problems: Vec::new(),
    }
}

fn network_policy(policy: NetworkPolicy, problems: &[Problem]) -> Body {
    let of_subject = |it: &&Problem| {
        let fields = it.path.0.iter().map(|it| match it {
            Step::Field(name) => name.as_ref(),
            Step::Index(_) => "",
        });
        it.consequence == Consequence::Refused && fields.take(2).eq(["spec", "podSelector"])
    };
    let is_readable = !problems.iter().any(|it| of_subject(&it));
    let pod_selector = if is_readable { policy.pod_selector } else { LabelSelector::default() };
    let types = PerDirection { egress: true, ingress: true };
    Body::NetworkPolicy(NetworkPolicy { meta: policy.meta, pod_selector, types, rules: PerDirection::default() })
}

impl Reader {
    /// The rules of one direction of a cluster policy. A rule that is refused is there in its closed form; the object is refused all the same.
    pub(crate) fn cluster_rules<'n>(
        &mut self,
        fields: &Fields<'n>,
        name: &'static str,
        mut read: impl FnMut(&mut Reader, &'n Node<'n>) -> Option<ClusterRule>,
    ) -> Vec<ClusterRule> {
        let before = self.problems.len();
        let rules = self.list(fields, name, |r, node| {
            let before = r.problems.len();
            let rule = read(r, node);
            match r.refused_since(before) {
                None => rule,
                Some(reason) => Some(closed_rule(r.stated_action(node), rule.and_then(|it| it.name), reason)),
            }
        });
        match (rules.is_empty(), self.refused_since(before)) {
            // The list itself cannot be read: any of its rules might deny.
            (true, Some(reason)) => vec![closed_rule(None, None, reason)],
            (true, None) | (false, _) => rules,
        }
    }

    /// The first problem since then for which the object is refused.
    pub(crate) fn refused_since(&self, before: usize) -> Option<FailClosed> {
        let problem = self.problems.iter().skip(before).find(|it| it.consequence == Consequence::Refused)?;
        Some(FailClosed { path: problem.path.to_string().into(), found: problem.message.as_str().into() })
    }

    fn stated_action(&self, rule: &Node<'_>) -> Option<Action> {
        match rule.get("action")?.as_str()? {
            text if text == self.dialect.accept() => Some(Action::Accept),
            "Deny" => Some(Action::Deny),
            "Pass" => Some(Action::Pass),
            _ => None,
        }
    }
}

fn closed_rule(action: Option<Action>, name: Option<String>, reason: FailClosed) -> ClusterRule {
    let action = action.map_or_else(|| Entry::Unknown(reason.clone()), Entry::Known);
    ClusterRule { name, action, peers: Vec::new(), ports: None, unknown: Some(reason) }
}
