//! Baseline policies into the only BaselineAdminNetworkPolicy that there can be.

use palisade_model::{Model, PerDirection, PolicyKind, Rule, RuleRef, Shape, Tier};

use super::form::{Form, RuleLimit};
use super::order::{Slot, write};
use super::parts::Pieces;
use super::rules::{self, Carried, Piece};
use super::{Converted, Loss, Unsayable, Untouched, Weight};

/// The name that the API wants.
const ONLY: &str = "default";

/// Takes the Baseline policies out of `carried`. Those of one subject are one policy; of several subjects the first can be written.
pub(super) fn into_one(model: &Model, form: &Form, unsayable: Unsayable, carried: &mut Vec<Carried>, converted: &mut Converted) {
    let (mut baseline, others): (Vec<Carried>, Vec<Carried>) =
        std::mem::take(carried).into_iter().partition(|it| it.old.tier == Tier::Baseline);
    *carried = others;
    if baseline.is_empty() {
        return;
    }
    // The one that is there already is asked last, and there cannot be two.
    let there = model.policies.iter().find(|it| it.origin.kind == PolicyKind::BaselineAdminNetworkPolicy && it.shape == Shape::Late);
    baseline.extend(there.map(|it| rules::carry(form, it, Pieces::Whole).0));
    let subject = baseline.iter().flat_map(|it| &it.pieces).map(|it| it.subject.clone()).next();
    let mut from = Vec::new();
    let mut together: PerDirection<Vec<(Rule, RuleRef)>> = PerDirection::default();
    for one in baseline {
        let alike = one.pieces.iter().all(|it| Some(&it.subject) == subject.as_ref());
        let fits = |added: usize, had: usize| match form.rules {
            RuleLimit::EachDirection(limit) | RuleLimit::Total(limit) => had + added <= limit,
        };
        let count = |of: fn(&Piece) -> usize| one.pieces.iter().map(of).sum::<usize>();
        let room = fits(count(|it| it.rules.ingress.len()), together.ingress.len())
            && fits(count(|it| it.rules.egress.len()), together.egress.len());
        if alike && room {
            from.push(one.old.origin.clone());
            for piece in one.pieces {
                together.ingress.extend(piece.rules.ingress);
                together.egress.extend(piece.rules.egress);
            }
            continue;
        }
        let origin = one.old.origin;
        let (path, why) = match alike {
            false => ("spec.subject", "there can be one BaselineAdminNetworkPolicy only, and it has one subject"),
            true => ("spec", "there can be one BaselineAdminNetworkPolicy only, and it has at most 100 rules in each direction"),
        };
        let (path, why) = (path.to_owned(), why.to_owned());
        converted.losses.push(Loss { policy: origin.clone(), path, why, instead: None, weight: Weight::Reach });
        match unsayable {
            Unsayable::Kept => converted.untouched.push((origin, Untouched::NotSayable)),
            Unsayable::Dropped => converted.replaced.push(origin),
        }
    }
    let (Some(subject), Some(first)) = (subject, from.first().cloned()) else { return };
    if *first.name != *ONLY || from.len() > 1 {
        let why = "there can be one BaselineAdminNetworkPolicy only, named `default`".to_owned();
        for policy in from.iter().filter(|it| *it.name != *ONLY || from.len() > 1) {
            let instead = match from.len() {
                1 => "`default`".to_owned(),
                _ => "its rules in `default`, in the order in which they were asked".to_owned(),
            };
            let path = "metadata.name".to_owned();
            converted.losses.push(Loss { policy: policy.clone(), path, why: why.clone(), instead: Some(instead), weight: Weight::Form });
        }
    }
    let slot = Slot { name: ONLY.into(), rank: form.ranks(Tier::Baseline).0, tier: Tier::Baseline };
    converted.written.push(write(form, &slot, from.clone(), subject, together));
    converted.replaced.extend(from);
}
