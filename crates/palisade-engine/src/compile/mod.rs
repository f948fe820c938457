//! The whole cluster at once: ends that no policy tells apart are one class, pods that policy treats alike share a program.
//!
//! `compile` cannot fail and looks at no pair of pods. What others can see of an end is a *foreign* view: the conditions on pods of any namespace that
//! hold for it, the blocks that hold its address, the names of its ports. What only its own namespace sees stays symbolic, so that the same policies in a
//! thousand namespaces are one program.
//!
//! Changes go the same way as the first objects did: what a change touches is worked out anew, the rest stays. Pods of one namespace with the same
//! reduced labels share a *cell*, cells whose namespaces have the same reduced labels share a *pair*; a change finds the pairs and cells that it
//! means, and settles their pods.

mod canonical;
mod evaluate;
mod intern;
mod join;
mod node;
mod place;
mod policies;
mod ports;
mod prefixes;
mod reach;
mod relations;
mod rows;
mod rules;
mod selectors;
mod slab;
mod update;

use std::net::IpAddr;

use palisade_model::{Direction, EndpointId, Model, NodeId, PerDirection, PodName};
use rustc_hash::FxHashMap;

pub use node::{Known, Meeting, NodeProgram, OnNode};
pub use ports::{PortSetId, PortSets, Traffic};
pub use reach::{Alike, AlikeApart, LetPass, Reach, ReachEnd, Role, Seen, Treated};
pub use update::Change;

use crate::compile::intern::{Interned, Lists, number};
use crate::compile::place::Spaces;
use crate::compile::policies::{Memo, Policies};
use crate::compile::relations::Relations;
use crate::compile::rules::Parts;
use crate::compile::slab::Slab;

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
    pods: Slab<Placed>,
    pod_of: FxHashMap<(u32, u32), u32>,
    nodes: Vec<PlacedNode>,
    node_of: FxHashMap<u32, NodeId>,
    /// Its size when it was compiled.
    born: usize,
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
    name: u32,
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

/// A node in its place. One that is gone, or that only pods name, has no addresses.
#[derive(Clone, Debug)]
struct PlacedNode {
    name: u32,
    /// Its labels as they were read.
    read: u32,
    seen: Vec<At>,
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

    /// How many lists, views, programs, label sets and texts are kept, used or not.
    fn size(&self) -> usize {
        let lists = [&self.slots, &self.views, &self.ports, &self.port_views, &self.parts.lists].map(Lists::len);
        let labels = [&self.parts.namespaces, &self.parts.pods, &self.parts.nodes].map(|it| it.set_count());
        let programs = Direction::BOTH.map(|it| self.programs.of(it).values().len());
        let all = lists.into_iter().chain(labels).chain(programs);
        all.sum::<usize>() + self.foreign.values().len() + self.parts.symbols.len()
    }

    /// The number of a pod. After `compile` it is its place in the model; a pod that comes later gets one that is free.
    pub fn pod_named(&self, name: &PodName) -> Option<EndpointId> {
        let symbols = &self.parts.symbols;
        let namespace = self.spaces.find(symbols.id_of(&name.namespace)?)?;
        let id = self.pod_of.get(&(namespace, symbols.id_of(&name.name)?))?;
        Some(EndpointId(intern::index(*id)))
    }

    /// The number of a node, likewise.
    pub fn node_named(&self, name: &str) -> Option<NodeId> {
        self.node_of.get(&self.parts.symbols.id_of(name)?).copied()
    }

    fn pod(&self, id: EndpointId) -> Option<&Placed> {
        self.pods.get(number(id.0))
    }
}
