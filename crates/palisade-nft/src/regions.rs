//! The address space, cut where policies cut it: disjoint ranges that cover a family, each on one side of every CIDR and exception in use.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use palisade_model::Model;

use crate::ruleset::Address;

/// First and last address of each range, in order.
pub(crate) fn regions(model: &Model, family: Address) -> Vec<(IpAddr, IpAddr)> {
    let mut starts: BTreeSet<u128> = BTreeSet::from([0]);
    let most = top(family);
    for block in model.ip_blocks() {
        for net in std::iter::once(&block.cidr).chain(&block.except) {
            if Address::of(net.network()) != family {
                continue;
            }
            starts.insert(number(net.network()));
            let last = number(net.broadcast());
            if last < most {
                starts.insert(last + 1);
            }
        }
    }
    let starts: Vec<u128> = starts.into_iter().collect();
    let ends = starts.iter().skip(1).map(|next| next - 1).chain([most]);
    starts.iter().zip(ends).map(|(first, last)| (address(family, *first), address(family, last))).collect()
}

fn top(family: Address) -> u128 {
    match family {
        Address::V4 => u128::from(u32::MAX),
        Address::V6 => u128::MAX,
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(it) => u128::from(u32::from(it)),
        IpAddr::V6(it) => u128::from(it),
    }
}

fn address(family: Address, number: u128) -> IpAddr {
    match family {
        // A number of this family never is above `top`.
        Address::V4 => IpAddr::V4(Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX))),
        Address::V6 => IpAddr::V6(Ipv6Addr::from(number)),
    }
}
