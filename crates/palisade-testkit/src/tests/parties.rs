//! Who takes part: the pod itself, Services, the host network, completed pods, workloads, addresses.

use super::{admin, baseline, check, check_error, from_peer, on_a};

const DENY_ALL: &str = "ingress: [{action: Deny, from: [{namespaces: {}}]}],
                        egress: [{action: Deny, to: [{networks: [0.0.0.0/0, '::/0']}]}]";

/// A Service of `x/a` on port 1000, given more of its spec.
fn service(rest: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: s, namespace: x}},
          spec: {{selector: {{app: a}}, ports: [{{port: 1000, targetPort: web}}], {rest}}}}}\n---\n"
    )
}

/// Another pod in `x`.
fn pod(name: &str, rest: &str) -> String {
    format!("{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: x, {rest}}}\n---\n")
}

#[test]
fn a_pod_reaches_its_own_address_whatever_the_policies_say() {
    check(
        &(admin("p", 1, DENY_ALL) + &on_a("policyTypes: [Ingress, Egress]")),
        "x/a -> x/a tcp:80 accept
         10.0.0.1 -> x/a tcp:80 accept
         x/a -> fd00::1 icmp accept
         x/a -> x/b tcp:80 deny",
    );
}

#[test]
fn a_service_back_to_the_same_pod_is_subject_to_cluster_policies_only() {
    let isolated = service("") + &on_a("policyTypes: [Ingress, Egress]");
    check(&isolated, "x/a -> svc/x/s tcp:1000 accept");
    check(&(isolated.clone() + &admin("p", 1, DENY_ALL)), "x/a -> svc/x/s tcp:1000 deny");
    check(&(isolated + &baseline("p", 1, DENY_ALL)), "x/a -> svc/x/s tcp:1000 accept");
    check(&(service("") + &baseline("p", 1, DENY_ALL)), "x/a -> svc/x/s tcp:1000 deny");
}

#[test]
fn rules_see_the_target_port_of_a_service() {
    check(
        &(service("") + &on_a("ingress: [{ports: [{port: 8080}]}]")),
        "z/c -> svc/x/s tcp:1000 accept
         z/c -> x/a tcp:1000 deny",
    );
    check(&(service("") + &on_a("ingress: [{ports: [{port: 1000}]}]")), "z/c -> svc/x/s tcp:1000 deny");
}

#[test]
fn a_service_without_endpoints_gives_none() {
    let none = "z/c -> svc/x/s tcp:1000 none";
    check(&service("").replace("app: a", "app: z"), none);
    check(&service("").replace("selector: {app: a}", "selector: {}"), none);
    check(&service("").replace("targetPort: web", "targetPort: absent"), none);
    check(&service(""), "z/c -> svc/x/s tcp:80 none\nz/c -> svc/x/s udp:1000 none");
    let unready = r#"step patch pod/x/a {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}"#;
    check(&service(""), &format!("{unready}\n{none}"));
    check(&service("publishNotReadyAddresses: true"), &format!("{unready}\nz/c -> svc/x/s tcp:1000 accept"));
}

#[test]
fn only_live_pods_of_the_same_namespace_and_protocol_are_behind_a_service() {
    let plain = service("").replace("targetPort: web", "targetPort: 8080");
    check(&plain, "z/c -> svc/x/s tcp:1000 accept\nz/c -> svc/x/s udp:1000 none");
    check(&plain.replace("app: a", "app: c"), "z/c -> svc/x/s tcp:1000 none");
    check(&service("type: ExternalName"), "z/c -> svc/x/s tcp:1000 none");
    check(
        &plain,
        "step patch pod/x/a {\"status\": {\"phase\": \"Failed\"}}
         z/c -> svc/x/s tcp:1000 none",
    );
}

#[test]
fn a_host_network_pod_behind_a_service_stands_for_its_node() {
    let host =
        pod("h", "labels: {app: h}}, spec: {hostNetwork: true, nodeName: n2, containers: [{ports: [{name: web, containerPort: 9}]}]}");
    let rules = "egress: [{action: Deny, to: [{nodes: {}}], protocols: [{tcp: {destinationPort: {number: 9}}}]}]";
    check(
        &(service("").replace("app: a", "app: h") + &host + &admin("p", 1, rules)),
        "x/a -> svc/x/s tcp:1000 deny
         z/c -> svc/x/s tcp:1000 accept",
    );
}

#[test]
fn a_node_is_reached_at_its_address_inside() {
    check(
        &admin("p", 1, "egress: [{action: Deny, to: [{networks: [192.0.2.1/32]}]}]"),
        "x/a -> node/n1 tcp:80 deny
         x/a -> 198.51.100.1 tcp:80 accept",
    );
}

#[test]
fn a_service_without_a_target_port_uses_its_own() {
    check(&(service("").replace(", targetPort: web", "") + &on_a("ingress: [{ports: [{port: 1000}]}]")), "z/c -> svc/x/s tcp:1000 accept");
}

#[test]
fn endpoints_of_a_service_must_agree() {
    let second = pod("d", "labels: {app: a, extra: ''}}, spec: {containers: [{ports: [{name: web, containerPort: 9}]}]}");
    check_error(
        &(service("") + &second + &on_a("ingress: [{ports: [{port: 9}]}]")),
        "z/c -> svc/x/s tcp:1000 deny",
        "the endpoints disagree: x/a Deny, x/d Accept",
    );
}

