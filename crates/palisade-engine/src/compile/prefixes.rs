//! The address space of both families as policies cut it: addresses in the same narrowest prefix are in the same blocks.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use palisade_model::{Family, IpBlock};

use crate::compile::intern::{Counted, Uses, index};

/// What no prefix holds.
pub(crate) const NOWHERE: u32 = 0;

/// The prefixes that blocks and their exceptions are made of. Their numbers begin after `NOWHERE`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prefixes {
    nets: Counted<IpNet>,
    /// Wider before narrower, so that what a prefix holds follows it.
    order: BTreeMap<(Family, u128, u8), u32>,
    /// The next wider prefix of each.
    wider: Vec<u32>,
}

impl Prefixes {
    /// One more who uses the prefixes of a block; those that came with it.
    pub(crate) fn add(&mut self, block: &IpBlock) -> Vec<IpNet> {
        nets(block).filter(|it| self.add_net(*it) == Uses::Only).collect()
    }

    fn add_net(&mut self, net: IpNet) -> Uses {
        let (id, uses) = self.nets.add(&net);
        if uses == Uses::Only {
            let id = id + 1;
            let around = self.around(net);
            if self.wider.len() <= index(id) {
                self.wider.resize(index(id) + 1, NOWHERE);
            }
            let within: Vec<u32> = self.within(net).filter(|it| self.wider.get(index(*it)) == Some(&around)).collect();
            for it in within {
                self.set_wider(it, id);
            }
            self.set_wider(id, around);
            self.order.insert(key(net), id);
        }
        uses
    }

    /// One less; those that go with it.
    pub(crate) fn release(&mut self, block: &IpBlock) -> Vec<IpNet> {
        nets(block).filter(|it| self.release_net(*it) == Uses::Only).collect()
    }

    fn release_net(&mut self, net: IpNet) -> Uses {
        let Some(id) = self.order.get(&key(net)).copied() else { return Uses::Others };
        let Some(counted) = id.checked_sub(1) else { return Uses::Others };
        let uses = self.nets.release(counted);
        if uses == Uses::Only {
            self.nets.forget(&[counted]);
            self.order.remove(&key(net));
            let around = self.wider.get(index(id)).copied().unwrap_or(NOWHERE);
            let within: Vec<u32> = self.within(net).filter(|it| self.wider.get(index(*it)) == Some(&id)).collect();
            for it in within {
                self.set_wider(it, around);
            }
        }
        uses
    }

    fn set_wider(&mut self, id: u32, wider: u32) {
        if let Some(place) = self.wider.get_mut(index(id)) {
            *place = wider;
        }
    }

    pub(crate) fn get(&self, id: u32) -> Option<IpNet> {
        self.nets.get(id.checked_sub(1)?).copied()
    }

    /// The next wider prefix.
    pub(crate) fn wider(&self, id: u32) -> u32 {
        self.wider.get(index(id)).copied().unwrap_or(NOWHERE)
    }

    /// Every prefix, wider before narrower.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.order.values().copied()
    }

    /// The prefixes that a net holds, itself included.
    pub(crate) fn within(&self, net: IpNet) -> impl Iterator<Item = u32> + '_ {
        let (family, first, length) = key(net);
        self.order.range((family, first, length)..=(family, bits(net.broadcast()), u8::MAX)).map(|(_, id)| *id)
    }

    /// The narrowest prefix that holds a net and is not the net itself.
    fn around(&self, net: IpNet) -> u32 {
        let before = self.order.range(..key(net)).next_back().map_or(NOWHERE, |(_, id)| *id);
        self.climb(before, |it| it.contains(&net))
    }

    /// The narrowest prefix that holds an address.
    pub(crate) fn locate(&self, address: IpAddr) -> u32 {
        let before = self.order.range(..=(Family::of(address), bits(address), u8::MAX)).next_back().map_or(NOWHERE, |(_, id)| *id);
        self.climb(before, |it| it.contains(&address))
    }

    fn climb(&self, mut id: u32, holds: impl Fn(&IpNet) -> bool) -> u32 {
        while let Some(net) = self.get(id) {
            if holds(&net) {
                return id;
            }
            id = self.wider(id);
        }
        NOWHERE
    }

    /// Whether a block holds the addresses of a prefix that no narrower one holds.
    pub(crate) fn holds(&self, block: &IpBlock, id: u32) -> bool {
        self.get(id).is_some_and(|net| block.cidr.contains(&net) && !block.except.iter().any(|it| it.contains(&net)))
    }

    /// All addresses as ranges in order, IPv4 first, each with the narrowest prefix that holds it.
    pub(crate) fn ranges(&self) -> Vec<(IpAddr, IpAddr, u32)> {
        let mut starts: Vec<(Family, u128)> = vec![(Family::V4, 0), (Family::V6, 0)];
        for net in self.nets.iter().map(|(_, net)| *net) {
            let (family, first, _) = key(net);
            starts.push((family, first));
            starts.extend(bits(net.broadcast()).checked_add(1).filter(|it| *it <= top(family)).map(|it| (family, it)));
        }
        starts.sort_unstable();
        starts.dedup();
        let lasts = starts.iter().skip(1).map(Some).chain([None]);
        let ranges = starts.iter().zip(lasts).map(|((family, first), next)| {
            let last = match next {
                Some((same, next)) if same == family => next - 1,
                Some(_) | None => top(*family),
            };
            let first = address(*family, *first);
            (first, address(*family, last), self.locate(first))
        });
        ranges.collect()
    }
}

