//! Small readings of raw values: paths, lists, labels, selectors, CIDRs, port numbers.
//!
//! Absent and null are one thing everywhere, as they are for the API server. A reading that returns an
//! `Option` says `None` for what cannot be understood; the caller knows which way is closed.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use serde_json::Value;

use crate::scenario::RawProtocol;

pub(super) type Labels<'a> = BTreeMap<&'a str, &'a str>;

static NULL: Value = Value::Null;

/// The value at a path of fields such as `/spec/nodeName`, or null. Unlike a pointer it has no escapes, for which each step is copied twice.
pub(super) fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('/').skip(1).try_fold(value, |value, field| value.get(field)).unwrap_or(&NULL)
}

pub(super) fn text<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    at(value, path).as_str().filter(|text| !text.is_empty())
}

/// The items of a list; none if it is absent or null, `None` if it is something else.
pub(super) fn list(value: &Value) -> Option<&[Value]> {
    if value.is_null() { Some(&[]) } else { value.as_array().map(Vec::as_slice) }
}

/// As [`list`], where anything that is not a list holds nothing.
pub(super) fn items<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    list(at(value, path)).unwrap_or_default()
}

pub(super) fn is_kind(object: &Value, version: &str, kind: &str) -> bool {
    text(object, "/apiVersion") == Some(version) && text(object, "/kind") == Some(kind)
}

pub(super) fn name(object: &Value) -> &str {
    text(object, "/metadata/name").unwrap_or("")
}

pub(super) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace").unwrap_or("default")
}

/// An error if the names or labels of an object are not text: the API server would not decode it. The
/// usual cause is YAML, where a bare `y` or `no` is a boolean.
pub(super) fn check_text(object: &Value) -> Result<(), String> {
    let named = ["/metadata/name", "/metadata/namespace"].map(|path| at(object, path));
    let labels = at(object, "/metadata/labels").as_object().into_iter().flatten();
    let mut values = named.into_iter().chain(labels.map(|(_, value)| value));
    match values.find(|value| !value.is_null() && !value.is_string()) {
        Some(value) => {
            let (kind, name) = (at(object, "/kind"), at(object, "/metadata/name"));
            Err(format!("{kind} {name}: `{value}` in metadata is not text; quote it"))
        }
        None => Ok(()),
    }
}

/// The labels of an object or of a pod template.
pub(super) fn labels(object: &Value) -> Labels<'_> {
    let map = at(object, "/metadata/labels").as_object();
    map.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), label_value(value)?))).collect()
}

/// A null value is the empty one: the API server decodes it so, and keeps the key.
pub(super) fn label_value(value: &Value) -> Option<&str> {
    if value.is_null() { Some("") } else { value.as_str() }
}

/// The one of `known` that the object has, if it has exactly one and nothing else: what a field of a newer API does to its neighbours
/// is not known either.
pub(super) fn only_key<'a>(object: &Value, known: &[&'a str]) -> Option<&'a str> {
    let mut present = known.iter().filter(|key| object.get(**key).is_some_and(|it| !it.is_null()));
    match (present.next(), present.next()) {
        (Some(key), None) if knows_all(object, known) => Some(key),
        (Some(_) | None, _) => None,
    }
}

/// Whether every field of the object is one of `known`.
pub(super) fn knows_all(object: &Value, known: &[&str]) -> bool {
    let fields = object.as_object().into_iter().flatten();
    fields.into_iter().all(|(key, value)| value.is_null() || known.contains(&key.as_str()))
}

/// Whether a label selector selects, or `None` if any part of it is not understood, whatever the labels.
/// Null is the empty selector: callers for whom a missing selector means something else look first.
pub(super) fn selects(selector: &Value, labels: &Labels<'_>) -> Option<bool> {
    if selector.is_null() {
        return Some(true);
    }
    let object = selector.as_object()?;
    let known = ["matchLabels", "matchExpressions"];
    if !object.is_empty() && !known.iter().any(|key| object.contains_key(*key)) {
        return None;
    }
    let mut selected = true;
    let pairs = at(selector, "/matchLabels");
    if !pairs.is_null() {
        for (key, value) in pairs.as_object()? {
            selected &= labels.get(key.as_str()) == Some(&label_value(value)?);
        }
    }
    for expression in list(at(selector, "/matchExpressions"))? {
        selected &= expression_holds(expression, labels)?;
    }
    Some(selected)
}

/// As [`selects`], for a selector that has to be there and may hold nothing that is not known.
pub(super) fn selects_strictly(selector: &Value, labels: &Labels<'_>) -> Option<bool> {
    let known = |value: &Value, fields: &[&str]| value.is_object() && knows_all(value, fields);
    let expressions = at(selector, "/matchExpressions").as_array().map_or(&[][..], Vec::as_slice);
    let understood = known(selector, &["matchLabels", "matchExpressions"])
        && expressions.iter().all(|expression| known(expression, &["key", "operator", "values"]));
    selects(selector, labels).filter(|_| understood)
}

fn expression_holds(expression: &Value, labels: &Labels<'_>) -> Option<bool> {
    let value = labels.get(text(expression, "/key")?);
    let values: Vec<&str> = list(at(expression, "/values"))?.iter().map(Value::as_str).collect::<Option<_>>()?;
    match (text(expression, "/operator")?, values.is_empty()) {
        ("In", false) => Some(value.is_some_and(|value| values.contains(value))),
        ("NotIn", false) => Some(!value.is_some_and(|value| values.contains(value))),
        ("Exists", true) => Some(value.is_some()),
        ("DoesNotExist", true) => Some(value.is_none()),
        (_, _) => None,
    }
}

/// A CIDR as old objects may hold it: leading zeros are decimal, and bits of the host are masked.
pub(super) fn lenient_cidr(text: &str) -> Option<IpNet> {
    let (address, prefix) = text.split_once('/')?;
    IpNet::new(lenient_address(address)?, decimal(prefix)?).ok()
}

/// A CIDR as the ClusterNetworkPolicy schema admits it: host bits may be set, leading zeros may not.
pub(super) fn strict_cidr(text: &str) -> Option<IpNet> {
    text.parse().ok()
}

pub(super) fn lenient_address(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let octets: Vec<u8> = text.split('.').map(decimal).collect::<Option<_>>()?;
    <[u8; 4]>::try_from(octets).ok().map(|octets| IpAddr::V4(Ipv4Addr::from(octets)))
}

fn decimal(text: &str) -> Option<u8> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let significant = text.trim_start_matches('0');
    match (digits, significant.is_empty()) {
        (false, _) => None,
        (true, true) => Some(0),
        (true, false) => significant.parse().ok(),
    }
}

/// A port number from 1 to 65535; 80.0 is 80 on its way to the API server.
pub(super) fn port_number(value: &Value) -> Option<u16> {
    let whole = || value.as_f64().filter(|it| it.fract() == 0.0).and_then(|it| format!("{it:.0}").parse::<u64>().ok());
    let number = value.as_u64().or_else(whole)?;
    u16::try_from(number).ok().filter(|port| *port != 0)
}

/// The protocol of a port, TCP unless it says otherwise.
pub(super) fn port_protocol(port: &Value) -> Option<RawProtocol> {
    let protocol = at(port, "/protocol");
    if protocol.is_null() {
        return Some(RawProtocol::Tcp);
    }
    match protocol.as_str()? {
        "TCP" => Some(RawProtocol::Tcp),
        "UDP" => Some(RawProtocol::Udp),
        "SCTP" => Some(RawProtocol::Sctp),
        _ => None,
    }
}
