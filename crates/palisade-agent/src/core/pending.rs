//! Changes that wait until they are applied: composed to one, and changes of policy wait for each other a little.
//!
//! A change of addresses costs some microseconds in the kernel, one of verdicts makes the kernel validate the whole table. So pods are applied at once, and policies that
//! come in a burst are applied together. No change waits longer than `LONGEST`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use palisade_model::{Changes, Delta, PodName};

use crate::cluster::Here;
use crate::core::state::RequestId;

/// A change of verdicts waits so long after the last one.
const QUIET: Duration = Duration::from_millis(20);
/// But no longer than this after the first.
const LONGEST: Duration = Duration::from_millis(200);
/// After so long a change that failed is tried again.
const AGAIN: Duration = Duration::from_millis(500);

/// Changes that wait, and requests that wait for them.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    waiting: Option<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    news: News,
    due: Duration,
    latest: Duration,
}

/// The changes that the next job applies.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// None to bring the tables to what is known already.
    pub(crate) changes: Option<(Changes, Here)>,
    /// Requests that are answered once the change is in force.
    pub(crate) askers: Vec<RequestId>,
    /// Whether an object changed and changed back: other nodes may have let connections begin meanwhile.
    pub(crate) cancels: bool,
    /// Addresses of pods that came and went before the agent took them up.
    pub(crate) passed_by: BTreeMap<IpAddr, PodName>,
}

impl Pending {
    /// Adds changes. A request that waits makes them due at once.
    pub(crate) fn add(&mut self, now: Duration, changes: Changes, here: Here, asker: Option<RequestId>) {
        let of_verdicts = !changes.policies.is_empty() || !changes.namespaces.is_empty() || !changes.nodes.is_empty();
        let quiet = if of_verdicts && asker.is_none() { QUIET } else { Duration::ZERO };
        let waiting = self.waiting(now, quiet);
        waiting.news.askers.extend(asker);
        waiting.news.changes = Some(match waiting.news.changes.take() {
            // Changes that begin with an empty model say everything.
            Some((first, _)) if first.to == changes.from => {
                let composed = first.then(changes.clone());
                waiting.news.cancels |= !keeps(&composed, &changes);
                waiting.news.passed_by.extend(passed_by(&composed, &changes));
                (composed, here)
            }
            Some(_) | None => (changes, here),
        });
    }

    /// Has the tables brought to what is known already.
    pub(crate) fn again(&mut self, now: Duration) {
        self.waiting(now, Duration::ZERO);
    }

    /// The same after a change that failed.
    pub(crate) fn failed(&mut self, now: Duration) {
        self.waiting(now, AGAIN).latest = now + AGAIN;
    }

    /// When the changes are to be applied.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.waiting.as_ref().map(|it| it.due)
    }

    /// Takes the changes if their time has come.
    pub(crate) fn take(&mut self, now: Duration) -> Option<News> {
        self.waiting.take_if(|it| it.due <= now).map(|it| it.news)
    }

    fn waiting(&mut self, now: Duration, wait: Duration) -> &mut Waiting {
        let latest = self.waiting.as_ref().map_or(now + LONGEST.max(wait), |it| it.latest);
        let due = (now + wait).min(latest);
        let waiting = self.waiting.get_or_insert(Waiting { news: News::default(), due, latest });
        // A change that was to be applied at once still is.
        waiting.due = if waiting.due <= now { waiting.due } else { due };
        waiting
    }
}

/// Whether composed changes have every object of the later ones.
fn keeps(composed: &Changes, later: &Changes) -> bool {
    fn all<I: Ord, T>(composed: &[Delta<I, T>], later: &[Delta<I, T>]) -> bool {
        later.iter().all(|it| composed.binary_search_by(|other| other.id.cmp(&it.id)).is_ok())
    }
    all(&composed.policies, &later.policies)
        && all(&composed.endpoints, &later.endpoints)
        && all(&composed.namespaces, &later.namespaces)
        && all(&composed.nodes, &later.nodes)
}

/// The pods that later changes end, and that the composed ones do not know.
fn passed_by(composed: &Changes, later: &Changes) -> Vec<(IpAddr, PodName)> {
    let mut pods = Vec::new();
    for Delta { id, old, .. } in &later.endpoints {
        let first = composed.endpoints.iter().find(|it| it.id == *id).and_then(|it| it.old.as_ref());
        for pod in old.iter().filter(|it| first.is_none_or(|first| (&first.name, &first.addresses) != (&it.name, &it.addresses))) {
            pods.extend(pod.addresses.iter().map(|it| (*it, pod.name.clone())));
        }
    }
    pods
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use palisade_model::{Namespace, NodeId, Revision};

    use super::*;

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn here() -> Here {
        Here { node: NodeId(0), links: BTreeMap::new(), pod_ranges: Vec::new() }
    }

    fn data() -> Changes {
        Changes::default()
    }

    fn verdicts(assumed: bool, from: Revision) -> Changes {
        let namespace = |assumed| Some(Arc::new(Namespace { assumed, ..Namespace::default() }));
        let delta = Delta { id: "x".into(), old: namespace(!assumed), new: namespace(assumed) };
        Changes { namespaces: vec![delta], ..Changes::default() }.starting(from)
    }

    #[test]
    fn pods_are_applied_at_once_with_all_that_waits() {
        let mut pending = Pending::default();
        assert!(pending.take(at(0)).is_none());
        pending.add(at(0), data(), here(), None);
        assert!(pending.take(at(0)).is_some());
        let first = verdicts(true, Revision::default());
        pending.add(at(5), first.clone(), here(), None);
        assert_eq!((pending.take(at(6)).is_some(), pending.due()), (false, Some(at(25))));
        pending.add(at(7), Changes::default().starting(first.to), here(), None);
        let taken = pending.take(at(7)).unwrap();
        assert_eq!(taken.changes, Some((first, here())));
        assert!(pending.take(at(7)).is_none());
    }

    #[test]
    fn policies_wait_for_each_other_but_not_for_ever() {
        let mut pending = Pending::default();
        let mut from = Revision::default();
        for time in (0..=190).step_by(10) {
            let changes = verdicts(time % 20 == 0, from);
            from = changes.to;
            pending.add(at(time), changes, here(), None);
            assert!(pending.take(at(time)).is_none(), "{time}");
        }
        assert_eq!(pending.due(), Some(at(200)));
        // Twenty changes of one namespace that ends as it began are no change.
        let news = pending.take(at(200)).unwrap();
        assert!(news.cancels);
        let (changes, _) = news.changes.unwrap();
        assert_eq!((changes.is_empty(), changes.to), (true, Revision::default()));
        pending.add(at(300), verdicts(true, from), here(), None);
        assert_eq!(pending.due(), Some(at(320)));
    }

    #[test]
    fn neither_a_policy_nor_a_failure_holds_up_a_pod_or_a_request() {
        let mut pending = Pending::default();
        pending.add(at(0), data(), here(), None);
        pending.add(at(1), verdicts(true, Revision::default()), here(), None);
        assert!(pending.take(at(1)).is_some());
        pending.add(at(2), verdicts(true, Revision::default()), here(), Some(RequestId(7)));
        assert_eq!(pending.take(at(2)).unwrap().askers, [RequestId(7)]);
        pending.failed(at(3));
        assert_eq!(pending.due(), Some(at(503)));
        pending.again(at(4));
        assert_eq!(pending.due(), Some(at(4)));
    }
}
