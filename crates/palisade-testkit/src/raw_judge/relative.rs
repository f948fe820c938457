//! Labels that a peer has in common with the subject. None where the keys are not understood.

use serde_json::Value;

use super::read::Labels;

/// Every key is on both, with one value.
pub(super) fn same(keys: &Value, subject: &Labels<'_>, peer: &Labels<'_>) -> Option<bool> {
    let keys = read(keys)?;
    let shared = |key: &&str| subject.contains_key(key) && subject.get(key) == peer.get(key);
    Some(!keys.is_empty() && keys.iter().all(shared))
}

/// As KEP-2091 words it: each key is not on the peer, or has another value there. The subject has them all.
pub(super) fn none_is_same(keys: &Value, subject: &Labels<'_>, peer: &Labels<'_>) -> Option<bool> {
    let keys = read(keys)?;
    let other = |key: &&str| subject.contains_key(key) && subject.get(key) != peer.get(key);
    Some(!keys.is_empty() && keys.iter().all(other))
}

/// As was shipped up to v0.1.2: every key is on both, and one of them has another value.
pub(super) fn some_differ(keys: &Value, subject: &Labels<'_>, peer: &Labels<'_>) -> Option<bool> {
    let keys = read(keys)?;
    let on_both = |key: &&str| subject.contains_key(key) && peer.contains_key(key);
    Some(keys.iter().all(on_both) && keys.iter().any(|key| subject.get(key) != peer.get(key)))
}

fn read(keys: &Value) -> Option<Vec<&str>> {
    keys.as_array()?.iter().map(|key| key.as_str().filter(|it| !it.is_empty())).collect()
}
