//! Cluster policies of one priority that do not agree.

use palisade_engine::{Outcome, Selecting, decide_direction_among};
use palisade_k8s::FieldPath;
use palisade_model::{
    Action, Direction, End, EndpointId, Flow, IpBlock, NetworkId, NodeId, Path, Peer, Place, Policy, PortProtocol, Protocol,
    Rule as PolicyRule, Severity, Tier,
};

use crate::context::{Context, called, networks, peers};
use crate::finding::{Finding, Spot};
use crate::paths;
use crate::rule::{Needs, Rule};
use crate::within::{common_traffic, namespaces_meet, rule_within, selectors_meet, subjects_meet};

pub(crate) const RULE: Rule = Rule {
    name: "equal-priority-conflict",
    severity: Severity::Warning,
    summary: "Two cluster policies of one tier have the same priority, can be about the same pod, and differ about some connection.",
    why: "The API leaves open which of them comes first. Here it is the one whose name comes first; another controller may choose otherwise, and renaming a policy changes \
          verdicts. It is a note while no pod is affected yet.",
    fix: "Give them different priorities.",
    fixable: false,
    needs: Needs::Policies,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for tier in [Tier::Admin, Tier::Baseline] {
        let policies: Vec<&Policy> = context.model.policies.iter().filter(|it| it.tier == tier).collect();
        for same in policies.chunk_by(|a, b| a.rank == b.rank) {
            for (at, second) in same.iter().enumerate() {
                for first in same.get(..at).unwrap_or(&[]) {
                    findings.extend(pair(context, first, second));
                }
            }
        }
    }
    findings
}

fn pair(context: &Context<'_>, first: &Policy, second: &Policy) -> Option<Finding> {
    if !subjects_meet(&first.subject, &second.subject) {
        return None;
    }
    let (direction, a, b) = Direction::BOTH.into_iter().find_map(|it| conflict(first, second, it).map(|(a, b)| (it, a, b)))?;
    let spot =
        |policy: &Policy, label: &str| Spot::of(&policy.origin, vec![paths::field("priority"), FieldPath::default().field("kind")], label);
    let finding = |message: String| {
        Finding::new(&RULE, spot(second, "the same place in the tier"), message)
            .further(spot(first, "the same place in the tier; it wins by its name"))
            .help("give them different priorities")
    };
    // The same number means different things in different kinds.
    let name = match first.origin.kind == second.origin.kind {
        true => format!("has the priority of {}", called(&first.origin)),
        false => format!("has the same place in the tier as {}", called(&first.origin)),
    };
    if let Some(now) = Direction::BOTH.into_iter().find_map(|it| disagreement(context, first, second, it)) {
        let message = format!("{name}, and they differ about {}: {} there, {} here", now.what, now.first, now.second);
        return Some(finding(message));
    }
    let message = format!(
        "{name}, and would differ about {direction} of a pod that both select: rule {} there would {}, rule {} here would {}",
        a.index, a.action, b.index, b.action
    );
    Some(finding(message).severity(Severity::Note))
}

/// Two rules that could decide the same connection in different ways.
fn conflict<'p>(first: &'p Policy, second: &'p Policy, direction: Direction) -> Option<(&'p PolicyRule, &'p PolicyRule)> {
    let (a, b) = (first.rules.of(direction), second.rules.of(direction));
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a, b)));
    // An earlier rule that decides alike takes the connection from the pair.
    let settled = |rule: &PolicyRule, other: &PolicyRule, of: &[PolicyRule]| {
        of.iter().take_while(|it| it.index < other.index).any(|it| it.action == rule.action && rule_within(rule, it))
    };
    // An earlier rule of its own policy takes every connection from the rule.
    let shadowed =
        |rule: &PolicyRule, own: &[PolicyRule]| own.iter().take_while(|it| it.index < rule.index).any(|it| rule_within(rule, it));
    pairs.into_iter().find(|(x, y)| differ(x, y) && !shadowed(x, a) && !shadowed(y, b) && !settled(y, x, a) && !settled(x, y, b))
}

