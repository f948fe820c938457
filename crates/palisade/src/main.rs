//! The binary: arguments to one of the other crates, and nothing else.
//!
//! A command returns what to print and how to exit; one that goes on for long is handed the printer.

mod allow;
mod cli;
mod command_output;
mod completions;
mod convert;
mod demo;
mod diff;
mod explain;
mod exposure;
mod input;
mod lab;
mod lint;
mod matrix;
mod names;
mod nft;
mod overrides;
mod printer;
mod schema;
mod status;
mod test;
mod verify;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use command_output::CommandOutput;
use palisade_app::AppError;

fn main() -> ExitCode {
    let cli = parse();
    let printer = printer::Printer::new(cli.color.choice());
    let output = match &cli.command {
        cli::Command::Explain(args) => explain::run(args),
        cli::Command::Test(args) => test::run(args),
        cli::Command::Matrix(args) => matrix::run(args, printer),
        cli::Command::Diff(args) => diff::run(args),
        cli::Command::Exposure(args) => exposure::run(args),
        cli::Command::Allow(args) => allow::run(args),
        cli::Command::Convert(args) => convert::run(args),
        cli::Command::Lint(args) => lint::run(args),
        cli::Command::Overrides(args) => overrides::run(args),
        cli::Command::Status(args) => status::run(args),
        cli::Command::Nft(args) => nft::run(args),
        cli::Command::Verify(args) => verify::run(args),
        cli::Command::Lab(args) => lab::run(args, printer),
        cli::Command::Demo(args) => demo::run(args, printer),
        cli::Command::Completions(args) => Ok(completions::run(args)),
        cli::Command::Schema(args) => schema::run(args),
    };
    let output = output.unwrap_or_else(|error| failed(&error));
    match printer.err(&output.stderr).and_then(|()| printer.out(&output.stdout)) {
        // A reader that has seen enough has closed the pipe; that is no failure of ours.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            // If that cannot be said either, the exit code says it.
            printer.err(&format!("error: the answer cannot be written: {error}\n")).ok();
            ExitCode::from(2)
        }
        Ok(()) | Err(_) => ExitCode::from(output.outcome.code()),
    }
}

/// An error, behind what was noticed of the input and in front of what helps.
fn failed(error: &anyhow::Error) -> CommandOutput {
    let app = error.downcast_ref::<AppError>();
    let noticed = app.map(AppError::noticed).unwrap_or_default();
    let help = app.and_then(AppError::help).map(|it| format!("help: {it}\n")).unwrap_or_default();
    CommandOutput::could_not_tell(format!("{noticed}error: {error:#}\n{help}"))
}

/// As a plugin the program is called `kubectl-palisade`, and its user says `kubectl palisade`.
fn parse() -> cli::Cli {
    let called = std::env::args_os().next().map(std::path::PathBuf::from);
    let plugin = called.as_deref().and_then(|it| it.file_stem()).is_some_and(|it| it == "kubectl-palisade");
    let command = cli::Cli::command();
    let command = if plugin { command.bin_name("kubectl palisade") } else { command };
    cli::Cli::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
}
