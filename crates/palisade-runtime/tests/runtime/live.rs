//! Live clusters, with [`MockApi`] in place of a cluster.

use palisade_runtime::live::{LiveError, LiveOptions, list};
use palisade_runtime::{Gathered, Unavailable, Why};
use serde_json::{Value, json};

use crate::kubeconfig::Kubeconfig;
use crate::mock_api::{self, MockApi, page, raw, status};

const PODS: &str = "/api/v1/pods";
const NAMESPACES: &str = "/api/v1/namespaces";
const POLICIES: &str = "/apis/networking.k8s.io/v1/networkpolicies";
const CLUSTER_POLICIES: &str = "/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies";

fn kubeconfig(api: &MockApi) -> Kubeconfig {
    Kubeconfig::new(&format!("http://{}", api.address()), &json!({ "token": "hunter2" }))
}

fn empty() -> mock_api::Reply {
    mock_api::list(&[])
}

fn named(namespace: &str, name: &str) -> Value {
    json!({ "metadata": { "namespace": namespace, "name": name } })
}

/// Prints objects, diagnostics and what is unavailable. Pods are read when they arrive, and their text is not kept.
fn shown(gathered: &Gathered) -> String {
    let objects = gathered.live.iter().map(|it| format!("== {}\n{}", it.file(), it.text().map(|it| it.content).unwrap_or_default()));
    let diagnostics = gathered.diagnostics.iter().map(|it| format!("{it}\n"));
    let unavailable = gathered.unavailable.iter().map(|it| format!("{it}\n"));
    objects.chain(diagnostics).chain(unavailable).collect()
}

#[track_caller]
fn check(api: &MockApi, expected: &str) {
    let shown = shown(&list(&kubeconfig(api).options()).unwrap());
    assert!(shown == expected, "got:\n{shown}\nexpected:\n{expected}");
}

#[test]
fn every_resource_is_listed_with_a_limit_and_nothing_else_is_asked() {
    let api = MockApi::start(empty(), &[]);
    check(&api, "");
    let expected = [
        "/api/v1/namespaces?&limit=500",
        "/api/v1/nodes?&limit=500",
        "/api/v1/pods?&limit=500",
        "/api/v1/services?&limit=500",
        "/apis/apps/v1/deployments?&limit=500",
        "/apis/apps/v1/statefulsets?&limit=500",
        "/apis/apps/v1/daemonsets?&limit=500",
        "/apis/apps/v1/replicasets?&limit=500",
        "/api/v1/replicationcontrollers?&limit=500",
        "/apis/batch/v1/jobs?&limit=500",
        "/apis/batch/v1/cronjobs?&limit=500",
        "/apis/networking.k8s.io/v1/networkpolicies?&limit=500",
        "/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies?&limit=500",
        "/apis/policy.networking.k8s.io/v1alpha1/adminnetworkpolicies?&limit=500",
        "/apis/policy.networking.k8s.io/v1alpha1/baselineadminnetworkpolicies?&limit=500",
        "/apis/kep2091.palisade.dev/v1alpha1/adminnetworkpolicies?&limit=500",
        "/apis/cilium.io/v2/ciliumnetworkpolicies?&limit=500",
        "/apis/cilium.io/v2/ciliumclusterwidenetworkpolicies?&limit=500",
        "/apis/crd.projectcalico.org/v1/networkpolicies?&limit=500",
        "/apis/crd.projectcalico.org/v1/globalnetworkpolicies?&limit=500",
        "/apis/crd.antrea.io/v1beta1/networkpolicies?&limit=500",
        "/apis/crd.antrea.io/v1beta1/clusternetworkpolicies?&limit=500",
    ];
    assert_eq!(api.requests("/"), expected);
}

