//! policy.networking.k8s.io/v1alpha1 BaselineAdminNetworkPolicy, as it was last shipped: an AdminNetworkPolicy without a priority.

use palisade_k8s::Beside;
use palisade_model::Policy;

use super::admin_network_policy::rule;
use super::cluster_spec;
use super::parts::subject;
use super::tree::Node;

pub(super) fn spec(policy: &Policy, beside: &Beside) -> Node {
    cluster_spec(policy, beside, [], subject(&policy.subject), rule)
}
