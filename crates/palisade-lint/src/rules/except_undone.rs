//! An exception that another block of the same rules takes back.

use ipnet::IpNet;
use palisade_model::{Action, IpBlock, Severity};
use palisade_report::locate::peer_path;

use crate::context::{Block, Context};
use crate::finding::{Finding, Spot};
use crate::rule::{Needs, Rule};
use crate::within::ports_within;

pub(crate) const RULE: Rule = Rule {
    name: "except-undone",
    severity: Severity::Warning,
    summary: "What one block excepts, another block of the same policy names again.",
    why: "An exception only concerns its own block. Entries and rules are alternatives, so addresses that another entry names are let in after all.",
    fix: "Repeat the exception in the other block, or remove it if the addresses may pass.",
    fixable: false,
    needs: Needs::Policies,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let blocks: Vec<Block<'_>> = context.blocks().collect();
    let mut findings = Vec::new();
    // Blocks of one policy stand together.
    for own in blocks.chunk_by(|a, b| a.placed.policy.origin == b.placed.policy.origin && a.placed.direction == b.placed.direction) {
        for block in own.iter().filter(|it| it.placed.rule.action == Action::Accept) {
            for (at, except) in block.block.except.iter().enumerate() {
                findings.extend(own.iter().find(|other| takes_back(block, except, other)).map(|other| finding(block, at, except, other)));
            }
        }
    }
    findings
}

fn takes_back(block: &Block<'_>, except: &IpNet, other: &Block<'_>) -> bool {
    let same = (block.placed.rule.index, block.peer, block.at) == (other.placed.rule.index, other.peer, other.at);
    let names = |it: &IpBlock| it.cidr.contains(except) && it.except.iter().all(|hole| !hole.contains(except) && !except.contains(hole));
    let accepts = other.placed.rule.action == Action::Accept;
    !same && accepts && names(other.block) && ports_within(&block.placed.rule.ports, &other.placed.rule.ports)
}

fn finding(block: &Block<'_>, at: usize, except: &IpNet, other: &Block<'_>) -> Finding {
    let rule = block.placed.reference();
    let path = peer_path(&rule, block.peer).field("ipBlock").field("except").index(at);
    let spot = Spot::of(&rule.policy, vec![path], "excepted here");
    let message = format!(
        "{except} is excepted from {}, and {} of {} rule {} names it again",
        block.block.cidr, other.block.cidr, rule.direction, other.placed.rule.index
    );
    Finding::new(&RULE, spot, message).further(other.spot("named again"))
}

#[cfg(test)]
mod tests {
    use crate::testing::{found, np};

    fn lint(second: &str) -> Vec<String> {
        let spec = format!(
            "  podSelector: {{}}\n  policyTypes: [Egress]\n  egress:\n  - to:\n    - ipBlock: {{cidr: 0.0.0.0/0, except: [10.1.0.0/16]}}\n    - ipBlock: {second}"
        );
        found("except-undone", &np(&spec))
    }

    #[test]
    fn another_block_names_what_was_excepted() {
        let expected = "warning NetworkPolicy shop/p spec.egress[0].to[0].ipBlock.except[0]: \
                        10.1.0.0/16 is excepted from 0.0.0.0/0, and 10.0.0.0/8 of egress rule 0 names it again";
        assert_eq!(lint("{cidr: 10.0.0.0/8}"), [expected]);
    }

    #[test]
    fn a_part_that_is_let_in_on_purpose_is_fine() {
        assert_eq!(lint("{cidr: 10.1.2.0/24}"), Vec::<String>::new());
        assert_eq!(lint("{cidr: 10.0.0.0/8, except: [10.1.0.0/16]}"), Vec::<String>::new());
        assert_eq!(lint("{cidr: 192.0.2.0/24}"), Vec::<String>::new());
    }
}
