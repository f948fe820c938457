//! Connections of one subject in one direction: with whom, and which traffic.

use std::net::IpAddr;

use ipnet::IpNet;
use palisade_model::{IpBlock, Labels};

use super::labels::Labelled;
use super::traffic::Traffic;

/// Some connections.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Region {
    pub(super) whom: Whom,
    pub(super) traffic: Traffic,
}

/// The other end. Addresses of pods are not among the addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whom {
    Pods { namespaces: Labelled, pods: Labelled },
    Addresses(IpBlock),
}

impl Whom {
    pub(super) fn everybody() -> Vec<Whom> {
        let all = super::super::rules::everywhere().into_iter().map(Whom::Addresses);
        [Whom::all_pods()].into_iter().chain(all).collect()
    }

    pub(super) fn all_pods() -> Whom {
        Whom::Pods { namespaces: Labelled::default(), pods: Labelled::default() }
    }

    /// Whether a pod is among them, by its labels or by an address.
    pub(super) fn has(&self, of_namespace: &Labels, labels: &Labels, address: Option<IpAddr>) -> bool {
        match self {
            Whom::Pods { namespaces, pods } => namespaces.matches(of_namespace) && pods.matches(labels),
            Whom::Addresses(block) => address.is_some_and(|it| block.contains(it)),
        }
    }

    fn and(&self, other: &Whom) -> Option<Whom> {
        match (self, other) {
            (Whom::Pods { namespaces, pods }, Whom::Pods { namespaces: others, pods: other_pods }) => {
                Some(Whom::Pods { namespaces: namespaces.and(others)?, pods: pods.and(other_pods)? })
            }
            (Whom::Addresses(a), Whom::Addresses(b)) => overlap(a, b).map(Whom::Addresses),
            (Whom::Pods { .. }, Whom::Addresses(_)) | (Whom::Addresses(_), Whom::Pods { .. }) => None,
        }
    }

    fn without(&self, other: &Whom) -> Vec<Whom> {
        match (self, other) {
            (Whom::Pods { namespaces, pods }, Whom::Pods { namespaces: others, pods: other_pods }) => {
                let elsewhere = namespaces.without(others).into_iter().map(|it| Whom::Pods { namespaces: it, pods: pods.clone() });
                let Some(shared) = namespaces.and(others) else { return vec![self.clone()] };
                let there = pods.without(other_pods).into_iter().map(|pods| Whom::Pods { namespaces: shared.clone(), pods });
                elsewhere.chain(there).collect()
            }
            (Whom::Addresses(a), Whom::Addresses(b)) => difference(a, b).into_iter().map(Whom::Addresses).collect(),
            (Whom::Pods { .. }, Whom::Addresses(_)) | (Whom::Addresses(_), Whom::Pods { .. }) => vec![self.clone()],
        }
    }

    fn joined(&self, other: &Whom) -> Option<Whom> {
        match (self, other) {
            (Whom::Pods { namespaces, pods }, Whom::Pods { namespaces: others, pods: other_pods }) => {
                if namespaces == others {
                    return Some(Whom::Pods { namespaces: namespaces.clone(), pods: pods.joined(other_pods)? });
                }
                let namespaces = namespaces.joined(others).filter(|_| pods == other_pods)?;
                Some(Whom::Pods { namespaces, pods: pods.clone() })
            }
            (Whom::Addresses(_), Whom::Addresses(_)) => (self == other).then(|| self.clone()),
            (Whom::Pods { .. }, Whom::Addresses(_)) | (Whom::Addresses(_), Whom::Pods { .. }) => None,
        }
    }
}

impl Region {
    pub(super) fn and(&self, other: &Region) -> Option<Region> {
        let traffic = self.traffic.and(&other.traffic);
        let whom = self.whom.and(&other.whom)?;
        (!traffic.is_empty()).then_some(Region { whom, traffic })
    }

    pub(super) fn without(&self, other: &Region) -> Vec<Region> {
        let Some(both) = self.and(other) else { return vec![self.clone()] };
        let whom = self.whom.without(&other.whom).into_iter().map(|whom| Region { whom, traffic: self.traffic.clone() });
        let traffic = self.traffic.without(&other.traffic);
        let rest = (!traffic.is_empty()).then_some(Region { whom: both.whom, traffic });
        whom.chain(rest).collect()
    }
}

/// All connections but these.
pub(super) fn without(regions: &[Region], gone: &Region) -> Vec<Region> {
    regions.iter().flat_map(|it| it.without(gone)).collect()
}

/// The same connections in fewer words, as far as one pair after the other can be joined.
pub(super) fn simplified(mut regions: Vec<Region>) -> Vec<Region> {
    regions.sort();
    regions.dedup();
    loop {
        let found = (0..regions.len()).find_map(|at| {
            let one = regions.get(at)?;
            let next = regions.iter().enumerate().skip(at + 1);
            let joined = |(other, it): (usize, &Region)| Some((at, other, joined(one, it)?));
            next.map(joined).find_map(|it| it)
        });
        let Some((one, other, joined)) = found else { return regions };
        regions.remove(other);
        regions.remove(one);
        regions.push(joined);
        regions.sort();
    }
}

/// Two as one: of one traffic, with one other end, or one inside the other.
fn joined(one: &Region, other: &Region) -> Option<Region> {
    if one.whom == other.whom {
        return Some(Region { whom: one.whom.clone(), traffic: one.traffic.or(&other.traffic) });
    }
    if one.without(other).is_empty() {
        return Some(other.clone());
    }
    if other.without(one).is_empty() {
        return Some(one.clone());
    }
    let whom = one.whom.joined(&other.whom).filter(|_| one.traffic == other.traffic)?;
    Some(Region { whom, traffic: one.traffic.clone() })
}

fn overlap(a: &IpBlock, b: &IpBlock) -> Option<IpBlock> {
    let (outer, inner) = if a.cidr.contains(&b.cidr) { (a, b) } else { (b, a) };
    if !outer.cidr.contains(&inner.cidr) {
        return None;
    }
    outer.except.iter().try_fold(inner.clone(), |block, gone| cut(&block, gone))
}

/// A block without a part of it.
pub(super) fn cut(block: &IpBlock, gone: &IpNet) -> Option<IpBlock> {
    if gone.contains(&block.cidr) {
        return None;
    }
    let mut left = block.clone();
    if block.cidr.contains(gone) && !block.except.iter().any(|it| it.contains(gone)) {
        left.except.retain(|it| !gone.contains(it));
        left.except.push(*gone);
        left.except.sort();
    }
    Some(left)
}

fn difference(a: &IpBlock, b: &IpBlock) -> Vec<IpBlock> {
    let rest = cut(a, &b.cidr);
    let kept = b.except.iter().filter_map(|it| overlap(a, &IpBlock::whole(*it)));
    rest.into_iter().chain(kept).collect()
}
