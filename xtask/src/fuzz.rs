//! The properties of `fuzz/` under libFuzzer, which looks for inputs that lead to code that no other has met.
//!
//! The counters of coverage are a pass of LLVM that the stable compiler runs when told to; only sanitizers would need a nightly one.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::workspace::{APART, command, output, root};

const TARGETS: [&str; 6] = ["dump", "ruleset", "log", "connections", "packet", "manifests"];
const BINARY: &str = "palisade-fuzz-driver";
/// Inside `target`: apart from all other builds, which have no counters.
const FOLDER: &str = "target/fuzz";
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";
const MOST_SECONDS: u64 = 24 * 60 * 60;
/// For one input; the longest that was ever seen needs a hundredth.
const SECONDS_FOR_ONE: u64 = 30;
const MEGABYTES: u64 = 1024;
/// How long a fuzzer may go on after its time: it ends between two inputs.
const GRACE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Options {
    targets: Vec<&'static str>,
    seconds: u64,
    /// How many at a time.
    jobs: usize,
}

/// What one run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    target: &'static str,
    executions: u64,
    finds: Vec<PathBuf>,
    /// The end of what it said, if it did not end well.
    failure: Option<String>,
}

/// A fuzzer at work.
struct Job {
    target: &'static str,
    child: Child,
    log: PathBuf,
    deadline: Instant,
}

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let options = Options::read(arguments)?;
    let root = root()?;
    let binary = build(&root)?;
    let mut waiting = options.targets.iter().rev().copied().collect::<Vec<_>>();
    let (mut jobs, mut outcomes): (Vec<Job>, Vec<Outcome>) = (Vec::new(), Vec::new());
    while !waiting.is_empty() || !jobs.is_empty() {
        while jobs.len() < options.jobs
            && let Some(target) = waiting.pop()
        {
            jobs.push(start(&root, &binary, target, options.seconds)?);
        }
        let mut running = Vec::new();
        for mut job in jobs {
            match job.child.try_wait().context("cannot wait for a fuzzer")? {
                Some(status) => outcomes.push(finish(&root, &job, status.success())?),
                None if Instant::now() > job.deadline => {
                    job.child.kill().context("cannot end a fuzzer")?;
                    job.child.wait().context("cannot wait for a fuzzer")?;
                    outcomes.push(finish(&root, &job, false)?);
                }
                None => running.push(job),
            }
        }
        jobs = running;
        std::thread::sleep(Duration::from_millis(200));
    }
    report(&outcomes, options.seconds)
}

fn build(root: &Path) -> Result<PathBuf> {
    let version = output(root, "rustc", &["-vV"])?;
    let host = version.lines().find_map(|it| it.strip_prefix("host: ")).context("rustc does not say what it runs on")?;
    let words = ["build", "--release", "--locked", "--manifest-path", APART, "--target-dir", FOLDER, "--target", host];
    // With a target of its own the flags are for what is run, and not for build scripts and macros.
    let status = command(root, "cargo", &words).env("RUSTFLAGS", COVERAGE).status().context("cannot run cargo")?;
    if !status.success() {
        bail!("`cargo {}` ended with {status}", words.join(" "));
    }
    Ok(root.join(FOLDER).join(host).join("release").join(BINARY))
}

fn start(root: &Path, binary: &Path, target: &'static str, seconds: u64) -> Result<Job> {
    let folder = |name: &str| -> Result<PathBuf> {
        let folder = root.join(FOLDER).join(name).join(target);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
        Ok(folder)
    };
    let (corpus, finds) = (folder("corpus")?, folder("finds")?);
    let log = root.join(FOLDER).join(format!("{target}.log"));
    let file = std::fs::File::create(&log).with_context(|| format!("cannot write `{}`", log.display()))?;
    let mut fuzzer = Command::new(binary);
    fuzzer
        .args([format!("-max_total_time={seconds}"), format!("-timeout={SECONDS_FOR_ONE}"), format!("-rss_limit_mb={MEGABYTES}")])
        .args(["-print_final_stats=1", "-max_len=16384"])
        .arg(format!("-artifact_prefix={}/", finds.display()));
    let words = root.join("fuzz").join(format!("{target}.dict"));
    if words.is_file() {
        fuzzer.arg(format!("-dict={}", words.display()));
    }
    // What is new is written to the first of them.
    fuzzer.arg(corpus).arg(root.join("fuzz/seeds").join(target));
    if target == "manifests" {
        fuzzer.arg(root.join("scenarios"));
    }
    // To find the names for a backtrace takes longer than an input may.
    fuzzer.env("PALISADE_FUZZ_TARGET", target).env("RUST_BACKTRACE", "0").stdout(Stdio::null()).stderr(file);
    let child = fuzzer.spawn().with_context(|| format!("cannot start `{}`", binary.display()))?;
    println!("fuzz {target}: {seconds} s");
    Ok(Job { target, child, log, deadline: Instant::now() + Duration::from_secs(seconds) + GRACE })
}

fn finish(root: &Path, job: &Job, ended_well: bool) -> Result<Outcome> {
    let log = String::from_utf8_lossy(&std::fs::read(&job.log).context("cannot read what a fuzzer said")?).into_owned();
    let finds = std::fs::read_dir(root.join(FOLDER).join("finds").join(job.target)).context("cannot list finds")?;
    let finds = finds.map(|it| it.map(|it| it.path())).collect::<std::io::Result<Vec<_>>>().context("cannot list finds")?;
    Ok(outcome(job.target, &log, finds, ended_well))
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
