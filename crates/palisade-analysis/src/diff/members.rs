//! Who is compared: pods of the two versions paired by name or by workload, reduced to the kinds that neither version tells apart.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use palisade_engine::{Alike, AlikeApart, Reach};
use palisade_model::{Endpoint, EndpointId, Family, Model, PodName};

use super::{Filter, Presence, Unit, Version};
use crate::explain::stands_for_workload;
use crate::matrix::units::{Slot, slots, workload};

/// A place in one of the lists of `Members`.
pub(crate) type Id = u32;

/// Pods that no policy of either version tells apart, all of one namespace.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) pods: Both<Option<EndpointId>>,
    /// As other namespaces tell it apart.
    pub(crate) apart: Id,
    pub(crate) namespace: Id,
    /// Workloads that have pods of this kind, sorted.
    pub(crate) units: Vec<Id>,
    pub(crate) slots: Both<Vec<Slot>>,
    /// One pod that nobody stands beside.
    pub(crate) lone: bool,
    /// Whether it is asked about.
    pub(crate) focus: bool,
    /// Whether what is seen of it differs between the versions.
    pub(crate) touched: bool,
}

/// Kinds that fare alike with every end outside of their namespaces.
#[derive(Debug)]
pub(crate) struct Apart {
    pub(crate) slots: Both<Vec<Slot>>,
    pub(crate) kinds: Vec<Id>,
    pub(crate) focus: bool,
    pub(crate) touched: bool,
}

/// Everybody.
#[derive(Debug, Default)]
pub(crate) struct Members {
    pub(crate) units: Vec<Unit>,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) aparts: Vec<Apart>,
    /// The kinds of each namespace.
    pub(crate) namespaces: Vec<Vec<Id>>,
}

/// One of each version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Both<T> {
    pub(crate) old: T,
    pub(crate) new: T,
}

/// A pod of each version that are held against each other.
type Pair = Both<Option<EndpointId>>;
type OwnKey = (Both<Vec<(Option<Family>, Alike)>>, bool);
type ApartKey = (Both<Vec<(Option<Family>, AlikeApart)>>, bool);

impl Kind {
    pub(crate) fn presence(&self) -> Presence {
        presence(&self.pods)
    }

    /// Whether it can be an end of a connection that is like this.
    pub(crate) fn is_of(&self, connection: Presence) -> bool {
        match connection {
            Presence::Both => self.presence() == Presence::Both,
            Presence::New => self.pods.new.is_some(),
            Presence::Gone => self.pods.old.is_some(),
        }
    }
}

fn presence(pair: &Pair) -> Presence {
    match (pair.old, pair.new) {
        (Some(_), None) => Presence::Gone,
        (None, Some(_)) => Presence::New,
        (Some(_) | None, _) => Presence::Both,
    }
}

pub(crate) fn id(place: usize) -> Id {
    Id::try_from(place).unwrap_or(Id::MAX)
}

pub(crate) fn place(id: Id) -> usize {
    usize::try_from(id).unwrap_or(usize::MAX)
}

impl Members {
    pub(crate) fn of<'s>(old: &'s Version<'_, '_>, new: &'s Version<'_, '_>, filter: &'s Filter) -> Members {
        let mut sorting = Sorting { old, new, filter, members: Members::default(), own: HashMap::new(), apart: HashMap::new() };
        let mut namespaces: BTreeMap<&str, Id> = BTreeMap::new();
        for (name, pods) in pairs(old, new) {
            let first =
                pods.first().and_then(|it| it.new.and_then(|id| new.model.endpoint(id)).or(it.old.and_then(|id| old.model.endpoint(id))));
            let Some(first) = first else { continue };
            let known = namespaces.len();
            let namespace = *namespaces.entry(&first.name.namespace).or_insert_with(|| id(known));
            let unit = id(sorting.members.units.len());
            let presence = pods.first().map_or(Presence::Both, presence);
            sorting.members.units.push(Unit { name, namespace: first.name.namespace.to_string(), presence });
            for pair in pods {
                sorting.add(unit, namespace, pair);
            }
        }
        let mut members = sorting.members;
        members.namespaces = vec![Vec::new(); namespaces.len()];
        for (at, kind) in members.kinds.iter().enumerate() {
            if let Some(own) = members.namespaces.get_mut(place(kind.namespace)) {
                own.push(id(at));
            }
        }
        members
    }

    pub(crate) fn kind(&self, at: Id) -> Option<&Kind> {
        self.kinds.get(place(at))
    }

    pub(crate) fn apart(&self, at: Id) -> Option<&Apart> {
        self.aparts.get(place(at))
    }

    pub(crate) fn namespace_of(&self, kind: Id) -> Id {
        self.kind(kind).map_or(Id::MAX, |it| it.namespace)
    }

    /// The kinds of a namespace.
    pub(crate) fn of_namespace(&self, namespace: Id) -> &[Id] {
        self.namespaces.get(place(namespace)).map_or(&[], Vec::as_slice)
    }
}

struct Sorting<'s, 'o, 'n> {
    old: &'s Version<'s, 'o>,
    new: &'s Version<'s, 'n>,
    filter: &'s Filter,
    members: Members,
    own: HashMap<OwnKey, Id>,
    apart: HashMap<ApartKey, Id>,
}

