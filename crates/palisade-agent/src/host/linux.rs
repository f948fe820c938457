//! The host of an agent in a network namespace of Linux.
//!
//! The loop waits for notifications of the kernel and for the mailbox. One worker does the work on tables in order, another one slow work, and a reader reads logged packets.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use palisade_kernel::{
    Connection, Conntrack, Environment, KernelError, Links, Log, Monitor, Namespace, NextHop, Nftables, Route, Stirred, Watch,
};
use palisade_nft::{AUDIT_GROUP, Address, LOG_GROUP};

use crate::core::work::{Done, Found, Lane, Outcome, Token, Work, perform};
use crate::core::{CoreSettings, Effect, Host, Input, Now, Request, RequestId, Response};
use crate::host::reader::Reader;
use crate::lock::Lock;
use crate::running::{Event, Settings, StartError};
use crate::sweep::{Amount, Touched};

/// How often connections are read again that change their order meanwhile.
const ATTEMPTS: usize = 5;
/// The kernel is asked for the connections of so many addresses one by one.
const FEW: usize = 4;

/// A message to the loop.
pub(crate) enum Message {
    Input(Input),
    Ask(Request, Sender<Response>),
}

/// Sends messages to the loop and wakes it.
#[derive(Clone, Debug)]
pub(crate) struct Mailbox {
    sender: Sender<Message>,
    bell: Arc<EventFd>,
}

impl Mailbox {
    /// Sends a message. A loop that has ended reads none.
    pub(crate) fn send(&self, message: Message) {
        if self.sender.send(message).is_ok() {
            ring(&self.bell);
        }
    }
}

/// Makes a descriptor readable.
pub(super) fn ring(bell: &EventFd) {
    // A counter that is full is readable already.
    bell.write(1).ok();
}

/// An agent's host in one network namespace.
pub(crate) struct Linux {
    start: Instant,
    messages: Receiver<Message>,
    mailbox: Mailbox,
    ready: VecDeque<Input>,
    askers: BTreeMap<RequestId, Sender<Response>>,
    asked: u64,
    monitor: Monitor,
    links: Watch,
    routes: Watch,
    lock: Lock,
    table: Sender<(Token, Work)>,
    slow: Sender<(Token, Work)>,
    stop_reader: Arc<EventFd>,
    report: Arc<dyn Fn(Event) + Send + Sync>,
    workers: Vec<JoinHandle<()>>,
    ports: BTreeSet<u32>,
}

/// Everything that is opened in the namespace.
struct Opened {
    lock: Lock,
    nftables: Nftables,
    of_table: Links,
    conntrack: Conntrack,
    of_slow: Links,
    logs: [Log; 2],
    monitor: Monitor,
    links: Watch,
    routes: Watch,
    here: Namespace,
}

impl Linux {
    pub(crate) fn open(
        namespace: &Namespace,
        settings: &Settings,
        report: Arc<dyn Fn(Event) + Send + Sync>,
    ) -> Result<(Linux, Mailbox), StartError> {
        let opened = namespace.run(|| -> Result<_, StartError> {
            Ok(Opened {
                lock: Lock::take()?,
                nftables: Nftables::open()?,
                of_table: Links::open()?,
                conntrack: Conntrack::open()?,
                of_slow: Links::open()?,
                logs: [Log::open(LOG_GROUP, settings.log)?, Log::open(AUDIT_GROUP, settings.log)?],
                monitor: Monitor::open_with(settings.notifications)?,
                links: Watch::open()?,
                routes: Watch::of_routes()?,
                here: Namespace::current()?,
            })
        })??;
        let (sender, messages) = channel();
        let mailbox = Mailbox { sender, bell: Arc::new(bell()?) };
        let (table, of_table) = channel();
        let (slow, of_slow) = channel();
        let stop_reader = Arc::new(bell()?);
        let mut host = Linux {
            start: Instant::now(),
            messages,
            mailbox: mailbox.clone(),
            ready: VecDeque::new(),
            askers: BTreeMap::new(),
            asked: 0,
            monitor: opened.monitor,
            links: opened.links,
            routes: opened.routes,
            lock: opened.lock,
            table,
            slow,
            stop_reader: Arc::clone(&stop_reader),
            report,
            workers: Vec::new(),
            ports: [opened.nftables.port()].into(),
        };
        let worker = TableWorker { nftables: opened.nftables, links: opened.of_table };
        host.work("tables", of_table, worker, TableWorker::perform)?;
        let worker = SlowWorker { conntrack: opened.conntrack, links: opened.of_slow, here: Some(opened.here) };
        host.work("slow", of_slow, worker, SlowWorker::perform)?;
        let reader = Reader::new(opened.logs, settings.attention, stop_reader, mailbox.clone());
        host.workers.push(std::thread::Builder::new().name("log".to_owned()).spawn(move || reader.work())?);
        Ok((host, mailbox))
    }

