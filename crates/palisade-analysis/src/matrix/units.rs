//! What the rows of a matrix are about: pods under one name, reduced to the kinds of pods that policy tells apart.

use std::collections::{BTreeMap, HashMap};

use palisade_engine::{Alike, AlikeApart, Reach};
use palisade_model::{End, Endpoint, EndpointId, Family, Model};

use super::By;

/// Pods under one name.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) name: String,
    pub(crate) namespace: Box<str>,
    pub(crate) pods: Vec<EndpointId>,
    /// Kinds of its pods as their own namespace tells them apart, with how many there are.
    pub(crate) own: Vec<(usize, usize)>,
    /// Kinds of its pods as other namespaces tell them apart.
    pub(crate) apart: Vec<usize>,
}

/// One address of a kind of pods, with an end that stands for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) family: Option<Family>,
    pub(crate) alike: Alike,
    pub(crate) end: End,
}

/// All units of a cluster, by name.
#[derive(Debug, Default)]
pub(crate) struct Units {
    pub(crate) units: Vec<Unit>,
    pub(crate) own: Vec<Vec<Slot>>,
    pub(crate) apart: Vec<Vec<Slot>>,
}

/// What a pod has in common with its kind.
type OwnKey = Vec<(Option<Family>, Alike)>;
type ApartKey = Vec<(Option<Family>, AlikeApart)>;

pub(crate) fn units(model: &Model, reach: &Reach<'_>, by: By) -> Units {
    let mut units = Units::default();
    let mut own: HashMap<OwnKey, usize> = HashMap::new();
    let mut apart: HashMap<ApartKey, usize> = HashMap::new();
    let mut kinds: Vec<(usize, usize)> = Vec::with_capacity(model.endpoints.len());
    for at in 0..model.endpoints.len() {
        let slots = slots(reach, EndpointId(at));
        let key: ApartKey = slots.iter().map(|it| (it.family, it.alike.apart)).collect();
        let of_apart = number(&mut apart, key, &mut units.apart, &slots);
        let key: OwnKey = slots.iter().map(|it| (it.family, it.alike)).collect();
        kinds.push((number(&mut own, key, &mut units.own, &slots), of_apart));
    }
    units.units = match by {
        By::Workload => named(model, &kinds, |_, endpoint| workload(endpoint)),
        By::Namespace => named(model, &kinds, |_, endpoint| format!("{}[Namespace]", endpoint.name.namespace)),
        By::Class => classes(model, &kinds),
    };
    units
}

/// The first address of each family, as connections use them.
pub(crate) fn slots(reach: &Reach<'_>, id: EndpointId) -> Vec<Slot> {
    let mut slots: Vec<Slot> = Vec::with_capacity(2);
    for end in reach.ends(id) {
        let family = end.address.map(Family::of);
        if let Some(alike) = reach.alike(&end).filter(|_| slots.iter().all(|it| it.family != family)) {
            slots.push(Slot { family, alike, end });
        }
    }
    slots.sort_by_key(|it| it.family);
    slots
}

fn number<K: Eq + std::hash::Hash>(known: &mut HashMap<K, usize>, key: K, all: &mut Vec<Vec<Slot>>, slots: &[Slot]) -> usize {
    *known.entry(key).or_insert_with(|| {
        all.push(slots.to_vec());
        all.len() - 1
    })
}

/// Collapses pods to the units they are named after.
fn named(model: &Model, kinds: &[(usize, usize)], name: impl Fn(usize, &Endpoint) -> String) -> Vec<Unit> {
    let mut units: BTreeMap<String, Unit> = BTreeMap::new();
    for (at, (endpoint, (own, apart))) in model.endpoints.iter().zip(kinds).enumerate() {
        let name = name(at, endpoint);
        let namespace = endpoint.name.namespace.clone();
        let fresh = || Unit { name: name.clone(), namespace, pods: Vec::new(), own: Vec::new(), apart: Vec::new() };
        let unit = units.entry(name.clone()).or_insert_with(fresh);
        unit.pods.push(EndpointId(at));
        match unit.own.iter_mut().find(|it| it.0 == *own) {
            Some(known) => known.1 += 1,
            None => unit.own.push((*own, 1)),
        }
        if !unit.apart.contains(apart) {
            unit.apart.push(*apart);
        }
    }
    units.into_values().collect()
}

/// Each class goes by its first workload, and how many others it has pods of.
fn classes(model: &Model, kinds: &[(usize, usize)]) -> Vec<Unit> {
    let mut members: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (endpoint, (own, _)) in model.endpoints.iter().zip(kinds) {
        members.entry(*own).or_default().push(workload(endpoint));
    }
    let mut names: BTreeMap<usize, String> = BTreeMap::new();
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    for (own, mut of_class) in members {
        of_class.sort();
        of_class.dedup();
        let first = of_class.first().cloned().unwrap_or_default();
        let name = if of_class.len() > 1 { format!("{first}+{}", of_class.len() - 1) } else { first };
        let times = taken.entry(name.clone()).and_modify(|it| *it += 1).or_insert(1);
        // Pods of one workload may be of several classes.
        names.insert(own, if *times > 1 { format!("{name}#{times}") } else { name });
    }
    named(model, kinds, |at, _| kinds.get(at).and_then(|(own, _)| names.get(own)).cloned().unwrap_or_default())
}

/// `shop/web[Deployment]`, or `shop/web-1[Pod]` for a pod that nothing owns.
fn workload(endpoint: &Endpoint) -> String {
    let namespace = &endpoint.name.namespace;
    match endpoint.workload() {
        Some(owner) => format!("{namespace}/{}[{}]", owner.name, owner.kind),
        None => format!("{}[Pod]", endpoint.name),
    }
}