#[test]
fn objects_get_their_kind_lose_managed_fields_and_are_sorted() {
    let policies = [
        json!({ "spec": { "podSelector": {} }, "metadata": { "namespace": "b", "name": "a" } }),
        json!({
            "metadata": { "namespace": "a", "name": "z", "managedFields": [{ "manager": "kubectl" }] },
            "spec": {
                "podSelector": { "matchLabels": { "app": "web" } },
                "ingress": [{ "ports": [{ "port": 80 }, { "port": "http" }] }, {}],
                "policyTypes": ["Ingress"],
            },
        }),
    ];
    let api = MockApi::start(empty(), &[(POLICIES, &[mock_api::list(&policies)])]);
    let expected = r#"== cluster/networkpolicies/a/z
apiVersion: "networking.k8s.io/v1"
kind: "NetworkPolicy"
metadata:
  name: "z"
  namespace: "a"
spec:
  ingress:
  - ports:
    - port: 80
    - port: "http"
  - {}
  podSelector:
    matchLabels:
      app: "web"
  policyTypes:
  - "Ingress"
== cluster/networkpolicies/b/a
apiVersion: "networking.k8s.io/v1"
kind: "NetworkPolicy"
metadata:
  name: "a"
  namespace: "b"
spec:
  podSelector: {}
"#;
    check(&api, expected);
}

#[test]
fn a_list_is_followed_page_by_page() {
    let pages = [page(&[named("b", "2")], "to/ken+1="), page(&[named("a", "3")], "two"), page(&[named("a", "1")], "")];
    let api = MockApi::start(empty(), &[(PODS, &pages)]);
    check(&api, "== cluster/pods/a/1\n== cluster/pods/a/3\n== cluster/pods/b/2\n");
    let expected = ["/api/v1/pods?&limit=500", "/api/v1/pods?&limit=500&continue=to%2Fken%2B1%3D", "/api/v1/pods?&limit=500&continue=two"];
    assert_eq!(api.requests(PODS), expected);
}

#[test]
fn a_stale_continue_token_starts_the_list_again() {
    let replies =
        [page(&[named("a", "gone")], "one"), status(410, "The provided continue parameter is too old"), page(&[named("a", "kept")], "")];
    let api = MockApi::start(empty(), &[(PODS, &replies)]);
    check(&api, "== cluster/pods/a/kept\n");
    assert_eq!(api.requests(PODS).last().unwrap(), "/api/v1/pods?&limit=500");
}

#[test]
fn a_list_that_is_always_stale_is_given_up() {
    let turn = [page(&[named("a", "gone")], "one"), status(410, "too old")];
    let replies: Vec<_> = turn.iter().cycle().take(20).cloned().collect();
    let api = MockApi::start(empty(), &[(PODS, &replies)]);
    let kubeconfig = kubeconfig(&api);
    let expected = "context `dev` of `$/config`: listing `pods` failed: \
                    the list changed faster than it could be read (410); try again";
    assert_eq!(kubeconfig.message(&kubeconfig.options()), expected);
}

#[test]
fn a_server_that_repeats_a_page_is_given_up() {
    let api = MockApi::start(empty(), &[(PODS, &[page(&[named("a", "b")], "one")])]);
    let kubeconfig = kubeconfig(&api);
    let expected = "context `dev` of `$/config`: listing `pods` failed: \
                    the API server sent the same page twice; check the `server` of the cluster";
    assert_eq!(kubeconfig.message(&kubeconfig.options()), expected);
}

#[test]
fn a_busy_server_is_asked_again() {
    let replies = [status(429, "slow down"), mock_api::list(&[named("a", "b")])];
    let api = MockApi::start(empty(), &[(PODS, &replies)]);
    check(&api, "== cluster/pods/a/b\n");
}

#[test]
fn what_is_forbidden_or_not_installed_is_recorded_and_the_rest_is_listed() {
    let nodes = r#"nodes is forbidden: User "someone" cannot list resource "nodes""#;
    let routes: [(&str, &[mock_api::Reply]); 3] = [
        ("/api/v1/nodes", &[status(403, nodes)]),
        (CLUSTER_POLICIES, &[raw(404, "404 page not found\n")]),
        (PODS, &[mock_api::list(&[named("a", "b")])]),
    ];
    let api = MockApi::start(empty(), &routes);
    let gathered = list(&kubeconfig(&api).options()).unwrap();
    let unavailable = |resource: &str, why| Unavailable { resource: resource.to_owned(), why };
    let expected =
        [unavailable("nodes", Why::Forbidden), unavailable("clusternetworkpolicies.policy.networking.k8s.io", Why::NotInstalled)];
    assert_eq!(gathered.unavailable, expected);
    let files: Vec<&str> = gathered.live.iter().map(|it| &**it.file()).collect();
    assert_eq!(files, ["cluster/pods/a/b"]);
}

