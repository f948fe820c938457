//! Ranges of addresses that nobody of the cluster is known by.

use std::net::IpAddr;

use palisade_engine::Reach;
use palisade_model::{End, Model};

/// A range with an end that stands for it.
pub(crate) type Range = (IpAddr, IpAddr, End);

/// The addresses of pods, nodes and Services, in order.
#[derive(Debug)]
pub(crate) struct KnownAddresses(Vec<(bool, u128)>);

impl KnownAddresses {
    pub(crate) fn of(model: &Model) -> KnownAddresses {
        let pods = model.endpoints.iter().flat_map(|it| &it.addresses);
        let nodes = model.nodes.iter().flat_map(|it| &it.addresses);
        let services = model.services.iter().flat_map(|it| it.addresses());
        let mut all: Vec<(bool, u128)> = pods.chain(nodes).chain(services).map(|it| place(*it)).collect();
        all.sort_unstable();
        all.dedup();
        KnownAddresses(all)
    }

    /// Whether every address of a range is one of them: then what a rule says of it is said of pods, nodes and Services.
    pub(crate) fn fill(&self, first: IpAddr, last: IpAddr) -> bool {
        let (first, last) = (place(first), place(last));
        let known = self.0.partition_point(|it| *it <= last) - self.0.partition_point(|it| *it < first);
        u128::try_from(known).is_ok_and(|known| known.checked_sub(1) == last.1.checked_sub(first.1))
    }
}

fn place(address: IpAddr) -> (bool, u128) {
    match address {
        IpAddr::V4(it) => (false, u128::from(u32::from(it))),
        IpAddr::V6(it) => (true, u128::from(it)),
    }
}

/// The ranges that policy tells apart and that somebody outside may have an address of.
pub(crate) fn outside(model: &Model, reach: &Reach<'_>) -> Vec<Range> {
    let known = KnownAddresses::of(model);
    reach.outside().filter(|(first, last, _)| !known.fill(*first, *last)).collect()
}

#[cfg(test)]
mod tests {
    use palisade_model::{Labels, Node};

    use super::*;

    #[test]
    fn a_range_is_filled_when_all_its_addresses_are_known() {
        let addresses = ["10.0.0.1", "10.0.0.2", "fd00::1", "255.255.255.255"].map(|it| it.parse().unwrap()).to_vec();
        let node = Node { name: "n".into(), labels: Labels::default(), addresses, host_pods: Vec::new(), assumed: false };
        let known = KnownAddresses::of(&Model { nodes: [node].into(), ..Model::default() });
        let fill = |first: &str, last: &str| known.fill(first.parse().unwrap(), last.parse().unwrap());
        assert!(fill("10.0.0.1", "10.0.0.1") && fill("10.0.0.1", "10.0.0.2") && fill("fd00::1", "fd00::1"));
        assert!(!fill("10.0.0.0", "10.0.0.2") && !fill("10.0.0.2", "10.0.0.3") && !fill("0.0.0.0", "255.255.255.255"));
        assert!(!fill("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff") && fill("255.255.255.255", "255.255.255.255"));
    }
}
