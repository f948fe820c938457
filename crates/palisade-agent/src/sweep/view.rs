//! A cluster as the agent of one node knows it, and which connections a change of it may deny.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use palisade_engine::selects;
use palisade_model::{ContainerPort, Endpoint, EndpointId, Labels, Model, Node, NodeId, Place, PodName, Policy};
use palisade_nft::Address;

/// With more work than this to find out whom changed policies select, everybody counts as selected.
const MOST_SELECTIONS: usize = 2_000_000;

/// A cluster at one time, as one of its nodes sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) model: Arc<Model>,
    node: Option<NodeId>,
    /// The node's end of the link to each of its pods.
    links: BTreeMap<EndpointId, String>,
    /// Who has each address that somebody of the cluster has, as `Model::place_of` says.
    places: HashMap<IpAddr, Place>,
}

/// The ends of connections that a change may have denied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    /// Whose connections are to be judged anew.
    pub(crate) judged: Judged,
    /// Addresses that a pod had and has no longer, with the pod: their connections end, or who gets the address next inherits them.
    pub(crate) left: BTreeMap<IpAddr, PodName>,
}

/// Whose connections are to be judged anew: those with one end at least among these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    Of(HashSet<IpAddr>),
    All,
}

/// How many addresses something is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Amount {
    Nothing,
    Few(BTreeSet<IpAddr>),
    Many,
}

impl Default for Judged {
    fn default() -> Judged {
        Judged::Of(HashSet::new())
    }
}

impl Touched {
    /// Everything is to be judged anew.
    pub(crate) fn all() -> Touched {
        Touched { judged: Judged::All, left: BTreeMap::new() }
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty() && matches!(&self.judged, Judged::Of(addresses) if addresses.is_empty())
    }

    /// Takes in what another change touched.
    pub(crate) fn absorb(&mut self, other: Touched) {
        self.left.extend(other.left);
        match (&mut self.judged, other.judged) {
            (Judged::All, _) => {}
            (judged, Judged::All) => *judged = Judged::All,
            (Judged::Of(addresses), Judged::Of(more)) => addresses.extend(more),
        }
    }

    /// The pod that had one of these addresses, and has it no longer.
    pub(crate) fn left_by(&self, ends: [IpAddr; 2]) -> Option<&PodName> {
        ends.iter().find_map(|it| self.left.get(it))
    }

    /// How many addresses of a family there are, where so many are few.
    pub(crate) fn of(&self, family: Address, few: usize) -> Amount {
        let Judged::Of(judged) = &self.judged else { return Amount::Many };
        let all = judged.iter().chain(self.left.keys()).copied().filter(|it| Address::of(*it) == family);
        let some: BTreeSet<IpAddr> = all.take(few * 2 + 1).collect();
        match some.len() {
            0 => Amount::Nothing,
            many if many > few => Amount::Many,
            _ => Amount::Few(some),
        }
    }

    /// Whether a connection between these ends is to be judged anew.
    pub(crate) fn judges(&self, ends: [IpAddr; 2]) -> bool {
        match &self.judged {
            Judged::All => true,
            Judged::Of(addresses) => ends.iter().any(|it| addresses.contains(it)),
        }
    }
}

impl View {
    /// What a node sees of a cluster. Links are the node's ends of its pods' links.
    pub(crate) fn of(model: &Arc<Model>, node: NodeId, links: &BTreeMap<EndpointId, String>) -> View {
        let mut places: HashMap<IpAddr, Place> = HashMap::with_capacity(model.endpoints.len());
        let rank = |place: Place| match place {
            Place::Pod(id) => (0, model.endpoint(id).map(|it| (it.running, it.readiness)), id.0),
            Place::Node(id) => (1, None, id.0),
            Place::Outside => (2, None, 0),
        };
        let pods = (0..).zip(&model.endpoints).flat_map(|(at, pod)| pod.addresses.iter().map(move |it| (*it, Place::Pod(EndpointId(at)))));
        let nodes = (0..).zip(&model.nodes).flat_map(|(at, node)| node.addresses.iter().map(move |it| (*it, Place::Node(NodeId(at)))));
        for (address, place) in pods.chain(nodes) {
            let owner = places.entry(address).or_insert(place);
            if rank(place) < rank(*owner) {
                *owner = place;
            }
        }
        View { model: Arc::clone(model), node: Some(node), links: links.clone(), places }
    }

    /// Who has an address.
    pub(crate) fn place(&self, address: IpAddr) -> Place {
        self.places.get(&address).copied().unwrap_or(Place::Outside)
    }

    /// Whether some pod has an address.
    pub(crate) fn is_pod(&self, address: IpAddr) -> bool {
        matches!(self.place(address), Place::Pod(_))
    }

    /// Whether a pod of this node has an address.
    pub(crate) fn is_own_pod(&self, address: IpAddr) -> bool {
        match self.place(address) {
            Place::Pod(id) => self.model.endpoint(id).is_some_and(|it| it.node.is_some() && it.node == self.node),
            Place::Node(_) | Place::Outside => false,
        }
    }

