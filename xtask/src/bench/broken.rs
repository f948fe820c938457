//! What it costs to read a large input of which a hundredth is broken, next to the same input without a slip.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use palisade_testkit::mutate::slip;

use super::parse::{cpu_time, explain};
use super::{Line, Spread, Table};
use crate::generate::{Amount, manifests, write};

const AMOUNT: Amount = Amount { namespaces: 2_000, workloads: 77_980, policies: 20_000, cluster_policies: 20 };
/// One of so many documents is broken.
const EVERY: usize = 100;
/// What a slip may cost.
const MOST: f64 = 1.2;
const MOST_RUNS: usize = 5;

/// Measures both, and fails if the broken input is read too slowly or something broken in it is not named.
pub(super) fn broken(binary: &Path, runs: usize) -> Result<()> {
    let clean = manifests(AMOUNT);
    let (slipped, count) = with_slips(&clean);
    let (clean_folder, broken_folder) = (tempfile::tempdir()?, tempfile::tempdir()?);
    write(clean_folder.path(), &clean)?;
    write(broken_folder.path(), &slipped)?;
    let (clean, broken) = (explain(binary, clean_folder.path()), explain(binary, broken_folder.path()));
    all_are_named(&broken, count)?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let runs = runs.min(MOST_RUNS);
    for _ in 0..runs {
        without.push(cpu_time(&clean, &[0, 1])?);
        with.push(cpu_time(&broken, &[2])?);
    }
    let (without, with) = (Spread::of(&without)?, Spread::of(&with)?);
    let ratio = with.median / without.median;
    let title = format!("CPU time of {runs} runs");
    let objects = AMOUNT.namespaces + AMOUNT.workloads + AMOUNT.policies + AMOUNT.cluster_policies;
    let (all, some) = (format!("{objects} objects"), format!("the same, {count} of them broken"));
    let lines: [Line<'_>; 2] = [(&all, without, Some(1.0)), (&some, with, Some(ratio))];
    print!("{}", Table { title: &title, unit: "ms", scale: 1e3, digits: 1 }.text(&lines));
    if ratio <= MOST { Ok(()) } else { bail!("broken input is read {ratio:.2} times as slowly; {MOST} is allowed") }
}

/// The same files with a slip in one of so many documents, and the number of slips.
fn with_slips(files: &[(String, String)]) -> (Vec<(String, String)>, usize) {
    let (mut at, mut count) = (0, 0);
    let mut slipped = Vec::with_capacity(files.len());
    for (name, text) in files {
        let mut broken = String::with_capacity(text.len());
        for document in text.split_inclusive("---\n").filter(|it| *it != "---\n") {
            let document = document.strip_suffix("---\n").unwrap_or(document);
            at += 1;
            let document = format!("---\n{document}");
            if at % EVERY == 0 {
                broken.push_str(&slip(count, &document).text);
                count += 1;
            } else {
                broken.push_str(&document);
            }
        }
        slipped.push((name.clone(), broken));
    }
    (slipped, count)
}

/// Whether there is an error for each, and an answer all the same, which is not to be trusted.
fn all_are_named(words: &[String], count: usize) -> Result<()> {
    let (program, arguments) = words.split_first().context("nothing to run")?;
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().with_context(|| format!("cannot run `{program}`"))?;
    let named = String::from_utf8_lossy(&output.stderr).matches(": error[").count();
    let answered = String::from_utf8_lossy(&output.stdout).starts_with("UNKNOWN");
    match (output.status.code(), named >= count, answered) {
        (Some(2), true, true) => Ok(()),
        (code, ..) => bail!("{named} of {count} broken objects are named; exit {code:?}, answered: {answered}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_document_in_a_hundred_has_a_slip_and_none_is_lost() {
        let files = manifests(Amount { namespaces: 100, workloads: 400, policies: 500, cluster_policies: 0 });
        let (slipped, count) = with_slips(&files);
        assert_eq!(count, 10);
        let changed: usize = files.iter().zip(&slipped).map(|(a, b)| b.1.lines().filter(|it| !a.1.contains(it)).count()).sum();
        assert!(changed > 0);
        let documents = |files: &[(String, String)]| files.iter().map(|(_, text)| text.matches("\nmetadata:\n").count()).sum::<usize>();
        assert_eq!(documents(&files), documents(&slipped));
    }
}
