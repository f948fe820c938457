//! Pods that nobody has told of, behind links whose names are no pod's: closed as soon as a route to them is there.
//!
//! The rules of the table close links by their names, from the first packet on. A CNI may give other names; then a host route says that the node
//! has a pod: to an address in a range of pods that nobody has, or to a pod of the node by another link than its own. A thread hears of routes,
//! and closes that address on that link until the pod is known. What passes before that is a matter of milliseconds; names are better.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use palisade_kernel::{KernelError, Links, Namespace, NextHop, Restored, Route, Stirred, Stray, Strays, Watch};
use palisade_model::{EndpointId, Place, Service};
use palisade_nft::{Guard, Origin, PodLinks, Unknown};

use crate::running::StartError;
use crate::sweep::View;

/// How long the thread waits before it looks whether it should end.
const TURN: u8 = 100;
/// So many looks in a row may meet routes that change meanwhile: ten seconds at least.
const UNSTEADY: usize = 100;
/// How often it looks whether its table is there.
const PERIOD: Duration = Duration::from_secs(5);

/// What is known when a route appears.
#[derive(Clone, Debug)]
pub(crate) struct About {
    closed: PodLinks,
    /// Who has which address.
    view: Arc<View>,
    /// Those of Services.
    services: HashSet<IpAddr>,
    /// The links of the node's own pods.
    own: BTreeMap<IpAddr, String>,
    /// What the log calls a pod that is not known.
    origin: u32,
}

impl About {
    /// None where it is open to pods that are not known.
    pub(crate) fn of(
        view: Arc<View>,
        links: &BTreeMap<EndpointId, String>,
        unknown: &Unknown,
        origins: &BTreeMap<u32, Origin>,
    ) -> Option<About> {
        let Unknown::Closed(closed) = unknown else { return None };
        let (origin, _) = origins.iter().find(|(_, it)| **it == Origin::Guard(Guard::UnknownPod))?;
        let own = links.iter().flat_map(|(id, link)| {
            let addresses = view.model.endpoint(*id).map_or(&[][..], |it| it.addresses.as_slice());
            addresses.iter().map(move |it| (*it, link.clone()))
        });
        let own = own.collect();
        let services = view.model.services.iter().flat_map(Service::addresses).copied().collect();
        Some(About { closed: closed.clone(), view, services, own, origin: *origin })
    }

    /// Whether a pod is behind a link of which nobody has told.
    fn is_stray(&self, link: &str, address: IpAddr) -> bool {
        if self.closed.covers(link) || self.closed.bridges.contains(link) || self.closed.exempt.contains(&address) {
            return false;
        }
        match self.own.get(&address) {
            Some(own) => own != link,
            None => !self.is_known(address) && self.view.model.pod_ranges.iter().any(|it| it.contains(address)),
        }
    }

    fn is_known(&self, address: IpAddr) -> bool {
        self.view.place(address) != Place::Outside || self.services.contains(&address)
    }
}

/// Dropped, it ends; what is closed stays so.
#[derive(Debug)]
pub(crate) struct Straying {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    stop: AtomicBool,
}

#[derive(Debug)]
struct State {
    table: Strays,
    links: Links,
    closed: BTreeSet<Stray>,
    known: Known,
    /// Whether something else is known than at the last look.
    told: Stirred,
}

/// What a look goes by.
#[derive(Debug)]
enum Known {
    /// Nothing has been applied: what an agent before this one has closed stays so.
    Nothing,
    /// It is open to pods that are not known.
    Open,
    Closed(About),
}

impl Known {
    fn is_stray(&self, link: &str, address: IpAddr) -> bool {
        match self {
            Known::Nothing | Known::Open => false,
            Known::Closed(about) => about.is_stray(link, address),
        }
    }
}

impl Straying {
    /// Starts to hear of routes. Until it is told what is known there is nothing to close.
    pub(crate) fn start(namespace: &Namespace, failed: impl Fn(KernelError) + Send + 'static) -> Result<Straying, StartError> {
        let (watch, table, links) =
            namespace.run(|| -> Result<_, KernelError> { Ok((Watch::of_routes()?, Strays::open()?, Links::open()?)) })??;
        let state = State { table, links, closed: BTreeSet::new(), known: Known::Nothing, told: Stirred::No };
        let shared = Arc::new(Shared { state: Mutex::new(state), stop: AtomicBool::new(false) });
        let worker = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("strays".to_owned()).spawn(move || worker.work(watch, failed))?;
        Ok(Straying { shared, thread: Some(thread) })
    }

    /// Says what is known now, and opens what is not stray any more. `settle` waits for packets that met what was in force before that: by the time a
    /// pod is open, all of its packets have met its programs.
    pub(crate) fn know(&self, about: Option<About>, settle: impl FnOnce() -> Result<(), KernelError>) -> Result<(), KernelError> {
        let known = about.map_or(Known::Open, Known::Closed);
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        // What an agent before this one has closed is opened by the first look.
        if matches!(state.known, Known::Nothing) || state.closed.iter().any(|(link, address)| !known.is_stray(link, *address)) {
            settle()?;
        }
        state.known = known;
        state.told = Stirred::Yes;
        let State { closed, known, .. } = &mut *state;
        let before = closed.len();
        closed.retain(|(link, address)| known.is_stray(link, *address));
        // What an agent before this one has closed stays so until the first look.
        if closed.len() < before { state.write() } else { Ok(()) }
    }

