//! Changes under traffic: nothing denied arrives, nothing allowed is lost.

use palisade_lab::{Kind, SoakOptions, soak};

use crate::ground::{is_root, say};

/// How many changes, unless `PALISADE_SOAK_CHANGES` says so.
const CHANGES: usize = 2_000;

#[test]
fn no_change_leaks_or_loses_a_packet() {
    if !is_root() {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().map(|it| it.parse::<u64>().unwrap());
    let changes = number("PALISADE_SOAK_CHANGES").map_or(CHANGES, |it| usize::try_from(it).unwrap());
    let seed = number("PALISADE_SOAK_SEED").unwrap_or(1);
    let soaked = soak(&SoakOptions { changes, seed }, |_| {}).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    say(&soaked.table());
    say(&format!("seed {seed}: {:?}, unsent {}, late {}, overruns {}", soaked.took, soaked.unsent, soaked.late, soaked.overruns));
    soaked.breaches.iter().for_each(|it| say(&it.to_string()));
    soaked.incidents.iter().for_each(|it| say(it));
    assert!(soaked.is_clean(), "seed {seed}");
    for kind in Kind::ALL {
        let count = soaked.counts.get(&Some(kind)).copied().unwrap_or_default();
        assert!(count.denied > 0 && count.accepted > 0, "{kind}: {count:?}");
    }
}
