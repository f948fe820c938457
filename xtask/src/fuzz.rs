//! The properties of `fuzz/` under libFuzzer, which looks for inputs that lead to code that no other input has reached.
//!
//! cargo-fuzz builds and starts the fuzzers. Without a sanitizer it needs no nightly compiler (decision 0018).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context, Result, bail};

use crate::tools::{FUZZ, cargo, finish};
use crate::workspace::root;

const TARGETS: [&str; 6] = ["dump", "ruleset", "log", "connections", "packet", "manifests"];
/// Package with the only fuzz target. The environment variable `PALISADE_FUZZ_TARGET` selects the property.
const DRIVER: &str = "palisade-fuzz-driver";
/// Build folder apart from all other builds, which have no coverage counters.
const FOLDER: &str = "target/fuzz";
const BUILD: [&str; 7] = ["--sanitizer=none", "--fuzz-dir", "fuzz/driver", "--target-dir", FOLDER, "--codegen-units", "16"];
const MOST_SECONDS: u64 = 24 * 60 * 60;
/// Seconds after which one input counts as a hang; the slowest input so far took a hundredth of it.
const SECONDS_FOR_ONE: u64 = 30;
const MEGABYTES: u64 = 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Options {
    targets: Vec<&'static str>,
    seconds: u64,
    /// Number of fuzzers that run at the same time.
    jobs: usize,
}

/// Result of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    target: &'static str,
    executions: u64,
    finds: Vec<PathBuf>,
    /// The last lines of the log, if the fuzzer failed.
    failure: Option<String>,
}

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let options = Options::read(arguments)?;
    let root = root()?;
    FUZZ.ensure(&root)?;
    finish(&mut cargo(&root, &[&["fuzz", "build"], &BUILD[..], &[DRIVER]].concat())?)?;
    let (waiting, outcomes) = (Mutex::new(options.targets.iter()), Mutex::new(Vec::new()));
    let next = || waiting.lock().ok()?.next().copied();
    let work = || {
        while let Some(target) = next() {
            let outcome = fuzz(&root, target, options.seconds);
            outcomes.lock().map(|mut it| it.push(outcome)).ok();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(work);
        }
    });
    let outcomes = outcomes.into_inner().ok().context("a fuzzer thread panicked")?;
    report(&outcomes.into_iter().collect::<Result<Vec<_>>>()?, options.seconds)
}

/// Runs the fuzzer of one target to its end.
fn fuzz(root: &Path, target: &'static str, seconds: u64) -> Result<Outcome> {
    let folder = |name: &str| -> Result<PathBuf> {
        let folder = root.join(FOLDER).join(name).join(target);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
        Ok(folder)
    };
    let (corpus, finds) = (folder("corpus")?, folder("finds")?);
    let log = root.join(FOLDER).join(format!("{target}.log"));
    let file = std::fs::File::create(&log).with_context(|| format!("cannot write `{}`", log.display()))?;
    println!("fuzz {target}: {seconds} s");
    let mut fuzzer = fuzzer(root, target, [&corpus, &finds], seconds)?;
    let status = fuzzer.stdout(file.try_clone()?).stderr(file).status().context("cannot run cargo fuzz")?;
    let log = String::from_utf8_lossy(&std::fs::read(&log).with_context(|| format!("cannot read `{}`", log.display()))?).into_owned();
    let finds = std::fs::read_dir(finds).context("cannot list finds")?;
    let finds = finds.map(|it| it.map(|it| it.path())).collect::<std::io::Result<Vec<_>>>().context("cannot list finds")?;
    Ok(outcome(target, &log, finds, status.success()))
}