#[test]
fn one_namespace_leaves_cluster_wide_resources_whole() {
    let web = json!({ "metadata": { "name": "web" } });
    let api = MockApi::start(empty(), &[(NAMESPACES, &[mock_api::list(&[web])])]);
    let kubeconfig = kubeconfig(&api);
    let gathered = list(&LiveOptions { namespace: Some("web".to_owned()), ..kubeconfig.options() }).unwrap();
    let expected = "== cluster/namespaces/web\napiVersion: \"v1\"\nkind: \"Namespace\"\nmetadata:\n  name: \"web\"\n";
    assert_eq!(shown(&gathered), expected);
    assert_eq!(api.requests("/api/v1/n")[0], "/api/v1/namespaces?&limit=500");
    assert_eq!(api.requests("/api/v1/namespaces/web/pods"), ["/api/v1/namespaces/web/pods?&limit=500"]);
    assert_eq!(api.requests(CLUSTER_POLICIES).len(), 1);
    assert_eq!(api.requests(PODS), [""; 0]);
}

#[test]
fn a_namespace_that_does_not_exist_is_an_error_and_not_an_empty_namespace() {
    let api = MockApi::start(empty(), &[]);
    let kubeconfig = kubeconfig(&api);
    let gathered = list(&LiveOptions { namespace: Some("wbe".to_owned()), ..kubeconfig.options() }).unwrap();
    let expected = "error[missing-namespace]: Namespace wbe: does not exist in this cluster, so nothing was read \
                    from it; list what exists with `kubectl get namespaces`\n";
    assert_eq!(shown(&gathered), expected);
}

#[test]
fn a_namespace_cannot_reach_another_path() {
    let namespace = Some("../../nodes".to_owned());
    let expected = LiveError::Namespace { namespace: "../../nodes".to_owned() };
    assert_eq!(list(&LiveOptions { namespace, ..LiveOptions::default() }), Err(expected));
}

#[test]
fn excerpts_keep_strings_strings_for_every_reader_of_yaml() {
    let awkward = [
        "no",
        "NO",
        "on",
        "y",
        "~",
        "null",
        "true",
        "010",
        "0o10",
        "0x1F",
        "1_000",
        "1e3",
        "1.5",
        ".inf",
        "12:30:45",
        "2026-01-01",
        "=",
        "<<",
        "",
        " a",
        "a ",
        "- a",
        "a: b",
        "a #b",
        "#",
        "&a",
        "*a",
        "!a",
        "%a",
        "@a",
        "`a`",
        "|",
        ">",
        "'",
        "\"",
        "\\",
        "\\n",
        "a\nb\n",
        "\n",
        "\r\n",
        "\t",
        "\0",
        "\u{7f}",
        "\u{85}",
        "\u{2028}",
        "\u{feff}a",
        "\u{1F600}",
        "\u{fffe}",
        "---",
        "...",
        "---\na: 1",
    ];
    let annotations: Value = awkward.iter().map(|text| ((*text).to_owned(), json!(text))).collect();
    let values = json!([null, true, false, 0, -1, 1.5, 1e30, 18446744073709551615_u64, [], {}, [[1], [{ "a": {} }]]]);
    let item = json!({ "metadata": { "name": "a", "annotations": annotations }, "values": values });
    let api = MockApi::start(empty(), &[(NAMESPACES, &[mock_api::list(std::slice::from_ref(&item))])]);
    let gathered = list(&kubeconfig(&api).options()).unwrap();
    let content = &gathered.live[0].text().unwrap().content;

    let read: Value = serde_saphyr::from_str(content).unwrap();
    let mut expected = item;
    expected["apiVersion"] = json!("v1");
    expected["kind"] = json!("Namespace");
    assert_eq!(read, expected, "{content}");
    for line in ["    \"no\": \"no\"", "    \"010\": \"010\"", "    \"1e3\": \"1e3\"", "    \"\": \"\""] {
        assert!(content.lines().any(|it| it == line), "{line} in:\n{content}");
    }
    assert!(content.contains("- 1.0e+30\n"), "{content}");
}

