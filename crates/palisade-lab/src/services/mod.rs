//! Services of a lab's node, as kube-proxy has them: the table `inet palisade-lab-services`, and no other.
//!
//! A connection to a Service goes to one of its backends, each equally likely. To a Service without backends it is refused. A pod that
//! reaches itself through a Service is masqueraded, or it would not know its own packets.
//!
//! Connections that were made before a change stay with their backend, datagrams of one pair of ports among them, until conntrack
//! forgets them.

mod expression;
mod rules;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use palisade_kernel::{KernelError, Nftables};
use palisade_model::PortProtocol;
use palisade_nft::uapi::INET;

pub(crate) use rules::rules;

/// One port of a Service, and the pods behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRule {
    pub address: IpAddr,
    pub protocol: PortProtocol,
    pub port: u16,
    pub backends: Vec<(IpAddr, u16)>,
}

/// The Services of the network namespace that the thread was in when it opened this. They stay after it, until they are removed or the
/// namespace is gone.
#[derive(Debug)]
pub struct Services {
    nftables: Nftables,
    /// What the table holds, as far as it is known.
    held: Option<Held>,
}

/// Why the Services could not be written. The table is as it was before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServicesError {
    #[error("table `inet palisade-lab-services`: {0}")]
    Kernel(#[from] KernelError),
    #[error("service {service}: {what}")]
    Invalid { service: ServicePort, what: String },
}

/// What the table holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Held {
    services: BTreeMap<ServicePort, Vec<(IpAddr, u16)>>,
    hairpin: BTreeSet<IpAddr>,
}

/// Where a Service is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServicePort {
    pub address: IpAddr,
    pub protocol: PortProtocol,
    pub port: u16,
}

impl Services {
    pub fn open() -> Result<Services, ServicesError> {
        Ok(Services { nftables: Nftables::open()?, held: None })
    }

    /// Makes these all the Services there are. `hairpin` has the addresses of the node's pods.
    ///
    /// What stays the same is not touched, and no packet meets a half of a change: it finds a Service as it was before or as it is
    /// afterwards. Only the first call makes the table anew, whatever was there.
    pub fn replace(&mut self, rules: &[ServiceRule], hairpin: &[IpAddr]) -> Result<(), ServicesError> {
        let wanted = Held { services: checked(rules)?, hairpin: hairpin.iter().copied().collect() };
        if let Some(held) = self.held.take() {
            if held == wanted {
                self.held = Some(held);
                return Ok(());
            }
            match self.nftables.commit_messages(INET, |messages| table::change(messages, &held, &wanted)) {
                // Another process has changed the table: it is made anew.
                Err(KernelError::Refused(_)) => {}
                result => {
                    result?;
                    self.held = Some(wanted);
                    return Ok(());
                }
            }
        }
        self.nftables.commit_messages(INET, |messages| {
            table::reset(messages);
            table::change(messages, &Held::default(), &wanted);
        })?;
        self.held = Some(wanted);
        Ok(())
    }

    /// Removes the table with all that is in it. It is no error if there is none.
    pub fn remove(&mut self) -> Result<(), ServicesError> {
        self.held = None;
        Ok(self.nftables.commit_messages(INET, table::remove)?)
    }
}

impl fmt::Display for ServicePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.address, word(self.protocol), self.port)
    }
}

/// The protocol as nft writes it.
fn word(protocol: PortProtocol) -> &'static str {
    match protocol {
        PortProtocol::Tcp => "tcp",
        PortProtocol::Udp => "udp",
        PortProtocol::Sctp => "sctp",
    }
}

fn checked(rules: &[ServiceRule]) -> Result<BTreeMap<ServicePort, Vec<(IpAddr, u16)>>, ServicesError> {
    let mut services = BTreeMap::new();
    for rule in rules {
        let service = ServicePort { address: rule.address, protocol: rule.protocol, port: rule.port };
        let odd = |what: String| ServicesError::Invalid { service, what };
        if let Some((address, _)) = rule.backends.iter().find(|(address, _)| address.is_ipv4() != rule.address.is_ipv4()) {
            return Err(odd(format!("backend {address} is of the other family")));
        }
        if rule.port == 0 || rule.backends.iter().any(|(_, port)| *port == 0) {
            return Err(odd("there is no port 0".to_owned()));
        }
        if services.insert(service, rule.backends.clone()).is_some() {
            return Err(odd("it is there twice".to_owned()));
        }
    }
    Ok(services)
}
