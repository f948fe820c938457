//! What differs between random clusters and changed ones, held against `decide` on both for every pair of pods and both ways with addresses outside.
//!
//! `PALISADE_DIFF_SECONDS` says how long, `PALISADE_DIFF_SEED` where to start.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot build its clusters has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use palisade_analysis::diff::{Between, Change, Diff, Filter, Group, Verb, Version};
use palisade_engine::{compile, decide};
use palisade_model::{End, Endpoint, EndpointId, Family, Flow, Model, NetworkId, Path, Place, PodName, Protocol, Reason, Verdict};
use palisade_testkit::check::snapshot;
use palisade_testkit::generate::generate;
use palisade_testkit::objects::Objects;
use palisade_testkit::random::Random;
use serde_json::{Value, json};

type Traffic = (Protocol, Option<u16>);

/// What has become of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Became {
    Opened,
    OpenedByName,
    Closed,
    ClosedButByName,
    Added,
    AddedByName,
    Removed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mutation {
    Remove,
    Replace,
    Add,
    Relabel,
    Edit,
}

const MUTATIONS: [Mutation; 5] = [Mutation::Remove, Mutation::Replace, Mutation::Add, Mutation::Relabel, Mutation::Edit];

fn is_policy(object: &Value) -> bool {
    matches!(object["kind"].as_str(), Some("NetworkPolicy" | "ClusterNetworkPolicy"))
}

/// The place of an object that is wanted.
fn place(random: &mut Random, objects: &Objects, wanted: impl Fn(&Value) -> bool) -> Option<usize> {
    let places: Vec<usize> = (0..objects.0.len()).filter(|at| wanted(&objects.0[*at])).collect();
    random.pick(&places).copied()
}

/// A cluster that is one change away; None if there is nothing of the sort to change.
fn mutated(mutation: Mutation, random: &mut Random, objects: &Objects) -> Option<Objects> {
    let mut changed = objects.clone();
    let stranger = generate(random.number()).objects;
    match mutation {
        Mutation::Remove => {
            let at = place(random, &changed, |it| is_policy(it) || it["kind"] == "Pod" || it["kind"] == "Namespace")?;
            changed.0.remove(at);
        }
        Mutation::Replace => {
            let at = place(random, &changed, is_policy)?;
            let other = place(random, &stranger, |it| it["kind"] == objects.0[at]["kind"])?;
            changed.0[at]["spec"] = stranger.0[other]["spec"].clone();
        }
        Mutation::Add => {
            let at = place(random, &stranger, |it| is_policy(it) || it["kind"] == "Pod")?;
            let mut added = stranger.0[at].clone();
            added["metadata"]["name"] = json!("stranger");
            changed.0.push(added);
        }
        Mutation::Relabel => {
            let at = place(random, &changed, |it| it["kind"] == "Pod" || it["kind"] == "Namespace")?;
            let other = place(random, &stranger, |it| it["kind"] == objects.0[at]["kind"])?;
            changed.0[at]["metadata"]["labels"] = stranger.0[other]["metadata"].get("labels").cloned().unwrap_or(json!({}));
        }
        Mutation::Edit => {
            let list =
                |it: &Value| ["ingress", "egress"].into_iter().find(|list| it["spec"][list].as_array().is_some_and(|it| !it.is_empty()));
            let at = place(random, &changed, |it| is_policy(it) && list(it).is_some())?;
            let list = list(&changed.0[at])?;
            let rules = changed.0[at]["spec"][list].as_array_mut()?;
            match random.percent(50) && rules.len() > 1 {
                true => rules.reverse(),
                false => drop(rules.remove(random.below(rules.len()))),
            }
        }
    }
    Some(changed)
}

fn ends(model: &Model, at: usize) -> Vec<(Option<Family>, End)> {
    let end = |address| End { place: Place::Pod(EndpointId(at)), address };
    let addresses = &model.endpoints[at].addresses;
    let mut ends = Vec::new();
    for family in [Family::V4, Family::V6] {
        ends.extend(addresses.iter().find(|it| Family::of(**it) == family).map(|it| (Some(family), end(Some(*it)))));
    }
    if ends.is_empty() { vec![(None, end(None))] } else { ends }
}

