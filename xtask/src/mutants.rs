//! Mistakes made on purpose, one at a time: each must make a test of the testkit fail.
//!
//! Everything happens in a copy of the workspace below `target/mutants`, which stays there so that the next run builds less. The table is
//! `xtask/mutants.toml`; `cargo xtask tidy` holds that every text of it is still there to be replaced.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::workspace::{Tree, command, output, root};

/// Where the table is.
pub(crate) const TABLE: &str = "xtask/mutants.toml";

/// The table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    pub(crate) mutant: Vec<Mutant>,
}

/// One mistake.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mutant {
    pub(crate) name: String,
    pub(crate) file: String,
    /// A text that the file has exactly once.
    pub(crate) find: String,
    pub(crate) replace: String,
    /// What is wrong then, in one sentence.
    pub(crate) breaks: String,
    /// The only test that can see it; without it all are run.
    pub(crate) test: Option<String>,
}

/// What became of a mutant.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// By this test.
    Caught(String),
    Survived,
}

/// The tests that are run, the random one first.
const TESTS: [&str; 7] = ["differential", "scenarios", "networks", "updates", "plans", "audit", "lowering"];
/// How long the random test looks for a difference, and how long a test may take at all: a mutant may never end.
const SECONDS: &str = "20";
const PATIENCE: Duration = Duration::from_secs(240);

/// Runs those that are named, or all.
pub(crate) fn run(names: &[&str]) -> Result<()> {
    let root = root()?;
    let table = Table::parse(&std::fs::read_to_string(root.join(TABLE)).with_context(|| format!("cannot read `{TABLE}`"))?)?;
    if let Some(unknown) = names.iter().find(|name| !table.mutant.iter().any(|it| it.name == **name)) {
        bail!("`{unknown}`: no such mutant");
    }
    let chosen = table.mutant.iter().filter(|it| names.is_empty() || names.contains(&it.name.as_str()));
    let copy = root.join("target/mutants/workspace");
    refresh(&root, &copy)?;
    let start = Instant::now();
    if let Fate::Caught(test) = fate(&copy, None)? {
        bail!("`{test}` fails without any mutant");
    }
    println!("without a mutant all tests pass, {:.0} s", start.elapsed().as_secs_f64());
    let mut survivors = Vec::new();
    for mutant in chosen {
        let start = Instant::now();
        let fate = with_mutant(&copy, mutant).with_context(|| format!("mutant `{}`", mutant.name))?;
        let took = start.elapsed().as_secs_f64();
        match fate {
            Fate::Caught(test) => println!("caught    {:<40} {took:>4.0} s  {test}", mutant.name),
            Fate::Survived => {
                println!("survived  {:<40} {took:>4.0} s  {}", mutant.name, mutant.breaks);
                survivors.push(mutant.name.as_str());
            }
        }
    }
    if survivors.is_empty() { Ok(()) } else { bail!("{} survived: {}", survivors.len(), survivors.join(", ")) }
}

impl Table {
    pub(crate) fn parse(text: &str) -> Result<Table> {
        toml::from_str(text).with_context(|| format!("cannot read `{TABLE}`"))
    }
}

/// Makes the copy equal to the workspace. Files that are equal already are not touched, so that cargo does not build them again.
fn refresh(root: &Path, copy: &Path) -> Result<()> {
    let names = output(root, "git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
    let names: BTreeSet<&str> = names.split('\0').filter(|it| !it.is_empty() && root.join(it).is_file()).collect();
    for name in &names {
        let (from, to) = (root.join(name), copy.join(name));
        let bytes = std::fs::read(&from).with_context(|| format!("cannot read `{name}`"))?;
        if std::fs::read(&to).is_ok_and(|it| it == bytes) {
            continue;
        }
        if let Some(folder) = to.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
        }
        std::fs::write(&to, bytes).with_context(|| format!("cannot write `{}`", to.display()))?;
    }
    remove_strangers(copy, copy, &names)
}

fn remove_strangers(copy: &Path, folder: &Path, names: &BTreeSet<&str>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list `{}`", folder.display()))? {
        let path = entry?.path();
        let name = path.strip_prefix(copy)?.to_string_lossy().into_owned();
        if path.is_dir() {
            remove_strangers(copy, &path, names)?;
        } else if !names.contains(name.as_str()) {
            std::fs::remove_file(&path).with_context(|| format!("cannot remove `{}`", path.display()))?;
        }
    }
    Ok(())
}

/// Runs the tests with the mutant in the copy, and takes it out again.
fn with_mutant(copy: &Path, mutant: &Mutant) -> Result<Fate> {
    let path = copy.join(&mutant.file);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", mutant.file))?;
    if text.matches(&mutant.find).count() != 1 {
        bail!("`{}` has the text {} times", mutant.file, text.matches(&mutant.find).count());
    }
    std::fs::write(&path, text.replacen(&mutant.find, &mutant.replace, 1))?;
    let fate = fate(copy, mutant.test.as_deref());
    std::fs::write(&path, text).with_context(|| format!("cannot put `{}` back", mutant.file))?;
    fate
}

/// Builds the tests of the copy and runs one after the other until one fails.
fn fate(copy: &Path, only: Option<&str>) -> Result<Fate> {
    let programs = build(copy)?;
    for test in TESTS.into_iter().filter(|it| only.is_none_or(|only| only == *it)) {
        let program = programs.iter().find(|(name, _)| name == test).map(|(_, program)| program);
        let program = program.with_context(|| format!("cargo built no test `{test}`"))?;
        if let Some(failed) = failure(program)? {
            return Ok(Fate::Caught(format!("{test}: {failed}")));
        }
    }
    Ok(Fate::Survived)
}

