//! Cluster policies as NetworkPolicies, for a cluster that has no others: in each namespace, and for each group of its pods that policy tells apart,
//! what is let pass in the end.
//!
//! A NetworkPolicy has no Deny and no order, so that a rule that denies becomes what it leaves over. A set of labels less another one is a set of
//! labels again, or a few; ports and addresses too. What cannot be said so is told. The NetworkPolicies of pods that a cluster policy speaks about are
//! replaced as well: they may let pass what was denied before they were asked.

mod group;
mod labels;
mod matcher;
mod region;
mod steps;
mod traffic;

use std::collections::BTreeSet;

use ipnet::IpNet;
use palisade_model::{
    Action, Direction, IpBlock, Model, NamespaceSet, NetworkId, Peer, PeerSet, PerDirection, Policy, PolicyKind, PolicyRef, PortSet, Rule,
    Shape, Subject, Tier,
};

use self::group::{Group, groups};
use self::labels::Labelled;
use self::matcher::{Matcher, one, rules_of};
use self::region::{Region, Whom, cut, simplified, without};
use self::steps::{MOST_REGIONS, Step, Steps};
use self::traffic::Traffic;
use super::parts::{compares_pods, plain, slug, speaks_in};
use super::selectors::{NAME_LABEL, named};
use super::{Converted, Loss, Objects, Weight, Written};

/// What a group lets pass in one direction.
enum Pass {
    Everything,
    Only(Vec<Region>),
    /// Too much to say.
    Unsayable,
}

/// The pods in a block that must not pass.
struct Closed {
    addresses: Vec<IpNet>,
    /// Whether there is one whose address is not known.
    unknown: bool,
    /// Whether there could be more that come later.
    later: bool,
}

/// Brings all cluster policies into NetworkPolicies. `pod_networks` are those that pods have their addresses of, if that is known.
pub fn mimic(model: &Model, objects: &Objects, pod_networks: &[IpNet]) -> Converted {
    let policies = plain(model, &model.policies);
    let mut matcher = Matcher { model, losses: Vec::new() };
    let mut converted = Converted::default();
    let mut replaced: BTreeSet<PolicyRef> =
        model.policies.iter().filter(|it| it.tier != Tier::NetworkPolicy).map(|it| it.origin.clone()).collect();
    for namespace in model.namespaces.keys() {
        let speaking: Vec<&Policy> = policies.iter().filter(|it| speaks_in(model, it, namespace)).collect();
        if speaking.iter().all(|it| it.tier == Tier::NetworkPolicy) {
            continue;
        }
        let (groups, complete) = groups(model, namespace, &speaking);
        if !complete {
            matcher.losses.extend(speaking.iter().filter(|it| it.tier != Tier::NetworkPolicy).map(|it| too_many_groups(it, namespace)));
        }
        let own: BTreeSet<PolicyRef> = groups.iter().filter(|it| it.has_cluster_policy()).flat_map(Group::network_policies).collect();
        let mut names: BTreeSet<Box<str>> = staying(model, objects, namespace, &own);
        let mut writer = Writer { model, namespace, pod_networks, matcher: &mut matcher };
        for group in groups.iter().filter(|it| it.has_cluster_policy() || it.network_policies().iter().any(|it| own.contains(it))) {
            if let Some(written) = writer.policy(group, &mut names) {
                converted.written.push(written);
            }
        }
        replaced.extend(own);
    }
    for policy in model.policies.iter().filter(|it| it.tier != Tier::NetworkPolicy) {
        converted.losses.push(only_now(policy));
        let is_there = policies.iter().any(|it| it.origin == policy.origin);
        converted.losses.extend(compares_pods(policy).then(|| only_these(policy, is_there)));
    }
    converted.losses.append(&mut matcher.losses);
    converted.replaced = replaced.into_iter().collect();
    converted
}

