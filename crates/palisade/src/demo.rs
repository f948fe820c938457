//! `palisade demo`: the example cluster with real packets, a change while it runs, and what the change did. Without root: the verdicts alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use anyhow::{Result, anyhow, bail};
use palisade_agent::Event;
use palisade_analysis::{Asked, Party, PortAsked, answer};
use palisade_app::{Cluster, Texts};
use palisade_k8s::{Controller, Text};
use palisade_kernel::{KernelError, Namespace};
use palisade_lab::{Lab, NodeEvent, Options, everybody, plan};
use palisade_model::{Model, NetworkId, Protocol};
use palisade_report::{explained, lab_text, text, v1};

use crate::cli::DemoArgs;
use crate::command_output::CommandOutput;
use crate::lab::{Bar, count, outside, try_all};
use crate::printer::Printer;
use palisade_report::Outcome;

const INTRODUCTION: &str = "A shop of three tiers, a second tenant and monitoring (examples/shop)";
const NO_ROOT: &str = "this is what policy decides; as root (sudo make demo) it is shown with real packets in network namespaces\n\n";

/// The example, as it stands in examples/shop.
const EXAMPLE: &[(&str, &str)] = &[
    ("examples/shop/1-namespaces.yaml", include_str!("../../../examples/shop/1-namespaces.yaml")),
    ("examples/shop/2-workloads.yaml", include_str!("../../../examples/shop/2-workloads.yaml")),
    DEVELOPERS,
    ("examples/shop/4-admins.yaml", include_str!("../../../examples/shop/4-admins.yaml")),
];
const DEVELOPERS: (&str, &str) = ("examples/shop/3-developers.yaml", include_str!("../../../examples/shop/3-developers.yaml"));
/// What stands in place of the developers' policies after the change.
const CHANGE: (&str, &str) = ("examples/shop.change.yaml", include_str!("../../../examples/shop.change.yaml"));

/// An address that belongs to nobody in the example.
const CLIENT: &str = "203.0.113.7";

pub(crate) fn run(_: &DemoArgs, printer: Printer) -> Result<CommandOutput> {
    let input = read(EXAMPLE.iter().copied());
    match Namespace::create() {
        Ok(_) => shown(&input, printer),
        Err(KernelError::NoPermission) => {
            let table = format!("{INTRODUCTION}. Who reaches whom, and why:\n{}", decided(&input)?);
            Ok(CommandOutput { stderr: NO_ROOT.to_owned(), ..CommandOutput::text(format!("{table}{}", explanation(&input)?)) })
        }
        Err(error) => Err(error.into()),
    }
}

fn read(files: impl Iterator<Item = (&'static str, &'static str)>) -> Cluster {
    let texts = files.map(|(file, content)| Text { file: Arc::from(file), content: Arc::from(content) }).collect();
    Cluster::read(Texts { texts, ..Texts::default() }, Controller::default())
}

/// The whole of it, with packets. What takes time is said before it is done.
fn shown(input: &Cluster, printer: Printer) -> Result<CommandOutput> {
    let options = Options::default();
    printer.out(&format!("{INTRODUCTION}, as a cluster of network namespaces.\n"))?;
    let (events, heard) = channel();
    let bar = Bar::new();
    let (mut lab, notes) = Lab::up(plan(&input.snapshot.model, &options)?, events, |progress| bar.show(&progress))?;
    bar.clear();
    if let Some(note) = notes.first() {
        bail!("not everything listens: {note}");
    }
    let nodes = lab.plan().model.nodes.len();
    printer.out(&format!(
        "{nodes} nodes are up, with {} pods. Everybody to every port, with real packets:\n",
        input.snapshot.model.endpoints.len()
    ))?;
    let before = tried(&mut lab)?;
    printer.out(&format!("{}\n{}{}", lab_text::probes(&before), count(&before), explanation(input)?))?;
    printer.out(&format!("\n$ cp {} {}      while the cluster runs\n", CHANGE.0, DEVELOPERS.0))?;
    heard.try_iter().for_each(drop);
    let changed = read(EXAMPLE.iter().map(|it| if it.0 == DEVELOPERS.0 { CHANGE } else { *it }));
    let next = lab.plan().next(&changed.snapshot.model, &options)?;
    lab.apply(next, |_| {})?;
    let after = tried(&mut lab)?;
    printer.out(&lab_text::changes(&before, &after))?;
    printer.out(&format!("\nWhat the nodes say of the packets they dropped since:\n{}\n{}", denials(&heard), count(&after)))?;
    drop(lab);
    printer.out("\nThe cluster is gone. Yours:  sudo palisade lab up -f examples/shop --watch\n")?;
    let exit = match (before.differ + after.differ, before.unsent + after.unsent) {
        (0, 0) => Outcome::Yes,
        (0, _) => Outcome::CouldNotTell,
        (_, _) => Outcome::No,
    };
    Ok(CommandOutput::exited(exit))
}

