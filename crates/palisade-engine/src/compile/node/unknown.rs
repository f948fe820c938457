//! Where in the address space pods are that are not known.

use std::net::IpAddr;

use ipnet::IpNet;
use palisade_model::{Family, IpBlock};

use crate::compile::node::classes::ClassKind;
use crate::compile::prefixes::{address, bits};

/// A range of addresses that nobody is known to have, in pieces: those of pods and those of the outside.
pub(super) fn pieces(first: IpAddr, last: IpAddr, pods: &[IpBlock]) -> Vec<(IpAddr, IpAddr, ClassKind)> {
    let family = Family::of(first);
    let (start, end) = (bits(first), bits(last));
    let edges = |net: IpNet| [Some(bits(net.network())), bits(net.broadcast()).checked_add(1)];
    let nets = pods.iter().flat_map(|it| std::iter::once(it.cidr).chain(it.except.iter().copied()));
    let nets = nets.filter(|it| Family::of(it.network()) == family);
    let mut starts: Vec<u128> = nets.flat_map(edges).flatten().filter(|it| (start..=end).contains(it)).chain([start]).collect();
    starts.sort_unstable();
    starts.dedup();
    let lasts = starts.iter().skip(1).map(|next| next - 1).chain([end]);
    let pieces = starts.iter().zip(lasts).map(|(start, end)| {
        let first = address(family, *start);
        let of_pods = pods.iter().any(|it| it.contains(first));
        (first, address(family, end), if of_pods { ClassKind::UnknownPod } else { ClassKind::Outside })
    });
    pieces.collect()
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
        let found = pieces(range.0.parse().unwrap(), range.1.parse().unwrap(), &pods);
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
