//! The upstream conformance manifests of ClusterNetworkPolicy, as they are, through every judge.
//!
//! The scenarios `conformance-*` are our own writing of the same cases. Here their probes and steps are replayed
//! on upstream's manifests, with upstream's names. The manifests are not part of this repository: they are looked
//! for in the folder `PALISADE_CONFORMANCE`, else in `shared/conformance` beside the checkout, and without them
//! there is nothing to do.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use palisade_testkit::check::check;
use palisade_testkit::objects::Objects;
use palisade_testkit::scenario::{Line, ObjectKey, Party, Scenario, Step};
use serde_json::{Value, json};

/// What upstream's suite does with a case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Upstream {
    Runs,
    /// Upstream runs it in whatever family comes first, and so once: this is the other one.
    RunsInOneFamily,
    /// Defined, but never registered.
    NeverRuns,
}
use Upstream::{NeverRuns, Runs, RunsInOneFamily};

/// Our scenario, without `conformance-`, and upstream's manifest, below `base` and without `.yaml`.
const CASES: [(&str, &str, Upstream); 26] = [
    ("admin-egress-inline-cidr", "admin_tier/standard-egress-inline-cidr-rules", Runs),
    ("admin-egress-inline-cidr-ipv6", "admin_tier/standard-egress-inline-cidr-rules", RunsInOneFamily),
    ("admin-egress-named-port", "admin_tier/standard-egress-tcp-rules", Runs),
    ("admin-egress-node-peers", "admin_tier/experimental-egress-selector-rules", Runs),
    ("admin-egress-sctp", "admin_tier/standard-egress-sctp-rules", Runs),
    ("admin-egress-tcp", "admin_tier/standard-egress-tcp-rules", Runs),
    ("admin-egress-udp", "admin_tier/standard-egress-udp-rules", Runs),
    ("admin-gress", "admin_tier/standard-gress-rules-combined", Runs),
    ("admin-ingress-named-port", "admin_tier/standard-ingress-udp-rules", NeverRuns),
    ("admin-ingress-sctp", "admin_tier/standard-ingress-sctp-rules", Runs),
    ("admin-ingress-tcp", "admin_tier/standard-ingress-tcp-rules", Runs),
    ("admin-ingress-udp", "admin_tier/standard-ingress-udp-rules", Runs),
    ("admin-integration", "api_integration/standard-anp-np-banp", Runs),
    ("admin-priority-field", "admin_tier/standard-priority-field", Runs),
    ("baseline-egress-inline-cidr", "baseline_tier/standard-egress-inline-cidr-rules", Runs),
    ("baseline-egress-inline-cidr-ipv6", "baseline_tier/standard-egress-inline-cidr-rules", RunsInOneFamily),
    ("baseline-egress-named-port", "baseline_tier/standard-egress-udp-rules", Runs),
    ("baseline-egress-node-peers", "baseline_tier/experimental-egress-selector-rules", Runs),
    ("baseline-egress-sctp", "baseline_tier/standard-egress-sctp-rules", Runs),
    ("baseline-egress-tcp", "baseline_tier/standard-egress-tcp-rules", Runs),
    ("baseline-egress-udp", "baseline_tier/standard-egress-udp-rules", Runs),
    ("baseline-gress", "baseline_tier/standard-gress-rules-combined", Runs),
    ("baseline-ingress-named-port", "baseline_tier/standard-ingress-tcp-rules", Runs),
    ("baseline-ingress-sctp", "baseline_tier/standard-ingress-sctp-rules", Runs),
    ("baseline-ingress-tcp", "baseline_tier/standard-ingress-tcp-rules", Runs),
    ("baseline-ingress-udp", "baseline_tier/standard-ingress-udp-rules", Runs),
];

struct House {
    ours: &'static str,
    /// The names of our pods are this and their ordinal.
    letter: &'static str,
    /// Upstream's namespace, after [`PREFIX`].
    upstream: &'static str,
    stateful_set: &'static str,
}

const HOUSES: [House; 5] = [
    House { ours: "gryffindor", letter: "h", upstream: "gryffindor", stateful_set: "harry-potter" },
    House { ours: "slytherin", letter: "d", upstream: "slytherin", stateful_set: "draco-malfoy" },
    House { ours: "hufflepuff", letter: "c", upstream: "hufflepuff", stateful_set: "cedric-diggory" },
    House { ours: "ravenclaw", letter: "l", upstream: "ravenclaw", stateful_set: "luna-lovegood" },
    House { ours: "forbidden-forest", letter: "f", upstream: "forbidden-forrest", stateful_set: "centaur" },
];
const PREFIX: &str = "network-policy-conformance-";

/// How many probes the cases make that upstream runs.
const REGISTERED: usize = 299;

