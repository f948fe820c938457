//! Not enough room in the kernel: what is in force stays, what is new stays closed, and it is told; then there is room again.

use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt, socket, sockopt,
};
use palisade_agent::{Agent, AgentError, Applied, Attention, Checked, Counts, Did, Event, Notice, Running, Settings};
use palisade_kernel::{Conntrack, KernelError, LogOptions, Nftables, Transport, Tuple};
use palisade_model::{Model, NodeId};
use palisade_netlink::{Header, Writer, field, messages};
use palisade_nft::{Layout, Object};

use crate::ground::{DEADLINE, Ground, NODE, POD, apply, links, model, model_of, say, wait_for, with_others};

/// More connections than this take too long to make.
const MOST: u32 = 1_000_000;
/// How many are made by one datagram.
const AT_ONCE: u32 = 500;
/// What is written on connections that only take up room.
const MARK: u32 = 0x7a11;
/// How often the kernel may be tried to lose a notification.
const ROUNDS: u64 = 50;

/// Numbers of `linux/netlink.h` and `linux/netfilter/nfnetlink_conntrack.h`.
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const CREATE: u16 = 0x400;
const NEW: u16 = 1 << 8;
const DELETE: u16 = 1 << 8 | 2;
/// Answered, not to be given up, and in the table.
const ASSURED: u32 = 0b1110;

/// Fills the table of connections with some that are not given up, up to the last.
fn fill(ground: &Ground) -> u32 {
    let mut conntrack = ground.node.run(|| Conntrack::open().unwrap()).unwrap();
    let most = conntrack.tracking().unwrap().most.unwrap();
    let mut made = 0;
    while conntrack.count().unwrap() < most {
        let left = (most - conntrack.count().unwrap()).min(AT_ONCE);
        tell(ground, left, NEW, |writer, at| {
            let number = made + at;
            let [_, high, middle, low] = number.to_be_bytes();
            let (source, destination) = ([10, 77, high, middle].into(), [10, 78, 0, low].into());
            let transport = Transport::Ports { source: 1_000, destination: 2_000 };
            let original = Tuple { source, destination, protocol: 17, transport };
            let transport = Transport::Ports { source: 2_000, destination: 1_000 };
            let reply = Tuple { source: destination, destination: source, protocol: 17, transport };
            writer.nest(1, |writer| original.write(writer));
            writer.nest(2, |writer| reply.write(writer));
            writer.u32(3, ASSURED);
            writer.u32(7, 600);
            writer.u32(8, MARK);
        });
        made += left;
        assert!(made <= most, "{made} made, {:?}", conntrack.tracking());
    }
    most
}

/// Takes away what only takes up room.
fn clear(ground: &Ground) {
    tell(ground, 1, DELETE, |writer, _| {
        writer.u32(8, MARK);
        writer.u32(21, u32::MAX);
    });
}

/// Tells connection tracking something so many times in one datagram, and waits until the last is done.
fn tell(ground: &Ground, times: u32, kind: u16, body: impl Fn(&mut Writer, u32) + Sync) {
    ground
        .node
        .run(|| {
            let fd = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkNetFilter).unwrap();
            bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0)).unwrap();
            setsockopt(&fd, sockopt::SndBufForce, &(4 << 20)).unwrap();
            let mut writer = Writer::default();
            for at in 0..times {
                let ack = if at + 1 == times { ACK } else { 0 };
                let create = if kind == NEW { CREATE } else { 0 };
                let header = Header { kind, flags: REQUEST | create | ack, sequence: at, family: 2, resource: 0 };
                writer.message(header, |writer| body(writer, at));
            }
            send(fd.as_raw_fd(), &writer.finish().unwrap(), MsgFlags::empty()).unwrap();
            let mut buffer = [0; 8_192];
            let length = recv(fd.as_raw_fd(), &mut buffer, MsgFlags::empty()).unwrap();
            let answers = messages(buffer.get(..length).unwrap()).unwrap();
            let codes: Vec<Option<i32>> = answers.iter().map(|it| field(it.payload, 0).map(i32::from_ne_bytes)).collect();
            assert_eq!(codes, [Some(0)]);
        })
        .unwrap();
}

