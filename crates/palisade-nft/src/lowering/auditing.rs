//! Audits of one node, from one model to the next.

use std::sync::Arc;

use palisade_model::{Changes, Model, NetworkId, NodeAddresses, NodeId};

use crate::audit::{Audit, audit};
use crate::ids::Ids;
use crate::lowering::Worked;
use crate::lowering::applying::Sort;
use crate::lowering::classes::{Classes, Needs};

/// Makes the audits of one node, one after the other.
///
/// INVARIANT: the result equals `audit` of the whole model.
#[derive(Debug, Default)]
pub struct Auditing {
    ids: Ids,
    last: Option<Last>,
}

/// The last audit, if an audited policy selected a pod of the node, and what it was made from.
#[derive(Debug)]
struct Last {
    audit: Option<Arc<Audit>>,
    classes: Classes,
}

impl Auditing {
    /// The audit of a node after changes of the model that the last audit was made from. `model` is the model after these changes.
    pub fn update(&mut self, model: &Model, changes: &Changes, node: NodeId) -> Option<(Arc<Audit>, Worked)> {
        let changes = &*changes.on_network(NetworkId::DEFAULT, NodeAddresses::Present);
        let model = &*model.on_network(NetworkId::DEFAULT);
        let Some(mut last) = self.last.take().filter(|it| it.classes.node() == node) else { return self.audit(model, node) };
        if model.audited.is_empty() {
            return None;
        }
        let needs = last.classes.update(model, changes);
        let worked = if needs == Needs::All || last.audit.is_none() {
            last.audit = self.build(model, &mut last.classes, last.audit.as_deref()).map(Arc::new);
            Worked::Anew
        } else if let (true, Some(audit)) = (last.classes.has_moved(), &mut last.audit) {
            last.classes.move_elements(&mut Arc::make_mut(audit).ruleset);
            Worked::ByElements
        } else {
            Worked::NothingToDo
        };
        let audit = last.audit.clone();
        self.last = Some(last);
        Some((audit?, worked))
    }

    /// The audit of a node, or nothing if no audited policy selects a pod of it.
    pub fn audit(&mut self, model: &Model, node: NodeId) -> Option<(Arc<Audit>, Worked)> {
        let model = &*model.on_network(NetworkId::DEFAULT);
        self.last = None;
        if model.audited.is_empty() {
            return None;
        }
        let mut classes = Classes::of(model, node, Sort::WithAudited);
        let audit = self.build(model, &mut classes, None).map(Arc::new);
        self.last = Some(Last { audit: audit.clone(), classes });
        Some((audit?, Worked::Anew))
    }

    fn build(&mut self, model: &Model, classes: &mut Classes, last: Option<&Audit>) -> Option<Audit> {
        if classes.applying.audited.is_empty() {
            classes.forget_moves();
            return None;
        }
        let reduced = classes.reduced(model, std::iter::empty());
        let Some(mut audit) = audit(&reduced.model, classes.node(), &mut self.ids) else {
            classes.forget_moves();
            return None;
        };
        classes.complete(&mut audit.ruleset, &reduced.samples, last.map(|it| &it.ruleset));
        Some(audit)
    }
}