#[test]
fn terminating_pods_serve_only_when_nobody_else_does() {
    let second = pod(
        "d",
        "labels: {app: a}, deletionTimestamp: '2026-01-01T00:00:00Z'}, spec: {containers: [{ports: [{name: web, containerPort: 9}]}]}",
    );
    check(
        &(service("") + &second + &on_a("ingress: [{ports: [{port: 9}]}]")),
        "z/c -> svc/x/s tcp:1000 deny
         step delete pod/x/a
         z/c -> svc/x/s tcp:1000 accept",
    );
}

#[test]
fn host_network_pods_are_neither_subjects_nor_selector_peers() {
    let host = pod("h", "labels: {app: a}}, spec: {hostNetwork: true, nodeName: n2}, status: {podIP: 192.0.2.2}");
    check(
        &(host.clone() + &on_a("policyTypes: [Ingress, Egress]")),
        "z/c -> x/h tcp:80 accept
         x/h -> z/c tcp:80 accept",
    );
    check(&(host.clone() + &from_peer("{podSelector: {}}")), "x/h -> x/a tcp:80 deny\n192.0.2.2 -> x/a tcp:80 deny");
    check(&(host.clone() + &from_peer("{ipBlock: {cidr: 192.0.2.2/32}}")), "x/h -> x/a tcp:80 accept");
    check(
        &(host + &on_a("")),
        "x/h -> x/a tcp:80 deny
         step patch pod/x/h {\"spec\": {\"nodeName\": \"n1\"}}
         x/h -> x/a tcp:80 accept",
    );
}

#[test]
fn completed_pods_match_nothing_and_give_up_their_address() {
    let done = pod("d", "labels: {app: d}}, status: {phase: Succeeded, podIP: 10.0.0.9}");
    check(
        &(done.clone() + &from_peer("{podSelector: {matchLabels: {app: d}}}")),
        "10.0.0.9 -> x/a tcp:80 deny
         step patch pod/x/d {\"status\": {\"phase\": \"Running\"}}
         10.0.0.9 -> x/a tcp:80 accept",
    );
    check_error(&done, "x/d -> x/a tcp:80 deny", "`x/d`: the pod is completed");
}

#[test]
fn terminating_pods_still_match_as_subject_and_peer() {
    let leaving = pod("d", "labels: {app: d}, deletionTimestamp: '2026-01-01T00:00:00Z'}, status: {podIP: 10.0.0.9}");
    check(&(leaving + &from_peer("{podSelector: {matchLabels: {app: d}}}")), "10.0.0.9 -> x/a tcp:80 accept");
    check(
        &on_a(""),
        "step patch pod/x/a {\"metadata\": {\"deletionTimestamp\": \"2026-01-01T00:00:00Z\"}}
         z/c -> x/a tcp:80 deny",
    );
}

#[test]
fn of_two_pods_with_one_address_the_running_one_has_it() {
    let two = pod("d", "labels: {app: d}}, status: {phase: Pending, podIP: 10.0.0.9}")
        + &pod("e", "labels: {app: e}}, status: {phase: Running, podIP: 10.0.0.9}");
    check(&(two + &from_peer("{podSelector: {matchLabels: {app: e}}}")), "10.0.0.9 -> x/a tcp:80 accept");
}

#[test]
fn a_source_speaks_from_the_family_of_the_destination() {
    check(
        &admin("p", 1, "egress: [{action: Deny, to: [{networks: [10.0.0.0/8]}]}]"),
        "x/a -> x/b tcp:80 deny
         x/a -> fd00::2 tcp:80 accept",
    );
    check(
        &from_peer("{ipBlock: {cidr: fd00::/64}}"),
        "x/b -> x/a tcp:80 deny
         x/b -> fd00::1 tcp:80 accept",
    );
}

#[test]
fn a_workload_stands_for_its_pods_until_there_are_some() {
    let deployment = "
{apiVersion: apps/v1, kind: Deployment, metadata: {name: w, namespace: x, labels: {app: other}},
 spec: {template: {metadata: {labels: {app: a}}, spec: {containers: [{ports: [{name: web, containerPort: 7}]}]}}}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: w-1, namespace: x, ownerReferences: [{kind: Deployment, name: w}]},
 spec: {template: {metadata: {labels: {app: a}}}}}
---
";
    let policy = on_a("ingress: [{ports: [{port: web}]}]");
    check(
        &(deployment.to_owned() + &policy),
        "z/c -> x/w tcp:7 accept
         z/c -> x/w tcp:8 deny",
    );
    let owned = pod("w-1-1", "labels: {app: a}, ownerReferences: [{kind: ReplicaSet, name: w-1}]}");
    check_error(&(deployment.to_owned() + &owned), "z/c -> x/w tcp:7 accept", "`x/w`: no such pod");
}

#[test]
fn the_template_of_a_cron_job_lies_deeper() {
    let job = "{apiVersion: batch/v1, kind: CronJob, metadata: {name: j, namespace: x},
      spec: {jobTemplate: {spec: {template: {metadata: {labels: {app: a}}}}}}}\n---\n";
    check(&(job.to_owned() + &on_a("")), "z/c -> x/j tcp:80 deny");
}

#[test]
fn a_name_that_yaml_reads_as_a_boolean_is_an_error() {
    check_error(
        "{apiVersion: v1, kind: Pod, metadata: {name: d, namespace: y}}",
        "x/a -> x/b tcp:80 accept",
        "\"Pod\" \"d\": `true` in metadata is not text; quote it",
    );
}
