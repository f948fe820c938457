//! Settings that decide whether packets are forwarded, whether those of a bridge meet the tables, and whether a packet may name its own way.

use std::collections::BTreeMap;

use nix::errno::Errno;

use super::links::LinkFacts;
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

/// What counts for a link is what is set both for it and for all: that packets name the stops of their way.
const WAYS: [(&str, &str); 3] =
    [("net/ipv4/conf", "accept_source_route"), ("net/ipv6/conf", "seg6_enabled"), ("net/ipv6/conf", "rpl_seg_enabled")];

const LEGACY: [(&str, &str); 2] = [("ip", "/proc/thread-self/net/ip_tables_names"), ("ip6", "/proc/thread-self/net/ip6_tables_names")];

/// Those that the kernel has, by name.
pub(super) fn read(links: &[LinkFacts]) -> Result<BTreeMap<String, String>, KernelError> {
    let mut settings = BTreeMap::new();
    for name in READ {
        one(name.to_owned(), &mut settings)?;
    }
    for (folder, name) in WAYS {
        let all = format!("{folder}/all/{name}");
        one(all.clone(), &mut settings)?;
        if settings.get(&all).is_some_and(|it| it != "0") {
            links.iter().try_for_each(|it| one(format!("{folder}/{}/{name}", it.name), &mut settings))?;
        }
    }
    Ok(settings)
}

/// A setting of a link that has gone is not there, like one that the kernel does not have.
fn one(name: String, settings: &mut BTreeMap<String, String>) -> Result<(), KernelError> {
    match sysctl(&name) {
        Ok(value) => drop(settings.insert(name, value)),
        Err(KernelError::Network { errno: Errno::ENOENT, .. }) => {}
        Err(error) => return Err(error),
    }
    Ok(())
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