fn counts_when(running: &Running, enough: impl Fn(&Counts) -> bool) -> Counts {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let counts = running.counts();
        if enough(&counts) {
            return counts;
        }
        assert!(Instant::now() < deadline, "{counts:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn notice(events: &Receiver<Event>) -> Notice {
    wait_for(events, |it| if let Event::Noticed(notice) = it { Some(notice.clone()) } else { None })
}

#[test]
fn a_full_table_of_connections_keeps_those_that_are_and_lets_no_other_begin() {
    let Some(ground) = Ground::create() else { return };
    let most = ground.node.run(|| Conntrack::open().unwrap().tracking().unwrap().most).unwrap();
    if most.is_none_or(|it| it > MOST) {
        say(&format!("skipped: {most:?} connections are too many to make"));
        return;
    }
    let (running, events) = ground.start().unwrap();
    running.apply(&Arc::new(model_of("UDP", &[80])), NodeId(0), links()).unwrap();
    let server = ground.node.run(|| UdpSocket::bind((NODE, 80)).unwrap()).unwrap();
    server.set_read_timeout(Some(DEADLINE)).unwrap();
    let shut = ground.node.run(|| UdpSocket::bind((NODE, 81)).unwrap()).unwrap();
    shut.set_nonblocking(true).unwrap();
    let client = || {
        let socket = ground.pod.run(|| UdpSocket::bind((POD, 0)).unwrap()).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        socket
    };
    let old = client();
    // Both ways, with whoever else has sent something before counted.
    let talk = |socket: &UdpSocket, word: u8| {
        socket.send_to(&[word], (NODE, 80)).unwrap();
        let (mut others, mut buffer) = (0, [0; 8]);
        loop {
            let (_, from) = server.recv_from(&mut buffer).unwrap();
            if from == socket.local_addr().unwrap() {
                server.send_to(&[word], from).unwrap();
                assert_eq!(socket.recv(&mut buffer).unwrap(), 1);
                assert_eq!(buffer[0], word);
                return others;
            }
            others += 1;
        }
    };
    (1..=5).for_each(|it| assert_eq!(talk(&old, it), 0));
    let start = Instant::now();
    assert_eq!(fill(&ground), most.unwrap());
    say(&format!("{} connections made in {:?}", most.unwrap(), start.elapsed()));
    let news: Vec<UdpSocket> = (0..50).map(|_| client()).collect();
    for (word, new) in (10..).zip(&news) {
        // What policy accepts and what it denies.
        new.send_to(&[word], (NODE, 80)).unwrap();
        new.send_to(&[word], (NODE, 81)).unwrap();
        assert_eq!(talk(&old, word), 0, "nobody else is heard while there is no room");
    }
    assert_eq!(shut.recv(&mut [0; 8]).map_err(|it| it.kind()), Err(std::io::ErrorKind::WouldBlock));
    let counts = counts_when(&running, |it| it.untracked >= 100);
    assert_eq!(counts.untracked, 100, "each of the packets, once");
    let told = notice(&events);
    let full = matches!(&told, Notice::Untracked { packets: 1.., tracking } if Some(tracking.connections) >= most);
    assert!(full, "{told:?}");
    // Policy can still be changed, and what is denied then is cut, though the table is full.
    running.apply(&Arc::new(model_of("UDP", &[80, 82])), NodeId(0), links()).unwrap();
    assert_eq!(talk(&old, 70), 0);
    clear(&ground);
    for (word, new) in (100..).zip(&news) {
        assert_eq!(talk(new, word), 0);
        assert_eq!(talk(&old, word), 0);
    }
    assert_eq!(notice(&events), Notice::TracksAgain { packets: 100 });
}

#[test]
fn connections_that_nobody_answered_make_room_and_are_counted() {
    let Some(ground) = Ground::create() else { return };
    let most = ground.node.run(|| Conntrack::open().unwrap().tracking().unwrap().most).unwrap();
    if most.is_none_or(|it| it > MOST) {
        say(&format!("skipped: {most:?} connections are too many to make"));
        return;
    }
    let (running, _events) = ground.start().unwrap();
    running.apply(&Arc::new(model_of("UDP", &[80])), NodeId(0), links()).unwrap();
    let server = ground.node.run(|| UdpSocket::bind((NODE, 80)).unwrap()).unwrap();
    server.set_read_timeout(Some(DEADLINE)).unwrap();
    // Some thousand that nobody answers, and the rest that are not given up.
    let sockets: Vec<UdpSocket> = (0..2_000).map(|_| ground.pod.run(|| UdpSocket::bind((POD, 0)).unwrap()).unwrap()).collect();
    for socket in &sockets {
        socket.send_to(b"x", (NODE, 80)).unwrap();
        server.recv(&mut [0; 8]).unwrap();
    }
    fill(&ground);
    // Which one makes room depends on where both lie: with every packet some may.
    let deadline = Instant::now() + DEADLINE;
    while running.counts().evictions == 0 {
        assert!(Instant::now() < deadline, "{:?}", running.counts());
        let socket = ground.pod.run(|| UdpSocket::bind((POD, 0)).unwrap()).unwrap();
        socket.send_to(b"x", (NODE, 80)).unwrap();
    }
}

#[test]
fn notifications_that_find_no_room_are_made_up_for_by_looking_at_the_whole() {
    let Some(ground) = Ground::create() else { return };
    let (sender, events) = std::sync::mpsc::channel();
    let settings = Settings { attention: Attention::Packets, notifications: 1, ..Settings::default() };
    let running = Running::start_as(&ground.node, settings, move |it| drop(sender.send(it))).unwrap();
    apply(&running, &[80]);
    let before = ground.table();
    // One transaction with so much in it that what it does to our table gets lost, unless the reader is as fast as the kernel.
    let chains: String = (0..2_000).map(|it| format!("add chain inet other c{it}\n")).collect();
    let flood = format!("add table inet other\ndelete table inet other\nadd table inet other\n{chains}flush chain inet palisade forward\n");
    let (resyncs, mut missed) = (running.counts().resyncs, false);
    for round in 1..=ROUNDS {
        ground.nft(&flood);
        let checked = wait_for(&events, |it| {
            missed |= *it == Event::Noticed(Notice::Missed);
            if let Event::Restored { checked, .. } = it { Some(*checked) } else { None }
        });
        assert_eq!((checked, ground.table()), (Checked::WasChanged, before.clone()));
        let counts = counts_when(&running, |it| it.restorations == round);
        if counts.resyncs > resyncs {
            break;
        }
        assert!(round < ROUNDS, "{counts:?}");
    }
    assert!(missed, "it is told once, with the first that is lost");
}

#[test]
fn logged_packets_that_find_no_room_are_counted_one_by_one() {
    let Some(ground) = Ground::create() else { return };
    let options = LogOptions { receive_buffer: 1, queue_threshold: 1, ..LogOptions::default() };
    let (running, events) = ground.start_with(options).unwrap();
    apply(&running, &[80]);
    let socket = ground.pod.run(|| UdpSocket::bind((POD, 0)).unwrap()).unwrap();
    let dropped = || running.counted().unwrap().iter().filter(|it| it.did == Did::Drop).map(|it| it.packets).sum::<u64>();
    let deadline = Instant::now() + DEADLINE;
    // What was lost is known with the next packet that finds room.
    while running.counts().events_lost == 0 || running.totals().packets + running.counts().events_lost != dropped() {
        assert!(Instant::now() < deadline, "{:?}, {} dropped", running.totals(), dropped());
        let burst = if running.counts().events_lost == 0 { 500 } else { 1 };
        (0..burst).for_each(|_| assert_eq!(socket.send_to(b"hello there", (NODE, 9)).unwrap(), 11));
        std::thread::sleep(Duration::from_millis(5));
    }
    let told: u64 = events.try_iter().map(|it| if let Event::Lost(packets) = it { packets } else { 0 }).sum();
    assert_eq!(told, running.counts().events_lost);
    say(&format!("{} dropped, {} of them not read", dropped(), told));
}

/// The error that an agent has whose table stays as it was.
fn kept(applied: Result<Applied, AgentError>) -> KernelError {
    match applied {
        Err(AgentError::Kept(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// In which order things are listed depends on the way there.
fn lines(table: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = table.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_transaction_that_the_socket_has_no_room_for_changes_nothing() {
    let Some(ground) = Ground::create() else { return };
    let open = |send, receive| ground.node.run(|| Nftables::open_within(send, receive).unwrap()).unwrap();
    let (few, many): (Vec<u16>, Vec<u16>) = (vec![80], (1_000..2_000).step_by(2).collect());
    let mut agent = Agent::new(open(usize::MAX, 1 << 23));
    agent.apply(&model(&few), NodeId(0), links()).unwrap();
    let before = ground.table();
    let mut cramped = Agent::new(open(1, 1 << 23));
    assert_eq!(cramped.apply(&model(&few), NodeId(0), links()), Ok(Applied::Unchanged));
    let error = kept(cramped.apply(&model(&many), NodeId(0), links()));
    assert_eq!(error.to_string(), "send to the kernel: EMSGSIZE: Message too long");
    assert_eq!((ground.table(), cramped.counts().failures.get("EMSGSIZE")), (before.clone(), Some(&1)));
    assert_eq!(cramped.counts().unfulfilled, 1);
    // What fits is done, by the same agent.
    assert!(matches!(cramped.apply(&model(&few), NodeId(0), links()), Ok(Applied::Unchanged)));
    assert!(matches!(agent.apply(&model(&many), NodeId(0), links()), Ok(Applied::Changed(_))));
    // Answers come one after the other, and need no more room than one of them.
    let mut deaf = Agent::new(open(usize::MAX, 1));
    assert_eq!(deaf.apply(&model(&many), NodeId(0), links()), Ok(Applied::Unchanged));
    assert!(matches!(deaf.apply(&model(&few), NodeId(0), links()), Ok(Applied::Changed(_))));
    assert_eq!(deaf.check(), Ok(Checked::Intact));
    assert_eq!((lines(&ground.table()), deaf.counts().failures.len()), (lines(&before), 0), "{:?}", deaf.counts());
}

/// The usual pod and so many others elsewhere.
fn with(others: u32) -> Model {
    with_others(model(&[80]), others)
}

/// The only limits of `nf_tables` that a ruleset of ours can meet: the room that a map was made with (ENFILE), and base chains at a hook (E2BIG).
#[test]
fn a_map_that_is_full_comes_anew_with_more_room() {
    let Some(ground) = Ground::create() else { return };
    let open = || Agent::new(ground.node.run(|| Nftables::open().unwrap()).unwrap());
    let mut agent = open();
    let room =
        || ground.table().split_once("map class4 {").unwrap().1.split_once("size ").unwrap().1.split_once('\n').unwrap().0.to_owned();
    agent.apply(&with(3), NodeId(0), links()).unwrap();
    assert_eq!(room(), "256");
    assert!(matches!(agent.apply(&with(200), NodeId(0), links()), Ok(Applied::Changed(_))));
    let applied = agent.apply(&with(300), NodeId(0), links());
    assert!(matches!(applied, Ok(Applied::Loaded)), "{applied:?}");
    assert_eq!((agent.counts().failures.get("ENFILE"), agent.counts().replacements), (Some(&1), 1), "{:?}", agent.counts());
    assert_eq!((agent.check(), room()), (Ok(Checked::Intact), "512".to_owned()));
    // So does one that somebody else has filled meanwhile, and with fewer it stays as large as it is.
    let mut next = open();
    let applied = next.apply(&with(600), NodeId(0), links());
    assert!(matches!(applied, Ok(Applied::Loaded)), "{applied:?}");
    assert!(matches!(next.apply(&with(3), NodeId(0), links()), Ok(Applied::Changed(_))));
    assert_eq!((next.check(), room()), (Ok(Checked::Intact), "1024".to_owned()));
    // Whoever starts anew sees a room that is none of ours before it is full.
    let sized = ground.table().replacen("size 1024", "size 5", 1);
    ground.nft(&format!("delete table inet palisade\n{sized}"));
    assert_eq!(open().apply(&with(3), NodeId(0), links()), Ok(Applied::Loaded));
}

/// A group of threads for which the kernel has no more memory than so much.
struct Limit {
    group: PathBuf,
    parent: PathBuf,
}

impl Limit {
    /// None where the kernel does not count memory by groups of threads, which are those of the first version.
    fn create(bytes: u64) -> Option<Limit> {
        let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = own.lines().find_map(|it| it.split_once(":memory:"))?.1.trim_start_matches('/').to_owned();
        let parent = Path::new("/sys/fs/cgroup/memory").join(own);
        let group = parent.join(format!("palisade-{}", std::process::id()));
        std::fs::create_dir(&group).ok()?;
        let limit = Limit { group, parent };
        // Whoever finds none is told so, and not killed.
        std::fs::write(limit.group.join("memory.oom_control"), "1").ok()?;
        std::fs::write(limit.group.join("memory.limit_in_bytes"), bytes.to_string()).ok()?;
        Some(limit)
    }

    /// Does something within the limit. A watch lifts it after a while, so that nobody waits for memory for ever.
    fn hold<T>(&self, work: impl FnOnce() -> T) -> T {
        let thread = nix::unistd::gettid().to_string();
        let (done, waits) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                if waits.recv_timeout(DEADLINE).is_err_and(|it| it == RecvTimeoutError::Timeout) {
                    std::fs::write(self.group.join("memory.limit_in_bytes"), "-1").unwrap();
                }
            });
            std::fs::write(self.group.join("tasks"), &thread).unwrap();
            let worked = work();
            std::fs::write(self.parent.join("tasks"), &thread).unwrap();
            drop(done);
            worked
        })
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        let removed = std::fs::remove_dir(&self.group);
        assert!(removed.is_ok() || std::thread::panicking(), "{}: {removed:?}", self.group.display());
    }
}

#[test]
fn a_kernel_without_memory_keeps_the_table_that_is_there() {
    let Some(ground) = Ground::create() else { return };
    let Some(limit) = Limit::create(1 << 20) else {
        say("skipped: memory is not counted by groups of threads here");
        return;
    };
    let mut agent = Agent::new(ground.node.run(|| Nftables::open().unwrap()).unwrap());
    agent.apply(&with(3), NodeId(0), links()).unwrap();
    let (before, many) = (ground.table(), with(20_000));
    let error = kept(limit.hold(|| agent.apply(&many, NodeId(0), links())));
    let KernelError::Refused(refusals) = &error else { panic!("{error}") };
    assert!(refusals.iter().any(|it| it.errno == Errno::ENOMEM), "{error}");
    assert_eq!((ground.table(), agent.check()), (before, Ok(Checked::Intact)));
    assert!(agent.counts().failures.get("ENOMEM").is_some_and(|it| *it >= 1), "{:?}", agent.counts());
    assert_eq!(agent.counts().unfulfilled, 1);
    // There is some again.
    assert_eq!(agent.apply(&many, NodeId(0), links()), Ok(Applied::Loaded));
    assert_eq!(agent.check(), Ok(Checked::Intact));
}

#[test]
fn a_hook_without_room_keeps_the_table_that_is_there() {
    let Some(ground) = Ground::create() else { return };
    let open = || ground.node.run(|| Nftables::open().unwrap()).unwrap();
    Agent::of_layout(open(), Layout::Version(0)).apply(&model(&[80]), NodeId(0), links()).unwrap();
    let before = ground.table();
    // The kernel takes 1,024 at one hook.
    let chains: String =
        (0..1_023).map(|it| format!("add chain inet crowd c{it} {{ type filter hook forward priority {it}; }}\n")).collect();
    ground.nft(&format!("add table inet crowd\n{chains}"));
    let mut agent = Agent::new(open());
    let error = kept(agent.apply(&model(&[80]), NodeId(0), links()));
    let KernelError::Refused(refusals) = &error else { panic!("{error}") };
    assert_eq!((&refusals[0].object, refusals[0].errno), (&Object::Chain("forward".to_owned()), Errno::E2BIG));
    assert_eq!((ground.table(), agent.counts().failures.get("E2BIG")), (before, Some(&1)));
    // An agent at work tells when it came true after all.
    drop(agent);
    let (running, events) = ground.start().unwrap();
    (0..2).for_each(|_| assert_eq!(kept(running.apply(&Arc::new(model(&[80])), NodeId(0), links())), error));
    ground.nft("delete table inet crowd");
    assert_eq!(apply(&running, &[80]), Applied::TakenOver(Layout::Version(0)));
    let told: Vec<Notice> = (0..2).map(|_| notice(&events)).collect();
    assert_eq!(told, [Notice::TookOver(Layout::Version(0)), Notice::Fulfilled { attempts: 2 }]);
    let Counts { unfulfilled, takeovers, replacements, failures, .. } = running.counts();
    assert_eq!((unfulfilled, takeovers, replacements, failures), (2, 1, 1, [("E2BIG".to_owned(), 2)].into()));
}
