//! `palisade status`.

use crate::palisade;

#[test]
fn policies_are_counted_by_the_controller_they_are_for() {
    let of = |arguments: &str| {
        let output = palisade(&format!("status -f crates/palisade/tests/cli/controllers.yaml {arguments}")).output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.status.code())
    };
    let (text, code) = of("--controllers");
    let expected = "\
policies by the label networking.k8s.io/policy-controller-name, as `palisade` sees them
  (no label)       2  enforced, by every controller  (1 ClusterNetworkPolicy, 1 NetworkPolicy)
  \"\"               1  ignored: for no controller  (1 NetworkPolicy)
  none             1  ignored: switched off  (1 NetworkPolicy)
  other            1  ignored: for another controller  (1 NetworkPolicy)
  palisade         1  enforced, by this controller alone  (1 NetworkPolicy)
3 of 6 policies count here
";
    assert_eq!((text.as_str(), code), (expected, Some(0)));
    let (text, _) = of("--controllers --controller-name other");
    assert!(text.contains("palisade         1  ignored: for another controller"), "{text}");
    assert!(text.contains("other            1  enforced, by this controller alone"), "{text}");
}

#[test]
fn audited_policies_are_listed_by_set_and_count_nowhere() {
    let policy = |name: &str, annotations: &str| {
        format!(
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: {name}, namespace: x, annotations: {{{annotations}}}}}\nspec: {{podSelector: {{}}}}\n---\n"
        )
    };
    let text = [
        policy("real", ""),
        policy("one", "palisade.dev/mode: audit"),
        policy("two", "palisade.dev/mode: audit, palisade.dev/audit-set: next"),
    ];
    let folder = crate::folder(&[("a.yaml", &text.concat())]);
    for (arguments, counting) in [("", "       1  NetworkPolicy  NetworkPolicy\n"), ("--controllers", "1 of 1 policies count here\n")] {
        let output = palisade(&format!("status -f {} {arguments}", folder.path().display())).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let audited = "\npolicies that are watched, not enforced\n       1  in set audit: np/x/one\n       1  in set next: np/x/two\n";
        assert!(said.contains(counting) && said.ends_with(audited), "{said}");
        let noted = String::from_utf8(output.stderr).unwrap();
        assert!(noted.contains("note[audited-here-enforced-elsewhere]"), "{noted}");
    }
}

#[test]
fn what_was_read_is_counted() {
    palisade("status -f examples/shop").assert().code(0).stdout_eq(
        "\
5 pods of 3 namespaces, 0 nodes, 3 Services
...
",
    );
    let schema: serde_json::Value = serde_json::from_slice(&palisade("schema status").output().unwrap().stdout).unwrap();
    let answer = palisade("status -o json -f crates/palisade/tests/cli/controllers.yaml").output().unwrap().stdout;
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    let errors: Vec<String> = jsonschema::validator_for(&schema).unwrap().iter_errors(&answer).map(|error| error.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(answer["controllers"][0]["total"], 2);
}

#[test]
fn what_was_refused_is_missing_and_that_is_said() {
    let output = palisade("status -f crates/palisade/tests/cli/slips.yaml").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("error"));
}

#[test]
fn what_an_api_server_dropped_is_noticed() {
    let policy = |applied: &str, stored: &str| {
        format!(
            "apiVersion: policy.networking.k8s.io/v1alpha1\nkind: AdminNetworkPolicy\nmetadata:\n  name: a\n  annotations:\n    \
             kubectl.kubernetes.io/last-applied-configuration: '{{\"spec\":{{\"priority\":5,\"subject\":{{\"namespaces\":{{}}}},\"ingress\":[{{\"action\":\"Allow\",\
             \"from\":[{applied}]}}]}}}}'\nspec:\n  priority: 5\n  subject: {{namespaces: {{}}}}\n  ingress:\n  - action: Allow\n    from: [{stored}]\n"
        )
    };
    let noticed = |applied: &str, stored: &str| {
        let folder = crate::folder(&[("a.yaml", &policy(applied, stored))]);
        let output = palisade(&format!("status -f {}", folder.path().display())).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let pruned = noticed(r#"{"namespaces":{"namespaceSelector":{"matchLabels":{"tenant":"blue"}}}}"#, "{namespaces: {}}");
    assert!(pruned.contains("a.yaml:12:25: warning[pruned]"), "{pruned}");
    assert!(pruned.contains("`spec.ingress[0].from[0].namespaces.namespaceSelector` was applied last and is not here"), "{pruned}");
    let whole = noticed(r#"{"namespaces":{"matchLabels":{"tenant":"blue"}}}"#, "{namespaces: {matchLabels: {tenant: blue}}}");
    assert!(!whole.contains("pruned"), "{whole}");
}

#[test]
fn values_that_switch_off_are_a_set() {
    let of = |arguments: &str| {
        palisade(&format!("status --controllers -f crates/palisade/tests/cli/controllers.yaml {arguments}")).output().unwrap()
    };
    let text = String::from_utf8(of("--disabled-name none --disabled-name other").stdout).unwrap();
    assert!(
        text.contains("none             1  ignored: switched off") && text.contains("other            1  ignored: switched off"),
        "{text}"
    );
    let text = String::from_utf8(of("--disabled-name other").stdout).unwrap();
    assert!(text.contains("none             1  ignored: for another controller"), "{text}");
    let refused = of("--disabled-name palisade");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("`palisade` is no controller's name"));
}
