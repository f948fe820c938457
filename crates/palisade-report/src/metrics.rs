//! What agents count, as text for people and as Prometheus reads it.

use std::collections::BTreeMap;

use crate::text::{BOLD, painted};
use crate::v1::{Metrics, MetricsCounter};

/// Node by node, one number a line.
pub fn metrics_text(it: &Metrics) -> String {
    let mut out = String::new();
    for node in &it.nodes {
        out.push_str(&format!("{}\n", painted(BOLD, &format!("node {}", node.name))));
        for counter in &node.counters {
            let label = counter.label.as_ref().map(|it| format!(" ({})", it.value)).unwrap_or_default();
            out.push_str(&format!("  {:>12}  {}{label}\n", counter.value, counter.help));
        }
    }
    out
}

/// The text format of Prometheus, 0.0.4.
pub fn prometheus(it: &Metrics) -> String {
    let mut families: BTreeMap<&str, (&str, Vec<String>)> = BTreeMap::new();
    for node in &it.nodes {
        for counter in &node.counters {
            let (_, lines) = families.entry(&counter.name).or_insert_with(|| (&counter.help, Vec::new()));
            lines.push(line(&node.name, counter));
        }
    }
    let mut out = String::new();
    for (name, (help, lines)) in families {
        out.push_str(&format!("# HELP {name} {help}\n# TYPE {name} counter\n{}", lines.concat()));
    }
    out
}

fn line(node: &str, counter: &MetricsCounter) -> String {
    let label = counter.label.as_ref().map(|it| format!(",{}=\"{}\"", it.name, escaped(&it.value))).unwrap_or_default();
    format!("{}{{node=\"{}\"{label}}} {}\n", counter.name, escaped(node), counter.value)
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{API_VERSION, MetricsLabel, MetricsNode};

    fn counter(name: &str, label: Option<&str>, value: u64) -> MetricsCounter {
        let label = label.map(|it| MetricsLabel { name: "reason".to_owned(), value: it.to_owned() });
        MetricsCounter { name: format!("palisade_{name}_total"), help: format!("what {name} are"), label, value }
    }

    #[test]
    fn each_name_stands_once_with_all_its_nodes() {
        let node = |name: &str, counters| MetricsNode { name: name.to_owned(), counters };
        let metrics = Metrics {
            api_version: API_VERSION.to_owned(),
            kind: "Metrics".to_owned(),
            nodes: vec![
                node(
                    "a",
                    vec![counter("commits", None, 7), counter("failures", Some("ENOMEM"), 2), counter("failures", Some("x\"\\\n"), 1)],
                ),
                node("b", vec![counter("commits", None, u64::MAX)]),
            ],
        };
        let expected = r##"# HELP palisade_commits_total what commits are
# TYPE palisade_commits_total counter
palisade_commits_total{node="a"} 7
palisade_commits_total{node="b"} 18446744073709551615
# HELP palisade_failures_total what failures are
# TYPE palisade_failures_total counter
palisade_failures_total{node="a",reason="ENOMEM"} 2
palisade_failures_total{node="a",reason="x\"\\\n"} 1
"##;
        assert_eq!(prometheus(&metrics), expected);
        let text = metrics_text(&metrics);
        assert!(text.contains("\n             7  what commits are\n             2  what failures are (ENOMEM)\n"), "{text}");
    }
}