fn differ(a: &PolicyRule, b: &PolicyRule) -> bool {
    let met = peers(a).iter().any(|a| peers(b).iter().any(|b| peers_meet(a, b)));
    a.action != b.action && met && common_traffic(&a.ports, &b.ports).is_some()
}

fn peers_meet(a: &Peer, b: &Peer) -> bool {
    match (a, b) {
        (Peer::Pods { namespaces, pods }, Peer::Pods { namespaces: others, pods: other }) => {
            namespaces_meet(namespaces, others) && selectors_meet(pods, other)
        }
        (Peer::Networks(a), Peer::Networks(b)) => a.iter().any(|a| b.iter().any(|b| common_address(a, b).is_some())),
        (Peer::Nodes(a), Peer::Nodes(b)) => selectors_meet(a, b),
        (Peer::Relative(_), Peer::Relative(_) | Peer::Pods { .. }) | (Peer::Pods { .. }, Peer::Relative(_)) => true,
        (Peer::Pods { .. } | Peer::Networks(_) | Peer::Nodes(_) | Peer::Relative(_) | Peer::Domains(_) | Peer::Unreadable, _) => false,
    }
}

/// The first address of the narrower of two blocks, if both have it.
fn common_address(a: &IpBlock, b: &IpBlock) -> Option<std::net::IpAddr> {
    [a, b].into_iter().map(|it| it.cidr.network()).find(|it| a.contains(*it) && b.contains(*it))
}

/// A connection of today about which two policies differ.
struct Disagreement {
    what: String,
    first: Action,
    second: Action,
}

fn disagreement(context: &Context<'_>, first: &Policy, second: &Policy, direction: Direction) -> Option<Disagreement> {
    let others = context.subjects(second);
    let both = context.subjects(first).into_iter().find(|it| others.contains(it))?;
    let subject = context.end(both)?;
    let traffic = witnesses(first, second, direction);
    for other in ends(context, first, second).into_iter().filter(|it| it.place != subject.place) {
        let (from, to) = match direction {
            Direction::Egress => (subject, other),
            Direction::Ingress => (other, subject),
        };
        for (protocol, port) in &traffic {
            let flow =
                Flow { network: NetworkId::DEFAULT, from, to, protocol: Protocol::Port(*protocol), port: Some(*port), path: Path::Direct };
            let (a, b) = (action(context, first, &flow, direction), action(context, second, &flow, direction));
            if let (Some(first), Some(second)) = (a, b)
                && first != second
            {
                return Some(Disagreement { what: told(context, &flow), first, second });
            }
        }
    }
    None
}

/// What a policy does with a connection, if it is asked.
fn action(context: &Context<'_>, policy: &Policy, flow: &Flow, direction: Direction) -> Option<Action> {
    let among = [Selecting { policy, rules: policy.rules.of(direction).iter().collect() }];
    let walk = decide_direction_among(context.model, &among, flow, direction);
    walk.tiers.iter().find(|it| it.tier == policy.tier).and_then(|it| match it.outcome {
        Outcome::Matched(action) => Some(action),
        Outcome::NoMatch | Outcome::NotIsolated | Outcome::Isolated | Outcome::OwnNode | Outcome::Itself => None,
    })
}

/// Traffic that rules of both name.
fn witnesses(first: &Policy, second: &Policy, direction: Direction) -> std::collections::BTreeSet<(PortProtocol, u16)> {
    let pairs = first.rules.of(direction).iter().flat_map(|a| second.rules.of(direction).iter().map(move |b| (a, b)));
    pairs.filter_map(|(a, b)| common_traffic(&a.ports, &b.ports)).collect()
}

