//! `palisade explain`: verdicts, places, forms of ends, JSON.

use snapbox::{Data, file};

use crate::{palisade, root};

fn check(line: &str, code: i32, golden: Data) {
    palisade(line).assert().code(code).stdout_eq(golden);
}

#[test]
fn a_denial_shows_the_nearest_rule_and_what_differs() {
    check("explain -f examples/shop --from shop/web --to shop/db --port 5432", 1, file!["golden/denied.txt"]);
}

#[test]
fn every_rule_that_was_tried_is_shown_on_request() {
    check("explain -f examples/shop --from blog/blog --to shop/db --port 5432 -v", 1, file!["golden/denied-verbose.txt"]);
}

#[test]
fn an_allowed_connection_through_a_service_shows_what_accepts() {
    check("explain -f examples/shop --from shop/api --to svc/shop/db --port 5432", 0, file!["golden/service.txt"]);
}

#[test]
fn an_outside_client_is_judged_at_the_destination_only() {
    check("explain -f examples/shop --from 203.0.113.7 --to shop/deploy/web --port http", 0, file!["golden/outside.txt"]);
}

#[test]
fn policies_alone_answer_for_pods_that_do_not_exist() {
    check(
        "explain -f examples/shop/3-developers.yaml --from shop/app=probe --to shop/app=db,tier=back --port 5432",
        1,
        file!["golden/hypothetical.txt"],
    );
}

#[test]
fn icmp_has_no_port() {
    check("explain -f examples/shop --from shop/web --to shop/db --protocol icmp", 1, file!["golden/icmp.txt"]);
    let asked = palisade("explain -f examples/shop --from shop/web --to shop/db --protocol icmp --port 80").assert().code(2);
    asked.stderr_eq("error: `--port 80`: icmp has no ports\n");
}

#[test]
fn a_name_is_not_missing_after_the_slash() {
    for text in ["shop/", "shop/deploy/", "svc/shop/", "node/"] {
        let run = palisade(&format!("explain -f examples/shop --from {text} --to shop/db --port 5432")).assert().code(2);
        let said = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
        assert!(
            said.starts_with(&format!("error: `--from`: `{text}`: a name is missing after the slash; write namespace/pod, ")),
            "{said}"
        );
    }
}

#[test]
fn a_workload_that_calls_itself_means_two_of_its_pods() {
    check("explain -f examples/shop --from shop/db --to shop/db --port 5432", 1, file!["golden/replicas.txt"]);
}

#[test]
fn a_domain_name_that_decides_makes_it_depend_on_dns() {
    check("explain -f scenarios/domain-names-depend-on-dns/cluster.yaml --from x/s --to 192.0.2.1 --port 443", 2, file!["golden/dns.txt"]);
}

#[test]
fn unlike_endpoints_are_shown_case_by_case() {
    check("explain -f crates/palisade/tests/cli/two-families.yaml --from a/client --to a/server --port 80", 2, file!["golden/mixed.txt"]);
}

#[test]
fn a_pod_without_an_address_matches_no_cidr_and_that_is_said() {
    check(
        "explain -f crates/palisade/tests/cli/no-address.yaml --from a/deploy/client --to a/server --port 80",
        1,
        file!["golden/no-address.txt"],
    );
}

#[test]
fn a_service_without_endpoints_asks_no_policy() {
    check(
        "explain -f crates/palisade/tests/cli/no-address.yaml --from a/deploy/client --to svc/a/nobody --port 80",
        2,
        file!["golden/no-endpoints.txt"],
    );
}

#[test]
fn a_lost_name_gets_a_hint() {
    let lost = palisade("explain -f examples/shop --from shop/wbe --to shop/db --port 5432").assert().code(2);
    lost.stdout_eq("").stderr_eq(file!["golden/lost-name.txt"]);
    let bare = palisade("explain -f examples/shop --from web --to shop/db --port 5432").assert().code(2);
    bare.stderr_eq(file!["golden/bare-name.txt"]);
}

#[test]
fn standard_input_takes_what_kubectl_and_helm_print() {
    let yaml = std::fs::read_to_string(root().join("examples/shop/3-developers.yaml")).unwrap();
    let denied = palisade("explain -f - --from shop/app=x --to shop/app=db --port 5432").stdin(yaml).assert().code(1);
    assert!(String::from_utf8_lossy(&denied.get_output().stdout).contains("-:41:27"), "places name standard input");
}

#[test]
fn json_fits_its_schema_and_says_what_the_text_says() {
    let schema = palisade("schema explanation").output().unwrap().stdout;
    let schema: serde_json::Value = serde_json::from_slice(&schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let questions = [
        ("explain -o json -f examples/shop --from shop/web --to shop/db --port 5432", "denied"),
        ("explain -o json -f examples/shop --from shop/api --to svc/shop/db --port 5432", "allowed"),
        ("explain -o json -f examples/shop --from shop/web --to shop/db --protocol icmp", "denied"),
        ("explain -o json -f crates/palisade/tests/cli/two-families.yaml --from a/client --to a/server --port 80", "mixed"),
        ("explain -o json -f crates/palisade/tests/cli/no-address.yaml --from a/deploy/client --to svc/a/nobody --port 80", "noEndpoints"),
    ];
    for (question, verdict) in questions {
        let answer = palisade(question).output().unwrap().stdout;
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        let errors: Vec<String> = validator.iter_errors(&answer).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new(), "{question}");
        assert_eq!(answer["verdict"], verdict, "{question}");
        assert_eq!((&answer["apiVersion"], &answer["kind"]), (&"palisade.dev/v1".into(), &"Explanation".into()));
    }
    palisade(questions[0].0).assert().code(1).stdout_eq(file!["golden/denied.json"]);
}

#[test]
fn a_suggestion_is_written_in_the_shape_of_its_policy() {
    palisade("explain -f crates/palisade/tests/cli/kep2091.yaml --from other/p --to shop/p --port 80").assert().code(1).stdout_eq(
        "...
  Admin          Deny by `tenants` rule 1 (shape kep2091: priority 50, evaluated after 100, in this shape larger wins)   crates/palisade/tests/cli/kep2091.yaml:44
...
help: to allow it, in AdminNetworkPolicy tenants, before rule 1 of its ingress rules, insert:
        - action: Allow
          from:
          - namespacedPods:
              namespaces:
                namespaceSelector:
                  matchLabels: {kubernetes.io/metadata.name: other}
              pods:
                podSelector:
                  matchLabels: {app: p}
          l4Selector:
            ports:
            - protocol: TCP
              port: 80
",
    );
}
