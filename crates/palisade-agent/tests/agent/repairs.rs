//! Packets never stop while somebody edits the table, and it is put back step by step.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use palisade_agent::{Agent, Applied};
use palisade_kernel::Nftables;
use palisade_model::NodeId;

use crate::ground::{DEADLINE, Ground, NODE, POD, links, model_of, say};
use crate::traffic::{FAR, OPEN, PATIENCE, Place, SHUT, Traffic, far, traffic};

/// How often each edit is made.
const TURNS: usize = 5;
const MOMENT: Duration = Duration::from_millis(10);

/// What somebody has nft do.
enum Does {
    /// It is in nobody's way, and opens none.
    Nothing,
    /// It stops what policy accepts.
    Closes,
    /// It lets through what policy denies.
    Opens,
}

/// Who puts it back has to keep what policy says of everything that the edit itself does not change.
fn edits() -> Vec<(Does, String)> {
    let forward = |rule: &str| format!("insert rule inet palisade forward {rule}");
    vec![
        (Does::Nothing, "add chain inet palisade stray\nadd rule inet palisade stray counter".to_owned()),
        (Does::Nothing, "add set inet palisade mine { type ipv4_addr; }".to_owned()),
        (Does::Nothing, "add chain inet palisade later { type filter hook forward priority 5; }".to_owned()),
        (Does::Nothing, forward("counter")),
        (Does::Nothing, "insert rule inet palisade input counter".to_owned()),
        (Does::Nothing, "add rule inet palisade forward counter".to_owned()),
        (Does::Nothing, format!("delete element inet palisade self4 {{ {POD} . {POD} }}")),
        (Does::Nothing, "add element inet palisade class4 { 10.7.7.7 : 1:1 }".to_owned()),
        (Does::Closes, forward("drop")),
        (Does::Closes, format!("insert rule inet palisade input udp dport {OPEN} drop")),
        (Does::Opens, forward("accept")),
        (Does::Opens, "flush chain inet palisade egress".to_owned()),
        (Does::Opens, format!("delete element inet palisade egress4 {{ {POD} }}")),
        (Does::Opens, "flush ruleset".to_owned()),
        (Does::Opens, format!("insert rule inet palisade input udp dport {SHUT} accept")),
    ]
}

/// What traffic met while edits of one kind were made and undone.
fn under_traffic(ground: &Ground, places: &[Place], edits: &[&str]) -> Traffic {
    let repair =
        || ground.node.run(|| Agent::new(Nftables::open().unwrap())).unwrap().apply(&model_of("UDP", &[OPEN]), NodeId(0), links()).unwrap();
    let sender = ground.pod.run(|| UdpSocket::bind(("0.0.0.0", 0)).unwrap()).unwrap();
    let (stop, start) = (AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| traffic(&sender, places, &stop));
        for edit in (0..TURNS).flat_map(|_| edits) {
            assert!(start.elapsed() < DEADLINE * 4 && !thread.is_finished(), "{edit}");
            ground.nft(edit);
            assert_ne!(repair(), Applied::Unchanged, "{edit}");
            assert_eq!(repair(), Applied::Unchanged, "{edit}");
        }
        stop.store(true, Ordering::Relaxed);
        thread.join().unwrap()
    })
}

#[test]
fn what_is_put_back_step_by_step_leaks_and_loses_nothing() {
    let Some(ground) = Ground::create() else { return };
    let far = far(&ground);
    ground.node.run(|| Agent::new(Nftables::open().unwrap())).unwrap().apply(&model_of("UDP", &[OPEN]), NodeId(0), links()).unwrap();
    let places = [Place::of(&ground.node, NODE, PATIENCE), Place::of(&far, FAR, PATIENCE)];
    let all = edits();
    let of = |is: fn(&Does) -> bool| all.iter().filter(|it| is(&it.0)).map(|it| it.1.as_str()).collect::<Vec<_>>();
    let nothing = under_traffic(&ground, &places, &of(|it| matches!(it, Does::Nothing)));
    assert_eq!((nothing.lost, nothing.delivered), (0, 0), "{nothing:?}");
    drop(places);
    // Much of what is allowed does not come, and there is no use in waiting for it.
    let hasty = [Place::of(&ground.node, NODE, MOMENT), Place::of(&far, FAR, MOMENT)];
    let closes = under_traffic(&ground, &hasty, &of(|it| matches!(it, Does::Closes)));
    assert!(closes.delivered == 0 && closes.lost > 0 && closes.lost < closes.allowed, "{closes:?}");
    drop(hasty);
    let places = [Place::of(&ground.node, NODE, PATIENCE), Place::of(&far, FAR, PATIENCE)];
    let opens = under_traffic(&ground, &places, &of(|it| matches!(it, Does::Opens)));
    assert_eq!(opens.lost, 0, "{opens:?}");
    // What an edit opened was open until it was put back, and it is not open now.
    let after = under_traffic(&ground, &places, &["add chain inet palisade stray"]);
    assert_eq!((after.lost, after.delivered), (0, 0), "{after:?}");
    say(&format!("edits that do nothing: {nothing:?}; that close: {closes:?}; that open: {opens:?}"));
}
