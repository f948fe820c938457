//! What must hold for any input: one property for each reader of bytes or text, one file each.
//!
//! A property panics where it does not hold. `fuzz/driver` tries them on inputs that lead to new code, `tests/seeds.rs` on the inputs
//! that are kept in `seeds/`: recorded from a kernel, taken from scenarios, or found.
#![cfg(target_os = "linux")]
#![expect(clippy::panic, clippy::expect_used, reason = "a property that does not hold panics")]

mod connections;
mod dump;
mod log;
mod manifests;
mod packet;
mod ruleset;

/// A property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Answers of the kernel about the table.
    Dump,
    /// Rulesets of any content: to bytes and back, and as text.
    Ruleset,
    /// Datagrams of logged packets.
    Log,
    /// Answers about connections, and notifications.
    Connections,
    /// The packets themselves.
    Packet,
    /// Manifests.
    Manifests,
}

impl Target {
    pub const ALL: [Target; 6] = [Target::Dump, Target::Ruleset, Target::Log, Target::Connections, Target::Packet, Target::Manifests];

    pub fn name(self) -> &'static str {
        match self {
            Target::Dump => "dump",
            Target::Ruleset => "ruleset",
            Target::Log => "log",
            Target::Connections => "connections",
            Target::Packet => "packet",
            Target::Manifests => "manifests",
        }
    }

    pub fn named(name: &str) -> Option<Target> {
        Target::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Panics if the property does not hold for an input.
    pub fn check(self, data: &[u8]) {
        match self {
            Target::Dump => dump::check(data),
            Target::Ruleset => ruleset::check(data),
            Target::Log => log::check(data),
            Target::Connections => connections::check(data),
            Target::Packet => packet::check(data),
            Target::Manifests => manifests::check(data),
        }
    }

    /// How many bytes may be in use beyond those before, for an input of a length.
    pub fn memory(self, length: usize) -> usize {
        let (fixed, each) = match self {
            Target::Dump | Target::Ruleset => (1 << 20, 1024),
            Target::Log | Target::Connections | Target::Packet => (1 << 16, 64),
            Target::Manifests => (8 << 20, 16 << 10),
        };
        fixed + length * each
    }
}
