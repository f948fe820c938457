use palisade_k8s::{Index, Text};

use super::*;

/// Two pods, and one policy for each: what `a` may call, and who may call `b`.
fn cluster(egress_of_a: &str, ingress_of_b: &str) -> Snapshot {
    let pod = |name: &str, address: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{namespace: x, name: {name}, labels: {{app: {name}}}}}, status: {{podIP: {address}}}}}\n---\n"
        )
    };
    let policy = |name: &str, app: &str, direction: &str, mode: &str| {
        let annotations = if mode == "audit" { "annotations: {palisade.dev/mode: audit}, " } else { "" };
        format!(
            "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{{annotations}namespace: x, name: {name}}}, \
             spec: {{podSelector: {{matchLabels: {{app: {app}}}}}, policyTypes: [{direction}]}}}}\n---\n"
        )
    };
    let pods = pod("a", "10.0.0.1") + &pod("b", "10.0.0.2");
    let policies = policy("a-calls", "a", "Egress", egress_of_a) + &policy("b-called", "b", "Ingress", ingress_of_b);
    let mut index = Index::default();
    index.read(Text { file: "cluster.yaml".into(), content: format!("{pods}{policies}").into() });
    index.snapshot()
}

/// A call of port 80 that was seen to be denied in a direction, by ends that had these names.
fn flow((from, from_name): (IpAddr, &str), (to, to_name): (IpAddr, &str), direction: Direction) -> SeenFlow {
    SeenFlow {
        from,
        to,
        from_name: from_name.to_owned(),
        to_name: to_name.to_owned(),
        protocol: Protocol::TCP,
        port: Some(80),
        direction,
        becomes: v1::Becomes::Denied,
        reason: Reason::Isolated(Vec::new()),
        instead_of: Reason::Default,
        connections: 1,
        first: Duration::ZERO,
        last: Duration::ZERO,
    }
}

fn reported(snapshot: &Snapshot, flows: Vec<SeenFlow>) -> v1::AuditReport {
    let seen = SeenOnNode { set: "audit".into(), since: Duration::ZERO, flows, subjects: BTreeMap::new(), not_kept: 0, lost: 0 };
    audit_report(snapshot, &[seen], None, Duration::ZERO)
}

/// What still denies a call from `a` to `b` that one direction would turn to a denial.
fn check(snapshot: &Snapshot, turned: Direction, expected: Option<&str>) {
    let [from, to] = ["10.0.0.1", "10.0.0.2"].map(|it| it.parse().unwrap());
    let report = reported(snapshot, vec![flow((from, "x/a"), (to, "x/b"), turned)]);
    let said: Vec<Option<&str>> = report.sets.iter().flat_map(|it| &it.stays_denied).map(|it| it.still_denied.as_deref()).collect();
    assert_eq!(said, [expected], "{}", audit_text(&report));
}

#[test]
fn what_still_denies_is_what_denies_today() {
    let ingress = "ingress: isolated by NetworkPolicy x/b-called, no rule accepts";
    check(&cluster("audit", "enforced"), Direction::Egress, Some(ingress));
    let egress = "egress: isolated by NetworkPolicy x/a-calls, no rule accepts";
    check(&cluster("enforced", "audit"), Direction::Ingress, Some(egress));
}

/// `b` may be called by IPv6 alone, and `a` would call nobody. Who has the last address was another pod when it was seen.
#[test]
fn families_and_owners_of_an_address_are_told_apart() {
    let more = "{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: a, labels: {app: a}}, status: {podIPs: [{ip: 10.0.0.1}, {ip: 'fd00::1'}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: b, labels: {app: b}}, status: {podIPs: [{ip: 10.0.0.2}, {ip: 'fd00::2'}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: other}, status: {podIP: 10.0.0.9}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: x, name: b-called}, spec: {podSelector: {matchLabels: {app: b}}, ingress: [{from: [{ipBlock: {cidr: '::/0'}}]}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: x, name: a-calls, annotations: {palisade.dev/mode: audit}}, spec: {podSelector: {matchLabels: {app: a}}, policyTypes: [Egress]}}
";
    let mut index = Index::default();
    index.read(Text { file: "cluster.yaml".into(), content: more.into() });
    let seen = [("10.0.0.1", "x/a", "10.0.0.2"), ("fd00::1", "x/a", "fd00::2"), ("10.0.0.9", "x/tmp", "10.0.0.2")];
    let flows = seen.map(|(from, name, to)| flow((from.parse().unwrap(), name), (to.parse().unwrap(), "x/b"), Direction::Egress));
    let report = reported(&index.snapshot(), flows.to_vec());
    let ends = |flows: &[v1::AuditFlow]| flows.iter().map(|it| format!("{} {}", it.from, it.to)).collect::<Vec<_>>();
    let [set] = report.sets.as_slice() else { panic!("{report:#?}") };
    assert_eq!(
        (ends(&set.breaks), ends(&set.stays_denied)),
        (vec!["x/a x/b".to_owned(), "x/tmp (gone) x/b".to_owned()], vec!["x/a x/b".to_owned()])
    );
    assert_eq!((set.outdated, set.opens.len()), (0, 0));
}