fn verdict(model: &Model, from: End, to: End, (protocol, port): Traffic) -> Verdict {
    decide(model, &Flow { network: NetworkId::DEFAULT, from, to, protocol, port, path: Path::Direct }).verdict
}

/// Verdicts by family between all ends of the one and of the other.
fn verdicts(
    model: &Model,
    from: &[(Option<Family>, End)],
    to: &[(Option<Family>, End)],
    traffic: Traffic,
) -> BTreeMap<Option<Family>, Verdict> {
    let mut all = BTreeMap::new();
    for (a, from) in from {
        for (b, to) in to {
            if a.is_none() || b.is_none() || a == b {
                all.insert(a.or(*b), verdict(model, *from, *to, traffic));
            }
        }
    }
    all
}

fn became(before: Option<Verdict>, after: Option<Verdict>) -> Option<Became> {
    use Verdict::{Accept, Deny, DependsOnDns};
    match (before.unwrap_or(Deny), after.unwrap_or(Deny)) {
        (Accept, Accept) | (Deny, Deny) | (DependsOnDns, DependsOnDns) => None,
        (Deny | DependsOnDns, Accept) => Some(Became::Opened),
        (Deny, DependsOnDns) => Some(Became::OpenedByName),
        (Accept | DependsOnDns, Deny) => Some(Became::Closed),
        (Accept, DependsOnDns) => Some(Became::ClosedButByName),
    }
}

fn added(after: Verdict) -> Option<Became> {
    match after {
        Verdict::Accept => Some(Became::Added),
        Verdict::DependsOnDns => Some(Became::AddedByName),
        Verdict::Deny => None,
    }
}

/// Two clusters and what is told of their difference.
struct Case<'c> {
    seed: u64,
    old: &'c Model,
    new: &'c Model,
    diff: &'c Diff,
}