    /// What a `Monitor` calls the socket that the table is changed by.
    pub(crate) fn port(&self) -> u32 {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).table.port()
    }

    /// Makes the table what it was left as.
    pub(crate) fn restore(&self) -> Result<Restored, KernelError> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).table.restore()
    }
}

impl Drop for Straying {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // A panic of the thread has been printed by then, and nothing depends on it any more.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

impl Shared {
    fn work(&self, mut watch: Watch, failed: impl Fn(KernelError)) {
        let (mut checked, mut failure, mut unsteady) = (Instant::now(), None, 0);
        while !self.stop.load(Ordering::Relaxed) {
            // An interrupted wait is made up for by the next turn.
            poll(&mut [PollFd::new(watch.as_fd(), PollFlags::POLLIN)], PollTimeout::from(TURN)).ok();
            // Whatever could not be heard, a look shows.
            let heard = watch.stirred().unwrap_or(Stirred::Yes);
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let mut looked = Ok(());
            if heard == Stirred::Yes || state.told == Stirred::Yes {
                looked = state.look();
            }
            if checked.elapsed() > PERIOD {
                looked = looked.and(state.table.check().map(drop));
                checked = Instant::now();
            }
            // Again in the next turn.
            state.told = if looked.is_err() { Stirred::Yes } else { Stirred::No };
            drop(state);
            // What changes while it is read is read again, but not for ever.
            unsteady = match &looked {
                Err(KernelError::Unsteady(_) | KernelError::UnsteadyNetwork { .. }) => unsteady + 1,
                Ok(()) | Err(_) => 0,
            };
            if (1..UNSTEADY).contains(&unsteady) {
                continue;
            }
            let failing = looked.err();
            if let Some(error) = failing.clone().filter(|it| failure.as_ref() != Some(it)) {
                failed(error);
            }
            failure = failing;
        }
    }
}

impl State {
    /// Closes what routes lead to and nobody has told of.
    fn look(&mut self) -> Result<(), KernelError> {
        let known = match &self.known {
            Known::Nothing => return Ok(()),
            known @ (Known::Open | Known::Closed(_)) => known,
        };
        let host = |it: &Route| it.to.prefix_len() == it.to.max_prefix_len() && it.via == NextHop::Destination;
        let routes = self.links.routes()?.into_iter().filter(host).map(|it| (it.link, it.to.addr()));
        self.closed = routes.filter(|(link, address)| known.is_stray(link, *address)).collect();
        self.write()
    }

    fn write(&mut self) -> Result<(), KernelError> {
        let origin = match &self.known {
            // Nothing is closed.
            Known::Nothing | Known::Open => 0,
            Known::Closed(about) => about.origin,
        };
        self.table.replace(origin, &self.closed)
    }
}

#[cfg(test)]
mod tests {
    use palisade_model::{Endpoint, Model, NodeId, PodName, Readiness, Running};
    use palisade_nft::LinkName;

    use super::*;

    #[test]
    fn whom_nobody_has_told_of_is_stray_but_on_links_of_pods() {
        let pod = |address: &str| Endpoint {
            name: PodName { namespace: "x".into(), name: address.into() },
            labels: Default::default(),
            addresses: vec![address.parse().unwrap()],
            node: Some(NodeId(0)),
            ports: Vec::new(),
            owners: Vec::new(),
            readiness: Readiness::Ready,
            running: Running::Yes,
        };
        let mut model = Model { endpoints: vec![pod("10.0.0.1"), pod("10.0.0.2")].into(), ..Model::default() };
        model.close_ranges(&["10.0.0.0/24".parse().unwrap()], &BTreeSet::new());
        let links = BTreeMap::from([(EndpointId(0), "tap1".to_owned())]);
        let names = [LinkName::Beginning("cali".to_owned())].into();
        let exempt = ["10.0.0.9".parse().unwrap()].into();
        let closed = Unknown::Closed(PodLinks { names, bridges: ["cni0".to_owned()].into(), exempt });
        let origins = BTreeMap::from([(7, Origin::Guard(Guard::UnknownPod))]);
        let view = Arc::new(View::of(&Arc::new(model), NodeId(0), &links));
        let about = About::of(Arc::clone(&view), &links, &closed, &origins).unwrap();
        for (link, address, expected) in [
            ("tap2", "10.0.0.3", true),
            ("cali2", "10.0.0.3", false),
            ("cni0", "10.0.0.3", false),
            ("tap2", "10.0.0.9", false),
            ("tap2", "10.0.1.3", false),
            // A pod of the node by another link than its own.
            ("tap1", "10.0.0.1", false),
            ("tap2", "10.0.0.1", true),
            // Known, and its link is not.
            ("tap2", "10.0.0.2", false),
        ] {
            assert_eq!(about.is_stray(link, address.parse().unwrap()), expected, "{link} {address}");
        }
        assert!(About::of(view, &links, &Unknown::Open, &origins).is_none());
    }
}
