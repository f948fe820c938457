//! `palisade test`: expectations that hold, fail, and cannot be told.

use snapbox::file;

use crate::{folder, palisade};

#[test]
fn expectations_that_hold_exit_with_yes() {
    let all = "test -f examples/shop examples/shop.expectations.yaml";
    palisade(all).assert().code(0).stdout_eq(file!["golden/expectations.txt"]).stderr_eq("");
}

#[test]
fn a_failure_prints_its_explanation() {
    let failing = "test -f examples/shop crates/palisade/tests/cli/failing.yaml";
    palisade(failing).assert().code(1).stdout_eq(file!["golden/expectations-failed.txt"]);
    palisade(&format!("{failing} -o junit")).assert().code(1).stdout_eq(file!["golden/expectations-failed.xml"]);
}

#[test]
fn what_cannot_be_read_proves_nothing() {
    let refused = "test -f examples/shop -f crates/palisade/tests/cli/slips.yaml examples/shop.expectations.yaml -o junit";
    let run = palisade(refused).assert().code(2);
    let xml = String::from_utf8_lossy(&run.get_output().stdout).into_owned();
    assert!(xml.contains("failures=\"0\" errors=\"11\""), "three refused objects and eight expectations: {xml}");
    assert!(xml.contains("<testcase name=\"input: unknown-field\""), "{xml}");
}

#[test]
fn a_sentence_that_means_nothing_is_named_with_its_place() {
    let folder = folder(&[("bad.yaml", "- shop/web -> shop/db tcp/5432 denied\n- who goes there\n")]);
    let run = palisade("test -f examples/shop").arg(folder.path().join("bad.yaml")).assert().code(2);
    let stderr = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
    assert!(stderr.contains("bad.yaml:2:3: error[bad-expectation]"), "{stderr}");
    let missing = palisade("test -f examples/shop /nowhere/at/all.yaml").assert().code(2);
    missing.stderr_eq("error: `/nowhere/at/all.yaml` cannot be read: No such file or directory (os error 2)\n");
}

#[test]
fn json_fits_its_schema() {
    let schema = palisade("schema test-report").output().unwrap().stdout;
    let validator = jsonschema::validator_for(&serde_json::from_slice(&schema).unwrap()).unwrap();
    for file in ["examples/shop.expectations.yaml", "crates/palisade/tests/cli/failing.yaml"] {
        let report = palisade(&format!("test -o json -f examples/shop {file}")).output().unwrap().stdout;
        let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
        let errors: Vec<String> = validator.iter_errors(&report).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new(), "{file}");
    }
}
