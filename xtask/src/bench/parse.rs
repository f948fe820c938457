//! What it costs to read a large folder of manifests, as a ratio to a plain read of the same files; and one with slips, to one without.
//!
//! CPU time of the child (user and system) is measured by bash's `time`. The readers of JSON and YAML are compared in this process.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::broken::broken;
use super::readers::readers;
use super::{Line, Spread, Table, optimized};
use crate::generate::{Amount, manifests, write};
use crate::workspace::{command, root};

const AMOUNT: Amount = Amount { namespaces: 200, workloads: 5_000, policies: 2_000, cluster_policies: 20 };
const SMALLER: Amount = Amount { namespaces: 50, workloads: 1_000, policies: 500, cluster_policies: 0 };
const RUNS: usize = 9;
const MOST_RUNS: usize = 99;

/// What to measure, and how often.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    runs: usize,
    /// Another binary than the one of this workspace, to compare versions.
    binary: Option<PathBuf>,
}

pub(crate) fn parse(options: &[&str]) -> Result<()> {
    let arguments = options;
    let options = Options::read(options)?;
    if cfg!(debug_assertions) {
        return optimized("parse", arguments);
    }
    let root = root()?;
    let binary = match options.binary {
        Some(binary) => binary,
        None => build(&root)?,
    };
    let folder = tempfile::tempdir()?;
    let files = manifests(AMOUNT);
    write(folder.path(), &files)?;
    let bytes: usize = files.iter().map(|(_, text)| text.len()).sum();
    let lines: usize = files.iter().map(|(_, text)| text.lines().count()).sum();
    println!(
        "{} Deployments, {} NetworkPolicies, {} ClusterNetworkPolicies: {} files, {lines} lines, {bytes} bytes",
        AMOUNT.workloads,
        AMOUNT.policies,
        AMOUNT.cluster_policies,
        files.len()
    );

    let listed = tempfile::tempdir()?;
    write(listed.path(), &[("list.yaml".to_owned(), as_list(&files))])?;

    let explain_list = explain(&binary, listed.path());
    let explain = explain(&binary, folder.path());
    let csv = matrix(&binary, folder.path());
    let smaller = tempfile::tempdir()?;
    write(smaller.path(), &manifests(SMALLER))?;
    let smaller_csv = matrix(&binary, smaller.path());
    let baseline = baseline(folder.path());
    let (mut plain, mut own, mut list) = (Vec::new(), Vec::new(), Vec::new());
    let (mut rows, mut fewer_rows) = (Vec::new(), Vec::new());
    for _ in 0..options.runs {
        plain.push(cpu_time(&baseline, &[0])?);
        own.push(cpu_time(&explain, &[0, 1])?);
        list.push(cpu_time(&explain_list, &[0, 1])?);
        rows.push(cpu_time(&csv, &[0])?);
        fewer_rows.push(cpu_time(&smaller_csv, &[0])?);
    }
    let plain = Spread::of(&plain)?;
    let line = |name, spread: Spread| (name, spread, Some(spread.median / plain.median));
    let lines: [Line<'_>; 5] = [
        line("words of the same files (wc)", plain),
        line("palisade explain", Spread::of(&own)?),
        line("the same as one List", Spread::of(&list)?),
        line("palisade matrix -o csv", Spread::of(&rows)?),
        line("the same with 50 × 20 workloads, 500 policies", Spread::of(&fewer_rows)?),
    ];
    let title = format!("CPU time of {} runs", options.runs);
    print!("{}", Table { title: &title, unit: "ms", scale: 1e3, digits: 1 }.text(&lines));
    for (name, words) in [("explain", &explain), ("matrix", &csv)] {
        match peak_memory(words) {
            Some(kibibytes) => println!("memory at its peak, {name}: {:.1} MiB", kibibytes / 1024.0),
            None => println!("memory at its peak, {name}: not known on this system"),
        }
    }
    broken(&binary, options.runs)?;
    readers(options.runs)
}

impl Options {
    fn read(arguments: &[&str]) -> Result<Options> {
        let mut options = Options { runs: RUNS, binary: None };
        let mut rest = arguments;
        while let [name, value, tail @ ..] = rest {
            match *name {
                "--runs" => {
                    options.runs = value.parse().with_context(|| format!("`--runs {value}`: not a number"))?;
                    if !(1..=MOST_RUNS).contains(&options.runs) {
                        bail!("`--runs {value}`: from 1 to {MOST_RUNS}");
                    }
                }
                "--binary" => options.binary = Some(std::path::absolute(value)?),
                other => bail!("`{other}` is no option of `bench parse`"),
            }
            rest = tail;
        }
        match rest {
            [] => Ok(options),
            rest => bail!("`{}` is no option of `bench parse`, or has no value", rest.join(" ")),
        }
    }
}

