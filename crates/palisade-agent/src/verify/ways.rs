//! Which link of a node leads to which pod.

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_model::{EndpointId, Model, NetworkId, NodeId, Place};
use palisade_nft::Table;

use crate::verify::Held;

/// The links of the pods of a node, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    pub links: BTreeMap<EndpointId, String>,
    /// Pods whose link only the table itself names: no route and no neighbour shows it.
    pub believed: Vec<EndpointId>,
}

/// Finds the links of the pods of a node: by host routes, by the neighbours of bridges, and where neither tells, by what the table binds.
pub fn links_of(model: &Model, node: NodeId, held: &Held) -> Ways {
    let mut ways = Ways::default();
    let examined = held.examined(Table::Own);
    let bound = |address: &IpAddr| {
        let sets = examined.iter().flat_map(|it| it.ruleset.sets.values()).flat_map(|it| &it.elements);
        let exists = |link: &String| held.environment.links.iter().any(|it| it.name == *link);
        sets.filter(|(link, it)| it == address && exists(link)).map(|(link, _)| link.clone()).next()
    };
    for (at, endpoint) in model.endpoints.iter().enumerate().filter(|(_, it)| it.node == Some(node)) {
        let id = EndpointId(at);
        let own: Vec<&IpAddr> = endpoint.addresses.iter().filter(|it| model.place_of(NetworkId::DEFAULT, **it) == Place::Pod(id)).collect();
        let shown = own.iter().find_map(|address| held.environment.ways.iter().find(|it| it.to == **address));
        if let Some(way) = shown {
            ways.links.insert(id, way.link.clone());
        } else if let Some(link) = own.into_iter().find_map(bound) {
            ways.links.insert(id, link);
            ways.believed.push(id);
        }
    }
    ways
}