/// A line of cargo's messages.
#[derive(Debug, Deserialize)]
struct Message {
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
}

/// The test programs by name.
fn build(copy: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut words = vec!["test", "--package", "palisade-testkit", "--no-run", "--message-format", "json", "--quiet"];
    words.extend(TESTS.iter().flat_map(|test| ["--test", test]));
    let mut cargo = command(copy, "cargo", &words);
    // Warnings are what a mutant is made of.
    let output =
        cargo.env("CARGO_TARGET_DIR", copy.with_file_name("target")).env("RUSTFLAGS", "-Awarnings").output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("it does not compile:\n{}", String::from_utf8_lossy(&output.stderr).trim_end());
    }
    let mut programs = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Message = serde_json::from_str(line).with_context(|| format!("cannot read cargo's message `{line}`"))?;
        if let (Some(target), Some(executable)) = (message.target, message.executable) {
            programs.push((target.name, executable));
        }
    }
    Ok(programs)
}

/// The name of the first test of a program that fails; none if all pass.
fn failure(program: &Path) -> Result<Option<String>> {
    let printed = program.with_extension("out");
    let file = std::fs::File::create(&printed).with_context(|| format!("cannot write `{}`", printed.display()))?;
    let mut command = Command::new(program);
    command.env("PALISADE_DIFFERENTIAL_SECONDS", SECONDS).env("PALISADE_DIFFERENTIAL_SEED", "0").env("RUST_BACKTRACE", "0");
    let mut child = command.stdin(Stdio::null()).stdout(file).stderr(Stdio::null()).spawn().context("cannot run the test")?;
    let start = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if start.elapsed() > PATIENCE => {
                child.kill().context("cannot end the test")?;
                child.wait()?;
                return Ok(Some(format!("did not end within {} s", PATIENCE.as_secs())));
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let text = std::fs::read_to_string(&printed).with_context(|| format!("cannot read `{}`", printed.display()))?;
    Ok(if status.success() { None } else { Some(first_failed(&text).unwrap_or("ended early").to_owned()) })
}

fn first_failed(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
}

/// What of the table no longer fits the files: the line in it and the reason.
pub(crate) fn misfits(tree: &Tree) -> Vec<(usize, String)> {
    let Some(text) = tree.text(TABLE) else { return vec![(1, "the table of mutants is missing".to_owned())] };
    let table = match Table::parse(text) {
        Ok(table) => table,
        Err(error) => return vec![(1, format!("{error:#}"))],
    };
    let mut misfits = Vec::new();
    let mut names = BTreeSet::new();
    for mutant in &table.mutant {
        let line = tree.line_of(TABLE, &format!("name = \"{}\"", mutant.name));
        if !names.insert(mutant.name.as_str()) {
            misfits.push((line, format!("two mutants are named `{}`", mutant.name)));
        }
        match tree.text(&mutant.file).map(|text| text.matches(&mutant.find).count()) {
            Some(1) if mutant.find != mutant.replace => {}
            Some(1) => misfits.push((line, format!("mutant `{}` changes nothing", mutant.name))),
            Some(count) => {
                misfits.push((line, format!("mutant `{}`: `{}` has its text {count} times, not once", mutant.name, mutant.file)))
            }
            None => misfits.push((line, format!("mutant `{}`: there is no `{}`", mutant.name, mutant.file))),
        }
    }
    misfits
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[[mutant]]\nname = \"m\"\nfile = \"a.rs\"\nfind = \"x\"\nreplace = \"y\"\nbreaks = \"all\"\n";

    #[test]
    fn a_text_that_is_gone_or_there_twice_is_a_misfit() {
        let misfits = |file: &str| misfits(&Tree::fixture(&[(TABLE, ONE), ("a.rs", file)]));
        assert_eq!(misfits("x"), []);
        assert_eq!(misfits("x x"), [(2, "mutant `m`: `a.rs` has its text 2 times, not once".to_owned())]);
        assert_eq!(misfits("y"), [(2, "mutant `m`: `a.rs` has its text 0 times, not once".to_owned())]);
    }

    #[test]
    fn a_table_that_cannot_be_read_or_repeats_itself_is_a_misfit() {
        let twice = format!("{ONE}{ONE}");
        let found = |table: &str| misfits(&Tree::fixture(&[(TABLE, table), ("a.rs", "x")]));
        assert_eq!(found(&twice), [(2, "two mutants are named `m`".to_owned())]);
        assert_eq!(found("[[mutant]]\nnane = 1\n").len(), 1);
        assert_eq!(misfits(&Tree::default()).len(), 1);
    }

    #[test]
    fn the_first_test_that_failed_is_named() {
        assert_eq!(first_failed("test a ... ok\ntest b ... FAILED\ntest c ... FAILED\n"), Some("b"));
        assert_eq!(first_failed("running 1 test\n"), None);
    }

    #[test]
    fn the_copy_has_what_the_workspace_has_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (root, copy) = (folder.path().join("root"), folder.path().join("copy"));
        std::fs::create_dir_all(root.join("a")).unwrap();
        std::fs::create_dir_all(copy.join("b")).unwrap();
        std::fs::write(root.join("a/x"), "1").unwrap();
        std::fs::write(copy.join("b/y"), "2").unwrap();
        output(&root, "git", &["init", "--quiet"]).unwrap();
        refresh(&root, &copy).unwrap();
        assert_eq!(std::fs::read_to_string(copy.join("a/x")).unwrap(), "1");
        assert!(!copy.join("b/y").exists());
    }
}
