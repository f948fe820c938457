//! The tests that passed without testing anything, because the machine lacks something.
//!
//! Such a test prints `skipped: REASON` and returns. The test runner hides the output of tests that pass, so the reasons are read from its
//! JUnit report. A reason that names a missing program or missing rights hides coverage that CI must have: there it is a failure.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};

/// How a test begins the line that gives the reason.
const MARK: &str = "skipped: ";
/// Ends of reasons that installing a package or running as root would remove.
const REMEDIABLE: [&str; 2] = ["is not installed", "needs root"];

/// A test that was skipped, whole or in part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Skipped {
    test: String,
    reason: String,
}

impl Skipped {
    fn is_remediable(&self) -> bool {
        REMEDIABLE.iter().any(|end| self.reason.ends_with(end))
    }
}

/// Whether a skipped test is only listed, or fails the run if its reason can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strictness {
    List,
    Fail,
}

/// Reads a JUnit report of nextest that has the output of passed tests too.
pub(crate) fn of_report(junit: &str) -> Result<Vec<Skipped>> {
    let document = roxmltree::Document::parse(junit).context("cannot read the JUnit report of nextest")?;
    let mut skipped = Vec::new();
    for case in document.descendants().filter(|node| node.has_tag_name("testcase")) {
        let name = |attribute| case.attribute(attribute).with_context(|| format!("a testcase of the JUnit report has no `{attribute}`"));
        let test = format!("{} {}", name("classname")?, name("name")?);
        let outputs = case.children().filter(|node| node.has_tag_name("system-out") || node.has_tag_name("system-err"));
        let lines = outputs.filter_map(|node| node.text()).flat_map(str::lines);
        skipped.extend(lines.filter_map(|line| line.strip_prefix(MARK)).map(|it| Skipped { test: test.clone(), reason: it.to_owned() }));
    }
    skipped.sort_unstable();
    skipped.dedup();
    Ok(skipped)
}

/// The list for people.
pub(crate) fn list(skipped: &[Skipped]) -> String {
    let mut text = match skipped.len() {
        0 => "no test was skipped\n".to_owned(),
        1 => "1 test was skipped, whole or in part:\n".to_owned(),
        several => format!("{several} tests were skipped, whole or in part:\n"),
    };
    for Skipped { test, reason } in skipped {
        let _infallible = writeln!(text, "  {test}: {reason}");
    }
    text
}

/// Refuses reasons that can be removed, where that is wanted.
pub(crate) fn check(skipped: &[Skipped], strictness: Strictness) -> Result<()> {
    let avoidable = skipped.iter().filter(|it| it.is_remediable()).count();
    if strictness == Strictness::Fail && avoidable > 0 {
        bail!("{avoidable} of the skipped tests need only a program or root; install what is missing, or run as root");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="ci"><testsuite name="a::b">
  <testcase name="x::y" classname="a::b"><system-out>running 1 test</system-out><system-err>skipped: nft is not installed
skipped: nft is not installed
</system-err></testcase>
  <testcase name="z" classname="a::b"><system-err>one &amp; all</system-err></testcase>
  <testcase name="real" classname="c"><system-err>skipped: KUBEBUILDER_ASSETS is not set
</system-err></testcase>
</testsuite></testsuites>"#;

    #[test]
    fn each_reason_of_a_test_is_listed_once() {
        let expected =
            "2 tests were skipped, whole or in part:\n  a::b x::y: nft is not installed\n  c real: KUBEBUILDER_ASSETS is not set\n";
        assert_eq!(list(&of_report(REPORT).unwrap()), expected);
        assert_eq!(list(&of_report("<testsuites/>").unwrap()), "no test was skipped\n");
        assert!(of_report("<testsuites>").is_err());
    }

    #[test]
    fn ci_fails_for_a_missing_program_and_not_for_what_no_package_brings() {
        let skipped = of_report(REPORT).unwrap();
        assert!(check(&skipped, Strictness::List).is_ok());
        assert!(check(&skipped, Strictness::Fail).unwrap_err().to_string().starts_with("1 of the skipped tests"));
        assert!(check(skipped.get(1..).unwrap(), Strictness::Fail).is_ok());
    }
}
