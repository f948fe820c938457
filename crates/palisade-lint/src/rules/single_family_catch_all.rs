//! All of one family, nothing of the other.

use palisade_model::{Family, IpBlock, Severity};

use crate::context::{Block, Context, networks, peers};
use crate::finding::Finding;
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "single-family-catch-all",
    severity: Severity::Warning,
    summary: "In a cluster with both families a policy names every address of one family and says nothing about the other.",
    why: "A block is of one family. An Accept for `0.0.0.0/0` leaves IPv6 closed for an isolated pod, and connections fail or are slow depending on which address a name \
          resolves to; a Deny for it leaves IPv6 open.",
    fix: "Add the whole of the other family: `::/0` beside `0.0.0.0/0`.",
    fixable: false,
    needs: Needs::Pods,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let dual = context.model.endpoints.iter().any(|it| {
        let has = |family| it.addresses.iter().any(|address| Family::of(*address) == family);
        has(Family::V4) && has(Family::V6)
    });
    if !dual {
        return Vec::new();
    }
    context.blocks().filter(|it| is_all(it.block)).filter_map(|it| finding(&it)).collect()
}

fn is_all(block: &IpBlock) -> bool {
    block.cidr.prefix_len() == 0
}

fn family(block: &IpBlock) -> Family {
    Family::of(block.cidr.network())
}

fn finding(block: &Block<'_>) -> Option<Finding> {
    let rules = block.placed.policy.rules.of(block.placed.direction).iter();
    let mut all = rules.flat_map(peers).flat_map(networks).filter(|it| is_all(it));
    if all.any(|it| family(it) != family(block.block)) {
        return None;
    }
    let (has, lacks, other) = match family(block.block) {
        Family::V4 => (Family::V4, Family::V6, "::/0"),
        Family::V6 => (Family::V6, Family::V4, "0.0.0.0/0"),
    };
    let message = format!("every {has} address is named and no {lacks} address, and pods have both");
    Some(Finding::new(&RULE, block.spot(format!("{has} only")), message).help(format!("add `{other}` if both are meant")))
}

#[cfg(test)]
mod tests {
    use crate::testing::{CLUSTER, found, np};

    const ONE: &str = "  podSelector: {}\n  ingress:\n  - from: [{ipBlock: {cidr: 0.0.0.0/0}}]";

    fn dual() -> String {
        CLUSTER.replace("podIPs: [{ip: 10.0.0.1}]", "podIPs: [{ip: 10.0.0.1}, {ip: 'fd00::1'}]")
    }

    #[test]
    fn one_family_of_two() {
        let expected = "warning NetworkPolicy shop/p spec.ingress[0].from[0].ipBlock.cidr: every IPv4 address is named and no IPv6 address, and pods have both";
        assert_eq!(found("single-family-catch-all", &(dual() + &np(ONE))), [expected]);
    }

    #[test]
    fn both_families_and_clusters_with_one_are_fine() {
        let both = ONE.replace("}}]", "}}, {ipBlock: {cidr: '::/0'}}]");
        assert_eq!(found("single-family-catch-all", &(dual() + &np(&both))), Vec::<String>::new());
        assert_eq!(found("single-family-catch-all", &(CLUSTER.to_owned() + &np(ONE))), Vec::<String>::new());
    }
}
