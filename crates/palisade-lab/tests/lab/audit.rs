//! Audited policies and real packets: they are told what would become of them, and nothing else happens.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use palisade_agent::Event;
use palisade_k8s::Snapshot;
use palisade_lab::{Families, Finding, Lab, NodeEvent, Nodes, Options, PodNetwork, Question, Speaker, WhileUnknown, plan};
use palisade_model::{Direction, PodName, PortProtocol, Protocol, Severity};
use palisade_nft::Becomes;
use palisade_report::audited::{audit_report, audit_text};
use palisade_testkit::check::snapshot;

use crate::ground::is_root;

const OPTIONS: Options =
    Options { nodes: Nodes::AsRead, families: Families::AsRead, network: PodNetwork::Routed, unknown: WhileUnknown::CLOSED };
const PATIENCE: Duration = Duration::from_secs(20);

/// Two pods on one node and one on another; `b` is open to `a` alone.
const CLUSTER: &str = "
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: a, labels: {app: a}}, spec: {nodeName: n1, containers: [{name: m, image: i, ports: [{containerPort: 80}]}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: b, labels: {app: b}}, spec: {nodeName: n2, containers: [{name: m, image: i, ports: [{containerPort: 80}]}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: c, labels: {app: c}}, spec: {nodeName: n1, containers: [{name: m, image: i, ports: [{containerPort: 80}]}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: x, name: b-from-a},
 spec: {podSelector: {matchLabels: {app: b}}, ingress: [{from: [{podSelector: {matchLabels: {app: a}}}]}]}}
---
";

const AUDIT: &str = "palisade.dev/mode: audit";
const NEXT: &str = "palisade.dev/mode: audit, palisade.dev/audit-set: next";

/// Nobody may call `c`; `c` may call `b`; `a` may call nobody.
fn policies(closed: &str, open: &str, silent: &str) -> String {
    let metadata = |name: &str, annotations: &str| {
        let label = "labels: {networking.k8s.io/policy-controller-name: palisade}";
        format!("{{namespace: x, name: {name}, {label}, annotations: {{{annotations}}}}}")
    };
    let policy = |name: &str, annotations: &str, spec: &str| {
        let metadata = metadata(name, annotations);
        format!("{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {metadata}, spec: {{{spec}}}}}\n---\n")
    };
    [
        policy("c-closed", closed, "podSelector: {matchLabels: {app: c}}"),
        policy("b-from-c", open, "podSelector: {matchLabels: {app: b}}, ingress: [{from: [{podSelector: {matchLabels: {app: c}}}]}]"),
        policy("a-silent", silent, "podSelector: {matchLabels: {app: a}}, policyTypes: [Egress]"),
    ]
    .concat()
}

struct Ground {
    lab: Lab,
    read: Snapshot,
    heard: Receiver<NodeEvent>,
}

/// Set, direction, what it would become, and the rule.
type Told = (String, Direction, Becomes, String, String, String);

impl Ground {
    fn up(policies: &str) -> Ground {
        let read = read(policies);
        let (events, heard) = channel();
        let (lab, notes) = Lab::up(plan(&read.model, &OPTIONS).unwrap(), events, |_| {}).unwrap();
        assert_eq!(notes, Vec::<String>::new());
        Ground { lab, read, heard }
    }

    fn become_like(&mut self, policies: &str) {
        self.read = read(policies);
        let plan = self.lab.plan().next(&self.read.model, &OPTIONS).unwrap();
        self.lab.apply(plan, |_| {}).unwrap();
    }

    /// Tries calls of TCP port 80, and says of each whether it is answered; else it is denied.
    fn calls(&mut self, calls: &[(&str, &str)]) -> Vec<bool> {
        let name = |pod: &str| PodName { namespace: "x".into(), name: pod.into() };
        let endpoints = &self.lab.plan().model.endpoints;
        let address = |pod: &str| -> IpAddr {
            endpoints.iter().find(|it| it.name == name(pod)).and_then(|it| it.addresses.first()).copied().unwrap()
        };
        let protocol = Protocol::Port(PortProtocol::Tcp);
        let question = |(from, to): &(&str, &str)| Question {
            from: Speaker::Pod(name(from)),
            source: address(from),
            to: address(to),
            protocol,
            port: Some(80),
        };
        let questions: Vec<Question> = calls.iter().map(question).collect();
        let answered = |finding: Finding| match finding {
            Finding::Answered => true,
            Finding::Denied(_) => false,
            other @ (Finding::Refused | Finding::Leaked(_) | Finding::Silent | Finding::Unsent(_)) => panic!("{other:?}"),
        };
        self.lab.probe(&questions).unwrap().into_iter().map(answered).collect()
    }

    /// Waits until so much was told, each once.
    fn told(&self, count: usize) -> BTreeSet<Told> {
        let (mut told, deadline) = (BTreeSet::new(), Instant::now() + PATIENCE);
        while told.len() < count {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = self.heard.recv_timeout(left).unwrap_or_else(|error| panic!("{error}: {told:#?}"));
            told.extend(as_told(event.event));
        }
        told.extend(self.heard.try_iter().filter_map(|it| as_told(it.event)));
        told
    }

    fn report(&self) -> (palisade_report::v1::AuditReport, String) {
        let seen: Vec<_> = self.lab.watched().unwrap().iter().map(palisade_agent::Watched::seen).collect();
        let read = Snapshot { model: self.lab.plan().model.clone(), ..self.read.clone() };
        let report = audit_report(&read, &seen, None, Duration::from_secs(u64::MAX / 2));
        let text = audit_text(&report);
        (report, text)
    }
}

fn read(policies: &str) -> Snapshot {
    let read = snapshot("cluster.yaml", &format!("{CLUSTER}{policies}"));
    let errors = read.diagnostics.iter().filter(|it| it.severity == Severity::Error);
    assert_eq!(errors.map(ToString::to_string).collect::<Vec<_>>(), Vec::<String>::new());
    read
}

fn as_told(event: Event) -> Option<Told> {
    match event {
        Event::Would(it) => {
            let report = it.report();
            let [from, to] = [report.from.pod.unwrap(), report.to.pod.unwrap()];
            Some((it.would.set.to_string(), it.would.direction, it.would.becomes, from, to, report.sentence))
        }
        Event::Failed(error) => panic!("{error}"),
        Event::Denied(_) | Event::DeniedAgain(_) | Event::Suppressed { .. } | Event::Accepted(_) | Event::AcceptedMore { .. } => None,
        Event::WouldMore { .. } | Event::Lost(_) | Event::Restored { .. } | Event::Cut(_) | Event::Bypassed(_) | Event::Noticed(_) => None,
    }
}

const CALLS: [(&str, &str); 4] = [("a", "c"), ("a", "b"), ("c", "b"), ("b", "a")];

fn expected(lines: &[(&str, Direction, Becomes, &str, &str, &str)]) -> BTreeSet<Told> {
    let owned = |it: &(&str, Direction, Becomes, &str, &str, &str)| {
        let (set, direction, becomes, from, to, sentence) = *it;
        (set.to_owned(), direction, becomes, format!("x/{from}"), format!("x/{to}"), sentence.to_owned())
    };
    lines.iter().map(owned).collect()
}

const CLOSED: &str = "isolated by NetworkPolicy x/c-closed, no rule accepts";
const SILENT: &str = "isolated by NetworkPolicy x/a-silent, no rule accepts";
const OPEN: &str = "NetworkPolicy x/b-from-c rule 0 accepts";

#[test]
fn audited_policies_tell_what_they_would_do_and_do_it_only_when_promoted() {
    use Becomes::{Allowed, Denied};
    use Direction::{Egress, Ingress};
    if !is_root() {
        return;
    }
    let mut ground = Ground::up(&policies(AUDIT, NEXT, NEXT));
    // As without them: only `c` may not call `b`.
    assert_eq!(ground.calls(&CALLS), [true, true, false, true]);
    let all = [
        ("audit", Ingress, Denied, "a", "c", CLOSED),
        ("next", Egress, Denied, "a", "c", SILENT),
        ("next", Egress, Denied, "a", "b", SILENT),
        ("next", Ingress, Allowed, "c", "b", OPEN),
    ];
    assert_eq!(ground.told(all.len()), expected(&all));
    let (report, text) = ground.report();
    let [audit, next] = report.sets.as_slice() else { panic!("{text}") };
    let ends = |flows: &[palisade_report::v1::AuditFlow]| -> Vec<String> {
        flows.iter().map(|it| format!("{} {} {:?} {}", it.from, it.to, it.port, it.connections)).collect()
    };
    assert_eq!((ends(&audit.breaks), ends(&audit.opens)), (vec!["x/a x/c Some(80) 1".to_owned()], vec![]), "{text}");
    let both = vec!["x/a x/b Some(80) 1".to_owned(), "x/a x/c Some(80) 1".to_owned()];
    assert_eq!((ends(&next.breaks), ends(&next.opens)), (both, vec!["x/c x/b Some(80) 1".to_owned()]), "{text}");
    let place = next.opens[0].turns[0].place.as_ref().unwrap();
    assert_eq!(place.file, "cluster.yaml");
    assert!(audit.never_seen.is_empty() && next.never_seen.is_empty(), "{text}");
    assert!(text.contains("kubectl annotate networkpolicy c-closed -n x palisade.dev/mode- palisade.dev/audit-set-"), "{text}");

    // One set is promoted: it is real, and the other stays what it is.
    ground.become_like(&policies("", NEXT, NEXT));
    assert_eq!(ground.calls(&CALLS), [false, true, false, true]);
    let left = &all[1..];
    assert_eq!(ground.told(left.len()), expected(left));
    // An edit begins anew: it is the answer to another question.
    ground.become_like(&policies("", NEXT, AUDIT));
    let (report, text) = ground.report();
    assert!(report.sets.iter().all(|it| it.breaks.is_empty() && it.opens.is_empty() && it.seen.is_empty()), "{text}");
    let never: Vec<String> = report.sets.iter().flat_map(|it| &it.never_seen).map(|it| format!("{} {}", it.pod, it.direction)).collect();
    assert_eq!(never, ["x/a egress", "x/b ingress"], "{text}");
    // All of it is real, and nobody is watched.
    ground.become_like(&policies("", "", ""));
    assert_eq!(ground.calls(&CALLS), [false, false, true, true]);
    assert!(ground.report().0.sets.is_empty());
    assert_eq!(ground.heard.try_iter().filter_map(|it| as_told(it.event)).count(), 0);
}

#[test]
fn what_one_direction_would_allow_stays_denied_by_the_other() {
    if !is_root() {
        return;
    }
    // `c` may call nobody, which is enforced: that `b` would let it in opens nothing.
    let silent = "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: x, name: c-silent}, \
                  spec: {podSelector: {matchLabels: {app: c}}, policyTypes: [Egress]}}\n---\n";
    let allow = "{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, \
                 metadata: {name: c-calls, annotations: {palisade.dev/mode: audit}}, \
                 spec: {tier: Admin, priority: 5, subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: c}}}}, \
                 egress: [{name: all, action: Accept, to: [{pods: {namespaceSelector: {}, podSelector: {}}}]}]}}\n---\n";
    let mut ground = Ground::up(&format!("{silent}{allow}"));
    assert_eq!(ground.calls(&[("c", "b"), ("c", "a")]), [false, false]);
    assert_eq!(ground.told(2).len(), 2);
    let (report, text) = ground.report();
    let set = &report.sets[0];
    assert_eq!((set.opens.len(), set.opens[0].to.as_str(), set.breaks.len()), (1, "x/a", 0), "{text}");
    let stays = &set.stays_denied[0];
    assert_eq!(stays.still_denied.as_deref(), Some("ingress: isolated by NetworkPolicy x/b-from-a, no rule accepts"), "{text}");
    assert!(text.contains("kubectl annotate clusternetworkpolicy.policy.networking.k8s.io c-calls palisade.dev/mode-"), "{text}");
}