    /// The settings of a core on this host.
    pub(crate) fn core_settings(&self, settings: &Settings) -> CoreSettings {
        CoreSettings { attention: settings.attention, established: settings.established, ports: self.ports.clone() }
    }

    fn work<W: Send + 'static>(
        &mut self,
        name: &str,
        tasks: Receiver<(Token, Work)>,
        mut worker: W,
        perform: impl Fn(&mut W, &Work) -> Outcome + Send + 'static,
    ) -> Result<(), StartError> {
        let mailbox = self.mailbox.clone();
        let work = move || {
            for (token, work) in tasks {
                mailbox.send(Message::Input(Input::Done(token, perform(&mut worker, &work))));
            }
        };
        self.workers.push(std::thread::Builder::new().name(name.to_owned()).spawn(work)?);
        Ok(())
    }

    /// Ends the workers, each after the work that it does.
    pub(crate) fn close(mut self) {
        ring(&self.stop_reader);
        let workers = std::mem::take(&mut self.workers);
        // They end when nobody can send them work.
        drop(self);
        for worker in workers {
            // A panic of the thread has been printed by then, and nothing depends on it any more.
            drop(worker.join());
        }
    }

    /// Takes the messages that wait.
    fn receive(&mut self) {
        // The counter of the bell does not matter, only that it is zero afterwards.
        self.mailbox.bell.read().ok();
        for message in self.messages.try_iter() {
            match message {
                Message::Input(input) => self.ready.push_back(input),
                Message::Ask(request, asker) => {
                    self.asked += 1;
                    let id = RequestId(self.asked);
                    self.askers.insert(id, asker);
                    self.ready.push_back(Input::Asked(id, request));
                }
            }
        }
    }

    /// Waits until something is ready, and takes it.
    fn wait(&mut self, until: Option<Duration>) {
        let timeout = match until.map(|it| it.saturating_sub(self.start.elapsed())) {
            None => PollTimeout::NONE,
            // Rounded up, so that the time has come afterwards.
            Some(time) => {
                let milliseconds = if time.is_zero() { 0 } else { time.as_millis().saturating_add(1) };
                PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX)
            }
        };
        let fds: [BorrowedFd<'_>; 5] =
            [self.mailbox.bell.as_fd(), self.monitor.as_fd(), self.links.as_fd(), self.routes.as_fd(), self.lock.as_fd()];
        let mut polled = fds.map(|it| PollFd::new(it, PollFlags::POLLIN));
        // An interrupted wait is made up for by the next one.
        let polled = poll(&mut polled, timeout).map(|_| polled.map(|it| it.any() == Some(true)));
        let [_, monitor, links, routes, lock] = polled.unwrap_or_default();
        if lock {
            self.lock.let_go();
        }
        if monitor {
            self.ready.push_back(Input::Heard(self.monitor.wait(Duration::ZERO)));
        }
        // A list shows the changes whose notifications were lost.
        if links && self.links.stirred().unwrap_or(Stirred::Yes) == Stirred::Yes {
            self.ready.push_back(Input::LinksChanged);
        }
        if routes && self.routes.stirred().unwrap_or(Stirred::Yes) == Stirred::Yes {
            self.ready.push_back(Input::RoutesChanged);
        }
        self.receive();
    }
}

impl Host for Linux {
    fn now(&self) -> Now {
        // A clock before 1970 is set wrong, and nothing is measured by it.
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Now { since_start: self.start.elapsed(), since_1970 }
    }

    fn next(&mut self, until: Option<Duration>) -> Input {
        if self.ready.is_empty() {
            self.wait(until);
        }
        self.ready.pop_front().unwrap_or(Input::Woken)
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Work(token, work) => {
                let lane = match work.lane() {
                    Lane::Table => &self.table,
                    Lane::Slow => &self.slow,
                };
                // A worker ends before the loop only by a panic, which was printed.
                if lane.send((token, work)).is_err() {
                    let gone = KernelError::Truncated("the thread of the agent that does this has ended".to_owned());
                    self.ready.push_back(Input::Done(token, Err(gone)));
                }
            }
            Effect::Report(event) => (self.report)(event),
            // The caller may have given up.
            Effect::Answer(id, response) => drop(self.askers.remove(&id).map(|it| it.send(response))),
            Effect::WakeAt(_) | Effect::Exit => {}
        }
    }
}

