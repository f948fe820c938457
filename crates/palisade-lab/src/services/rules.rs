//! What kube-proxy would write for the Services of a plan.

use std::net::IpAddr;

use palisade_analysis::{Destination, backends_of};
use palisade_model::{Family, Model, Service};

use super::ServiceRule;

/// A rule for each address and port of each Service. One whose endpoints somebody else writes, or that is only a DNS name, has none.
pub(crate) fn rules(model: &Model) -> Vec<ServiceRule> {
    model.services.iter().flat_map(|service| rules_of(model, service)).collect()
}

fn rules_of(model: &Model, service: &Service) -> Vec<ServiceRule> {
    let mut rules = Vec::new();
    for port in &service.ports {
        let Ok(destinations) = backends_of(model, service, port) else { continue };
        for address in service.addresses() {
            let backends = destinations.iter().filter_map(|it| backend(it, Family::of(*address))).collect();
            rules.push(ServiceRule { address: *address, protocol: port.protocol, port: port.port, backends });
        }
    }
    rules
}

fn backend(destination: &Destination, family: Family) -> Option<(IpAddr, u16)> {
    let address = destination.candidate.addresses.iter().copied().find(|it| Family::of(*it) == family);
    address.zip(destination.port)
}
