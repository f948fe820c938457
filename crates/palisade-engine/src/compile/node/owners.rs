//! Who has each address that somebody of the cluster has.

use std::net::IpAddr;

use palisade_model::{EndpointId, Model, NodeId, Place};

use crate::compile::intern::index;
use crate::compile::{At, Compiled};

/// An address and who has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) address: IpAddr,
    pub(super) place: Place,
    /// What others see there.
    pub(super) seen: u32,
}

/// Every address once, in order. Says of each what `Model::place_of` does.
pub(super) fn owners(model: &Model, compiled: &Compiled) -> Vec<Owner> {
    let owner = |place, at: &At| Some(Owner { address: at.address?, place, seen: at.foreign });
    let pods =
        compiled.pods.iter().flat_map(|(id, pod)| pod.seen.iter().filter_map(move |it| owner(Place::Pod(EndpointId(index(id))), it)));
    let nodes = compiled.nodes.iter();
    let nodes = nodes.flat_map(|(id, node)| node.seen.iter().filter_map(move |it| owner(Place::Node(NodeId(index(id))), it)));
    let claims: Vec<Owner> = pods.chain(nodes).collect();
    let mut four: Vec<(u32, u32)> = Vec::new();
    let mut six: Vec<(u128, u32)> = Vec::new();
    for (claim, at) in claims.iter().zip(0..) {
        match claim.address {
            IpAddr::V4(it) => four.push((it.into(), at)),
            IpAddr::V6(it) => six.push((it.into(), at)),
        }
    }
    four.sort_unstable();
    six.sort_unstable();
    let in_order = four.into_iter().map(|it| it.1).chain(six.into_iter().map(|it| it.1));
    let mut owners: Vec<Owner> = Vec::with_capacity(claims.len());
    for at in in_order {
        let Some(claim) = claims.get(index(at)) else { continue };
        match owners.last_mut().filter(|it| it.address == claim.address) {
            Some(known) if model.claim_order(claim.place, known.place).is_lt() => *known = *claim,
            Some(_) => {}
            None => owners.push(*claim),
        }
    }
    owners
}
