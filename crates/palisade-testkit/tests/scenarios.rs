//! Every scenario through every judge, and every form of rule in some scenario.

use std::path::{Path, PathBuf};

use palisade_testkit::check::check;
use palisade_testkit::coverage::{Coverage, legal};
use palisade_testkit::scenario::all;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

#[test]
fn every_scenario_gets_its_expected_verdicts_from_every_judge() {
    let scenarios = all(&root()).unwrap();
    assert!(scenarios.len() >= 100, "{} scenarios are too few to mean anything", scenarios.len());
    let mut failures = Vec::new();
    let mut probes = 0;
    let mut coverage = Coverage::default();
    for scenario in &scenarios {
        let outcome = check(scenario);
        probes += outcome.probes;
        failures.extend(outcome.failures);
        coverage.add(outcome.coverage);
    }
    assert!(failures.is_empty(), "{} of {probes} probes disagree:\n{}", failures.len(), failures.join("\n"));
    let table = std::fs::read_to_string(root().join("forms.txt")).unwrap();
    let missing: Vec<&str> = table.lines().filter(|form| !coverage.0.contains(*form)).collect();
    assert!(missing.is_empty(), "{} forms of rule decide no scenario:\n{}", missing.len(), missing.join("\n"));
}

#[test]
fn the_committed_table_has_every_form_that_the_apis_allow() {
    let table = std::fs::read_to_string(root().join("forms.txt")).unwrap();
    let legal: String = legal().into_iter().map(|form| format!("{form}\n")).collect();
    assert_eq!(table, legal, "scenarios/forms.txt is not the table of legal forms");
}
