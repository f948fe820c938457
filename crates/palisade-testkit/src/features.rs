//! What a cluster has that a judge can stumble over. A feature that no random cluster has is one that the random test says nothing about.

mod relations;

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_engine::selects;
use palisade_model::{
    Action, Direction, Endpoint, IpBlock, LabelSelector, Labels, Model, NamespaceSet, NetworkId, Operator, Peer, PeerSet, Place, Policy,
    PortMatch, PortSet, Rule, Subject, Tier,
};

/// Every feature by name, and whether this cluster has it.
pub type Features = BTreeMap<String, bool>;

/// What the model has. Every cluster is asked for the same features.
pub fn features(model: &Model) -> Features {
    let mut features = Features::new();
    blocks(model, &mut features);
    selectors(model, &mut features);
    rules(model, &mut features);
    ports(model, &mut features);
    cluster(model, &mut features);
    order(model, &mut features);
    networks(model, &mut features);
    relations::kinds(model, &mut features);
    relations::relations(model, &mut features);
    features
}

fn note(features: &mut Features, name: impl Into<String>, has: bool) {
    *features.entry(name.into()).or_default() |= has;
}

fn blocks(model: &Model, features: &mut Features) {
    let all: Vec<&IpBlock> = model.ip_blocks().collect();
    let within = |it: &IpAddr| all.iter().any(|block| block.contains(*it));
    let excepted = |it: &IpAddr| all.iter().any(|block| block.except.iter().any(|except| except.contains(it)));
    let pods: Vec<IpAddr> = model.endpoints.iter().flat_map(|it| it.addresses.clone()).collect();
    let nodes: Vec<IpAddr> = model.nodes.iter().flat_map(|it| it.addresses.clone()).collect();
    for (who, addresses) in [("a pod", &pods), ("a node", &nodes)] {
        for (family, four) in [("IPv4", true), ("IPv6", false)] {
            let of_family = || addresses.iter().filter(|it| it.is_ipv4() == four);
            note(features, format!("a block that holds {who}, {family}"), of_family().any(within));
            note(features, format!("an exception that holds {who}, {family}"), of_family().any(excepted));
        }
    }
    let nobody = |it: &&IpBlock| !pods.iter().chain(&nodes).any(|address| it.contains(*address));
    note(features, "a block that holds nobody of the cluster", all.iter().any(nobody));
    let holding =
        |it: &IpAddr| all.iter().filter(|block| block.contains(*it)).map(|block| block.cidr).collect::<std::collections::BTreeSet<_>>();
    note(features, "blocks that overlap", pods.iter().any(|it| holding(it).len() > 1));
    let nested = |it: &IpBlock| it.except.iter().any(|a| it.except.iter().any(|b| a != b && a.contains(b)));
    note(features, "an exception within another", all.iter().any(|it| nested(it)));
    let undone = |it: &IpAddr| excepted(it) && within(it);
    note(features, "an exception of one block that another block holds", pods.iter().any(undone));
    note(features, "one block for everything", all.iter().any(|it| it.cidr.prefix_len() == 0));
}

