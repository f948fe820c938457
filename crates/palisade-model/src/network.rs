//! Addresses as policies write them: blocks with exceptions, and domain names.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

/// An IP family. A CIDR speaks of one family only (semantics 1.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of `address`.
    pub fn of(address: IpAddr) -> Family {
        match address {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        })
    }
}

/// A CIDR without some of its parts (`ipBlock`, or one entry of `networks`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IpBlock {
    /// The block, host bits masked.
    pub cidr: IpNet,
    /// What is taken out of it. An exception only concerns this block (semantics 1.4).
    pub except: Vec<IpNet>,
}

impl IpBlock {
    /// A block without exceptions.
    pub fn whole(cidr: IpNet) -> IpBlock {
        IpBlock { cidr, except: Vec::new() }
    }

    /// Whether the block holds `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.cidr.contains(&address) && !self.except.iter().any(|it| it.contains(&address))
    }
}

impl fmt::Display for IpBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cidr)?;
        for (at, except) in self.except.iter().enumerate() {
            let word = if at == 0 { " except " } else { ", " };
            write!(f, "{word}{except}")?;
        }
        Ok(())
    }
}

/// A domain name, or `*.` and a domain name for everything one or more labels below it. Lower case, no final dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DomainPattern(Box<str>);

impl DomainPattern {
    /// Reads a pattern as the API writes it; the message says what is wrong with it.
    pub fn parse(text: &str) -> Result<DomainPattern, String> {
        let lower = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let name = lower.strip_prefix("*.").unwrap_or(&lower);
        let labels: Vec<&str> = name.split('.').collect();
        if labels.len() < 2 {
            return Err(format!("`{text}` needs at least two labels, as in `example.com`"));
        }
        let wrong = labels.iter().find(|label| !is_dns_label(label));
        match wrong {
            Some(label) => Err(format!("`{label}` in `{text}` is not a DNS label")),
            None => Ok(DomainPattern(lower.into())),
        }
    }

    /// The pattern as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether names of this pattern may be those of pods, which are all below the cluster's domain.
    pub fn is_cluster_local(&self) -> bool {
        self.0.ends_with(".cluster.local")
    }
}

impl fmt::Display for DomainPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_dns_label(label: &str) -> bool {
    let fits = !label.is_empty() && label.len() <= 63 && !label.starts_with('-') && !label.ends_with('-');
    fits && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}
