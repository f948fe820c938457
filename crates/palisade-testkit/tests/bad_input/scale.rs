//! A large input of which a hundredth is broken: everything broken is named, nothing else is lost.

use std::collections::BTreeSet;
use std::sync::Arc;

use palisade_k8s::{Index, Snapshot, Text};
use palisade_model::{Diagnostic, Severity};
use palisade_testkit::mutate::{Slipped, slip};

/// The whole measurement, with ten times as many, is `cargo xtask bench parse`.
const OBJECTS: usize = 10_000;
const FILES: usize = 10;
const NAMESPACES: usize = 50;

/// A document that is broken: where it stands, what it is called, and which field is wrong.
struct Broken {
    file: String,
    lines: std::ops::RangeInclusive<usize>,
    object: String,
    path: Option<&'static str>,
}

#[test]
fn everything_broken_is_named_and_nothing_else_is_lost() {
    let mut broken: Vec<Broken> = Vec::new();
    let mut good: BTreeSet<String> = BTreeSet::new();
    let mut index = Index::default();
    for file in 0..FILES {
        let name = format!("f{file}.yaml");
        let (mut text, mut line) = (String::new(), 1);
        for at in (0..OBJECTS).filter(|at| at % FILES == file) {
            let (object, document) = document(at);
            let first = line;
            if at / FILES % 100 == 7 {
                let Slipped { text: slipped, path } = slip(at / 1000 * FILES + file, &document);
                text.push_str(&slipped);
                line += slipped.matches('\n').count();
                // A text that is cut short is noticed where the next document begins.
                broken.push(Broken { file: name.clone(), lines: first..=line, object, path });
            } else {
                text.push_str(&document);
                line += document.matches('\n').count();
                good.insert(object);
            }
        }
        index.read(Text { file: Arc::from(name), content: Arc::from(text) });
    }
    let read = index.snapshot();
    assert_eq!(broken.len(), OBJECTS / 100);
    let paths: BTreeSet<Option<&str>> = broken.iter().map(|it| it.path).collect();
    assert!(paths.len() >= 10, "the slips are too much alike: {paths:?}");
    let errors: Vec<&Diagnostic> = read.diagnostics.iter().filter(|it| it.severity == Severity::Error).collect();
    for one in &broken {
        assert!(
            errors.iter().any(|it| one.is_named_by(it)),
            "nothing is said about {} of {} at {}:{:?}",
            one.path.unwrap_or("the text"),
            one.object,
            one.file,
            one.lines
        );
    }
    let strangers: Vec<String> =
        errors.iter().filter(|it| !broken.iter().any(|one| one.is_named_by(it))).map(|it| it.to_string()).collect();
    assert_eq!(strangers, Vec::<String>::new(), "good objects are accused");
    let counted = counted(&read);
    assert_eq!(good.difference(&counted).collect::<Vec<_>>(), Vec::<&String>::new(), "good objects are lost");
    assert_eq!(counted.difference(&good).collect::<Vec<_>>(), Vec::<&String>::new(), "broken objects count");
}

impl Broken {
    fn is_named_by(&self, diagnostic: &Diagnostic) -> bool {
        let there = diagnostic.location.as_ref().is_some_and(|it| *it.file == *self.file && self.lines.contains(&it.line));
        there
            && match self.path {
                Some(path) => *diagnostic.path == *path && *diagnostic.object == *self.object,
                None => diagnostic.code == "unreadable-document",
            }
    }
}

/// What the model was made of.
fn counted(read: &Snapshot) -> BTreeSet<String> {
    let namespaces = read.model.namespaces.iter().filter(|(_, it)| !it.assumed).map(|(name, _)| format!("Namespace {name}"));
    let kind = |it: &palisade_model::Endpoint| it.workload().map_or_else(|| "Pod".to_owned(), |owner| owner.kind.to_string());
    let pods = read.model.endpoints.iter().map(|it| format!("{} {}", kind(it), it.name));
    let policies = read.model.policies.iter().map(|it| match &it.origin.namespace {
        Some(namespace) => format!("{} {namespace}/{}", it.origin.kind.as_str(), it.origin.name),
        None => format!("{} {}", it.origin.kind.as_str(), it.origin.name),
    });
    namespaces.chain(pods).chain(policies).collect()
}

/// A manifest with its name.
fn document(at: usize) -> (String, String) {
    let ns = format!("ns-{}", at % NAMESPACES);
    let meta = |version: &str, kind: &str| format!("---\napiVersion: {version}\nkind: {kind}\nmetadata:\n  name: o-{at}\n");
    let policy = || format!("{}  namespace: {ns}\nspec:\n", meta("networking.k8s.io/v1", "NetworkPolicy"));
    // Files have every tenth object, so what stands in a row of a file is of all kinds.
    match at / FILES % 9 {
        0 if at < NAMESPACES * FILES => (format!("Namespace o-{at}"), format!("{}  labels:\n    team: a\n", meta("v1", "Namespace"))),
        1 => {
            let text = "  podSelector: {}\n  policyTypes: [Ingress]\n  ingress:\n    - from:\n        - podSelector: {}\n";
            (format!("NetworkPolicy {ns}/o-{at}"), format!("{}{text}", policy()))
        }
        2 => {
            let text = "  podSelector:\n    matchLabels:\n      app: a\n  policyTypes: [Egress]\n  egress:\n    - to:\n        - ipBlock:\n            cidr: 10.0.0.0/8\n";
            (format!("NetworkPolicy {ns}/o-{at}"), format!("{}{text}", policy()))
        }
        3 => {
            let spec = "spec:\n  tier: Admin\n  priority: 5\n  subject:\n    namespaces: {}\n  ingress:\n    - action: Pass\n      from:\n        - namespaces: {}\n";
            (format!("ClusterNetworkPolicy o-{at}"), format!("{}{spec}", meta("policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy")))
        }
        4 => {
            let spec = "spec:\n  priority: 5\n  subject:\n    namespaces: {}\n  ingress:\n    - action: Pass\n      from:\n        - namespaces:\n            sameLabels: [team]\n";
            (format!("AdminNetworkPolicy o-{at}"), format!("{}{spec}", meta("policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy")))
        }
        5 => {
            let spec = "spec:\n  priority: 5\n  subject:\n    namespaceSelector: {}\n  ingress:\n    - action: Pass\n      from:\n        - namespaces:\n            self: true\n      l4Selector:\n        allPorts: true\n";
            (format!("AdminNetworkPolicy o-{at}"), format!("{}{spec}", meta("policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy")))
        }
        6 => {
            let spec = "spec:\n  template:\n    metadata:\n      labels:\n        app: a\n    spec:\n      containers:\n        - name: main\n          ports:\n            - containerPort: 8080\n";
            (format!("Deployment {ns}/o-{at}"), format!("{}  namespace: {ns}\n{spec}", meta("apps/v1", "Deployment")))
        }
        _ => {
            let spec = "spec:\n  containers:\n    - name: main\n      ports:\n        - containerPort: 8080\n";
            (format!("Pod {ns}/o-{at}"), format!("{}  namespace: {ns}\n  labels:\n    app: a\n{spec}", meta("v1", "Pod")))
        }
    }
}
