//! Baseline policies into the only BaselineAdminNetworkPolicy that there can be.

use palisade_model::{Model, PerDirection, Policy, PolicyKind, PolicyRef, Rule, RuleRef, Shape, Subject, Tier};

use super::form::{Form, RuleLimit};
use super::order::{Slot, write};
use super::parts::Pieces;
use super::rules::{self, Carried};
use super::{Converted, Loss, Objects, Unsayable, Untouched, Weight};

/// The name that the API wants.
const ONLY: &str = "default";

/// What goes into the one policy.
#[derive(Default)]
struct Together {
    from: Vec<PolicyRef>,
    subject: Option<Subject>,
    rules: PerDirection<Vec<(Rule, RuleRef)>>,
}

/// Why a policy is not in it.
#[derive(Clone, Copy)]
enum Left {
    OtherSubject,
    NoRoom,
    /// Another that stays is asked after it, and the one policy is asked last.
    NotLast,
    OtherController,
    /// The only one is there and does not count.
    Taken,
}

/// Takes the Baseline policies out of `carried`. Those of one subject are one policy.
pub(super) fn into_one(
    model: &Model,
    objects: &Objects,
    form: &Form,
    unsayable: Unsayable,
    carried: &mut Vec<Carried>,
    converted: &mut Converted,
) {
    let (mut baseline, others): (Vec<Carried>, Vec<Carried>) =
        std::mem::take(carried).into_iter().partition(|it| it.old.tier == Tier::Baseline);
    *carried = others;
    if baseline.is_empty() {
        return;
    }
    let only = PolicyRef { kind: PolicyKind::BaselineAdminNetworkPolicy, namespace: None, name: ONLY.into() };
    if objects.others.contains(&only) {
        for one in baseline {
            converted.losses.push(not_in_it(&one.old.origin, Left::Taken));
            converted.untouched.push((one.old.origin, Untouched::NotSayable));
        }
        return;
    }
    // The one that is there already is asked last, and there cannot be two.
    let there = model.policies.iter().find(|it| it.origin.kind == PolicyKind::BaselineAdminNetworkPolicy && it.shape == Shape::Late);
    baseline.extend(there.map(|it| rules::carry(form, it, Pieces::Whole).0));
    let whose = |it: &PolicyRef| objects.controllers.get(it).cloned();
    // What is there stays with its controller.
    let value = there.or(baseline.first().map(|it| &it.old)).and_then(|it| whose(&it.origin));
    let (baseline, foreign): (Vec<Carried>, Vec<Carried>) = baseline.into_iter().partition(|it| whose(&it.old.origin) == value);
    let (together, mut left) = match unsayable {
        Unsayable::Dropped => join(form, baseline, &|_| true),
        // What stays is asked before the one policy: only what is asked last already can go into it.
        Unsayable::Kept => {
            let (last, left) = last_alike(model, baseline);
            let (together, more) = join(form, last, &|_| false);
            (together, left.into_iter().chain(more).collect())
        }
    };
    left.extend(foreign.into_iter().map(|it| (it.old.origin, Left::OtherController)));
    for (origin, why) in left {
        converted.losses.push(not_in_it(&origin, why));
        match unsayable {
            Unsayable::Kept => converted.untouched.push((origin, Untouched::NotSayable)),
            Unsayable::Dropped => converted.replaced.push(origin),
        }
    }
    tell(model, &together, converted);
    if let Some(subject) = together.subject.filter(|_| !together.from.is_empty()) {
        let slot = Slot { name: ONLY.into(), rank: form.ranks(Tier::Baseline).0, tier: Tier::Baseline };
        converted.written.push(write(form, &slot, together.from.clone(), subject, together.rules));
        converted.replaced.extend(together.from);
    }
}

/// As many of the last as have one subject, and the others.
fn last_alike(model: &Model, baseline: Vec<Carried>) -> (Vec<Carried>, Vec<(PolicyRef, Left)>) {
    let mut order = model.policies.iter().filter(|it| it.tier == Tier::Baseline).rev();
    let (mut last, mut left) = (Vec::new(), Vec::new());
    for one in baseline.into_iter().rev() {
        let next = left.is_empty() && order.next().is_some_and(|it: &Policy| it.origin == one.old.origin);
        let alike = subject_of(&one).is_some_and(|subject| last.first().is_none_or(|it| subject_of(it) == Some(subject)));
        match (next, alike) {
            (true, true) => last.insert(0, one),
            (true, false) => left.push((one.old.origin, Left::OtherSubject)),
            (false, _) => left.push((one.old.origin, Left::NotLast)),
        }
    }
    (last, left)
}

