//! A thread that looks for what leads packets past our hooks: when the kernel tells of links or filters that changed, when somebody else changes tables, and
//! now and then, since nobody tells of settings. It also notices when the link of a pod goes: what the pod has left must not be taken up by the next who has its address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use palisade_kernel::{Environment, KernelError, Links, Namespace, Stirred, Watch};
use palisade_model::{Endpoint, EndpointId, Model, NodeId, PodName};
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

#[derive(Debug)]
struct Shared {
    about: Mutex<About>,
    stop: AtomicBool,
}

/// The pods of a node and their links.
#[derive(Debug)]
struct About {
    pods: Option<Pods>,
    /// The index of each of these links when links were last listed.
    present: BTreeMap<String, u32>,
    kernel: Links,
}

#[derive(Clone, Debug)]
struct Pods {
    /// With nobody but them.
    model: Model,
    links: BTreeMap<EndpointId, String>,
}

impl About {
    /// Whose links went since links were last listed. A link of the same name is another one if its index is.
    fn left(&mut self) -> Result<BTreeMap<IpAddr, PodName>, KernelError> {
        self.now_with(self.pods.clone())
    }

    /// The same, and from now on the pods are these.
    fn now_with(&mut self, pods: Option<Pods>) -> Result<BTreeMap<IpAddr, PodName>, KernelError> {
        let before = std::mem::replace(&mut self.pods, pods);
        let listed: BTreeMap<String, u32> = self.kernel.list()?.into_iter().map(|it| (it.name, it.index)).collect();
        let went = |link: &String| self.present.get(link).is_some_and(|index| listed.get(link) != Some(index));
        let of = |Pods { model, links }: Pods| {
            let pods = links.iter().filter(|(_, link)| went(link)).filter_map(|(id, _)| model.endpoint(*id));
            pods.flat_map(|pod| pod.addresses.iter().map(|it| (*it, pod.name.clone()))).collect()
        };
        let left = before.map(of).unwrap_or_default();
        let links = self.pods.iter().flat_map(|it| it.links.values());
        self.present = links.filter_map(|link| Some((link.clone(), *listed.get(link)?))).collect();
        Ok(left)
    }
}

/// What a look found.
#[derive(Debug)]
pub(crate) enum Seen {
    /// Something that was not there at the last look.
    New(Box<v1::VerifyFinding>),
    /// Links of pods went, whether or not anybody has been told that these are gone: by the addresses that they led to.
    Left(BTreeMap<IpAddr, PodName>),
    Failed(KernelError),
}

impl Shared {
    fn about(&self) -> MutexGuard<'_, About> {
        // What it guards is whole at any time, also when its holder panicked.
        self.about.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watching {
    /// Starts to watch a namespace. Until it is told about pods there is nothing to see. `tables` is set by whoever hears that somebody else changed some.
    pub(crate) fn start(
        namespace: &Namespace,
        tables: Arc<AtomicBool>,
        report: impl Fn(Seen) + Send + 'static,
    ) -> Result<Watching, StartError> {
        let (here, watch, links) =
            namespace.run(|| -> Result<_, KernelError> { Ok((Namespace::current()?, Watch::open()?, Links::open()?)) })??;
        let about = About { pods: None, present: BTreeMap::new(), kernel: links };
        let shared = Arc::new(Shared { about: Mutex::new(about), stop: AtomicBool::new(false) });
        let worker =
            Worker { shared: Arc::clone(&shared), watch, tables, told: BTreeSet::new(), failure: None, unsteady: 0, unheard: Stirred::No };
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(move || match here.enter() {
            Ok(()) => worker.work(report),
            Err(error) => report(Seen::Failed(error)),
        })?;
        Ok(Watching { shared, thread: Some(thread) })
    }

    /// Says which pods the node has. Answers whose links went before that, unless it has been told.
    pub(crate) fn about(
        &self,
        model: &Model,
        node: NodeId,
        links: &BTreeMap<EndpointId, String>,
    ) -> Result<BTreeMap<IpAddr, PodName>, KernelError> {
        let own = links.iter().filter_map(|(id, link)| Some((model.endpoint(*id).filter(|it| it.node == Some(node))?, link)));
        let (mut endpoints, mut renumbered): (Vec<Endpoint>, BTreeMap<EndpointId, String>) = Default::default();
        for (endpoint, link) in own {
            renumbered.insert(EndpointId(endpoints.len()), link.clone());
            endpoints.push(Endpoint { node: Some(NodeId(0)), ..endpoint.clone() });
        }
        self.shared.about().now_with(Some(Pods { model: Model { endpoints: endpoints.into(), ..Model::default() }, links: renumbered }))
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
    /// Whether somebody else changed tables since that was last looked at.
    tables: Arc<AtomicBool>,
    /// Names and objects of what was there at the last look.
    told: BTreeSet<(String, String)>,
    /// What was said last about a look that failed.
    failure: Option<KernelError>,
    /// How many looks in a row met tables or links that changed meanwhile.
    unsteady: usize,
    /// Whether links changed since it was last found out which went.
    unheard: Stirred,
}

impl Worker {
    fn work(mut self, report: impl Fn(Seen)) {
        let mut looked = Instant::now();
        let mut stirred = Stirred::Yes;
        while !self.shared.stop.load(Ordering::Relaxed) {
            self.wait();
            match self.hear(&report) {
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
        let mut polled = [PollFd::new(self.watch.as_fd(), PollFlags::POLLIN)];
        // An interrupted wait is made up for by the next turn.
        poll(&mut polled, PollTimeout::from(TURN)).ok();
    }

    fn hear(&mut self, report: &impl Fn(Seen)) -> Result<Stirred, KernelError> {
        let heard = self.watch.stirred();
        // What could not be heard may be that a link went.
        if !matches!(heard, Ok(Stirred::No)) {
            self.unheard = Stirred::Yes;
        }
        if self.unheard == Stirred::Yes {
            let left = self.shared.about().left()?;
            self.unheard = Stirred::No;
            if !left.is_empty() {
                report(Seen::Left(left));
            }
        }
        Ok(if self.tables.swap(false, Ordering::Relaxed) { Stirred::Yes } else { heard? })
    }

    /// Looks at everything. Says whether that must be done again soon.
    fn look(&mut self, report: &impl Fn(Seen)) -> Stirred {
        let Some(Pods { model, links }) = self.shared.about().pods.clone() else { return Stirred::Yes };
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
