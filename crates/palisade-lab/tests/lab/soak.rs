//! Changes under traffic: nothing denied arrives, nothing allowed is lost, also when agents are killed.

use std::io;
use std::process::Command;

use palisade_lab::{Agents, Kind, SoakOptions, Soaked, be_agent, soak};

use crate::ground::{is_root, say};

/// How many changes, unless `PALISADE_SOAK_CHANGES` says so.
const CHANGES: usize = 2_000;
/// How many of them with an agent that is killed, unless `PALISADE_SOAK_KILLS` says so.
const KILLS: usize = 25;
/// Set for a process that is to be an agent: what it is to do.
const AGENT: &str = "PALISADE_SOAK_AGENT";

#[test]
fn no_change_leaks_or_loses_a_packet() {
    if !is_root() {
        return;
    }
    let soaked = soaked(number("PALISADE_SOAK_CHANGES").unwrap_or(CHANGES), Agents::Live);
    for kind in Kind::ALL {
        let count = soaked.counts.get(&Some(kind)).copied().unwrap_or_default();
        assert!(count.denied > 0 && count.accepted > 0, "{kind}: {count:?}");
    }
}

#[test]
fn an_agent_that_is_killed_leaves_no_gap() {
    if let Ok(words) = std::env::var(AGENT) {
        be_agent(&words).unwrap();
        return;
    }
    if !is_root() {
        return;
    }
    let changes = number("PALISADE_SOAK_KILLS").unwrap_or(KILLS);
    let soaked = soaked(changes, Agents::Die(again));
    assert_eq!(soaked.kills.amid + soaked.kills.after, changes);
    assert!(soaked.kills.amid > 0, "{:?}", soaked.kills);
}

/// The second test again, in a process that is to be an agent.
fn again(words: &str) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--exact", "soak::an_agent_that_is_killed_leaves_no_gap", "--nocapture"]).env(AGENT, words);
    Ok(command)
}

fn soaked(changes: usize, agents: Agents) -> Soaked {
    let seed = number("PALISADE_SOAK_SEED").map_or(1, |it| u64::try_from(it).unwrap());
    let soaked = soak(&SoakOptions { changes, seed, agents }, |_| {}).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    say(&soaked.table());
    let Soaked { took, unsent, late, overruns, kills, .. } = &soaked;
    say(&format!("seed {seed}: {took:?}, unsent {unsent}, late {late}, overruns {overruns}, {kills:?}"));
    soaked.breaches.iter().for_each(|it| say(&it.to_string()));
    soaked.incidents.iter().for_each(|it| say(it));
    assert!(soaked.is_clean(), "seed {seed}");
    soaked
}

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok().map(|it| it.parse().unwrap())
}
