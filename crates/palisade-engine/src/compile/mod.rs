//! The whole cluster at once: ends that no policy tells apart are one class, pods that policy treats alike share a program.
//!
//! `compile` cannot fail and looks at no pair of pods. What others can see of an end is a *foreign* view: the conditions on pods of any namespace that
//! hold for it, the blocks that hold its address, the names of its ports. What only its own namespace sees stays symbolic, so that the same policies in a
//! thousand namespaces are one program.

mod evaluate;
mod intern;
mod join;
mod node;
mod place;
mod ports;
mod reach;
mod regions;
mod rows;
mod rules;
mod selectors;

use std::net::IpAddr;

use palisade_model::{Direction, EndpointId, Model, NodeId, PerDirection};

pub use node::{Known, Meeting, NodeProgram, OnNode};
pub use ports::{PortSetId, PortSets, Traffic};
pub use reach::{Alike, AlikeApart, Reach, ReachEnd};

use crate::compile::intern::{Interned, Lists};
use crate::compile::regions::Regions;
use crate::compile::rules::Parts;

/// The policies of a cluster and all its ends, reduced to numbers.
#[derive(Clone, Debug)]
pub struct Compiled {
    parts: Parts,
    regions: Regions,
    /// Conditions on pods that deviate, and selectors of nodes that hold.
    views: Lists,
    /// Named ports of pods: name, place of the port; sorted.
    port_views: Lists,
    foreign: Interned<Foreign>,
    programs: PerDirection<Interned<Program>>,
    pods: Vec<Placed>,
    nodes: Vec<Vec<(IpAddr, u32)>>,
    /// Address ranges that nobody of the cluster is known by, with what is seen of them.
    outside: Vec<(IpAddr, IpAddr, u32)>,
    /// The list of no blocks at all.
    no_blocks: u32,
}

/// What others see of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Foreign {
    kind: Kind,
    /// Of a pod: conditions that deviate. Of a node: selectors that hold.
    view: u32,
    /// The blocks that hold its address.
    blocks: u32,
    /// Its named ports.
    ports: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    Pod,
    Node,
    Outside,
}

/// What happens to the traffic of a pod in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Program {
    /// Rules in order.
    admin: u32,
    /// Rules in any order; None for a pod that is not isolated.
    network: Option<u32>,
    /// Rules in order.
    baseline: u32,
    /// The pod's own named ports, where a rule of it asks for one.
    ports: u32,
}

/// A pod in its place.
#[derive(Clone, Debug)]
struct Placed {
    namespace: u32,
    /// Its labels, reduced to what is asked about.
    labels: u32,
    node: Option<NodeId>,
    /// What is seen of it at each of its addresses; once without one, if it has none.
    seen: Vec<(Option<IpAddr>, u32)>,
    programs: PerDirection<u32>,
}

/// Compiles a model. Total, and the same for the same objects in any order.
pub fn compile(model: &Model) -> Compiled {
    place::place(model)
}

impl Compiled {
    /// How many pods were compiled.
    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// How many programs a direction has.
    pub fn program_count(&self, direction: Direction) -> usize {
        self.programs.of(direction).values().len()
    }

    /// How many different views there are of ends.
    pub fn view_count(&self) -> usize {
        self.foreign.values().len()
    }

    fn pod(&self, id: EndpointId) -> Option<&Placed> {
        self.pods.get(id.0)
    }
}