impl Case<'_> {
    /// What is told about a connection, in every change that has it.
    fn told(&self, has: impl Fn(&Change) -> bool, family: Option<Family>, (protocol, port): Traffic) -> Vec<Became> {
        let mut told = Vec::new();
        for change in self.diff.changes.iter().filter(|it| (it.family.is_none() || it.family == family) && has(it)) {
            let within = |set| self.diff.sets.contains(set, protocol, port);
            let (opened, by_name) = (within(change.opened), within(change.opened_by_name));
            let (closed, but_by_name) = (within(change.closed), within(change.closed_but_by_name));
            match change.verb {
                Verb::Added => told.extend([opened.then_some(Became::Added), by_name.then_some(Became::AddedByName)].into_iter().flatten()),
                Verb::Removed => told.extend(closed.then_some(Became::Removed)),
                Verb::Opened | Verb::Changed | Verb::Closed => told.extend(
                    [
                        opened.then_some(Became::Opened),
                        by_name.then_some(Became::OpenedByName),
                        closed.then_some(Became::Closed),
                        but_by_name.then_some(Became::ClosedButByName),
                    ]
                    .into_iter()
                    .flatten(),
                ),
            }
        }
        told
    }

    fn has_pod(&self, group: &Group, pod: &Endpoint) -> bool {
        let short = format!("{}[", pod.name);
        group.units.iter().any(|it| self.diff.units[it.unit].name.starts_with(&short))
    }

    fn check(&self, counts: &mut BTreeMap<Option<Became>, usize>) {
        let pods: BTreeMap<&PodName, (Option<usize>, Option<usize>)> = {
            let mut pods: BTreeMap<&PodName, (Option<usize>, Option<usize>)> = BTreeMap::new();
            self.old.endpoints.iter().enumerate().for_each(|(at, it)| pods.entry(&it.name).or_default().0 = Some(at));
            self.new.endpoints.iter().enumerate().for_each(|(at, it)| pods.entry(&it.name).or_default().1 = Some(at));
            pods
        };
        for traffic in traffics() {
            for (a, from) in &pods {
                for (b, to) in &pods {
                    if a != b {
                        self.check_pair(*from, *to, traffic, counts);
                    }
                }
                self.check_outside(*from, traffic, counts);
            }
        }
    }

    fn check_pair(
        &self,
        from: (Option<usize>, Option<usize>),
        to: (Option<usize>, Option<usize>),
        traffic: Traffic,
        counts: &mut BTreeMap<Option<Became>, usize>,
    ) {
        let of = |model: &Model, from: Option<usize>, to: Option<usize>| {
            from.zip(to).map(|(from, to)| verdicts(model, &ends(model, from), &ends(model, to), traffic))
        };
        let (old, new) = (of(self.old, from.0, to.0), of(self.new, from.1, to.1));
        let pod =
            |at: (Option<usize>, Option<usize>)| at.1.map(|it| &self.new.endpoints[it]).or(at.0.map(|it| &self.old.endpoints[it])).unwrap();
        let (source, destination) = (pod(from), pod(to));
        let same = source.name.namespace == destination.name.namespace;
        let has = |change: &Change| {
            let apart = match change.between {
                Between::Any => true,
                Between::SameNamespace => same,
                Between::OtherNamespaces => !same,
            };
            apart && self.has_pod(&change.from, source) && self.has_pod(&change.to, destination)
        };
        let known: BTreeSet<Option<Family>> = [&old, &new].into_iter().flatten().flat_map(|it| it.keys().copied()).collect();
        let any_known = known.iter().any(Option::is_some);
        for family in known.into_iter().filter(|it| it.is_some() || !any_known) {
            let nearest = |all: &BTreeMap<Option<Family>, Verdict>| {
                let families = [family, None, Some(Family::V4), Some(Family::V6)];
                families.into_iter().find_map(|it| all.get(&it).copied())
            };
            let expected = match (&old, &new) {
                (Some(old), Some(new)) => became(nearest(old), nearest(new)),
                (None, Some(new)) => nearest(new).and_then(added),
                (Some(old), None) => nearest(old).filter(|it| *it != Verdict::Deny).map(|_| Became::Removed),
                (None, None) => None,
            };
            let told = self.told(has, family, traffic);
            let what = format!("seed {}: {} -> {} {traffic:?} {family:?}", self.seed, source.name, destination.name);
            assert_eq!(told, Vec::from_iter(expected), "{what}\n{:#?}", self.diff.changes);
            *counts.entry(expected).or_default() += 1;
        }
    }

    fn check_outside(&self, pod: (Option<usize>, Option<usize>), traffic: Traffic, counts: &mut BTreeMap<Option<Became>, usize>) {
        let endpoint = pod.1.map(|it| &self.new.endpoints[it]).or(pod.0.map(|it| &self.old.endpoints[it])).unwrap();
        for address in ["10.1.255.255", "203.0.113.9", "0.0.0.0", "fd00::1", "2001:db8::1"] {
            let address: IpAddr = address.parse().unwrap();
            // What somebody of the cluster has is not outside.
            let is_known = |it: &Model| {
                it.place_of(NetworkId::DEFAULT, address) != Place::Outside || it.services.iter().any(|it| it.addresses().contains(&address))
            };
            if [self.old, self.new].into_iter().any(is_known) {
                continue;
            }
            let outside = [(Some(Family::of(address)), End { place: Place::Outside, address: Some(address) })];
            for outward in [true, false] {
                let of = |model: &Model, at: Option<usize>| {
                    let own = ends(model, at?);
                    let all = if outward { verdicts(model, &own, &outside, traffic) } else { verdicts(model, &outside, &own, traffic) };
                    Some(all.into_values().next())
                };
                let expected = match (of(self.old, pod.0), of(self.new, pod.1)) {
                    (Some(old), Some(new)) => became(old, new),
                    (None, Some(new)) => new.and_then(added),
                    (Some(old), None) => old.filter(|it| *it != Verdict::Deny).map(|_| Became::Removed),
                    (None, None) => None,
                };
                let holds = |group: &Group| {
                    group.ranges.iter().any(|(first, last)| first.is_ipv4() == address.is_ipv4() && (*first..=*last).contains(&address))
                };
                let has = |it: &Change| match outward {
                    true => self.has_pod(&it.from, endpoint) && holds(&it.to),
                    false => holds(&it.from) && self.has_pod(&it.to, endpoint),
                };
                let told = self.told(has, None, traffic);
                let what = format!("seed {}: {} and {address}, outward {outward} {traffic:?}", self.seed, endpoint.name);
                assert_eq!(told, Vec::from_iter(expected), "{what}\n{:#?}", self.diff.changes);
                *counts.entry(expected).or_default() += 1;
            }
        }
    }

    /// Whoever is said to be responsible is in the version that it is said of, and every change has somebody.
    fn check_because(&self) {
        let stands = |model: &Model, answer: &Option<(Verdict, Reason)>| match answer {
            Some((_, Reason::Rule(rule))) => model.policies.iter().any(|it| it.origin == rule.policy),
            Some((_, Reason::Isolated(policies))) => policies.iter().all(|policy| model.policies.iter().any(|it| it.origin == *policy)),
            Some((_, Reason::NotAPod | Reason::Itself | Reason::OwnNode | Reason::Default)) | None => true,
        };
        for change in &self.diff.changes {
            assert!(!change.because.is_empty(), "seed {}: nobody is responsible for {change:#?}", self.seed);
            for because in &change.because {
                assert!(stands(self.old, &because.before) && stands(self.new, &because.after), "seed {}: {because:#?}", self.seed);
                let verdict = |it: &Option<(Verdict, Reason)>| it.as_ref().map(|it| it.0);
                assert_ne!(verdict(&because.before), verdict(&because.after), "seed {}: {because:#?}", self.seed);
            }
        }
    }
}

