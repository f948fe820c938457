//! From a packet that a rule let pass and logged to the answer that leaves the house, and that answer as one line.

use palisade_model::{Direction, Protocol, RuleRef};

use crate::denied::{ends, written_rule};
use crate::{v1, words};

/// A packet that was let pass, and what is known about it.
#[derive(Clone, Debug)]
pub struct Accepted<'a> {
    /// The source.
    pub from: v1::DenialSide,
    /// The destination.
    pub to: v1::DenialSide,
    /// The IP protocol.
    pub protocol: Protocol,
    /// The source's port.
    pub source_port: Option<u16>,
    /// The destination's port.
    pub port: Option<u16>,
    /// Type and code.
    pub icmp: Option<v1::DenialIcmp>,
    /// At which end.
    pub direction: Direction,
    /// What let it pass.
    pub rule: &'a RuleRef,
}

/// Writes down an accepted connection.
pub fn accepted(it: Accepted<'_>) -> v1::Acceptance {
    v1::Acceptance {
        api_version: v1::API_VERSION.to_owned(),
        kind: "Acceptance".to_owned(),
        from: it.from,
        to: it.to,
        protocol: it.protocol.to_string(),
        source_port: it.source_port,
        port: it.port,
        icmp: it.icmp,
        direction: it.direction.to_string(),
        reason: it.rule.to_string(),
        sentence: sentence(it.rule),
        rule: written_rule(it.rule),
    }
}

/// What let a packet pass, in a sentence with the direction in front.
pub fn accepted_by(direction: Direction, rule: &RuleRef) -> String {
    format!("{direction}: {}", sentence(rule))
}

/// An accepted connection in one line, after the word `accepted`.
pub(crate) fn told(it: &v1::Acceptance) -> String {
    format!("{}  {}: {}", ends(&it.from, &it.to, &it.protocol, it.port, it.icmp), it.direction, it.sentence)
}

fn sentence(rule: &RuleRef) -> String {
    format!("{} {} accepts", words::policy(&rule.policy), words::rule(rule))
}
