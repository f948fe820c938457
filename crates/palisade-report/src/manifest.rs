//! Policies as manifests that apply cleanly.

use palisade_model::{
    Action, Direction, LabelSelector, NamespaceSet, Operator, Peer, PeerSet, Policy, PortMatch, PortProtocol, PortSet, Ports, Rule, Subject,
};

/// A NetworkPolicy as YAML. Only what a NetworkPolicy can say is written.
pub fn network_policy(policy: &Policy) -> String {
    let mut out = String::from("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata:\n");
    line(&mut out, 1, &format!("name: {}", scalar(&policy.origin.name)));
    if let Some(namespace) = &policy.origin.namespace {
        line(&mut out, 1, &format!("namespace: {}", scalar(namespace)));
    }
    line(&mut out, 0, "spec:");
    if let Subject::Pods { pods, .. } = &policy.subject {
        selector(&mut out, 1, "podSelector", pods);
    }
    let types: Vec<&str> = [(policy.isolates.ingress, "Ingress"), (policy.isolates.egress, "Egress")]
        .into_iter()
        .filter_map(|(listed, name)| listed.then_some(name))
        .collect();
    line(&mut out, 1, &format!("policyTypes: [{}]", types.join(", ")));
    for (direction, name, peers) in [(Direction::Ingress, "ingress", "from"), (Direction::Egress, "egress", "to")] {
        let rules = policy.rules.of(direction);
        if rules.is_empty() {
            continue;
        }
        line(&mut out, 1, &format!("{name}:"));
        for rule in rules {
            np_rule(&mut out, rule, peers);
        }
    }
    out
}

fn np_rule(out: &mut String, rule: &Rule, peers: &str) {
    let mut first = true;
    let mut item = |out: &mut String, text: &str| {
        line(out, 1, &format!("{} {text}", if first { "-" } else { " " }));
        first = false;
    };
    if let PeerSet::Of(entries) = &rule.peers {
        item(out, &format!("{peers}:"));
        for peer in entries {
            np_peer(out, peer);
        }
    }
    if let PortSet::Of(entries) = &rule.ports {
        item(out, "ports:");
        for entry in entries {
            np_port(out, entry);
        }
    }
    if first {
        line(out, 1, "- {}");
    }
}

