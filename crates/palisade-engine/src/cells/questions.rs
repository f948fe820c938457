//! The questions of a node's policies about the other end of a connection, counted by policy, so that a policy that comes or goes costs its own rules.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use palisade_model::{Direction, IpBlock, LabelSelector, Labels, NamespaceSet, Peer, PeerSet, Policy, PortMatch, PortSet, Rule};

/// A question whose answer depends on labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Condition {
    /// Selects pods in the namespaces that a selector matches.
    Pods {
        /// The selector of namespaces.
        namespaces: LabelSelector,
        /// The selector of pods.
        pods: LabelSelector,
    },
    /// Selects pods of one namespace.
    Own {
        /// The name of the namespace.
        namespace: Box<str>,
        /// The selector of pods.
        pods: LabelSelector,
    },
    /// Selects nodes.
    Nodes(LabelSelector),
}

impl Condition {
    /// The answer for an end without labels. Only ends with another answer are marked, because `NotIn` and empty selectors match most ends.
    pub(super) fn default_answer(&self) -> bool {
        let none = Labels::default();
        match self {
            Condition::Pods { namespaces, pods } => namespaces.matches(&none) && pods.matches(&none),
            Condition::Own { .. } | Condition::Nodes(_) => false,
        }
    }
}

/// Values with ids and the number of uses of each. The id of a value without uses is given to a later value.
#[derive(Debug)]
pub(super) struct Register<T> {
    ids: BTreeMap<T, u32>,
    values: Vec<Option<(T, usize)>>,
    free: Vec<u32>,
    /// The ids that this update gave out or that have no uses at the moment.
    touched: BTreeMap<u32, Known>,
}

/// Whether a value was known before an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Before,
    SinceThisUpdate,
}

/// The ids that an update added and removed.
#[derive(Debug, Default)]
pub(super) struct Turnover {
    pub(super) added: Vec<u32>,
    pub(super) removed: BTreeSet<u32>,
}

impl Turnover {
    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}

impl<T> Default for Register<T> {
    fn default() -> Register<T> {
        Register { ids: BTreeMap::new(), values: Vec::new(), free: Vec::new(), touched: BTreeMap::new() }
    }
}

impl<T: Clone + Ord> Register<T> {
    fn count(&mut self, value: &T) {
        let id = match self.ids.get(value) {
            Some(id) => *id,
            None => {
                let id = self.free.pop().unwrap_or_else(|| u32::try_from(self.values.len()).unwrap_or(u32::MAX));
                let slot = usize::try_from(id).unwrap_or(usize::MAX);
                if self.values.len() <= slot {
                    self.values.resize_with(slot + 1, || None);
                }
                self.values.get_mut(slot).into_iter().for_each(|it| *it = Some((value.clone(), 0)));
                self.ids.insert(value.clone(), id);
                self.touched.insert(id, Known::SinceThisUpdate);
                id
            }
        };
        self.uses(id).into_iter().for_each(|it| *it += 1);
    }

    fn release(&mut self, value: &T) {
        let Some(id) = self.ids.get(value).copied() else { return };
        let Some(uses) = self.uses(id) else { return };
        *uses = uses.saturating_sub(1);
        if *uses == 0 {
            self.touched.entry(id).or_insert(Known::Before);
        }
    }

    fn uses(&mut self, id: u32) -> Option<&mut usize> {
        self.values.get_mut(usize::try_from(id).ok()?)?.as_mut().map(|(_, uses)| uses)
    }

    /// Ends an update. Ids of values without uses stay reserved until `forget`.
    fn turnover(&mut self) -> Turnover {
        let mut turnover = Turnover::default();
        for (id, known) in std::mem::take(&mut self.touched) {
            let used = self.uses(id).is_some_and(|it| *it > 0);
            match (known, used) {
                (Known::SinceThisUpdate, true) => turnover.added.push(id),
                (Known::SinceThisUpdate, false) => self.forget(id),
                (Known::Before, false) => drop(turnover.removed.insert(id)),
                (Known::Before, true) => {}
            }
        }
        turnover
    }

    /// Makes the id of a removed value available to others.
    pub(super) fn forget(&mut self, id: u32) {
        let value = usize::try_from(id).ok().and_then(|it| self.values.get_mut(it)).and_then(Option::take);
        if let Some((value, _)) = value {
            self.ids.remove(&value);
            self.free.push(id);
        }
    }

    pub(super) fn get(&self, id: u32) -> Option<&T> {
        self.values.get(usize::try_from(id).ok()?)?.as_ref().map(|(value, _)| value)
    }

