//! A denied packet with names for its ends and for what denied it.

use std::net::IpAddr;

use palisade_model::{Direction, PodName, PortProtocol, Protocol, Reason, RuleRef};
use palisade_nft::Guard;
use palisade_report::{Broken, DecidedBy, Denied, denied, v1};

/// The first packet of a connection that was denied, or a later one after some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub by: DeniedBy,
    pub source: Side,
    pub destination: Side,
    /// The IP protocol; for a packet that is cut within its extension headers the last one that could be read.
    pub protocol: u8,
    /// Of TCP, UDP and SCTP, unless the packet is cut short or a later fragment.
    pub source_port: Option<u16>,
    pub port: Option<u16>,
    /// Type and code of ICMP or ICMPv6.
    pub icmp: Option<(u8, u8)>,
    /// Packets of the same connection, denied by the same, so far, with this one.
    pub count: u64,
}

/// What denied a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeniedBy {
    /// The policies at one of its ends.
    Policy { direction: Direction, reason: Reason },
    /// A rule at one of its ends that accepts, but only domain names, and this address is not known to be one of them.
    UnresolvedName { direction: Direction, rule: RuleRef },
    /// No policy: it could not be what it says.
    Guard(Guard),
    /// The number of an origin that is not, or no longer, known.
    Unknown(u32),
}

/// One end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    pub address: IpAddr,
    pub name: Name,
}

/// Who has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    Pod(PodName),
    Node(String),
    /// Nobody that the cluster knows.
    Outside,
    /// Nobody: the packet is not from who has the address.
    Forged,
}

impl Denial {
    /// As it leaves the house.
    pub fn report(&self) -> v1::Denial {
        denied(Denied {
            from: self.source.report(),
            to: self.destination.report(),
            protocol: protocol(self.protocol),
            source_port: self.source_port,
            port: self.port,
            icmp: self.icmp.map(|(kind, code)| v1::DenialIcmp { r#type: kind, code }),
            by: self.by.decided(),
            packets: self.count,
        })
    }
}

impl DeniedBy {
    fn decided(&self) -> DecidedBy<'_> {
        match self {
            DeniedBy::Unknown(number) => DecidedBy::Unknown(*number),
            DeniedBy::UnresolvedName { direction, rule } => DecidedBy::UnresolvedName { direction: *direction, rule },
            DeniedBy::Policy { direction, reason } => DecidedBy::Policy { direction: *direction, reason },
            DeniedBy::Guard(guard) => DecidedBy::Broken(match guard {
                Guard::ForgedSource => Broken::ForgedSource,
                Guard::ForgedNode => Broken::ForgedNode,
                Guard::InvalidState => Broken::InvalidState,
                Guard::NotABeginning => Broken::NotABeginning,
            }),
        }
    }
}

impl Side {
    pub(crate) fn report(&self) -> v1::DenialSide {
        let (pod, node) = match &self.name {
            Name::Pod(name) => (Some(name.to_string()), None),
            Name::Node(name) => (None, Some(name.clone())),
            Name::Outside | Name::Forged => (None, None),
        };
        v1::DenialSide { pod, node, address: self.address.to_string() }
    }
}

pub(crate) fn protocol(number: u8) -> Protocol {
    match number {
        1 | 58 => Protocol::Icmp,
        6 => Protocol::Port(PortProtocol::Tcp),
        17 => Protocol::Port(PortProtocol::Udp),
        132 => Protocol::Port(PortProtocol::Sctp),
        other => Protocol::Other(other),
    }
}

#[cfg(test)]
mod tests {
    use palisade_model::{PolicyKind, PolicyRef};

    use super::*;

    #[test]
    fn a_denial_is_told_with_names() {
        let policy = PolicyRef { kind: PolicyKind::ClusterNetworkPolicy, namespace: None, name: "web".into() };
        let rule = RuleRef { policy, direction: Direction::Egress, index: 2, name: None };
        let pod = PodName { namespace: "shop".into(), name: "web".into() };
        let denial = Denial {
            by: DeniedBy::Policy { direction: Direction::Egress, reason: Reason::Rule(rule.clone()) },
            source: Side { address: "10.1.0.4".parse().unwrap(), name: Name::Pod(pod) },
            destination: Side { address: "192.0.2.1".parse().unwrap(), name: Name::Node("n1".to_owned()) },
            protocol: 1,
            source_port: None,
            port: None,
            icmp: Some((8, 0)),
            count: 2,
        };
        let report = denial.report();
        assert_eq!(
            (report.from.pod.as_deref(), report.to.node.as_deref(), report.protocol.as_str()),
            (Some("shop/web"), Some("n1"), "icmp")
        );
        assert_eq!((report.icmp, report.packets), (Some(v1::DenialIcmp { r#type: 8, code: 0 }), 2));
        assert_eq!(report.sentence, "ClusterNetworkPolicy web rule 2 denies");
        let outside = Side { address: "203.0.113.1".parse().unwrap(), name: Name::Outside };
        let report = Denial {
            by: DeniedBy::UnresolvedName { direction: Direction::Egress, rule },
            destination: outside,
            protocol: 132,
            ..denial.clone()
        }
        .report();
        assert_eq!((report.to.pod, report.to.node, report.protocol.as_str()), (None, None, "sctp"));
        assert_eq!(report.sentence, "ClusterNetworkPolicy web rule 2 accepts a domain name, and none is known to be this address");
        let forged = Side { address: "10.1.0.4".parse().unwrap(), name: Name::Forged };
        let report = Denial { by: DeniedBy::Guard(Guard::ForgedSource), source: forged, ..denial }.report();
        assert_eq!((report.from.pod, report.from.node, report.direction), (None, None, None));
        assert_eq!((report.reason.as_str(), report.sentence.as_str()), ("forged-source", "forged source: not an address of this pod"));
    }
}
