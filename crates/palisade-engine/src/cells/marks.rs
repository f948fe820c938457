//! The answers of pods and nodes to the conditions that are asked.

use std::collections::BTreeSet;

use palisade_model::{ContainerPort, Endpoint, Labels, Model, Node, Place};

use crate::cells::ends::addresses_of;
use crate::cells::questions::{Condition, Turnover};
use crate::cells::{CellId, Claimant, NodeCells};

/// A namespace as conditions on pods of any namespace see it.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// Pods with addresses, in order.
    pub(super) pods: Vec<Claimant>,
    /// Conditions whose selector of namespaces matches.
    pub(super) matching: Vec<u32>,
    /// Conditions that select pods without labels by default, and whose selector of namespaces does not match.
    pub(super) excluded: Vec<u32>,
    /// Conditions on pods of this namespace alone.
    pub(super) own: Vec<u32>,
}

/// The answers of a pod or node, without its addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Mark {
    /// Conditions with another answer than their default, in order.
    pub(super) conditions: Vec<u32>,
    /// Ports whose names are asked for, in order.
    ports: Vec<ContainerPort>,
}

impl NodeCells {
    pub(super) fn turn_conditions(&mut self, model: &Model, turned: &Turnover) {
        if !turned.removed.is_empty() {
            let is_removed = |it: &u32| turned.removed.contains(it);
            self.spaces.values_mut().for_each(|it| it.remove(&is_removed));
            self.node_conditions.retain(|it| !is_removed(it));
            let cells =
                self.cells.iter().zip(0..).filter(|(it, _)| it.as_ref().is_some_and(|it| it.key.mark.conditions.iter().any(is_removed)));
            let cells: BTreeSet<CellId> = cells.map(|it| it.1).collect();
            if !cells.is_empty() {
                let addresses = self.owned.iter().filter(|(_, it)| cells.contains(&it.cell)).map(|it| *it.0);
                self.pending.addresses.extend(addresses);
            }
        }
        for id in &turned.added {
            let Some(condition) = self.questions.conditions.get(*id) else { continue };
            match condition {
                Condition::Own { namespace, pods } => {
                    let Some(space) = self.spaces.get_mut(namespace) else { continue };
                    space.own.push(*id);
                    let selected = space.pods.iter().filter(|it| pod(model, **it).is_some_and(|it| pods.matches(&it.labels)));
                    self.pending.addresses.extend(selected.flat_map(|it| addresses_of(model, *it)));
                }
                Condition::Pods { pods, .. } => {
                    let default = condition.default_answer();
                    for (name, space) in &mut self.spaces {
                        match space.add(name, model.namespace_labels(name), condition, *id) {
                            Some(Applies::ToPods) => {
                                let deviates = |it: &&Claimant| pod(model, **it).is_some_and(|it| pods.matches(&it.labels) != default);
                                let deviating = space.pods.iter().filter(deviates);
                                self.pending.addresses.extend(deviating.flat_map(|it| addresses_of(model, *it)));
                            }
                            Some(Applies::ToAll) => {
                                self.pending.addresses.extend(space.pods.iter().flat_map(|it| addresses_of(model, *it)));
                            }
                            None => {}
                        }
                    }
                }
                Condition::Nodes(selector) => {
                    self.node_conditions.push(*id);
                    let selected = model.nodes.iter().filter(|it| selector.matches(&it.labels));
                    self.pending.addresses.extend(selected.flat_map(|it| &it.addresses));
                }
            }
        }
    }

    pub(super) fn pod_mark(&self, endpoint: &Endpoint) -> Mark {
        let Some(space) = self.spaces.get(&endpoint.name.namespace) else { return Mark::default() };
        let deviates = |id: &&u32| match self.questions.conditions.get(**id) {
            Some(condition @ Condition::Pods { pods, .. }) => pods.matches(&endpoint.labels) != condition.default_answer(),
            Some(Condition::Own { pods, .. }) => pods.matches(&endpoint.labels),
            Some(Condition::Nodes(_)) | None => false,
        };
        let mut conditions: Vec<u32> = space.matching.iter().chain(&space.own).filter(deviates).chain(&space.excluded).copied().collect();
        conditions.sort_unstable();
        let asked = |it: &&ContainerPort| it.name.as_deref().is_some_and(|it| self.questions.port_names.contains(it));
        let mut ports: Vec<ContainerPort> = endpoint.ports.iter().filter(asked).cloned().collect();
        ports.sort_unstable();
        ports.dedup();
        Mark { conditions, ports }
    }

    pub(super) fn node_mark(&self, node: &Node) -> Mark {
        let holds = |id: &&u32| match self.questions.conditions.get(**id) {
            Some(Condition::Nodes(selector)) => selector.matches(&node.labels),
            Some(Condition::Pods { .. } | Condition::Own { .. }) | None => false,
        };
        let mut conditions: Vec<u32> = self.node_conditions.iter().filter(holds).copied().collect();
        conditions.sort_unstable();
        Mark { conditions, ports: Vec::new() }
    }
}

/// Which pods of a namespace a condition has to be asked about.
pub(super) enum Applies {
    /// Its selector of pods decides.
    ToPods,
    /// None of them is selected, though pods without labels are elsewhere.
    ToAll,
}

impl Space {
    pub(super) fn add(&mut self, name: &str, labels: &Labels, condition: &Condition, id: u32) -> Option<Applies> {
        match condition {
            Condition::Pods { namespaces, .. } if namespaces.matches(labels) => {
                self.matching.push(id);
                Some(Applies::ToPods)
            }
            Condition::Pods { .. } if condition.default_answer() => {
                self.excluded.push(id);
                Some(Applies::ToAll)
            }
            Condition::Own { namespace, .. } if **namespace == *name => {
                self.own.push(id);
                Some(Applies::ToPods)
            }
            Condition::Pods { .. } | Condition::Own { .. } | Condition::Nodes(_) => None,
        }
    }

    fn remove(&mut self, is_removed: &impl Fn(&u32) -> bool) {
        for list in [&mut self.matching, &mut self.excluded, &mut self.own] {
            list.retain(|it| !is_removed(it));
        }
    }
}

fn pod(model: &Model, claimant: Claimant) -> Option<&Endpoint> {
    match claimant.place() {
        Place::Pod(id) => model.endpoint(id),
        Place::Node(_) | Place::Outside => None,
    }
}