fn traffics() -> Vec<Traffic> {
    let tcp = [80, 81, 8080].map(|port| (Protocol::TCP, Some(port)));
    [&tcp[..], &[(Protocol::UDP, Some(53)), (Protocol::SCTP, Some(80)), (Protocol::Icmp, None)]].concat()
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn what_differs_between_random_clusters_is_what_decide_says_of_both() {
    let end = Instant::now() + Duration::from_secs(setting("PALISADE_DIFF_SECONDS").unwrap_or(0));
    let first = setting("PALISADE_DIFF_SEED").unwrap_or(0);
    let mut counts: BTreeMap<Option<Became>, usize> = BTreeMap::new();
    let mut seed = first;
    while seed < first + 40 || Instant::now() < end {
        let objects = generate(seed).objects;
        for mutation in MUTATIONS {
            let random = &mut Random::new(seed.wrapping_mul(31).wrapping_add(1));
            let Some(changed) = mutated(mutation, random, &objects) else { continue };
            let (old, new) = (snapshot("old.json", &objects.to_json()).model, snapshot("new.json", &changed.to_json()).model);
            let (was, is) = (compile(&old), compile(&new));
            let (mut was, mut is) = (was.reach(), is.reach());
            let diff =
                Version { model: &new, reach: &mut is }.changes_since(&mut Version { model: &old, reach: &mut was }, &Filter::default());
            let case = Case { seed, old: &old, new: &new, diff: &diff };
            case.check(&mut counts);
            case.check_because();
        }
        seed += 1;
    }
    // What comes to depend on a name is seldom met; a test of its own has it.
    use Became::{Added, Closed, Opened, Removed};
    for met in [Some(Opened), Some(Closed), Some(Added), Some(Removed), None] {
        assert!(counts.get(&met).is_some_and(|it| *it > 0), "{met:?} is never met: {counts:?}");
    }
}

/// Pods of a Deployment by these names, on a page of their own each.
fn replicas(names: &[&str], labels: &str) -> String {
    let pod = |name: &&str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: x, labels: {{{labels}}}, \
             ownerReferences: [{{kind: Deployment, name: web, controller: true}}]}}}}\n---\n"
        )
    };
    names.iter().map(pod).collect()
}

const CLOSED: &str = "
{apiVersion: v1, kind: Pod, metadata: {name: db, namespace: x, labels: {app: db}}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: x}, spec: {podSelector: {matchLabels: {app: db}},
  ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]}}
---
";

fn check_replicas(before: String, after: String, expected: &[(Verb, &str, &str)]) {
    let (old, new) = (snapshot("old.yaml", &(before + CLOSED)).model, snapshot("new.yaml", &(after + CLOSED)).model);
    let (was, is) = (compile(&old), compile(&new));
    let (mut was, mut is) = (was.reach(), is.reach());
    let diff = Version { model: &new, reach: &mut is }.changes_since(&mut Version { model: &old, reach: &mut was }, &Filter::default());
    let names = |group: &Group| group.units.iter().map(|it| diff.units[it.unit].name.as_str()).collect::<Vec<_>>().join(",");
    let found: Vec<(Verb, String, String)> = diff.changes.iter().map(|it| (it.verb, names(&it.from), names(&it.to))).collect();
    let expected: Vec<(Verb, String, String)> = expected.iter().map(|it| (it.0, it.1.to_owned(), it.2.to_owned())).collect();
    assert_eq!(found, expected);
}

