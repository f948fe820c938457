//! Where in the address space pods are that are not known.

use std::net::IpAddr;

use ipnet::IpNet;
use palisade_model::{Family, IpBlock};

use crate::compile::node::classes::ClassKind;
use crate::compile::node::holding::exceptions;
use crate::compile::prefixes::{address, bits};

/// The addresses of pods that may not be known, as ranges.
#[derive(Debug)]
pub(super) struct PodRanges {
    /// Where another kind of addresses begins, in order. Before the first of a family is the outside.
    starts: Vec<(Family, u128, ClassKind)>,
}

impl PodRanges {
    pub(super) fn of(pods: &[IpBlock]) -> PodRanges {
        let mut edges: Vec<(Family, u128, i64)> = Vec::new();
        for (block, except) in pods.iter().filter_map(|it| Some((it, exceptions(it)?))) {
            let mut count = |net: IpNet, by: i64| {
                let family = Family::of(net.network());
                edges.push((family, bits(net.network()), by));
                // What ends with the last address of all needs no end, since the ranges that are asked about end there.
                edges.extend(bits(net.broadcast()).checked_add(1).map(|end| (family, end, -by)));
            };
            count(block.cidr, 1);
            except.into_iter().for_each(|it| count(it, -1));
        }
        edges.sort_unstable();
        let mut starts: Vec<(Family, u128, ClassKind)> = Vec::new();
        let (mut count, mut of) = (0, Family::V4);
        for at in edges.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let Some((family, start, _)) = at.first() else { continue };
            if *family != of {
                (count, of) = (0, *family);
            }
            count += at.iter().map(|it| it.2).sum::<i64>();
            starts.push((*family, *start, if count > 0 { ClassKind::UnknownPod } else { ClassKind::Outside }));
        }
        PodRanges { starts }
    }

    /// A range of addresses that nobody is known to have, in pieces: those of pods and those of the outside.
    pub(super) fn pieces(&self, first: IpAddr, last: IpAddr) -> Vec<(IpAddr, IpAddr, ClassKind)> {
        let family = Family::of(first);
        let (start, end) = (bits(first), bits(last));
        let from = self.starts.partition_point(|it| (it.0, it.1) <= (family, start));
        let before = from.checked_sub(1).and_then(|it| self.starts.get(it)).filter(|it| it.0 == family);
        let mut pieces = vec![(start, before.map_or(ClassKind::Outside, |it| it.2))];
        let within = self.starts.iter().skip(from).take_while(|it| it.0 == family && it.1 <= end);
        for (_, start, kind) in within {
            if pieces.last().is_some_and(|it| it.1 != *kind) {
                pieces.push((*start, *kind));
            }
        }
        let lasts: Vec<u128> = pieces.iter().skip(1).map(|it| it.0 - 1).chain([end]).collect();
        let pieces = pieces.into_iter().zip(lasts);
        pieces.map(|((start, kind), end)| (address(family, start), address(family, end), kind)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(range: (&str, &str), pods: &[(&str, &[&str])], expected: &[(&str, &str, ClassKind)]) {
        let block = |(cidr, except): &(&str, &[&str])| IpBlock {
            cidr: cidr.parse().unwrap(),
            except: except.iter().map(|it| it.parse().unwrap()).collect(),
        };
        let pods: Vec<IpBlock> = pods.iter().map(block).collect();
        let found = PodRanges::of(&pods).pieces(range.0.parse().unwrap(), range.1.parse().unwrap());
        let expected: Vec<(IpAddr, IpAddr, ClassKind)> =
            expected.iter().map(|(first, last, kind)| (first.parse().unwrap(), last.parse().unwrap(), *kind)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_range_is_cut_where_pods_begin_and_end() {
        use ClassKind::{Outside, UnknownPod};
        let all = ("0.0.0.0", "255.255.255.255");
        check(all, &[], &[("0.0.0.0", "255.255.255.255", Outside)]);
        check(all, &[("0.0.0.0/0", &[])], &[("0.0.0.0", "255.255.255.255", UnknownPod)]);
        check(all, &[("255.0.0.0/8", &[])], &[("0.0.0.0", "254.255.255.255", Outside), ("255.0.0.0", "255.255.255.255", UnknownPod)]);
        check(("10.0.0.0", "10.0.0.255"), &[("10.0.0.0/8", &[])], &[("10.0.0.0", "10.0.0.255", UnknownPod)]);
        check(("11.0.0.0", "11.0.0.255"), &[("10.0.0.0/8", &[]), ("fd00::/16", &[])], &[("11.0.0.0", "11.0.0.255", Outside)]);
        check(
            ("10.0.0.0", "10.0.0.9"),
            &[("10.0.0.0/29", &["10.0.0.1/32"])],
            &[
                ("10.0.0.0", "10.0.0.0", UnknownPod),
                ("10.0.0.1", "10.0.0.1", Outside),
                ("10.0.0.2", "10.0.0.7", UnknownPod),
                ("10.0.0.8", "10.0.0.9", Outside),
            ],
        );
        check(
            ("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            &[("::/0", &[])],
            &[("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", UnknownPod)],
        );
    }
}
