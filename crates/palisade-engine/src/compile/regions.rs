//! The address space of both families, cut where policies cut it: each region is on one side of every block in use.

use std::net::IpAddr;

use ipnet::IpNet;
use palisade_model::{Family, IpBlock};

use crate::compile::intern::Lists;

/// Regions in order, IPv4 first, with the blocks that hold each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Regions {
    /// The first address of each.
    starts: Vec<(Family, u128)>,
    /// The blocks of each, as a list.
    held_by: Vec<u32>,
    pub(crate) lists: Lists,
}

impl Regions {
    /// Cuts the space by blocks, which are known by their place.
    pub(crate) fn cut(blocks: &[IpBlock]) -> Regions {
        let mut starts: Vec<(Family, u128)> = vec![(Family::V4, 0), (Family::V6, 0)];
        for net in blocks.iter().flat_map(|it| std::iter::once(&it.cidr).chain(&it.except)) {
            let (family, first, last) = ends(net);
            starts.push((family, first));
            starts.extend(last.checked_add(1).filter(|it| *it <= top(family)).map(|it| (family, it)));
        }
        starts.sort_unstable();
        starts.dedup();
        let mut regions = Regions { starts, held_by: Vec::new(), lists: Lists::default() };
        // Each block is a run of regions without some runs.
        let mut holding: Vec<Vec<u32>> = vec![Vec::new(); regions.starts.len()];
        for (block, id) in blocks.iter().zip(0..) {
            let mut without: Vec<(usize, usize)> = block.except.iter().map(|it| regions.run(it)).collect();
            without.sort_unstable();
            let (first, end) = regions.run(&block.cidr);
            for (at, held) in holding.iter_mut().enumerate().take(end).skip(first) {
                if !without.iter().any(|(first, end)| (*first..*end).contains(&at)) {
                    held.push(id);
                }
            }
        }
        regions.held_by = holding.iter().map(|it| regions.lists.intern(it)).collect();
        regions
    }

    /// The places of the regions that make up a net.
    fn run(&self, net: &IpNet) -> (usize, usize) {
        let (family, first, last) = ends(net);
        let from = self.starts.partition_point(|it| *it < (family, first));
        (from, self.starts.partition_point(|it| *it <= (family, last)))
    }

    /// The list of blocks that hold an address.
    pub(crate) fn holding(&self, address: IpAddr) -> u32 {
        let key = (Family::of(address), bits(address));
        let at = self.starts.partition_point(|it| *it <= key).saturating_sub(1);
        self.held_by.get(at).copied().unwrap_or(0)
    }

    /// First and last address of each region with the list of its blocks.
    pub(crate) fn all(&self) -> impl Iterator<Item = (IpAddr, IpAddr, u32)> + '_ {
        let lasts = self.starts.iter().skip(1).map(Some).chain([None]);
        let whole = self.starts.iter().zip(lasts).zip(&self.held_by);
        whole.map(|(((family, first), next), held)| {
            let last = match next {
                Some((same, next)) if same == family => next - 1,
                Some(_) | None => top(*family),
            };
            (address(*family, *first), address(*family, last), *held)
        })
    }
}

fn ends(net: &IpNet) -> (Family, u128, u128) {
    (Family::of(net.network()), bits(net.network()), bits(net.broadcast()))
}

fn top(family: Family) -> u128 {
    match family {
        Family::V4 => u128::from(u32::MAX),
        Family::V6 => u128::MAX,
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(it) => u128::from(u32::from(it)),
        IpAddr::V6(it) => u128::from(it),
    }
}

fn address(family: Family, bits: u128) -> IpAddr {
    match family {
        // A number of this family never is above `top`.
        Family::V4 => IpAddr::from(std::net::Ipv4Addr::from(u32::try_from(bits).unwrap_or(u32::MAX))),
        Family::V6 => IpAddr::from(std::net::Ipv6Addr::from(bits)),
    }
}
