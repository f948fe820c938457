//! More than can be done: what is in force stays, what is wanted last comes true.

use std::sync::Arc;
use std::time::{Duration, Instant};

use palisade_agent::{Event, Here};
use palisade_model::{Changes, Endpoint, Model, NodeId, PodName, Revision};

use crate::ground::{DEADLINE, Ground, links, model, say};

/// How long words come; a minute to see more than a moment.
const SECONDS: &str = "PALISADE_BURST_SECONDS";

/// The pod's policy in one of some wordings, and some of a thousand pods elsewhere.
fn word(number: u32, pod: &Endpoint, bases: &[Model]) -> Model {
    let mut model = bases.iter().cycle().nth(usize::try_from(number / 10 % 4).unwrap()).unwrap().clone();
    let elsewhere = (0..number % 40).map(|at| Endpoint {
        name: PodName { namespace: "x".into(), name: format!("far-{at}").into() },
        addresses: vec![std::net::Ipv4Addr::from_bits(0x0a64_0000 + at).into()],
        node: None,
        ..pod.clone()
    });
    model.endpoints.extend(elsewhere);
    model
}

/// Kilobytes of this process.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_thousand_words_a_second_come_to_the_last_one() {
    let Some(ground) = Ground::create() else { return };
    let seconds: u64 = std::env::var(SECONDS).ok().map_or(2, |it| it.parse().unwrap());
    let (running, events) = ground.start().unwrap();
    let bases = [model(&[80]), model(&[81]), model(&[80, 81]), model(&[])];
    let pod = bases[0].endpoints[0].clone();
    let (mut known, mut revision) = (Model::default(), Revision::default());
    let mut tell = |model: Model| {
        let changes = Changes::between(&known, &model).starting(revision);
        (known, revision) = (model, changes.to);
        running.change(changes, Here { node: NodeId(0), links: links(), pod_ranges: Vec::new() });
    };
    let (start, mut before) = (Instant::now(), 0);
    let mut words = 0;
    while start.elapsed() < Duration::from_secs(seconds) {
        tell(word(words, &pod, &bases));
        words += 1;
        if start.elapsed() > Duration::from_secs(1) && before == 0 {
            before = resident();
        }
        // A thousand a second, or as many as the machine can say.
        let next = Duration::from_millis(words.into());
        std::thread::sleep(next.saturating_sub(start.elapsed()));
    }
    let commits = running.counts().commits;
    assert!(commits < u64::from(words), "{commits} commits for {words} changes");
    say(&format!(
        "{words} changes in {seconds} s came to {commits} commits; {} kB more than after a second",
        resident().saturating_sub(before)
    ));
    // Nobody else touched the table, and it is what an agent would write that knows the last word only.
    let last = word(words - 1, &pod, &bases);
    let fresh = Ground::create().unwrap();
    let (other, _) = fresh.start().unwrap();
    other.apply(&Arc::new(last), NodeId(0), links()).unwrap();
    let lines = |ground: &Ground| {
        let mut lines: Vec<String> = ground.table().lines().map(ToOwned::to_owned).collect();
        lines.sort();
        lines
    };
    let deadline = Instant::now() + DEADLINE;
    while lines(&ground) != lines(&fresh) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(lines(&ground), lines(&fresh));
    assert_eq!(events.try_iter().filter(|it| matches!(it, Event::Restored { .. } | Event::Failed(_))).collect::<Vec<_>>(), []);
}