#[test]
#[expect(clippy::print_stdout, reason = "a test that did nothing says so")]
fn upstream_manifests_get_the_expected_verdicts_from_every_judge() {
    let folder = std::env::var_os("PALISADE_CONFORMANCE").map_or_else(|| root().join("../shared/conformance"), PathBuf::from);
    let base = folder.join("base");
    if !base.is_dir() {
        println!("skipped: no upstream conformance data");
        return;
    }
    assert_eq!(left_out(&base).unwrap(), Vec::<PathBuf>::new(), "in no line of the table");
    let mut failures = Vec::new();
    let (mut probes, mut registered) = (0, 0);
    for (name, manifest, upstream) in CASES {
        let case = Replay::new(&base, name, manifest).unwrap();
        // An error of the reader is a failure too.
        let outcome = check(&case.scenario);
        failures.extend(outcome.failures);
        probes += outcome.probes;
        if upstream == Runs {
            registered += outcome.probes - case.own_probes;
        }
    }
    assert!(failures.is_empty(), "{} failures in {probes} probes:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(registered, REGISTERED, "of {probes} probes");
    println!("{probes} probes, {registered} of them registered upstream");
}

/// One of our scenarios with upstream's objects and names.
struct Replay {
    scenario: Scenario,
    /// The probes that upstream does not have.
    own_probes: usize,
}

impl Replay {
    fn new(base: &Path, name: &str, manifest: &str) -> Result<Replay, String> {
        let ours = Scenario::read(&root().join("scenarios").join(format!("conformance-{name}")))?;
        let our_objects = Objects::read(&ours.cluster())?;
        let base_text = rendered(&base.join("manifests.yaml"))?;
        let case_text = rendered(&base.join(manifest).with_extension("yaml"))?;
        let policies = same_policies(&our_objects, &Objects::parse(&case_text)?).map_err(|error| format!("{name}: {error}"))?;
        let added = Objects(cluster_parts(&our_objects, &Objects::parse(&base_text)?)?).to_json();

        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("upstream").join(&ours.name);
        let cluster = format!("{base_text}\n---\n{case_text}\n---\n{added}");
        let written = fs::create_dir_all(&dir).and_then(|()| fs::write(dir.join("cluster.yaml"), cluster));
        written.map_err(|error| format!("{}: {error}", dir.display()))?;

        let own_probes = own_probes(&ours)?;
        let lines = ours.lines.into_iter().map(|(number, line)| Ok((number, translated(line, &policies)?)));
        let lines = lines.collect::<Result<_, String>>()?;
        Ok(Replay { scenario: Scenario { name: ours.name, dir, lines }, own_probes })
    }
}

/// The pods of upstream's StatefulSets, and nodes for them. Where they run and their addresses are those of our
/// pods, so the addresses in probes and patches mean the same.
fn cluster_parts(ours: &Objects, upstream: &Objects) -> Result<Vec<Value>, String> {
    let mut parts: Vec<Value> = of_kind(ours, "Node").cloned().collect();
    for set in of_kind(upstream, "StatefulSet") {
        let name = text(set, "/metadata/name");
        let house = HOUSES.iter().find(|house| house.stateful_set == name).ok_or_else(|| format!("`{name}`: an unknown StatefulSet"))?;
        for ordinal in 0..at(set, "/spec/replicas").as_u64().unwrap_or(1) {
            let (namespace, pod) = (house.ours, format!("{}{ordinal}", house.letter));
            let twin = of_kind(ours, "Pod").find(|it| text(it, "/metadata/namespace") == namespace && text(it, "/metadata/name") == pod);
            let twin = twin.ok_or_else(|| format!("`{namespace}/{pod}`: no such pod"))?;
            let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": name, "controller": true});
            let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "status": at(twin, "/status")});
            json_patch::merge(&mut pod, at(set, "/spec/template"));
            let metadata =
                json!({"name": format!("{name}-{ordinal}"), "namespace": at(set, "/metadata/namespace"), "ownerReferences": [owner]});
            json_patch::merge(&mut pod, &json!({"metadata": metadata, "spec": {"nodeName": at(twin, "/spec/nodeName")}}));
            parts.push(pod);
        }
    }
    Ok(parts)
}

/// The names of our policies and upstream's, in pairs. They must be the same in all but names: then a patch of the
/// third rule means the same rule.
fn same_policies(ours: &Objects, upstream: &Objects) -> Result<Vec<(String, String)>, String> {
    let policies = |objects| ["ClusterNetworkPolicy", "NetworkPolicy"].into_iter().flat_map(|kind| of_kind(objects, kind)).collect();
    let (ours, upstream): (Vec<&Value>, Vec<&Value>) = (policies(ours), policies(upstream));
    let specs = |policies: &[&Value]| -> Value { policies.iter().map(|it| without_names(at(it, "/spec"))).collect() };
    if specs(&ours) != specs(&upstream) {
        return Err(format!("not the same policies:\n{:#}\n{:#}", specs(&ours), specs(&upstream)));
    }
    let name = |policy: &Value| text(policy, "/metadata/name").to_owned();
    Ok(ours.iter().zip(&upstream).map(|(ours, upstream)| (name(ours), name(upstream))).collect())
}

