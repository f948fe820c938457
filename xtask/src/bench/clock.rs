//! CPU time of the calling thread, and the one CPU it stays on.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

/// How long something took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Took {
    /// CPU time of the thread, the kernel's work for it included.
    pub(super) cpu: Duration,
    pub(super) elapsed: Duration,
}

/// Runs something and measures it.
pub(super) fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, Took)> {
    let (start, cpu) = (Instant::now(), thread_cpu()?);
    let done = work()?;
    Ok((done, Took { cpu: thread_cpu()?.saturating_sub(cpu), elapsed: start.elapsed() }))
}

fn thread_cpu() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).context("no CPU clock of a thread")?.into())
}

/// Keeps the calling thread, and those it starts, on the last CPU that it may use: the first ones have the most interrupts.
pub(super) fn pin() -> Result<()> {
    let this = Pid::from_raw(0);
    let allowed = sched_getaffinity(this).context("cannot ask for the CPUs of this thread")?;
    let last = (0..CpuSet::count()).rev().find(|cpu| allowed.is_set(*cpu).unwrap_or(false)).context("a thread without a CPU")?;
    let mut only = CpuSet::new();
    only.set(last)?;
    sched_setaffinity(this, &only).with_context(|| format!("cannot stay on CPU {last}"))
}
