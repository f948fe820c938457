//! Policies of other controllers that would close pods if their label were not understood.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use palisade_engine::Alike;
use palisade_k8s::{CONTROLLER_LABEL, FieldPath, ObjectKey};
use palisade_model::{Action, Direction, End, EndpointId, Family, Peer, PeerSet, Policy, PortSet, Severity, Tier};

use crate::context::{Context, Crowd, networks};
use crate::finding::{Finding, Spot};
use crate::rule::{Needs, Rule};
use crate::within::are_all_pods;

pub(crate) const RULE: Rule = Rule {
    name: "foreign-deny-all",
    severity: Severity::Warning,
    summary: "A policy denies everything, is labelled for another controller or for none, and would close pods that are open now.",
    why: "`networking.k8s.io/policy-controller-name` is young. A controller that does not know it enforces the policy for all: pods that rely on the label to stay open are cut \
          off the day such a controller runs in the cluster, or runs again after a rollback.",
    fix: "Remove the policy if nobody enforces it. If another controller does, give it rules that do no harm where they are enforced twice.",
    fixable: false,
    needs: Needs::Pods,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let ours: BTreeSet<&palisade_model::PolicyRef> = context.model.policies.iter().map(|it| &it.origin).collect();
    let others = OnceCell::new();
    let mut findings = Vec::new();
    for policy in context.blind.policies.iter().filter(|it| !ours.contains(&it.origin)) {
        let subjects = context.subjects(policy);
        let mut closed: BTreeMap<(BTreeSet<EndpointId>, Extent), Vec<Direction>> = BTreeMap::new();
        for (direction, extent) in Direction::BOTH.into_iter().filter_map(|it| denied(policy, it).map(|extent| (it, extent))) {
            let is_open = |crowd: &&&Crowd<'_>| match policy.tier {
                Tier::Admin => passes_something(context, crowd, direction, extent, others.get_or_init(|| sorts(context))),
                Tier::NetworkPolicy | Tier::Baseline => !context.tiers(crowd, direction).contains(&Tier::NetworkPolicy),
            };
            let open = subjects.iter().filter(is_open).flat_map(|it| it.pods.iter().copied()).collect();
            closed.entry((open, extent)).or_default().push(direction);
        }
        let some = closed.into_iter().filter(|it| !it.0.0.is_empty());
        findings.extend(some.map(|((pods, extent), directions)| finding(context, policy, &directions, extent, &pods)));
    }
    findings
}

/// With whom all traffic is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Extent {
    Everyone,
    /// Addresses of one family, those of pods among them.
    Family(Family),
    Pods,
}

/// With whom a policy leaves nothing open in a direction.
fn denied(policy: &Policy, direction: Direction) -> Option<Extent> {
    let rules = policy.rules.of(direction);
    match policy.tier {
        Tier::NetworkPolicy => (*policy.isolates.of(direction) && rules.is_empty()).then_some(Extent::Everyone),
        Tier::Admin | Tier::Baseline => {
            let first = rules.first().filter(|it| it.action == Action::Deny && it.ports == PortSet::Any)?;
            match &first.peers {
                PeerSet::Any | PeerSet::AnyButOwnNode => Some(Extent::Everyone),
                PeerSet::Of(peers) => extent(peers),
            }
        }
    }
}

fn extent(peers: &[Peer]) -> Option<Extent> {
    let blocks = || peers.iter().flat_map(networks).filter(|it| it.cidr.prefix_len() == 0 && it.except.is_empty());
    let families: BTreeSet<Family> = blocks().map(|it| Family::of(it.cidr.addr())).collect();
    match (families.len(), families.first()) {
        (2.., _) => Some(Extent::Everyone),
        (_, Some(family)) => Some(Extent::Family(*family)),
        (_, None) => are_all_pods(peers).then_some(Extent::Pods),
    }
}

/// Pods of each sort that policy tells apart: two, so that there is one beside any pod.
fn sorts(context: &Context<'_>) -> Vec<End> {
    let reach = context.reach();
    let mut sorts: BTreeMap<(Option<Family>, Alike), Vec<End>> = BTreeMap::new();
    for end in context.all_pods().flat_map(|it| &it.pods).flat_map(|pod| reach.ends(*pod)) {
        let Some(alike) = reach.alike(&end) else { continue };
        let ends = sorts.entry((end.address.map(Family::of), alike)).or_default();
        if ends.len() < 2 && ends.iter().all(|it| it.place != end.place) {
            ends.push(end);
        }
    }
    sorts.into_values().flatten().collect()
}

/// Whether some traffic passes now with those to whom it would be denied.
fn passes_something(context: &Context<'_>, crowd: &Crowd<'_>, direction: Direction, extent: Extent, pods: &[End]) -> bool {
    let mut reach = context.reach();
    let Some(subjects) = crowd.pods.first().map(|it| reach.ends(*it).collect::<Vec<_>>()) else { return false };
    let outside: Vec<End> = match extent {
        Extent::Pods => Vec::new(),
        Extent::Everyone | Extent::Family(_) => reach.outside().map(|(_, _, end)| end).collect(),
    };
    let meant = |family: Option<Family>| match extent {
        Extent::Family(only) => family == Some(only),
        Extent::Everyone | Extent::Pods => true,
    };
    subjects.iter().any(|subject| {
        let family = subject.address.map(Family::of);
        let same = |it: &&End| it.place != subject.place && it.address.map(Family::of) == family && meant(family);
        pods.iter().chain(&outside).filter(same).any(|other| {
            let passing = match direction {
                Direction::Egress => reach.between(subject, other),
                Direction::Ingress => reach.between(other, subject),
            };
            passing.is_some_and(|it| [it.allowed, it.depends_on_dns].into_iter().any(|it| !reach.sets().parts(it).is_empty()))
        })
    })
}

