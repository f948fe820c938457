//! `palisade completions`.

use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs};
use crate::outcome::Outcome;

pub(crate) fn run(args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "palisade", &mut script);
    Outcome::said(String::from_utf8_lossy(&script).into_owned())
}