fn staying(model: &Model, objects: &Objects, namespace: &str, replaced: &BTreeSet<PolicyRef>) -> BTreeSet<Box<str>> {
    let all = model.policies.iter().map(|it| &it.origin).chain(&objects.others);
    let own = all.filter(|it| it.namespace.as_deref() == Some(namespace));
    own.filter(|it| !replaced.contains(it)).map(|it| it.name.clone()).collect()
}

fn only_now(policy: &Policy) -> Loss {
    Loss {
        policy: policy.origin.clone(),
        path: "spec.subject".to_owned(),
        why: "a NetworkPolicy is of one namespace".to_owned(),
        instead: Some("NetworkPolicies in the namespaces that there are; those that come later are not covered".to_owned()),
        weight: Weight::Later,
    }
}

/// `is_there`: whether some pod is selected now.
fn only_these(policy: &Policy, is_there: bool) -> Loss {
    let instead = match is_there {
        true => "what holds for the values that its pods have now; pods that come later with another value are not covered",
        false => "nothing, since it selects no pod now; pods that come later are not covered",
    };
    Loss {
        policy: policy.origin.clone(),
        path: "spec".to_owned(),
        why: "a NetworkPolicy cannot compare labels of peers with those of the subject".to_owned(),
        instead: Some(instead.to_owned()),
        weight: Weight::Later,
    }
}

fn too_many_groups(policy: &Policy, namespace: &str) -> Loss {
    Loss {
        policy: policy.origin.clone(),
        path: "spec.subject".to_owned(),
        why: format!("the policies of namespace `{namespace}` tell apart too many kinds of pods"),
        instead: Some("NetworkPolicies for the kinds that there are; pods that come later may not be covered".to_owned()),
        weight: Weight::Later,
    }
}

/// Writes the policies of one namespace.
struct Writer<'w, 'm> {
    model: &'m Model,
    namespace: &'w str,
    pod_networks: &'w [IpNet],
    matcher: &'w mut Matcher<'m>,
}

impl Writer<'_, '_> {
    /// None if the group is not isolated at all.
    fn policy(&mut self, group: &Group<'_>, names: &mut BTreeSet<Box<str>>) -> Option<Written> {
        let mut isolates = PerDirection::default();
        let mut rules: PerDirection<Vec<Rule>> = PerDirection::default();
        for direction in Direction::BOTH {
            let steps = self.steps(group, direction);
            match self.passes(&steps) {
                Pass::Everything => {}
                Pass::Only(regions) => {
                    *isolates.of_mut(direction) = true;
                    *rules.of_mut(direction) = self.rules(group, direction, &steps, &regions);
                }
                Pass::Unsayable => self.unsayable(group, direction),
            }
        }
        if isolates == PerDirection::default() {
            return None;
        }
        let name = self.name(group, names);
        let policy = Policy {
            network: NetworkId::DEFAULT,
            origin: PolicyRef { kind: PolicyKind::NetworkPolicy, namespace: Some(self.namespace.into()), name },
            shape: Shape::Only,
            tier: Tier::NetworkPolicy,
            rank: 0,
            subject: Subject::Pods { namespaces: NamespaceSet::Own(self.namespace.into()), pods: group.pods.selector() },
            isolates,
            rules,
        };
        let mut from: Vec<PolicyRef> = Vec::new();
        for policy in &group.policies {
            if !from.contains(&policy.origin) {
                from.push(policy.origin.clone());
            }
        }
        Some(Written { policy, from, rules: PerDirection::default() })
    }

    fn name(&self, group: &Group<'_>, names: &mut BTreeSet<Box<str>>) -> Box<str> {
        let about = group.pods.selector().to_string().replace(" exists", "").replace("does not exist", "missing");
        let base = match group.pods.is_everybody() {
            true => "cluster-policies".to_owned(),
            false => format!("cluster-policies-{}", joined(&slug(&about))),
        };
        let numbered = (2..).map(|it: usize| format!("{base}-{it}"));
        let free = [base.clone()].into_iter().chain(numbered).take(names.len() + 1).find(|it| !names.contains(it.as_str()));
        let name: Box<str> = free.unwrap_or(base).into();
        names.insert(name.clone());
        name
    }