fn finding(context: &Context<'_>, policy: &Policy, directions: &[Direction], extent: Extent, closed: &BTreeSet<EndpointId>) -> Finding {
    let (what, with) = match directions {
        [Direction::Ingress] => ("ingress", "from"),
        [Direction::Egress] => ("egress", "to"),
        _ => ("ingress and egress", "from and to"),
    };
    let path = FieldPath::default().field("metadata").field("labels");
    let spot = Spot::new(ObjectKey::from(&policy.origin), vec![path.clone().field(CONTROLLER_LABEL), path], "not ours by this label");
    let who = context.named(closed.iter().copied());
    let blocked = match extent {
        Extent::Everyone => format!("all {what} of {who}"),
        Extent::Family(family) => format!("all {family} {what} of {who}"),
        Extent::Pods => format!("all {what} of {who} {with} pods"),
    };
    let why = match policy.tier {
        Tier::Admin => "the Admin tier comes before what lets it pass now",
        Tier::NetworkPolicy | Tier::Baseline => "nothing isolates them otherwise",
    };
    Finding::new(&RULE, spot, format!("a controller that does not know the label would block {blocked}: {why}"))
}

#[cfg(test)]
mod tests {
    use crate::testing::{CLUSTER, cnp, found, np};

    fn lint(labels: &str, spec: &str, more: &str) -> Vec<String> {
        let foreign = np(spec).replace("name: p", &format!("name: f, labels: {{{labels}}}"));
        found("foreign-deny-all", &format!("{CLUSTER}{foreign}{more}"))
    }

    const LABEL: &str = "networking.k8s.io/policy-controller-name: none";

    #[test]
    fn a_deny_all_that_is_switched_off() {
        let expected = "warning NetworkPolicy shop/f metadata.labels[\"networking.k8s.io/policy-controller-name\"]: \
                        a controller that does not know the label would block all ingress of shop/db, shop/web: nothing isolates them otherwise";
        assert_eq!(lint(LABEL, "  podSelector: {}", ""), [expected]);
    }

    #[test]
    fn ours_policies_with_rules_and_pods_that_are_isolated_anyway_are_fine() {
        assert_eq!(lint("app: x", "  podSelector: {}", ""), Vec::<String>::new());
        assert_eq!(lint(LABEL, "  podSelector: {}\n  ingress:\n  - {}", ""), Vec::<String>::new());
        assert_eq!(lint(LABEL, "  podSelector: {}", &np("  podSelector: {}")), Vec::<String>::new());
    }

    fn cluster(tier: &str, rule: &str) -> String {
        let spec = format!("  tier: {tier}\n  priority: 5\n  subject: {{namespaces: {{matchLabels: {{team: shop}}}}}}\n  {rule}");
        cnp(&format!("c, labels: {{{LABEL}}}"), &spec)
    }

    fn of_cluster(tier: &str, rule: &str, more: &str) -> Vec<String> {
        let all = found("foreign-deny-all", &format!("{CLUSTER}{}{more}", cluster(tier, rule)));
        all.iter().map(|it| it.split_once("would block ").unwrap().1.to_owned()).collect()
    }

    #[test]
    fn the_admin_tier_would_cut_what_network_policies_accept() {
        let deny = "ingress: [{action: Deny, from: [{namespaces: {}}]}]";
        let accepting = np("  podSelector: {}\n  ingress:\n  - from: [{podSelector: {}}]");
        let expected = "all ingress of shop/db, shop/web from pods: the Admin tier comes before what lets it pass now";
        assert_eq!(of_cluster("Admin", deny, &accepting), [expected]);
        assert_eq!(of_cluster("Admin", deny, &np("  podSelector: {}")), Vec::<String>::new(), "nothing passes anyway");
        assert_eq!(of_cluster("Baseline", deny, &accepting), Vec::<String>::new(), "a NetworkPolicy comes first");
        assert_eq!(of_cluster("Baseline", deny, ""), ["all ingress of shop/db, shop/web from pods: nothing isolates them otherwise"]);
    }

    #[test]
    fn networks_are_more_than_pods() {
        let deny = |networks: &str| format!("egress: [{{action: Deny, to: [{{networks: [{networks}]}}]}}]");
        let lint = |networks: &str| of_cluster("Baseline", &deny(networks), "");
        assert_eq!(lint("0.0.0.0/0"), ["all IPv4 egress of shop/db, shop/web: nothing isolates them otherwise"]);
        assert_eq!(lint("0.0.0.0/0, '::/0'"), ["all egress of shop/db, shop/web: nothing isolates them otherwise"]);
    }

    #[test]
    fn the_own_namespace_and_all_others_are_everyone() {
        let lint = |from: &str| {
            let spec = format!(
                "  priority: 5\n  subject: {{namespaceSelector: {{matchLabels: {{team: shop}}}}}}\n  ingress:\n  - {{action: Deny, l4Selector: {{allPorts: true}}, from: [{from}]}}"
            );
            let text = cnp(&format!("k, labels: {{{LABEL}}}"), &spec).replace("v1alpha2", "v1alpha1");
            found("foreign-deny-all", &format!("{CLUSTER}{}", text.replace("ClusterNetworkPolicy", "AdminNetworkPolicy"))).len()
        };
        assert_eq!(lint("{namespaces: {self: true}}, {namespaces: {notSelf: true}}"), 1);
        assert_eq!(lint("{namespaces: {self: true}}"), 0);
    }
}
