//! What was applied and is not there any more: an API server drops fields that its definition does not know, unless it is told not to, and what is
//! left may be wider than what was meant. SPEC: semantics 2.1.

use crate::object::Body;
use crate::problem::Consequence;
use crate::read::Reader;
use crate::tree::{Node, Value};
use crate::yaml;

/// Where kubectl keeps what was applied last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

impl Reader {
    /// Holds a policy against what was applied last.
    pub(crate) fn pruned(&mut self, node: &Node<'_>, body: &Body) {
        match body {
            Body::NetworkPolicy(_) | Body::ClusterNetworkPolicy(_) => {}
            Body::AdminNetworkPolicy(_) | Body::BaselineAdminNetworkPolicy(_) | Body::Kep2091(_) => {}
            Body::Pod(_) | Body::Workload(_) | Body::Namespace(_) | Body::Node(_) | Body::Service(_) | Body::Nothing(_) => return,
        }
        let annotations = node.get("metadata").and_then(|it| it.get("annotations"));
        let Some(applied) = annotations.and_then(|it| it.get(LAST_APPLIED)).and_then(Node::as_str) else { return };
        // What somebody else wrote there is none of ours.
        let Some(Ok(applied)) = yaml::documents(applied).next() else { return };
        let (Some(applied), Some(stored)) = (applied.get("spec"), node.get("spec")) else { return };
        let Some((path, parent)) = missing(applied, stored, "spec") else { return };
        let message = format!(
            "`{path}` was applied last and is not here: an API server may have dropped it, and what is left can be wider than what was meant"
        );
        let help = "apply it again as the installed definition wants it, with `kubectl apply --validate=strict`, which refuses what would be dropped";
        self.within("spec", |r| r.problem(Consequence::Narrowed, "pruned", parent.span, message, Some(help.to_owned())));
    }
}

/// The first field that was applied and is not stored, and what it should be in.
fn missing<'n, 'a>(applied: &Node<'_>, stored: &'n Node<'a>, path: &str) -> Option<(String, &'n Node<'a>)> {
    match (&applied.value, &stored.value) {
        (Value::Map(applied), Value::Map(_)) => applied.iter().find_map(|entry| {
            let path = format!("{path}.{}", entry.key);
            match stored.get(&entry.key) {
                Some(below) => missing(&entry.value, below, &path),
                None if is_nothing(&entry.value) => None,
                None => Some((path, stored)),
            }
        }),
        // Entries can only be told apart by their place.
        (Value::List(applied), Value::List(below)) if applied.len() == below.len() => {
            applied.iter().zip(below).enumerate().find_map(|(at, (applied, below))| missing(applied, below, &format!("{path}[{at}]")))
        }
        _ => None,
    }
}

/// Whether a server stores nothing for a value.
fn is_nothing(node: &Node<'_>) -> bool {
    match &node.value {
        Value::Null => true,
        Value::Map(entries) => entries.is_empty(),
        Value::List(items) => items.is_empty(),
        Value::Bool(_) | Value::Int(_) | Value::Number(_) | Value::Str(_) => false,
    }
}