fn selectors(model: &Model, features: &mut Features) {
    let mut of_pods: Vec<&LabelSelector> = Vec::new();
    let mut of_namespaces: Vec<&LabelSelector> = Vec::new();
    let mut of_nodes: Vec<&LabelSelector> = Vec::new();
    let subjects = model.policies.iter().filter_map(|it| match &it.subject {
        Subject::Pods { namespaces, pods } => Some((namespaces, pods)),
        Subject::Unknown => None,
    });
    let peers = peers(model).filter_map(|(.., peer)| match peer {
        Peer::Pods { namespaces, pods } => Some((namespaces, pods)),
        Peer::Relative(_) | Peer::Networks(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => None,
    });
    for (namespaces, pods) in subjects.chain(peers) {
        of_pods.push(pods);
        if let NamespaceSet::Matching(selector) = namespaces {
            of_namespaces.push(selector);
        }
    }
    of_nodes.extend(self::peers(model).filter_map(|(.., peer)| match peer {
        Peer::Nodes(selector) => Some(selector),
        Peer::Pods { .. } | Peer::Relative(_) | Peer::Networks(_) | Peer::Domains(_) | Peer::Unreadable => None,
    }));
    let pod_labels: Vec<&Labels> = model.endpoints.iter().map(|it| &it.labels).collect();
    let namespace_labels: Vec<&Labels> = model.namespaces.values().map(|it| &it.labels).collect();
    let node_labels: Vec<&Labels> = model.nodes.iter().map(|it| &it.labels).collect();
    for (what, selectors, labels) in
        [("pods", &of_pods, &pod_labels), ("namespaces", &of_namespaces, &namespace_labels), ("nodes", &of_nodes, &node_labels)]
    {
        for operator in ["equals", "In", "NotIn", "Exists", "DoesNotExist"] {
            let with = || selectors.iter().filter(|it| it.requirements.iter().any(|it| name_of(&it.operator) == operator));
            note(
                features,
                format!("{operator} on {what} that holds for some"),
                with().any(|it| labels.iter().any(|labels| it.matches(labels))),
            );
            note(
                features,
                format!("{operator} on {what} that does not hold for some"),
                with().any(|it| labels.iter().any(|l| !it.matches(l))),
            );
        }
        let missing = |it: &&&LabelSelector| {
            let forbids = |it: &&palisade_model::Requirement| name_of(&it.operator) == "NotIn";
            it.requirements.iter().filter(forbids).any(|it| labels.iter().any(|labels| labels.get(&it.key).is_none()))
        };
        note(features, format!("NotIn on {what} without the key"), selectors.iter().any(|it| missing(&it)));
        note(features, format!("an empty selector of {what}"), selectors.iter().any(|it| it.selects_everything()));
        note(features, format!("a selector of {what} that contradicts itself"), selectors.iter().any(|it| contradicts(it)));
    }
}

fn name_of(operator: &Operator) -> &'static str {
    match operator {
        Operator::Equals(_) => "equals",
        Operator::In(_) => "In",
        Operator::NotIn(_) => "NotIn",
        Operator::Exists => "Exists",
        Operator::DoesNotExist => "DoesNotExist",
    }
}

/// Whether two requirements on one key can never hold together. Values are few, so all are tried.
fn contradicts(selector: &LabelSelector) -> bool {
    let values = |it: &Operator| match it {
        Operator::Equals(value) => vec![value.clone()],
        Operator::In(values) | Operator::NotIn(values) => values.clone(),
        Operator::Exists | Operator::DoesNotExist => Vec::new(),
    };
    selector.requirements.iter().any(|one| {
        let same: Vec<_> = selector.requirements.iter().filter(|it| it.key == one.key).collect();
        let mut tried: Vec<Labels> = vec![Labels::default(), [(&one.key, "another")].into_iter().collect()];
        tried.extend(same.iter().flat_map(|it| values(&it.operator)).map(|value| [(&one.key, value)].into_iter().collect::<Labels>()));
        !tried.iter().any(|labels| same.iter().all(|it| it.matches(labels)))
    })
}

fn rules(model: &Model, features: &mut Features) {
    for tier in [Tier::Admin, Tier::NetworkPolicy, Tier::Baseline] {
        for direction in Direction::BOTH {
            for action in [Action::Accept, Action::Deny, Action::Pass] {
                if tier == Tier::NetworkPolicy && action != Action::Accept {
                    continue;
                }
                let has = all_rules(model).any(|(policy, of, rule)| policy.tier == tier && of == direction && rule.action == action);
                note(features, format!("{action} on {direction} in {tier}"), has);
            }
        }
    }
    let any_peer = |wanted: fn(&Peer) -> bool| peers(model).any(|(.., it)| wanted(it));
    note(features, "domain names", any_peer(|it| matches!(it, Peer::Domains(_))));
    let local = |it: &Peer| matches!(it, Peer::Domains(names) if names.iter().any(|it| it.is_cluster_local()));
    note(features, "domain names of pods", any_peer(local));
    note(features, "a peer that cannot be read", any_peer(|it| matches!(it, Peer::Unreadable)));
    note(features, "a rule that stands for one that cannot be read", all_rules(model).any(|(.., it)| it.peers == PeerSet::AnyButOwnNode));
    note(features, "a subject that cannot be read", model.policies.iter().any(|it| it.subject == Subject::Unknown));
    let empty = |of: Direction| model.policies.iter().any(|it| *it.isolates.of(of) && it.rules.of(of).is_empty());
    note(features, "isolation without a rule, ingress", empty(Direction::Ingress));
    note(features, "isolation without a rule, egress", empty(Direction::Egress));
}

