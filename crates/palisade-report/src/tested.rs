//! From the outcomes of expectations to the report that leaves the house.

use palisade_analysis::expect::{Counterexample, Expectation, Held, Outcome};
use palisade_analysis::{PortAsked, explain};
use palisade_k8s::Snapshot;
use palisade_model::{Diagnostic, Severity};

use crate::explained::{explained, verdict};
use crate::v1;

/// Writes down what became of expectations; each counterexample with its explanation.
pub fn tested(
    expectations: &[Expectation],
    outcomes: &[Outcome],
    snapshot: &Snapshot,
    unread: &[Diagnostic],
    unavailable: &[String],
) -> v1::TestReport {
    let noticed: Vec<&Diagnostic> = snapshot.diagnostics.iter().chain(unread).collect();
    let refused = noticed.iter().filter(|it| it.severity == Severity::Error).count();
    let mut tests: Vec<v1::Test> =
        expectations.iter().zip(outcomes).map(|(expectation, outcome)| test(expectation, outcome, snapshot)).collect();
    if refused > 0 {
        // What was not read might make each of them fail.
        for test in tests.iter_mut().filter(|it| it.result == v1::TestResult::Passed) {
            test.result = v1::TestResult::Unknown;
            test.message = format!("{} by what could be read", test.message);
        }
    }
    let count = |result| tests.iter().filter(|it| it.result == result).count();
    let mut qualifications = Vec::new();
    if refused > 0 {
        qualifications.push(format!("errors were found while reading ({refused}), so nothing is proven"));
    }
    qualifications.extend(unavailable.iter().cloned());
    v1::TestReport {
        api_version: v1::API_VERSION.to_owned(),
        kind: "TestReport".to_owned(),
        trusted: refused == 0,
        qualifications,
        passed: count(v1::TestResult::Passed),
        failed: count(v1::TestResult::Failed),
        unknown: count(v1::TestResult::Unknown),
        diagnostics: noticed.into_iter().map(v1::Diagnostic::from).collect(),
        tests,
    }
}

fn test(expectation: &Expectation, outcome: &Outcome, snapshot: &Snapshot) -> v1::Test {
    let (result, message, counterexamples, more) = match &outcome.result {
        Held::Yes { pairs, .. } => (v1::TestResult::Passed, format!("holds for {}", plural(*pairs, "pair", "pairs")), Vec::new(), 0),
        Held::No { counterexamples, more } => {
            let shown: Vec<v1::Counterexample> = counterexamples.iter().map(|it| counterexample(it, snapshot)).collect();
            (v1::TestResult::Failed, failure(&shown, *more), shown, *more)
        }
        Held::MatchesNothing { why } => (v1::TestResult::Failed, why.clone(), Vec::new(), 0),
        Held::CannotTell { why } => (v1::TestResult::Unknown, why.clone(), Vec::new(), 0),
    };
    let (name, text) = (expectation.name.clone(), expectation.text.clone());
    v1::Test { name, text, place: v1::Place::from(&expectation.location), result, message, counterexamples, more }
}

fn plural(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn failure(shown: &[v1::Counterexample], more: u64) -> String {
    let each: Vec<String> =
        shown.iter().map(|it| format!("{} → {} {} is {}", it.from, it.to, it.traffic, crate::text::plain(it.verdict))).collect();
    match more {
        0 => each.join("; "),
        more => format!("{}; and {more} more", each.join("; ")),
    }
}

fn counterexample(it: &Counterexample, snapshot: &Snapshot) -> v1::Counterexample {
    let port = match &it.asked.port {
        PortAsked::Number(number) => Some(number.to_string()),
        PortAsked::Name(name) => Some(name.clone()),
        PortAsked::None => None,
    };
    let traffic = port.as_ref().map_or_else(|| it.asked.protocol.to_string(), |port| format!("{}/{port}", it.asked.protocol));
    let question = v1::Question { from: it.from.clone(), to: it.to.clone(), protocol: it.asked.protocol.to_string(), port };
    let explanation = match explain(&snapshot.model, &it.asked) {
        Ok(explanation) => explained(question, &explanation, &snapshot.sources, &[], &[]),
        Err(why) => unexplained(question, why),
    };
    v1::Counterexample {
        from: it.from.clone(),
        to: it.to.clone(),
        traffic,
        verdict: verdict(it.verdict),
        wanted: verdict(it.wanted),
        explanation,
    }
}

/// A question that cannot be asked again as it stands still says so.
fn unexplained(question: v1::Question, why: String) -> v1::Explanation {
    v1::Explanation {
        api_version: v1::API_VERSION.to_owned(),
        kind: "Explanation".to_owned(),
        question,
        verdict: v1::Verdict::Unknown,
        would_be: None,
        trusted: false,
        qualifications: vec![why],
        cases: Vec::new(),
        diagnostics: Vec::new(),
    }
}
