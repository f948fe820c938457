//! Whether the kernel of a node does what the policies say.
//!
//! [`Held`] is what a kernel holds: every table of Palisade as the kernel tells it, and everything else that could lead packets past our hooks. It is read from
//! the kernel or from a file. [`verification`] compares it with a model: pure, so that a file says the same wherever it is read.
//!
//! It is complete for packets that come to our hooks. What goes past them is named as far as netlink and `/proc` tell of it.

mod environment;
mod file;
mod report;
mod wanted;
mod ways;

use std::collections::BTreeMap;

use palisade_kernel::{Environment, KernelError, Nftables, TableKeeper};
use palisade_model::Model;
use palisade_nft::{DifferenceKind, Dump, Examined, Frames, NodeView, Table, examine, verify};
use palisade_report::v1;

use crate::agent::{Agent, AgentError};
use crate::names::Names;
use crate::verify::wanted::Wanted;

pub use environment::EnvironmentKind;
pub(crate) use environment::judge;
pub use file::FileError;
pub use wanted::Untraceable;
pub use ways::{Ways, links_of};

/// What the kernel of a node holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Those of our tables that are there.
    pub tables: BTreeMap<Table, Dump>,
    pub environment: Environment,
}

impl Held {
    /// What the network namespace of the calling thread holds.
    pub fn read() -> Result<Held, KernelError> {
        let mut nftables = Nftables::open()?;
        let mut tables = BTreeMap::new();
        for table in Table::EVERY {
            tables.extend(nftables.raw(table)?.map(|it| (table, it)));
        }
        Ok(Held { tables, environment: Environment::read()? })
    }

    /// One of our tables as far as it can be read, if it is there.
    pub fn examined(&self, table: Table) -> Option<Examined> {
        self.tables.get(&table).map(examine)
    }

    /// What is written to a file, and read from it by `parse`.
    pub fn to_text(&self, node: &str) -> Result<String, FileError> {
        file::write(self, node)
    }

    /// What `to_text` wrote, and the node that it is of.
    pub fn parse(text: &str) -> Result<(Held, String), FileError> {
        file::read(text)
    }
}

/// Compares what a kernel has with what the model wants for a node.
pub fn verification(model: &Model, view: &NodeView, held: &Held) -> Result<v1::Verification, Untraceable> {
    let (node, links) = (view.node, &view.links);
    let wanted = Wanted::of(model, view, held)?;
    let names = Names::of(model, &wanted.origins);
    let (mut findings, mut compared) = (Vec::new(), BTreeMap::new());
    for table in Table::EVERY {
        let verified = verify(table, held.examined(table).as_ref(), wanted.tables.get(&table));
        // A table that is left beside the own one is a finding about the environment.
        let is_left = [Table::Next, Table::Again].contains(&table);
        let differences = verified.differences.iter().filter(|it| !is_left || it.kind != DifferenceKind::TableAdded);
        findings.extend(differences.map(|it| report::difference(it, &names)));
        compared.insert(table, verified.compared);
    }
    findings.extend(environment::judge(model, node, links, &held.environment));
    findings.sort_by_key(|it| (it.weight, report::rank(it.effect)));
    let pods = model.endpoints.iter().filter(|it| it.node == Some(node)).count();
    Ok(v1::Verification {
        api_version: v1::API_VERSION.to_owned(),
        kind: "Verification".to_owned(),
        node: model.node(node).map(|it| it.name.to_string()).unwrap_or_default(),
        holds: findings.iter().all(|it| it.weight == v1::VerifyWeight::Note),
        compared: report::compared(&compared, pods),
        findings,
        repaired: None,
    })
}

/// Why tables could not be brought to what they should be.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Untraceable(#[from] Untraceable),
}

/// Brings the tables of the calling thread's network namespace to what they should be, step by step. The caller makes sure that no agent is at work.
pub fn repair(model: &Model, view: &NodeView) -> Result<(), RepairError> {
    let wanted = Wanted::of(model, view, &Held::read()?)?;
    let keep =
        |table| -> Result<(), KernelError> { TableKeeper::new(Nftables::open()?, table).replace(wanted.tables.get(&table).cloned()) };
    // Frames that the own table cannot see must not arrive before that is there.
    let frames = Frames { links: view.links.values().cloned().collect() };
    let mut keeper = TableKeeper::new(Nftables::open()?, Table::Frames);
    keeper.replace_in_stages(|held| frames.stages(held))?;
    let mut agent = Agent::new(Nftables::open()?);
    agent.treat_unknown(view.unknown.clone());
    // This removes what stands beside the own table, too.
    agent.apply(model, view.node, view.links.clone())?;
    for table in [Table::Audit, Table::UnknownPods, Table::Replies] {
        keep(table)?;
    }
    Ok(())
}
