//! Audited policies change no verdict, and what the audit of a node says is what the specification says of the cluster with them.
//!
//! `PALISADE_DIFFERENTIAL_SECONDS` says how long, `PALISADE_DIFFERENTIAL_SEED` where to start.

use std::time::{Duration, Instant};

use palisade_testkit::audits::{Looked, examine};

/// Enough to meet everything that is counted.
const CLUSTERS: u64 = 60;

#[test]
fn audits_of_random_clusters_say_what_would_change_and_change_nothing() {
    let setting = |name: &str| std::env::var(name).ok().and_then(|it| it.parse::<u64>().ok());
    let (start, seconds) = (Instant::now(), setting("PALISADE_DIFFERENTIAL_SECONDS").unwrap_or(0));
    let first = setting("PALISADE_DIFFERENTIAL_SEED").unwrap_or(0);
    let mut looked = Looked::default();
    for seed in first.. {
        if seed - first >= CLUSTERS && start.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
        looked.add(&examine(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}")));
    }
    let Looked { flows, denied, allowed, by_two_sets, both_directions, newly_isolated } = looked;
    assert!([flows, denied, allowed, by_two_sets, both_directions, newly_isolated].iter().all(|it| *it > 0), "{looked:?}");
}
