//! Labs with real packets. Without root every test says so and passes.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "all of this is tests, and clippy knows them by their attribute only")]

mod audit;
mod cut;
mod faults;
mod ground;
mod node_local;
mod scenarios;
mod services;
mod soak;
mod talk;
mod unknown;
mod watch;
