//! Pods of namespaces that do not exist yet, one for each way to label them that some rule may care about.
//!
//! A newcomer is a wish, requirements that its labels must meet, and the fewest labels that meet them. Wishes are what rules ask for, the opposite of
//! what they forbid, and both together where one rule must be got past before another counts.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;

use super::choice::Choice;
use palisade_model::{
    Action, Direction, Endpoint, EndpointId, Family, LabelSelector, Labels, Model, Namespace, NamespaceSet, Operator, Peer, PeerSet,
    PodName, PortMatch, PortSet, Readiness, Requirement, Running, Tier,
};

/// How the labels of a newcomer are chosen. No requirement at all means that it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Wish {
    /// What the labels of its namespace meet; `kubernetes.io/metadata.name` is the namespace's name.
    pub namespace: LabelSelector,
    /// What its own labels meet.
    pub pod: LabelSelector,
}

/// A pod that does not exist, in a namespace that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Newcomer {
    /// What its labels must meet.
    pub wish: Wish,
    /// Labels of its namespace that do.
    pub namespace: Labels,
    /// Its own labels.
    pub labels: Labels,
}

/// Newcomers on the stage.
pub(super) struct Newcomers {
    /// With the pod that stands for each; the first has no labels.
    pub(super) all: Vec<(Newcomer, EndpointId)>,
    /// Whether rules were also taken together.
    pub(super) together: Together,
}

/// Whether newcomers were tried that get past one rule to meet another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Together {
    /// Yes, for each rule and each that may stand before it.
    Tried,
    /// There are too many; each rule was only tried by itself.
    TooMany,
}

/// How many newcomers there may be for rules taken together.
const TOGETHER: usize = 20_000;

/// A peer of rules, by the labels of the namespace and of the pod.
pub(super) type Condition<'m> = (&'m LabelSelector, &'m LabelSelector);

/// What rules do with those whom a condition holds for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uses {
    accepts: bool,
    denies: bool,
    passes: bool,
}

/// Puts newcomers into a model, behind the pods that are there.
pub(super) fn join(model: &mut Model, choice: &Choice, addresses: &[IpAddr]) -> Newcomers {
    let (wishes, together) = wishes(model, choice);
    let mut met: HashSet<(Labels, Labels)> = HashSet::new();
    let mut all = Vec::new();
    for wish in wishes {
        let Some((namespace, labels)) = choice.labels(&wish) else { continue };
        if !met.insert((namespace.clone(), labels.clone())) {
            continue;
        }
        // Two newcomers may want one name; they never meet, so the place in the list tells them apart.
        let place = format!("{} {}", choice.fresh, all.len());
        model.namespaces.insert(place.clone().into(), Namespace { labels: namespace.clone(), assumed: true });
        let id = model.endpoints.push(pod(&place, labels.clone(), addresses));
        all.push((Newcomer { wish, namespace, labels }, id));
    }
    Newcomers { all, together }
}

pub(super) fn pod(namespace: &str, labels: Labels, addresses: &[IpAddr]) -> Endpoint {
    Endpoint {
        attachment: None,
        name: PodName { namespace: namespace.into(), name: "new".into() },
        labels,
        addresses: addresses.to_vec(),
        node: None,
        ports: Vec::new(),
        owners: Vec::new(),
        readiness: Readiness::Ready,
        running: Running::NotSaid,
    }
}

/// An address for each family that pods have, from where most of them are, and whether policy tells pods apart by their addresses.
pub(super) fn addresses(model: &Model) -> (Vec<IpAddr>, bool) {
    let mut cuts: Vec<IpAddr> = Vec::new();
    for block in model.ip_blocks() {
        for net in [block.cidr].iter().chain(&block.except) {
            cuts.push(net.network());
            cuts.extend(after(net.broadcast()));
        }
    }
    cuts.sort_unstable();
    cuts.dedup();
    let (mut found, mut apart) = (Vec::new(), false);
    for family in [Family::V4, Family::V6] {
        let mut regions: BTreeMap<usize, (usize, IpAddr)> = BTreeMap::new();
        for endpoint in &model.endpoints {
            if let Some(address) = endpoint.addresses.iter().find(|it| Family::of(**it) == family) {
                let region = cuts.partition_point(|it| it <= address);
                regions.entry(region).or_insert((0, *address)).0 += 1;
            }
        }
        apart |= regions.len() > 1;
        // Of equal ones the first.
        found.extend(regions.into_values().rev().max_by_key(|it| it.0).map(|it| it.1));
    }
    (found, apart)
}

/// Whether some rule of a direction asks for a named port.
pub(super) fn names_a_port(model: &Model, direction: Direction) -> bool {
    let mut rules = model.policies.iter().flat_map(|it| it.rules.of(direction));
    rules.any(|it| match &it.ports {
        PortSet::Any => false,
        PortSet::Of(ports) => ports.iter().any(|it| matches!(it, PortMatch::Named { .. })),
    })
}

