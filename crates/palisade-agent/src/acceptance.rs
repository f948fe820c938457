//! A connection that a rule accepted and that its policy wants to hear of.

use palisade_model::{Direction, RuleRef};
use palisade_report::{Accepted, accepted, v1};

use crate::denial::{Denial, Side, protocol};

/// The first packet of a connection that a rule accepted, at one of its ends. The other end may have denied it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acceptance {
    pub by: AcceptedBy,
    pub source: Side,
    pub destination: Side,
    /// The IP protocol.
    pub protocol: u8,
    pub source_port: Option<u16>,
    pub port: Option<u16>,
    /// Type and code of ICMP or ICMPv6.
    pub icmp: Option<(u8, u8)>,
}

/// What accepted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedBy {
    pub direction: Direction,
    pub rule: RuleRef,
}

impl Acceptance {
    /// What was read of a logged packet, with the rule that let it pass.
    pub(crate) fn of(packet: Denial, by: AcceptedBy) -> Acceptance {
        let Denial { source, destination, protocol, source_port, port, icmp, by: _, count: _ } = packet;
        Acceptance { by, source, destination, protocol, source_port, port, icmp }
    }

    /// As it leaves the house.
    pub fn report(&self) -> v1::Acceptance {
        accepted(Accepted {
            from: self.source.report(),
            to: self.destination.report(),
            protocol: protocol(self.protocol),
            source_port: self.source_port,
            port: self.port,
            icmp: self.icmp.map(|(kind, code)| v1::DenialIcmp { r#type: kind, code }),
            direction: self.by.direction,
            rule: &self.by.rule,
        })
    }
}

impl AcceptedBy {
    /// In a sentence, with the direction in front.
    pub fn sentence(&self) -> String {
        palisade_report::accepted_by(self.direction, &self.rule)
    }
}
