//! Whether the kernel of a node does what the policies say.
//!
//! [`Held`] is what a kernel holds: the table as it tells it, the table of frames, and everything else that could lead packets past our hooks. It is read from
//! the kernel or from a file. [`verification`] holds it against a model: pure, so that a file says the same wherever it is read.
//!
//! It is complete for packets that come to our hooks. What goes past them is named as far as netlink and `/proc` tell of it.

mod environment;
mod file;
mod report;
mod watching;
mod ways;

use std::collections::BTreeSet;

use palisade_engine::compile;
use palisade_kernel::{Environment, Frames, FramesDump, KernelError, Nftables};
use palisade_model::Model;
use palisade_nft::{Dump, Examined, Ids, NodeView, examine, lower, verify};
use palisade_report::v1;

use crate::names::Names;

pub use environment::EnvironmentKind;
pub use file::FileError;
pub(crate) use watching::{Seen, Watching};
pub use ways::{Ways, links_of};

/// What the kernel of a node holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The table `inet palisade`, if it is there.
    pub table: Option<Dump>,
    /// The table `netdev palisade`.
    pub frames: FramesDump,
    pub environment: Environment,
}

impl Held {
    /// What the network namespace of the calling thread holds.
    pub fn read() -> Result<Held, KernelError> {
        Ok(Held { table: Nftables::open()?.raw()?, frames: Frames::open()?.raw()?, environment: Environment::read()? })
    }

    /// The table as far as it can be read.
    pub fn examined(&self) -> Option<Examined> {
        self.table.as_ref().map(examine)
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

/// Holds what a kernel has against what the model wants for a node.
pub fn verification(model: &Model, view: &NodeView, held: &Held) -> Result<v1::Verification, KernelError> {
    let (node, links) = (view.node, &view.links);
    let wanted = lower(model, &compile(model), view, &mut Ids::default());
    let examined = held.examined();
    let verified = verify(examined.as_ref(), &wanted);
    let names = Names::of(model, &wanted.origins);
    let mut findings: Vec<v1::VerifyFinding> = verified.differences.iter().map(|it| report::difference(it, &names)).collect();
    let devices: BTreeSet<String> = links.values().cloned().collect();
    if !held.frames.is_for(&devices)? {
        findings.push(environment::frames(&held.frames));
    }
    findings.extend(environment::judge(model, node, links, &held.environment));
    findings.sort_by_key(|it| (it.weight, report::rank(it.effect)));
    let pods = model.endpoints.iter().filter(|it| it.node == Some(node)).count();
    Ok(v1::Verification {
        api_version: v1::API_VERSION.to_owned(),
        kind: "Verification".to_owned(),
        node: model.node(node).map(|it| it.name.to_string()).unwrap_or_default(),
        holds: findings.iter().all(|it| it.weight == v1::VerifyWeight::Note),
        compared: report::compared(&verified.compared, pods),
        findings,
        repaired: None,
    })
}
