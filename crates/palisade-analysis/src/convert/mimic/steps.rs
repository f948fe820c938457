//! What is asked of connections, rule by rule, and what is let pass in the end.

use std::net::IpAddr;

use palisade_model::{Action, Labels, Tier};

use super::region::{Region, without};
use super::traffic::Traffic;

/// How many kinds of connections of one group are told apart. More are no policy that anybody could read.
pub(super) const MOST_REGIONS: usize = 1000;

/// What is asked of the connections of one group in one direction.
pub(super) struct Steps {
    pub(super) isolated: bool,
    /// Those of the tiers that are asked.
    pub(super) steps: Vec<Step>,
}

/// One rule.
pub(super) struct Step {
    pub(super) tier: Tier,
    pub(super) action: Action,
    pub(super) regions: Vec<Region>,
}

impl Steps {
    /// What is let pass of some connections; none if that is too much to say.
    pub(super) fn allowed(&self, mut left: Vec<Region>) -> Option<Vec<Region>> {
        let (mut allowed, mut passed) = (Vec::new(), Vec::new());
        let mut tier = Tier::Admin;
        for step in &self.steps {
            if step.tier != tier {
                left.append(&mut passed);
                tier = step.tier;
            }
            for region in &step.regions {
                let hit = left.iter().filter_map(|it| it.and(region));
                match step.action {
                    Action::Accept => allowed.extend(hit),
                    Action::Pass => passed.extend(hit),
                    Action::Deny => {}
                }
                // NetworkPolicies have no order: what one accepts another may accept too.
                if step.tier != Tier::NetworkPolicy {
                    left = without(&left, region);
                }
            }
            if left.len() + allowed.len() + passed.len() > MOST_REGIONS {
                return None;
            }
        }
        if !self.isolated {
            // SPEC: semantics 2.3: what leaves the Baseline tier is accepted.
            allowed.append(&mut left);
            allowed.append(&mut passed);
        }
        Some(allowed)
    }

    /// What is let pass to or from one pod.
    pub(super) fn allowed_to(&self, of_namespace: &Labels, labels: &Labels, address: Option<IpAddr>) -> Traffic {
        let (mut left, mut allowed, mut passed) = (Traffic::all(), Traffic::none(), Traffic::none());
        let mut tier = Tier::Admin;
        for step in &self.steps {
            if step.tier != tier {
                left = left.or(&passed);
                passed = Traffic::none();
                tier = step.tier;
            }
            for region in step.regions.iter().filter(|it| it.whom.has(of_namespace, labels, address)) {
                let hit = left.and(&region.traffic);
                match step.action {
                    Action::Accept => allowed = allowed.or(&hit),
                    Action::Pass => passed = passed.or(&hit),
                    Action::Deny => {}
                }
                if step.tier != Tier::NetworkPolicy {
                    left = left.without(&region.traffic);
                }
            }
        }
        if self.isolated { allowed } else { allowed.or(&left).or(&passed) }
    }
}
