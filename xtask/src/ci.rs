//! What CI runs, step by step. The first step that fails ends it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::codegen;
use crate::fuzz;
use crate::tidy;
use crate::workspace::{command, root};

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Cargo(&'static [&'static str]),
    /// The profile `ci` of `.config/nextest.toml`, with two slots for each CPU.
    Nextest,
    Tidy,
    Codegen,
    /// Each target for the time that `PALISADE_FUZZ_SECONDS` says.
    Fuzz,
    /// Left out, with what to do about it.
    Skip(&'static str),
}

/// Which tools beside cargo itself are there.
#[derive(Clone, Copy, Debug)]
struct Tools {
    nextest: bool,
    deny: bool,
}

pub(crate) fn run() -> Result<()> {
    let root = root()?;
    let tools = Tools { nextest: is_there(&root, "nextest"), deny: is_there(&root, "deny") };
    let start = Instant::now();
    let mut timings = Vec::new();
    let mut outcome = Ok(());
    for (name, work) in steps(tools) {
        println!("==> {name}");
        let begin = Instant::now();
        outcome = perform(&root, work).with_context(|| format!("ci: step `{name}` failed"));
        timings.push((name, begin.elapsed()));
        if outcome.is_err() {
            break;
        }
    }
    print!("\n{}", table(&timings, start.elapsed()));
    outcome
}

fn steps(tools: Tools) -> Vec<(&'static str, Work)> {
    let test = if tools.nextest { Work::Nextest } else { Work::Cargo(&["test", "--workspace", "--lib", "--bins", "--tests"]) };
    let deny = if tools.deny {
        Work::Cargo(&["deny", "check", "bans", "licenses", "sources"])
    } else {
        Work::Skip("cargo-deny is not installed; `cargo install --locked cargo-deny` brings it")
    };
    vec![
        ("fmt", Work::Cargo(&["fmt", "--all", "--check"])),
        ("tidy", Work::Tidy),
        ("clippy", Work::Cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])),
        ("test", test),
        ("doc tests", Work::Cargo(&["test", "--doc", "--workspace"])),
        ("codegen", Work::Codegen),
        ("deny", deny),
        ("fuzz", Work::Fuzz),
    ]
}

fn perform(root: &Path, work: Work) -> Result<()> {
    match work {
        Work::Cargo(arguments) => cargo(&mut command(root, "cargo", arguments)),
        Work::Nextest => {
            let slots = std::thread::available_parallelism().map_or(2, |it| it.get() * 2);
            let words = ["nextest", "run", "--workspace", "--profile", "ci"];
            cargo(command(root, "cargo", &words).env("NEXTEST_TEST_THREADS", slots.to_string()))
        }
        Work::Tidy => tidy::run(),
        Work::Codegen => codegen::run(codegen::Mode::CheckAsTested),
        Work::Fuzz => match std::env::var("PALISADE_FUZZ_SECONDS") {
            Ok(seconds) => fuzz::run(&["--seconds", &seconds]),
            Err(_) => {
                println!("skipped: set PALISADE_FUZZ_SECONDS, or run `cargo xtask fuzz`; the seeds were replayed by the tests");
                Ok(())
            }
        },
        Work::Skip(reason) => {
            println!("skipped: {reason}");
            Ok(())
        }
    }
}

fn cargo(command: &mut Command) -> Result<()> {
    let words: Vec<String> = command.get_args().map(|it| it.to_string_lossy().into_owned()).collect();
    let spelled = format!("cargo {}", words.join(" "));
    let status = command.status().with_context(|| format!("cannot run `{spelled}`"))?;
    if status.success() { Ok(()) } else { bail!("`{spelled}` ended with {status}") }
}

fn is_there(root: &Path, tool: &str) -> bool {
    let status = command(root, "cargo", &[tool, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
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
    fn without_its_tools_ci_still_tests_and_says_what_it_left_out() {
        let steps = steps(Tools { nextest: false, deny: false });
        let work = |name| steps.iter().find(|(step, _)| *step == name).unwrap().1;
        assert_eq!(work("test"), Work::Cargo(&["test", "--workspace", "--lib", "--bins", "--tests"]));
        assert!(matches!(work("deny"), Work::Skip(_)));
    }

    #[test]
    fn the_table_has_a_row_a_step() {
        let text = table(&[("fmt", Duration::from_millis(1540))], Duration::from_secs(100));
        assert_eq!(text, "fmt            1.5 s\ntotal        100.0 s\n");
    }
}
