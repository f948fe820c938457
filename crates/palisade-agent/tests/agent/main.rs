//! Agents in a real kernel, each in network namespaces of its own. Without root every test says so and passes.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "all of this is tests, and clippy knows them by their attribute only")]

mod events;
mod exhaustion;
mod ground;
mod instances;
mod layouts;
mod process;
mod repairs;
mod room;
mod strays;
mod sweep;
mod tables;
mod traffic;
mod verify;
