//! Random clusters as raw objects, and random questions about them.
//!
//! Everything comes from a small vocabulary, so that selectors, blocks and ports meet the pods they are about. Whatever is generated is
//! an object that the reader must count: valid, or of a newer API and closed by the rule for that. Nothing here knows a verdict.

mod admin_network_policy;
mod cluster;
mod cluster_network_policy;
mod flow;
mod kep_2091;
mod network_policy;
mod networks;
mod vocabulary;

use serde_json::{Value, json};

use crate::compare::Question;
use crate::objects::Objects;
use crate::random::Random;

/// A cluster, and what can be asked about it.
#[derive(Debug, Clone)]
pub struct Generated {
    pub objects: Objects,
    pub questions: Vec<Question>,
}

/// The cluster of this seed.
pub fn generate(seed: u64) -> Generated {
    let random = &mut Random::new(seed);
    let cluster = cluster::cluster(random);
    let mut objects = cluster.objects.clone();
    let cluster_policies = random.between(0, 4);
    let network_policies = random.between(usize::from(cluster_policies == 0), 4);
    for at in 0..network_policies {
        let policy = network_policy::network_policy(random, &cluster, at);
        objects.push(for_a_controller(random, policy));
    }
    for at in 0..cluster_policies {
        let policy = cluster_network_policy::cluster_network_policy(random, at);
        objects.push(for_a_controller(random, policy));
    }
    if random.percent(34) {
        add_admin_network_policies(random, &mut objects);
    }
    log_what_some_accept(&mut objects);
    networks::attach(&mut Random::new(seed ^ NETWORKS), &mut objects);
    let questions = (0..QUESTIONS).filter_map(|_| flow::question(random, &cluster)).collect();
    Generated { objects: Objects(objects), questions }
}

/// Policies of the kinds that came before ClusterNetworkPolicy, with half of those that are there.
fn add_admin_network_policies(random: &mut Random, objects: &mut Vec<Value>) {
    let is_policy = |it: &Value| it.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("NetworkPolicy"));
    objects.retain(|it| !is_policy(it) || random.percent(50));
    for policy in objects.iter_mut() {
        // The ranks that the new ones have most.
        let priority = match policy.pointer("/spec/tier").and_then(Value::as_str) {
            Some("Admin") if random.percent(60) => 5,
            Some("Baseline") if random.percent(60) => 1000,
            Some(_) | None => continue,
        };
        json_patch::merge(policy, &json!({"spec": {"priority": priority}}));
    }
    let first = random.below(2);
    for at in first..first + random.between(1, 4) {
        let policy =
            if random.percent(50) { admin_network_policy::admin_network_policy(random, at) } else { kep_2091::kep_2091(random, at) };
        objects.push(for_a_controller(random, policy));
    }
    if random.percent(40) {
        let baseline = admin_network_policy::baseline_admin_network_policy(random);
        objects.push(for_a_controller(random, baseline));
    }
}

/// Now and then a policy names the controller that it is for.
fn for_a_controller(random: &mut Random, mut policy: Value) -> Value {
    if random.percent(8)
        && let Some(metadata) = policy.get_mut("metadata").and_then(Value::as_object_mut)
    {
        let name = random.of(["palisade", "palisade", "none", "", "another"]);
        metadata.insert("labels".to_owned(), json!({"networking.k8s.io/policy-controller-name": name}));
    }
    policy
}

/// Every third policy wants to have logged what it accepts, every sixth only what its first rules do. Nothing else may come of it.
fn log_what_some_accept(objects: &mut [Value]) {
    let policies = objects.iter_mut().filter(|it| it.get("kind").and_then(Value::as_str).is_some_and(|it| it.ends_with("NetworkPolicy")));
    for (at, policy) in policies.enumerate().filter(|(at, _)| at % 3 == 0) {
        let wish = if at % 6 == 0 { "accepted" } else { "ingress#0, egress#0" };
        json_patch::merge(policy, &json!({"metadata": {"annotations": {"palisade.dev/log": wish}}}));
    }
}

const QUESTIONS: usize = 60;

/// Makes choices about networks of their own, so that a seed gives the same cluster as without networks.
const NETWORKS: u64 = 0x6e65_7477_6f72_6b73;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_cluster() {
        let (first, second) = (generate(7), generate(7));
        assert_eq!((first.objects, first.questions), (second.objects, second.questions));
        assert_ne!(generate(7).objects, generate(8).objects);
    }
}
