//! Addresses that stand for the world outside of the cluster.
//!
//! Two CIDRs either contain one another or have nothing in common, so those in use cut each family into regions: a block without the blocks
//! inside of it, and what is in no block at all. No policy can tell two addresses of one region apart.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Addresses that are meant for examples, taken where they are in the region.
const EXAMPLES: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(203, 0, 113, 10)),
    IpAddr::V4(Ipv4Addr::new(198, 51, 100, 10)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x10)),
];

/// One address for each region, IPv4 first and in their order. A region in which every address is `inside` has none.
pub(super) fn representatives(networks: &BTreeSet<IpNet>, inside: &BTreeSet<IpAddr>) -> Vec<IpAddr> {
    let whole = [IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())];
    let all: BTreeSet<IpNet> = networks.iter().copied().chain(whole).collect();
    // A block comes right before those inside of it.
    let mut nets: Vec<IpNet> = all.into_iter().collect();
    nets.sort_by_key(|net| (net.network(), net.prefix_len()));
    let found: BTreeSet<IpAddr> = nets.iter().enumerate().filter_map(|(at, net)| in_region(*net, nets.get(at + 1..)?, inside)).collect();
    found.into_iter().collect()
}

/// An address of `net` that is in none of the blocks inside of it. `later` are all blocks that follow in order.
fn in_region(net: IpNet, later: &[IpNet], inside: &BTreeSet<IpAddr>) -> Option<IpAddr> {
    let within = later.split(|it| !net.contains(it)).next().unwrap_or_default();
    let free = |address: &IpAddr| net.contains(address) && !inside.contains(address) && !within.iter().any(|it| it.contains(address));
    if let Some(example) = EXAMPLES.iter().find(|it| free(it)) {
        return Some(*example);
    }
    let mut next = number(net.network());
    for block in within {
        // Blocks inside of one that was passed begin before `next`.
        if number(block.network()) > next
            && let Some(address) = first_free(net, next, number(block.network()) - 1, inside)
        {
            return Some(address);
        }
        next = next.max(number(block.broadcast()).checked_add(1)?);
    }
    let last = number(net.broadcast());
    if next <= last { first_free(net, next, last, inside) } else { None }
}

/// The first address from `first` to `last` that is not `inside`; the one after a network's own address rather than that.
fn first_free(net: IpNet, first: u128, last: u128, inside: &BTreeSet<IpAddr>) -> Option<IpAddr> {
    let from = if first < last && first == number(net.network()) { first + 1 } else { first };
    let address = |number| address(net, number);
    (from..=last).chain([first]).find(|it| !inside.contains(&address(*it))).map(address)
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

fn address(net: IpNet, number: u128) -> IpAddr {
    match net {
        // Numbers come from addresses of `net`, so they fit.
        IpNet::V4(_) => IpAddr::V4(Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX))),
        IpNet::V6(_) => IpAddr::V6(Ipv6Addr::from(number)),
    }
}
