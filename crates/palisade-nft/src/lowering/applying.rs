//! The policies that apply to the pods of one node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use palisade_engine::{Applies, applying, is_about};
use palisade_model::{AuditedPolicy, Changes, Delta, Endpoint, Model, Policy, PolicyKey, RuleRef};

/// Which policies a ruleset is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// Enforced policies.
    Enforced,
    /// Enforced and audited policies.
    WithAudited,
}

/// Policies that apply to pods of a node.
#[derive(Debug, Default)]
pub(super) struct Applying {
    /// Enforced policies that select one of the pods, in the order of the model.
    selecting: Vec<Arc<Policy>>,
    /// Those of them that can decide about a connection.
    enforced: Vec<Arc<Policy>>,
    /// By the name of their set; no set is empty.
    pub(super) audited: BTreeMap<Box<str>, Vec<Arc<Policy>>>,
    /// Rules of these policies whose accepted connections are to be logged.
    logged: BTreeSet<RuleRef>,
}

/// Equal if a ruleset cannot differ.
impl PartialEq for Applying {
    fn eq(&self, other: &Applying) -> bool {
        (&self.enforced, &self.audited, &self.logged) == (&other.enforced, &other.audited, &other.logged)
    }
}

impl Applying {
    /// The policies of a model that apply to some pods.
    pub(super) fn of<'m>(model: &'m Model, pods: impl Iterator<Item = &'m Endpoint> + Clone, sort: Sort) -> Applying {
        let selecting = applying(model, model.policies.iter(), pods.clone(), Applies::IfSelecting);
        let selecting = selecting.into_iter().filter_map(|at| model.policies.shared(at).cloned()).collect();
        Applying::among(model, selecting, pods, sort)
    }

    /// The same after changes of policies that leave the pods as they are. `model` is the model after these changes.
    pub(super) fn updated<'m>(
        &self,
        model: &'m Model,
        changes: &Changes,
        pods: impl Iterator<Item = &'m Endpoint> + Clone,
        sort: Sort,
    ) -> Applying {
        let is_changed = |it: &&Arc<Policy>| changes.policies.iter().any(|delta| delta.id.origin == it.origin);
        let new = changes.policies.iter().filter_map(|it| it.new.as_ref()).filter(|it| selects(model, it, pods.clone()));
        let mut selecting: Vec<Arc<Policy>> = self.selecting.iter().filter(|it| !is_changed(it)).chain(new).cloned().collect();
        selecting.sort_by(|one, other| Policy::in_order(one, other));
        Applying::among(model, selecting, pods, sort)
    }

    fn among<'m>(model: &'m Model, selecting: Vec<Arc<Policy>>, pods: impl Iterator<Item = &'m Endpoint> + Clone, sort: Sort) -> Applying {
        let mut found = Applying::default();
        match sort {
            Sort::Enforced => {
                let deciding = applying(model, selecting.iter().map(Arc::as_ref), pods, Applies::IfEnforced);
                found.enforced = deciding.into_iter().filter_map(|at| selecting.get(at).cloned()).collect();
            }
            Sort::WithAudited => {
                found.enforced.clone_from(&selecting);
                for (set, policies) in &model.audited {
                    let applying = policies.iter().filter(|it| selects(model, it, pods.clone())).cloned().map(Arc::new);
                    let applying: Vec<Arc<Policy>> = applying.collect();
                    if !applying.is_empty() {
                        found.audited.insert(set.clone(), applying);
                    }
                }
            }
        }
        found.selecting = selecting;
        if !model.logged.is_empty() {
            let origins: BTreeSet<_> = found.policies().map(|it| &it.origin).collect();
            found.logged = model.logged.iter().filter(|it| origins.contains(&it.policy)).cloned().collect();
        }
        found
    }

    /// Whether changes of policies leave these as they are: none of them changed, and no changed policy selects a pod of the node. May say no
    /// where that is not so.
    pub(super) fn is_untouched<'m>(&self, model: &'m Model, changes: &Changes, pods: impl Iterator<Item = &'m Endpoint> + Clone) -> bool {
        let selects = |policy: &Policy| selects(model, policy, pods.clone());
        let enforced = |it: &Delta<PolicyKey, Policy>| self.selecting.iter().any(|known| known.origin == it.id.origin);
        let audited = |it: &Delta<AuditedPolicy, Policy>| {
            self.audited.get(&it.id.set).into_iter().flatten().any(|known| known.origin == it.id.policy.origin)
        };
        let logged = changes.logged.removed.iter().chain(&changes.logged.added);
        !changes.policies.iter().any(|it| enforced(it) || it.new.as_deref().is_some_and(selects))
            && !changes.audited.iter().any(|it| audited(it) || it.new.as_deref().is_some_and(selects))
            && !logged.into_iter().any(|it| self.policies().any(|known| known.origin == it.policy))
    }

    /// All of them.
    pub(super) fn policies(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.enforced.iter().chain(self.audited.values().flatten())
    }

    /// Puts them into a model.
    pub(super) fn put(&self, model: &mut Model) {
        model.policies = self.enforced.iter().cloned().collect();
        model.audited = self.audited.iter().map(|(set, of)| (set.clone(), of.iter().map(|it| Policy::clone(it)).collect())).collect();
        model.logged = self.logged.clone();
    }
}

/// Whether a policy selects one of some pods.
fn selects<'m>(model: &'m Model, policy: &Policy, mut pods: impl Iterator<Item = &'m Endpoint>) -> bool {
    pods.any(|it| is_about(&policy.subject, &it.name.namespace, model.namespace_labels(&it.name.namespace), &it.labels))
}
