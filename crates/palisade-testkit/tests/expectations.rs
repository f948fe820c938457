//! What each form of sentence says about a cluster.
#![expect(clippy::unwrap_used, reason = "all of this is tests, and clippy knows them by their attribute only")]

use palisade_analysis::PortAsked;
use palisade_analysis::expect::{Counterexample, Expectation, Held, parse, run, run_all};
use palisade_model::Severity;
use palisade_testkit::check::snapshot;

/// `shop/web` may call `shop/db` on 5432, and 10.0.0.0/8 without 10.1.0.0/16 may call `shop/web` on its port named http. `shop/db` calls
/// nobody. `ops` has no policies.
const SHOP: &str = "
{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: shop, labels: {app: web}, ownerReferences: [{kind: ReplicaSet, name: web, controller: true}]},
 spec: {containers: [{ports: [{name: http, containerPort: 8080}]}]}, status: {podIPs: [{ip: 10.9.0.1}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-2, namespace: shop, labels: {app: web}, ownerReferences: [{kind: ReplicaSet, name: web, controller: true}]},
 spec: {containers: [{ports: [{name: http, containerPort: 8080}]}]}, status: {podIPs: [{ip: 10.9.0.2}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db, namespace: shop, labels: {app: db}}, status: {podIPs: [{ip: 10.9.0.3}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: probe, namespace: ops, labels: {app: probe}}, status: {podIPs: [{ip: 10.9.0.4}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: shop}, spec: {selector: {app: db}, clusterIP: 10.96.0.1, ports: [{port: 1, targetPort: 5432}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: none, namespace: shop}, spec: {selector: {app: none}, ports: [{port: 1}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: written, namespace: shop}, spec: {ports: [{port: 1}]}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  policyTypes: [Ingress, Egress]
  ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 5432}]}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  podSelector: {matchLabels: {app: web}}
  policyTypes: [Ingress]
  ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}], ports: [{port: http}]}]
";

fn read(sentence: &str) -> Expectation {
    let (mut expectations, diagnostics) = parse("e.yaml", &format!("- '{sentence}'\n"));
    assert_eq!(diagnostics, [], "{sentence}");
    expectations.pop().unwrap()
}

fn held(yaml: &str, sentence: &str) -> Held {
    let snapshot = snapshot("cluster.yaml", yaml);
    let errors: Vec<_> = snapshot.diagnostics.iter().filter(|it| it.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:?}");
    run(&snapshot.model, &read(sentence)).result
}

fn line(it: &Counterexample) -> String {
    let port = match &it.asked.port {
        PortAsked::Number(port) => format!("/{port}"),
        PortAsked::Name(name) => format!("/{name}"),
        PortAsked::None => String::new(),
    };
    format!("{} -> {} {}{port} {:?}", it.from, it.to, it.asked.protocol, it.verdict)
}

fn check_holds(yaml: &str, sentence: &str, pairs: u64) {
    check(yaml, sentence, &format!("holds for {pairs} pairs"));
}

fn check(yaml: &str, sentence: &str, wanted: &str) {
    let found = match held(yaml, sentence) {
        Held::No { counterexamples, more } => {
            let mut lines: Vec<String> = counterexamples.iter().map(line).collect();
            lines.extend((more > 0).then(|| format!("{more} more")));
            lines.join("\n")
        }
        Held::MatchesNothing { why } => format!("matches nothing: {why}"),
        Held::CannotTell { why } => format!("cannot tell: {why}"),
        Held::Yes { checked, pairs } => {
            assert!(checked > 0 && u64::try_from(checked).unwrap() <= pairs, "{sentence}: {checked} of {pairs}");
            format!("holds for {pairs} pairs")
        }
    };
    let wanted: Vec<&str> = wanted.lines().map(str::trim).collect();
    assert_eq!(found, wanted.join("\n"), "{sentence}");
}

#[test]
fn an_arrow_says_allowed_or_denied() {
    check_holds(SHOP, "shop/web -> shop/db tcp/5432 allowed", 2);
    check_holds(SHOP, "shop/web -> shop/db tcp/5433 udp/5432 icmp denied", 2);
    check_holds(SHOP, "ops/probe -> shop/db denied", 1);
    check_holds(SHOP, "10.0.0.7 -> shop/web tcp/http allowed", 2);
    check_holds(SHOP, "10.0.0.7 -> shop/web:8080 allowed", 2);
    check_holds(SHOP, "10.1.0.7 -> shop/web:8080 denied", 2);
    check(SHOP, "shop/web-1 -> shop/db tcp/5432,5433 denied", "shop/web-1 -> shop/db tcp/5432 Accept");
    check(SHOP, "ops/probe -> shop/db tcp/5432 allowed", "ops/probe -> shop/db tcp/5432 Deny");
    check(SHOP, "shop/web -> shop/db tcp/5432 denied", "shop/web-1 -> shop/db tcp/5432 Accept\n1 more");
}

