//! Selectors as an object holds them.

use palisade_model::{LabelSelector, NamespaceSet, Operator, Requirement};

/// Every namespace has its name as a label.
pub(super) const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// `matchLabels` first, in key order and each key once; then the rest, nothing twice.
pub(super) fn written(selector: &LabelSelector) -> LabelSelector {
    let mut labels: Vec<Requirement> = Vec::new();
    let mut rest: Vec<Requirement> = Vec::new();
    for requirement in &selector.requirements {
        let Requirement { key, operator } = requirement;
        match operator {
            Operator::Equals(_) if labels.contains(requirement) => {}
            Operator::Equals(value) if labels.iter().any(|it| it.key == *key) => {
                rest.push(Requirement { key: key.clone(), operator: Operator::In(vec![value.clone()]) });
            }
            Operator::Equals(_) => labels.push(requirement.clone()),
            Operator::In(_) | Operator::NotIn(_) | Operator::Exists | Operator::DoesNotExist if rest.contains(requirement) => {}
            Operator::In(_) | Operator::NotIn(_) | Operator::Exists | Operator::DoesNotExist => rest.push(requirement.clone()),
        }
    }
    labels.sort_by(|a, b| a.key.cmp(&b.key));
    labels.append(&mut rest);
    LabelSelector { requirements: labels }
}

/// By labels, as cluster policies know namespaces.
pub(super) fn by_labels(namespaces: &NamespaceSet) -> NamespaceSet {
    NamespaceSet::Matching(match namespaces {
        NamespaceSet::Matching(selector) => written(selector),
        NamespaceSet::Own(name) => named(name),
    })
}

/// One namespace.
pub(super) fn named(name: &str) -> LabelSelector {
    LabelSelector { requirements: vec![Requirement { key: NAME_LABEL.into(), operator: Operator::Equals(name.into()) }] }
}
