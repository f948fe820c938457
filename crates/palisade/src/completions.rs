//! `palisade completions`.

use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs};
use crate::command_output::CommandOutput;

pub(crate) fn run(args: &CompletionsArgs) -> CommandOutput {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "palisade", &mut script);
    CommandOutput::text(String::from_utf8_lossy(&script).into_owned())
}
