//! `palisade lab up`: starts the process that holds the lab, shows how far it is, and leaves.

use std::io::BufReader;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use palisade_lab::Progress;
use palisade_lab::control::{Frame, read_line};
use palisade_report::Outcome;

use crate::command_output::CommandOutput;
use crate::lab::UpArgs;
use crate::printer::Printer;

pub(crate) fn run(_: &UpArgs, printer: Printer) -> Result<CommandOutput> {
    let program = std::env::current_exe().context("the program itself cannot be found")?;
    // What was said to this process, word for word: it is the other one that reads the files.
    let mut child = Command::new(&program)
        .args(std::env::args_os().skip(1))
        .args(["--foreground", "--frames"])
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("`{}` cannot be started", program.display()))?;
    let Some(stdout) = child.stdout.take() else { bail!("the process of the lab says nothing") };
    let mut lines = BufReader::new(stdout);
    let bar = Bar::new();
    while let Some(frame) = read_line(&mut lines, u64::MAX)? {
        match frame {
            Frame::Progress(progress) => bar.show(&progress),
            Frame::Out(text) => bar.suspend(|| printer.out(&text))?,
            Frame::Err(text) => bar.suspend(|| printer.err(&text))?,
            Frame::Exit(code) => {
                bar.clear();
                return Ok(CommandOutput::exited(Outcome::of_code(code)));
            }
            Frame::Namespace(_) => {}
        }
    }
    bar.clear();
    bail!("the process of the lab ended before it was up ({})", child.wait()?)
}

/// How far a lab is, on a terminal only.
#[derive(Debug)]
pub(crate) struct Bar(ProgressBar);

impl Bar {
    pub(crate) fn new() -> Bar {
        let bar = ProgressBar::no_length();
        let style = ProgressStyle::with_template("  {bar:30} {pos:>3}/{len:<3} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━━─"));
        Bar(bar)
    }

    pub(crate) fn show(&self, progress: &Progress) {
        self.0.set_length(u64::try_from(progress.total).unwrap_or(u64::MAX));
        self.0.set_position(u64::try_from(progress.done).unwrap_or(u64::MAX));
        self.0.set_message(progress.doing.clone());
    }

    fn suspend<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.suspend(work)
    }

    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}
