//! What the kernel of one node has to tell apart: the programs of the pods that run there, and the classes of all other ends, refined by what
//! these programs ask about and by nothing else.
//!
//! Nothing is decided here. A program and a class come to a *meeting*: two ends that stand for all of theirs, and the rules whose peers match.
//! A `Judge` says what becomes of it. Meetings follow the rules that pick somebody out; no program looks at every class.
//!
//! Programs and classes are known by words that say what they are, so that they are the same in every process and whatever else changes.

mod asked;
mod classes;
mod hits;
pub(crate) mod holding;
mod meetings;
mod owners;
mod selected;
pub(crate) mod sets;
mod unknown;
mod words;

use std::net::IpAddr;
use std::rc::Rc;

use palisade_model::{End, Model, NodeId, Path, PerDirection, Place, Policy};

use crate::compile::Compiled;
use crate::compile::node::asked::Asked;
use crate::compile::node::classes::Classes;
use crate::compile::node::owners::owners;
use crate::compile::node::selected::{Baseline, Selected};
use crate::decide::Selecting;

/// One node's part of policy.
#[derive(Debug)]
pub struct OnNode<'m> {
    /// What makes each class, in words.
    pub classes: Vec<String>,
    /// Every address that pods and nodes have, in order.
    pub known: Vec<Known>,
    /// All addresses of both families by range, with the place of the class that those have who are not known: the outside, and pods nobody was told of.
    /// Neighbours differ.
    pub ranges: Vec<(IpAddr, IpAddr, usize)>,
    /// What happens to the pods of the node.
    pub programs: PerDirection<Vec<NodeProgram<'m>>>,
    /// Addresses of the pods of the node with the places of their programs, in order.
    pub subjects: Vec<(IpAddr, PerDirection<usize>)>,
}

/// An address of a pod or node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The address.
    pub address: IpAddr,
    /// Who has it.
    pub place: Place,
    /// The place of its class.
    pub class: usize,
}

/// What happens to some pods of the node in one direction.
#[derive(Debug)]
pub struct NodeProgram<'m> {
    /// What makes it, in words: the policies and what they say.
    pub words: String,
    /// When a Service leads a pod back to itself.
    pub itself: Meeting<'m>,
    /// All others.
    pub meetings: Vec<Meeting<'m>>,
    /// The meeting of every class that is not listed.
    pub rest: usize,
    /// Places of classes and of their meetings.
    pub classes: Vec<(usize, usize)>,
    /// Of each meeting the place of the one of the range of addresses around its own, if there is such a range. Never in a circle.
    pub wider: Vec<Option<usize>>,
}

/// A pod of the node and another end that stand for all that fare like them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meeting<'m> {
    /// The pod.
    pub subject: End,
    /// The other end.
    pub peer: End,
    /// How they meet.
    pub path: Path,
    /// The policies that select the pod and have rules whose peers match, with those.
    pub among: Vec<Selecting<'m>>,
    /// The NetworkPolicies that isolate the pod, whether or not they have one. All meetings of a program share them.
    pub isolating: Rc<[&'m Policy]>,
}

impl Compiled {
    /// What a node has to tell apart. `model` is what was compiled: one network alone, see `Model::on_network`.
    pub fn on_node<'m>(&'m self, model: &'m Model, node: NodeId) -> OnNode<'m> {
        self.told_apart(model, node, Baseline::WhereAsked)
    }

    /// The same for who decides among some of the policies only: whatever these are, no class and no meeting is too coarse.
    pub fn on_node_for_any<'m>(&'m self, model: &'m Model, node: NodeId) -> OnNode<'m> {
        self.told_apart(model, node, Baseline::Always)
    }

    fn told_apart<'m>(&'m self, model: &'m Model, node: NodeId, baseline: Baseline) -> OnNode<'m> {
        let owners = owners(model, self);
        let selected = Selected::of(model, self, node, &owners, baseline);
        let mut asked = Asked::by(&selected);
        let classes = Classes::of(model, self, &mut asked, node, &owners);
        meetings::meet(model, &asked, classes, &selected)
    }
}