fn build(root: &Path) -> Result<PathBuf> {
    let status = command(root, "cargo", &["build", "--release", "--package", "palisade"]).status()?;
    if !status.success() {
        bail!("cannot build the binary");
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |target| root.join(target));
    Ok(target.join("release/palisade"))
}

/// All documents as the items of one List, as `kubectl get -o yaml` prints them.
fn as_list(files: &[(String, String)]) -> String {
    let mut list = String::from("apiVersion: v1\nkind: List\nitems:\n");
    let documents = files.iter().flat_map(|(_, text)| text.split("---\n")).filter(|it| !it.trim().is_empty());
    for document in documents {
        let lines = document.lines().filter(|line| !line.starts_with('#'));
        for (at, line) in lines.enumerate() {
            let lead = if at == 0 { "- " } else { "  " };
            list.push_str(lead);
            list.push_str(line);
            list.push('\n');
        }
    }
    list
}

pub(super) fn explain(binary: &Path, folder: &Path) -> Vec<String> {
    let (binary, folder) = (binary.display().to_string(), folder.display().to_string());
    ["explain", "-f", &folder, "--from", "ns-1/deploy/w-0", "--to", "ns-2/deploy/w-3", "--port", "8080"].iter().fold(
        vec![binary],
        |mut words, word| {
            words.push((*word).to_owned());
            words
        },
    )
}

fn matrix(binary: &Path, folder: &Path) -> Vec<String> {
    let words = [binary.to_string_lossy().into_owned(), "matrix".to_owned(), "-o".to_owned(), "csv".to_owned(), "-f".to_owned()];
    words.into_iter().chain([folder.to_string_lossy().into_owned()]).collect()
}

/// Reads every byte and splits it into lines and words.
fn baseline(folder: &Path) -> Vec<String> {
    let script = format!("exec wc '{}'/*", folder.display());
    vec!["bash".to_owned(), "-c".to_owned(), script]
}

/// Seconds of user and system time that a command took. Bash measures it: asking the kernel from here would need `unsafe`.
pub(super) fn cpu_time(words: &[String], codes: &[i32]) -> Result<f64> {
    // The complaints of the command go to descriptor 3, so that descriptor 2 has the timing alone.
    let script = r#"TIMEFORMAT='%3U %3S'; exec 3>&1 >/dev/null; time "$@" 2>&3"#;
    let output = Command::new("bash").args(["-c", script, "bash"]).args(words).stdin(Stdio::null()).output();
    let output = output.context("cannot run bash")?;
    if !output.status.code().is_some_and(|code| codes.contains(&code)) {
        let complaint = String::from_utf8_lossy(&output.stdout);
        bail!("`{}` ended with {}:\n{}", words.join(" "), output.status, complaint.trim_end());
    }
    seconds(&String::from_utf8_lossy(&output.stderr))
}

fn seconds(timing: &str) -> Result<f64> {
    let parts: Vec<f64> = timing
        .split_whitespace()
        // The decimal point is the locale's.
        .map(|part| part.replace(',', ".").parse::<f64>())
        .collect::<Result<_, _>>()
        .with_context(|| format!("cannot read the timing `{}`", timing.trim()))?;
    match parts.as_slice() {
        [user, system] => Ok(user + system),
        _ => bail!("cannot read the timing `{}`", timing.trim()),
    }
}

/// The largest resident size in KiB, by asking `/proc` until the process ends. The mark only rises, so the last answer is at most
/// a moment old.
fn peak_memory(words: &[String]) -> Option<f64> {
    let (program, arguments) = words.split_first()?;
    let mut child = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak = None;
    while let Ok(None) = child.try_wait() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let mark =
            text.lines().find_map(|line| line.strip_prefix("VmHWM:")).and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
        peak = mark.or(peak);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    peak
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timings_are_read_in_any_locale() {
        assert_eq!(seconds("0.250 0.500\n").unwrap(), 0.75);
        assert_eq!(seconds("0,250 0,500\n").unwrap(), 0.75);
        assert!(seconds("bash: no such file").is_err() && seconds("1.0").is_err());
    }

    #[test]
    fn options_are_bounded_and_known() {
        assert_eq!(Options::read(&[]).unwrap().runs, 9);
        assert_eq!(Options::read(&["--runs", "3"]).unwrap().runs, 3);
        for wrong in [&["--runs", "0"][..], &["--runs", "1000"], &["--runs"], &["--fast", "1"]] {
            assert!(Options::read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_command_is_measured_and_a_failing_one_refused() {
        let words = |script: &str| ["bash", "-c", script].map(str::to_owned);
        assert!(cpu_time(&words("echo noise >&2"), &[0]).unwrap() < 1.0);
        assert!(cpu_time(&words("exit 1"), &[0, 1]).is_ok());
        let error = cpu_time(&words("echo broken >&2; exit 2"), &[0, 1]).unwrap_err();
        assert!(error.to_string().ends_with("broken"), "{error}");
    }
}
