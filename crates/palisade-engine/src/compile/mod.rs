//! The whole cluster at once: ends that no policy tells apart are one class, pods that policy treats alike share a program.
//!
//! `compile` cannot fail and looks at no pair of pods. What others can see of an end is a *foreign* view: the conditions on pods of any namespace that
//! hold for it, the blocks that hold its address, the names of its ports. What only its own namespace sees stays symbolic, so that the same policies in a
//! thousand namespaces are one program.
//!
//! Changes go the same way as the first objects did: what a change touches is worked out anew, the rest stays. Pods of one namespace with the same
//! reduced labels share a *cell*, cells whose namespaces have the same reduced labels share a *pair*; a change finds the pairs and cells that it
//! means, and settles their pods.

mod by_slot;
mod canonical;
mod evaluate;
mod intern;
mod join;
pub(crate) mod node;
mod place;
mod policies;
mod ports;
pub(crate) mod prefixes;
mod reach;
mod relations;
mod rows;
mod rules;
mod selectors;
mod slab;
mod update;

use std::net::IpAddr;

use palisade_model::{Direction, EndpointId, Model, NetworkId, NodeAddresses, NodeId, PerDirection};

pub use node::{Known, Meeting, NodeProgram, OnNode};
pub use ports::{PortSetId, PortSets, Traffic};
pub use reach::{Alike, AlikeApart, LetPass, Reach, ReachEnd, Role, Seen, Treated};

use crate::compile::by_slot::BySlot;
use crate::compile::intern::{Interned, Lists, number};
use crate::compile::place::Spaces;
use crate::compile::policies::{Memo, Policies};
use crate::compile::relations::Relations;
use crate::compile::rules::Parts;

/// The policies of a cluster and all its ends, reduced to numbers.
#[derive(Clone, Debug)]
pub struct Compiled {
    parts: Parts,
    policies: Policies,
    /// Policies that are compiled by their parts.
    relations: Relations,
    /// Lists of policies.
    slots: Lists,
    memo: Memo,
    /// Conditions on pods that deviate, and selectors of nodes that hold.
    views: Lists,
    /// Named ports of pods: name, place of the port; sorted. Those that pods have, and those of them that rules ask for.
    ports: Lists,
    port_views: Lists,
    foreign: Interned<Foreign>,
    programs: PerDirection<Interned<Program>>,
    spaces: Spaces,
    /// By the slots of the model.
    pods: BySlot<Placed>,
    nodes: BySlot<PlacedNode>,
    /// Its size when it was compiled.
    born: usize,
    /// The network that it sees. Endpoints and policies of other networks do not exist for it.
    network: NetworkId,
    /// Whether nodes have addresses there.
    node_addresses: NodeAddresses,
}

/// What others see of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Foreign {
    kind: Kind,
    /// Of a pod: conditions that deviate. Of a node: selectors that hold.
    view: u32,
    /// The narrowest prefix in use that holds its address.
    prefix: u32,
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
    /// Its labels as they were read.
    read: u32,
    /// Its labels, reduced to what is asked about.
    labels: u32,
    /// Its named ports as they were read.
    ports: u32,
    node: Option<NodeId>,
    cell: u32,
    /// Its seat in the cell.
    seat: u32,
    /// What is seen of it at each of its addresses; once without one, if it has none.
    seen: Vec<At>,
    programs: PerDirection<u32>,
}

/// An end at one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct At {
    address: Option<IpAddr>,
    prefix: u32,
    foreign: u32,
}

/// A node in its place. A node that only pods name has no addresses.
#[derive(Clone, Debug)]
struct PlacedNode {
    /// Its labels as they were read.
    read: u32,
    seen: Vec<At>,
}

/// Compiles the pod network of a model. Total, and the same for the same objects in any order.
pub fn compile(model: &Model) -> Compiled {
    compile_network(model, NetworkId::DEFAULT)
}

/// Compiles one network of a model. Two networks with the same addresses are compiled apart and never meet.
pub fn compile_network(model: &Model, network: NetworkId) -> Compiled {
    let mut compiled = place::place(&model.on_network(network));
    (compiled.network, compiled.node_addresses) = (network, model.node_addresses(network));
    compiled
}

impl Compiled {
    /// The network that was compiled.
    pub fn network(&self) -> NetworkId {
        self.network
    }

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

    /// How many lists, views, programs, label sets and texts are kept, used or not.
    fn size(&self) -> usize {
        let lists = [&self.slots, &self.views, &self.ports, &self.port_views, &self.parts.lists].map(Lists::len);
        let labels = [&self.parts.namespaces, &self.parts.pods, &self.parts.nodes].map(|it| it.set_count());
        let programs = Direction::BOTH.map(|it| self.programs.of(it).values().len());
        let all = lists.into_iter().chain(labels).chain(programs);
        all.sum::<usize>() + self.foreign.values().len() + self.parts.symbols.len()
    }

    fn pod(&self, id: EndpointId) -> Option<&Placed> {
        self.pods.get(number(id.0))
    }
}
