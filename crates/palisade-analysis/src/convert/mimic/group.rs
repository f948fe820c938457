//! The pods of a namespace that its policies tell apart.

use palisade_model::{Endpoint, Model, Policy, PolicyRef, Subject, Tier};

use super::labels::Labelled;

/// Pods of one namespace that the same policies speak about. No pod is in two groups.
#[derive(Debug)]
pub(super) struct Group<'p> {
    pub(super) pods: Labelled,
    /// In the order in which they are asked.
    pub(super) policies: Vec<&'p Policy>,
    /// Those that there are.
    pub(super) subjects: Vec<&'p Endpoint>,
}

/// How many groups a namespace is taken apart into, whether there are pods in them or not.
const MOST_GROUPS: usize = 64;

impl Group<'_> {
    pub(super) fn has_cluster_policy(&self) -> bool {
        self.policies.iter().any(|it| it.tier != Tier::NetworkPolicy)
    }

    pub(super) fn network_policies(&self) -> Vec<PolicyRef> {
        self.policies.iter().filter(|it| it.tier == Tier::NetworkPolicy).map(|it| it.origin.clone()).collect()
    }
}

/// All groups, and whether every pod that could be there is in one.
pub(super) fn groups<'p>(model: &'p Model, namespace: &str, speaking: &[&'p Policy]) -> (Vec<Group<'p>>, bool) {
    let here: Vec<&Endpoint> = model.endpoints.iter().filter(|it| *it.name.namespace == *namespace).collect();
    let mut groups = vec![Group { pods: Labelled::default(), policies: Vec::new(), subjects: here }];
    let mut complete = true;
    for policy in speaking {
        let Subject::Pods { pods, .. } = &policy.subject else { continue };
        // What no pod can meet selects nobody.
        let Some(selected) = Labelled::of(pods) else { continue };
        groups = groups.into_iter().flat_map(|it| split(it, &selected, policy)).collect();
        if groups.len() > MOST_GROUPS {
            groups.retain(|it| !it.subjects.is_empty());
            complete = false;
        }
    }
    (groups, complete)
}

fn split<'p>(group: Group<'p>, selected: &Labelled, policy: &'p Policy) -> Vec<Group<'p>> {
    let among = |pods: &Labelled| group.subjects.iter().copied().filter(|it| pods.matches(&it.labels)).collect();
    let inside = group.pods.and(selected).map(|pods| {
        let policies = group.policies.iter().copied().chain([policy]).collect();
        Group { subjects: among(&pods), pods, policies }
    });
    let outside =
        group.pods.without(selected).into_iter().map(|pods| Group { subjects: among(&pods), policies: group.policies.clone(), pods });
    inside.into_iter().chain(outside).collect()
}
