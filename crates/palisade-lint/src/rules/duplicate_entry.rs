//! An entry of a list that another entry of the same list holds.

use palisade_k8s::FieldPath;
use palisade_model::Severity;
use palisade_report::locate::{peer_path, port_path};

use crate::context::{Block, Context, Placed, peers, ports};
use crate::finding::{Finding, Spot};
use crate::rule::{Needs, Rule};
use crate::within::{peer_within, port_within};

pub(crate) const RULE: Rule = Rule {
    name: "duplicate-entry",
    severity: Severity::Note,
    summary: "An entry of `from`, `to`, `ports`, `protocols` or `except` says nothing that another entry of the list does not say.",
    why: "Entries are alternatives, so the narrower one can go without changing any verdict. If it was meant to narrow the other, it does not.",
    fix: "Remove the entry, or the wider one if the narrower was meant.",
    fixable: true,
    needs: Needs::Policies,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let of_rules = context.rules().flat_map(|it| of_rule(&it));
    let of_blocks = context.blocks().flat_map(|it| of_block(&it));
    of_rules.chain(of_blocks).collect()
}

fn of_rule(placed: &Placed<'_>) -> Vec<Finding> {
    let rule = placed.reference();
    let peers = superfluous(peers(placed.rule), peer_within).into_iter().map(|(at, by)| (peer_path(&rule, at), peer_path(&rule, by)));
    let ports = superfluous(ports(placed.rule), port_within).into_iter().map(|(at, by)| (port_path(&rule, at), port_path(&rule, by)));
    peers.chain(ports).map(|(path, by)| finding(placed, path, by)).collect()
}

fn of_block(block: &Block<'_>) -> Vec<Finding> {
    let list = peer_path(&block.placed.reference(), block.peer).field("ipBlock").field("except");
    let found = superfluous(&block.block.except, |part, whole| whole.contains(part));
    found.into_iter().map(|(at, by)| finding(&block.placed, list.clone().index(at), list.clone().index(by))).collect()
}

fn finding(placed: &Placed<'_>, path: FieldPath, by: FieldPath) -> Finding {
    let policy = &placed.policy.origin;
    let message = format!("`{path}` says nothing that `{by}` does not say");
    let spot = Spot::of(policy, vec![path.clone()], "can go");
    Finding::new(&RULE, spot, message).further(Spot::of(policy, vec![by], "says it already")).superfluous(path)
}

/// Entries that can go, each with one that stays. Of two that are the same the first stays.
fn superfluous<T>(all: &[T], within: fn(&T, &T) -> bool) -> Vec<(usize, usize)> {
    let goes_for = |at: usize, by: usize| -> bool {
        let (Some(part), Some(whole)) = (all.get(at), all.get(by)) else { return false };
        at != by && within(part, whole) && (!within(whole, part) || by < at)
    };
    let stays = |by: &usize| !(0..all.len()).any(|other| goes_for(*by, other));
    let found = |at: usize| (0..all.len()).filter(stays).find(|by| goes_for(at, *by)).map(|by| (at, by));
    (0..all.len()).filter_map(found).collect()
}

#[cfg(test)]
mod tests {
    use super::superfluous;
    use crate::testing::{found, np};

    fn lint(rule: &str) -> Vec<String> {
        found("duplicate-entry", &np(&format!("  podSelector: {{}}\n  ingress:\n  - {rule}")))
    }

    #[test]
    fn entries_that_can_go() {
        let expected =
            |path: &str, by: &str| vec![format!("note NetworkPolicy shop/p {path}: `{path}` says nothing that `{by}` does not say")];
        let peers = expected("spec.ingress[0].from[0]", "spec.ingress[0].from[1]");
        assert_eq!(lint("from: [{podSelector: {matchLabels: {app: web}}}, {podSelector: {}}]"), peers);
        let ports = expected("spec.ingress[0].ports[1]", "spec.ingress[0].ports[0]");
        assert_eq!(lint("ports: [{port: 80}, {port: 80, protocol: TCP}]"), ports);
        let except = expected("spec.ingress[0].from[0].ipBlock.except[1]", "spec.ingress[0].from[0].ipBlock.except[0]");
        assert_eq!(lint("from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16, 10.1.2.0/24]}}]"), except);
    }

    #[test]
    fn entries_that_differ_are_fine() {
        assert_eq!(
            lint("from: [{podSelector: {}}, {namespaceSelector: {}}]"),
            [
                "note NetworkPolicy shop/p spec.ingress[0].from[0]: `spec.ingress[0].from[0]` says nothing that `spec.ingress[0].from[1]` does not say"
            ]
        );
        assert_eq!(lint("ports: [{port: 80}, {port: 80, protocol: UDP}]"), Vec::<String>::new());
    }

    #[test]
    fn of_three_that_hold_each_other_the_widest_stays() {
        assert_eq!(superfluous(&[1, 3, 2, 3], |part, whole| part <= whole), [(0, 1), (2, 1), (3, 1)]);
    }
}
