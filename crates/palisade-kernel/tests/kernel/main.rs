//! Rulesets and networks in a real kernel, each in network namespaces of its own. Without root every test says so and passes.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "all of this is tests, and clippy knows them by their attribute only")]

mod classes;
mod events;
mod frames;
mod ground;
mod links;
mod namespaces;
mod packets;
mod parity;
mod replies;
mod rulesets;
mod sources;
mod transactions;
mod unknown;
mod unknown_pods;
