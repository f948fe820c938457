//! Rulesets of one node, from one model to the next.
//!
//! Most changes are pods that come and go among others like them. Such a pod changes elements of maps and nothing else, and those like it say which:
//! no policy is asked again. Whatever else changes, all is lowered anew.
//!
//! INVARIANT: what is returned is what `lower` makes of the model, to the letter.

mod basis;
mod bound;
mod kinds;
mod pods;
mod said;

use std::sync::Arc;

use palisade_engine::compile;
use palisade_model::Model;

use crate::ids::Ids;
use crate::layout::Layout;
use crate::lower::{NodeView, lower};
use crate::lowering::basis::Basis;
use crate::lowering::bound::Bound;
use crate::lowering::pods::Pods;
use crate::ruleset::Ruleset;

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
    /// All of it was lowered.
    Anew,
    /// Elements of the last one were changed.
    ByElements,
    /// It is the last one.
    NothingToDo,
}

impl Lowering {
    /// One that marks rulesets with a layout.
    pub fn new(layout: Layout) -> Lowering {
        Lowering { layout, ..Lowering::default() }
    }

    /// The ruleset of a node.
    pub fn lower(&mut self, model: &Model, view: &NodeView) -> (Arc<Ruleset>, Worked) {
        let updated = self.last.take().and_then(|it| it.updated(model, view, &mut self.ids));
        let (last, worked) = updated.unwrap_or_else(|| {
            let ruleset = Ruleset { layout: self.layout, ..lower(model, &compile(model), view, &mut self.ids) };
            (Last::of(model, view, ruleset), Worked::Anew)
        });
        let ruleset = Arc::clone(&last.ruleset);
        self.last = Some(last);
        (ruleset, worked)
    }
}

/// The last ruleset, and what it was made from.
#[derive(Debug)]
struct Last {
    ruleset: Arc<Ruleset>,
    basis: Basis,
    pods: Pods,
}

impl Last {
    fn of(model: &Model, view: &NodeView, ruleset: Ruleset) -> Last {
        let pods = Pods::of(model, view.node, &ruleset);
        Last { ruleset: Arc::new(ruleset), basis: Basis::of(model, view), pods }
    }

    /// None if the last ruleset does not tell what the next one is.
    fn updated(mut self, model: &Model, view: &NodeView, ids: &mut Ids) -> Option<(Last, Worked)> {
        if !self.basis.is_of(model, view) {
            return None;
        }
        let moves = self.pods.follow(model, view.node, &self.ruleset)?;
        let bound = Bound::of(model, view, ids);
        if moves.is_empty() && bound.is_in(&self.ruleset) {
            return Some((self, Worked::NothingToDo));
        }
        let mut ruleset = Ruleset::clone(&self.ruleset);
        moves.make(&mut ruleset);
        bound.put(&mut ruleset);
        self.ruleset = Arc::new(ruleset);
        Some((self, Worked::ByElements))
    }
}
