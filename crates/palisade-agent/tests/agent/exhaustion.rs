//! More than can be done: what is in force stays, what is wanted last comes true.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use palisade_agent::{Changes, Matter, Outcome, Pace, Wanted};
use palisade_model::{Endpoint, Model, NodeId, PodName};

use crate::ground::{DEADLINE, Ground, apply, links, model, say};

/// How long words come; a minute to see more than a moment.
const SECONDS: &str = "PALISADE_BURST_SECONDS";

/// The pod's policy in one of some wordings, and some of a thousand pods elsewhere.
fn word(number: u32, pod: &Endpoint, bases: &[Model]) -> (Matter, Model) {
    let mut model = bases.iter().cycle().nth(usize::try_from(number / 10 % 4).unwrap()).unwrap().clone();
    let elsewhere = (0..number % 40).map(|at| Endpoint {
        name: PodName { namespace: "x".into(), name: format!("far-{at}").into() },
        addresses: vec![std::net::Ipv4Addr::from_bits(0x0a64_0000 + at).into()],
        node: None,
        ..pod.clone()
    });
    model.endpoints.extend(elsewhere);
    (if number.is_multiple_of(10) { Matter::Verdicts } else { Matter::Data }, model)
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
    apply(&running, &[80]);
    let bases = [model(&[80]), model(&[81]), model(&[80, 81]), model(&[])];
    let pod = bases[0].endpoints[0].clone();
    let running = Arc::new(running);
    let of_thread = Arc::clone(&running);
    let (told, outcomes) = channel();
    let make = move |it: &Wanted| of_thread.apply(&it.model, it.node, it.links.clone());
    let changes = Changes::start(Pace::default(), make, move |it| drop(told.send(it))).unwrap();
    let (start, mut before) = (Instant::now(), 0);
    let mut words = 0;
    while start.elapsed() < Duration::from_secs(seconds) {
        let (matter, model) = word(words, &pod, &bases);
        changes.want(matter, Wanted { model: Arc::new(model), node: NodeId(0), links: links() });
        words += 1;
        if start.elapsed() > Duration::from_secs(1) && before == 0 {
            before = resident();
        }
        // A thousand a second, or as many as the machine can say.
        let next = Duration::from_millis(words.into());
        std::thread::sleep(next.saturating_sub(start.elapsed()));
    }
    assert!(changes.settle(DEADLINE));
    drop(changes);
    let (mut made, mut failed, mut said) = (0, Vec::new(), 0);
    for outcome in outcomes.iter() {
        match outcome {
            Outcome::Applied { words, .. } => {
                made += 1;
                said += words;
            }
            Outcome::Failed { error, .. } => failed.push(error),
        }
    }
    assert_eq!((failed, u32::try_from(said)), (Vec::new(), Ok(words)));
    say(&format!("{words} words in {seconds} s came to {made} changes; {} kB more than after a second", resident().saturating_sub(before)));
    // Nobody else touched the table, and it is what an agent would write that knows the last word only.
    let (_, last) = word(words - 1, &pod, &bases);
    let fresh = Ground::create().unwrap();
    let (other, _) = fresh.start().unwrap();
    other.apply(&Arc::new(last), NodeId(0), links()).unwrap();
    let lines = |ground: &Ground| {
        let mut lines: Vec<String> = ground.table().lines().map(ToOwned::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&ground), lines(&fresh));
    assert_eq!(events.try_iter().filter(|it| matches!(it, palisade_agent::Event::Restored { .. })).count(), 0);
}
