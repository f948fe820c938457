//! The steps of CI, in order. The first step that fails ends the run.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::codegen;
use crate::fuzz;
use crate::skipped::{self, Skipped, Strictness};
use crate::tidy;
use crate::tools::{DENY, NEXTEST, cargo, finish};
use crate::workspace::{APART, root};

/// The work of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// The lock file of the fuzz driver fits its manifest. `cargo` keeps the lock file of the workspace up to date, but not this one.
    Lock,
    Cargo(&'static [&'static str]),
    Tidy,
    /// Installs the cargo subcommands of the later steps.
    Tools,
    /// The profile `ci` of `.config/nextest.toml`, with two slots for each CPU; then the list of skipped tests.
    Nextest,
    Codegen,
    /// Each target for as many seconds as `PALISADE_FUZZ_SECONDS` says.
    Fuzz,
}

const STEPS: [(&str, Work); 10] = [
    ("lock", Work::Lock),
    ("fmt", Work::Cargo(&["fmt", "--all", "--check"])),
    ("tidy", Work::Tidy),
    ("clippy", Work::Cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])),
    ("tools", Work::Tools),
    ("deny", Work::Cargo(&["deny", "check", "bans", "licenses", "sources"])),
    ("test", Work::Nextest),
    ("doc tests", Work::Cargo(&["test", "--doc", "--workspace"])),
    ("codegen", Work::Codegen),
    ("fuzz", Work::Fuzz),
];

/// The JUnit report of the profile `ci`.
const REPORT: &str = "target/nextest/ci/junit.xml";

pub(crate) fn run() -> Result<()> {
    let root = root()?;
    let start = Instant::now();
    let mut timings = Vec::new();
    let mut skipped = Vec::new();
    let mut outcome = Ok(());
    for (name, work) in STEPS {
        println!("==> {name}");
        let begin = Instant::now();
        outcome = perform(&root, work, &mut skipped).with_context(|| format!("ci: step `{name}` failed"));
        timings.push((name, begin.elapsed()));
        if outcome.is_err() {
            break;
        }
    }
    print!("\n{}", table(&timings, start.elapsed()));
    outcome?;
    print!("\n{}", skipped::list(&skipped));
    let strictness = if std::env::var_os("CI").is_some() { Strictness::Fail } else { Strictness::List };
    skipped::check(&skipped, strictness)
}

fn perform(root: &Path, work: Work, skipped: &mut Vec<Skipped>) -> Result<()> {
    match work {
        Work::Lock => {
            let words = ["tree", "--locked", "--quiet", "--depth=0", "--manifest-path", APART];
            finish(cargo(root, &words)?.stdout(Stdio::null()))
                .with_context(|| format!("its lock file may be stale: `cargo update --workspace --manifest-path {APART}`"))
        }
        Work::Cargo(arguments) => finish(&mut cargo(root, arguments)?),
        Work::Tidy => tidy::run(),
        Work::Tools => [NEXTEST, DENY].into_iter().try_for_each(|tool| tool.ensure(root)),
        Work::Nextest => {
            let slots = std::thread::available_parallelism().map_or(2, |it| it.get() * 2);
            let words = ["nextest", "run", "--workspace", "--profile", "ci"];
            let result = finish(cargo(root, &words)?.env("NEXTEST_TEST_THREADS", slots.to_string()));
            let report = std::fs::read_to_string(root.join(REPORT)).with_context(|| format!("cannot read `{REPORT}`"));
            *skipped = result.and(report).and_then(|it| skipped::of_report(&it))?;
            Ok(())
        }
        Work::Codegen => codegen::run(codegen::Mode::CheckAsTested),
        Work::Fuzz => match std::env::var("PALISADE_FUZZ_SECONDS") {
            Ok(seconds) => fuzz::run(&["--seconds", &seconds]),
            Err(_) => {
                println!("not run: set PALISADE_FUZZ_SECONDS, or run `cargo xtask fuzz`; the tests have replayed the seeds");
                Ok(())
            }
        },
    }
}

fn table(timings: &[(&str, Duration)], total: Duration) -> String {
    let row = |name: &str, time: Duration| format!("{name:<10} {:>7.1} s\n", time.as_secs_f64());
    let mut text: String = timings.iter().map(|(name, time)| row(name, *time)).collect();
    text.push_str(&row("total", total));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_row_a_step() {
        let text = table(&[("fmt", Duration::from_millis(1540))], Duration::from_secs(100));
        assert_eq!(text, "fmt            1.5 s\ntotal        100.0 s\n");
    }
}
