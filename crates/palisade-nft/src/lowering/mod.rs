//! Rulesets of one node, from one model to the next.
//!
//! The addresses of the cluster are in cells that the policies of the node do not tell apart (`palisade_engine::NodeCells`). A change that moves
//! addresses between cells changes elements of the class maps. A change of the cells, of the node's own pods or of the policies that apply to them is
//! lowered from a small model with the node's pods and one end of each cell. No change costs more because other nodes have more pods.
//!
//! INVARIANT: the result equals `lower` of the whole model.

mod applying;
mod auditing;
mod classes;

use std::collections::BTreeMap;
use std::sync::Arc;

use palisade_engine::compile;
use palisade_model::{Changes, EndpointId, Model, NetworkId, NodeAddresses};

use crate::ids::Ids;
use crate::layout::Layout;
use crate::lower::{NodeView, lower};
use crate::lowering::applying::Sort;
use crate::lowering::classes::{Classes, Needs};
use crate::ruleset::Ruleset;
use crate::unknown::Unknown;

pub use crate::lowering::auditing::Auditing;

/// Makes the rulesets of one node, one after the other.
#[derive(Debug, Default)]
pub struct Lowering {
    layout: Layout,
    ids: Ids,
    last: Option<Last>,
}

/// How a ruleset came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worked {
    /// Classes, programs and leaves were lowered.
    Anew,
    /// Elements of the last ruleset were changed.
    ByElements,
    /// It is the last ruleset.
    NothingToDo,
}

/// The last ruleset, and what it was made from.
#[derive(Debug)]
struct Last {
    ruleset: Arc<Ruleset>,
    classes: Classes,
    links: BTreeMap<EndpointId, String>,
    unknown: Unknown,
}

impl Lowering {
    /// One that marks rulesets with a layout.
    pub fn new(layout: Layout) -> Lowering {
        Lowering { layout, ..Lowering::default() }
    }

    /// The ruleset of a node after changes of the model that the last ruleset was made from. `model` is the model after these changes.
    pub fn update(&mut self, model: &Model, changes: &Changes, view: &NodeView) -> (Arc<Ruleset>, Worked) {
        let changes = &*changes.on_network(NetworkId::DEFAULT, NodeAddresses::Present);
        let model = &*model.on_network(NetworkId::DEFAULT);
        let Some(mut last) = self.last.take().filter(|it| it.classes.node() == view.node) else { return self.lower(model, view) };
        let needs = last.classes.update(model, changes);
        let worked = if needs == Needs::All || last.links != view.links || last.unknown != view.unknown {
            let ruleset = self.build(model, view, &mut last.classes, Some(&last.ruleset));
            last = Last { ruleset: Arc::new(ruleset), classes: last.classes, links: view.links.clone(), unknown: view.unknown.clone() };
            Worked::Anew
        } else if last.classes.has_moved() {
            last.classes.move_elements(Arc::make_mut(&mut last.ruleset));
            Worked::ByElements
        } else {
            Worked::NothingToDo
        };
        let ruleset = Arc::clone(&last.ruleset);
        self.last = Some(last);
        (ruleset, worked)
    }

    /// The ruleset of a node, without regard to the last one but for its numbers. Only the pod network is enforced there.
    pub fn lower(&mut self, model: &Model, view: &NodeView) -> (Arc<Ruleset>, Worked) {
        let model = &*model.on_network(NetworkId::DEFAULT);
        let mut classes = Classes::of(model, view.node, Sort::Enforced);
        let ruleset = Arc::new(self.build(model, view, &mut classes, None));
        let last = Last { ruleset: Arc::clone(&ruleset), classes, links: view.links.clone(), unknown: view.unknown.clone() };
        self.last = Some(last);
        (ruleset, Worked::Anew)
    }

    fn build(&mut self, model: &Model, view: &NodeView, classes: &mut Classes, last: Option<&Ruleset>) -> Ruleset {
        let reduced = classes.reduced(model, view.links.keys().copied());
        let links = view.links.iter().filter_map(|(id, link)| Some((*reduced.pods.get(id)?, link.clone())));
        let view = NodeView { node: view.node, links: links.collect(), unknown: view.unknown.clone() };
        let lowered = lower(&reduced.model, &compile(&reduced.model), &view, &mut self.ids);
        let mut ruleset = Ruleset { layout: self.layout, ..lowered };
        classes.complete(&mut ruleset, &reduced.samples, last);
        ruleset
    }
}
