//! What the rows of a matrix are about: pods under one name, reduced to the kinds of pods that policy tells apart.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use palisade_engine::{Alike, Reach, Role};
use palisade_model::{End, Endpoint, EndpointId, Family, HostPod, Model};

use super::By;

/// Pods under one name.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) name: String,
    pub(crate) namespace: Box<str>,
    pub(crate) pods: Vec<EndpointId>,
    /// Kinds of its pods as their own namespace tells them apart, with how many there are.
    pub(crate) own: Vec<(usize, usize)>,
    /// Kinds of its pods as other namespaces tell them apart, by the number of their mixture: when they call, and when they are called.
    pub(crate) apart: ByRole<usize>,
    /// The number of its namespace.
    pub(crate) space: usize,
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
    pub(crate) apart: ByRole<Kinds>,
}

/// Something for those who call, and for those who are called.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ByRole<T> {
    pub(crate) calling: T,
    pub(crate) called: T,
}

/// Kinds of pods as other namespaces tell them apart in one role, and the mixtures of them that some unit is.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    slots: Vec<Vec<Slot>>,
    pub(crate) mixtures: Vec<Vec<usize>>,
}

impl Kinds {
    /// The kinds of a mixture.
    pub(crate) fn of(&self, mixture: usize) -> impl Iterator<Item = &Vec<Slot>> {
        self.mixtures.get(mixture).into_iter().flatten().filter_map(|it| self.slots.get(*it))
    }
}

/// What a pod has in common with its kind.
type OwnKey = Vec<(Option<Family>, Alike)>;
type ApartKey = Vec<(Option<Family>, Role)>;

pub(crate) fn units(model: &Model, reach: &Reach<'_>, by: By) -> Units {
    let mut units = Units::default();
    let mut own: HashMap<OwnKey, usize> = HashMap::new();
    let mut apart: ByRole<HashMap<ApartKey, usize>> = ByRole::default();
    let mut kinds: Vec<PodKinds> = Vec::with_capacity(model.endpoints.len());
    for at in 0..model.endpoints.len() {
        let slots = slots(reach, EndpointId(at));
        let role = |role: fn(&Slot) -> Role| -> ApartKey { slots.iter().map(|it| (it.family, role(it))).collect() };
        let calling = number(&mut apart.calling, role(|it| it.alike.apart.calling), &mut units.apart.calling.slots, &slots);
        let called = number(&mut apart.called, role(|it| it.alike.apart.called), &mut units.apart.called.slots, &slots);
        let key: OwnKey = slots.iter().map(|it| (it.family, it.alike)).collect();
        kinds.push((number(&mut own, key, &mut units.own, &slots), ByRole { calling, called }));
    }
    let gathered = match by {
        By::Workload => named(model, &kinds, |_, endpoint| workload(endpoint)),
        By::Namespace => named(model, &kinds, |_, endpoint| format!("{}[Namespace]", endpoint.name.namespace)),
        By::Class => classes(model, &kinds),
    };
    let mut mixtures: ByRole<HashMap<Vec<usize>, usize>> = ByRole::default();
    let mut spaces: HashMap<Box<str>, usize> = HashMap::new();
    for (mut unit, apart) in gathered {
        let known = spaces.len();
        unit.space = *spaces.entry(unit.namespace.clone()).or_insert(known);
        unit.apart.calling = mixture(&mut mixtures.calling, apart.calling, &mut units.apart.calling);
        unit.apart.called = mixture(&mut mixtures.called, apart.called, &mut units.apart.called);
        units.units.push(unit);
    }
    units
}

/// The kinds of a pod: for its own namespace, and for others.
type PodKinds = (usize, ByRole<usize>);

fn mixture(known: &mut HashMap<Vec<usize>, usize>, mut of: Vec<usize>, kinds: &mut Kinds) -> usize {
    of.sort_unstable();
    of.dedup();
    *known.entry(of.clone()).or_insert_with(|| {
        kinds.mixtures.push(of);
        kinds.mixtures.len() - 1
    })
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

/// A unit, and the kinds of its pods as other namespaces tell them apart.
type Gathered = (Unit, ByRole<Vec<usize>>);

/// Collapses pods to the units they are named after.
fn named(model: &Model, kinds: &[PodKinds], name: impl Fn(usize, &Endpoint) -> String) -> Vec<Gathered> {
    let mut units: BTreeMap<(Box<str>, String), Gathered> = BTreeMap::new();
    for (at, (endpoint, (own, apart))) in model.endpoints.iter().zip(kinds).enumerate() {
        let name = name(at, endpoint);
        let namespace = endpoint.name.namespace.clone();
        let fresh = || Unit {
            name: name.clone(),
            namespace: namespace.clone(),
            pods: Vec::new(),
            own: Vec::new(),
            apart: ByRole::default(),
            space: 0,
        };
        let (unit, of_unit) = units.entry((namespace.clone(), name.clone())).or_insert_with(|| (fresh(), ByRole::default()));
        unit.pods.push(EndpointId(at));
        match unit.own.iter_mut().find(|it| it.0 == *own) {
            Some(known) => known.1 += 1,
            None => unit.own.push((*own, 1)),
        }
        of_unit.calling.push(apart.calling);
        of_unit.called.push(apart.called);
    }
    units.into_values().collect()
}

/// Each class goes by its first workload, and how many others it has pods of.
fn classes(model: &Model, kinds: &[PodKinds]) -> Vec<Gathered> {
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
pub(crate) fn workload(endpoint: &Endpoint) -> String {
    let namespace = &endpoint.name.namespace;
    match endpoint.workload() {
        Some(owner) => format!("{namespace}/{}[{}]", owner.name, owner.kind),
        None => format!("{}[Pod]", endpoint.name),
    }
}

/// The workloads of pods that use the network of their node, by the names that rows would have.
pub fn on_host_networks(model: &Model) -> BTreeSet<String> {
    let pods = model.nodes.iter().flat_map(|it| &it.host_pods);
    let name = |it: &HostPod| match it.owners.first() {
        Some(owner) => format!("{}/{}[{}]", it.name.namespace, owner.name, owner.kind),
        None => format!("{}[Pod]", it.name),
    };
    pods.map(name).collect()
}
