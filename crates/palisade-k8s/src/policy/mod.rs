//! Policy objects into policies. What cannot be read fails closed here and nowhere else (`cluster`).

mod cluster;
mod logging;
mod network_policy;
mod order;
mod relations;

use palisade_api::Body;
use palisade_model::Policy;

use crate::sources::ObjectKey;

pub(crate) use logging::logged;
pub(crate) use order::merged_order;
pub(crate) use relations::relations;

/// The policy that an object is, if it is one.
pub(crate) fn of(key: &ObjectKey, body: &Body) -> Option<Policy> {
    match body {
        Body::NetworkPolicy(it) => Some(network_policy::from_network_policy(key, it)),
        Body::ClusterNetworkPolicy(it) => Some(cluster::from_cluster_network_policy(key, it)),
        Body::AdminNetworkPolicy(it) => Some(cluster::from_admin_network_policy(key, it)),
        Body::BaselineAdminNetworkPolicy(it) => Some(cluster::from_baseline_admin_network_policy(key, it)),
        Body::Kep2091(it) => Some(cluster::from_kep2091(key, it)),
        Body::Pod(_) | Body::Workload(_) | Body::Namespace(_) | Body::Node(_) | Body::Service(_) | Body::Nothing(_) => None,
    }
}
