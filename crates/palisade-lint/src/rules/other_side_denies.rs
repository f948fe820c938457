//! A rule whose connections are denied at the other end.

use palisade_model::{Direction, Reason, Severity};
use palisade_report::locate::rule_path;

use crate::asking::Blocked;
use crate::context::{Context, called, listed};
use crate::finding::{Finding, Spot};
use crate::paths;
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "other-side-denies",
    severity: Severity::Warning,
    summary: "Everything that a rule accepts between pods is denied at the other end.",
    why: "A connection passes only if the egress of its source and the ingress of its destination accept it. A rule on one side alone opens nothing, and the policy that \
          was to allow something does not.",
    fix: "Add the counterpart to a policy of the other pods, or remove the rule. `palisade explain` says what denies it there.",
    fixable: false,
    needs: Needs::Pods,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    context.blocked().iter().filter(|it| it.own.is_empty()).map(|it| finding(context, it)).collect()
}

fn finding(context: &Context<'_>, it: &Blocked<'_>) -> Finding {
    let rule = it.placed.reference();
    let (what, side) = match it.placed.direction {
        Direction::Egress => ("to", "ingress"),
        Direction::Ingress => ("from", "egress"),
    };
    let (subject, peer) = (context.name(it.subject), context.name(it.peer));
    let spot = Spot::of(&rule.policy, vec![rule_path(&rule)], "opens nothing");
    let why = listed(it.other.iter().map(said));
    let message = format!(
        "{} rule {} accepts connections {what} {peer} and others that are denied there: at their {side}, {why}",
        rule.direction, rule.index
    );
    let message =
        if only_one(context, it) { message.replace(" and others that are", " that are").replace("at their", "at its") } else { message };
    let mut finding = Finding::new(&RULE, spot, message);
    for reason in it.other.iter().take(1) {
        finding.further = places(reason);
    }
    let (from, to) = match it.placed.direction {
        Direction::Egress => (subject, peer),
        Direction::Ingress => (peer, subject),
    };
    finding.help(format!("`palisade explain --from {from} --to {to}` shows what denies it"))
}

fn only_one(context: &Context<'_>, it: &Blocked<'_>) -> bool {
    let mut pods = std::collections::BTreeSet::new();
    for peer in crate::context::peers(it.placed.rule) {
        if let palisade_model::Peer::Pods { namespaces, pods: selector } = peer {
            pods.extend(context.pods(namespaces, selector).flat_map(|it| it.pods.iter().copied()));
        }
    }
    pods.len() == 1
}

/// What denied, in words.
pub(super) fn said(reason: &Reason) -> String {
    match reason {
        Reason::Rule(rule) => format!("rule {} of {} denies", rule.index, called(&rule.policy)),
        Reason::Isolated(policies) => format!("{} isolates and no rule accepts", listed(policies.iter().map(called))),
        Reason::NotAPod | Reason::Itself | Reason::OwnNode | Reason::Default => reason.to_string(),
    }
}

/// Where what denied stands.
pub(super) fn places(reason: &Reason) -> Vec<Spot> {
    match reason {
        Reason::Rule(rule) => vec![Spot::of(&rule.policy, paths::rule_name(rule), "denies it")],
        Reason::Isolated(policies) => {
            policies.iter().take(2).map(|it| Spot::of(it, paths::subject(it), "isolates, and accepts nothing of it")).collect()
        }
        Reason::NotAPod | Reason::Itself | Reason::OwnNode | Reason::Default => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{CLUSTER, found, np};

    const EGRESS: &str = "  podSelector: {matchLabels: {app: web}}
  policyTypes: [Egress]
  egress:
  - to: [{podSelector: {matchLabels: {app: db}}}]
    ports: [{port: 5432}]";

    fn lint(ingress: &str) -> Vec<String> {
        let other =
            np(&format!("  podSelector: {{matchLabels: {{app: db}}}}\n  ingress:\n  - from: [{ingress}]")).replace("name: p", "name: q");
        found("other-side-denies", &format!("{CLUSTER}{}{other}", np(EGRESS)))
    }

    #[test]
    fn one_side_alone_opens_nothing() {
        let expected = "warning NetworkPolicy shop/p spec.egress[0]: egress rule 0 accepts connections to shop/db that are denied there: \
                        at its ingress, NetworkPolicy shop/q isolates and no rule accepts";
        assert_eq!(lint("{ipBlock: {cidr: 192.0.2.0/24}}"), [expected]);
    }

    #[test]
    fn both_sides_are_fine() {
        assert_eq!(lint("{podSelector: {matchLabels: {app: web}}}"), Vec::<String>::new());
        assert_eq!(found("other-side-denies", &format!("{CLUSTER}{}", np(EGRESS))), Vec::<String>::new());
    }
}
