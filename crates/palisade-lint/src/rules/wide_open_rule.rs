//! A rule that accepts everything.

use palisade_model::{Action, Direction, NamespaceSet, Peer, PeerSet, PortSet, Severity, Subject, Tier};
use palisade_report::locate::rule_path;

use crate::context::{Context, Placed, called, listed};
use crate::finding::{Finding, Spot};
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "wide-open-rule",
    severity: Severity::Warning,
    summary: "A rule accepts all traffic of everybody.",
    why: "NetworkPolicies add up: one rule for everybody undoes what all the others restrict for its pods. In the Admin tier an Accept for all pods means that no \
          NetworkPolicy is asked.",
    fix: "Name peers or ports. In the Admin tier write Pass if NetworkPolicies are to decide.",
    fixable: false,
    needs: Needs::Policies,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    context
        .rules()
        .filter(|it| it.rule.action == Action::Accept && it.rule.ports == PortSet::Any)
        .filter_map(|it| finding(context, &it))
        .collect()
}

fn finding(context: &Context<'_>, placed: &Placed<'_>) -> Option<Finding> {
    let rule = placed.reference();
    let spot = |label: &str| Spot::of(&rule.policy, vec![rule_path(&rule)], label);
    match (placed.policy.tier, &placed.rule.peers) {
        (Tier::NetworkPolicy, PeerSet::Any) => {
            let moot = moot(context, placed);
            let message = format!("{} rule {} accepts everything", rule.direction, rule.index);
            Some(match moot.is_empty() {
                true => Finding::new(&RULE, spot("everybody, all traffic"), message).severity(Severity::Note),
                false => {
                    let message = format!("{message}, so that {} for the same pods restrict nothing", listed(moot));
                    Finding::new(&RULE, spot("everybody, all traffic"), message)
                }
            })
        }
        (Tier::Admin, PeerSet::Of(peers)) if peers.iter().any(is_everyone) => {
            let message = format!(
                "{} rule {} accepts all traffic of all pods, so that no NetworkPolicy is asked about it",
                rule.direction, rule.index
            );
            // For some pods it may well be meant: a DNS, an ingress.
            let severity = if is_about_all(&placed.policy.subject) { Severity::Warning } else { Severity::Note };
            let finding = Finding::new(&RULE, spot("all pods, all traffic"), message).severity(severity);
            Some(finding.help("write Pass if NetworkPolicies are to decide"))
        }
        (Tier::Admin | Tier::NetworkPolicy | Tier::Baseline, _) => None,
    }
}

fn is_about_all(subject: &Subject) -> bool {
    match subject {
        Subject::Pods { namespaces: NamespaceSet::Matching(namespaces), pods } => {
            namespaces.selects_everything() && pods.selects_everything()
        }
        Subject::Pods { namespaces: NamespaceSet::Own(_), .. } | Subject::Unknown => false,
    }
}

fn is_everyone(peer: &Peer) -> bool {
    match peer {
        Peer::Pods { namespaces: NamespaceSet::Matching(namespaces), pods } => namespaces.selects_everything() && pods.selects_everything(),
        Peer::Pods { .. } | Peer::Relative(_) | Peer::Networks(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => false,
    }
}

/// The other policies that restrict the same pods in vain. One that only isolates is there for pods that no rule speaks about.
fn moot(context: &Context<'_>, placed: &Placed<'_>) -> Vec<String> {
    let subjects = context.subjects(placed.policy);
    let restricts = |it: &&palisade_model::Policy, direction: Direction| {
        it.tier == Tier::NetworkPolicy && it.origin.namespace == placed.policy.origin.namespace && !it.rules.of(direction).is_empty()
    };
    let others = context.model.policies.iter().filter(|it| it.origin != placed.policy.origin && restricts(it, placed.direction));
    let moot = others.filter(|it| context.subjects(it).iter().any(|crowd| subjects.contains(crowd)));
    moot.map(|it| called(&it.origin)).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{CLUSTER, cnp, found, np};

    const OPEN: &str = "  podSelector: {}\n  ingress:\n  - {}";

    #[test]
    fn a_rule_for_everybody_makes_others_moot() {
        assert_eq!(found("wide-open-rule", &np(OPEN)), ["note NetworkPolicy shop/p spec.ingress[0]: ingress rule 0 accepts everything"]);
        let other = np("  podSelector: {matchLabels: {app: web}}\n  ingress:\n  - ports: [{port: 80}]").replace("name: p", "name: q");
        let expected = "warning NetworkPolicy shop/p spec.ingress[0]: ingress rule 0 accepts everything, so that NetworkPolicy shop/q for the same pods restrict nothing";
        assert_eq!(found("wide-open-rule", &format!("{CLUSTER}{}{other}", np(OPEN))), [expected]);
    }

    fn admin(action: &str) -> String {
        let spec = format!(
            "  tier: Admin\n  priority: 1\n  subject: {{namespaces: {{}}}}\n  ingress:\n  - {{action: {action}, from: [{{namespaces: {{}}}}]}}"
        );
        cnp("c", &spec)
    }

    #[test]
    fn an_admin_accept_for_all_pods_leaves_nothing_to_networkpolicy() {
        let expected = "warning ClusterNetworkPolicy c spec.ingress[0]: ingress rule 0 accepts all traffic of all pods, so that no NetworkPolicy is asked about it";
        assert_eq!(found("wide-open-rule", &admin("Accept")), [expected]);
    }

    #[test]
    fn for_some_pods_it_may_be_meant() {
        let some = admin("Accept").replace("subject: {namespaces: {}}", "subject: {namespaces: {matchLabels: {team: infra}}}");
        assert_eq!(found("wide-open-rule", &some)[0].split(' ').next(), Some("note"));
    }

    #[test]
    fn rules_with_peers_or_ports_and_other_actions_are_fine() {
        assert_eq!(found("wide-open-rule", &admin("Pass")), Vec::<String>::new());
        assert_eq!(found("wide-open-rule", &np("  podSelector: {}\n  ingress:\n  - ports: [{port: 80}]")), Vec::<String>::new());
        assert_eq!(found("wide-open-rule", &np("  podSelector: {}\n  ingress:\n  - from: [{podSelector: {}}]")), Vec::<String>::new());
    }
}
