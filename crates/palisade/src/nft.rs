//! `palisade nft`: the ruleset of a node, without a kernel.

use anyhow::Result;
use palisade_app::nft::{TraceOptions, tables, trace};
use palisade_nft::{At, render_table};
use palisade_report::Outcome;

use crate::cli::{NftArgs, NftCommand, NftHook, NftTraceArgs};
use crate::command_output::CommandOutput;
use crate::input::{self, Scope};

pub(crate) fn run(args: &NftArgs) -> Result<CommandOutput> {
    match &args.command {
        NftCommand::Render(args) => {
            let cluster = input::cluster(&args.input, Scope::Any)?;
            let text: String = tables(&cluster, &args.node)?.iter().map(|(table, ruleset)| render_table(*table, ruleset)).collect();
            Ok(CommandOutput::report(text, &cluster.diagnostics(), &[], Outcome::Yes))
        }
        NftCommand::Trace(args) => traced(args),
    }
}

fn traced(args: &NftTraceArgs) -> Result<CommandOutput> {
    let options = TraceOptions {
        node: args.of.node.clone(),
        from: args.from,
        to: args.to,
        port: args.port,
        protocol: args.protocol.clone(),
        at: match args.hook {
            NftHook::Forward => At::Forward,
            NftHook::Input => At::Input,
        },
    };
    let cluster = input::cluster(&args.of.input, Scope::Any)?;
    let found = trace(&cluster, &options)?;
    let word = if found.traced.accepted { "accepted" } else { "dropped" };
    let comments = &found.traced.comments;
    let by = if comments.is_empty() { "no local pod is concerned".to_owned() } else { comments.join(", then ") };
    Ok(CommandOutput::report(format!("{word} on {}: {by}\n", options.node), &cluster.diagnostics(), &[], found.outcome))
}
