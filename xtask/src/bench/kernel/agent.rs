//! What a real agent takes for a large cluster: memory, the first load, and one pod more, from the model to the kernel. The ratio is to working out
//! the ruleset, which is most of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use palisade_agent::{Applied, Attention, Event, Running};
use palisade_engine::compile;
use palisade_kernel::{Links, Namespace};
use palisade_model::{EndpointId, Model};
use palisade_nft::{Ids, NodeView, PodLinks, Unknown, lower};

use super::cluster::{LOCAL, NODE, PolicyTypes, Size, Stack, is_called};
use super::ground::{LINK, TO_SERVER};
use super::targets::line;
use crate::bench::{Judged, Line, Spread, Table, optimized, resident};

const SIZE: Size = Size { policies: 10_000, remote: 100_000, groups: 160, types: PolicyTypes::Ingress, stack: Stack::V4 };
const SMALL: Size = Size { policies: 100, remote: 2_000, groups: 50, types: PolicyTypes::Ingress, stack: Stack::V4 };
/// How often a pod comes and goes.
const PODS: usize = 9;
/// After this long an agent is done with a change.
const REST: Duration = Duration::from_millis(300);
/// What the process may take.
const MEGABYTES: u64 = 100;

pub(crate) fn agent(arguments: &[&str]) -> Result<()> {
    let size = match arguments {
        [] => SIZE,
        ["--quick"] => SMALL,
        other => bail!("`{}` is no option of `bench agent`", other.join(" ")),
    };
    if cfg!(debug_assertions) {
        return optimized("agent", arguments);
    }
    let before = resident("VmRSS:")?;
    let mut model = Arc::new(size.model());
    let read = resident("VmRSS:")?;
    let node = Namespace::create().context("cannot make a network namespace (this needs root)")?;
    // A chain at ingress wants its link.
    node.run(|| Links::open()?.add_veth(TO_SERVER, LINK, &node))??;
    let report = |event| {
        if let Event::Failed(error) = event {
            eprintln!("{error}");
        }
    };
    let agent = Running::start(&node, Attention::Connections, report)?;
    let apply = |model: &Arc<Model>| -> Result<(Applied, f64)> {
        let start = Instant::now();
        Ok((agent.apply(model, NODE, links(model))?, start.elapsed().as_secs_f64()))
    };
    let first = apply(&model)?.1;
    let (now, loaded) = (resident("VmRSS:")?, resident("VmHWM:")?);
    let (mut lowered, mut remote, mut local, mut remote_next, mut local_next) = (vec![], vec![], vec![], vec![], vec![]);
    for _ in 0..PODS {
        let (elsewhere, here) = (size.remote_pod(size.remote), size.local_pod(LOCAL));
        let alone = [(&mut remote, elsewhere.clone(), REST), (&mut local, here.clone(), REST)];
        let next = [(&mut remote_next, elsewhere, Duration::ZERO), (&mut local_next, here, Duration::ZERO)];
        for (times, pod, rest) in alone.into_iter().chain(next) {
            std::thread::sleep(rest);
            Arc::make_mut(&mut model).endpoints.push(pod);
            let (applied, took) = apply(&model)?;
            ensure!(matches!(applied, Applied::Changed(_)), "{applied:?}");
            times.push(took);
            Arc::make_mut(&mut model).endpoints.pop();
            apply(&model)?;
        }
    }
    // Before anything that only this bench does.
    let most = resident("VmHWM:")?;
    for _ in 0..PODS {
        let start = Instant::now();
        let view = NodeView { node: NODE, links: links(&model), unknown: Unknown::Closed(PodLinks::default()) };
        drop(lower(&model, &compile(&model), &view, &mut Ids::default()));
        lowered.push(start.elapsed().as_secs_f64());
    }
    let baseline = Spread::of(&lowered)?;
    let of = |spread: Spread| Some(spread.median / baseline.median);
    let (first, remote, local) = (Spread::of(&[first])?, Spread::of(&remote)?, Spread::of(&local)?);
    let (remote_next, local_next) = (Spread::of(&remote_next)?, Spread::of(&local_next)?);
    let lines: [Line<'_>; 6] = [
        ("working out the ruleset", baseline, of(baseline)),
        ("the first load, until it is in force", first, of(first)),
        ("a pod elsewhere, until it is in force", remote, of(remote)),
        ("a pod of the node, until it is in force", local, of(local)),
        ("a pod elsewhere, right after another change", remote_next, of(remote_next)),
        ("a pod of the node, right after another change", local_next, of(local_next)),
    ];
    let title = format!("an agent with {} policies and {} addresses, elapsed", size.policies, size.remote + LOCAL);
    print!("{}", Table { title: &title, unit: "ms", scale: 1e3, digits: 1 }.text(&lines));
    println!("\nmemory of the process: {before} MiB at the start, {read} with the model, {now} with what is in force");
    for (when, mebibytes) in [("the process, until all is loaded", loaded), ("the same with pods that come and go", most)] {
        let judged = if mebibytes << 20 <= MEGABYTES * 1_000_000 { Judged::Met } else { Judged::Missed };
        line(when, &format!("at most {MEGABYTES} MB"), &format!("{mebibytes} MiB"), judged);
    }
    Ok(())
}

/// Those of the called pods, which share one.
fn links(model: &Model) -> BTreeMap<EndpointId, String> {
    let local = model.endpoints.iter().enumerate().filter(|(_, it)| it.node == Some(NODE));
    let called = local.filter(|(_, it)| it.addresses.first().is_some_and(|it| is_called(*it)));
    called.map(|(at, _)| (EndpointId(at), TO_SERVER.to_owned())).collect()
}
