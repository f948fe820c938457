//! A block that is the address of a pod.

use palisade_model::Severity;

use crate::context::{Context, Owner};
use crate::finding::Finding;
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "pod-ip-in-ip-block",
    severity: Severity::Warning,
    summary: "A block of one address is the address of a pod.",
    why: "Pods get another address with every restart, and the old one goes to some other pod: the rule soon lets in a stranger and shuts out whom it meant.",
    fix: "Select the pod by its labels.",
    fixable: false,
    needs: Needs::Pods,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for block in context.blocks().filter(|it| it.is_one_address()) {
        let Some(Owner::Pod(pod)) = context.owners_in(block.block).next() else { continue };
        let labels = context.model.endpoint(pod).map(|it| it.labels.to_string()).filter(|it| !it.is_empty());
        let message = format!("{} is the address of pod {}, which changes when it restarts", block.block.cidr.network(), context.name(pod));
        let finding = Finding::new(&RULE, block.spot("a pod"), message);
        findings.push(match labels {
            Some(labels) => finding.help(format!("select it by its labels: {labels}")),
            None => finding.help("give the pod a label and select it by that"),
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use crate::testing::{CLUSTER, found, np};

    fn lint(cidr: &str) -> Vec<String> {
        let spec = format!("  podSelector: {{}}\n  ingress:\n  - from: [{{ipBlock: {{cidr: {cidr}}}}}]");
        found("pod-ip-in-ip-block", &(CLUSTER.to_owned() + &np(&spec)))
    }

    #[test]
    fn the_address_of_a_pod() {
        let expected = "warning NetworkPolicy shop/p spec.ingress[0].from[0].ipBlock.cidr: 10.0.1.1 is the address of pod infra/agent, which changes when it restarts";
        assert_eq!(lint("10.0.1.1/32"), [expected]);
    }

    #[test]
    fn other_addresses_and_networks_that_hold_pods_are_fine() {
        assert_eq!(lint("203.0.113.7/32"), Vec::<String>::new());
        assert_eq!(lint("10.0.0.0/8"), Vec::<String>::new());
    }
}