#[test]
fn an_object_that_cannot_be_read_is_named_and_the_others_count() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let body = format!(
        r#"{{"items": [{{"metadata": {{"name": "deep", "namespace": "a"}}, "spec": {deep}}}, {{"metadata": {{"name": "typo", "namespace": "a"}}, "spec": {{"podSelectr": {{}}}}}}, {{"metadata": {{"name": "p", "namespace": "a"}}, "spec": {{"podSelector": {{}}}}}}]}}"#
    );
    let api = MockApi::start(empty(), &[(POLICIES, &[raw(200, &body)])]);
    let mut index = palisade_k8s::Index::default();
    list(&kubeconfig(&api).options()).unwrap().live.into_iter().for_each(|it| index.read_live(it));
    let snapshot = index.snapshot();
    let errors: Vec<String> = snapshot.diagnostics.iter().filter(|it| it.code != "assumed-namespace").map(ToString::to_string).collect();
    let expected = [
        ["cluster/networkpolicies/a/deep:1:1:", "every pod of its namespace is isolated"],
        ["cluster/networkpolicies/a/deep:1:", "nested more than 100 levels deep"],
        ["cluster/networkpolicies/a/typo:7:3:", "did you mean `podSelector`?"],
        ["cluster/networkpolicies/a/typo:1:1:", "every pod of its namespace is isolated"],
    ];
    assert_eq!(errors.len(), expected.len(), "{errors:#?}");
    assert!(errors.iter().zip(expected).all(|(error, parts)| parts.iter().all(|it| error.contains(it))), "{errors:#?}");
    // Policies that cannot be read count in their closed form.
    let policies: Vec<String> = snapshot.model.policies.iter().map(|it| it.origin.to_string()).collect();
    assert_eq!(policies, ["np/a/deep", "np/a/p", "np/a/typo"]);
    let path = palisade_k8s::FieldPath::default().field("spec").field("podSelector");
    let excerpt = snapshot.sources.find(&(&snapshot.model.policies[1].origin).into(), &[path]).unwrap();
    assert_eq!(excerpt.location.to_string(), "cluster/networkpolicies/a/p:7:3");
    assert_eq!(&excerpt.content[excerpt.start..excerpt.end], "podSelector: {}");
}

#[test]
fn bad_credentials_are_an_error_that_does_not_show_them() {
    let api = MockApi::start(status(401, "Unauthorized"), &[]);
    let kubeconfig = kubeconfig(&api);
    let expected = format!(
        "context `dev` of `$/config`: the API server at http://{} does not accept the credentials (401); \
         log in again or pass another --context",
        api.address()
    );
    assert_eq!(kubeconfig.message(&kubeconfig.options()), expected);
}

#[test]
fn a_refused_connection_names_the_kubeconfig_and_the_context() {
    // Bound and closed again, so that nobody listens there.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let kubeconfig = Kubeconfig::new(&format!("https://me:hunter2@{address}"), &json!({}));
    let expected = format!(
        "context `dev` of `$/config`: cannot talk to the API server at https://{address}: \
         Connection refused (os error 111); check that it runs and that --context names the right cluster"
    );
    assert_eq!(kubeconfig.message(&kubeconfig.options()), expected);
}

#[test]
fn a_server_that_does_not_speak_tls_is_an_error() {
    let api = MockApi::start(empty(), &[]);
    let kubeconfig = Kubeconfig::new(&format!("https://{}", api.address()), &json!({}));
    let message = kubeconfig.message(&kubeconfig.options());
    assert!(message.starts_with("context `dev` of `$/config`: cannot talk to the API server"), "{message}");
}

#[test]
fn a_server_of_something_else_is_an_error() {
    let cases = [
        (raw(404, "not here"), "the server at $S does not serve the Kubernetes API; check the `server` of the cluster"),
        (
            raw(200, "<html>"),
            "listing `namespaces` failed: the API server sent something that is not JSON; \
             check the `server` of the cluster",
        ),
        (
            raw(200, r#"{"items": ["a"]}"#),
            "listing `namespaces` failed: the API server sent JSON that is not a list of objects; \
             check the `server` of the cluster",
        ),
        (raw(500, "<html>"), "listing `namespaces` failed: the API server answered 500"),
        (status(500, "etcdserver: no leader"), "listing `namespaces` failed: the API server answered 500, `etcdserver: no leader`"),
    ];
    for (reply, expected) in cases {
        let api = MockApi::start(reply, &[]);
        let kubeconfig = kubeconfig(&api);
        let server = format!("http://{}", api.address());
        let message = kubeconfig.message(&kubeconfig.options()).replace(&server, "$S");
        assert_eq!(message, format!("context `dev` of `$/config`: {expected}"));
    }
}