impl Sorting<'_, '_, '_> {
    fn add(&mut self, unit: Id, namespace: Id, pods: Pair) {
        let (old, new) = (pods.old.and_then(|it| self.old.model.endpoint(it)), pods.new.and_then(|it| self.new.model.endpoint(it)));
        let of = |reach: &Reach<'_>, pod: Option<EndpointId>| pod.map_or_else(Vec::new, |it| slots(reach, it));
        let slots = Both { old: of(self.old.reach, pods.old), new: of(self.new.reach, pods.new) };
        let touched = match (old, new) {
            (Some(old), Some(new)) => !looks_alike(self.old.model, old, self.new.model, new),
            (Some(_), None) | (None, Some(_)) | (None, None) => true,
        };
        let focus = self.in_focus(pods);
        let apart = |it: &Slot| (it.family, it.alike.apart);
        let key = (Both { old: slots.old.iter().map(apart).collect(), new: slots.new.iter().map(apart).collect() }, focus);
        let members = &mut self.members;
        let apart = *self.apart.entry(key).or_insert_with(|| {
            members.aparts.push(Apart { slots: slots.clone(), kinds: Vec::new(), focus, touched: false });
            id(members.aparts.len() - 1)
        });
        let own = |it: &Slot| (it.family, it.alike);
        let key = (Both { old: slots.old.iter().map(own).collect(), new: slots.new.iter().map(own).collect() }, focus);
        let known = self.own.len();
        let at = *self.own.entry(key).or_insert_with(|| id(known));
        if let Some(kind) = members.kinds.get_mut(place(at)) {
            kind.lone = false;
            if kind.units.last() != Some(&unit) {
                kind.units.push(unit);
            }
            // One that looks the same speaks for all of its kind: they fare as it does in both versions.
            if kind.touched && !touched {
                (kind.pods, kind.slots, kind.touched) = (pods, slots, touched);
            }
            return;
        }
        let lone = ![old, new].into_iter().flatten().any(stands_for_workload);
        members.kinds.push(Kind { pods, apart, namespace, units: vec![unit], slots, lone, focus, touched });
        if let Some(it) = members.aparts.get_mut(place(apart)) {
            it.kinds.push(at);
            it.touched |= touched;
        }
    }

    fn in_focus(&self, pods: Pair) -> bool {
        let Some(focus) = &self.filter.focus else { return true };
        let named = |selection: &Option<_>, pod: Option<EndpointId>| {
            pod.is_some_and(|pod| selection.as_ref().is_some_and(|it: &crate::matrix::Selection| it.has_pod(pod)))
        };
        named(&focus.old, pods.old) || named(&focus.new, pods.new)
    }
}

/// Whether policy could see a difference between a pod and itself.
fn looks_alike(old: &Model, a: &Endpoint, new: &Model, b: &Endpoint) -> bool {
    let labels = old.namespace_labels(&a.name.namespace) == new.namespace_labels(&b.name.namespace);
    labels && a.labels == b.labels && a.addresses == b.addresses && a.ports == b.ports
}

/// Workloads by name with their pods, paired.
///
/// A pod is held against the one of its name. Replicas come and go under new names: one that has no namesake is held against every sort of pod
/// that its workload had and has no more, or else against every sort it had. A replica that is gone while others stay is no change.
fn pairs(old: &Version<'_, '_>, new: &Version<'_, '_>) -> BTreeMap<String, Vec<Pair>> {
    let mut units: BTreeMap<String, Both<Vec<EndpointId>>> = BTreeMap::new();
    for (id, endpoint) in old.model.endpoints.iter_ids() {
        units.entry(workload(endpoint)).or_default().old.push(id);
    }
    for (id, endpoint) in new.model.endpoints.iter_ids() {
        units.entry(workload(endpoint)).or_default().new.push(id);
    }
    units.into_iter().map(|(name, pods)| (name, paired(old, new, &pods))).collect()
}

fn paired(old: &Version<'_, '_>, new: &Version<'_, '_>, pods: &Both<Vec<EndpointId>>) -> Vec<Pair> {
    let name = |model: &'_ Model, id: EndpointId| model.endpoint(id).map(|it| it.name.clone());
    let by_name: BTreeMap<PodName, EndpointId> = pods.old.iter().filter_map(|it| Some((name(old.model, *it)?, *it))).collect();
    let mut pairs: Vec<Pair> = Vec::with_capacity(pods.new.len());
    let (mut fresh, mut stayed) = (Vec::new(), BTreeSet::new());
    for pod in &pods.new {
        match name(new.model, *pod).and_then(|it| by_name.get(&it)) {
            Some(before) => {
                stayed.insert(*before);
                pairs.push(Both { old: Some(*before), new: Some(*pod) });
            }
            None => fresh.push(*pod),
        }
    }
    let left: Vec<EndpointId> = pods.old.iter().filter(|it| !stayed.contains(it)).copied().collect();
    let before = if left.is_empty() { sorts(old.reach, stayed) } else { sorts(old.reach, left.iter().copied()) };
    match (pods.old.is_empty(), pods.new.is_empty()) {
        (true, _) => pairs.extend(fresh.into_iter().map(|it| Both { old: None, new: Some(it) })),
        (false, true) => pairs.extend(left.into_iter().map(|it| Both { old: Some(it), new: None })),
        (false, false) => {
            for pod in fresh {
                pairs.extend(before.iter().map(|it| Both { old: Some(*it), new: Some(pod) }));
            }
        }
    }
    pairs
}

/// One pod of each sort.
fn sorts(reach: &Reach<'_>, pods: impl IntoIterator<Item = EndpointId>) -> Vec<EndpointId> {
    let mut met: Vec<Vec<(Option<Family>, Alike)>> = Vec::new();
    let mut sorts = Vec::new();
    for pod in pods {
        let key: Vec<(Option<Family>, Alike)> = slots(reach, pod).iter().map(|it| (it.family, it.alike)).collect();
        if !met.contains(&key) {
            met.push(key);
            sorts.push(pod);
        }
    }
    sorts
}
