//! The canonical words for what a class or a program is made of: the same for the same meaning, whatever order it was written in. Names are quoted,
//! so that none can pass for something else.

use std::fmt::{self, Write as _};

use palisade_model::{ContainerPort, Direction, Family, IpBlock, LabelSelector, Operator, Policy, PolicyKind, PolicyRef};

pub(super) fn selector(selector: &LabelSelector) -> String {
    let one = |it: &palisade_model::Requirement| {
        let key = &it.key;
        match &it.operator {
            Operator::Equals(value) => format!("{key:?} in {}", values(std::slice::from_ref(value))),
            Operator::In(any) => format!("{key:?} in {}", values(any)),
            Operator::NotIn(none) => format!("{key:?} not in {}", values(none)),
            Operator::Exists => format!("{key:?} exists"),
            Operator::DoesNotExist => format!("{key:?} does not exist"),
        }
    };
    format!("({})", listed(selector.requirements.iter().map(one).collect()))
}

fn values(values: &[Box<str>]) -> String {
    format!("({})", listed(values.iter().map(|it| format!("{it:?}")).collect()))
}

pub(super) fn block(block: &IpBlock) -> String {
    format!("{} except ({})", block.cidr, listed(block.except.iter().map(ToString::to_string).collect()))
}

/// A block with so many exceptions at most is spelt out in the words of classes, and so are so many blocks; more of them are a count and a digest.
pub(super) const SPELT_OUT: usize = 8;

/// The same for the words of classes, of which there may be as many as there are blocks.
pub(super) fn short_block(block: &IpBlock) -> String {
    match block.except.len() {
        0..=SPELT_OUT => self::block(block),
        count => format!("{} except {count} of digest {:032x}", block.cidr, digest(&self::block(block))),
    }
}

/// FNV-1a with 128 bits.
pub(super) fn digest(words: &str) -> u128 {
    let step = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
    words.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, step)
}

pub(super) fn port(port: &ContainerPort) -> String {
    format!("{:?} {}/{}", port.name.as_deref().unwrap_or_default(), port.protocol, port.port)
}

/// A policy, or the part of it for subjects with something in common.
pub(super) fn policy(policy: &PolicyRef, part: Option<&str>) -> String {
    let kind = if policy.kind == PolicyKind::Kep2091 { "KEP-2091" } else { policy.kind.as_str() };
    let named = match &policy.namespace {
        Some(namespace) => format!("{kind} {namespace:?} {:?}", policy.name),
        None => format!("{kind} {:?}", policy.name),
    };
    part.map_or_else(|| named.clone(), |it| format!("{named} for {it}"))
}

/// What a policy says of one direction, as a number: so that a program that says something else is another.
pub(super) fn content(policy: &Policy, direction: Direction) -> String {
    let mut digest = Digest(0xcbf2_9ce4_8422_2325);
    // Nothing that is written there fails.
    let written =
        write!(digest, "{:?} {:?} {:?} {:?}", policy.tier, policy.rank, policy.isolates.of(direction), policy.rules.of(direction));
    match written {
        Ok(()) => format!("{:016x}", digest.0),
        Err(fmt::Error) => String::new(),
    }
}

/// FNV-1a of what is written.
struct Digest(u64);

impl fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = text.bytes().fold(self.0, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Ok(())
    }
}

pub(super) fn family(family: Family) -> &'static str {
    match family {
        Family::V4 => "4",
        Family::V6 => "6",
    }
}

/// In order, each once.
pub(super) fn listed(mut words: Vec<String>) -> String {
    words.sort_unstable();
    words.dedup();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use palisade_model::Requirement;

    use super::*;

    #[test]
    fn a_selector_has_one_wording() {
        let of = |requirements: &[(&str, Operator)]| {
            let requirements = requirements.iter().map(|(key, operator)| Requirement { key: (*key).into(), operator: operator.clone() });
            selector(&LabelSelector { requirements: requirements.collect() })
        };
        let (x, y): (Box<str>, Box<str>) = ("x".into(), "y".into());
        let (either, same) = (Operator::In(vec![x.clone(), y.clone()]), Operator::In(vec![y.clone(), x.clone(), x.clone()]));
        assert_eq!(of(&[("a", either), ("b", Operator::Exists)]), of(&[("b", Operator::Exists), ("a", same), ("b", Operator::Exists)]));
        assert_eq!(of(&[("a", Operator::Equals(x.clone()))]), of(&[("a", Operator::In(vec![x.clone()]))]));
        let others = [
            of(&[]),
            of(&[("a", Operator::Equals(x.clone()))]),
            of(&[("a", Operator::NotIn(vec![x.clone()]))]),
            of(&[("a", Operator::In(vec![x, y]))]),
            of(&[("a", Operator::Equals("x\", \"y".into()))]),
            of(&[("a", Operator::Exists)]),
            of(&[("a", Operator::DoesNotExist)]),
        ];
        assert_eq!(others.iter().collect::<std::collections::BTreeSet<_>>().len(), others.len(), "{others:?}");
    }
}