fn np_peer(out: &mut String, peer: &Peer) {
    match peer {
        Peer::Pods { namespaces: NamespaceSet::Own(_), pods } => selector(out, 2, "- podSelector", pods),
        Peer::Pods { namespaces: NamespaceSet::Matching(namespaces), pods } => {
            selector(out, 2, "- namespaceSelector", namespaces);
            selector(out, 3, "podSelector", pods);
        }
        Peer::Networks(blocks) => {
            for block in blocks {
                line(out, 2, "- ipBlock:");
                line(out, 4, &format!("cidr: {}", scalar(&block.cidr.to_string())));
                if !block.except.is_empty() {
                    let except: Vec<String> = block.except.iter().map(|it| scalar(&it.to_string())).collect();
                    line(out, 4, &format!("except: [{}]", except.join(", ")));
                }
            }
        }
        Peer::Relative(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => {}
    }
}

fn np_port(out: &mut String, entry: &PortMatch) {
    match entry {
        PortMatch::Numbers { protocol, ports } => {
            line(out, 2, &format!("- protocol: {}", upper(*protocol)));
            if *ports != Ports::ALL {
                line(out, 3, &format!("port: {}", ports.first()));
            }
            if *ports != Ports::ALL && ports.first() != ports.last() {
                line(out, 3, &format!("endPort: {}", ports.last()));
            }
        }
        PortMatch::Named { protocol, name } => {
            line(out, 2, &format!("- protocol: {}", upper(protocol.unwrap_or(PortProtocol::Tcp))));
            line(out, 3, &format!("port: {}", scalar(name)));
        }
        PortMatch::Unreadable => {}
    }
}

/// One rule of a ClusterNetworkPolicy, as an item of its list.
pub fn cluster_rule(rule: &Rule, direction: Direction) -> String {
    let mut out = String::new();
    let action = match rule.action {
        Action::Accept => "Accept",
        Action::Deny => "Deny",
        Action::Pass => "Pass",
    };
    line(&mut out, 0, &format!("- action: {action}"));
    if let PeerSet::Of(entries) = &rule.peers {
        line(&mut out, 1, if direction == Direction::Ingress { "from:" } else { "to:" });
        for peer in entries {
            cnp_peer(&mut out, peer);
        }
    }
    if let PortSet::Of(entries) = &rule.ports {
        line(&mut out, 1, "protocols:");
        for entry in entries {
            cnp_port(&mut out, entry);
        }
    }
    out
}

fn cnp_peer(out: &mut String, peer: &Peer) {
    match peer {
        Peer::Pods { namespaces, pods } => {
            line(out, 1, "- pods:");
            match namespaces {
                NamespaceSet::Matching(namespaces) => selector(out, 3, "namespaceSelector", namespaces),
                NamespaceSet::Own(own) => {
                    line(out, 3, "namespaceSelector:");
                    line(out, 4, &format!("matchLabels: {{kubernetes.io/metadata.name: {}}}", scalar(own)));
                }
            }
            selector(out, 3, "podSelector", pods);
        }
        Peer::Networks(blocks) => {
            line(out, 1, "- networks:");
            for block in blocks {
                line(out, 2, &format!("- {}", scalar(&block.cidr.to_string())));
            }
        }
        Peer::Nodes(nodes) => selector(out, 1, "- nodes", nodes),
        Peer::Domains(patterns) => {
            line(out, 1, "- domainNames:");
            for pattern in patterns {
                line(out, 2, &format!("- {}", scalar(pattern.as_str())));
            }
        }
        Peer::Relative(_) | Peer::Unreadable => {}
    }
}

fn cnp_port(out: &mut String, entry: &PortMatch) {
    match entry {
        PortMatch::Numbers { protocol, ports } if ports.first() == ports.last() => {
            line(out, 1, &format!("- {protocol}: {{destinationPort: {{number: {}}}}}", ports.first()));
        }
        PortMatch::Numbers { protocol, ports } => {
            let (start, end) = (ports.first().max(1), ports.last());
            line(out, 1, &format!("- {protocol}: {{destinationPort: {{range: {{start: {start}, end: {end}}}}}}}"));
        }
        PortMatch::Named { name, .. } => line(out, 1, &format!("- destinationNamedPort: {}", scalar(name))),
        PortMatch::Unreadable => {}
    }
}

fn selector(out: &mut String, depth: usize, name: &str, selector: &LabelSelector) {
    if selector.selects_everything() {
        return line(out, depth, &format!("{name}: {{}}"));
    }
    line(out, depth, &format!("{name}:"));
    let depth = if name.starts_with('-') { depth + 1 } else { depth };
    let mut labels = Vec::new();
    let mut expressions = Vec::new();
    for requirement in &selector.requirements {
        let key = scalar(&requirement.key);
        let several = |values: &[Box<str>]| values.iter().map(|it| scalar(it)).collect::<Vec<_>>().join(", ");
        match &requirement.operator {
            Operator::Equals(value) => labels.push(format!("{key}: {}", scalar(value))),
            Operator::In(values) => expressions.push(format!("{{key: {key}, operator: In, values: [{}]}}", several(values))),
            Operator::NotIn(values) => expressions.push(format!("{{key: {key}, operator: NotIn, values: [{}]}}", several(values))),
            Operator::Exists => expressions.push(format!("{{key: {key}, operator: Exists}}")),
            Operator::DoesNotExist => expressions.push(format!("{{key: {key}, operator: DoesNotExist}}")),
        }
    }
    if !labels.is_empty() {
        line(out, depth + 1, &format!("matchLabels: {{{}}}", labels.join(", ")));
    }
    if !expressions.is_empty() {
        line(out, depth + 1, "matchExpressions:");
        for expression in expressions {
            line(out, depth + 1, &format!("- {expression}"));
        }
    }
}

fn upper(protocol: PortProtocol) -> &'static str {
    match protocol {
        PortProtocol::Tcp => "TCP",
        PortProtocol::Udp => "UDP",
        PortProtocol::Sctp => "SCTP",
    }
}

/// A string that every YAML reader takes for a string: quoted unless it plainly is one.
pub(crate) fn scalar(text: &str) -> String {
    let word =
        text.starts_with(|it: char| it.is_ascii_alphabetic()) && text.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_./".contains(&it));
    let lower = text.to_ascii_lowercase();
    let reserved = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"].contains(&lower.as_str());
    if word && !reserved { text.to_owned() } else { format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")) }
}

fn line(out: &mut String, depth: usize, text: &str) {
    for _ in 0..depth {
        out.push_str("  ");
    }
    out.push_str(text);
    out.push('\n');
}
