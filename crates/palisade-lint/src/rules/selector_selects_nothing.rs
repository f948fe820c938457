//! A subject or a peer that means nobody.

use palisade_model::{LabelSelector, NamespaceSet, Operator, Peer, Policy, Requirement, Severity, Subject};
use palisade_report::locate::peer_path;

use super::label_typo::{self, slips};
use super::two_dashes::suspicion;
use crate::context::{Context, Placed, meant, peers};
use crate::finding::{Finding, Spot};
use crate::paths::{self, Of};
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "selector-selects-nothing",
    severity: Severity::Warning,
    summary: "The pods of a policy, or the peers of a rule, are described so that no pod of the cluster is among them.",
    why: "A policy that selects nobody protects nobody, and a rule whose peers do not exist does nothing. Usually a label was misspelt or has changed; the \
          policy looks as if it were in force.",
    fix: "Compare the selector with the labels of the pods that are meant (`kubectl get pods --show-labels`). If the pods are yet to come, leave it.",
    fixable: false,
    needs: Needs::Pods,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let subjects = context.model.policies.iter().filter_map(|it| subject(context, it));
    let peers = context.rules().flat_map(|placed| {
        let found: Vec<Finding> = peers(placed.rule).iter().enumerate().filter_map(|(at, it)| peer(context, &placed, at, it)).collect();
        found
    });
    subjects.chain(peers).collect()
}

fn subject(context: &Context<'_>, policy: &Policy) -> Option<Finding> {
    let Subject::Pods { namespaces, pods } = &policy.subject else { return None };
    let why = nobody(context, namespaces, pods)?;
    let (holders, selector) = match &why {
        Why::NoNamespace(selector) => (paths::subject_selector(&policy.origin, Of::Namespaces), *selector),
        Why::NoPod { .. } => (paths::subject_selector(&policy.origin, Of::Pods), pods),
    };
    let at = first_unmet(context, &why, selector).map_or(holders.clone(), |it| paths::requirement(selector, holders, it));
    let spot = Spot::of(&policy.origin, at.into_iter().chain(paths::subject(&policy.origin)).collect(), "selects nothing");
    Some(Finding::new(&RULE, spot, format!("selects nothing: {}", why.said(selector))))
}

fn peer(context: &Context<'_>, placed: &Placed<'_>, at: usize, peer: &Peer) -> Option<Finding> {
    let meant = meant(placed.policy, peer)?;
    let pods: &LabelSelector = &meant.pods;
    let why = nobody(context, &meant.namespaces, pods)?;
    // Nobody as subject is a finding of its own.
    if matches!(why, Why::NoNamespace(_)) && !meant.named.contains(&Of::Namespaces) {
        return None;
    }
    if is_half_of_one(context, placed, at) {
        return None;
    }
    let rule = placed.reference();
    let (holders, selector) = match &why {
        Why::NoNamespace(selector) => (paths::peer_selector(&rule, at, Of::Namespaces), *selector),
        Why::NoPod { .. } => (paths::peer_selector(&rule, at, Of::Pods), pods),
    };
    let path = first_unmet(context, &why, selector).map_or(holders.clone(), |it| paths::requirement(selector, holders, it));
    let spot = Spot::of(&rule.policy, path.into_iter().chain([peer_path(&rule, at)]).collect(), "nobody");
    Some(Finding::new(&RULE, spot, format!("this peer of {} rule {} is nobody: {}", rule.direction, rule.index, why.said(selector))))
}

/// Whether an entry probably belongs into the one beside it, which is another rule's finding.
fn is_half_of_one(context: &Context<'_>, placed: &Placed<'_>, at: usize) -> bool {
    let entries = peers(placed.rule);
    let Some(Peer::Pods { namespaces: NamespaceSet::Own(own), pods }) = entries.get(at) else { return false };
    let beside = [at.checked_sub(1), at.checked_add(1)].into_iter().flatten().filter_map(|it| entries.get(it));
    let mut selectors = beside.filter_map(|it| match it {
        Peer::Pods { namespaces: NamespaceSet::Matching(namespaces), pods } if pods.selects_everything() => Some(namespaces),
        Peer::Pods { .. } | Peer::Relative(_) | Peer::Networks(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => None,
    });
    selectors.any(|it| suspicion(context, own, it, pods) == Some(Severity::Warning))
}

/// Why nobody is meant.
enum Why<'s> {
    NoNamespace(&'s LabelSelector),
    /// There are such namespaces, and none has such a pod.
    NoPod {
        namespaces: Vec<String>,
    },
}

impl Why<'_> {
    fn said(&self, selector: &LabelSelector) -> String {
        match self {
            Why::NoNamespace(_) => format!("no namespace has {selector}"),
            Why::NoPod { namespaces } => match namespaces.as_slice() {
                [one] => format!("no pod of namespace {one} has {selector}"),
                many => format!("no pod of {} namespaces has {selector}", many.len()),
            },
        }
    }
}