fn bell() -> Result<EventFd, StartError> {
    let opened = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
    opened.map_err(|errno| StartError::Thread(errno.into()))
}

struct TableWorker {
    nftables: Nftables,
    links: Links,
}

impl TableWorker {
    fn perform(&mut self, work: &Work) -> Outcome {
        if let Some(outcome) = perform(&mut self.nftables, work) {
            return outcome;
        }
        match work {
            Work::Links => Ok(Done::Links(self.links.list()?.into_iter().map(|it| (it.name, it.index)).collect())),
            Work::Routes => {
                let host = |it: &Route| it.to.prefix_len() == it.to.max_prefix_len() && it.via == NextHop::Destination;
                let routes = self.links.routes()?.into_iter().filter(host).map(|it| (it.link, it.to.addr()));
                Ok(Done::Routes(routes.collect()))
            }
            Work::Commit(_) | Work::Grace | Work::Standing | Work::Layout | Work::Dump(_) | Work::Counters(_) => Err(of_another_lane(work)),
            Work::Connections(_) | Work::Forget(_) | Work::Environment | Work::Tracking | Work::Recompute(_) => Err(of_another_lane(work)),
        }
    }
}

struct SlowWorker {
    conntrack: Conntrack,
    links: Links,
    /// The namespace, until the thread has entered it.
    here: Option<Namespace>,
}

impl SlowWorker {
    fn perform(&mut self, work: &Work) -> Outcome {
        match work {
            Work::Connections(touched) => {
                let node = self.links.addresses()?.into_iter().map(|it| it.address.addr()).collect();
                Ok(Done::Connections(Box::new(Found { node, connections: self.connections(touched)? })))
            }
            Work::Forget(connections) => Ok(Done::Forgotten(self.conntrack.delete_all(&connections.iter().collect::<Vec<&Connection>>())?)),
            Work::Environment => {
                if let Some(here) = &self.here {
                    here.enter()?;
                    self.here = None;
                }
                Ok(Done::Environment(Box::new(Environment::read()?)))
            }
            Work::Tracking => Ok(Done::Tracking(self.conntrack.tracking()?)),
            Work::Recompute(recompute) => Ok(Done::Recomputed(Box::new(recompute.run()))),
            Work::Commit(_) | Work::Grace | Work::Standing | Work::Layout | Work::Dump(_) | Work::Counters(_) => Err(of_another_lane(work)),
            Work::Links | Work::Routes => Err(of_another_lane(work)),
        }
    }

    /// The connections that something touches.
    fn connections(&mut self, touched: &Touched) -> Result<Vec<Connection>, KernelError> {
        for _ in 0..ATTEMPTS {
            let mut found = Vec::new();
            match self.read(touched, |connection| found.push(connection)) {
                Err(KernelError::Unsteady(_)) => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(found),
            }
        }
        Err(KernelError::Unsteady(ATTEMPTS))
    }

    /// Reads no more connections than necessary. The kernel picks out a few addresses of IPv4 by itself; of IPv6 it cannot.
    fn read(&mut self, touched: &Touched, mut take: impl FnMut(Connection)) -> Result<(), KernelError> {
        let conntrack = &mut self.conntrack;
        let wanted = |ends| touched.left_by(ends).is_some() || touched.judges(ends);
        match Address::BOTH.map(|it| touched.of(it, FEW)) {
            [Amount::Nothing, Amount::Nothing] => Ok(()),
            [Amount::Few(addresses), Amount::Nothing] => addresses.iter().try_for_each(|it| conntrack.each_of(*it, &mut take)),
            [Amount::Many, Amount::Nothing] => conntrack.each_between(Some(Address::V4), wanted, take),
            [Amount::Nothing, Amount::Few(_) | Amount::Many] => conntrack.each_between(Some(Address::V6), wanted, take),
            // To look at the table is most of the work: once for both.
            [Amount::Few(_) | Amount::Many, Amount::Few(_) | Amount::Many] => conntrack.each_between(None, wanted, take),
        }
    }
}

fn of_another_lane(work: &Work) -> KernelError {
    KernelError::Truncated(format!("no worker does `{}`", work.kind()))
}
