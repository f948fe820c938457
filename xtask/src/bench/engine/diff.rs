//! One change to a cluster, and what it costs to say what it does.

use anyhow::{Context as _, Result};
use palisade_analysis::diff::{Filter, Version};
use palisade_engine::{Reach, compile};
use palisade_model::{Action, Direction, Model, PeerSet, Tier};

use crate::bench::clock::timed;

/// What is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// The first rule of one NetworkPolicy accepts everybody.
    NetworkPolicy,
    /// A rule of one cluster policy about all pods denies.
    ClusterPolicy,
}

/// Seconds of CPU to tell what differs, and in how many lines it is told.
pub(super) fn measure(model: &Model, reach: &mut Reach<'_>, changed: Changed) -> Result<(f64, usize)> {
    let new = with(model, changed)?;
    let compiled = compile(&new);
    let mut new_reach = compiled.reach();
    let (diff, took) = timed(|| {
        let mut old = Version { model, reach };
        Ok(Version { model: &new, reach: &mut new_reach }.changes_since(&mut old, &Filter::default()))
    })?;
    Ok((took.cpu.as_secs_f64(), diff.changes.len()))
}

fn with(model: &Model, changed: Changed) -> Result<Model> {
    let mut model = model.clone();
    let tier = match changed {
        Changed::NetworkPolicy => Tier::NetworkPolicy,
        Changed::ClusterPolicy => Tier::Admin,
    };
    let policy = model.policies.iter_mut().find(|it| it.tier == tier).context("no such policy in this cluster")?;
    let rule = policy.rules.of_mut(Direction::Ingress).first_mut().context("a policy without rules")?;
    match changed {
        Changed::NetworkPolicy => rule.peers = PeerSet::Any,
        Changed::ClusterPolicy => rule.action = Action::Deny,
    }
    Ok(model)
}
