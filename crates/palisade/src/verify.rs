//! `palisade verify`: whether the kernel of this node does what the policies say.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use palisade_agent::{Held, Lock, links_of, repair as repair_tables, verification};
use palisade_analysis::node_named;
use palisade_model::Model;
use palisade_nft::{LinkName, NodeView, PodLinks, Unknown};
use palisade_report::{text, v1, verify_text};

use crate::cli::{InputArgs, Output};
use crate::command_output::CommandOutput;
use crate::input::{self, Scope};
use crate::lab::args::WhileUnknownArg;

/// Say whether the kernel of this node does what the policies say
///
/// Reads the tables, links, filters and settings of the network namespace that it runs in, over netlink, and holds them against the policies: every chain, rule and
/// element, and everything that could lead packets past our hooks. Each difference is named, with a packet that shows it where one does. Needs root, but for
/// --dump.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  palisade verify -f manifests/ --node worker-1
  palisade verify -f manifests/ --node worker-1 --save-dump worker-1.json
  palisade verify -f manifests/ --dump worker-1.json                 later, elsewhere, without root
  palisade verify -f manifests/ --node worker-1 --repair             puts back what is wrong
  palisade verify -f manifests/ --node worker-1 --pod-link 'cni*' --pod-cidr 10.244.0.0/16
  palisade lab verify                                                every node of a lab

Exit codes: 0 as it should be, 1 differences or places where policy cannot be enforced, 2 could not find out.")]
pub(crate) struct VerifyArgs {
    /// The node, by name
    #[arg(long, value_name = "NAME", required_unless_present = "dump")]
    pub(crate) node: Option<String>,
    /// Verify what a file holds that `--save-dump` wrote, instead of this kernel
    #[arg(long, value_name = "FILE", conflicts_with_all = ["save_dump", "repair"])]
    pub(crate) dump: Option<PathBuf>,
    /// Write what the kernel holds to a file
    #[arg(long, value_name = "FILE")]
    pub(crate) save_dump: Option<PathBuf>,
    /// Put back what is wrong with our tables, step by step, so that nothing slips through meanwhile
    #[arg(long)]
    pub(crate) repair: bool,
    /// What the agent does with a pod whose policy is not in force yet: closed or open
    #[arg(long, value_name = "WHAT", default_value = "closed")]
    pub(crate) unknown: WhileUnknownArg,
    /// The name of a pod's link on the node, or with a star at its end how it begins; may be repeated. Without it, those of usual CNIs
    #[arg(long, value_name = "NAME")]
    pub(crate) pod_link: Vec<String>,
    /// Where pods have their addresses from besides `spec.podCIDRs` of nodes, as the agent was told; may be repeated
    #[arg(long, value_name = "CIDR")]
    pub(crate) pod_cidr: Vec<ipnet::IpNet>,
    /// An address on the link of a pod that the agent lets through though no pod is known to have it; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) exempt: Vec<IpAddr>,
    /// text for people, json for programs (`palisade schema verification` is its schema)
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

pub(crate) fn run(args: &VerifyArgs) -> Result<CommandOutput> {
    let mut cluster = input::cluster(&args.input, Scope::Any)?;
    cluster.complete("there is nothing that a kernel could be held against")?;
    let (held, named) = match &args.dump {
        Some(path) => read_dump(path)?,
        None => (Held::read()?, None),
    };
    if let (Some(asked), Some(named)) = (&args.node, &named)
        && asked != named
    {
        bail!("`--node {asked}`: this dump is of node `{named}`");
    }
    let Some(name) = args.node.clone().or(named) else { bail!("name the node with --node") };
    match args.unknown {
        WhileUnknownArg::Open => cluster.snapshot.model.pod_ranges = Vec::new(),
        WhileUnknownArg::Closed => cluster.snapshot.model.close_ranges(&args.pod_cidr, &args.exempt.iter().copied().collect()),
    }
    let model = &cluster.snapshot.model;
    let node = node_named(model, &name).map_err(|error| anyhow!(error))?;
    if let Some(path) = &args.save_dump {
        std::fs::write(path, held.to_text(&name)?).with_context(|| format!("`{}`", path.display()))?;
    }
    let ways = links_of(model, node, &held);
    let view = NodeView { node, links: ways.links.clone(), unknown: unknown(args) };
    let mut verified = verification(model, &view, &held)?;
    if args.repair && !verified.holds {
        verified.repaired = Some(repair(model, &view)?);
    }
    let mut stderr = text::diagnostics(&cluster.diagnostics());
    for id in &ways.believed {
        let pod = model.endpoint(*id).map(|it| it.name.to_string()).unwrap_or_default();
        stderr
            .push_str(&format!("note: no route or neighbour shows the link of pod {pod}; the one that the table binds is taken for it\n"));
    }
    Ok(CommandOutput { stdout: said(&verified, args.output)?, stderr, outcome: verified.outcome() })
}

/// What the agent was told of pods that are not known.
fn unknown(args: &VerifyArgs) -> Unknown {
    match args.unknown {
        WhileUnknownArg::Open => Unknown::Open,
        WhileUnknownArg::Closed => {
            let name = |it: &String| match it.strip_suffix('*') {
                Some(beginning) => LinkName::Beginning(beginning.to_owned()),
                None => LinkName::Whole(it.clone()),
            };
            let usual = PodLinks::default();
            let names = if args.pod_link.is_empty() { usual.names } else { args.pod_link.iter().map(name).collect() };
            Unknown::Closed(PodLinks { names, exempt: args.exempt.iter().copied().collect(), ..PodLinks::default() })
        }
    }
}

fn read_dump(path: &std::path::Path) -> Result<(Held, Option<String>)> {
    let named = || format!("`{}`", path.display());
    let text = std::fs::read_to_string(path).with_context(named)?;
    let (held, node) = Held::parse(&text).with_context(named)?;
    Ok((held, Some(node)))
}

/// The answer as it is printed.
pub(crate) fn said(verified: &v1::Verification, output: Output) -> Result<String> {
    Ok(match output {
        Output::Text => verify_text(verified),
        Output::Json => serde_json::to_string_pretty(verified)? + "\n",
    })
}

/// Brings our tables to what they should be, as an agent would, and looks again.
fn repair(model: &Model, view: &NodeView) -> Result<v1::VerifyRepair> {
    // Two who write to one table undo each other's work.
    let lock = Lock::take().map_err(|error| anyhow!("{error}; the agent there puts its tables back itself"))?;
    repair_tables(model, view)?;
    let after = verification(model, view, &Held::read()?)?;
    drop(lock);
    Ok(v1::VerifyRepair { sentence: "our tables were brought to what policy says, step by step".to_owned(), left: after.unresolved() })
}