/// The same value without the names of rules, of upstream's namespaces the short ones, and of selectors that
/// are null the empty ones they mean.
fn without_names(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().filter(|(key, _)| *key != "name");
            members.map(|(key, value)| (key.clone(), without_names(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_names).collect(),
        Value::String(text) => text.strip_prefix(PREFIX).unwrap_or(text).into(),
        Value::Null => json!({}),
        Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Our line with upstream's names. Reasons name policies and rules of ours, and are dropped.
fn translated(line: Line, policies: &[(String, String)]) -> Result<Line, String> {
    let key = |key: ObjectKey| -> Result<ObjectKey, String> {
        let name = match key.kind.as_str() {
            "namespace" => namespace(&key.name)?,
            _ => policies.iter().find(|(ours, _)| *ours == key.name).ok_or_else(|| format!("`{}`: no such policy", key.name))?.1.clone(),
        };
        Ok(ObjectKey { kind: key.kind, namespace: key.namespace.map(|it| namespace(&it)).transpose()?, name })
    };
    Ok(match line {
        Line::Probe(mut probe) => {
            (probe.from, probe.to) = (party(probe.from)?, party(probe.to)?);
            (probe.egress, probe.ingress) = (None, None);
            Line::Probe(probe)
        }
        Line::Step(Step::Delete(it)) => Line::Step(Step::Delete(key(it)?)),
        Line::Step(Step::Relabel(it, labels)) => Line::Step(Step::Relabel(key(it)?, labels)),
        Line::Step(Step::Patch(it, patch)) => Line::Step(Step::Patch(key(it)?, patch)),
        Line::Step(Step::Apply(_)) | Line::Refused(_) | Line::Warned(_) => return Err(format!("cannot be replayed: {line:?}")),
    })
}

fn party(party: Party) -> Result<Party, String> {
    let Party::Pod { namespace: ours, name } = party else { return Ok(party) };
    let house = house(&ours)?;
    let ordinal = name.strip_prefix(house.letter).ok_or_else(|| format!("`{ours}/{name}`: no such pod"))?;
    Ok(Party::Pod { namespace: namespace(&ours)?, name: format!("{}-{ordinal}", house.stateful_set) })
}

fn namespace(ours: &str) -> Result<String, String> {
    Ok(format!("{PREFIX}{}", house(ours)?.upstream))
}

fn house(ours: &str) -> Result<&'static House, String> {
    HOUSES.iter().find(|house| house.ours == ours).ok_or_else(|| format!("`{ours}`: no such namespace"))
}

/// The probes below a comment that starts with `Besides`, up to the next comment.
fn own_probes(scenario: &Scenario) -> Result<usize, String> {
    let mut own = false;
    let mut numbers = BTreeSet::new();
    for (index, line) in read(&scenario.dir.join("expect.txt"))?.lines().enumerate() {
        if line.starts_with('#') {
            own = line.starts_with("# Besides");
        }
        if own {
            numbers.insert(index + 1);
        }
    }
    Ok(scenario.lines.iter().filter(|(number, line)| matches!(line, Line::Probe(_)) && numbers.contains(number)).count())
}

/// A manifest of upstream's, with the default host ports in its template.
fn rendered(path: &Path) -> Result<String, String> {
    let ports = (0..8).map(|index| (format!("{{{{ index .HostNetworkPorts {index} }}}}"), (34345 + index).to_string()));
    Ok(ports.fold(read(path)?, |text, (pattern, port)| text.replace(&pattern, &port)))
}

/// The scenarios and manifests that the table does not name.
fn left_out(base: &Path) -> Result<Vec<PathBuf>, String> {
    let scenarios = root().join("scenarios");
    let mut found: Vec<PathBuf> = listed(&scenarios)?
        .into_iter()
        .filter(|it| it.file_name().is_some_and(|name| name.to_string_lossy().starts_with("conformance-")))
        .collect();
    for tier in listed(base)?.into_iter().filter(|it| it.is_dir()) {
        found.extend(listed(&tier)?);
    }
    let is_named = |path: &PathBuf| {
        CASES.iter().any(|(name, manifest, _)| {
            *path == scenarios.join(format!("conformance-{name}")) || *path == base.join(manifest).with_extension("yaml")
        })
    };
    found.retain(|path| !is_named(path));
    Ok(found)
}

fn listed(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(dir).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    entries.map_err(|error: std::io::Error| format!("{}: {error}", dir.display()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn of_kind<'a>(objects: &'a Objects, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.0.iter().filter(move |it| text(it, "/kind") == kind)
}

fn at<'a>(object: &'a Value, pointer: &str) -> &'a Value {
    object.pointer(pointer).unwrap_or(&Value::Null)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    at(object, pointer).as_str().unwrap_or_default()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