/// Namespaces without any pod say nothing about selectors: their pods are somewhere else.
fn nobody<'s>(context: &Context<'_>, namespaces: &'s NamespaceSet, pods: &LabelSelector) -> Option<Why<'s>> {
    if context.pods(namespaces, pods).next().is_some() {
        return None;
    }
    // Other rules know better.
    let slip = |of, selector| !slips(context, namespaces, of, selector).is_empty();
    let is_misspelt = || match namespaces {
        NamespaceSet::Own(_) => slip(Of::Pods, pods),
        NamespaceSet::Matching(selector) => slip(Of::Namespaces, selector) || slip(Of::Pods, pods),
    };
    if (context.is_chosen(&label_typo::RULE) && is_misspelt()) || context.host_pods(namespaces, pods).next().is_some() {
        return None;
    }
    let names: Vec<String> = context.namespaces(namespaces).map(str::to_owned).collect();
    match namespaces {
        NamespaceSet::Matching(selector) if names.is_empty() => context.knows_namespace_labels().then_some(Why::NoNamespace(selector)),
        NamespaceSet::Own(_) | NamespaceSet::Matching(_) => {
            let inhabited = context.pods(namespaces, &LabelSelector::default()).next().is_some();
            (inhabited && !pods.selects_everything()).then_some(Why::NoPod { namespaces: names })
        }
    }
}

/// The first requirement that nobody meets alone, if there is one.
fn first_unmet<'s>(context: &Context<'_>, why: &Why<'_>, selector: &'s LabelSelector) -> Option<&'s Requirement> {
    let unmet = |it: &&Requirement| match why {
        Why::NoNamespace(_) => context.model.namespaces.values().all(|namespace| !it.matches(&namespace.labels)),
        Why::NoPod { namespaces } => namespaces.iter().all(|name| {
            let alone = LabelSelector { requirements: vec![(*it).clone()] };
            context.pods(&NamespaceSet::Own(name.as_str().into()), &alone).next().is_none()
        }),
    };
    let told = |it: &&Requirement| !matches!(it.operator, Operator::DoesNotExist | Operator::NotIn(_));
    selector.requirements.iter().filter(told).find(unmet)
}

#[cfg(test)]
mod tests {
    use crate::testing::{CLUSTER, found, index, np};
    use crate::{Choice, lint as lint_all};

    fn lint(spec: &str) -> Vec<String> {
        found("selector-selects-nothing", &(CLUSTER.to_owned() + &np(spec)))
    }

    #[test]
    fn a_subject_that_nobody_is() {
        let expected = "warning NetworkPolicy shop/p spec.podSelector.matchLabels.app: selects nothing: no pod of namespace shop has app=cache, tier=back";
        assert_eq!(lint("  podSelector: {matchLabels: {tier: back, app: cache}}"), [expected]);
    }

    #[test]
    fn a_slip_is_left_to_the_rule_about_that_if_it_is_chosen() {
        let text = CLUSTER.to_owned() + &np("  podSelector: {matchLabels: {app: wep}}");
        assert_eq!(found("selector-selects-nothing", &text).len(), 1);
        let chosen = Choice::of(&["selector-selects-nothing".to_owned(), "label-typo".to_owned()], &[]).unwrap();
        let rules: Vec<&str> = lint_all(&index(&text), &chosen).findings.iter().map(|it| it.rule).collect();
        assert_eq!(rules, ["label-typo"]);
    }

    #[test]
    fn a_peer_that_nobody_is() {
        let spec = |entry: &str| format!("  podSelector: {{}}\n  ingress:\n  - from:\n    - {entry}");
        let expected = "warning NetworkPolicy shop/p spec.ingress[0].from[0].namespaceSelector.matchLabels.team: \
                        this peer of ingress rule 0 is nobody: no namespace has team=ops";
        assert_eq!(lint(&spec("namespaceSelector: {matchLabels: {team: ops}}")), [expected]);
        let expected = "warning NetworkPolicy shop/p spec.ingress[0].from[0].podSelector.matchLabels.app: \
                        this peer of ingress rule 0 is nobody: no pod of namespace infra has app=web";
        assert_eq!(lint(&spec("{namespaceSelector: {matchLabels: {team: infra}}, podSelector: {matchLabels: {app: web}}}")), [expected]);
    }

    #[test]
    fn selectors_that_select_are_fine() {
        let spec = "  podSelector: {matchLabels: {app: web}}\n  ingress:\n  - from:\n    - podSelector: {}\n    - namespaceSelector: {}\n    - ipBlock: {cidr: 10.0.0.0/8}";
        assert_eq!(lint(spec), Vec::<String>::new());
    }

    #[test]
    fn half_of_an_entry_is_left_to_the_rule_about_that() {
        let two = "  podSelector: {}\n  ingress:\n  - from:\n    - namespaceSelector: {matchLabels: {team: infra}}\n    - podSelector: {matchLabels: {app: agent}}";
        assert_eq!(lint(two), Vec::<String>::new());
        assert_eq!(lint(&two.replace("app: agent", "app: cache")).len(), 1);
    }

    #[test]
    fn where_nothing_is_known_nothing_is_said() {
        let policy = np("  podSelector: {matchLabels: {app: web}}\n  ingress:\n  - from: [{namespaceSelector: {matchLabels: {team: x}}}]");
        assert_eq!(found("selector-selects-nothing", &policy), Vec::<String>::new(), "no pods");
        let pods = CLUSTER.replace("kind: Namespace\nmetadata: {name: shop, labels: {team: shop}}", "kind: ConfigMap\nmetadata: {name: x}");
        assert_eq!(found("selector-selects-nothing", &(pods + &policy)), Vec::<String>::new(), "no labels of one namespace");
    }
}