    /// What is asked of the connections of a group, in its order.
    fn steps(&mut self, group: &Group<'_>, direction: Direction) -> Steps {
        let isolated = group.policies.iter().any(|it| *it.isolates.of(direction));
        let tiers = if isolated { [Tier::Admin, Tier::NetworkPolicy] } else { [Tier::Admin, Tier::Baseline] };
        let mut steps = Vec::new();
        for tier in tiers {
            for (policy, rule) in rules_of(&group.policies, tier, direction) {
                let regions = self.matcher.regions(policy, rule, direction, &group.subjects);
                steps.push(Step { tier, action: rule.action, regions });
            }
        }
        Steps { isolated, steps }
    }

    fn passes(&self, steps: &Steps) -> Pass {
        let everything = || Whom::everybody().into_iter().map(|whom| Region { whom, traffic: Traffic::all() }).collect::<Vec<_>>();
        let Some(allowed) = steps.allowed(everything()) else { return Pass::Unsayable };
        if allowed.iter().fold(everything(), |left, region| without(&left, region)).is_empty() {
            return Pass::Everything;
        }
        Pass::Only(simplified(allowed.into_iter().filter_map(|it| self.own_namespace(it)).collect()))
    }

    /// The own namespace is what it is; what else is asked of its labels need not be said.
    fn own_namespace(&self, region: Region) -> Option<Region> {
        let own = match &region.whom {
            Whom::Pods { namespaces, .. } if namespaces.pins(NAME_LABEL, self.namespace) => namespaces,
            Whom::Pods { .. } | Whom::Addresses(_) => return Some(region),
        };
        let is = own.matches(self.model.namespace_labels(self.namespace));
        let Whom::Pods { pods, .. } = region.whom else { return None };
        let namespaces = Labelled::of(&named(self.namespace)).filter(|_| is)?;
        Some(Region { whom: Whom::Pods { namespaces, pods }, traffic: region.traffic })
    }

    /// One rule for each traffic.
    fn rules(&mut self, group: &Group<'_>, direction: Direction, steps: &Steps, regions: &[Region]) -> Vec<Rule> {
        let mut traffics: Vec<&Traffic> = regions.iter().map(|it| &it.traffic).collect();
        traffics.sort();
        traffics.dedup();
        let mut rules = Vec::new();
        for traffic in traffics {
            let (ports, other_lost) = traffic.said();
            if other_lost {
                self.other_protocols(group, direction);
            }
            let whom: Vec<&Whom> = regions.iter().filter(|it| it.traffic == *traffic).map(|it| &it.whom).collect();
            let everybody = Whom::everybody().iter().all(|it| whom.contains(&it));
            let peers = match everybody {
                true => PeerSet::Any,
                false => PeerSet::Of(whom.iter().filter_map(|it| self.peer(group, direction, it, traffic, (steps, regions))).collect()),
            };
            let empty = peers == PeerSet::Of(Vec::new()) || ports == PortSet::Of(Vec::new());
            if !empty {
                rules.push(Rule { index: rules.len(), name: None, action: Action::Accept, peers, ports, fail_closed: None });
            }
        }
        rules
    }

    fn peer(
        &mut self,
        group: &Group<'_>,
        direction: Direction,
        whom: &Whom,
        traffic: &Traffic,
        (steps, regions): (&Steps, &[Region]),
    ) -> Option<Peer> {
        match whom {
            Whom::Pods { namespaces, pods } => {
                let own = Labelled::of(&named(self.namespace)).as_ref() == Some(namespaces);
                let namespaces = match own {
                    true => NamespaceSet::Own(self.namespace.into()),
                    false => NamespaceSet::Matching(namespaces.selector()),
                };
                Some(Peer::Pods { namespaces, pods: pods.selector() })
            }
            Whom::Addresses(block) => {
                let Closed { addresses, unknown, later } = self.closed_pods(block, traffic, steps, regions);
                if unknown && self.pod_networks.is_empty() {
                    self.pods_anywhere(group, direction);
                    return None;
                }
                if (later || !addresses.is_empty()) && self.pod_networks.is_empty() {
                    self.pods_by_address(group, direction);
                }
                let left = addresses.iter().try_fold(block.clone(), |block, it| cut(&block, it))?;
                Some(Peer::Networks(vec![left]))
            }
        }
    }

