//! Egress to everywhere, the metadata service of the cloud included.

use std::net::{IpAddr, Ipv4Addr};

use palisade_model::{Action, Direction, PortMatch, PortProtocol, Severity};

use crate::context::{Context, ports};
use crate::finding::Finding;
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "metadata-address-open",
    severity: Severity::Note,
    summary: "An egress rule for a whole family also opens the address at which clouds hand out a node's credentials.",
    why: "At 169.254.169.254 most clouds answer anyone on the node, tokens included. A rule that was meant for the internet lets every subject ask there.",
    fix: "Except `169.254.169.254/32` from the block, unless the pods need it.",
    fixable: false,
    needs: Needs::Policies,
    check,
};

const METADATA: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));

fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for block in context.blocks() {
        let accepts = block.placed.direction == Direction::Egress && block.placed.rule.action == Action::Accept;
        let http = |port: &PortMatch| match port {
            PortMatch::Numbers { protocol, ports } => *protocol == PortProtocol::Tcp && ports.contains(80),
            PortMatch::Named { .. } | PortMatch::Unreadable => false,
        };
        let asked = ports(block.placed.rule).is_empty() || ports(block.placed.rule).iter().any(http);
        if accepts && asked && block.block.cidr.prefix_len() == 0 && block.block.contains(METADATA) {
            let message = format!("opens {METADATA}, where clouds hand out the credentials of the node");
            findings.push(Finding::new(&RULE, block.spot("the whole of IPv4"), message).help(format!("write `except: [{METADATA}/32]`")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use crate::testing::{found, np};

    fn lint(block: &str, ports: &str) -> Vec<String> {
        let spec = format!("  podSelector: {{}}\n  policyTypes: [Egress]\n  egress:\n  - to: [{{ipBlock: {block}}}]\n    ports: [{ports}]");
        found("metadata-address-open", &np(&spec))
    }

    #[test]
    fn everywhere_is_there_too() {
        let expected = "note NetworkPolicy shop/p spec.egress[0].to[0].ipBlock.cidr: opens 169.254.169.254, where clouds hand out the credentials of the node";
        assert_eq!(lint("{cidr: 0.0.0.0/0}", ""), [expected]);
        assert_eq!(lint("{cidr: 0.0.0.0/0}", "{port: 80}"), [expected]);
    }

    #[test]
    fn excepted_or_on_other_ports_is_fine() {
        assert_eq!(lint("{cidr: 0.0.0.0/0, except: [169.254.0.0/16]}", ""), Vec::<String>::new());
        assert_eq!(lint("{cidr: 0.0.0.0/0}", "{port: 443}"), Vec::<String>::new());
        assert_eq!(lint("{cidr: 10.0.0.0/8}", ""), Vec::<String>::new());
    }
}