fn ports(model: &Model, features: &mut Features) {
    let entries: Vec<&PortMatch> = all_rules(model).flat_map(|(.., rule)| entries(rule)).collect();
    let number = |wanted: &dyn Fn(u16, u16) -> bool| {
        entries.iter().any(|it| matches!(it, PortMatch::Numbers { ports, .. } if wanted(ports.first(), ports.last())))
    };
    note(features, "a range from port 1", number(&|first, last| first == 1 && last > 1));
    note(features, "a range to port 65535", number(&|first, last| first > 0 && first < last && last == u16::MAX));
    note(features, "port 1", number(&|first, last| first == 1 && last == 1));
    note(features, "port 65535", number(&|first, last| first == u16::MAX && last == u16::MAX));
    note(features, "all ports of a protocol", number(&|first, last| first == 0 && last == u16::MAX));
    note(features, "an entry that cannot be read", entries.iter().any(|it| matches!(it, PortMatch::Unreadable)));
    let asked = |name: &str| entries.iter().any(|it| matches!(it, PortMatch::Named { name: of, .. } if **of == *name));
    let named: Vec<(usize, &palisade_model::ContainerPort)> =
        model.endpoints.iter().enumerate().flat_map(|(at, it)| it.ports.iter().map(move |port| (at, port))).collect();
    let twice = |differ: &dyn Fn(&palisade_model::ContainerPort, &palisade_model::ContainerPort) -> bool, one_pod: bool| {
        named.iter().any(|(of, a)| {
            let is_asked = a.name.as_deref().is_some_and(asked);
            is_asked && named.iter().any(|(other, b)| (of == other) == one_pod && a.name == b.name && differ(a, b))
        })
    };
    note(features, "one name for two numbers in a pod", twice(&|a, b| a.port != b.port && a.protocol == b.protocol, true));
    note(features, "one name for two protocols in a pod", twice(&|a, b| a.protocol != b.protocol, true));
    note(features, "one name for two numbers in two pods", twice(&|a, b| a.port != b.port, false));
    note(features, "one name for two protocols in two pods", twice(&|a, b| a.protocol != b.protocol, false));
    let with_protocol =
        |wanted: bool| entries.iter().any(|it| matches!(it, PortMatch::Named { protocol, .. } if protocol.is_some() == wanted));
    note(features, "a named port of a protocol", with_protocol(true));
    note(features, "a named port of any protocol", with_protocol(false));
}

fn cluster(model: &Model, features: &mut Features) {
    let pods = || model.endpoints.iter();
    let families = |it: &Endpoint| (it.addresses.iter().any(IpAddr::is_ipv4), it.addresses.iter().any(IpAddr::is_ipv6));
    note(features, "a pod with IPv4 alone", pods().any(|it| families(it) == (true, false)));
    note(features, "a pod with IPv6 alone", pods().any(|it| families(it) == (false, true)));
    note(features, "a pod with both families", pods().any(|it| families(it) == (true, true)));
    note(features, "a pod without an address", pods().any(|it| it.addresses.is_empty()));
    let claimed = |it: &IpAddr| pods().filter(|pod| pod.addresses.contains(it)).count() > 1;
    note(features, "an address that two pods claim", pods().any(|it| it.addresses.iter().any(claimed)));
    note(features, "a pod without a node", pods().any(|it| it.node.is_none()));
    note(features, "a pod on its node's network", model.nodes.iter().any(|it| !it.host_pods.is_empty()));
    note(features, "a node that is only known by its pods", model.nodes.iter().any(|it| it.assumed));
    note(features, "a node with both families", model.nodes.iter().any(|it| it.addresses.iter().any(IpAddr::is_ipv6)));
    note(features, "a namespace without an object", model.namespaces.values().any(|it| it.assumed));
    let inhabited = |name: &str| pods().any(|it| *it.name.namespace == *name);
    note(features, "a namespace without a pod", model.namespaces.keys().any(|it| !inhabited(it)));
    let isolated = |it: &Endpoint| model.policies.iter().any(|policy| policy.isolates.ingress && selects(model, policy, it));
    let calls = |it: &Endpoint| it.node.and_then(|id| model.node(id)).is_some_and(|node| !node.addresses.is_empty());
    note(features, "an isolated pod whose node has an address", pods().any(|it| isolated(it) && calls(it)));
    let meant = |it: &Peer| match it {
        Peer::Nodes(selector) => model.nodes.iter().any(|node| !node.addresses.is_empty() && selector.matches(&node.labels)),
        Peer::Pods { .. } | Peer::Relative(_) | Peer::Networks(_) | Peer::Domains(_) | Peer::Unreadable => false,
    };
    note(features, "a node that a rule means", peers(model).any(|(.., it)| meant(it)));
    let owned = |it: &Endpoint| it.addresses.iter().all(|address| matches!(model.place_of(NetworkId::DEFAULT, *address), Place::Pod(_)));
    note(features, "pods whose addresses are pods'", pods().all(owned));
    note(features, "a Service", !model.services.is_empty());
    note(features, "a completed pod", !model.completed.is_empty());
}

