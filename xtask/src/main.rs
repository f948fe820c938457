//! The house-keeping of the workspace: `ci`, `tidy`, `codegen`, `differential`, `fuzz`, `mutants`, `bench`.
//!
//! Everything with logic that is not part of the product lives here, so that a laptop and CI run the same program. Nothing in the
//! product depends on it.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool talks to the terminal")]

use std::process::ExitCode;

use anyhow::{Result, bail};

mod bench;
mod ci;
mod codegen;
mod crds;
mod differential;
mod fuzz;
mod generate;
mod mutants;
mod skipped;
mod tidy;
mod tools;
mod workspace;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci                 what CI runs: fmt, tidy, clippy, tests, doc tests, codegen --check, deny, fuzz
  tidy               layers, purity, sizes, orphan files, text
  codegen [--check]  write the generated files; with --check only compare
  differential [--minutes N] [--seed N] [--threads N]
                     random clusters through every judge, optimised; prints where to go on
  fuzz [TARGET…] [--seconds N] [--jobs N]
                     inputs that lead to new code, for every reader of bytes or text; a find is kept in `target/fuzz/finds`
  mutants [NAME…]    mistakes of `xtask/mutants.toml`, one by one, in a copy of the workspace: each must make a test fail
  bench parse [--runs N] [--binary PATH]
                     CPU time of reading a large folder, as a ratio to a plain read, and of one with slips
  bench engine [--runs N] [--only memory|sizes|updates|nodes|following|worst]
                     CPU time of working out whole clusters, as a ratio to copying them
  bench kernel [--rounds N] [--quick]
                     what the ruleset costs in the kernel, as a ratio to conntrack alone; needs root
  bench sweep [--rounds N]
                     ending the few of many connections that a change denies, as a ratio to reading them; needs root
  bench agent [--quick]
                     memory of an agent with 10,000 policies, its first load, and one pod more; needs root
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[&str]) -> Result<()> {
    match arguments {
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(())
        }
        ["ci"] => ci::run(),
        ["tidy"] => tidy::run(),
        ["codegen"] => codegen::run(codegen::Mode::Write),
        ["codegen", "--check"] => codegen::run(codegen::Mode::Check),
        ["differential", options @ ..] => differential::run(options),
        ["fuzz", options @ ..] => fuzz::run(options),
        ["mutants", names @ ..] => mutants::run(names),
        ["bench", "parse", options @ ..] => bench::parse(options),
        ["bench", "engine", options @ ..] => bench::engine(options),
        ["bench", "kernel", options @ ..] => bench::kernel(options),
        ["bench", "sweep", options @ ..] => bench::sweep(options),
        ["bench", "agent", options @ ..] => bench::agent(options),
        other => bail!("`{}` is no command\n\n{USAGE}", other.join(" ")),
    }
}