fn tried(lab: &mut Lab) -> Result<v1::ProbeReport> {
    let strangers = outside(&lab.plan().model);
    let trials = everybody(lab.plan(), &strangers);
    try_all(lab, &trials, None)
}

/// The events of both nodes: one for each rule, and how many more there were. They come in any order.
fn denials(heard: &Receiver<NodeEvent>) -> String {
    let mut by_rule: BTreeMap<(Option<String>, String), BTreeSet<String>> = BTreeMap::new();
    let mut untold = String::new();
    for event in heard.try_iter() {
        match event.event {
            Event::Denied(denial) => {
                let denial = denial.report();
                by_rule.entry((denial.direction.clone(), denial.sentence.clone())).or_default().insert(text::denial(&denial));
            }
            Event::Suppressed { by, connections } => {
                untold.push_str(&format!("  {connections} more within a second, {}\n", by.sentence()));
            }
            Event::DeniedAgain(_)
            | Event::Accepted(_)
            | Event::AcceptedMore { .. }
            | Event::Would(_)
            | Event::WouldMore { .. }
            | Event::Lost(_)
            | Event::Cut(_)
            | Event::Bypassed(_)
            | Event::Restored { .. }
            | Event::Noticed(_)
            | Event::Failed(_) => {}
        }
    }
    let told = |lines: &BTreeSet<String>| {
        let first = lines.first().map(|it| it.trim_end().to_owned()).unwrap_or_default();
        let more = if lines.len() > 1 { format!("  (and {} more)", lines.len() - 1) } else { String::new() };
        format!("  {first}{more}\n")
    };
    by_rule.values().map(told).collect::<String>() + &untold
}

fn explanation(input: &Cluster) -> Result<String> {
    let explained = text::explanation(&explain(input, "shop/web", "shop/db", 5432)?, text::Detail::Decisive);
    Ok(format!("\n$ palisade explain -f examples/shop --from shop/web --to shop/db --port 5432\n{explained}"))
}

/// Every workload and an outside client, to every port that a workload declares.
pub(crate) fn decided(input: &Cluster) -> Result<String> {
    let model = &input.snapshot.model;
    let mut rows = Vec::new();
    for to in &model.endpoints {
        for port in &to.ports {
            let destination = to.name.to_string();
            for from in sources(model).filter(|from| *from != destination) {
                let explanation = explain(input, &from, &destination, port.port)?;
                rows.push(text::Row { from, to: destination.clone(), traffic: format!("{}/{}", port.protocol, port.port), explanation });
            }
        }
    }
    Ok(text::table(&rows))
}

fn sources(model: &Model) -> impl Iterator<Item = String> + '_ {
    model.endpoints.iter().map(|it| it.name.to_string()).chain([CLIENT.to_owned()])
}

fn explain(input: &Cluster, from: &str, to: &str, port: u16) -> Result<v1::Explanation> {
    let party = |text: &str| Party::parse(text).map_err(|error| anyhow!(error));
    let asked =
        Asked { network: NetworkId::DEFAULT, from: party(from)?, to: party(to)?, protocol: Protocol::TCP, port: PortAsked::Number(port) };
    let explanation = match (from, to) {
        ("shop/web", "shop/db") => palisade_analysis::explain(&input.snapshot.model, &asked),
        _ => answer(&input.snapshot.model, &asked),
    }
    .map_err(|error| anyhow!(error))?;
    let question = v1::Question { from: from.to_owned(), to: to.to_owned(), protocol: "tcp".to_owned(), port: Some(port.to_string()) };
    Ok(explained(question, &explanation, &input.snapshot.sources, &input.snapshot.diagnostics, &[]))
}
