//! Policies, and how this controller treats each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use palisade_api::Body;
use palisade_model::{AuditedPolicy, Changes, Delta, Policy, PolicyKey, PolicyRef, RuleRef, SetChange, Shape};

use crate::controller::{Controller, ReadAs, policy_meta};
use crate::joins::networks::{AttachmentSource, Networks, PolicyNetworks};
use crate::joins::nodes::{release, retain};
use crate::policy;
use crate::sources::ObjectKey;

/// All policy objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies {
    entries: BTreeMap<ObjectKey, PolicyEntry>,
    /// Policies of KEP-2091 by name: of several groups the first one in the order of keys counts.
    kep2091: BTreeMap<Box<str>, BTreeSet<ObjectKey>>,
    /// The number of objects with each origin that are for other controllers.
    foreign: BTreeMap<PolicyRef, usize>,
    /// Policies that may differ, with what was given of each before the batch.
    pending: BTreeMap<ObjectKey, Option<Given>>,
}

/// A policy object as it was read.
#[derive(Clone, Debug)]
pub(crate) struct PolicyEntry {
    /// The policy on the pod network.
    pub(crate) policy: Arc<Policy>,
    networks: PolicyNetworks,
    pub(crate) standing: Standing,
    logged: Vec<RuleRef>,
    /// Reasons why a rule that should log does not.
    pub(crate) odd: Vec<String>,
    given: Option<Given>,
}

/// How this controller treats a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Enforced,
    /// In a set, with the value of the label.
    Audited {
        set: Box<str>,
        label: Option<Box<str>>,
    },
    /// For the controller with this name.
    Foreign(Box<str>),
}

/// What the model was given of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Given {
    /// One for each network.
    Enforced(Vec<Arc<Policy>>, Vec<RuleRef>),
    Audited(Box<str>, Vec<Arc<Policy>>),
    Foreign(PolicyRef),
    /// Another policy of KEP-2091 has its name.
    Hidden,
}

impl Policies {
    /// All policy objects by key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &PolicyEntry)> {
        self.entries.iter()
    }

    pub(crate) fn has(&self, key: &ObjectKey) -> bool {
        self.entries.contains_key(key)
    }

    /// Whether another policy of KEP-2091 has the name of this one and comes before it.
    pub(crate) fn is_hidden(&self, key: &ObjectKey, entry: &PolicyEntry) -> bool {
        let counts = entry.policy.shape == Shape::Kep2091 && !matches!(entry.standing, Standing::Foreign(_));
        counts && self.kep2091.get(&key.name).and_then(|it| it.first()).is_some_and(|first| first != key)
    }

    pub(crate) fn set(
        &mut self,
        key: &ObjectKey,
        body: Option<&Body>,
        controller: &Controller,
        source: AttachmentSource,
        networks: &mut Networks,
    ) {
        self.forget(key, networks);
        let Some((body, policy)) = body.and_then(|body| Some((body, policy::of(key, body)?))) else { return };
        let standing = match controller.reads(body) {
            ReadAs::Counting => Standing::Enforced,
            ReadAs::Audited { set, label } => Standing::Audited { set: set.into(), label: label.map(Into::into) },
            // SPEC: semantics 4: the policy of another controller does not exist.
            ReadAs::Foreign(controller) => Standing::Foreign(controller.into()),
        };
        let logging = policy_meta(body).filter(|_| standing == Standing::Enforced);
        let (logged, odd) = logging.map(|it| policy::logged(&policy, &it.logging)).unwrap_or_default();
        if policy.shape == Shape::Kep2091 && !matches!(standing, Standing::Foreign(_)) {
            let of_name = self.kep2091.entry(key.name.clone()).or_default();
            of_name.insert(key.clone());
            for other in of_name.iter() {
                let given = self.entries.get(other).and_then(|it| it.given.clone());
                self.pending.entry(other.clone()).or_insert(given);
            }
        }
        let about = match &standing {
            Standing::Foreign(_) => PolicyNetworks::PodNetwork,
            Standing::Enforced | Standing::Audited { .. } => source.of_policy(key, policy_meta(body).and_then(|it| it.networks.as_deref())),
        };
        about.names().for_each(|it| networks.add(it));
        self.pending.entry(key.clone()).or_insert(None);
        self.entries.insert(key.clone(), PolicyEntry { policy: Arc::new(policy), networks: about, standing, logged, odd, given: None });
    }

    pub(crate) fn forget(&mut self, key: &ObjectKey, networks: &mut Networks) {
        let Some(entry) = self.entries.remove(key) else { return };
        entry.networks.names().for_each(|it| networks.remove(it));
        self.pending.entry(key.clone()).or_insert(entry.given);
        if let Some(of_name) = self.kep2091.get_mut(&key.name).filter(|_| entry.policy.shape == Shape::Kep2091) {
            of_name.remove(key);
            for other in of_name.iter() {
                let given = self.entries.get(other).and_then(|it| it.given.clone());
                self.pending.entry(other.clone()).or_insert(given);
            }
            if of_name.is_empty() {
                self.kep2091.remove(&key.name);
            }
        }
    }

    /// The changes of all policies that may differ.
    pub(crate) fn give(&mut self, networks: &Networks, changes: &mut Changes) {
        let (mut enforced, mut audited): (Pairs<PolicyKey>, Pairs<AuditedPolicy>) = Default::default();
        for (key, old) in std::mem::take(&mut self.pending) {
            let hidden = self.entries.get(&key).is_some_and(|it| self.is_hidden(&key, it));
            let new = self.entries.get(&key).map(|it| it.to_give(hidden, networks));
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.given.clone_from(&new);
            }
            for (given, side) in [(old, Side::Old), (new, Side::New)] {
                match given {
                    Some(Given::Enforced(policies, logged)) => {
                        logged.into_iter().for_each(|it| side.set(&mut changes.logged, it));
                        policies.into_iter().for_each(|it| side.put(enforced.entry(it.key()).or_default(), it));
                    }
                    Some(Given::Audited(set, policies)) => {
                        let key = |it: &Policy| AuditedPolicy { set: set.clone(), policy: it.key() };
                        policies.into_iter().for_each(|it| side.put(audited.entry(key(&it)).or_default(), it));
                    }
                    Some(Given::Foreign(policy)) => {
                        let is_first_or_last = match side {
                            Side::Old => release(&mut self.foreign, &policy),
                            Side::New => retain(&mut self.foreign, &policy),
                        };
                        if is_first_or_last {
                            side.set(&mut changes.foreign, policy);
                        }
                    }
                    Some(Given::Hidden) | None => {}
                }
            }
        }
        changes.policies.extend(enforced.into_iter().filter_map(|(id, (old, new))| Delta::between(id, old, new)));
        changes.audited.extend(audited.into_iter().filter_map(|(id, (old, new))| Delta::between(id, old, new)));
        settle(&mut changes.logged);
        settle(&mut changes.foreign);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.kep2091.is_empty() && self.foreign.is_empty() && self.pending.is_empty()
    }
}

