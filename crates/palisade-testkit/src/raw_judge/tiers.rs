//! The Admin and Baseline tiers: policies of all kinds in one order, first match wins, unknown is closed.

use serde_json::Value;

use super::read::{at, list, name, text};
use super::shapes::Written;
use super::world::{ClusterPolicy, World};
use super::{Direction, Finding, View, admin_network_policy, cluster_network_policy, kep_2091};

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Tier {
    Admin,
    Baseline,
}

/// What a tier says, and whether a rule by domain name might have accepted before.
pub(super) struct TierFinding {
    pub(super) finding: Finding,
    pub(super) may_accept: bool,
}

/// What one rule does with the connection.
pub(super) enum Outcome {
    NoMatch,
    /// Accepts if DNS gave the destination one of the rule's names.
    MayAccept,
    Accept,
    Deny,
    Pass,
}

/// What one peer or one entry of ports or protocols says of the connection.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Hit {
    No,
    /// Only DNS knows.
    ByName {
        possible: bool,
    },
    Yes,
    NotUnderstood,
}

impl Hit {
    pub(super) fn of(matched: Option<bool>) -> Hit {
        match matched {
            Some(true) => Hit::Yes,
            Some(false) => Hit::No,
            None => Hit::NotUnderstood,
        }
    }
}

/// What a rule is for, in whatever word its kind has for it.
#[derive(Clone, Copy)]
pub(super) enum Action {
    Accept,
    Deny,
    Pass,
    Unknown,
}

/// What the parts of one rule say.
pub(super) struct Weighed {
    pub(super) action: Action,
    /// Whether every field of the rule is one that its API has.
    pub(super) known: bool,
    pub(super) peers: Vec<Hit>,
    pub(super) traffic: Vec<Hit>,
    /// What the rule does if it denies or passes and is not understood.
    pub(super) closed: Outcome,
}

pub(super) fn judge(world: &World<'_>, tier: Tier, view: &View<'_>) -> Result<TierFinding, String> {
    let mut may_accept = false;
    for ClusterPolicy { written, policy } in in_order(world, tier, view)? {
        let rules = match view.direction {
            Direction::Ingress => at(policy, "/spec/ingress"),
            Direction::Egress => at(policy, "/spec/egress"),
        };
        let rules = list(rules).ok_or_else(|| format!("`{}`: not a list of rules", name(policy)))?;
        for rule in rules {
            let weighed = match written {
                Written::ClusterNetworkPolicy => cluster_network_policy::weigh(world, rule, view),
                Written::AdminNetworkPolicy(peers) => admin_network_policy::weigh(world, rule, view, Tier::Admin, peers),
                Written::BaselineAdminNetworkPolicy(peers) => admin_network_policy::weigh(world, rule, view, Tier::Baseline, peers),
                Written::Kep2091 => kep_2091::weigh(world, rule, view),
            };
            let finding = match weighed.outcome() {
                Outcome::NoMatch => continue,
                Outcome::MayAccept => {
                    may_accept = true;
                    continue;
                }
                Outcome::Accept => Finding::Accept,
                Outcome::Deny => Finding::Deny,
                Outcome::Pass => Finding::Leave,
            };
            return Ok(TierFinding { finding, may_accept });
        }
    }
    Ok(TierFinding { finding: Finding::Leave, may_accept })
}

/// The tier's policies on the subject: by rank, then by name, then by kind.
fn in_order<'a>(world: &World<'a>, tier: Tier, view: &View<'_>) -> Result<Vec<ClusterPolicy<'a>>, String> {
    let mut policies = Vec::new();
    for it in &world.cluster_policies {
        let selected = match it.written {
            Written::ClusterNetworkPolicy => cluster_network_policy::is_subject(world, it.policy, view),
            Written::AdminNetworkPolicy(_) | Written::BaselineAdminNetworkPolicy(_) => {
                admin_network_policy::is_subject(world, it.policy, view)
            }
            Written::Kep2091 => kep_2091::is_subject(world, it.policy, view),
        };
        if selected && let Some((its_tier, rank)) = place(*it)? {
            policies.extend((its_tier == tier).then_some((rank, name(it.policy), *it)));
        }
    }
    policies.sort_by_key(|(rank, name, it)| (*rank, *name, it.written));
    Ok(policies.into_iter().map(|(_, _, policy)| policy).collect())
}

/// The tier of a policy and its rank in there, the smaller the earlier. None for a tier that is neither Admin nor Baseline.
fn place(it: ClusterPolicy<'_>) -> Result<Option<(Tier, i64)>, String> {
    let priority = || at(it.policy, "/spec/priority").as_i64().ok_or_else(|| format!("`{}`: no priority", name(it.policy)));
    Ok(match it.written {
        Written::ClusterNetworkPolicy => match text(it.policy, "/spec/tier") {
            Some("Admin") => Some((Tier::Admin, priority()?)),
            Some("Baseline") => Some((Tier::Baseline, priority()?)),
            Some(_) | None => None,
        },
        Written::AdminNetworkPolicy(_) => Some((Tier::Admin, priority()?)),
        Written::BaselineAdminNetworkPolicy(_) => Some((Tier::Baseline, 1001)),
        Written::Kep2091 => match priority()? {
            0 => Some((Tier::Baseline, 1000)),
            priority => Some((Tier::Admin, 1000 - priority)),
        },
    })
}

impl Weighed {
    fn outcome(self) -> Outcome {
        let Weighed { action, known, peers, traffic, closed } = self;
        let matched = peers.contains(&Hit::Yes) && traffic.contains(&Hit::Yes);
        let action = match action {
            Action::Accept if !known => return Outcome::NoMatch,
            Action::Accept => {
                let named = peers.contains(&Hit::ByName { possible: true }) && traffic.contains(&Hit::Yes);
                return match (matched, named) {
                    (true, _) => Outcome::Accept,
                    (false, true) => Outcome::MayAccept,
                    (false, false) => Outcome::NoMatch,
                };
            }
            Action::Deny => Outcome::Deny,
            Action::Pass => Outcome::Pass,
            Action::Unknown => return closed,
        };
        // A name cannot be denied or passed: whoever holds the name chooses the address.
        let understood = |hit: &Hit| match hit {
            Hit::No | Hit::Yes => true,
            Hit::ByName { .. } | Hit::NotUnderstood => false,
        };
        if !known || !peers.iter().chain(&traffic).all(understood) {
            return closed;
        }
        if matched { action } else { Outcome::NoMatch }
    }
}

/// What a rule that denies everybody does. The subject's own node stays, since its probes keep the pod alive.
pub(super) fn deny_all(view: &View<'_>) -> Outcome {
    if view.is_from_own_node() { Outcome::NoMatch } else { Outcome::Deny }
}

/// The peers of a rule as they stand there.
pub(super) fn peers_of<'a>(rule: &'a Value, view: &View<'_>) -> Option<&'a [Value]> {
    list(match view.direction {
        Direction::Ingress => at(rule, "/from"),
        Direction::Egress => at(rule, "/to"),
    })
}
