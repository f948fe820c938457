//! `palisade lint`: what is probably wrong with policies that are valid.

use palisade_k8s::Text;
use palisade_lint::{Choice, Fixed, Lints, described, fix, lint as find, reported};
use palisade_model::{Diagnostic, Severity};
use palisade_report::{Outcome, v1};

use crate::cluster::Objects;
use crate::error::{AppError, Noticed};

/// Consequence of objects that were refused.
pub const REFUSED: &str = "objects were refused, so that nothing can be said about the others";

/// Which rules are wanted, and which findings are a failure.
#[derive(Clone, Debug)]
pub struct LintOptions {
    /// Only these rules; all if empty.
    pub only: Vec<String>,
    /// Without these rules.
    pub except: Vec<String>,
    /// Findings of this severity and worse make the outcome `No`.
    pub fail_on: Severity,
}

/// Findings.
#[derive(Debug)]
pub struct Linted {
    /// The report. If objects were refused it has diagnostics and no findings.
    pub report: v1::LintReport,
    /// The rules that were applied.
    pub rules: Vec<v1::LintRule>,
    /// Whether no finding is as severe as `fail_on`.
    pub outcome: Outcome,
}

/// Repairs, and what they leave.
#[derive(Debug)]
pub struct Repaired {
    /// The changed texts. Nothing was written.
    pub texts: Vec<Fixed>,
    /// Findings of the repaired texts.
    pub left: v1::LintReport,
    /// Diagnostics of the texts before the repair.
    pub diagnostics: Vec<v1::Diagnostic>,
    /// Whether no finding that is left is as severe as `fail_on`.
    pub outcome: Outcome,
}

impl LintOptions {
    /// The rules that are wanted. Fails for unknown rules, and if none is left.
    pub fn choice(&self) -> Result<Choice, AppError> {
        let choice = Choice::of(&self.only, &self.except)?;
        if choice.rules().next().is_none() {
            return Err(AppError::option("no rule is left to look for"));
        }
        Ok(choice)
    }

    fn outcome(&self, lints: &Lints) -> Outcome {
        // The worst severity is the smallest.
        Outcome::found(lints.findings.iter().any(|it| it.severity <= self.fail_on))
    }
}

/// Applies the rules.
pub fn lint(objects: &Objects, options: &LintOptions) -> Result<Linted, AppError> {
    let choice = options.choice()?;
    let (diagnostics, refused) = diagnostics(objects);
    let lints = if refused { Lints::default() } else { find(&objects.index, &choice) };
    let outcome = if refused { Outcome::CouldNotTell } else { options.outcome(&lints) };
    let mut report = reported(&lints, objects.index.sources());
    match refused {
        true => report.qualifications.push(REFUSED.to_owned()),
        false => report.qualifications.extend(objects.unavailable.iter().cloned()),
    }
    report.diagnostics = diagnostics;
    Ok(Linted { report, rules: choice.rules().map(described).collect(), outcome })
}

/// Repairs what can be repaired without changing a verdict. The findings that are left are those of the repaired texts.
pub fn repair(objects: &Objects, options: &LintOptions) -> Result<Repaired, AppError> {
    let choice = options.choice()?;
    let (diagnostics, refused) = diagnostics(objects);
    if refused {
        let noticed = Noticed::Cluster(diagnostics);
        return Err(AppError::Refused { what: "objects", consequence: "that nothing can be said about the others", noticed });
    }
    let texts = fix(&objects.index, &find(&objects.index, &choice).findings)?;
    let changed: Vec<Text> = texts.iter().map(|it| Text { file: it.file.clone(), content: it.after.as_str().into() }).collect();
    let repaired = objects.index.with_texts(&changed);
    let left = find(&repaired, &choice);
    Ok(Repaired { texts, left: reported(&left, repaired.sources()), diagnostics, outcome: options.outcome(&left) })
}

/// Diagnostics, and whether one of them is an error.
fn diagnostics(objects: &Objects) -> (Vec<v1::Diagnostic>, bool) {
    let all: Vec<Diagnostic> = objects.index.snapshot().diagnostics;
    (all.iter().map(v1::Diagnostic::from).collect(), all.iter().any(|it| it.severity == Severity::Error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BROKEN, SHOP, objects};

    /// A namespaceSelector and a podSelector as two entries, where one was probably meant.
    const TWO_DASHES: &str = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: two, namespace: shop}
spec:
  podSelector: {}
  ingress: [{from: [{namespaceSelector: {matchLabels: {team: infra}}}, {podSelector: {matchLabels: {app: agent}}}]}]
";

    fn options(rule: &str) -> LintOptions {
        LintOptions { only: vec![rule.to_owned()], except: Vec::new(), fail_on: Severity::Note }
    }

    #[test]
    fn findings_decide_the_outcome() {
        let of = |texts: &[&str]| lint(&objects(texts), &options("two-dashes")).unwrap();
        let found = of(&[TWO_DASHES]);
        let rules: Vec<&str> = found.report.findings.iter().map(|it| it.rule.as_str()).collect();
        assert_eq!((rules.as_slice(), found.outcome), (&["two-dashes"][..], Outcome::No));
        assert_eq!(of(&[SHOP]).outcome, Outcome::Yes);
        assert_eq!(of(&[SHOP, BROKEN]).outcome, Outcome::CouldNotTell);
    }

    #[test]
    fn an_unknown_rule_and_a_repair_of_refused_objects_are_errors() {
        assert_eq!(
            lint(&objects(&[SHOP]), &options("two-dash")).unwrap_err().to_string(),
            "`two-dash` is not a rule; did you mean `two-dashes`?"
        );
        let error = repair(&objects(&[SHOP, BROKEN]), &options("two-dashes")).unwrap_err().to_string();
        assert_eq!(error, REFUSED);
    }
}
