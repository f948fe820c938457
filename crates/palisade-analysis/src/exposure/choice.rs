//! Labels for pods and namespaces that do not exist, chosen to meet what is asked of them.

use std::collections::BTreeSet;

use palisade_model::{LabelSelector, Labels, Model, Operator, Requirement};

use super::newcomers::{Wish, conditions};

/// The label that every namespace has.
pub const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// How labels are chosen.
pub(super) struct Choice {
    /// Names of namespaces that exist.
    taken: BTreeSet<Box<str>>,
    /// A name that no namespace has and no selector asks for.
    pub(super) fresh: Box<str>,
}

impl Choice {
    pub(super) fn new(model: &Model) -> Choice {
        let taken: BTreeSet<Box<str>> = model.namespaces.keys().cloned().collect();
        let conditions = conditions(model);
        let asked: BTreeSet<&str> = conditions.keys().flat_map(|it| &it.0.requirements).flat_map(|it| values(&it.operator)).collect();
        let names = (0_u32..).map(|at| format!("new-{at}"));
        let free = names.into_iter().find(|it| !taken.contains(it.as_str()) && !asked.contains(it.as_str()));
        Choice { taken, fresh: free.unwrap_or_default().into() }
    }

    /// The labels of a namespace and of a pod in it that meet a wish; none if no new namespace can.
    pub(super) fn labels(&self, wish: &Wish) -> Option<(Labels, Labels)> {
        let named = |at: &Requirement| *at.key == *NAME_LABEL;
        let mut namespace = fewest(&wish.namespace, |key, value| key != NAME_LABEL || !self.taken.contains(value))?;
        // It has a name in any case.
        if namespace.get(NAME_LABEL).is_none() {
            namespace.set(NAME_LABEL, &self.fresh);
        }
        let holds = wish.namespace.requirements.iter().filter(|it| named(it)).all(|it| it.matches(&namespace));
        holds.then_some(())?;
        Some((namespace, fewest(&wish.pod, |_, _| true)?))
    }

    /// Whether every new namespace meets a selector, whatever its labels.
    pub(super) fn always(&self, namespace: &LabelSelector) -> bool {
        let always = |it: &Requirement| match &it.operator {
            Operator::Exists => true,
            Operator::NotIn(names) => names.iter().all(|it| self.taken.contains(it)),
            Operator::Equals(_) | Operator::In(_) | Operator::DoesNotExist => false,
        };
        namespace.requirements.iter().all(|it| *it.key == *NAME_LABEL && always(it))
    }

    /// A wish with as many others as can be met along with it.
    pub(super) fn as_many(&self, wish: Wish, others: impl IntoIterator<Item = Wish>) -> Wish {
        others.into_iter().fold(wish, |wish, other| {
            let more = wish.and(&other);
            if self.labels(&more).is_some() { more } else { wish }
        })
    }
}

fn values(operator: &Operator) -> Vec<&str> {
    match operator {
        Operator::Equals(value) => vec![value],
        Operator::In(values) | Operator::NotIn(values) => values.iter().map(AsRef::as_ref).collect(),
        Operator::Exists | Operator::DoesNotExist => Vec::new(),
    }
}

/// The fewest labels that meet a selector; none if nothing can.
fn fewest(selector: &LabelSelector, may_be: impl Fn(&str, &str) -> bool) -> Option<Labels> {
    let mut labels = Labels::default();
    for asked in &selector.requirements {
        let wanted = match &asked.operator {
            Operator::Equals(_) | Operator::In(_) | Operator::Exists => labels.get(&asked.key).is_none(),
            Operator::NotIn(_) | Operator::DoesNotExist => false,
        };
        if !wanted {
            continue;
        }
        let of_key = || selector.requirements.iter().filter(|it| it.key == asked.key);
        let listed = of_key().flat_map(|it| values(&it.operator)).map(str::to_owned);
        // One more than are forbidden is free.
        let free = (0..=of_key().map(|it| values(&it.operator).len()).sum::<usize>() + 1).map(|at| format!("any-{at}"));
        let fits = |value: &String| {
            let one: Labels = [(asked.key.as_ref(), value.as_str())].into_iter().collect();
            may_be(&asked.key, value) && of_key().all(|it| it.matches(&one))
        };
        labels.set(&asked.key, &listed.chain(free).find(fits)?);
    }
    selector.requirements.iter().all(|it| *it.key == *NAME_LABEL || it.matches(&labels)).then_some(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(requirements: &[(&str, Operator)]) -> LabelSelector {
        let requirement = |(key, operator): &(&str, Operator)| Requirement { key: (*key).into(), operator: operator.clone() };
        LabelSelector { requirements: requirements.iter().map(requirement).collect() }
    }

    fn values(all: &[&str]) -> Vec<Box<str>> {
        all.iter().map(|it| Box::from(*it)).collect()
    }

    /// The labels of a namespace, where `taken` exists.
    fn check(requirements: &[(&str, Operator)], expected: Option<&str>) {
        let choice = Choice { taken: [Box::from("taken")].into(), fresh: "new-0".into() };
        let wish = Wish { namespace: selector(requirements), pod: LabelSelector::default() };
        let found = choice.labels(&wish).map(|it| it.0);
        assert_eq!(found.as_ref().map(ToString::to_string).as_deref(), expected, "{}", wish.namespace);
        assert!(found.is_none_or(|it| wish.namespace.matches(&it)), "{}", wish.namespace);
    }

    #[test]
    fn no_more_labels_than_are_asked_for() {
        use Operator::{DoesNotExist, Equals, Exists, In, NotIn};
        let named = "kubernetes.io/metadata.name=new-0";
        check(&[], Some(named));
        check(&[("a", DoesNotExist), ("b", NotIn(values(&["x"])))], Some(named));
        check(&[("a", In(values(&["x", "y"]))), ("a", NotIn(values(&["x"])))], Some(&format!("a=y,{named}")));
        check(&[("a", Exists), ("a", NotIn(values(&["any-0"])))], Some(&format!("a=any-1,{named}")));
        check(&[("a", Equals("x".into())), ("a", DoesNotExist)], None);
        check(&[("a", Equals("x".into())), ("a", Equals("y".into()))], None);
    }

    #[test]
    fn a_new_namespace_has_no_name_that_is_taken() {
        use Operator::{DoesNotExist, Equals, Exists, In, NotIn};
        check(&[(NAME_LABEL, Equals("taken".into()))], None);
        check(&[(NAME_LABEL, In(values(&["taken", "free"])))], Some("kubernetes.io/metadata.name=free"));
        check(&[(NAME_LABEL, NotIn(values(&["taken"])))], Some("kubernetes.io/metadata.name=new-0"));
        check(&[(NAME_LABEL, Exists)], Some("kubernetes.io/metadata.name=any-0"));
        check(&[(NAME_LABEL, DoesNotExist)], None);
    }

    #[test]
    fn what_every_new_namespace_meets() {
        let choice = Choice { taken: [Box::from("taken")].into(), fresh: "new-0".into() };
        let always = |operator| choice.always(&selector(&[(NAME_LABEL, operator)]));
        assert!(choice.always(&LabelSelector::default()) && always(Operator::Exists) && always(Operator::NotIn(values(&["taken"]))));
        assert!(!always(Operator::NotIn(values(&["taken", "free"]))) && !choice.always(&selector(&[("a", Operator::DoesNotExist)])));
    }
}
