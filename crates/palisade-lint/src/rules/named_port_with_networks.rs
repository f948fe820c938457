//! A named port where the destination is no pod.

use palisade_model::{Direction, Peer, PortMatch, Severity};
use palisade_report::locate::{peer_path, port_path};

use crate::context::{Context, Owner, Placed, peers, ports};
use crate::finding::{Finding, Spot};
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "named-port-with-networks",
    severity: Severity::Warning,
    summary: "An egress rule names a port, and all its peers are blocks of addresses outside of the cluster.",
    why: "A name is looked up among the container ports of the destination pod. An address that is no pod has none, so the rule matches nothing.",
    fix: "Write the number of the port.",
    fixable: false,
    needs: Needs::Policies,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for placed in context.rules().filter(|it| it.direction == Direction::Egress && is_outside(context, it)) {
        for (at, port) in ports(placed.rule).iter().enumerate() {
            let PortMatch::Named { name, .. } = port else { continue };
            let rule = placed.reference();
            let spot = Spot::of(&rule.policy, vec![port_path(&rule, at).field("port"), port_path(&rule, at)], "matches nothing");
            let message = format!("`{name}` is looked up in pods, and the peers of egress rule {} are none", rule.index);
            findings.push(
                Finding::new(&RULE, spot, message)
                    .further(Spot::of(&rule.policy, vec![peer_path(&rule, 0)], "no pod"))
                    .help("write its number"),
            );
        }
    }
    findings
}

/// Whether all peers are blocks that hold no pod.
fn is_outside(context: &Context<'_>, placed: &Placed<'_>) -> bool {
    let outside = |peer: &Peer| match peer {
        Peer::Networks(blocks) => !blocks.iter().any(|it| context.owners_in(it).any(|it| matches!(it, Owner::Pod(_)))),
        Peer::Pods { .. } | Peer::Relative(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => false,
    };
    let named = ports(placed.rule).iter().any(|it| matches!(it, PortMatch::Named { .. }));
    named && !peers(placed.rule).is_empty() && peers(placed.rule).iter().all(outside)
}

#[cfg(test)]
mod tests {
    use crate::testing::{CLUSTER, found, np};

    fn lint(to: &str, port: &str) -> Vec<String> {
        let spec = format!("  podSelector: {{}}\n  policyTypes: [Egress]\n  egress:\n  - to: [{to}]\n    ports: [{{port: {port}}}]");
        found("named-port-with-networks", &(CLUSTER.to_owned() + &np(&spec)))
    }

    #[test]
    fn an_address_outside_has_no_names() {
        let expected = "warning NetworkPolicy shop/p spec.egress[0].ports[0].port: `https` is looked up in pods, and the peers of egress rule 0 are none";
        assert_eq!(lint("{ipBlock: {cidr: 203.0.113.0/24}}", "https"), [expected]);
    }

    #[test]
    fn numbers_and_pods_are_fine() {
        assert_eq!(lint("{ipBlock: {cidr: 203.0.113.0/24}}", "443"), Vec::<String>::new());
        assert_eq!(lint("{ipBlock: {cidr: 10.0.0.0/8}}", "http"), Vec::<String>::new());
        assert_eq!(lint("{podSelector: {}}", "http"), Vec::<String>::new());
    }
}