#[test]
fn without_ports_every_port_that_can_be_told_apart_is_asked() {
    check(
        SHOP,
        "shop/web-1 -> shop/db allowed",
        "shop/web-1 -> shop/db tcp/80 Deny
         shop/web-1 -> shop/db udp/80 Deny
         shop/web-1 -> shop/db sctp/80 Deny
         shop/web-1 -> shop/db icmp Deny",
    );
    check(SHOP, "shop/web-1 -> shop/db denied", "shop/web-1 -> shop/db tcp/5432 Accept");
    check(SHOP, "shop/web-1 -> shop/db tcp allowed", "shop/web-1 -> shop/db tcp/80 Deny");
    check_holds(SHOP, "shop/web-1 -> shop/db udp sctp icmp denied", 1);
}

#[test]
fn nothing_reaches() {
    // Two pods of web, the probe, and three kinds of addresses; those of IPv6 cannot meet a pod of IPv4.
    check_holds(SHOP, "nothing outside shop/web reaches shop/db", 4);
    check_holds(SHOP, "nothing outside shop reaches shop/db", 4);
    check_holds(SHOP, "nothing reaches shop/db udp", 6);
    check(SHOP, "nothing reaches shop/db", "shop/web-1 -> shop/db tcp/5432 Accept\n1 more");
    check(SHOP, "nothing outside shop/web-1 reaches svc/shop/db", "shop/web-2 -> shop/db (behind svc/shop/db) tcp/5432 Accept");
}

#[test]
fn only_some_reach() {
    check_holds(SHOP, "only shop/web reaches shop/db:5432", 6);
    check_holds(SHOP, "only shop/app=web reaches shop/db:5432", 7);
    check(SHOP, "only shop/web, ops reaches shop/db:5432", "ops/probe -> shop/db tcp/5432 Deny");
    check(
        SHOP,
        "only ops reaches svc/shop/db:1",
        "ops/probe -> shop/db (behind svc/shop/db) tcp/5432 Deny
         shop/web-1 -> shop/db (behind svc/shop/db) tcp/5432 Accept
         1 more",
    );
}

#[test]
fn nothing_leaves() {
    check_holds(SHOP, "nothing leaves shop/db", 6);
    check(SHOP, "nothing leaves ops/probe tcp/25 except to shop", "ops/probe -> 10.0.0.1 tcp/25 Accept\n2 more");
    check(SHOP, "nothing leaves shop/web tcp/5432 except to external, ops, shop/web", "shop/web-1 -> shop/db tcp/5432 Accept\n1 more");
    check_holds(SHOP, "nothing leaves shop/web-1 tcp/80 except to external, ops", 2);
}

#[test]
fn some_reach_only_some() {
    let egress = format!(
        "{SHOP}---\n{}",
        network_policy("shop", "web-egress", "{matchLabels: {app: web}}", "egress: [{to: [{podSelector: {matchLabels: {app: db}}}]}]")
    );
    check_holds(&egress, "shop/web reaches only shop/db tcp/5432", 12);
    check_holds(&egress, "shop/web reaches only svc/shop/db", 12);
    check(&egress, "shop/web-1 reaches only shop/db, ops/probe tcp/5432", "shop/web-1 -> ops/probe tcp/5432 Deny");
    check(SHOP, "shop/web-1 reaches only shop/db, external tcp/5432", "shop/web-1 -> ops/probe tcp/5432 Accept");
}

#[test]
fn everything() {
    let pods = "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x}}\n---
      {apiVersion: v1, kind: Pod, metadata: {name: b, namespace: x}}\n";
    check_holds(pods, "everything reaches x/b", 3);
    check_holds(pods, "x/* reaches everything", 6);
    check(SHOP, "everything reaches ops/probe tcp/80", "shop/db -> ops/probe tcp/80 Deny");
    check(
        SHOP,
        "ops/probe reaches everything tcp/5432",
        "ops/probe -> shop/db tcp/5432 Deny\nops/probe -> shop/web-1 tcp/5432 Deny\n1 more",
    );
    check(
        SHOP,
        "shop/db reaches everything tcp/80",
        "shop/db -> ops/probe tcp/80 Deny
         shop/db -> shop/web-1 tcp/80 Deny
         shop/db -> 10.0.0.1 tcp/80 Deny
         3 more",
    );
}

