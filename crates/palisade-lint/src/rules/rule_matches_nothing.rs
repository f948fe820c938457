//! A rule of a cluster policy that is for nobody, or for no traffic.

use palisade_model::{Direction, Peer, RelativeNamespaces, RelativeSelector, Severity, Tier};
use palisade_report::locate::{peer_path, rule_path};

use crate::context::{Context, Placed, peers};
use crate::finding::{Finding, Spot};
use crate::rule::{Needs, Rule};
use crate::within::{has_no_peer, has_no_traffic, is_nobody};

pub(crate) const RULE: Rule = Rule {
    name: "rule-matches-nothing",
    severity: Severity::Warning,
    summary: "A rule of a cluster policy has no peer, no port, or a peer that compares no label, so that it matches nothing whatever pods there are.",
    why: "In a NetworkPolicy an empty list means everyone; in the shape that KEP-2091 proposed it means nobody. A Deny that was meant for everyone denies nothing.",
    fix: "Write `namespaceSelector: {}` for all pods, `allPorts: true` for all traffic, and the keys to compare in `sameLabels` and `notSameLabels`. Remove what is meant for \
          nobody.",
    fixable: false,
    needs: Needs::Policies,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    // What cannot be read has been told by who read it.
    let read = |it: &Placed<'_>| it.policy.tier != Tier::NetworkPolicy && it.rule.fail_closed.is_none();
    context.rules().filter(read).flat_map(|it| of_rule(&it)).collect()
}

fn of_rule(placed: &Placed<'_>) -> Vec<Finding> {
    let rule = placed.reference();
    let (policy, direction, index) = (&rule.policy, rule.direction, rule.index);
    let list = match direction {
        Direction::Ingress => "from",
        Direction::Egress => "to",
    };
    let mut findings = Vec::new();
    if peers(placed.rule).is_empty() && has_no_peer(placed.rule) {
        let spot = Spot::of(policy, vec![rule_path(&rule).field(list), rule_path(&rule)], "nobody");
        let message = format!("{direction} rule {index} matches nothing: it has no entry in `{list}`, which means nobody");
        findings.push(Finding::new(&RULE, spot, message).help("write an entry with `namespaceSelector: {}` if all pods are meant"));
    }
    for (at, entry) in peers(placed.rule).iter().enumerate().filter(|it| is_nobody(it.1)) {
        let Some(field) = empty_field(entry) else { continue };
        let spot = Spot::of(policy, vec![peer_path(&rule, at)], "nobody");
        let what = if has_no_peer(placed.rule) { "matches nothing" } else { "has a peer that is nobody" };
        let message = format!("{direction} rule {index} {what}: `{field}` without a key means nobody");
        findings.push(Finding::new(&RULE, spot, message).help(format!("write the keys to compare into `{field}`, or remove the entry")));
    }
    if has_no_traffic(placed.rule) {
        let layer4 = rule_path(&rule).field("l4Selector");
        let spot = Spot::of(policy, vec![layer4.clone().field("ports"), layer4, rule_path(&rule)], "no traffic");
        let message = format!("{direction} rule {index} matches nothing: no entry of `ports` has a port, which means no traffic");
        findings.push(Finding::new(&RULE, spot, message).help("write a port, or `allPorts: true` if all traffic is meant"));
    }
    findings
}

/// The field that has no key.
fn empty_field(peer: &Peer) -> Option<&'static str> {
    let of = |it: &RelativeSelector| match it {
        RelativeSelector::Same(keys) if keys.is_empty() => Some("sameLabels"),
        RelativeSelector::NoneSame(keys) | RelativeSelector::SomeDiffer(keys) if keys.is_empty() => Some("notSameLabels"),
        RelativeSelector::Matching(_) | RelativeSelector::Same(_) | RelativeSelector::NoneSame(_) | RelativeSelector::SomeDiffer(_) => None,
    };
    let Peer::Relative(relative) = peer else { return None };
    let namespaces = match &relative.namespaces {
        RelativeNamespaces::Own | RelativeNamespaces::Others => None,
        RelativeNamespaces::Labelled(selector) => of(selector),
    };
    namespaces.or_else(|| of(&relative.pods))
}

#[cfg(test)]
mod tests {
    use crate::testing::{found, kep2091};

    fn lint(rules: &str) -> Vec<String> {
        let all = found("rule-matches-nothing", &kep2091("k", 5, rules));
        all.iter().map(|it| it.strip_prefix("warning AdminNetworkPolicy k spec.").unwrap().to_owned()).collect()
    }

    const ALL: &str = "from: [{namespaces: {namespaceSelector: {}}}]";

    #[test]
    fn nobody_as_peer() {
        for from in [", from: []", ""] {
            let found = lint(&format!("  - {{action: Deny, l4Selector: {{allPorts: true}}{from}}}"));
            let [found] = found.as_slice() else { panic!("{found:?}") };
            assert!(found.ends_with("ingress rule 0 matches nothing: it has no entry in `from`, which means nobody"), "{found}");
        }
        let entry = "{namespaces: {notSameLabels: []}}";
        assert_eq!(
            lint(&format!("  - {{action: Pass, l4Selector: {{allPorts: true}}, from: [{entry}]}}")),
            ["ingress[0].from[0]: ingress rule 0 matches nothing: `notSameLabels` without a key means nobody"]
        );
        assert_eq!(
            lint(&format!("  - {{action: Allow, l4Selector: {{allPorts: true}}, from: [{{namespaces: {{self: true}}}}, {entry}]}}")),
            ["ingress[0].from[1]: ingress rule 0 has a peer that is nobody: `notSameLabels` without a key means nobody"]
        );
    }

    #[test]
    fn no_port() {
        assert_eq!(
            lint(&format!("  - {{action: Deny, l4Selector: {{ports: [{{protocol: TCP}}]}}, {ALL}}}")),
            ["ingress[0].l4Selector.ports: ingress rule 0 matches nothing: no entry of `ports` has a port, which means no traffic"]
        );
    }

    #[test]
    fn rules_that_match_are_fine() {
        assert_eq!(lint(&format!("  - {{action: Deny, l4Selector: {{ports: [{{port: 80}}]}}, {ALL}}}")), Vec::<String>::new());
        let same = "from: [{namespaces: {sameLabels: [team]}}]";
        assert_eq!(lint(&format!("  - {{action: Deny, l4Selector: {{allPorts: true}}, {same}}}")), Vec::<String>::new());
    }

    #[test]
    fn what_matches_nothing_neither_shadows_nor_is_shadowed() {
        let all = "  - {action: Deny, l4Selector: {allPorts: true}, from: [{namespaces: {namespaceSelector: {}}}]}\n";
        let none = "  - {action: Deny, l4Selector: {allPorts: true}, from: []}\n";
        for rules in [format!("{none}{none}"), format!("{all}{none}"), format!("{none}{all}")] {
            assert_eq!(found("rule-shadowed", &kep2091("k", 5, &rules)), Vec::<String>::new(), "{rules}");
        }
    }
}
