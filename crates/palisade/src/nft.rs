//! `palisade nft`: the ruleset of a node, without a kernel.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};
use palisade_analysis::PortAsked;
use palisade_engine::compile;
use palisade_model::{Model, NodeId, Protocol};
use palisade_nft::{At, CtState, Ids, NodeView, Packet, Ruleset, Unknown, lower, render, trace};

use crate::cli::{NftArgs, NftCommand, NftHook, NftRenderArgs, NftTraceArgs};
use crate::explain::port_option;
use crate::input::{self, Input};
use crate::outcome::{Exit, Outcome};

pub(crate) fn run(args: &NftArgs) -> Result<Outcome> {
    match &args.command {
        NftCommand::Render(args) => {
            let input = input::read(&args.input)?;
            let text = render(&ruleset(&input, &args.node)?);
            Ok(said(&input, text, Exit::Yes))
        }
        NftCommand::Trace(args) => traced(args),
    }
}

/// Nothing is lowered from objects that were refused: the ruleset would be wider than what was meant.
fn ruleset(input: &Input, node: &str) -> Result<Ruleset> {
    if input.refused() {
        bail!("{}objects were refused, so there is no ruleset that can be trusted", input.noticed());
    }
    let model = &input.snapshot.model;
    let node = node_of(model, node)?;
    // Objects do not say which link leads to a pod, so no source is bound and nobody is closed out.
    let view = NodeView { node, links: BTreeMap::new(), unknown: Unknown::Open };
    Ok(lower(model, &compile(model), &view, &mut Ids::default()))
}

/// The node of that name.
pub(crate) fn node_of(model: &Model, node: &str) -> Result<NodeId> {
    let at = model.nodes.iter().position(|it| *it.name == *node);
    at.map(NodeId).ok_or_else(|| anyhow!("{}", no_such_node(model, node)))
}

fn no_such_node(model: &Model, node: &str) -> String {
    let known: Vec<&str> = model.nodes.iter().map(|it| it.name.as_ref()).collect();
    match known.is_empty() {
        true => format!("no node `{node}`: nothing that was read names a node (Node objects, or spec.nodeName of pods)"),
        false => format!("no node `{node}`; there are {}", known.join(", ")),
    }
}

fn traced(args: &NftTraceArgs) -> Result<Outcome> {
    let packet = packet(args)?;
    let NftRenderArgs { input, node } = &args.of;
    let input = input::read(input)?;
    let ruleset = ruleset(&input, node)?;
    let traced = trace(&ruleset, &packet).map_err(|error| anyhow!(error))?;
    let (word, exit) = if traced.accepted { ("accepted", Exit::Yes) } else { ("dropped", Exit::No) };
    let by = if traced.comments.is_empty() { "no local pod is concerned".to_owned() } else { traced.comments.join(", then ") };
    Ok(said(&input, format!("{word} on {node}: {by}\n"), exit))
}

/// The packet that is asked about, if there can be one.
fn packet(args: &NftTraceArgs) -> Result<Packet> {
    let Some(protocol) = Protocol::parse(&args.protocol) else { bail!("`--protocol {}`: tcp, udp, sctp or icmp", args.protocol) };
    let number = match protocol {
        Protocol::Port(palisade_model::PortProtocol::Tcp) => 6,
        Protocol::Port(palisade_model::PortProtocol::Udp) => 17,
        Protocol::Port(palisade_model::PortProtocol::Sctp) => 132,
        Protocol::Icmp if args.from.is_ipv4() => 1,
        Protocol::Icmp => 58,
        Protocol::Other(number) => number,
    };
    let at = match args.hook {
        NftHook::Forward => At::Forward,
        NftHook::Input => At::Input,
    };
    if args.from.is_ipv4() != args.to.is_ipv4() {
        bail!("`--from {}` and `--to {}` are of two families, and a packet is of one", args.from, args.to);
    }
    let port = match port_option(protocol, args.port.map(|it| it.to_string()).as_deref())? {
        PortAsked::Number(port) => Some(port),
        PortAsked::None => None,
        PortAsked::Name(name) => bail!("`--port {name}`: ports are 1 to 65535"),
    };
    Ok(Packet {
        at,
        source: args.from,
        destination: args.to,
        protocol: number,
        port,
        state: CtState::New,
        priority: 0,
        source_is_local: false,
        from_link: None,
        to_link: None,
    })
}

fn said(input: &Input, stdout: String, exit: Exit) -> Outcome {
    Outcome { stdout, stderr: input.noticed(), exit }
}
