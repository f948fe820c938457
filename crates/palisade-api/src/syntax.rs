//! The spelling rules of the API server: names, labels, port names, CIDRs. Each says what is wrong in words.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

/// All is well, or what is wrong.
pub type Checked = Result<(), String>;

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

/// Letters, digits and `inner`, beginning and ending with a letter or digit.
fn is_token(text: &str, most: usize, inner: &[u8]) -> bool {
    let bytes = text.as_bytes();
    let ends = bytes.first().copied().is_some_and(is_alphanumeric) && bytes.last().copied().is_some_and(is_alphanumeric);
    ends && text.len() <= most && bytes.iter().all(|byte| is_alphanumeric(*byte) || inner.contains(byte))
}

/// A label value: empty, or up to 63 characters.
pub fn label_value(text: &str) -> Checked {
    if text.is_empty() || is_token(text, 63, b"-_.") {
        return Ok(());
    }
    Err(format!("`{text}` is not a label value: at most 63 letters, digits, `-`, `_`, `.`, beginning and ending with a letter or digit"))
}

/// A label key: a name, possibly with a DNS prefix before a slash.
pub fn label_key(text: &str) -> Checked {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let prefix_ok = prefix.is_none_or(|prefix| subdomain(prefix).is_ok());
    if prefix_ok && is_token(name, 63, b"-_.") {
        return Ok(());
    }
    Err(format!("`{text}` is not a label key: `[prefix/]name`, where the prefix is a DNS name"))
}

/// The name of most objects.
pub fn subdomain(text: &str) -> Checked {
    let lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
    let labels = text.split('.').all(|label| is_token(label, 253, b"-"));
    if lower && labels && text.len() <= 253 {
        return Ok(());
    }
    Err(format!("`{text}` is not a name: lower-case letters, digits, `-`, `.`"))
}

/// The name of a namespace.
pub fn dns_label(text: &str) -> Checked {
    if text.len() <= 63 && !text.contains('.') && subdomain(text).is_ok() {
        return Ok(());
    }
    Err(format!("`{text}` is not the name of a namespace: at most 63 lower-case letters, digits and `-`"))
}

/// The name of a port: an IANA service name.
pub(crate) fn port_name(text: &str) -> Checked {
    let shaped = is_token(text, 15, b"-") && !text.bytes().any(|byte| byte.is_ascii_uppercase()) && !text.contains("--");
    if shaped && text.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        return Ok(());
    }
    let hint = if text.parse::<u16>().is_ok() { "; write the number without quotes" } else { "" };
    Err(format!("`{text}` is not a port name: at most 15 lower-case letters, digits and single `-`, with a letter{hint}"))
}

/// A CIDR that was read, and what was odd about its spelling.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    pub(crate) net: IpNet,
    pub(crate) oddity: Option<Oddity>,
}

/// What is odd about a CIDR that can be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Oddity {
    /// Every API server takes it.
    HostBits(String),
    /// Only objects that were stored long ago have it.
    Spelling(String),
}

/// Reads a CIDR, also as the API server once accepted it: host bits set, leading zeros in IPv4.
pub(crate) fn cidr(text: &str) -> Result<Cidr, String> {
    let Some((address, length)) = text.split_once('/') else {
        return Err(format!("`{text}` has no prefix length; a single address ends in /32 or /128"));
    };
    let (address, zeros) = match address.parse::<IpAddr>() {
        Ok(address) => (address, length.len() > 1 && length.starts_with('0')),
        Err(_) => (IpAddr::V4(sloppy_ipv4(address).ok_or_else(|| format!("`{address}` in `{text}` is not an IP address"))?), true),
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    let plain = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let length = length.parse::<u8>().ok().filter(|length| plain && *length <= most);
    let Some(length) = length else {
        return Err(format!("`{text}`: the prefix length must be 0 to {most}"));
    };
    let whole = IpNet::new(address, length).map_err(|_| format!("`{text}` is not a CIDR"))?;
    let net = whole.trunc();
    let mapped = matches!(address, IpAddr::V6(it) if it.to_ipv4_mapped().is_some());
    let oddity = match (zeros, mapped, net == whole) {
        (true, _, _) => Some(Oddity::Spelling(format!("`{text}` has leading zeros, which some programs read as octal; taken as `{net}`"))),
        (false, true, _) => Some(Oddity::Spelling(format!("`{text}` is IPv4 written as IPv6, and matches no IPv4 packet"))),
        (false, false, false) => Some(Oddity::HostBits(format!("`{text}` has bits set beyond its prefix; taken as `{net}`"))),
        (false, false, true) => None,
    };
    Ok(Cidr { net, oddity })
}

/// Four decimal octets, leading zeros allowed.
fn sloppy_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next().filter(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *octet =
            part.trim_start_matches('0').parse().or_else(|error| if part.bytes().all(|b| b == b'0') { Ok(0) } else { Err(error) }).ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}
