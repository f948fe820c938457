//! What a rule speaks of, as connections that a NetworkPolicy could say.

use std::net::IpAddr;

use ipnet::IpNet;
use palisade_model::{
    Action, Direction, Endpoint, IpBlock, LabelSelector, Model, NamespaceSet, Node, Peer, PeerSet, Policy, PolicyKind, PortProtocol, Rule,
    Tier,
};

use super::super::selectors::named;
use super::super::{Loss, Weight};
use super::labels::Labelled;
use super::region::{Region, Whom};
use super::traffic::Traffic;

/// Reads rules, and tells what of them cannot be said.
pub(super) struct Matcher<'m> {
    pub(super) model: &'m Model,
    pub(super) losses: Vec<Loss>,
}

/// How a block of addresses meets the pods of the cluster.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Covers {
    NoPod,
    SomePods,
    AllPods,
}

impl Matcher<'_> {
    /// The connections of these subjects that a rule matches.
    pub(super) fn regions(&mut self, policy: &Policy, rule: &Rule, direction: Direction, subjects: &[&Endpoint]) -> Vec<Region> {
        let mut lost = Vec::new();
        let traffic = Traffic::of(&rule.ports, |at, protocol, name| {
            let (found, loss) = self.named(policy, rule, direction, at, (protocol, name), subjects);
            lost.push(loss);
            found
        });
        lost.into_iter().for_each(|it| self.lose(it));
        if traffic.is_empty() {
            return Vec::new();
        }
        let whom = match &rule.peers {
            // SPEC: semantics 1.8: a NetworkPolicy accepts ingress from the own node in any case.
            PeerSet::Any | PeerSet::AnyButOwnNode => Whom::everybody(),
            PeerSet::Of(peers) => peers.iter().enumerate().flat_map(|(at, peer)| self.whom(policy, rule, direction, at, peer)).collect(),
        };
        whom.into_iter().map(|whom| Region { whom, traffic: traffic.clone() }).collect()
    }

    /// The numbers that a named port has now.
    fn named(
        &self,
        policy: &Policy,
        rule: &Rule,
        direction: Direction,
        at: usize,
        (protocol, name): (Option<PortProtocol>, &str),
        subjects: &[&Endpoint],
    ) -> (Vec<(PortProtocol, u16)>, Loss) {
        let whose: Vec<&Endpoint> = match direction {
            Direction::Ingress if !subjects.is_empty() => subjects.to_vec(),
            Direction::Ingress | Direction::Egress => self.model.endpoints.iter().collect(),
        };
        let found = numbers(&whose, protocol, name);
        let alike = whose.iter().all(|it| numbers(&[it], protocol, name) == found);
        let field = match policy.origin.kind {
            PolicyKind::ClusterNetworkPolicy => "protocols",
            PolicyKind::Kep2091 => "l4Selector.ports",
            PolicyKind::NetworkPolicy | PolicyKind::AdminNetworkPolicy | PolicyKind::BaselineAdminNetworkPolicy => "ports",
        };
        let said: Vec<String> = found.iter().map(|(protocol, port)| format!("{protocol}/{port}")).collect();
        let instead = (!said.is_empty()).then(|| format!("the numbers that it has now: {}", said.join(", ")));
        let loss = Loss {
            policy: policy.origin.clone(),
            path: format!("spec.{direction}[{}].{field}[{at}]", rule.index),
            why: format!("what other rules leave of a rule is worked out with numbers, and `{name}` is a name"),
            instead,
            weight: if alike { Weight::Later } else { Weight::Reach },
        };
        (found, loss)
    }

    fn whom(&mut self, policy: &Policy, rule: &Rule, direction: Direction, at: usize, peer: &Peer) -> Vec<Whom> {
        let list = match direction {
            Direction::Ingress => "from",
            Direction::Egress => "to",
        };
        let path = |field: &str| format!("spec.{direction}[{}].{list}[{at}].{field}", rule.index);
        let loss = |field: &str, why: &str, instead: Option<&str>, weight: Weight| Loss {
            policy: policy.origin.clone(),
            path: path(field),
            why: why.to_owned(),
            instead: instead.map(str::to_owned),
            weight,
        };
        match peer {
            Peer::Pods { namespaces, pods } => pods_in(namespaces, pods).into_iter().collect(),
            Peer::Networks(blocks) => {
                let mut whom: Vec<Whom> = blocks.iter().cloned().map(Whom::Addresses).collect();
                let covers = self.covers(blocks);
                if covers == Covers::AllPods {
                    whom.push(Whom::all_pods());
                } else if covers == Covers::SomePods && rule.action != Action::Accept {
                    let why = "some pods have addresses in it, and a NetworkPolicy cannot take pods out by address";
                    self.lose(loss("networks", why, Some("the addresses that are no pod's"), Weight::Reach));
                }
                whom
            }
            Peer::Nodes(nodes) => {
                let why = "a NetworkPolicy knows nodes by their addresses only";
                self.lose(loss("nodes", why, Some("the addresses that they have now"), Weight::Later));
                let matching = self.model.nodes.iter().filter(|it: &&Node| nodes.matches(&it.labels));
                matching.flat_map(|it| &it.addresses).map(|it| Whom::Addresses(IpBlock::whole(one(*it)))).collect()
            }
            Peer::Domains(_) => {
                self.lose(loss("domainNames", "a NetworkPolicy does not know domain names", None, Weight::Reach));
                Vec::new()
            }
            // Relations have been worked out before, and what could not be read matches nobody.
            Peer::Relative(_) | Peer::Unreadable => Vec::new(),
        }
    }

    fn covers(&self, blocks: &[IpBlock]) -> Covers {
        let addresses: Vec<&IpAddr> = self.model.endpoints.iter().flat_map(|it| &it.addresses).collect();
        let inside = addresses.iter().filter(|it| blocks.iter().any(|block| block.contains(***it))).count();
        let everywhere = || blocks.iter().any(|it| it.cidr.prefix_len() == 0 && it.except.is_empty());
        match inside {
            // Pods whose addresses are not known have some.
            0 if addresses.is_empty() && everywhere() => Covers::AllPods,
            0 => Covers::NoPod,
            some if some == addresses.len() => Covers::AllPods,
            _ => Covers::SomePods,
        }
    }

    /// Tells of a loss, and of each once: groups of pods may have other numbers behind one name.
    pub(super) fn lose(&mut self, loss: Loss) {
        let known = self.losses.iter_mut().find(|it| (&it.policy, &it.path, &it.why) == (&loss.policy, &loss.path, &loss.why));
        match known {
            Some(known) => {
                known.weight = known.weight.min(loss.weight);
                known.instead = known.instead.take().max(loss.instead);
            }
            None => self.losses.push(loss),
        }
    }
}

