//! The part of an object that its reader looks at. The rest is skipped while JSON is parsed.
//!
//! INVARIANT: skipping changes neither the typed object nor its problems. `testkit/tests/bad_input/json.rs` compares both readers.

use crate::read::near;

/// The part of a value that is kept. A list passes its part on to each of its items.
#[derive(Debug)]
pub(crate) enum Part {
    /// Everything.
    Whole,
    /// Nothing: the field is known and never read.
    Nothing,
    /// A map with all fields, of which these are kept in part.
    Every(Fields),
    /// A map of which the known fields are kept, and those that may be misspellings of one; of the known ones these are kept in part.
    Known(&'static [&'static str], Fields),
}

/// Fields that are kept in part.
type Fields = &'static [(&'static str, Part)];

impl Part {
    /// `metadata`.
    pub(crate) const METADATA: Part = Part::Every(&[("managedFields", Part::Nothing)]);
    /// An object of a kind that is read whole.
    pub(crate) const OBJECT: Part = Part::Every(&[("metadata", Part::METADATA)]);

    /// The part of a field that is kept, unless the field is skipped.
    pub(crate) fn of_field(&self, key: &str) -> Option<&'static Part> {
        let within = |fields: Fields| match fields.iter().find(|it| it.0 == key) {
            Some((_, Part::Nothing)) => None,
            Some((_, part)) => Some(part),
            None => Some(&Part::Whole),
        };
        match self {
            Part::Whole => Some(&Part::Whole),
            Part::Nothing => None,
            Part::Every(fields) => within(fields),
            // The distance at which `no_slips` refuses a field.
            Part::Known(known, fields) if known.contains(&key) || near(key, known, 1).is_some() => within(fields),
            Part::Known(..) => None,
        }
    }
}