fn after(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(it) => it.to_bits().checked_add(1).map(|it| IpAddr::V4(it.into())),
        IpAddr::V6(it) => it.to_bits().checked_add(1).map(|it| IpAddr::V6(it.into())),
    }
}

/// Conditions on pods of any namespace, with what rules use them for.
pub(super) fn conditions(model: &Model) -> BTreeMap<Condition<'_>, Uses> {
    let mut found: BTreeMap<Condition<'_>, Uses> = BTreeMap::new();
    for policy in &model.policies {
        for rule in policy.rules.egress.iter().chain(&policy.rules.ingress) {
            let PeerSet::Of(peers) = &rule.peers else { continue };
            for peer in peers {
                let Peer::Pods { namespaces: NamespaceSet::Matching(namespaces), pods } = peer else { continue };
                let uses = found.entry((namespaces, pods)).or_default();
                match rule.action {
                    Action::Accept => uses.accepts = true,
                    Action::Deny => uses.denies = true,
                    Action::Pass => uses.passes |= policy.tier == Tier::Admin,
                }
            }
        }
    }
    found
}

/// Every wish, the shortest first.
fn wishes(model: &Model, choice: &Choice) -> (Vec<Wish>, Together) {
    let conditions = conditions(model);
    let of = |wanted: fn(&Uses) -> bool| conditions.iter().filter(move |(_, uses)| wanted(uses)).map(|(condition, _)| *condition);
    let (accepted, passing): (Vec<Wish>, Vec<Wish>) = (of(|it| it.accepts).map(asked).collect(), of(|it| it.passes).map(asked).collect());
    let evading: Vec<Wish> = of(|it| it.denies).flat_map(evaded).collect();
    let mut wishes = vec![Wish::default(), choice.as_many(Wish::default(), of(|it| it.accepts).flat_map(evaded))];
    wishes.extend(conditions.keys().map(|it| asked(*it)));
    wishes.extend(conditions.keys().flat_map(|it| evaded(*it)));
    let together = match accepted.len().saturating_mul(passing.len() + evading.len() + 1) {
        0..=TOGETHER => Together::Tried,
        _ => Together::TooMany,
    };
    for wish in accepted.iter().filter(|_| together == Together::Tried) {
        wishes.extend(passing.iter().chain(&evading).map(|it| wish.and(it)));
        wishes.push(choice.as_many(wish.clone(), evading.iter().cloned()));
    }
    wishes.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    wishes.dedup();
    (wishes, together)
}

/// To meet a condition.
pub(super) fn asked((namespace, pod): Condition<'_>) -> Wish {
    Wish::default().and(&Wish { namespace: namespace.clone(), pod: pod.clone() })
}

/// The ways not to meet a condition that everyone without labels meets.
fn evaded((namespace, pod): Condition<'_>) -> Vec<Wish> {
    let against = |it: &Requirement| match &it.operator {
        Operator::NotIn(values) => Some(Requirement { key: it.key.clone(), operator: Operator::In(values.clone()) }),
        Operator::DoesNotExist => Some(Requirement { key: it.key.clone(), operator: Operator::Exists }),
        Operator::Equals(_) | Operator::In(_) | Operator::Exists => None,
    };
    let one = |it| LabelSelector { requirements: vec![it] };
    let opposite = |selector: &LabelSelector| selector.requirements.iter().map(against).collect::<Option<Vec<Requirement>>>();
    let (Some(of_namespace), Some(of_pod)) = (opposite(namespace), opposite(pod)) else { return Vec::new() };
    let by_namespace = of_namespace.into_iter().map(|it| Wish { namespace: one(it), pod: LabelSelector::default() });
    let by_pod = of_pod.into_iter().map(|it| Wish { namespace: LabelSelector::default(), pod: one(it) });
    by_namespace.chain(by_pod).collect()
}

impl Wish {
    /// How much it asks.
    fn len(&self) -> usize {
        self.namespace.requirements.len() + self.pod.requirements.len()
    }

    /// Both at once, with each requirement once.
    pub(super) fn and(&self, other: &Wish) -> Wish {
        let both = |a: &LabelSelector, b: &LabelSelector| {
            let all: BTreeSet<&Requirement> = a.requirements.iter().chain(&b.requirements).collect();
            LabelSelector { requirements: all.into_iter().cloned().collect() }
        };
        Wish { namespace: both(&self.namespace, &other.namespace), pod: both(&self.pod, &other.pod) }
    }

    /// Whether it asks for all that another asks for.
    pub(super) fn asks_all_of(&self, other: &Wish) -> bool {
        let within = |a: &LabelSelector, b: &LabelSelector| b.requirements.iter().all(|it| a.requirements.contains(it));
        within(&self.namespace, &other.namespace) && within(&self.pod, &other.pod)
    }
}