fn network_policy(namespace: &str, name: &str, pods: &str, rest: &str) -> String {
    let kind = if rest.starts_with("egress") { "Egress" } else { "Ingress" };
    format!(
        "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: {name}, namespace: {namespace}}},
          spec: {{podSelector: {pods}, policyTypes: [{kind}], {rest}}}}}\n"
    )
}

#[test]
fn what_matches_nothing_fails() {
    let check = |sentence, wanted| check(SHOP, sentence, wanted);
    check("nothing reaches shop/cache-*", "matches nothing: `shop/cache-*` matches nothing: no pod or workload of such a name was read");
    check("nothing outside shpo reaches shop/db", "matches nothing: `shpo/*` matches nothing: no pod was read in such a namespace");
    check("*/cache -> shop/db denied", "matches nothing: `*/cache` matches nothing: no pod or workload of such a name was read");
    check("shop/* -> shop/* tcp/grpc denied", "matches nothing: no pod of `shop/*` has a port of that name");
    check("shop/web -> svc/shop/none denied", "matches nothing: `svc/shop/none` has no endpoints there: nobody is behind it");
    check(
        "10.9.0.1/32 -> shop/db denied",
        "matches nothing: `10.9.0.1/32` matches nothing: all its addresses are those of pods, nodes and Services",
    );
    check("nothing outside *, external reaches shop/db", "matches nothing: nothing is left to test: a pod is not tested against itself");
    check(
        "ops/prob -> shop/db denied",
        "matches nothing: `ops/prob` is not among the pods and workloads that were read; did you mean `ops/probe`?",
    );
    check_holds(SHOP, "new/app=batch -> shop/db denied", 1);
}

#[test]
fn patterns_match_pods_and_workloads() {
    check_holds(SHOP, "shop/web-* -> shop/db:5432 allowed", 2);
    check_holds(SHOP, "*/we* -> s*/db:5432 allowed", 2);
    check_holds(SHOP, "shop/*-1 -> shop/db:5432 allowed", 1);
    check_holds(SHOP, "shop/web-* -> ops/* tcp/http, udp/1 allowed", 2);
}

#[test]
fn a_pod_is_not_tested_against_itself() {
    check_holds(SHOP, "shop/* -> shop/db tcp/5432 allowed", 2);
    check(SHOP, "shop/db -> shop/db denied", "matches nothing: nothing is left to test: a pod is not tested against itself");
    check(SHOP, "shop/web -> shop/web tcp/80 allowed", "shop/web-1 -> shop/web-2 tcp/80 Deny\n1 more");
}

#[test]
fn two_pods_of_a_workload_are_tested_against_each_other() {
    let web = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: x},
      spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}}\n---\n";
    check_holds(web, "x/web -> x/web allowed", 1);
    let isolated = format!("{web}{}", network_policy("x", "p", "{}", "ingress: []"));
    check_holds(&isolated, "nothing reaches x/web", 3);
    let own = format!("{web}{}", network_policy("x", "p", "{}", "ingress: [{from: [{podSelector: {}}]}]"));
    check(&own, "nothing reaches x/web tcp/80", "x/web -> x/web tcp/80 Accept");
}

#[test]
fn addresses_outside_are_cut_by_blocks_and_their_exceptions() {
    check(SHOP, "10.0.0.0/8 -> shop/web-1:8080 denied", "10.0.0.1 -> shop/web-1 tcp/8080 Accept");
    check(SHOP, "10.0.0.0/8 -> shop/web-1:8080 allowed", "10.1.0.1 -> shop/web-1 tcp/8080 Deny");
    check_holds(SHOP, "10.1.128.0/17 -> shop/web:8080 denied", 2);
    check(SHOP, "external -> shop/web-1:8080 allowed", "10.1.0.1 -> shop/web-1 tcp/8080 Deny\n1 more");
    check(
        SHOP,
        "nothing outside 10.0.0.0/9 reaches shop/web-1:8080",
        "ops/probe -> shop/web-1 tcp/8080 Accept
         shop/web-2 -> shop/web-1 tcp/8080 Accept
         10.128.0.0 -> shop/web-1 tcp/8080 Accept",
    );
}