/// Everybody whom two policies could differ about.
fn ends(context: &Context<'_>, first: &Policy, second: &Policy) -> Vec<End> {
    let pods = context.all_pods().filter_map(|it| context.end(it));
    let node = |(at, node): (usize, &palisade_model::Node)| {
        node.addresses.first().map(|it| End { place: Place::Node(NodeId(at)), address: Some(*it) })
    };
    let nodes = context.model.nodes.iter().enumerate().filter_map(node);
    let rules = [first, second].into_iter().flat_map(|it| it.rules.egress.iter());
    let blocks = rules.flat_map(peers).flat_map(networks).map(|it| it.cidr.network());
    let outside = blocks.map(|it| End { place: Place::Outside, address: Some(it) });
    pods.chain(nodes).chain(outside).collect()
}

fn told(context: &Context<'_>, flow: &Flow) -> String {
    let end = |end: &End| match end.place {
        Place::Pod(EndpointId(at)) => context.name(EndpointId(at)),
        Place::Node(id) => context.model.node(id).map(|it| format!("node {}", it.name)).unwrap_or_default(),
        Place::Outside => end.address.map(|it| it.to_string()).unwrap_or_default(),
    };
    format!("{} → {} {}/{}", end(&flow.from), end(&flow.to), flow.protocol, flow.port.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use crate::testing::{CLUSTER, cnp, found};

    fn policy(name: &str, priority: u32, team: &str, rule: &str) -> String {
        let subject = if team.is_empty() { "{}".to_owned() } else { format!("{{matchLabels: {team}}}") };
        cnp(name, &format!("  tier: Admin\n  priority: {priority}\n  subject: {{namespaces: {subject}}}\n  ingress:\n{rule}"))
    }

    const DENY: &str = "  - {action: Deny, from: [{namespaces: {}}]}\n";
    const ACCEPT: &str = "  - {action: Accept, from: [{namespaces: {matchLabels: {team: infra}}}]}\n";

    fn lint(text: &str) -> Vec<String> {
        found("equal-priority-conflict", &format!("{CLUSTER}{text}"))
    }

    #[test]
    fn policies_that_differ_now() {
        let expected = "warning ClusterNetworkPolicy b spec.priority: has the priority of ClusterNetworkPolicy a, \
                        and they differ about infra/agent → shop/db tcp/80: Accept there, Deny here";
        assert_eq!(lint(&(policy("a", 5, "{team: shop}", ACCEPT) + &policy("b", 5, "", DENY))), [expected]);
    }

    #[test]
    fn policies_that_may_differ_later() {
        let expected = "note ClusterNetworkPolicy b spec.priority: has the priority of ClusterNetworkPolicy a, and would differ about ingress of a pod that \
                        both select: rule 0 there would Accept, rule 0 here would Deny";
        assert_eq!(lint(&(policy("a", 5, "{env: prod}", ACCEPT) + &policy("b", 5, "", DENY))), [expected]);
    }

    #[test]
    fn a_rule_that_its_own_policy_never_comes_to_is_not_cited() {
        let narrow = |action: &str| {
            format!("  - {{action: {action}, from: [{{namespaces: {{}}}}], protocols: [{{tcp: {{destinationPort: {{number: 80}}}}}}]}}\n")
        };
        let shadowed = narrow("Deny") + &narrow("Accept");
        assert_eq!(lint(&(policy("a", 5, "", DENY) + &policy("b", 5, "", &shadowed))), Vec::<String>::new());
        assert_eq!(lint(&(policy("a", 5, "", &shadowed) + &policy("b", 5, "", DENY))), Vec::<String>::new());
    }

    #[test]
    fn other_priorities_other_subjects_and_the_same_rules_are_fine() {
        assert_eq!(lint(&(policy("a", 5, "", ACCEPT) + &policy("b", 6, "", DENY))), Vec::<String>::new());
        assert_eq!(lint(&(policy("a", 5, "{team: shop}", ACCEPT) + &policy("b", 5, "{team: infra}", DENY))), Vec::<String>::new());
        assert_eq!(lint(&(policy("a", 5, "", DENY) + &policy("b", 5, "", DENY))), Vec::<String>::new());
        let both = format!("{ACCEPT}{DENY}");
        assert_eq!(lint(&(policy("a", 5, "", &both) + &policy("b", 5, "", ACCEPT))), Vec::<String>::new(), "a accepts it first, too");
    }
}