fn nets(block: &IpBlock) -> impl Iterator<Item = IpNet> + '_ {
    std::iter::once(block.cidr).chain(block.except.iter().copied()).map(|it| it.trunc())
}

fn key(net: IpNet) -> (Family, u128, u8) {
    (Family::of(net.network()), bits(net.network()), net.prefix_len())
}

pub(crate) fn top(family: Family) -> u128 {
    match family {
        Family::V4 => u128::from(u32::MAX),
        Family::V6 => u128::MAX,
    }
}

pub(crate) fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(it) => u128::from(u32::from(it)),
        IpAddr::V6(it) => u128::from(it),
    }
}

pub(crate) fn address(family: Family, bits: u128) -> IpAddr {
    match family {
        // A number of this family never is above `top`.
        Family::V4 => IpAddr::from(std::net::Ipv4Addr::from(u32::try_from(bits).unwrap_or(u32::MAX))),
        Family::V6 => IpAddr::from(std::net::Ipv6Addr::from(bits)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(cidr: &str, except: &[&str]) -> IpBlock {
        IpBlock { cidr: cidr.parse().unwrap(), except: except.iter().map(|it| it.parse().unwrap()).collect() }
    }

    /// Whoever came and went: an address is in a block exactly if its prefix is.
    #[test]
    fn a_prefix_knows_the_blocks_of_its_addresses() {
        let blocks = [
            block("10.0.0.0/8", &["10.1.0.0/16", "10.2.3.0/24"]),
            block("0.0.0.0/0", &["10.1.2.0/24"]),
            block("10.1.0.0/16", &[]),
            block("10.1.2.3/32", &[]),
            block("0.0.0.0/0", &[]),
            block("2001:db8::/32", &["2001:db8:1::/48"]),
            block("::/0", &[]),
            block("255.255.255.255/32", &[]),
        ];
        let addresses: Vec<IpAddr> =
            ["0.0.0.0", "9.255.255.255", "10.0.0.0", "10.1.2.3", "10.1.2.4", "10.1.3.0", "10.2.3.255", "10.255.255.255", "11.0.0.0"]
                .into_iter()
                .chain(["255.255.255.254", "255.255.255.255", "::", "2001:db8::1", "2001:db8:1::1", "2001:db9::"])
                .map(|it| it.parse().unwrap())
                .collect();
        for turn in 0..256_u32 {
            let mut prefixes = Prefixes::default();
            let here = |at: usize| turn & (1 << at) != 0;
            // All come, some go, in an order that depends on the turn.
            let mut order: Vec<usize> = (0..blocks.len()).collect();
            order.rotate_left(usize::try_from(turn).unwrap() % blocks.len());
            for at in &order {
                prefixes.add(&blocks[*at]);
            }
            for at in order.iter().rev().filter(|it| !here(**it)) {
                prefixes.release(&blocks[*at]);
            }
            for address in &addresses {
                let id = prefixes.locate(*address);
                for (at, block) in blocks.iter().enumerate().filter(|(at, _)| here(*at)) {
                    assert_eq!(prefixes.holds(block, id), block.contains(*address), "turn {turn}, block {at}, {address}");
                }
                let range = prefixes
                    .ranges()
                    .into_iter()
                    .find(|(first, last, _)| first.is_ipv4() == address.is_ipv4() && first <= address && address <= last);
                assert_eq!(range.unwrap().2, id);
            }
        }
    }
}