/// The subject, if all pieces have one.
fn subject_of(one: &Carried) -> Option<&Subject> {
    let first = &one.pieces.first()?.subject;
    one.pieces.iter().all(|it| it.subject == *first).then_some(first)
}

/// Joins those of the first subject, in their order. After one that has no room there may be others, if that matters to nobody.
fn join(form: &Form, baseline: Vec<Carried>, skip: &dyn Fn(&Carried) -> bool) -> (Together, Vec<(PolicyRef, Left)>) {
    let mut together = Together { subject: baseline.iter().find_map(subject_of).cloned(), ..Together::default() };
    let (RuleLimit::EachDirection(limit) | RuleLimit::Total(limit)) = form.rules;
    let mut left: Vec<(PolicyRef, Left)> = Vec::new();
    for one in baseline {
        let ingress: usize = one.pieces.iter().map(|it| it.rules.ingress.len()).sum();
        let egress: usize = one.pieces.iter().map(|it| it.rules.egress.len()).sum();
        let room = together.rules.ingress.len() + ingress <= limit && together.rules.egress.len() + egress <= limit;
        let alike = one.pieces.is_empty() || subject_of(&one).is_some_and(|it| Some(it) == together.subject.as_ref());
        if !alike || !room || !(left.is_empty() || skip(&one)) {
            left.push((one.old.origin, if alike { Left::NoRoom } else { Left::OtherSubject }));
            continue;
        }
        together.from.push(one.old.origin);
        for piece in one.pieces {
            together.rules.ingress.extend(piece.rules.ingress);
            together.rules.egress.extend(piece.rules.egress);
        }
    }
    (together, left)
}

fn not_in_it(policy: &PolicyRef, why: Left) -> Loss {
    let (path, why) = match why {
        Left::OtherSubject => ("spec.subject", "there can be one BaselineAdminNetworkPolicy only, and it has one subject"),
        Left::NoRoom => ("spec", "there can be one BaselineAdminNetworkPolicy only, and it has at most 100 rules in each direction"),
        Left::NotLast => {
            ("spec.priority", "a BaselineAdminNetworkPolicy is asked after all others, and another that stays is asked after this")
        }
        Left::OtherController => {
            ("metadata.labels", "there can be one BaselineAdminNetworkPolicy only, and it says once which controllers it is for")
        }
        Left::Taken => {
            ("metadata.name", "there can be one BaselineAdminNetworkPolicy only, and that is for another controller and stays what it is")
        }
    };
    Loss { policy: policy.clone(), path: path.to_owned(), why: why.to_owned(), instead: None, weight: Weight::Reach }
}

fn tell(model: &Model, together: &Together, converted: &mut Converted) {
    let gone = |it: &PolicyRef| together.from.contains(it) || converted.replaced.contains(it);
    let last_that_stays = model.policies.iter().rev().find(|it| it.tier == Tier::Baseline && !gone(&it.origin)).map(|it| &it.origin);
    let mut losses = Vec::new();
    for policy in &together.from {
        let at = |origin: &PolicyRef| model.policies.iter().position(|it| it.origin == *origin);
        if let Some(stays) = last_that_stays.filter(|it| at(it) > at(policy)) {
            let why = format!("a BaselineAdminNetworkPolicy is asked after all others, and {stays} was asked after this");
            let path = "spec.priority".to_owned();
            let instead = Some(format!("`{ONLY}`, which is asked after it"));
            losses.push(Loss { policy: policy.clone(), path, why, instead, weight: Weight::Reach });
        }
        let instead = match together.from.len() {
            1 if *policy.name == *ONLY => continue,
            1 => format!("`{ONLY}`"),
            _ => format!("its rules in `{ONLY}`, in the order in which they were asked"),
        };
        let why = format!("there can be one BaselineAdminNetworkPolicy only, named `{ONLY}`");
        losses.push(Loss { policy: policy.clone(), path: "metadata.name".to_owned(), why, instead: Some(instead), weight: Weight::Form });
    }
    converted.losses.extend(losses);
}
