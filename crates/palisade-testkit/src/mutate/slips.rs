//! Slips that no reader may pass over, each with the field that has to be named. Where the others here break anything anywhere, these are few and known.

/// A document with a slip in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slipped {
    pub text: String,
    /// The path of the field; none where nothing of the document can be read any more.
    pub path: Option<&'static str>,
}

/// Kind, a text of its manifests, what stands there instead, and the field.
type Slip = (&'static str, &'static str, &'static str, &'static str);

const SLIPS: [Slip; 18] = [
    ("NetworkPolicy", "\n  podSelector:", "\n  podselector:", "spec.podselector"),
    ("NetworkPolicy", "\n  policyTypes: [", "\n  policyTypes: [Inbound, ", "spec.policyTypes[0]"),
    ("NetworkPolicy", "\nspec:\n", "\nspec:\n  ingres: []\n", "spec.ingres"),
    ("NetworkPolicy", "\n    - from:\n", "\n    - form:\n", "spec.ingress[0].form"),
    ("NetworkPolicy", "\n    - to:\n", "\n    - from: []\n      to:\n", "spec.egress[0].from"),
    ("NetworkPolicy", "\n  podSelector: {}\n", "\n  podSelector: all\n", "spec.podSelector"),
    (
        "NetworkPolicy",
        "\n  podSelector:\n    matchLabels:\n",
        "\n  podSelector:\n    matchLabels:\n      number: 1\n",
        "spec.podSelector.matchLabels.number",
    ),
    ("ClusterNetworkPolicy", "\nspec:\n", "\nspec:\n  namespace: x\n", "spec.namespace"),
    ("AdminNetworkPolicy", "\n  priority: 5\n", "\n  priority: 5\n  tier: Admin\n", "spec.tier"),
    ("AdminNetworkPolicy", " sameLabels:", " samelabels:", "spec.ingress[0].from[0].namespaces.samelabels"),
    ("AdminNetworkPolicy", "sameLabels: [team]", "sameLabels: team", "spec.ingress[0].from[0].namespaces.sameLabels"),
    ("AdminNetworkPolicy", " self: true", " self: false", "spec.ingress[0].from[0].namespaces.self"),
    ("AdminNetworkPolicy", "allPorts: true", "allPorts: false", "spec.ingress[0].l4Selector.allPorts"),
    ("Deployment", "containerPort: 8080\n", "containerPort: 80800\n", "spec.template.spec.containers[0].ports[0].containerPort"),
    (
        "Deployment",
        "    metadata:\n      labels:\n",
        "    metadata:\n      labels:\n        number: 1\n",
        "spec.template.metadata.labels.number",
    ),
    ("Namespace", "\n  labels:\n", "\n  labels:\n    number: 1\n", "metadata.labels.number"),
    ("Pod", "\n  labels:\n", "\n  labels:\n    number: 1\n", "metadata.labels.number"),
    ("Pod", "containerPort: 8080\n", "containerPort: 80800\n", "spec.containers[0].ports[0].containerPort"),
];

/// What no YAML has at the end of a block.
const UNREADABLE: [&str; 5] = ["more: [\n", "\tmore: 1\n", "more: 'text\n", "{{ .Values.more }}\n", "kind: Pod\n"];

/// The document with one of the slips that it can have, by number.
pub fn slip(number: usize, document: &str) -> Slipped {
    let fits = |it: &&Slip| document.contains(&format!("\nkind: {}\n", it.0)) && document.contains(it.1);
    let fitting: Vec<&Slip> = SLIPS.iter().filter(fits).collect();
    let (known, all) = (fitting.len(), fitting.len() + UNREADABLE.len());
    let at = number % all;
    match fitting.get(at) {
        Some((_, find, replace, path)) => Slipped { text: document.replacen(find, replace, 1), path: Some(path) },
        None => Slipped { text: format!("{document}{}", UNREADABLE.get(at - known).unwrap_or(&"")), path: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slip_has_its_turn() {
        let document = "\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: x\n  labels:\n    a: b\n";
        let slips: Vec<Slipped> = (0..6).map(|it| slip(it, document)).collect();
        assert_eq!(slips.iter().filter(|it| it.path == Some("metadata.labels.number")).count(), 1);
        let texts: std::collections::BTreeSet<&str> = slips.iter().map(|it| it.text.as_str()).collect();
        assert_eq!((texts.len(), texts.contains(document)), (6, false));
    }
}