#[test]
fn a_service_is_what_stands_behind_it() {
    check_holds(SHOP, "shop/web -> svc/shop/db tcp/1 allowed", 2);
    check_holds(SHOP, "shop/web → svc/shop/db allowed", 2);
    check_holds(SHOP, "shop/web -> 10.96.0.1 tcp/1 allowed", 2);
    check(SHOP, "ops/probe -> svc/shop/db allowed", "ops/probe -> shop/db (behind svc/shop/db) tcp/5432 Deny");
    check(SHOP, "shop/web -> svc/shop/db tcp/5432 allowed", "matches nothing: `svc/shop/db` has no such port; it has tcp/1");
    check(
        SHOP,
        "shop/web -> svc/shop/written allowed",
        "cannot tell: `svc/shop/written` has no selector: its endpoints are written by somebody else, and are not read; ask about the address of one",
    );
}

#[test]
fn a_node_is_tested_only_where_it_is_named() {
    let node = "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {addresses: [{type: InternalIP, address: 192.0.2.1}]}}\n---
      {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x}, spec: {nodeName: n1}, status: {podIPs: [{ip: 10.0.0.1}]}}\n---
      {apiVersion: v1, kind: Pod, metadata: {name: b, namespace: x}, spec: {nodeName: n2}, status: {podIPs: [{ip: 10.0.0.2}]}}\n---\n";
    let isolated = format!("{node}{}", network_policy("x", "p", "{}", "ingress: []"));
    check_holds(&isolated, "nothing reaches x/*", 4);
    check_holds(&isolated, "node/n1 -> x/a allowed", 1);
    check(&isolated, "node/n1 -> x/* tcp/80 allowed", "node n1 -> x/b tcp/80 Deny");
}

#[test]
fn what_depends_on_dns_cannot_be_told() {
    let yaml = "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x}}\n---
      {apiVersion: v1, kind: Pod, metadata: {name: b, namespace: x}}\n---
      {apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: c}, spec: {tier: Admin, priority: 1,
       subject: {namespaces: {}}, egress: [{action: Accept, to: [{domainNames: [example.com]}]},
       {action: Deny, to: [{networks: [0.0.0.0/0, '::/0']}]}]}}\n";
    let why = "cannot tell: whether x/a reaches 203.0.113.10 on tcp/80 depends on what a domain name in a policy resolves to";
    for verdict in ["allowed", "denied"] {
        check(yaml, &format!("x/a -> 203.0.113.10 tcp/80 {verdict}"), why);
    }
    check(yaml, "x/a -> external tcp/80 denied", &format!("{why}, and so do 1 more"));
    check(yaml, "nothing leaves x/a tcp/80", "x/a -> x/b tcp/80 Accept");
}

#[test]
fn what_cannot_meet_cannot_be_told() {
    check(SHOP, "fd00::7 -> shop/db denied", "cannot tell: the two ends have no IP family in common");
    check(SHOP, "10.0.0.7 -> 10.0.0.8 denied", "cannot tell: no policy judges a connection between two ends that are not pods");
}

#[test]
fn many_expectations_get_the_outcomes_of_each() {
    let model = snapshot("cluster.yaml", SHOP).model;
    let sentences = ["new/app=a -> shop/db denied", "* -> * tcp/80 denied", "nothing reaches shop/db", "new/app=b -> new/app=a allowed"];
    let expectations: Vec<Expectation> = sentences.iter().map(|it| read(it)).collect();
    let each: Vec<_> = expectations.iter().map(|it| run(&model, it)).collect();
    assert_eq!(run_all(&model, &expectations), each);
}

#[test]
fn the_sentences_of_the_manual_can_be_read() {
    let manual = include_str!("../../../docs/testing-policies.md");
    let examples: Vec<&str> = manual.split("```yaml\n").skip(1).filter_map(|it| it.split("```").next()).collect();
    let read: Vec<_> = examples.iter().map(|it| parse("manual", it)).collect();
    for (_, diagnostics) in &read {
        assert_eq!(diagnostics, &[]);
    }
    assert_eq!(read.iter().map(|(expectations, _)| expectations.len()).collect::<Vec<_>>(), [4, 13]);
}
