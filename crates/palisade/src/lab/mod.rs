//! `palisade lab`: a cluster of namespaces, held by a process in the background that the other commands talk to.

pub(crate) mod args;
mod history;
mod process;
mod serve;
mod server;
mod soak;
mod up;
mod watch;

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use palisade_kernel::Namespace;
use palisade_lab::control::{self, AskError, Frame, MetricsForm, Output, ProbeRequest, Request, Wanted};

use args::{ExecArgs, LabCommand, MetricsOutput, ProbeArgs};
pub(crate) use args::{LabArgs, UpArgs};
pub(crate) use server::{count, outside, try_all};
pub(crate) use up::Bar;

use crate::cli;
use crate::command_output::CommandOutput;
use crate::printer::Printer;
use palisade_report::Outcome;

/// How long a lab may take to end.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn run(args: &LabArgs, printer: Printer) -> Result<CommandOutput> {
    match &args.command {
        LabCommand::Up(args) if args.foreground => serve::run(args, printer),
        LabCommand::Up(args) => up::run(args, printer),
        LabCommand::Probe(args) => ask(&args.lab.name, &probe_request(args), printer),
        LabCommand::Exec(args) => exec(args, printer),
        LabCommand::Status(args) => ask(&args.lab.name, &Request::Status { output: output(args.output) }, printer),
        LabCommand::Denied(args) if args.by_rule => ask(&args.lab.name, &Request::Counted, printer),
        LabCommand::Denied(args) => {
            let what = if args.would { Wanted::Would } else { Wanted::Denied };
            ask(&args.lab.name, &Request::Told { what, follow: args.follow, output: output(args.output) }, printer)
        }
        LabCommand::Accepted(args) => {
            ask(&args.lab.name, &Request::Told { what: Wanted::Accepted, follow: args.follow, output: output(args.output) }, printer)
        }
        LabCommand::Metrics(args) => ask(&args.lab.name, &Request::Metrics { form: form(args.output) }, printer),
        LabCommand::Verify(args) => {
            let request = Request::Verify { node: args.node.clone(), repair: args.repair, output: output(args.output) };
            ask(&args.lab.name, &request, printer)
        }
        LabCommand::Soak(args) => soak::run(args, printer),
        LabCommand::AuditReport(args) => {
            ask(&args.lab.name, &Request::AuditReport { set: args.set.clone(), output: output(args.output) }, printer)
        }
        LabCommand::Down(args) => down(&args.lab.name, printer),
    }
}

fn output(it: cli::Output) -> Output {
    match it {
        cli::Output::Text => Output::Text,
        cli::Output::Json => Output::Json,
    }
}

fn form(it: MetricsOutput) -> MetricsForm {
    match it {
        MetricsOutput::Text => MetricsForm::Text,
        MetricsOutput::Json => MetricsForm::Json,
        MetricsOutput::Prometheus => MetricsForm::Prometheus,
    }
}

fn probe_request(args: &ProbeArgs) -> Request {
    let one = args.from.clone().zip(args.to.clone()).map(|(from, to)| ProbeRequest {
        from,
        to,
        protocol: args.protocol.clone(),
        port: args.port.clone(),
    });
    Request::Probe { one, output: output(args.output) }
}

/// Asks and prints what comes.
fn ask(lab: &str, request: &Request, printer: Printer) -> Result<CommandOutput> {
    let code = control::ask(lab, request, |frame| match frame {
        Frame::Out(text) => printer.out(&text),
        Frame::Err(text) => printer.err(&text),
        Frame::Namespace(_) | Frame::Progress(_) | Frame::Exit(_) => Ok(()),
    });
    match code {
        // A reader that has seen enough has closed the pipe; that is no failure of the lab's.
        Err(AskError::Io(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(CommandOutput::exited(Outcome::Yes)),
        code => Ok(CommandOutput::exited(Outcome::of_code(code.map_err(with_help)?))),
    }
}

fn with_help(error: AskError) -> anyhow::Error {
    match error {
        AskError::NoLab(ref name) => anyhow!("{error}; `palisade lab up{} -f DIR` starts one", named(name)),
        AskError::Closed | AskError::Io(_) => error.into(),
    }
}

/// How to name a lab to a command, unless it is the one that is meant without a name.
fn named(name: &str) -> String {
    if name == args::DEFAULT_NAME { String::new() } else { format!(" --name {name}") }
}

fn exec(args: &ExecArgs, printer: Printer) -> Result<CommandOutput> {
    let mut found: Option<PathBuf> = None;
    let request = Request::Where { of: args.place.clone() };
    let code = control::ask(&args.lab.name, &request, |frame| {
        match frame {
            Frame::Namespace(path) => found = Some(path),
            Frame::Err(text) => printer.err(&text)?,
            Frame::Out(_) | Frame::Progress(_) | Frame::Exit(_) => {}
        }
        Ok(())
    })
    .map_err(with_help)?;
    let Some(path) = found else { return Ok(CommandOutput::exited(Outcome::of_code(code))) };
    Namespace::open(&path)?.enter()?;
    let Some((program, rest)) = args.command.split_first() else { bail!("a command is missing after `--`") };
    let mark = format!("{}={}", process::MARK, args.lab.name);
    let (key, value) = mark.split_once('=').unwrap_or((process::MARK, ""));
    // Only returns if the command could not be started.
    let error = std::process::Command::new(program).args(rest).env(key, value).exec();
    Err(error).with_context(|| format!("`{}`", program.to_string_lossy()))
}

fn down(lab: &str, printer: Printer) -> Result<CommandOutput> {
    let asked = control::ask(lab, &Request::Down, |frame| match frame {
        Frame::Out(text) => printer.out(&text),
        Frame::Err(text) => printer.err(&text),
        Frame::Namespace(_) | Frame::Progress(_) | Frame::Exit(_) => Ok(()),
    });
    match asked {
        Ok(0) => {
            let deadline = Instant::now() + PATIENCE;
            while control::process(lab).is_ok() {
                if Instant::now() > deadline {
                    bail!("the process of lab `{lab}` has not ended within {} seconds", PATIENCE.as_secs());
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(CommandOutput::exited(Outcome::Yes))
        }
        Ok(code) => Ok(CommandOutput::exited(Outcome::of_code(code))),
        // Its process may have been killed, and commands in its pods live on: only they can keep a namespace.
        Err(AskError::NoLab(_)) => {
            let ended = process::end_marked(lab)?;
            let text = match ended.as_slice() {
                [] => format!("no lab `{lab}` is up, and nothing of one is left\n"),
                some => format!("no lab `{lab}` is up; ended what was left of one: {}\n", some.join(", ")),
            };
            Ok(CommandOutput::text(text))
        }
        Err(error @ (AskError::Closed | AskError::Io(_))) => Err(error.into()),
    }
}
