//! policy.networking.k8s.io/v1alpha1 BaselineAdminNetworkPolicy, as it was last shipped: an AdminNetworkPolicy without a priority.

use palisade_k8s::Beside;
use palisade_model::{Direction, Policy};

use super::admin_network_policy::rule;
use super::parts::subject;
use super::rules;
use super::tree::{Node, some};

pub(super) fn spec(policy: &Policy, beside: &Beside) -> Node {
    some([
        ("subject", Some(subject(&policy.subject))),
        ("ingress", rules(policy, beside, Direction::Ingress, rule)),
        ("egress", rules(policy, beside, Direction::Egress, rule)),
    ])
}
