//! What the maps of the table are called. `lower` writes them, and whoever reads or changes a table finds them by these names.

use palisade_model::Direction;

use crate::ruleset::{Address, End};

/// Address → class.
pub(crate) fn class_map(family: Address) -> String {
    format!("class{}", family.digit())
}

/// Range of addresses → class.
pub(crate) fn range_map(family: Address) -> String {
    format!("net{}", family.digit())
}

/// Address of a pod of the node → number of its program.
pub(crate) fn subject_map(direction: Direction, family: Address) -> String {
    format!("{direction}{}", family.digit())
}

/// Number of a program → its chain.
pub(crate) fn programs_map(direction: Direction) -> String {
    format!("{direction}-programs")
}

/// Class → leaf, for the program of a chain.
pub(crate) fn leaves_map(program: &str) -> String {
    format!("{program}-leaves")
}

/// The pods of the node, each with itself.
pub(crate) fn selves(family: Address) -> String {
    format!("self{}", family.digit())
}

/// The chain that sets the number to the class of an end.
pub(crate) fn class_chain(end: End) -> &'static str {
    match end {
        End::Source => "class-of-source",
        End::Destination => "class-of-destination",
    }
}
