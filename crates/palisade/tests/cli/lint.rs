//! `palisade lint`: what is probably wrong, in every form, and repairs.

use snapbox::file;

use crate::{folder, palisade, root};

const SLIPS: &str = "lint -f crates/palisade/tests/cli/lint.yaml";

#[test]
fn the_shop_is_clean() {
    palisade("lint -f examples/shop").assert().code(0).stdout_eq("nothing found\n");
}

#[test]
fn mistakes_in_every_form() {
    palisade(SLIPS).assert().code(1).stdout_eq(file!["golden/lint.txt"]);
    palisade(&format!("{SLIPS} -o json --only two-dashes")).assert().code(1).stdout_eq(file!["golden/lint.json"]);
    palisade(&format!("{SLIPS} -o sarif --only duplicate-entry")).assert().code(0).stdout_eq(file!["golden/lint.sarif"]);
    palisade("lint --explain two-dashes").assert().code(0).stdout_eq(file!["golden/lint-explain.txt"]);
}

#[test]
fn json_fits_its_schema() {
    let schema = palisade("schema lint-report").output().unwrap().stdout;
    let schema: serde_json::Value = serde_json::from_slice(&schema).unwrap();
    let report = palisade(&format!("{SLIPS} -o json")).output().unwrap().stdout;
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    jsonschema::validate(&schema, &report).unwrap_or_else(|error| panic!("{error}\n{report}"));
}

/// What SARIF 2.1.0 requires, and what code hosts require besides.
#[test]
fn sarif_has_what_its_readers_require() {
    let log = palisade(&format!("{SLIPS} -o sarif")).output().unwrap().stdout;
    let log: serde_json::Value = serde_json::from_slice(&log).unwrap();
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    assert_eq!(run["tool"]["driver"]["name"], "palisade");
    let results = run["results"].as_array().unwrap();
    assert!(!results.is_empty());
    for result in results {
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        assert!(["error", "warning", "note"].contains(&result["level"].as_str().unwrap()));
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        let location = &result["locations"][0]["physicalLocation"];
        assert_eq!(location["artifactLocation"]["uri"], "crates/palisade/tests/cli/lint.yaml");
        let line = usize::try_from(location["region"]["startLine"].as_u64().unwrap()).unwrap();
        let text = std::fs::read_to_string(root().join("crates/palisade/tests/cli/lint.yaml")).unwrap();
        assert_eq!(text.lines().nth(line - 1), location["region"]["snippet"]["text"].as_str());
        assert!(location["region"]["endColumn"].as_u64() > location["region"]["startColumn"].as_u64());
    }
}

#[test]
fn rules_are_chosen_and_the_exit_code_follows_the_severity() {
    let exits = |rest: &str, code: i32| palisade(&format!("{SLIPS} {rest}")).assert().code(code);
    exits("--fail-on error", 0);
    exits("--fail-on note", 1);
    exits("--only duplicate-entry", 0);
    exits("--only duplicate-entry --fail-on note", 1);
    let nothing = exits("--only duplicate-entry --except duplicate-entry --fail-on note", 2);
    nothing.stdout_eq("").stderr_eq("error: no rule is left to look for\n");
    exits("--only duplicat-entry", 2).stderr_eq("error: `duplicat-entry` is not a rule; did you mean `duplicate-entry`?\n");
}

#[test]
fn repairs_are_shown_or_written_and_comments_stay() {
    palisade(&format!("{SLIPS} --fix --only duplicate-entry")).assert().code(0).stdout_eq(file!["golden/lint.diff"]);
    let text = std::fs::read_to_string(root().join("crates/palisade/tests/cli/lint.yaml")).unwrap();
    let folder = folder(&[("a.yaml", &text), ("b.yaml", "")]);
    let at = folder.path().to_str().unwrap();
    let report = format!("{at}/a.yaml: 1 entry removed\n");
    palisade(&format!("lint -f {at} --fix=write --only duplicate-entry --fail-on note")).assert().code(0).stdout_eq(report);
    let after = std::fs::read_to_string(folder.path().join("a.yaml")).unwrap();
    assert_eq!(
        after,
        text.replace("        - podSelector:\n            matchLabels: {app: web}\n        - podSelector: {}", "        - podSelector: {}")
    );
    palisade(&format!("lint -f {at} --fix=write --only duplicate-entry")).assert().code(0).stdout_eq("");
    palisade("lint -f - --fix=write --only duplicate-entry").stdin(text).assert().code(2).stdout_eq("");
}

#[test]
fn what_is_left_beside_repairs_is_said() {
    let check = |rest: &str, expected: &str| palisade(rest).assert().code(0).stderr_eq(expected.to_owned());
    check(&format!("{SLIPS} --fix --only duplicate-entry"), "nothing else found\n");
    check("lint -f examples/shop --fix", "nothing found\n");
}

#[test]
fn repairs_have_one_form() {
    for format in ["json", "sarif"] {
        let run = palisade(&format!("{SLIPS} --fix -o {format}")).assert().code(2).stdout_eq("");
        let said = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
        assert!(said.contains("the argument '--fix[=<HOW>]' cannot be used with '--output <FORMAT>'"), "{said}");
    }
}

#[test]
fn what_cannot_be_told_exits_2() {
    let folder =
        folder(&[("a.yaml", "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\nspec: {podSelektor: {}}\n")]);
    palisade(&format!("lint -f {}", folder.path().display())).assert().code(2).stdout_eq("");
    let said = |format: &str| -> serde_json::Value {
        let output = palisade(&format!("lint -f {} -o {format}", folder.path().display())).assert().code(2).get_output().stdout.clone();
        serde_json::from_slice(&output).unwrap()
    };
    let report = said("json");
    let first = &report["diagnostics"][0];
    assert_eq!((first["severity"].as_str(), report["findings"].as_array().map(Vec::len)), (Some("error"), Some(0)), "{report}");
    let schema: serde_json::Value = serde_json::from_slice(&palisade("schema lint-report").output().unwrap().stdout).unwrap();
    jsonschema::validate(&schema, &report).unwrap_or_else(|error| panic!("{error}\n{report}"));
    let log = said("sarif");
    let result = &log["runs"][0]["results"][0];
    assert_eq!((&result["ruleId"], &result["level"]), (&first["code"], &first["severity"]), "{log}");
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["region"]["startLine"], first["place"]["line"], "{log}");
    assert!(place["artifactLocation"]["uri"].as_str().unwrap().ends_with("/a.yaml"), "{log}");
    palisade("lint -f /nowhere").assert().code(2);
    palisade("lint --fix").assert().code(2);
}

#[test]
fn every_rule_explains_itself() {
    let all = palisade("lint --explain all").output().unwrap().stdout;
    let all = String::from_utf8(all).unwrap();
    assert!(all.lines().count() >= 25);
    for line in all.lines() {
        let name = line.split_whitespace().next().unwrap();
        let text = palisade(&format!("lint --explain {name}")).output().unwrap().stdout;
        assert!(String::from_utf8(text).unwrap().contains("What to do"), "{name}");
    }
}