    /// The pods in a block that must not pass. SPEC: semantics 1.4: a block matches whoever has the address.
    fn closed_pods(&self, block: &IpBlock, traffic: &Traffic, steps: &Steps, regions: &[Region]) -> Closed {
        let open_to_pods = regions.iter().any(|it| it.whom == Whom::all_pods() && traffic.without(&it.traffic).is_empty());
        let mut closed = Closed { addresses: Vec::new(), unknown: false, later: false };
        let everywhere = block.cidr.prefix_len() == 0;
        for endpoint in &self.model.endpoints {
            let labels = self.model.namespace_labels(&endpoint.name.namespace);
            let is_closed = |address| !traffic.without(&steps.allowed_to(labels, &endpoint.labels, address)).is_empty();
            // What somebody wrote a narrower block for is taken to be no pod.
            closed.unknown |= everywhere && endpoint.addresses.is_empty() && is_closed(None);
            for address in endpoint.addresses.iter().filter(|it| block.contains(**it)) {
                if is_closed(Some(*address)) {
                    let network = self.pod_networks.iter().find(|it| it.contains(address)).copied();
                    closed.addresses.push(network.unwrap_or_else(|| one(*address)));
                }
            }
        }
        closed.later = everywhere && !open_to_pods;
        closed.addresses.extend(self.pod_networks.iter().filter(|it| closed.later && block.cidr.contains(*it)));
        closed.addresses = IpNet::aggregate(&closed.addresses);
        closed
    }

    fn lose(&mut self, group: &Group<'_>, direction: Direction, why: &str, instead: &str, weight: Weight) {
        let mut speaking = group.policies.iter().filter(|it| *it.isolates.of(direction) || !it.rules.of(direction).is_empty());
        let of_cluster = speaking.clone().find(|it| it.tier != Tier::NetworkPolicy);
        // A direction is written since some policy speaks about it.
        let Some(policy) = of_cluster.or(speaking.next()) else { return };
        let why = format!("{direction}: {why} (namespace `{}`, pods: {})", self.namespace, group.pods.selector());
        self.matcher.lose(Loss { policy: policy.origin.clone(), path: "spec".to_owned(), why, instead: Some(instead.to_owned()), weight });
    }

    fn other_protocols(&mut self, group: &Group<'_>, direction: Direction) {
        let why = "a NetworkPolicy that names ports speaks of TCP, UDP and SCTP only";
        self.lose(group, direction, why, "the ports that are let pass; ICMP and other protocols are not", Weight::Reach);
    }

    fn pods_by_address(&mut self, group: &Group<'_>, direction: Direction) {
        let why = "a block of addresses is also that of the pods in it";
        self.lose(
            group,
            direction,
            why,
            "exceptions for the addresses that pods have now; `--pod-cidr` takes out those of later pods too",
            Weight::Later,
        );
    }

    fn pods_anywhere(&mut self, group: &Group<'_>, direction: Direction) {
        let why = "a block of all addresses is also that of pods, and those of some pods are not known";
        self.lose(
            group,
            direction,
            why,
            "no addresses, so that the outside is closed; say with `--pod-cidr` where pods have their addresses from",
            Weight::Reach,
        );
    }

    fn unsayable(&mut self, group: &Group<'_>, direction: Direction) {
        let why = format!("more than {MOST_REGIONS} kinds of connections would have to be told apart");
        self.lose(group, direction, &why, "nothing in this direction", Weight::Reach);
    }
}

/// Without dashes beside dashes.
fn joined(text: &str) -> String {
    text.split('-').filter(|it| !it.is_empty()).collect::<Vec<_>>().join("-")
}