    pub(super) fn contains<Q: Ord + ?Sized>(&self, value: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.ids.contains_key(value)
    }

    /// All values in order, with their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&T, u32)> {
        self.ids.iter().map(|(value, id)| (value, *id))
    }

    /// All ids are below this.
    pub(super) fn bound(&self) -> usize {
        self.values.len()
    }
}

/// The questions of all policies that apply to the pods of a node.
#[derive(Debug, Default)]
pub(super) struct Questions {
    policies: Vec<Arc<Policy>>,
    pub(super) conditions: Register<Condition>,
    /// Names of ports of the destination.
    pub(super) port_names: Register<Box<str>>,
    pub(super) blocks: Register<IpBlock>,
}

/// The questions that an update added and removed.
#[derive(Debug, Default)]
pub(super) struct NewQuestions {
    pub(super) conditions: Turnover,
    pub(super) port_names: Turnover,
    pub(super) blocks: Turnover,
}

impl Questions {
    /// Takes the policies that apply now. Policies that were there before, by address, cost nothing.
    pub(super) fn set_policies(&mut self, policies: Vec<Arc<Policy>>) -> NewQuestions {
        let pointers = |of: &[Arc<Policy>]| of.iter().map(Arc::as_ptr).collect::<BTreeSet<*const Policy>>();
        let (old, new) = (pointers(&self.policies), pointers(&policies));
        let gone = std::mem::take(&mut self.policies);
        for policy in policies.iter().filter(|it| !old.contains(&Arc::as_ptr(it))) {
            self.each(policy, Use::Count);
        }
        for policy in gone.iter().filter(|it| !new.contains(&Arc::as_ptr(it))) {
            self.each(policy, Use::Release);
        }
        self.policies = policies;
        NewQuestions { conditions: self.conditions.turnover(), port_names: self.port_names.turnover(), blocks: self.blocks.turnover() }
    }

    /// Makes the ids of removed questions available, after nothing refers to them any more.
    pub(super) fn forget(&mut self, new: &NewQuestions) {
        new.conditions.removed.iter().for_each(|it| self.conditions.forget(*it));
        new.port_names.removed.iter().for_each(|it| self.port_names.forget(*it));
        new.blocks.removed.iter().for_each(|it| self.blocks.forget(*it));
    }

    fn each(&mut self, policy: &Policy, by: Use) {
        for direction in Direction::BOTH {
            for rule in policy.rules.of(direction) {
                // Ports are those of the destination, and the subject of ingress rules is the destination.
                if direction == Direction::Egress {
                    port_names(rule).for_each(|it| by.on(&mut self.port_names, &it.into()));
                }
                let PeerSet::Of(peers) = &rule.peers else { continue };
                peers.iter().for_each(|it| self.peer(it, by));
            }
        }
    }

    fn peer(&mut self, peer: &Peer, by: Use) {
        match peer {
            Peer::Pods { namespaces: NamespaceSet::Own(namespace), pods } => {
                by.on(&mut self.conditions, &Condition::Own { namespace: namespace.clone(), pods: pods.clone() });
            }
            Peer::Pods { namespaces: NamespaceSet::Matching(namespaces), pods } => {
                by.on(&mut self.conditions, &Condition::Pods { namespaces: namespaces.clone(), pods: pods.clone() });
            }
            Peer::Nodes(selector) => by.on(&mut self.conditions, &Condition::Nodes(selector.clone())),
            Peer::Networks(blocks) => blocks.iter().for_each(|it| by.on(&mut self.blocks, it)),
            // The caller gives the parts of a policy with relative peers, which have none. Domain names select no end by what it is.
            Peer::Relative(_) | Peer::Domains(_) | Peer::Unreadable => {}
        }
    }
}

/// Whether a question gets one use more or one less.
#[derive(Clone, Copy, Debug)]
enum Use {
    Count,
    Release,
}

impl Use {
    fn on<T: Clone + Ord>(self, register: &mut Register<T>, value: &T) {
        match self {
            Use::Count => register.count(value),
            Use::Release => register.release(value),
        }
    }
}

fn port_names(rule: &Rule) -> impl Iterator<Item = &str> {
    let entries = match &rule.ports {
        PortSet::Of(entries) => entries.as_slice(),
        PortSet::Any => &[],
    };
    entries.iter().filter_map(|it| match it {
        PortMatch::Named { name, .. } => Some(name.as_ref()),
        PortMatch::Numbers { .. } | PortMatch::Unreadable => None,
    })
}
