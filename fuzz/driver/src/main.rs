//! One property of `palisade-fuzz` under libFuzzer: the one that `PALISADE_FUZZ_TARGET` names.
//!
//! Started by `cargo xtask fuzz`, which builds it with counters of coverage. What an input may make a reader allocate is bounded.
#![no_main]

use std::alloc::System;
use std::sync::OnceLock;

use cap::Cap;
use libfuzzer_sys::fuzz_target;
use palisade_fuzz::Target;

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

static TARGET: OnceLock<Target> = OnceLock::new();

fn target() -> Target {
    let name = std::env::var("PALISADE_FUZZ_TARGET").expect("PALISADE_FUZZ_TARGET names a target");
    Target::named(&name).unwrap_or_else(|| panic!("`{name}` is no target"))
}

fuzz_target!(|data: &[u8]| {
    let target = TARGET.get_or_init(target);
    // Beyond the limit an allocation fails, which ends the process: a find.
    let limit = MEMORY.allocated() + target.memory(data.len());
    MEMORY.set_limit(limit).expect("more than there is now");
    target.check(data);
    MEMORY.set_limit(usize::MAX).expect("no limit");
});
