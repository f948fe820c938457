//! Open files: a lab needs more than a process may have at first.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::plan::Plan;

/// What the process, its channels and the fabric have open.
const ITSELF: usize = 64;
/// Probes in flight, and connections of listeners.
const SPEAKING: usize = 256 + 1_024;
/// A namespace, its links, and what an agent and the Services have open.
const NODE: usize = 17;
/// A namespace and its links.
const POD: usize = 2;

/// How many files a lab of such a plan has open at most.
pub(crate) fn needed(plan: &Plan) -> u64 {
    let model = &plan.model;
    let listening = |addresses: usize, ports: usize| addresses.saturating_mul(ports.saturating_add(1));
    let pods = model.endpoints.iter().map(|it| POD.saturating_add(listening(it.addresses.len(), it.ports.len())));
    let nodes = model.nodes.iter().map(|it| {
        let ports = it.host_pods.iter().map(|pod| pod.ports.len()).sum();
        NODE.saturating_add(listening(it.addresses.len(), ports))
    });
    let all = pods.chain(nodes).fold(ITSELF + SPEAKING, usize::saturating_add);
    u64::try_from(all).unwrap_or(u64::MAX)
}

/// Lets this process have so many files open. If it may not, gives how many it may.
pub(crate) fn allow(needed: u64) -> Result<(), u64> {
    // What cannot be read is not known to be too low.
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    if soft >= needed {
        return Ok(());
    }
    match setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed)) {
        Ok(()) => Ok(()),
        Err(_) => Err(hard),
    }
}
