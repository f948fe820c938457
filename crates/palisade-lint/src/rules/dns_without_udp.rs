//! Port 53 for TCP alone.

use palisade_model::{Action, Direction, PortMatch, PortProtocol, Severity};
use palisade_report::locate::port_path;

use crate::context::{Context, ports};
use crate::finding::{Finding, Spot};
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "dns-without-udp",
    severity: Severity::Warning,
    summary: "A policy accepts egress to port 53 with TCP, and none of its rules does with UDP.",
    why: "A port without `protocol` is a TCP port. DNS asks by UDP first, so names do not resolve, or only after a timeout.",
    fix: "Add the same port with `protocol: UDP`.",
    fixable: false,
    needs: Needs::Policies,
    check,
};

const DNS: u16 = 53;

fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for placed in context.rules().filter(|it| it.direction == Direction::Egress && it.rule.action == Action::Accept) {
        let Some(at) = ports(placed.rule).iter().position(|it| is_dns(it, PortProtocol::Tcp)) else { continue };
        let mut others = placed.policy.rules.egress.iter().filter(|it| it.action == Action::Accept);
        let covers_udp = |port: &PortMatch| match port {
            PortMatch::Numbers { protocol, ports } => *protocol == PortProtocol::Udp && ports.contains(DNS),
            PortMatch::Named { .. } | PortMatch::Unreadable => true,
        };
        if others.any(|it| ports(it).is_empty() || ports(it).iter().any(covers_udp)) {
            continue;
        }
        let rule = placed.reference();
        let spot = Spot::of(&rule.policy, vec![port_path(&rule, at)], "TCP");
        let message = "port 53 is accepted with TCP alone, and DNS asks by UDP first";
        findings.push(Finding::new(&RULE, spot, message).help("add the same port with `protocol: UDP`"));
    }
    findings
}

/// Whether an entry is port 53 of a protocol and nothing else.
fn is_dns(port: &PortMatch, wanted: PortProtocol) -> bool {
    match port {
        PortMatch::Numbers { protocol, ports } => *protocol == wanted && ports.first() == DNS && ports.last() == DNS,
        PortMatch::Named { .. } | PortMatch::Unreadable => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{found, np};

    fn lint(ports: &str) -> Vec<String> {
        found("dns-without-udp", &np(&format!("  podSelector: {{}}\n  policyTypes: [Egress]\n  egress:\n  - ports: [{ports}]")))
    }

    #[test]
    fn tcp_alone_is_found() {
        let expected =
            "warning NetworkPolicy shop/p spec.egress[0].ports[0]: port 53 is accepted with TCP alone, and DNS asks by UDP first";
        assert_eq!(lint("{port: 53}"), [expected]);
    }

    #[test]
    fn both_or_udp_alone_are_fine() {
        assert_eq!(lint("{port: 53}, {port: 53, protocol: UDP}"), Vec::<String>::new());
        assert_eq!(lint("{port: 53, protocol: UDP}"), Vec::<String>::new());
        assert_eq!(lint("{port: 80}"), Vec::<String>::new());
    }
}
