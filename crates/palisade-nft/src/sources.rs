//! Sources bound to links: what a pod sends comes in by its link with its own addresses, or not at all.
//!
//! Containers may make packets of their own. Without this a pod that may talk to nobody does so with the source of another, and meets
//! the policy of that one; or with its link-local address, which no policy knows.
//!
//! The chain meets IPv4 and IPv6 only: ARP never comes to a chain of the family `inet`, and passes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_engine::Known;
use palisade_model::{EndpointId, Model, Place};

use crate::ids::Ids;
use crate::lower::guard_rule;
use crate::ruleset::{Address, Chain, Guard, Hook, Match, Neighbour, Rule, Ruleset, SourceSet, Verdict};

/// The kernel takes no more for one chain.
const DEVICES: usize = 255;

/// Adds the chain and the sets that it asks, if any link is known. Where there are too many links for one chain, others like it follow.
pub(crate) fn bind_sources(model: &Model, known: &[Known], links: &BTreeMap<EndpointId, String>, ids: &mut Ids, ruleset: &mut Ruleset) {
    if links.is_empty() {
        return;
    }
    // A pod's own sources first: they are almost all there is.
    let mut rules = Vec::new();
    for family in Address::BOTH {
        let set = format!("sources{}", family.digit());
        ruleset.sets.insert(set.clone(), SourceSet { family, elements: own(model, known, links, family) });
        rules.push(Rule::to(Verdict::Accept).when(Match::LinkAndSource { family, set }));
    }
    // With any other source, these would be forwarded as packets of that one, or answered to it. What routers say, no pod has to.
    let neighbours = [Neighbour::Unspecified, Neighbour::LinkLocal].into_iter();
    let own_link = neighbours.flat_map(|it| {
        [
            Match::RouterSolicitationFrom(it),
            Match::NeighbourDiscoveryFrom(it),
            Match::ListenerDiscoveryFrom(it),
            Match::ListenerReportFrom(it),
        ]
    });
    rules.extend(own_link.map(|it| Rule::to(Verdict::Accept).when(it)));
    rules.push(guard_rule(Guard::ForgedSource, ids, ruleset));
    // A link that changed its chain when another comes or goes would be two changes where none is needed.
    let rooms = ids.rooms(&links.values().collect(), DEVICES);
    for (number, devices) in (1..).zip(rooms).filter(|(_, devices)| !devices.is_empty()) {
        let name = if number == 1 { "sources".to_owned() } else { format!("sources-{number}") };
        ruleset.chains.insert(name, Chain { hook: Some(Hook::Ingress { devices }), rules: rules.clone() });
    }
}

/// Each link with the addresses of its pod. One that two pods claim belongs to one of them.
pub(crate) fn own(model: &Model, known: &[Known], links: &BTreeMap<EndpointId, String>, family: Address) -> BTreeSet<(String, IpAddr)> {
    let owner = |address| known.binary_search_by_key(&address, |it| it.address).ok().and_then(|at| known.get(at)).map(|it| it.place);
    let pods = links.iter().filter_map(|(id, link)| Some((*id, link, model.endpoint(*id)?)));
    let each = pods.flat_map(|(id, link, pod)| pod.addresses.iter().map(move |address| (id, link, *address)));
    let own = each.filter(|(id, _, address)| Address::of(*address) == family && owner(*address) == Some(Place::Pod(*id)));
    own.map(|(_, link, address)| (link.clone(), address)).collect()
}