/// Networks besides the pod network. Only a model that was read with them has any.
fn networks(model: &Model, features: &mut Features) {
    let attached = || model.endpoints.iter().filter(|it| it.network() != NetworkId::DEFAULT);
    let has = |it: &Endpoint, network: NetworkId, address: &IpAddr| it.network() == network && it.addresses.contains(address);
    let elsewhere = |it: &Endpoint| {
        let others = || model.endpoints.iter().filter(|other| other.name != it.name);
        it.addresses.iter().any(|address| others().any(|other| has(other, NetworkId::DEFAULT, address)))
    };
    note(features, "an address of two pods on two networks", attached().any(elsewhere));
    let of_node = |it: &Endpoint| it.addresses.iter().any(|address| model.nodes.iter().any(|node| node.addresses.contains(address)));
    note(features, "an address of a node on a network without nodes", attached().any(of_node));
    note(features, "two interfaces on one network", attached().any(|it| it.interfaces().len() > 1));
    let selected = |it: &Endpoint| model.policies.iter().any(|policy| selects(model, policy, it));
    note(features, "a policy that selects an endpoint off the pod network", attached().any(selected));
    let both = |it: &Policy| model.policies.iter().any(|other| other.origin == it.origin && other.network != it.network);
    note(features, "a policy for two networks", model.policies.iter().any(both));
    let has_default = |it: &Endpoint| {
        model.endpoints.iter().any(|other| other.name == it.name && other.network() != it.network() && selected(other) && !selected(it))
    };
    note(features, "a pod that policies select on one network only", attached().any(has_default));
}

/// Policies that only their names put in order, and tiers that meet.
fn order(model: &Model, features: &mut Features) {
    for tier in [Tier::Admin, Tier::Baseline] {
        let of_tier = || model.policies.iter().filter(move |it| it.tier == tier);
        let both = |a: &Policy, b: &Policy| model.endpoints.iter().any(|it| selects(model, a, it) && selects(model, b, it));
        let tied = |a: &Policy| of_tier().any(|b| a.origin != b.origin && a.rank == b.rank && both(a, b));
        note(features, format!("policies of one rank on one pod in {tier}"), of_tier().any(tied));
        let ranked = |a: &Policy| of_tier().any(|b| a.rank < b.rank && both(a, b));
        note(features, format!("policies of two ranks on one pod in {tier}"), of_tier().any(ranked));
    }
    let tiers = |it: &Endpoint| {
        let has = |tier| model.policies.iter().any(|policy| policy.tier == tier && selects(model, policy, it));
        has(Tier::Admin) && has(Tier::NetworkPolicy) && has(Tier::Baseline)
    };
    note(features, "a pod under all tiers", model.endpoints.iter().any(tiers));
    let network =
        |it: &Endpoint| model.policies.iter().filter(|policy| policy.tier == Tier::NetworkPolicy && selects(model, policy, it)).count();
    note(features, "a pod under two NetworkPolicies", model.endpoints.iter().any(|it| network(it) > 1));
}

fn all_rules(model: &Model) -> impl Iterator<Item = (&Policy, Direction, &Rule)> {
    let of = |policy, direction| move |rule| (policy, direction, rule);
    model.policies.iter().flat_map(move |policy| {
        let egress = policy.rules.egress.iter().map(of(policy, Direction::Egress));
        egress.chain(policy.rules.ingress.iter().map(of(policy, Direction::Ingress)))
    })
}

fn peers(model: &Model) -> impl Iterator<Item = (&Policy, Direction, &Peer)> {
    all_rules(model).flat_map(|(policy, direction, rule)| {
        let peers: &[Peer] = match &rule.peers {
            PeerSet::Of(peers) => peers,
            PeerSet::Any | PeerSet::AnyButOwnNode => &[],
        };
        peers.iter().map(move |peer| (policy, direction, peer))
    })
}

fn entries(rule: &Rule) -> &[PortMatch] {
    match &rule.ports {
        PortSet::Of(entries) => entries,
        PortSet::Any => &[],
    }
}
