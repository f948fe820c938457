//! A block that was meant for a Service.

use std::collections::BTreeSet;

use palisade_model::{IpBlock, Severity};

use crate::context::{Block, Context, Owner, listed};
use crate::finding::Finding;
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "cluster-ip-in-ip-block",
    severity: Severity::Warning,
    summary: "A block holds addresses of Services and of nobody else in the cluster.",
    why: "The address of a Service is rewritten to that of a pod before policy sees the packet, so a block never matches it: the rule neither opens nor closes the \
          way to the Service.",
    fix: "Select the pods behind the Service by their labels, with the port that they serve.",
    fixable: false,
    needs: Needs::Policies,
    check,
};

/// A block that is wider than this is meant for more than Services.
const WIDEST: u8 = 8;

fn check(context: &Context<'_>) -> Vec<Finding> {
    context.blocks().filter_map(|block| finding(context, &block)).collect()
}

fn finding(context: &Context<'_>, block: &Block<'_>) -> Option<Finding> {
    let services = services_alone(context, block.block);
    if services.is_empty() {
        return None;
    }
    let names = listed(services);
    let message = format!("{} holds the address of Service {names}, which policy never sees", block.block.cidr);
    Some(Finding::new(&RULE, block.spot("matches no connection to a Service"), message).help("select the pods behind it by their labels"))
}

/// The Services of a block that holds nobody else of the cluster.
pub(super) fn services_alone(context: &Context<'_>, block: &IpBlock) -> BTreeSet<String> {
    let mut services = BTreeSet::new();
    if block.cidr.prefix_len() < WIDEST {
        return services;
    }
    for owner in context.owners_in(block) {
        match owner {
            Owner::Service(at) => services.extend(context.model.services.get(at).map(|it| format!("{}/{}", it.namespace, it.name))),
            Owner::Pod(_) | Owner::Node(_) => return BTreeSet::new(),
        }
    }
    services
}

#[cfg(test)]
mod tests {
    use crate::testing::{CLUSTER, found, np};

    fn lint(cidr: &str) -> Vec<String> {
        let spec = format!("  podSelector: {{}}\n  policyTypes: [Egress]\n  egress:\n  - to: [{{ipBlock: {{cidr: {cidr}}}}}]");
        found("cluster-ip-in-ip-block", &(CLUSTER.to_owned() + &np(&spec)))
    }

    #[test]
    fn the_address_of_a_service() {
        for cidr in ["10.96.0.7/32", "10.96.0.0/12"] {
            let expected = format!(
                "warning NetworkPolicy shop/p spec.egress[0].to[0].ipBlock.cidr: {cidr} holds the address of Service shop/db, which policy never sees"
            );
            assert_eq!(lint(cidr), [expected]);
        }
    }

    #[test]
    fn a_network_that_holds_pods_too_may_be_meant_for_them() {
        for cidr in ["10.0.0.0/8", "0.0.0.0/0", "203.0.113.0/24"] {
            assert_eq!(lint(cidr), Vec::<String>::new());
        }
    }
}