type Pairs<I> = BTreeMap<I, (Option<Arc<Policy>>, Option<Arc<Policy>>)>;

#[derive(Clone, Copy)]
enum Side {
    Old,
    New,
}

impl Side {
    fn put(self, pair: &mut (Option<Arc<Policy>>, Option<Arc<Policy>>), policy: Arc<Policy>) {
        match self {
            Side::Old => pair.0 = Some(policy),
            Side::New => pair.1 = Some(policy),
        }
    }

    fn set<T>(self, change: &mut SetChange<T>, member: T) {
        match self {
            Side::Old => change.removed.push(member),
            Side::New => change.added.push(member),
        }
    }
}

impl PolicyEntry {
    /// The policy on each of its networks.
    fn policies(&self, networks: &Networks) -> Vec<Arc<Policy>> {
        let on = |network| Arc::new(Policy { network, ..self.policy.as_ref().clone() });
        match &self.networks {
            PolicyNetworks::PodNetwork => vec![Arc::clone(&self.policy)],
            PolicyNetworks::Named(names) => names.iter().filter_map(|it| networks.id(it)).map(on).collect(),
        }
    }

    fn to_give(&self, hidden: bool, networks: &Networks) -> Given {
        match &self.standing {
            Standing::Foreign(_) => Given::Foreign(self.policy.origin.clone()),
            _ if hidden => Given::Hidden,
            Standing::Enforced => Given::Enforced(self.policies(networks), self.logged.clone()),
            Standing::Audited { set, .. } => Given::Audited(set.clone(), self.policies(networks)),
        }
    }
}

/// Orders a change of a set and drops members that both left and came.
fn settle<T: Clone + Ord>(change: &mut SetChange<T>) {
    let removed: BTreeSet<T> = std::mem::take(&mut change.removed).into_iter().collect();
    let added: BTreeSet<T> = std::mem::take(&mut change.added).into_iter().collect();
    change.removed = removed.difference(&added).cloned().collect();
    change.added = added.difference(&removed).cloned().collect();
}
