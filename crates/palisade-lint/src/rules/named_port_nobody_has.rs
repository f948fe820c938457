//! A named port that no destination has.

use std::collections::BTreeSet;

use palisade_model::{Direction, EndpointId, NamespaceSet, Peer, PeerSet, PortMatch, PortProtocol, Severity};
use palisade_report::locate::port_path;

use crate::context::{Context, Placed, ports};
use crate::finding::{Finding, Spot};
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "named-port-nobody-has",
    severity: Severity::Warning,
    summary: "A rule names a port that no container of the destination pods has.",
    why: "A name is looked up in the destination pod. Where it is not found the entry matches nothing: an Accept lets nothing in, and a Deny denies nothing.",
    fix: "Spell the name as the container port has it, with the same protocol, or write the number.",
    fixable: false,
    needs: Needs::Pods,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for placed in context.rules() {
        let named = |it: &(usize, &PortMatch)| matches!(it.1, PortMatch::Named { .. });
        if !ports(placed.rule).iter().enumerate().any(|it| named(&it)) {
            continue;
        }
        let destinations = destinations(context, &placed);
        // That there is nobody is another rule's finding.
        if destinations.is_empty() {
            continue;
        }
        for (at, port) in ports(placed.rule).iter().enumerate() {
            let PortMatch::Named { protocol, name } = port else { continue };
            findings.extend(missing(context, &placed, at, *protocol, name, &destinations));
        }
    }
    findings
}

/// The pods in which a name is looked up.
fn destinations(context: &Context<'_>, placed: &Placed<'_>) -> BTreeSet<EndpointId> {
    let all = || context.all_pods().flat_map(|it| it.pods.iter().copied()).collect();
    match (placed.direction, &placed.rule.peers) {
        (Direction::Ingress, _) => context.subjects(placed.policy).iter().flat_map(|it| it.pods.iter().copied()).collect(),
        (Direction::Egress, PeerSet::Any | PeerSet::AnyButOwnNode) => all(),
        (Direction::Egress, PeerSet::Of(peers)) => peers
            .iter()
            .flat_map(|peer| match peer {
                Peer::Pods { namespaces, pods } => selected(context, namespaces, pods),
                // A block may hold any pod, and whom a relation means depends on the subject.
                Peer::Relative(_) | Peer::Networks(_) => all(),
                Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => BTreeSet::new(),
            })
            .collect(),
    }
}

fn selected(context: &Context<'_>, namespaces: &NamespaceSet, pods: &palisade_model::LabelSelector) -> BTreeSet<EndpointId> {
    context.pods(namespaces, pods).flat_map(|it| it.pods.iter().copied()).collect()
}

fn missing(
    context: &Context<'_>,
    placed: &Placed<'_>,
    at: usize,
    protocol: Option<PortProtocol>,
    name: &str,
    destinations: &BTreeSet<EndpointId>,
) -> Option<Finding> {
    let declared = destinations.iter().filter_map(|it| context.model.endpoint(*it)).flat_map(|it| &it.ports);
    let mut others: BTreeSet<&str> = BTreeSet::new();
    let mut other_protocol = None;
    for port in declared {
        let Some(declared) = port.name.as_deref() else { continue };
        match declared == name {
            true if protocol.is_none_or(|it| it == port.protocol) => return None,
            true => other_protocol = Some(port.protocol),
            false => drop(others.insert(declared)),
        }
    }
    let spot = Spot::of(&placed.policy.origin, vec![port_path(&placed.reference(), at)], "matches nothing");
    let who = context.named(destinations.iter().copied());
    let finding = Finding::new(&RULE, spot, format!("no destination has a port named `{name}`: {who}"));
    let near = others.iter().find(|it| strsim::osa_distance(it, name) <= 1 || it.eq_ignore_ascii_case(name));
    Some(match (other_protocol, near) {
        (Some(protocol), _) => {
            finding.help(format!("`{name}` is a {protocol} port there; write `protocol: {}`", protocol.to_string().to_uppercase()))
        }
        (None, Some(near)) => finding.help(format!("did you mean `{near}`?")),
        (None, None) if others.is_empty() => finding.help("they name no port at all; write the number"),
        (None, None) => {
            finding.help(format!("they have {}", others.into_iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ")))
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::{CLUSTER, found, np};

    fn ingress(port: &str) -> Vec<String> {
        let policy = np(&format!("  podSelector: {{matchLabels: {{app: db}}}}\n  ingress:\n  - ports: [{port}]"));
        found("named-port-nobody-has", &(CLUSTER.to_owned() + &policy))
    }

    #[test]
    fn a_name_that_the_subjects_do_not_have_is_found() {
        let expected = "warning NetworkPolicy shop/p spec.ingress[0].ports[0]: no destination has a port named `http`: shop/db";
        assert_eq!(ingress("{port: http}"), [expected]);
        let expected = "warning NetworkPolicy shop/p spec.ingress[0].ports[0]: no destination has a port named `postgres`: shop/db";
        assert_eq!(ingress("{port: postgres, protocol: UDP}"), [expected]);
    }

    #[test]
    fn a_name_that_they_have_is_fine() {
        assert_eq!(ingress("{port: postgres}"), Vec::<String>::new());
    }

    #[test]
    fn on_egress_the_name_is_the_peers() {
        let policy = |name: &str| {
            np(&format!(
                "  podSelector: {{matchLabels: {{app: web}}}}\n  policyTypes: [Egress]\n  egress:\n  - to: [{{podSelector: {{matchLabels: {{app: db}}}}}}]\n    ports: [{{port: {name}}}]"
            ))
        };
        assert_eq!(found("named-port-nobody-has", &(CLUSTER.to_owned() + &policy("http"))).len(), 1);
        assert_eq!(found("named-port-nobody-has", &(CLUSTER.to_owned() + &policy("postgres"))), Vec::<String>::new());
    }
}
