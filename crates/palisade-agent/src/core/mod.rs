//! The agent as a pure function: [`step`] takes an input and gives effects.
//!
//! [`State`] knows everything and touches nothing. A [`Host`] does the effects and gives the inputs: `host::Linux`, or the one of the simulation. What must happen in which
//! order is data in `job`; a crash between any two effects leaves the node safe.

pub(crate) mod environment;
pub(crate) mod job;
pub(crate) mod own_table;
pub(crate) mod pending;
pub(crate) mod plan_run;
pub(crate) mod refusals;
#[cfg(test)]
pub(crate) mod simulation;
pub(crate) mod small_table;
pub(crate) mod stages;
pub(crate) mod state;
pub(crate) mod step;
pub(crate) mod sweeping;
pub(crate) mod unknown;
pub(crate) mod work;

use std::time::Duration;

pub use state::{CoreSettings, Effect, Input, Now, Request, RequestId, Response, State};
pub use state::{LogKind, Logged, LoggedPacket};
pub use step::step;
pub use work::{Done, Found, Lane, Outcome, Recompute, Recomputed, Token, Work, perform};

/// Where an agent runs: it does effects and gives inputs.
pub trait Host {
    fn now(&self) -> Now;

    /// Waits for the next input. `Input::Woken` when `until` has come.
    fn next(&mut self, until: Option<Duration>) -> Input;

    /// Begins an effect. `Effect::WakeAt` and `Effect::Exit` are for the loop.
    fn perform(&mut self, effect: Effect);
}

/// The loop of an agent, until it is told to stop.
pub fn run(state: &mut State, host: &mut impl Host) {
    let mut wake = None;
    loop {
        let input = host.next(wake);
        wake = None;
        for effect in step(state, host.now(), input) {
            match effect {
                Effect::WakeAt(time) => wake = Some(time),
                Effect::Exit => return,
                effect @ (Effect::Work(..) | Effect::Report(_) | Effect::Answer(..)) => host.perform(effect),
            }
        }
    }
}
