//! Where a policy stands in the order of its tier, in the words of its own shape: a priority means one thing in one shape and the opposite in another.

use palisade_model::{Model, Policy, PolicyKind, PolicyRef, Shape, Tier};

/// The priority as it was written; none where the kind has none.
pub(crate) fn priority(policy: &Policy) -> Option<i64> {
    match (policy.tier, policy.shape, policy.origin.kind) {
        (Tier::NetworkPolicy, ..) | (_, _, PolicyKind::BaselineAdminNetworkPolicy) => None,
        (_, Shape::Kep2091, _) => Some(1000 - policy.rank),
        (_, Shape::Only | Shape::Early | Shape::Late, _) => Some(policy.rank),
    }
}

/// The name of a shape, where a kind has several.
pub(crate) fn shape(policy: &Policy) -> Option<&'static str> {
    match policy.shape {
        Shape::Only => None,
        Shape::Early => Some("v0.1.0"),
        Shape::Late => Some("v0.1.7"),
        Shape::Kep2091 => Some("kep2091"),
    }
}

/// Why a policy is asked when it is, among those that select the pod in its tier, which are in order. Nothing for shapes that nobody confuses.
pub(crate) fn standing(model: &Model, in_order: &[PolicyRef], origin: &PolicyRef) -> Option<String> {
    let find = |origin: &PolicyRef| model.policies.iter().find(|it| it.origin == *origin);
    let policy = find(origin)?;
    let shape = shape(policy)?;
    let Some(priority) = priority(policy) else { return Some(format!("shape {shape}, evaluated after all other Baseline policies")) };
    let before = in_order.iter().take_while(|it| *it != origin).last().and_then(find);
    let after = before.map_or_else(|| "evaluated first".to_owned(), |before| after(policy, before));
    let wins = match policy.shape {
        Shape::Kep2091 if policy.tier == Tier::Baseline => "in this shape 0 is Baseline",
        Shape::Kep2091 => "in this shape larger wins",
        Shape::Only | Shape::Early | Shape::Late => "in this shape smaller wins",
    };
    Some(format!("shape {shape}: priority {priority}, {after}, {wins}"))
}

fn after(policy: &Policy, before: &Policy) -> String {
    match priority(before) {
        Some(theirs) if before.rank == policy.rank => {
            format!("evaluated after `{}` ({}{theirs}, by name)", before.origin.name, of(policy, before))
        }
        Some(theirs) if before.shape == policy.shape => format!("evaluated after {theirs}"),
        Some(theirs) => format!("evaluated after `{}` ({}{theirs})", before.origin.name, of(policy, before)),
        None => format!("evaluated after `{}`", before.origin.name),
    }
}

/// What kind of priority another policy has.
fn of(policy: &Policy, before: &Policy) -> String {
    if policy.shape == before.shape { "also priority ".to_owned() } else { format!("{} with priority ", before.origin.kind.as_str()) }
}

#[cfg(test)]
mod tests {
    use palisade_model::{NetworkId, PerDirection, Subject};

    use super::*;

    fn policy(name: &str, kind: PolicyKind, shape: Shape, rank: i64) -> Policy {
        let tier = if rank >= 1000 { Tier::Baseline } else { Tier::Admin };
        let origin = PolicyRef { kind, namespace: None, name: name.into() };
        let rules = PerDirection::default();
        Policy {
            network: NetworkId::DEFAULT,
            origin,
            shape,
            tier,
            rank,
            subject: Subject::Unknown,
            isolates: PerDirection::default(),
            rules,
        }
    }

    #[test]
    fn a_priority_is_told_in_the_words_of_its_shape() {
        let policies = vec![
            policy("c", PolicyKind::ClusterNetworkPolicy, Shape::Only, 40),
            policy("s100", PolicyKind::Kep2091, Shape::Kep2091, 900),
            policy("s50", PolicyKind::Kep2091, Shape::Kep2091, 950),
            policy("t50", PolicyKind::Kep2091, Shape::Kep2091, 950),
            policy("zero", PolicyKind::Kep2091, Shape::Kep2091, 1000),
            policy("a", PolicyKind::AdminNetworkPolicy, Shape::Late, 990),
            policy("default", PolicyKind::BaselineAdminNetworkPolicy, Shape::Late, 1001),
        ];
        let model = Model { policies: policies.into(), ..Model::default() };
        let origin = |name: &str| model.policies.iter().find(|it| &*it.origin.name == name).unwrap().origin.clone();
        let told = |in_order: &[&str], name: &str| {
            standing(&model, &in_order.iter().map(|it| origin(it)).collect::<Vec<_>>(), &origin(name)).unwrap_or_default()
        };
        assert_eq!(told(&["c"], "c"), "");
        assert_eq!(told(&["s100", "s50"], "s50"), "shape kep2091: priority 50, evaluated after 100, in this shape larger wins");
        assert_eq!(told(&["s100"], "s100"), "shape kep2091: priority 100, evaluated first, in this shape larger wins");
        assert_eq!(
            told(&["s50", "t50"], "t50"),
            "shape kep2091: priority 50, evaluated after `s50` (also priority 50, by name), in this shape larger wins"
        );
        assert_eq!(
            told(&["c", "a"], "a"),
            "shape v0.1.7: priority 990, evaluated after `c` (ClusterNetworkPolicy with priority 40), in this shape smaller wins"
        );
        assert_eq!(told(&["zero"], "zero"), "shape kep2091: priority 0, evaluated first, in this shape 0 is Baseline");
        assert_eq!(told(&["default"], "default"), "shape v0.1.7, evaluated after all other Baseline policies");
    }
}
