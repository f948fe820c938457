//! Connections that a change denies end with it.
//!
//! Rules let everything pass that belongs to a connection, so a denied one would go on for as long as anybody sends. After a change is in
//! force and no packet is on its way any more that has met the rules before, the connections that the change touches are judged as if their
//! first packet came now, and those that are denied are forgotten. Of TCP, no later segment opens one again, whoever sends it; a datagram
//! opens a new one, in the direction in which it goes, and is judged as such.
//!
//! [`touched`] has the connections that a change touches, and [`judge`] decides about each, by addresses that are [`alike`] to this node and by the policies of
//! pods [`elsewhere`]. [`replies`] are packets that both ends of a connection go on with. The core asks its host to read and delete connections.

mod alike;
mod cut;
mod elsewhere;
mod judge;
mod replies;
mod touched;

pub use cut::{Cut, CutBy, Cuts};
pub(crate) use cut::{Tally, Why};
pub(crate) use judge::{Fate, Judge, Opening, TCP};
pub(crate) use replies::{Replies, RepliesError, denied, replies_of};
pub(crate) use touched::{Amount, changed_nodes, pods_seen_differently, selected};
pub use touched::{Judged, Touched};

/// Whether all connections have ended that are to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swept {
    All,
    NotAll,
}

/// What becomes of connections that a change denies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Established {
    /// They end.
    #[default]
    Cut,
    /// They live on until their ends close them, and so do those of pods that are gone: no tracked connection is touched.
    Keep,
}

#[cfg(test)]
mod tests;
