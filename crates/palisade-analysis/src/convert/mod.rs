//! Policies in another shape, with the same reach, and a list of what the other shape cannot say.
//!
//! Only policies go in and out; whether reach is the same is for `diff` to say, with the model that [`Converted::applied_to`] gives. Whatever is
//! not carried over word for word is in [`Converted::losses`].

mod baseline;
mod form;
mod mimic;
mod order;
mod parts;
mod rules;
mod selectors;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use palisade_model::{Model, PerDirection, Policy, PolicyKind, PolicyRef, RuleRef, Shape, Subject};

use self::form::Form;
pub use self::mimic::mimic;

/// The shape that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    ClusterNetworkPolicy,
    /// AdminNetworkPolicy and its Baseline, as last shipped.
    AdminNetworkPolicy,
    Kep2091,
}

/// What becomes of a policy that the other shape cannot say all of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsayable {
    /// What can be said is.
    Dropped,
    /// It stays what it is.
    Kept,
}

/// What is known of the objects beside the policies that count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// Policies that were read and do not count, such as those of another controller. Their names are taken.
    pub others: BTreeSet<PolicyRef>,
    /// Policies of KEP-2091 under its original group, where they are AdminNetworkPolicies.
    pub original: BTreeSet<PolicyRef>,
    /// Whose a policy is, of those that say so.
    pub controllers: BTreeMap<PolicyRef, Box<str>>,
}

/// What came of a conversion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// The new policies, in the order in which they are asked.
    pub written: Vec<Written>,
    /// The old ones that they stand for, to be deleted.
    pub replaced: Vec<PolicyRef>,
    /// Those that stay what they are.
    pub untouched: Vec<(PolicyRef, Untouched)>,
    /// In the order of the old policies.
    pub losses: Vec<Loss>,
}

/// One new policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub policy: Policy,
    /// The old ones it stands for; the first gives it its labels and annotations.
    pub from: Vec<PolicyRef>,
    /// The old rule behind each of its rules.
    pub rules: PerDirection<Vec<RuleRef>>,
}

/// Why a policy stays what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untouched {
    /// It has the shape that is wanted.
    AlreadyThere,
    /// Not all of it can be said.
    NotSayable,
    /// Its subject could not be read, so that it selects nothing.
    UnknownSubject,
    /// A NetworkPolicy belongs to a developer and one namespace; no cluster policy isolates.
    NetworkPolicy,
}

/// Something that is not carried over as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    pub policy: PolicyRef,
    /// The field, as a path from the object.
    pub path: String,
    pub why: String,
    /// What is written in its place, if anything.
    pub instead: Option<String>,
    pub weight: Weight,
}

/// What a loss can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Connections may be treated differently, in this cluster or another.
    Reach,
    /// This cluster is treated the same; namespaces, pods or nodes that come later may not be.
    Later,
    /// It only looks different.
    Form,
}

/// Brings policies into another shape: these, or all that there are.
pub fn convert(model: &Model, objects: &Objects, target: Target, wanted: Option<&BTreeSet<PolicyRef>>, unsayable: Unsayable) -> Converted {
    let form = Form::of(target);
    let mut converted = Converted::default();
    let mut candidates = Vec::new();
    for policy in &model.policies {
        if wanted.is_some_and(|it| !it.contains(&policy.origin)) {
            continue;
        }
        match untouched(policy, objects, target) {
            // Those that nobody asked for are not spoken of.
            Some(Untouched::AlreadyThere | Untouched::NetworkPolicy) if wanted.is_none() => {}
            Some(why) => converted.untouched.push((policy.origin.clone(), why)),
            None => candidates.push(policy),
        }
    }
    let mut carried = Vec::new();
    for (policy, pieces) in parts::without_unsayable_relations(model, &form, &candidates) {
        let (body, losses) = rules::carry(&form, policy, pieces);
        let loses = losses.iter().any(|it| it.weight != Weight::Form);
        converted.losses.extend(losses);
        match unsayable == Unsayable::Kept && loses {
            true => converted.untouched.push((policy.origin.clone(), Untouched::NotSayable)),
            false => carried.push(body),
        }
    }
    if target == Target::AdminNetworkPolicy {
        baseline::into_one(model, objects, &form, unsayable, &mut carried, &mut converted);
    }
    order::place(model, objects, &form, carried, &mut converted);
    converted
}

fn untouched(policy: &Policy, objects: &Objects, target: Target) -> Option<Untouched> {
    let there = match (policy.origin.kind, target) {
        (PolicyKind::NetworkPolicy, _) => return Some(Untouched::NetworkPolicy),
        (PolicyKind::ClusterNetworkPolicy, Target::ClusterNetworkPolicy) => true,
        (PolicyKind::Kep2091, Target::Kep2091) => !objects.original.contains(&policy.origin),
        (PolicyKind::AdminNetworkPolicy | PolicyKind::BaselineAdminNetworkPolicy, Target::AdminNetworkPolicy) => {
            policy.shape == Shape::Late
        }
        (PolicyKind::ClusterNetworkPolicy, Target::AdminNetworkPolicy | Target::Kep2091)
        | (PolicyKind::AdminNetworkPolicy | PolicyKind::BaselineAdminNetworkPolicy, Target::ClusterNetworkPolicy | Target::Kep2091)
        | (PolicyKind::Kep2091, Target::ClusterNetworkPolicy | Target::AdminNetworkPolicy) => false,
    };
    match (&policy.subject, there) {
        (_, true) => Some(Untouched::AlreadyThere),
        (Subject::Unknown, false) => Some(Untouched::UnknownSubject),
        (Subject::Pods { .. }, false) => None,
    }
}

impl Objects {
    /// The kind of the object that a policy is.
    fn kind(&self, policy: &PolicyRef) -> PolicyKind {
        match self.original.contains(policy) {
            true => PolicyKind::AdminNetworkPolicy,
            false => policy.kind,
        }
    }
}

impl Converted {
    /// The model as it is when the new policies are there and the replaced ones are gone.
    pub fn applied_to(&self, model: &Model) -> Model {
        let gone: BTreeSet<&PolicyRef> = self.replaced.iter().collect();
        let mut model = model.clone();
        model.policies.retain(|it| !gone.contains(&it.origin));
        model.policies.extend(self.written.iter().map(|it| it.policy.clone()));
        model.policies.sort_by(|a, b| asked(a).cmp(&asked(b)));
        model
    }
}

/// When a policy is asked.
fn asked(policy: &Policy) -> (palisade_model::Tier, i64, &str, &PolicyRef) {
    (policy.tier, policy.rank, &policy.origin.name, &policy.origin)
}
