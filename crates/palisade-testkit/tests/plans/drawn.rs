//! Small clusters drawn at random: few names, so that what changes meets what else changes.

use palisade_testkit::random::Random;

/// The lines of a cluster, some of which may be empty.
#[derive(Clone, Debug)]
pub(crate) struct Drawn(Vec<String>);

const PODS: usize = 5;
const POLICIES: usize = 3;

impl Drawn {
    pub(crate) fn new(random: &mut Random) -> Drawn {
        Drawn((0..PODS + POLICIES).map(|at| line(at, random)).collect())
    }

    /// Another one with some lines drawn anew.
    pub(crate) fn changed(&self, random: &mut Random) -> Drawn {
        let mut other = self.clone();
        for _ in 0..random.between(1, 4) {
            let at = random.below(PODS + POLICIES);
            other.0[at] = line(at, random);
        }
        other
    }

    pub(crate) fn text(&self) -> String {
        self.0.join("\n")
    }
}

fn line(at: usize, random: &mut Random) -> String {
    if at < PODS { pod(at, random) } else { policy(at, random) }
}

/// The first three run on the node.
fn pod(at: usize, random: &mut Random) -> String {
    if random.percent(15) {
        return String::new();
    }
    let (place, block) = if at < 3 { ("here", 0) } else { ("away", 9) };
    let labels = [random.of(["", "app=x", "app=y"]), random.of(["", "role=s", "role=t"])];
    // Addresses are used again.
    let address = if random.percent(10) { at + 2 } else { at + 1 };
    format!("pod p{at} 10.0.{block}.{address} {place} {}", labels.join(" "))
}

fn policy(at: usize, random: &mut Random) -> String {
    if random.percent(15) {
        return String::new();
    }
    let subject = random.of(["role=s", "role=t", "app=x", "*"]);
    let direction = random.of(["egress", "ingress"]);
    if random.percent(20) {
        return format!("deny n{at} {subject} {direction} {}", random.of(["app=x", "app=y", "role=s", "*"]));
    }
    let peers = ["app=x", "app=y", "role=s", "role=t", "*", "192.0.2.0/24", "10.0.0.0/16", "0.0.0.0/0-10.0.9.0/25"];
    let peer = |random: &mut Random| format!("{}{}", random.of(peers), random.of(["", "@80", "@443"]));
    let peers: Vec<String> = (0..random.below(4)).map(|_| peer(random)).collect();
    format!("policy n{at} {subject} {direction} {}", peers.join(" "))
}
