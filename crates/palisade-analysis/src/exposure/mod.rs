//! To whom each workload is exposed: the whole cluster, namespaces that do not exist yet, the outside; and what protects it.
//!
//! Only the workload's own side is judged: ingress of a workload that is reached, egress of one that reaches. What the policies of the other end forbid is
//! the other end's affair, and may be gone tomorrow; `matrix` says what both sides let through. Answers are worked out for kinds of pods that policy treats
//! alike, against kinds that it sees alike, and never for pairs of pods. Newcomers, pods that do not exist, are put on a stage with all others and asked
//! about like them.

mod choice;
mod hostile;
mod newcomers;
mod sides;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use palisade_engine::{PortSetId, PortSets, compile, without_relations};
use palisade_model::{Direction, Model, PerDirection, Tier};

pub use choice::NAME_LABEL;
pub use newcomers::{Newcomer, Together, Wish};

use crate::matrix::{By, Selection, outside, units};

/// What was found out about the workloads of a cluster.
#[derive(Debug)]
pub struct Exposures {
    /// By name.
    pub workloads: Vec<Workload>,
    /// Name and namespace of every workload, in focus or not.
    pub everyone: Vec<(String, Box<str>)>,
    /// The sets of traffic that answers speak of.
    pub sets: PortSets,
    /// What new pods were taken to be.
    pub assumed: Assumed,
}

/// What is assumed of pods that do not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assumed {
    /// Their addresses, of those that most pods have as policy sees it. None if no pod has one.
    pub addresses: Vec<IpAddr>,
    /// Whether policy tells pods that exist apart by their addresses.
    pub told_apart: bool,
    /// Whether some rule speaks of blocks of addresses.
    pub blocks: bool,
    /// Whether an egress rule asks for a named port; new pods name none.
    pub named_ports: bool,
    /// Whether rules were also taken together.
    pub together: Together,
}

/// The pods of one outermost owner, or a pod that has none.
#[derive(Debug)]
pub struct Workload {
    /// `shop/web[Deployment]`.
    pub name: String,
    /// Its namespace.
    pub namespace: Box<str>,
    /// How many pods were read.
    pub pods: usize,
    /// Who may reach it, and whom it may reach.
    pub sides: PerDirection<Arc<Side>>,
}

/// The exposure of a workload in one direction. Where its pods fare differently, what some of them let pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Side {
    /// The tiers that speak about some of its pods.
    pub tiers: BTreeSet<Tier>,
    /// Whether policy speaks about it.
    pub protection: Protection,
    /// With every pod of every other namespace that exists. None if there is none.
    pub cluster: Option<Open>,
    /// With every pod of a namespace that does not exist yet, whatever their labels.
    pub any_new: Open,
    /// With a pod without labels of a new namespace that has none but its name.
    pub unlabelled: Open,
    /// With pods of new namespaces that are labelled so, beyond what those without labels may.
    pub labelled: Vec<Labelled>,
    /// With addresses outside of the cluster.
    pub outside: Vec<Range>,
    /// What may pass to the outside if a domain name in a policy resolves so, and not otherwise.
    pub depends_on_dns: PortSetId,
}

/// Whether any policy of any tier speaks about a workload in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protection {
    /// About none of its pods.
    Nothing,
    /// About some of its pods only.
    SomePods,
    /// About all of them.
    Policy,
}

/// Traffic that passes, and who lets it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Open {
    /// None of it if nothing passes.
    pub traffic: PortSetId,
    /// Who lets it pass; of the whole cluster one pod stands for all.
    pub by: BTreeSet<LetBy>,
}

/// Who lets traffic pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LetBy {
    /// A rule of this tier.
    Tier(Tier),
    /// Nobody decided, and what nobody decides passes.
    Default,
}

/// Newcomers that are let in for their labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labelled {
    /// Who they are.
    pub newcomer: Arc<Newcomer>,
    /// All that passes.
    pub open: Open,
}

/// Addresses, both included.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Range {
    /// The lowest.
    pub first: IpAddr,
    /// The highest.
    pub last: IpAddr,
    /// What passes.
    pub open: Open,
}

impl Open {
    /// Whether nothing passes.
    pub fn is_closed(&self) -> bool {
        self.traffic == PortSetId::NONE
    }
}

impl Side {
    /// Whether it is open to addresses outside, or may be if a domain name resolves.
    pub fn is_open_outside(&self) -> bool {
        !self.outside.is_empty() || self.depends_on_dns != PortSetId::NONE
    }

    /// Whether it is open to the whole cluster, to pods of a new namespace that nobody labelled, or to the outside.
    pub fn is_open(&self) -> bool {
        let inside = [self.cluster.as_ref(), Some(&self.any_new), Some(&self.unlabelled)];
        inside.into_iter().flatten().any(|it| !it.is_closed()) || self.is_open_outside()
    }
}

/// The exposure of every workload, or of those that have one of the pods in focus.
pub fn expose(model: &Model, focus: Option<&Selection>) -> Exposures {
    // Whom a workload means by a relation is known, since it is there already: newcomers only meet it.
    let model = &Model { policies: without_relations(model), ..model.clone() };
    let (addresses, told_apart) = newcomers::addresses(model);
    let mut stage = model.clone();
    let choice = choice::Choice::new(model);
    let hostile = hostile::hostile(model, &choice, &addresses);
    let newcomers = newcomers::join(&mut stage, &choice, &addresses);
    let compiled = compile(&stage);
    let mut reach = compiled.reach();
    let units = units::units(model, &reach, By::Workload);
    let ranges = outside::outside(model, &reach);
    let mut asking = sides::Asking::new(&mut reach, &units, newcomers.all, &hostile, &ranges);
    let mut workloads = Vec::new();
    for unit in units.units.iter().filter(|unit| focus.is_none_or(|it| it.has_unit(unit))) {
        let sides = PerDirection { egress: asking.side(unit, Direction::Egress), ingress: asking.side(unit, Direction::Ingress) };
        workloads.push(Workload { name: unit.name.clone(), namespace: unit.namespace.clone(), pods: unit.pods.len(), sides });
    }
    let assumed = Assumed {
        addresses,
        told_apart,
        blocks: model.ip_blocks().next().is_some(),
        named_ports: newcomers::names_a_port(model, Direction::Egress),
        together: newcomers.together,
    };
    let everyone = units.units.iter().map(|it| (it.name.clone(), it.namespace.clone())).collect();
    Exposures { workloads, everyone, sets: reach.sets().clone(), assumed }
}
