//! The members of sets: parties, patterns, blocks, and the outside.

use std::net::IpAddr;

use ipnet::IpNet;

use super::Member;
use super::sentence::Wrong;
use crate::party::Party;

/// Where in a sentence a name stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    From,
    To,
    /// A set of sources, in which a bare name is a namespace.
    FromSet,
    /// A set of destinations, in which a bare name is a namespace.
    ToSet,
}

/// Reads one member.
pub(super) fn read(text: &str, role: Role) -> Result<Member, Wrong> {
    if text.eq_ignore_ascii_case("external") {
        return Ok(Member::External);
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(Member::Party(Party::Address(address)));
    }
    if let Ok(network) = text.parse::<IpNet>() {
        return Ok(Member::Network(network.trunc()));
    }
    let wrong = |message: String| Err(Wrong::new(text, message));
    match text.split_once('/') {
        Some((address, _)) if address.parse::<IpAddr>().is_ok() => wrong(format!("`{text}` is not a CIDR")),
        _ if text.contains(':') => {
            wrong(format!("`{text}`: a port belongs to one destination, or stands at the end of the sentence, as in tcp/80"))
        }
        Some(_) if text.contains('*') => pattern(text),
        None => bare(text, role),
        Some(_) => {
            let party = Party::parse(text).map_err(|message| Wrong::new(text, message))?;
            if matches!((&party, role), (Party::Service { .. }, Role::From | Role::FromSet)) {
                return wrong(format!("`{text}`: a Service opens no connections; name the pods behind it"));
            }
            Ok(Member::Party(party))
        }
    }
}

/// `shop/db:5432` in two; `[fd00::7]:80` too. None where there is no port.
pub(super) fn with_port(text: &str) -> Option<(&str, &str)> {
    if text.parse::<IpAddr>().is_ok() || text.parse::<IpNet>().is_ok() {
        return None;
    }
    let (name, port) = text.rsplit_once(':')?;
    Some((name.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(name), port))
}

fn pattern(text: &str) -> Result<Member, Wrong> {
    let parts: Vec<&str> = text.split('/').collect();
    match parts.as_slice() {
        [namespace, name] if !namespace.is_empty() && !name.is_empty() && !name.contains('=') => {
            Ok(Member::Pods { namespace: (*namespace).to_owned(), name: (*name).to_owned() })
        }
        _ => Err(Wrong::new(text, format!("`{text}` is not a pattern; write namespace/name with `*` for any text, as in shop/web-*"))),
    }
}

fn bare(text: &str, role: Role) -> Result<Member, Wrong> {
    let all_of = |namespace: &str| Member::Pods { namespace: namespace.to_owned(), name: "*".to_owned() };
    let is_name = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'*'));
    match role {
        Role::From | Role::To | Role::FromSet | Role::ToSet if text == "*" => Ok(all_of("*")),
        Role::FromSet | Role::ToSet if is_name => Ok(all_of(text)),
        Role::From | Role::To if is_name => {
            Err(Wrong::new(text, format!("`{text}`: a namespace is missing")).help(format!("for all pods of a namespace write `{text}/*`")))
        }
        Role::From | Role::To | Role::FromSet | Role::ToSet => Err(Wrong::new(text, format!("`{text}` names nothing"))),
    }
}
