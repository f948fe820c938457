//! A thread that looks for what leads packets past our hooks: when the kernel tells of links, filters or tables that changed, and now and then, since it
//! tells of no setting.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use palisade_kernel::{Environment, KernelError, Monitor, Namespace, Stirred, Watch};
use palisade_model::{Endpoint, EndpointId, Model, NodeId};
use palisade_report::v1;

use crate::running::StartError;
use crate::verify::environment::{EnvironmentKind, judge};

/// Settings are looked at this often.
const PERIOD: Duration = Duration::from_secs(5);
/// Links that come and go by the hundred are looked at together.
const REST: Duration = Duration::from_millis(200);
/// So many looks in a row may meet tables that change meanwhile: ten seconds.
const UNSTEADY: usize = 50;
/// How long the thread waits before it looks whether it should end.
const TURN: u8 = 100;

/// Dropped, it ends.
#[derive(Debug)]
pub(crate) struct Watching {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    about: Mutex<Option<About>>,
    stop: AtomicBool,
}

/// The pods of a node and their links.
#[derive(Clone, Debug)]
struct About {
    /// With nobody but them.
    model: Model,
    links: BTreeMap<EndpointId, String>,
}

/// What a look found.
#[derive(Debug)]
pub(crate) enum Seen {
    /// Something that was not there at the last look.
    New(Box<v1::VerifyFinding>),
    Failed(KernelError),
}

impl Watching {
    /// Starts to watch a namespace. Until it is told about pods there is nothing to see.
    pub(crate) fn start(namespace: &Namespace, report: impl Fn(Seen) + Send + 'static) -> Result<Watching, StartError> {
        let (here, watch, monitor) =
            namespace.run(|| -> Result<_, KernelError> { Ok((Namespace::current()?, Watch::open()?, Monitor::open()?)) })??;
        let shared = Arc::new(Shared::default());
        let worker = Worker { shared: Arc::clone(&shared), watch, monitor, told: BTreeSet::new(), failure: None, unsteady: 0 };
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(move || match here.enter() {
            Ok(()) => worker.work(report),
            Err(error) => report(Seen::Failed(error)),
        })?;
        Ok(Watching { shared, thread: Some(thread) })
    }

    /// Says which pods the node has.
    pub(crate) fn about(&self, model: &Model, node: NodeId, links: &BTreeMap<EndpointId, String>) {
        let own = model.endpoints.iter().enumerate().filter(|(_, it)| it.node == Some(node));
        let (mut endpoints, mut renumbered): (Vec<Endpoint>, BTreeMap<EndpointId, String>) = Default::default();
        for (at, endpoint) in own {
            if let Some(link) = links.get(&EndpointId(at)) {
                renumbered.insert(EndpointId(endpoints.len()), link.clone());
                endpoints.push(Endpoint { node: Some(NodeId(0)), ..endpoint.clone() });
            }
        }
        let about = About { model: Model { endpoints, ..Model::default() }, links: renumbered };
        *self.shared.about.lock().unwrap_or_else(PoisonError::into_inner) = Some(about);
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // A panic of the thread has been printed by then, and nothing depends on it any more.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

struct Worker {
    shared: Arc<Shared>,
    watch: Watch,
    monitor: Monitor,
    /// Names and objects of what was there at the last look.
    told: BTreeSet<(String, String)>,
    /// What was said last about a look that failed.
    failure: Option<KernelError>,
    /// How many looks in a row met tables or links that changed meanwhile.
    unsteady: usize,
}

impl Worker {
    fn work(mut self, report: impl Fn(Seen)) {
        let mut looked = Instant::now();
        let mut stirred = Stirred::Yes;
        while !self.shared.stop.load(Ordering::Relaxed) {
            self.wait();
            match self.hear() {
                Ok(heard) => stirred = if heard == Stirred::Yes { heard } else { stirred },
                // Whatever could not be heard, a look shows.
                Err(_) => stirred = Stirred::Yes,
            }
            let waited = looked.elapsed();
            if waited > PERIOD || (stirred == Stirred::Yes && waited > REST) {
                stirred = self.look(&report);
                looked = Instant::now();
            }
        }
    }

    fn wait(&self) {
        let mut polled = [self.watch.as_fd(), self.monitor.as_fd()].map(|it| PollFd::new(it, PollFlags::POLLIN));
        // An interrupted wait is made up for by the next turn.
        poll(&mut polled, PollTimeout::from(TURN)).ok();
    }

    fn hear(&mut self) -> Result<Stirred, KernelError> {
        let links = self.watch.stirred()?;
        let tables = self.monitor.wait(Duration::ZERO)?;
        Ok(if tables.is_empty() { links } else { Stirred::Yes })
    }

    /// Looks at everything. Says whether that must be done again soon.
    fn look(&mut self, report: &impl Fn(Seen)) -> Stirred {
        let about = self.shared.about.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(About { model, links }) = about else { return Stirred::Yes };
        let findings = match Environment::read() {
            Ok(environment) => judge(&model, NodeId(0), &links, &environment),
            Err(KernelError::Unsteady(_) | KernelError::UnsteadyNetwork { .. }) if self.unsteady < UNSTEADY => {
                self.unsteady += 1;
                return Stirred::Yes;
            }
            Err(error) => {
                if self.failure.as_ref() != Some(&error) {
                    report(Seen::Failed(error.clone()));
                }
                self.failure = Some(error);
                return Stirred::No;
            }
        };
        (self.failure, self.unsteady) = (None, 0);
        let before = std::mem::take(&mut self.told);
        // A pod that leaves takes its link along before anybody is told.
        let gone = EnvironmentKind::PodWithoutLink.name();
        let bypassing = |it: &v1::VerifyFinding| it.weight == v1::VerifyWeight::Unenforceable && it.name != gone;
        for finding in findings.into_iter().filter(bypassing) {
            let key = (finding.name.clone(), finding.object.clone());
            if !before.contains(&key) && !self.told.contains(&key) {
                report(Seen::New(Box::new(finding)));
            }
            self.told.insert(key);
        }
        Stirred::No
    }
}