fn fuzzer(root: &Path, target: &str, [corpus, finds]: [&Path; 2], seconds: u64) -> Result<Command> {
    let mut fuzzer = cargo(root, &[&["fuzz", "run"], &BUILD[..], &[DRIVER]].concat())?;
    // libFuzzer writes new inputs to the first folder.
    fuzzer.arg(corpus).arg(root.join("fuzz/seeds").join(target));
    if target == "manifests" {
        fuzzer.arg(root.join("scenarios"));
    }
    fuzzer
        .args(["--".to_owned(), format!("-max_total_time={seconds}"), format!("-timeout={SECONDS_FOR_ONE}")])
        .args([format!("-rss_limit_mb={MEGABYTES}"), format!("-artifact_prefix={}/", finds.display())])
        .args(["-print_final_stats=1", "-max_len=16384"]);
    let words = root.join("fuzz").join(format!("{target}.dict"));
    if words.is_file() {
        fuzzer.arg(format!("-dict={}", words.display()));
    }
    // To find the names for a backtrace takes longer than an input may.
    fuzzer.env("PALISADE_FUZZ_TARGET", target).env("RUST_BACKTRACE", "0");
    Ok(fuzzer)
}

fn outcome(target: &'static str, log: &str, finds: Vec<PathBuf>, ended_well: bool) -> Outcome {
    let executions = log.lines().find_map(|it| it.strip_prefix("stat::number_of_executed_units:"));
    let executions = executions.and_then(|it| it.trim().parse().ok());
    let lines: Vec<&str> = log.lines().collect();
    let failure = match (ended_well, executions) {
        (true, Some(_)) => None,
        (true, None) | (false, _) => Some(lines.get(lines.len().saturating_sub(40)..).unwrap_or_default().join("\n")),
    };
    Outcome { target, executions: executions.unwrap_or(0), finds, failure }
}

fn report(outcomes: &[Outcome], seconds: u64) -> Result<()> {
    let mut broken = Vec::new();
    for it in outcomes {
        println!("{:<12} {:>12} inputs in {seconds} s, {} finds", it.target, it.executions, it.finds.len());
        if let Some(failure) = &it.failure {
            println!("{failure}");
        }
        for find in &it.finds {
            println!("  {}", find.display());
        }
        if it.failure.is_some() || !it.finds.is_empty() {
            broken.push(it.target);
        }
    }
    match broken.is_empty() {
        true => Ok(()),
        false => bail!("does not hold for every input: {}", broken.join(", ")),
    }
}

impl Options {
    fn read(arguments: &[&str]) -> Result<Options> {
        let mut options = Options { targets: Vec::new(), seconds: 60, jobs: 2 };
        let mut rest = arguments;
        while let [name, tail @ ..] = rest {
            rest = tail;
            if let Some(target) = TARGETS.into_iter().find(|it| it == name) {
                options.targets.push(target);
                continue;
            }
            let [value, tail @ ..] = tail else { bail!("`{name}` is no target, or has no value; targets are {}", TARGETS.join(", ")) };
            rest = tail;
            let number: u64 = value.parse().with_context(|| format!("`{name} {value}`: not a number"))?;
            match *name {
                "--seconds" if (1..=MOST_SECONDS).contains(&number) => options.seconds = number,
                "--seconds" => bail!("`--seconds {value}`: from 1 to {MOST_SECONDS}"),
                "--jobs" if (1..=64).contains(&number) => options.jobs = usize::try_from(number)?,
                "--jobs" => bail!("`--jobs {value}`: from 1 to 64"),
                other => bail!("`{other}` is no option of `fuzz` and no target; targets are {}", TARGETS.join(", ")),
            }
        }
        if options.targets.is_empty() {
            options.targets = TARGETS.to_vec();
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_target_it_is_all_of_them() {
        assert_eq!(Options::read(&[]).unwrap(), Options { targets: TARGETS.to_vec(), seconds: 60, jobs: 2 });
        let one = Options { targets: vec!["dump", "log"], seconds: 600, jobs: 1 };
        assert_eq!(Options::read(&["dump", "--seconds", "600", "log", "--jobs", "1"]).unwrap(), one);
        for wrong in [&["--seconds", "0"][..], &["--seconds"], &["dumb", "1"], &["dumb"], &["--jobs", "0"]] {
            assert!(Options::read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_fuzzer_that_says_nothing_has_failed() {
        let well = "#1 INITED\nstat::number_of_executed_units: 4711\n";
        let expected = Outcome { target: "log", executions: 4711, finds: Vec::new(), failure: None };
        assert_eq!(outcome("log", well, Vec::new(), true), expected);
        for (log, ended_well) in [("", true), (well, false)] {
            assert!(outcome("log", log, Vec::new(), ended_well).failure.is_some(), "{log}");
        }
    }
}