    /// Which connections the change from an earlier view may have denied. What two ends may do depends on what is known of each, and
    /// on the policies that select one of them: whoever is not in here may do what they could before.
    pub(crate) fn touched_since(&self, before: &View) -> Touched {
        let mut addresses = HashSet::new();
        for (old, new) in joined(&before.model.endpoints, &self.model.endpoints) {
            let claimed = [old, new].into_iter().flatten().flat_map(|it| it.addresses.iter().copied());
            match (old, new) {
                (Some(old), Some(new)) if before.known_of(old) == self.known_of(new) => {
                    if (old.running, old.readiness) != (new.running, new.readiness) {
                        // It may have won or lost an address that another pod claims, too.
                        addresses.extend(claimed.filter(|it| before.owner(*it) != self.owner(*it)));
                    }
                }
                (Some(_) | None, _) => addresses.extend(claimed),
            }
        }
        addresses.extend(changed_nodes(&before.model, &self.model));
        let judged = match selected(before, self, &mut addresses) {
            // Anybody without a name may have become a pod that is not known, or ceased to be one.
            Selected::Found if before.model.pod_ranges == self.model.pod_ranges => Judged::Of(addresses),
            Selected::Found | Selected::TooMany => Judged::All,
        };
        Touched { judged, left: self.left_since(before) }
    }

    /// Addresses that pods had in an earlier view, and have no longer.
    pub(crate) fn left_since(&self, before: &View) -> BTreeMap<IpAddr, PodName> {
        let had = before.model.endpoints.iter().flat_map(|it| &it.addresses).filter_map(|it| Some((*it, before.owner(*it)?)));
        had.filter(|(address, pod)| self.owner(*address) != Some(*pod)).map(|(address, (name, _))| (address, name.clone())).collect()
    }

    /// The pod that has an address, as one can know it again: by its name, and on this node by its link.
    fn owner(&self, address: IpAddr) -> Option<(&PodName, Option<&str>)> {
        let Place::Pod(id) = self.place(address) else { return None };
        Some((&self.model.endpoint(id)?.name, self.links.get(&id).map(String::as_str)))
    }

    /// Everything about a pod that a verdict can depend on, but for who has its addresses.
    fn known_of<'a>(&'a self, pod: &'a Endpoint) -> (&'a Labels, &'a Labels, &'a [ContainerPort], &'a [IpAddr], Option<&'a str>) {
        let node = pod.node.and_then(|it| self.model.node(it)).map(|it| &*it.name);
        (&pod.labels, self.model.namespace_labels(&pod.name.namespace), &pod.ports, &pod.addresses, node)
    }
}

/// Pods by name, each as it was and as it is.
fn joined<'a>(
    old: impl IntoIterator<Item = &'a Endpoint>,
    new: impl IntoIterator<Item = &'a Endpoint>,
) -> impl Iterator<Item = (Option<&'a Endpoint>, Option<&'a Endpoint>)> {
    // Both are in name order.
    let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
    std::iter::from_fn(move || match (old.peek(), new.peek()) {
        (None, None) => None,
        (Some(_), None) => Some((old.next(), None)),
        (None, Some(_)) => Some((None, new.next())),
        (Some(a), Some(b)) => Some(match a.name.cmp(&b.name) {
            Ordering::Less => (old.next(), None),
            Ordering::Equal => (old.next(), new.next()),
            Ordering::Greater => (None, new.next()),
        }),
    })
}

/// Addresses of nodes that have other labels or addresses than before.
fn changed_nodes(old: &Model, new: &Model) -> BTreeSet<IpAddr> {
    let [old, new] = [old, new].map(|model| model.nodes.iter().map(|it| (&it.name, it)).collect::<BTreeMap<_, _>>());
    let known = |it: Option<&&'_ Node>| it.map(|it| (it.labels.clone(), it.addresses.clone()));
    let changed = old.keys().chain(new.keys()).filter(|it| known(old.get(*it)) != known(new.get(*it)));
    changed.flat_map(|it| [old.get(it), new.get(it)]).flatten().flat_map(|it| it.addresses.iter().copied()).collect()
}

/// Whether all were found whom policies select.
enum Selected {
    Found,
    TooMany,
}

/// Adds the addresses of pods that a policy selects, or selected, that is not what it was.
fn selected(before: &View, after: &View, addresses: &mut HashSet<IpAddr>) -> Selected {
    if before.model.policies == after.model.policies {
        return Selected::Found;
    }
    let [old, new] = [before, after].map(|view| view.model.policies.iter().map(|it| (&it.origin, it)).collect::<BTreeMap<_, _>>());
    for (view, own, other) in [(before, &old, &new), (after, &new, &old)] {
        let changed: Vec<&Policy> = own.iter().filter(|(origin, it)| other.get(*origin) != Some(it)).map(|(_, it)| *it).collect();
        if changed.len().saturating_mul(view.model.endpoints.len()) > MOST_SELECTIONS {
            return Selected::TooMany;
        }
        let pods = view.model.endpoints.iter().filter(|pod| changed.iter().any(|it| selects(&view.model, it, pod)));
        addresses.extend(pods.flat_map(|it| it.addresses.iter().copied()));
    }
    Selected::Found
}