fn pods_in(namespaces: &NamespaceSet, pods: &LabelSelector) -> Option<Whom> {
    let namespaces = match namespaces {
        NamespaceSet::Own(name) => Labelled::of(&named(name))?,
        NamespaceSet::Matching(selector) => Labelled::of(selector)?,
    };
    Some(Whom::Pods { namespaces, pods: Labelled::of(pods)? })
}

fn numbers(whose: &[&Endpoint], protocol: Option<PortProtocol>, name: &str) -> Vec<(PortProtocol, u16)> {
    let ports = whose.iter().flat_map(|it| &it.ports).filter(|it| it.name.as_deref() == Some(name));
    let mut found: Vec<(PortProtocol, u16)> =
        ports.filter(|it| protocol.is_none_or(|wanted| wanted == it.protocol)).map(|it| (it.protocol, it.port)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// One address as a block.
pub(super) fn one(address: IpAddr) -> IpNet {
    IpNet::from(address)
}

/// The rules of a tier that speak about some subjects, in the order in which they are asked.
pub(super) fn rules_of<'p>(policies: &[&'p Policy], tier: Tier, direction: Direction) -> Vec<(&'p Policy, &'p Rule)> {
    let of = |policy: &&'p Policy| policy.tier == tier;
    policies.iter().copied().filter(of).flat_map(|it| it.rules.of(direction).iter().map(move |rule| (it, rule))).collect()
}
