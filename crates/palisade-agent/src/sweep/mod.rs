//! Connections that a change denies end with it.
//!
//! Rules let everything pass that belongs to a connection, so a denied one would go on for as long as anybody sends. After a change is in
//! force and no packet is on its way any more that has met the rules before, the connections that the change touches are judged as if their
//! first packet came now, and those that are denied are forgotten. Of TCP, no later segment opens one again, whoever sends it; a datagram
//! opens a new one, in the direction in which it goes, and is judged as such.
//!
//! [`view`] says which connections a change touches and [`judge`] what becomes of each, by what is [`alike`] on this node and by the policies of
//! pods [`elsewhere`]: all of these are pure. [`sweeper`] reads and forgets; [`answers`] are what both ends of a conversation go on with.

mod alike;
mod answers;
mod cut;
mod elsewhere;
mod judge;
mod places;
mod sweeper;
mod view;

pub(crate) use answers::Shut;
pub use cut::{Cut, CutBy, Cuts};
pub use sweeper::Swept;
pub(crate) use sweeper::{Desk, Sweeper, Tools};
pub(crate) use view::{Touched, View};

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