#[test]
fn replicas_under_other_names_are_the_same_workload() {
    check_replicas(replicas(&["a", "b"], "app: web"), replicas(&["c", "d", "e"], "app: web"), &[]);
    check_replicas(replicas(&["a", "b"], "app: web"), replicas(&["a"], "app: web"), &[]);
    check_replicas(replicas(&["a"], "app: web"), replicas(&["a", "b"], "app: web"), &[]);
    let expected = [(Verb::Closed, "x/web[Deployment]", "x/db[Pod]")];
    check_replicas(replicas(&["a", "b"], "app: web"), replicas(&["c", "d"], "app: other"), &expected);
    check_replicas(replicas(&["a", "b"], "app: web"), replicas(&["a"], "app: web") + &replicas(&["b"], "app: other"), &expected);
}

/// Twenty namespaces of three workloads each.
fn many() -> String {
    let mut all = String::new();
    for namespace in 0..20 {
        all.push_str(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: n{namespace}}}}}\n---\n"));
        for app in ["web", "api", "db"] {
            let metadata = format!("{{name: {app}, namespace: n{namespace}, labels: {{app: {app}}}}}");
            all.push_str(&format!("{{apiVersion: v1, kind: Pod, metadata: {metadata}}}\n---\n"));
        }
    }
    all
}

#[test]
fn a_change_to_the_whole_cluster_is_a_few_lines() {
    let policy = |spec: &str| {
        let metadata = "{name: p}";
        format!("{{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {metadata}, spec: {spec}}}\n---\n")
    };
    let deny = "{tier: Baseline, priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}";
    let database = "{tier: Admin, priority: 1, subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: db}}}}, \
                    ingress: [{action: Deny, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}}]}]}";
    for (spec, from, to) in [(deny, 60, 60), (database, 20, 20)] {
        let (old, new) = (snapshot("old.yaml", &many()).model, snapshot("new.yaml", &(many() + &policy(spec))).model);
        let (was, is) = (compile(&old), compile(&new));
        let (mut was, mut is) = (was.reach(), is.reach());
        let diff = Version { model: &new, reach: &mut is }.changes_since(&mut Version { model: &old, reach: &mut was }, &Filter::default());
        let [change] = diff.changes.as_slice() else { panic!("{:#?}", diff.changes) };
        assert_eq!((change.verb, change.between), (Verb::Closed, Between::Any));
        assert_eq!((change.from.units.len(), change.to.units.len(), change.because.len()), (from, to, 1));
    }
}

#[test]
fn what_comes_to_depend_on_a_name_is_told_apart() {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x, labels: {app: a}}}\n---\n";
    let names = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: x, name: deny}
spec: {podSelector: {}, policyTypes: [Egress]}
---
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: names}
spec:
  tier: Admin
  priority: 1
  subject: {namespaces: {}}
  egress: [{action: Accept, to: [{domainNames: [example.com]}], protocols: [{tcp: {destinationPort: {number: 80}}}]}]
";
    let (open, closed) = (snapshot("open.yaml", pod).model, snapshot("closed.yaml", &format!("{pod}{names}")).model);
    let compared = |old: &Model, new: &Model| {
        let (was, is) = (compile(old), compile(new));
        let (mut was, mut is) = (was.reach(), is.reach());
        let mut old = Version { model: old, reach: &mut was };
        Version { model: new, reach: &mut is }.changes_since(&mut old, &Filter::default())
    };
    let has = |diff: &Diff, set, port| diff.sets.contains(set, Protocol::TCP, Some(port));
    let diff = compared(&open, &closed);
    let only = &diff.changes[0];
    assert_eq!((diff.changes.len(), only.verb), (1, Verb::Closed));
    assert!(has(&diff, only.closed_but_by_name, 80) && !has(&diff, only.closed, 80) && has(&diff, only.closed, 81));
    let diff = compared(&closed, &open);
    let only = &diff.changes[0];
    assert_eq!((diff.changes.len(), only.verb), (1, Verb::Opened));
    assert!(has(&diff, only.opened, 80) && has(&diff, only.opened, 81) && !has(&diff, only.opened_by_name, 80));
}
