//! Connections that were tried with real packets, held against what was decided.

use palisade_engine::Decision;
use palisade_model::{Direction, Verdict};

use crate::{explained, v1};

/// What decided, in a sentence: of the direction that denies, else of the one that a policy decided.
pub fn decisive(decision: &Decision) -> String {
    let walk = |direction: Direction| decision.walks.of(direction);
    let by_rule = |direction: &Direction| matches!(walk(*direction).reason, palisade_model::Reason::Rule(_));
    let denies = Direction::BOTH.into_iter().find(|it| walk(*it).verdict != Verdict::Accept);
    let direction = denies.or_else(|| [Direction::Ingress, Direction::Egress].into_iter().find(by_rule)).unwrap_or(Direction::Ingress);
    explained::reason(&walk(direction).reason, direction)
}

/// Counts and wraps.
pub fn probed(probes: Vec<v1::Probe>) -> v1::ProbeReport {
    let agree = probes.iter().filter(|it| it.agrees).count();
    let unsent = probes.iter().filter(|it| matches!(it.found, v1::Found::Unsent(_))).count();
    let differ = probes.iter().filter(|it| !it.agrees && !matches!(it.found, v1::Found::Unsent(_))).count();
    v1::ProbeReport { api_version: v1::API_VERSION.to_owned(), kind: "ProbeReport".to_owned(), probes, agree, differ, unsent }
}

impl v1::Found {
    /// As a table says it.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            v1::Found::Answered => "reached",
            v1::Found::Refused => "reached (nothing listens)",
            v1::Found::Denied => "denied",
            v1::Found::Leaked => "LEAKED",
            v1::Found::Silent => "SILENT",
            v1::Found::Unsent(_) => "NOT SENT",
        }
    }
}
