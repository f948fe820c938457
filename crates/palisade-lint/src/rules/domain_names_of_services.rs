//! Domain names of the cluster itself.

use palisade_model::{Peer, Severity};
use palisade_report::locate::peer_path;

use crate::context::{Context, peers};
use crate::finding::{Finding, Spot};
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "domain-names-of-services",
    severity: Severity::Warning,
    summary: "`domainNames` holds a name of the cluster's own, such as that of a Service.",
    why: "The name of a Service resolves to the Service's address, which is rewritten to that of a pod before policy sees the packet. The API leaves open whether such \
          names match at all, so controllers differ.",
    fix: "Select the pods behind the Service by their labels, with `pods`.",
    fixable: false,
    needs: Needs::Policies,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for placed in context.rules() {
        for (at, peer) in peers(placed.rule).iter().enumerate() {
            let Peer::Domains(patterns) = peer else { continue };
            for (number, pattern) in patterns.iter().enumerate().filter(|it| it.1.is_cluster_local()) {
                let rule = placed.reference();
                let path = peer_path(&rule, at).field("domainNames").index(number);
                let message = format!("`{pattern}` names something in the cluster, which no domain name reliably matches");
                findings.push(Finding::new(&RULE, Spot::of(&rule.policy, vec![path], "select its pods by labels"), message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use crate::testing::{cnp, found};

    fn lint(name: &str) -> Vec<String> {
        let spec = format!(
            "  tier: Admin\n  priority: 1\n  subject: {{namespaces: {{}}}}\n  egress:\n  - {{action: Accept, to: [{{domainNames: ['{name}']}}]}}"
        );
        found("domain-names-of-services", &cnp("c", &spec))
    }

    #[test]
    fn the_name_of_a_service() {
        let expected = "warning ClusterNetworkPolicy c spec.egress[0].to[0].domainNames[0]: \
                        `db.shop.svc.cluster.local` names something in the cluster, which no domain name reliably matches";
        assert_eq!(lint("db.shop.svc.cluster.local"), [expected]);
    }

    #[test]
    fn names_outside_are_fine() {
        assert_eq!(lint("*.example.com"), Vec::<String>::new());
    }
}
