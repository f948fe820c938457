//! Pods of the node that the agent does not know, behind interfaces whose names match no pattern of pods: a host route shows them.
//!
//! The rules of the own table drop packets by the names of interfaces, from the first packet on. A CNI may use other names. Then a host route shows that the node
//! has a pod: a route to an unowned address in a range of pods, or to a pod of the node by another interface than its own. Packets of that address are
//! dropped on that interface until the pod is known.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use palisade_model::{Place, Service};
use palisade_nft::{Guard, Origin, PodLinks, Unknown, UnknownPod, UnknownPods};

use crate::cluster::Cluster;

/// The unknown pods that host routes of the node lead to. None where unknown pods are not closed.
pub(crate) fn unknown_pods(
    cluster: &Cluster,
    unknown: &Unknown,
    origins: &BTreeMap<u32, Origin>,
    routes: impl Iterator<Item = UnknownPod>,
) -> UnknownPods {
    let origin = origins.iter().find(|(_, it)| **it == Origin::Guard(Guard::UnknownPod)).map(|(number, _)| *number);
    let (Unknown::Closed(closed), Some(origin)) = (unknown, origin) else { return UnknownPods::default() };
    let model = cluster.model();
    let own = cluster.links().iter().flat_map(|(id, link)| {
        let addresses = model.endpoint(*id).map_or(&[][..], |it| it.addresses.as_slice());
        addresses.iter().map(move |it| (*it, link.as_str()))
    });
    let known =
        Known { closed, cluster, services: model.services.iter().flat_map(Service::addresses).copied().collect(), own: own.collect() };
    UnknownPods { origin, pods: routes.filter(|(link, address)| known.is_unknown(link, *address)).collect() }
}

struct Known<'a> {
    closed: &'a PodLinks,
    cluster: &'a Cluster,
    services: HashSet<IpAddr>,
    /// The links of the node's own pods.
    own: BTreeMap<IpAddr, &'a str>,
}

impl Known<'_> {
    /// Whether a pod is behind a link that the agent does not know.
    fn is_unknown(&self, link: &str, address: IpAddr) -> bool {
        if self.closed.covers(link) || self.closed.bridges.contains(link) || self.closed.exempt.contains(&address) {
            return false;
        }
        match self.own.get(&address) {
            Some(own) => *own != link,
            None => !self.is_known(address) && self.cluster.model().pod_ranges.iter().any(|it| it.contains(address)),
        }
    }

    fn is_known(&self, address: IpAddr) -> bool {
        self.cluster.place(address) != Place::Outside || self.services.contains(&address)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use palisade_model::{Endpoint, EndpointId, Model, NodeId, PodName, Readiness, Running};
    use palisade_nft::LinkName;

    use super::*;

    #[test]
    fn a_route_shows_an_unknown_pod_but_on_links_of_pods() {
        let pod = |address: &str| Endpoint {
            attachment: None,
            name: PodName { namespace: "x".into(), name: address.into() },
            labels: Default::default(),
            addresses: vec![address.parse().unwrap()],
            node: Some(NodeId(0)),
            ports: Vec::new(),
            owners: Vec::new(),
            readiness: Readiness::Ready,
            running: Running::Yes,
        };
        let mut model = Model { endpoints: vec![pod("10.0.0.1"), pod("10.0.0.2")].into(), ..Model::default() };
        model.close_ranges(&["10.0.0.0/24".parse().unwrap()], &BTreeSet::new());
        let links = BTreeMap::from([(EndpointId(0), "tap1".to_owned())]);
        let names = [LinkName::Beginning("cali".to_owned())].into();
        let exempt = ["10.0.0.9".parse().unwrap()].into();
        let closed = Unknown::Closed(PodLinks { names, bridges: ["cni0".to_owned()].into(), exempt });
        let origins = BTreeMap::from([(7, Origin::Guard(Guard::UnknownPod))]);
        let cluster = Cluster::of(model, NodeId(0), links);
        for (link, address, expected) in [
            ("tap2", "10.0.0.3", true),
            ("cali2", "10.0.0.3", false),
            ("cni0", "10.0.0.3", false),
            ("tap2", "10.0.0.9", false),
            ("tap2", "10.0.1.3", false),
            // A pod of the node by another link than its own.
            ("tap1", "10.0.0.1", false),
            ("tap2", "10.0.0.1", true),
            // Known, and its link is not.
            ("tap2", "10.0.0.2", false),
        ] {
            let route = (link.to_owned(), address.parse().unwrap());
            let found = unknown_pods(&cluster, &closed, &origins, [route.clone()].into_iter());
            let pods = if expected { [route.clone()].into() } else { BTreeSet::new() };
            assert_eq!(found, UnknownPods { origin: 7, pods }, "{link} {address}");
            assert!(unknown_pods(&cluster, &Unknown::Open, &origins, [route].into_iter()).pods.is_empty());
        }
    }
}
