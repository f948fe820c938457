//! What every newcomer may, whatever its labels.
//!
//! A rule that asks for labels may hold for a newcomer or not. So policies are rewritten to the worst that labels can do: what accepts for labels accepts
//! nobody, what denies for labels denies everybody. What passes on for labels is tried both ways, since either may be worse. Traffic that passes all the
//! same passes for everyone; where rules only complete one another, such as one for a label and one for its absence, this says less than is true.

use std::net::IpAddr;

use palisade_engine::{Compiled, compile};
use palisade_model::{Action, EndpointId, LabelSelector, Labels, Model, Namespace, NamespaceSet, Peer, PeerSet, PerDirection, Rule};

use super::choice::{Choice, NAME_LABEL};
use super::newcomers::{asked, pod};

/// A cluster whose policies see a newcomer at its worst.
pub(super) struct Hostile {
    pub(super) compiled: Compiled,
    pub(super) newcomer: EndpointId,
}

/// What a rule that passes on for labels does with a newcomer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passing {
    Meets,
    Misses,
}

/// Whether a peer is a newcomer.
enum Is {
    Always,
    Perhaps,
    /// Not for its labels; its address may still be one.
    Never,
}

/// One cluster for each way that rules may pass on.
pub(super) fn hostile(model: &Model, choice: &Choice, addresses: &[IpAddr]) -> Vec<Hostile> {
    let mut passes = false;
    let mut all = vec![stage(model, choice, addresses, Passing::Misses, &mut passes)];
    if passes {
        all.push(stage(model, choice, addresses, Passing::Meets, &mut passes));
    }
    all
}

fn stage(model: &Model, choice: &Choice, addresses: &[IpAddr], passing: Passing, passes: &mut bool) -> Hostile {
    let mut stage = model.clone();
    for policy in stage.policies.iter_mut() {
        let PerDirection { egress, ingress } = &mut policy.rules;
        for rule in egress.iter_mut().chain(ingress) {
            *passes |= worst(rule, choice, passing);
        }
    }
    let labels: Labels = [(NAME_LABEL, choice.fresh.as_ref())].into_iter().collect();
    stage.namespaces.insert(choice.fresh.clone(), Namespace { labels, assumed: true });
    let newcomer = stage.endpoints.push(pod(&choice.fresh, Labels::default(), addresses));
    Hostile { newcomer, compiled: compile(&stage) }
}

/// Rewrites a rule; whether it passes on for labels.
fn worst(rule: &mut Rule, choice: &Choice, passing: Passing) -> bool {
    let PeerSet::Of(peers) = &mut rule.peers else { return false };
    let mut perhaps = false;
    peers.retain(|it| match is(it, choice) {
        Is::Always | Is::Never => true,
        Is::Perhaps => {
            perhaps = true;
            false
        }
    });
    let meets = match rule.action {
        Action::Accept => false,
        Action::Deny => perhaps,
        Action::Pass => perhaps && passing == Passing::Meets,
    };
    if meets {
        peers.push(Peer::Pods { namespaces: NamespaceSet::Matching(LabelSelector::default()), pods: LabelSelector::default() });
    }
    perhaps && rule.action == Action::Pass
}

fn is(peer: &Peer, choice: &Choice) -> Is {
    let Peer::Pods { namespaces: NamespaceSet::Matching(namespaces), pods } = peer else { return Is::Never };
    match (choice.always(namespaces) && pods.selects_everything(), choice.labels(&asked((namespaces, pods)))) {
        (true, _) => Is::Always,
        (false, Some(_)) => Is::Perhaps,
        (false, None) => Is::Never,
    }
}
