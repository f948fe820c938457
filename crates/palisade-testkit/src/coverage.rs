//! Which forms of rule have decided something: tier × action × direction × peer kind × port form × protocol.
//!
//! A form that no scenario ever decides by is a form nobody has tested, whatever the number of scenarios.

use std::collections::BTreeSet;

use palisade_analysis::Case;
use palisade_engine::{Match, Outcome, RuleStep, TierStep};
use palisade_model::{
    Action, Direction, Model, NamespaceSet, Peer, PeerSet, PolicyKind, PortMatch, PortSet, Protocol, RelativeNamespaces, RelativePods,
    RelativeSelector, Rule, Tier,
};

/// The cells that occurred, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage(pub BTreeSet<String>);

impl Coverage {
    /// Notes the rules that ended a tier in this case.
    pub(crate) fn note(&mut self, model: &Model, case: &Case) {
        for direction in Direction::BOTH {
            for step in &case.decision.walks.of(direction).tiers {
                self.0.extend(cell(model, case, direction, step));
                self.0.extend(step.rules.iter().filter_map(|rule| domain_cell(model, case, direction, step.tier, rule)));
            }
        }
    }

    /// Adds what another run noted.
    pub fn add(&mut self, other: Coverage) {
        self.0.extend(other.0);
    }
}

fn cell(model: &Model, case: &Case, direction: Direction, step: &TierStep) -> Option<String> {
    let Outcome::Matched(action) = step.outcome else { return None };
    let RuleStep { rule, result: Match::Yes { peer, port }, .. } = step.rules.last()? else { return None };
    let policy = model.policies.iter().find(|policy| policy.origin == rule.policy)?;
    let rule = policy.rules.of(direction).iter().find(|it| it.index == rule.index)?;
    let peer = peer_kind(rule, *peer, policy.origin.kind)?;
    let port = port_form(rule, *port)?;
    Some(spell(step.tier, action, direction, peer, port, case.flow.protocol))
}

/// A rule by domain name decides by leaving the verdict open.
fn domain_cell(model: &Model, case: &Case, direction: Direction, tier: Tier, step: &RuleStep) -> Option<String> {
    let Match::DependsOnDns { .. } = step.result else { return None };
    let policy = model.policies.iter().find(|policy| policy.origin == step.rule.policy)?;
    let rule = policy.rules.of(direction).iter().find(|it| it.index == step.rule.index)?;
    let port = match &rule.ports {
        PortSet::Any => "none",
        PortSet::Of(entries) => (0..entries.len()).find_map(|at| form_of(entries.get(at)?, case.flow.port, case.flow.protocol))?,
    };
    Some(spell(tier, step.action, direction, "domainNames", port, case.flow.protocol))
}

/// The form of an entry, if it is the one that the flow's port is in.
fn form_of(entry: &PortMatch, port: Option<u16>, asked: Protocol) -> Option<&'static str> {
    match entry {
        PortMatch::Numbers { protocol, ports } if Protocol::Port(*protocol) == asked && port.is_some_and(|it| ports.contains(it)) => {
            Some(if ports.first() == ports.last() { "number" } else { "range" })
        }
        PortMatch::Numbers { .. } | PortMatch::Named { .. } | PortMatch::Unreadable => None,
    }
}

fn spell(tier: Tier, action: Action, direction: Direction, peer: &str, port: &str, protocol: Protocol) -> String {
    format!("{tier} {action} {direction} {peer} {port} {protocol}")
}

/// `pods` and `namespaces` of cluster policies differ only in whether the pods are restricted.
fn peer_kind(rule: &Rule, at: Option<usize>, kind: PolicyKind) -> Option<&'static str> {
    let PeerSet::Of(peers) = &rule.peers else { return Some("any") };
    Some(match (peers.get(at?)?, kind) {
        (Peer::Pods { namespaces: NamespaceSet::Own(_), .. }, _) => "own-namespace",
        (Peer::Pods { pods, .. }, _) if pods.selects_everything() => "namespaces",
        (Peer::Pods { .. }, _) => "pods",
        (Peer::Networks(_), PolicyKind::NetworkPolicy) => "ipBlock",
        (Peer::Networks(_), _) => "networks",
        (Peer::Relative(relative), _) => relation(relative),
        (Peer::Nodes(_), _) => "nodes",
        (Peer::Domains(_) | Peer::Unreadable, _) => return None,
    })
}

/// What the namespaces have to do with the subject's; where they have nothing to do with it, what the pods have.
fn relation(relative: &RelativePods) -> &'static str {
    let by_labels = |selector: &RelativeSelector| match selector {
        RelativeSelector::Same(_) => Some("same-labels"),
        RelativeSelector::NoneSame(_) | RelativeSelector::SomeDiffer(_) => Some("other-labels"),
        RelativeSelector::Matching(_) => None,
    };
    match &relative.namespaces {
        RelativeNamespaces::Own => "own",
        RelativeNamespaces::Others => "others",
        RelativeNamespaces::Labelled(namespaces) => by_labels(namespaces).or(by_labels(&relative.pods)).unwrap_or("pods"),
    }
}

fn port_form(rule: &Rule, at: Option<usize>) -> Option<&'static str> {
    let PortSet::Of(ports) = &rule.ports else { return Some("none") };
    Some(match ports.get(at?)? {
        PortMatch::Numbers { ports, .. } if ports.first() == ports.last() => "number",
        PortMatch::Numbers { .. } => "range",
        PortMatch::Named { .. } => "named",
        PortMatch::Unreadable => return None,
    })
}

/// Every cell that the APIs allow.
pub fn legal() -> BTreeSet<String> {
    let mut cells = BTreeSet::new();
    for tier in [Tier::Admin, Tier::NetworkPolicy, Tier::Baseline] {
        for action in [Action::Accept, Action::Deny, Action::Pass] {
            for direction in Direction::BOTH {
                for peer in peers(tier, action, direction) {
                    for (port, protocol) in traffic(peer) {
                        cells.insert(spell(tier, action, direction, peer, port, protocol));
                    }
                }
            }
        }
    }
    cells
}

fn peers(tier: Tier, action: Action, direction: Direction) -> Vec<&'static str> {
    let mut peers = match tier {
        Tier::NetworkPolicy if action == Action::Accept => return vec!["any", "own-namespace", "namespaces", "pods", "ipBlock"],
        Tier::NetworkPolicy => return Vec::new(),
        Tier::Admin | Tier::Baseline => vec!["namespaces", "pods", "own", "others", "same-labels", "other-labels"],
    };
    match (direction, action) {
        (Direction::Ingress, _) => {}
        (Direction::Egress, Action::Accept) => peers.extend(["networks", "nodes", "domainNames"]),
        (Direction::Egress, Action::Deny | Action::Pass) => peers.extend(["networks", "nodes"]),
    }
    peers
}

/// Port forms with their protocols. Names cannot stand beside networks and nodes in the experimental CRD.
fn traffic(peer: &str) -> Vec<(&'static str, Protocol)> {
    let with_ports = [Protocol::TCP, Protocol::UDP, Protocol::SCTP];
    let forms: &[&str] = if matches!(peer, "networks" | "nodes" | "domainNames") {
        &["none", "number", "range"]
    } else {
        &["none", "number", "range", "named"]
    };
    let mut traffic = vec![("none", Protocol::Icmp)];
    traffic.extend(forms.iter().flat_map(|form| with_ports.map(|protocol| (*form, protocol))));
    traffic
}
