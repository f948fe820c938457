//! Settings that decide whether packets are forwarded, and whether those of a bridge meet the tables.

use std::collections::BTreeMap;

use nix::errno::Errno;

use crate::error::{Attempt, KernelError, NetworkObject};
use crate::namespace::errno;
use crate::sysctl::sysctl;

const READ: [&str; 5] = [
    "net/bridge/bridge-nf-call-ip6tables",
    "net/bridge/bridge-nf-call-iptables",
    "net/ipv4/conf/all/forwarding",
    "net/ipv4/ip_forward",
    "net/ipv6/conf/all/forwarding",
];

const LEGACY: [(&str, &str); 2] = [("ip", "/proc/thread-self/net/ip_tables_names"), ("ip6", "/proc/thread-self/net/ip6_tables_names")];

/// Those that the kernel has, by name.
pub(super) fn read() -> Result<BTreeMap<String, String>, KernelError> {
    let mut settings = BTreeMap::new();
    for name in READ {
        match sysctl(name) {
            Ok(value) => drop(settings.insert(name.to_owned(), value)),
            Err(KernelError::Network { errno: Errno::ENOENT, .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(settings)
}

/// Tables of the older iptables that are in use.
pub(super) fn legacy_tables() -> Result<Vec<String>, KernelError> {
    let mut tables = Vec::new();
    for (family, path) in LEGACY {
        match std::fs::read_to_string(path) {
            Ok(text) => tables.extend(text.lines().map(|it| format!("{family} {it}"))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(KernelError::refused(Attempt::Read, NetworkObject::All("tables of iptables"), errno(error))),
        }
    }
    Ok(tables)
}
