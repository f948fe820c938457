//! Every manifest of KEP-2091, word for word but for white space at the ends of lines: what runs runs, and what cannot be meant is refused with the
//! line that was meant.

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use palisade_testkit::check::snapshot;
    use palisade_testkit::scenario::{Line, Probe, Scenario};

    fn printed(name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kep2091/printed").join(format!("{name}.yaml"));
        std::fs::read_to_string(path).unwrap()
    }

    fn folder(scenario: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(scenario)
    }

    /// What counts of a manifest, and what is said about it.
    fn check(name: &str, counts: &[&str], said: &[&str]) {
        let read = snapshot("f.yaml", &printed(name));
        let counted: Vec<String> = read.model.policies.iter().map(|it| it.origin.to_string()).collect();
        let found: Vec<String> = read.diagnostics.iter().map(ToString::to_string).collect();
        assert_eq!(
            (counted, found),
            (counts.iter().map(ToString::to_string).collect(), said.iter().map(ToString::to_string).collect()),
            "{name}"
        );
    }

    #[test]
    fn stories_1_3_and_5_and_the_example_for_self_are_read_as_printed() {
        check("story-1", &["kep2091/cluster-wide-deny-example"], &[]);
        check("story-3", &["kep2091/pub-svc-delegate-example"], &[]);
        check("story-5", &["kep2091/baseline-rule-example"], &[]);
        check(
            "self",
            &["kep2091/f.yaml:1"],
            &[
                "f.yaml:1:1: warning[nameless]: AdminNetworkPolicy f.yaml:1: `metadata.name`: the object has no name, and is named by its place; give it a `metadata.name`; an API server refuses it without one",
            ],
        );
    }

    #[test]
    fn the_others_are_refused_with_the_line_that_was_meant() {
        let pruned = "the API does not know this field; an API server drops it, and what is left can be wider than what was meant";
        check(
            "story-2",
            &[],
            &[
                &format!(
                    "f.yaml:24:15: error[unknown-field]: AdminNetworkPolicy cluster-wide-allow-example: `spec.egress[0].to[0].namespacedPods.namespaces.namespaceSelector.matchlabels`: {pruned}; did you mean `matchLabels`? write it as: matchLabels: {{kubernetes.io/metadata.name: kube-system}}"
                ),
                &format!(
                    "f.yaml:28:15: error[unknown-field]: AdminNetworkPolicy cluster-wide-allow-example: `spec.egress[0].to[0].namespacedPods.pods.podSelector.matchlabels`: {pruned}; did you mean `matchLabels`? write it as: matchLabels: {{app: kube-dns}}"
                ),
            ],
        );
        let no_yaml = "the document cannot be read: invalid trailing content after double-quoted scalar; write it as: matchExpressions: [{key: tenant, operator: Exists}]";
        check("story-4-first", &[], &[&format!("f.yaml:9:39: error[unreadable-document]: {no_yaml}")]);
        check("story-4-second", &[], &[&format!("f.yaml:9:39: error[unreadable-document]: {no_yaml}")]);
        check("same-labels", &[], &[&format!("f.yaml:7:39: error[unreadable-document]: {no_yaml}")]);
    }

    #[test]
    fn scenarios_run_what_was_printed_with_nothing_but_those_lines_corrected() {
        for (name, scenarios) in [
            ("story-1", &["kep2091-story-1-denies-at-the-cluster-level"][..]),
            ("story-2", &["kep2091-story-2-allows-at-the-cluster-level"]),
            ("story-3", &["kep2091-story-3-delegates-to-networkpolicy"]),
            ("story-4-first", &["kep2091-story-4-isolates-tenants-by-deny"]),
            ("story-4-second", &["kep2091-story-4-isolates-tenants-by-pass"]),
            ("story-5", &["kep2091-story-5-is-a-default-for-the-cluster"]),
            ("self", &["kep2091-self-alone-closes-nothing", "kep2091-self-above-a-default-deny"]),
            ("same-labels", &["kep2091-same-labels-alone-closes-nothing", "kep2091-same-labels-above-a-deny"]),
        ] {
            let corrected = printed(name)
                .replace("matchlabels:", "matchLabels:")
                .replace(r#"matchExpressions: {key: "tenant"; operator: Exists}"#, "matchExpressions: [{key: tenant, operator: Exists}]");
            let (_, spec) = corrected.split_once("spec:\n").unwrap();
            for scenario in scenarios {
                let cluster = std::fs::read_to_string(folder(scenario).join("cluster.yaml")).unwrap();
                assert!(cluster.contains(spec), "{scenario} does not have the spec of {name}:\n{spec}");
            }
        }
    }

    #[test]
    fn a_story_as_cluster_network_policy_has_the_same_verdicts() {
        for (story, other) in [
            ("kep2091-story-1-denies-at-the-cluster-level", "kep2091-story-1-as-cnp"),
            ("kep2091-story-2-allows-at-the-cluster-level", "kep2091-story-2-as-cnp"),
            ("kep2091-story-3-delegates-to-networkpolicy", "kep2091-story-3-as-cnp"),
            ("kep2091-story-5-is-a-default-for-the-cluster", "kep2091-story-5-as-cnp"),
        ] {
            let probes = |name: &str| -> Vec<Probe> {
                let scenario = Scenario::read(&folder(name)).unwrap();
                let probes = scenario.lines.into_iter().filter_map(|(_, line)| match line {
                    Line::Probe(probe) => Some(Probe { egress: None, ingress: None, ..probe }),
                    Line::Step(_) | Line::Refused(_) | Line::Warned(_) => None,
                });
                probes.collect()
            };
            let (story, other) = (probes(story), probes(other));
            assert!(story.len() > 5 && story == other, "{story:?}\n{other:?}");
        }
    }
}
