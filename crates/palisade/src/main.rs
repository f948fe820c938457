//! The binary: arguments to one of the other crates, and nothing else.
//!
//! A command returns what to print and how to exit; only `main` prints.

mod cli;
mod completions;
mod demo;
mod explain;
mod input;
mod names;
mod outcome;
mod schema;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let outcome = match &cli.command {
        cli::Command::Explain(args) => explain::run(args),
        cli::Command::Demo(args) => demo::run(args),
        cli::Command::Completions(args) => Ok(completions::run(args)),
        cli::Command::Schema(args) => schema::run(args),
    };
    let outcome = outcome.unwrap_or_else(|error| outcome::Outcome::cannot_tell(format!("error: {error:#}\n")));
    match print(&cli, &outcome) {
        // A reader that has seen enough has closed the pipe; that is no failure of ours.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::from(2),
        Ok(()) | Err(_) => ExitCode::from(outcome.exit.code()),
    }
}

fn print(cli: &cli::Cli, outcome: &outcome::Outcome) -> std::io::Result<()> {
    let choice = cli.color.choice();
    let mut stderr = anstream::AutoStream::new(std::io::stderr().lock(), choice);
    stderr.write_all(outcome.stderr.as_bytes())?;
    stderr.flush()?;
    let mut stdout = anstream::AutoStream::new(std::io::stdout().lock(), choice);
    stdout.write_all(outcome.stdout.as_bytes())?;
    stdout.flush()
}
