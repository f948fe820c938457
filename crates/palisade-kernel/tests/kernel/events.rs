//! Logged packets, tracked connections and notifications, with real packets over the loopback interface.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, sendto, socket};
use palisade_kernel::{
    Changed, Connection, Conntrack, Deleted, KernelError, Links, Log, LogOptions, Monitor, Nftables, Read, TableName, Transport, Tuple,
};
use palisade_nft::{Address, LOG_GROUP, Ruleset};

use crate::ground::{in_netns, nft, say};

/// Longer than anything that works takes.
const DEADLINE: Duration = Duration::from_secs(20);
const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
const TCP: u8 = 6;
const UDP: u8 = 17;

/// A packet as a test compares it.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    prefix: String,
    family: u8,
    hook: u8,
    input: Option<u32>,
    output: Option<u32>,
    sequence: Option<u32>,
    payload: Vec<u8>,
}

#[test]
fn a_denied_packet_comes_with_its_prefix_and_its_bytes() {
    in_loopback(|| {
        deny("udp dport 9 log prefix \"palisade:0000002a \" group 4791 drop");
        let mut log = Log::open(LOG_GROUP, LogOptions::default()).unwrap();
        let senders = LOOPBACK.map(|address| {
            let sender = UdpSocket::bind((address, 0)).unwrap();
            sender.send_to(b"hello there", (address, 9)).unwrap();
            sender.local_addr().unwrap().port()
        });
        let (seen, read) = read_until(&mut log, 2);
        assert_eq!(read, Read { events: 2, lost: 0, overruns: 0 });
        for (at, it) in seen.iter().enumerate() {
            // The loopback interface is the first of a namespace.
            let (header, family) = [(20, 2), (40, 10)][at];
            let expected = ("palisade:0000002a ", family, 1, Some(1), None, u32::try_from(at).ok());
            assert_eq!((it.prefix.as_str(), it.family, it.hook, it.input, it.output, it.sequence), expected);
            assert_eq!(it.payload.len(), header + 8 + 11);
            assert_eq!(it.payload[header..header + 4], [senders[at].to_be_bytes(), [0, 9]].concat());
            assert!(it.payload.ends_with(b"hello there"));
        }
    });
}

#[test]
fn a_packet_is_cut_at_the_copy_range() {
    in_loopback(|| {
        deny("udp dport 9 log group 4791 drop");
        let mut log = Log::open(LOG_GROUP, LogOptions { copy_range: 30, ..LogOptions::default() }).unwrap();
        UdpSocket::bind((LOOPBACK[0], 0)).unwrap().send_to(b"hello there", (LOOPBACK[0], 9)).unwrap();
        let (seen, _) = read_until(&mut log, 1);
        assert_eq!((seen[0].payload.len(), seen[0].prefix.as_str()), (30, ""));
    });
}

#[test]
fn what_is_lost_is_counted_exactly() {
    in_loopback(|| {
        deny("udp dport 9 log prefix \"x\" group 4791 drop");
        let options = LogOptions { receive_buffer: 4096, queue_threshold: 8, kernel_buffer: 4096, ..LogOptions::default() };
        let mut log = Log::open(LOG_GROUP, options).unwrap();
        let sender = UdpSocket::bind((LOOPBACK[0], 0)).unwrap();
        let (mut sent, mut total) = (0, Read::default());
        for _ in 0..3 {
            for _ in 0..5_000 {
                sent += u64::try_from(sender.send_to(b"hello there", (LOOPBACK[0], 9)).unwrap() / 11).unwrap();
            }
            // Packets that come late and find room show what was lost before them.
            let before = total;
            let deadline = Instant::now() + DEADLINE;
            while total.events + total.lost != sent || total.lost == before.lost {
                assert!(Instant::now() < deadline, "{total:?} of {sent}");
                let read = log.read(Duration::from_millis(100), |_| {}).unwrap();
                total = Read { events: total.events + read.events, lost: total.lost + read.lost, overruns: total.overruns + read.overruns };
                assert!(total.events + total.lost <= sent, "{total:?} of {sent}");
                if read == Read::default() {
                    sent += u64::try_from(sender.send_to(b"hello there", (LOOPBACK[0], 9)).unwrap() / 11).unwrap();
                }
            }
        }
        assert!(total.overruns >= 3 && total.lost > 1_000, "{total:?}");
        say(&format!("{sent} sent: {total:?}"));
    });
}

#[test]
fn a_flood_during_which_nobody_reads_is_kept() {
    in_loopback(|| {
        deny("udp dport 9 log prefix \"palisade:0000002a \" group 4791 drop");
        let mut log = Log::open(LOG_GROUP, LogOptions::default()).unwrap();
        let sender = UdpSocket::bind((LOOPBACK[0], 0)).unwrap();
        let start = Instant::now();
        for _ in 0..100_000 {
            sender.send_to(b"hello there", (LOOPBACK[0], 9)).unwrap();
        }
        let (sent, start, mut total) = (start.elapsed(), Instant::now(), Read::default());
        while total.events < 100_000 {
            assert!(start.elapsed() < DEADLINE, "{total:?}");
            let read = log.read(DEADLINE, |it| assert!(it.prefix.ends_with("2a ") && it.payload.len() == 39)).unwrap();
            total = Read { events: total.events + read.events, lost: total.lost + read.lost, overruns: total.overruns + read.overruns };
        }
        assert_eq!(total, Read { events: 100_000, lost: 0, overruns: 0 });
        say(&format!("100,000 packets sent in {sent:?}, read in {:?}", start.elapsed()));
    });
}

#[test]
fn packets_from_before_the_reader_are_not_lost() {
    in_loopback(|| {
        deny("udp dport 9 log group 4791 drop");
        let sender = UdpSocket::bind((LOOPBACK[0], 0)).unwrap();
        let send = |count: usize| (0..count).for_each(|_| assert_eq!(sender.send_to(b"hello there", (LOOPBACK[0], 9)).unwrap(), 11));
        send(50);
        let mut log = Log::open(LOG_GROUP, LogOptions::default()).unwrap();
        send(1);
        assert_eq!(read_until(&mut log, 1).1, Read { events: 1, lost: 0, overruns: 0 });
        drop(log);
        send(50);
        let mut log = Log::open(LOG_GROUP, LogOptions::default()).unwrap();
        send(2);
        let (seen, read) = read_until(&mut log, 2);
        assert_eq!((read.lost, seen[0].sequence), (0, Some(0)));
    });
}

#[test]
fn a_second_reader_of_a_group_is_refused_by_name() {
    in_loopback(|| {
        let first = Log::open(LOG_GROUP, LogOptions::default()).unwrap();
        let error = Log::open(LOG_GROUP, LogOptions::default()).unwrap_err();
        assert_eq!(error, KernelError::LogTaken(LOG_GROUP));
        assert_eq!(error.to_string(), "NFLOG group 4791 of this network namespace has another reader");
        Log::open(LOG_GROUP + 1, LogOptions::default()).unwrap();
        drop(first);
        Log::open(LOG_GROUP, LogOptions::default()).unwrap();
    });
}

#[test]
fn options_that_the_kernel_would_not_heed_are_refused() {
    let options = LogOptions::default();
    let cases = [
        (LogOptions { copy_range: 0, ..options }, "a copy range of 0 is not between 1 and 65535"),
        (LogOptions { kernel_buffer: 200_000, ..options }, "a kernel buffer of 200000 is not between 4096 and 131072"),
        (LogOptions { queue_threshold: 0, ..options }, "a queue threshold of 0"),
    ];
    for (options, what) in cases {
        let expected = KernelError::LogOptions { group: LOG_GROUP, what: what.to_owned() };
        assert_eq!(Log::open(LOG_GROUP, options).unwrap_err(), expected);
    }
}

#[test]
fn connections_of_each_protocol_and_family_are_read_and_deleted() {
    in_loopback(|| {
        track("");
        let mut conntrack = Conntrack::open().unwrap();
        assert_eq!((conntrack.dump(None), conntrack.count()), (Ok(Vec::new()), Ok(0)));
        for address in LOOPBACK {
            let listener = TcpListener::bind((address, 0)).unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let receiver = UdpSocket::bind((address, 0)).unwrap();
            let sender = UdpSocket::bind((address, 0)).unwrap();
            sender.send_to(b"x", receiver.local_addr().unwrap()).unwrap();
            ping(address, 0x1234);
            let tuple = |protocol, transport| Tuple { source: address, destination: address, protocol, transport };
            let ports =
                |source: SocketAddr, destination: SocketAddr| Transport::Ports { source: source.port(), destination: destination.port() };
            let (icmp, kinds) = if address.is_ipv4() { (1, [8, 0]) } else { (58, [128, 129]) };
            let echo = |kind| Transport::Icmp { kind, code: 0, id: 0x1234 };
            let (from, to) = (stream.local_addr().unwrap(), listener.local_addr().unwrap());
            let (sender, receiver) = (sender.local_addr().unwrap(), receiver.local_addr().unwrap());
            let expected = [
                (tuple(icmp, echo(kinds[0])), tuple(icmp, echo(kinds[1])), true),
                (tuple(TCP, ports(from, to)), tuple(TCP, ports(to, from)), true),
                (tuple(UDP, ports(sender, receiver)), tuple(UDP, ports(receiver, sender)), false),
            ];
            let found = conntrack.dump(Some(Address::of(address))).unwrap();
            let mut brief: Vec<_> = found.iter().map(|it| (it.original, it.reply, it.status.seen_reply())).collect();
            brief.sort_by_key(|(original, ..)| original.protocol);
            let mut sorted = expected.to_vec();
            sorted.sort_by_key(|(original, ..)| original.protocol);
            assert_eq!(brief, sorted);
            assert!(found.iter().all(|it| (it.zone, it.reply_zone, it.mark, it.protocol) == (0, 0, 7, it.original.protocol)), "{found:#?}");
            for (at, connection) in found.iter().enumerate() {
                assert_eq!(conntrack.delete(connection), Ok(Deleted::Yes), "{connection:#?}");
                assert_eq!(conntrack.delete(connection), Ok(Deleted::WasGone), "{connection:#?}");
                // Those that are left are untouched.
                assert_eq!(conntrack.dump(Some(Address::of(address))).unwrap(), found[at + 1..]);
            }
        }
    });
}

#[test]
fn a_later_connection_with_the_same_tuples_elsewhere_in_memory_is_not_deleted() {
    in_loopback(|| {
        track("");
        let mut conntrack = Conntrack::open().unwrap();
        let to = UdpSocket::bind((LOOPBACK[0], 0)).unwrap();
        let to = to.local_addr().unwrap();
        let sender = UdpSocket::bind((LOOPBACK[0], 0)).unwrap();
        sender.send_to(b"x", to).unwrap();
        let first = one(conntrack.dump(None).unwrap());
        assert_eq!(conntrack.delete(&first), Ok(Deleted::Yes));
        for _ in 0..100 {
            // Somebody else takes the memory of the first one.
            UdpSocket::bind((LOOPBACK[0], 0)).unwrap().send_to(b"x", to).unwrap();
            sender.send_to(b"x", to).unwrap();
            let second = one(conntrack.dump(None).unwrap().into_iter().filter(|it| it.original == first.original).collect());
            if second.id != first.id {
                assert_eq!(conntrack.delete(&first), Ok(Deleted::WasGone));
                assert_eq!(conntrack.delete(&second), Ok(Deleted::Yes));
                return;
            }
            assert_eq!(conntrack.delete(&second), Ok(Deleted::Yes));
        }
        panic!("a hundred connections in the same memory");
    });
}

#[test]
fn a_connection_is_deleted_in_its_zone() {
    for (set, zones) in [("ct zone set 5", (5, 5)), ("ct original zone set 5", (5, 0)), ("ct reply zone set 5", (0, 5))] {
        in_loopback(|| {
            track(set);
            let mut conntrack = Conntrack::open().unwrap();
            let receiver = UdpSocket::bind((LOOPBACK[0], 0)).unwrap();
            UdpSocket::bind((LOOPBACK[0], 0)).unwrap().send_to(b"x", receiver.local_addr().unwrap()).unwrap();
            let connection = one(conntrack.dump(None).unwrap());
            assert_eq!((connection.zone, connection.reply_zone), zones, "{set}");
            let elsewhere = Connection { zone: 6, ..connection.clone() };
            assert_eq!(conntrack.delete(&elsewhere), Ok(Deleted::WasGone), "{set}");
            assert_eq!(conntrack.delete(&connection), Ok(Deleted::Yes), "{set}");
        });
    }
}

/// By whom they were opened and who answers, in every zone, and nothing else.
#[test]
fn connections_of_one_address_are_read_alone() {
    for set in ["", "ct zone set 5", "ct original zone set 5", "ct reply zone set 5"] {
        in_loopback(|| {
            track(set);
            let mut conntrack = Conntrack::open().unwrap();
            let addresses = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "::1"].map(|it| it.parse::<IpAddr>().unwrap());
            for (from, to) in
                addresses.iter().flat_map(|from| addresses.iter().map(move |to| (from, to))).filter(|(a, b)| a.is_ipv4() == b.is_ipv4())
            {
                let receiver = UdpSocket::bind((*to, 0)).unwrap();
                UdpSocket::bind((*from, 0)).unwrap().send_to(b"x", receiver.local_addr().unwrap()).unwrap();
            }
            let all = conntrack.dump(None).unwrap();
            assert_eq!(all.len(), 10, "{set}");
            for address in addresses {
                let mut found = Vec::new();
                conntrack.each_of(address, |it| found.push(it)).unwrap();
                found.sort_unstable();
                found.dedup();
                let expected = all.iter().filter(|it| [it.original.source, it.reply.source].contains(&address));
                assert_eq!(found, expected.cloned().collect::<Vec<_>>(), "{address} {set}");
            }
        });
    }
}

/// Those that are gone do not keep the others, wherever they stand.
#[test]
fn many_connections_are_deleted_at_once() {
    in_loopback(|| {
        track("");
        let receiver = UdpSocket::bind((LOOPBACK[0], 0)).unwrap();
        let receiver6 = UdpSocket::bind((LOOPBACK[1], 0)).unwrap();
        let open = |address, to: &UdpSocket| {
            UdpSocket::bind((address, 0)).unwrap().send_to(b"x", to.local_addr().unwrap()).unwrap();
        };
        (0..1_200).for_each(|_| open(LOOPBACK[0], &receiver));
        (0..100).for_each(|_| open(LOOPBACK[1], &receiver6));
        let mut conntrack = Conntrack::open().unwrap();
        let found = conntrack.dump(None).unwrap();
        let (stay, go): (Vec<_>, Vec<_>) = found.iter().enumerate().partition(|(at, _)| at % 7 == 3);
        let gone: BTreeSet<usize> =
            go.iter().map(|(at, _)| *at).filter(|at| [0, 1].contains(&(at % 11))).chain([go[go.len() - 1].0]).collect();
        for at in &gone {
            assert_eq!(conntrack.delete(&found[*at]), Ok(Deleted::Yes));
        }
        let expected: Vec<Deleted> = go.iter().map(|(at, _)| if gone.contains(at) { Deleted::WasGone } else { Deleted::Yes }).collect();
        assert_eq!(conntrack.delete_all(&go.iter().map(|it| it.1).collect::<Vec<_>>()), Ok(expected));
        assert_eq!(conntrack.dump(None).unwrap(), stay.into_iter().map(|it| it.1.clone()).collect::<Vec<_>>());
        assert_eq!(conntrack.delete_all(&[]), Ok(Vec::new()));
    });
}

#[test]
fn a_large_table_of_connections_is_read_whole() {
    in_loopback(|| {
        track("");
        let receiver = UdpSocket::bind((LOOPBACK[0], 0)).unwrap();
        let to = receiver.local_addr().unwrap();
        let mut ports = BTreeSet::new();
        for _ in 0..100 {
            let sockets: Vec<UdpSocket> = (0..100).map(|_| UdpSocket::bind((LOOPBACK[0], 0)).unwrap()).collect();
            for socket in sockets {
                socket.send_to(b"x", to).unwrap();
                ports.insert(socket.local_addr().unwrap().port());
            }
        }
        let mut conntrack = Conntrack::open().unwrap();
        let start = Instant::now();
        let found = conntrack.dump(None).unwrap();
        say(&format!("{} connections read in {:?}", found.len(), start.elapsed()));
        let sources = found.iter().map(|it| match it.original.transport {
            Transport::Ports { source, .. } => source,
            Transport::Icmp { .. } | Transport::Addresses => panic!("{it:?}"),
        });
        assert_eq!(sources.collect::<BTreeSet<u16>>(), ports);
        assert_eq!(found.len(), ports.len());
    });
}

#[test]
fn a_table_that_another_process_deletes_is_told_with_the_process() {
    in_loopback(|| {
        let mut nftables = Nftables::open().unwrap();
        nftables.load(&Ruleset::default()).unwrap();
        nft(&["-f", "-"], "add table ip other; add table ip6 more");
        let mut monitor = Monitor::open().unwrap();
        assert_eq!(monitor.wait(Duration::ZERO), Ok(Vec::new()));
        let mut child = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        child.stdin.take().unwrap().write_all(b"delete table inet palisade; delete table ip other").unwrap();
        assert!(child.wait().unwrap().success());
        let changes = wait_for(&mut monitor, 1);
        let table = |family, name: &str| TableName { family, name: name.to_owned() };
        let [Changed::Transaction { generation, by, process, port, tables }] = &changes[..] else { panic!("{changes:#?}") };
        assert_eq!((process.as_str(), tables), ("nft", &BTreeSet::from([table(1, "palisade"), table(2, "other")])));
        assert_ne!(*port, nftables.port());
        // The kernel gives the number of the first process namespace, which only a process there can compare.
        match first_process_namespace() {
            true => assert_eq!(*by, pid),
            false => say(&format!("skipped: process {pid} is {by} elsewhere")),
        }
        // Loading again is the next transaction, by this thread.
        nftables.load(&Ruleset::default()).unwrap();
        let changes = wait_for(&mut monitor, 1);
        let [Changed::Transaction { generation: next, tables, by, port, .. }] = &changes[..] else { panic!("{changes:#?}") };
        assert_eq!(*port, nftables.port());
        assert_eq!((*next, tables), (generation + 1, &BTreeSet::from([table(1, "palisade")])));
        let thread = std::fs::read_link("/proc/thread-self").unwrap();
        if first_process_namespace() {
            assert_eq!(thread.file_name().and_then(|it| it.to_str()), Some(by.to_string().as_str()));
        }
    });
}

#[test]
fn dropped_notifications_are_told_last_and_only_once() {
    in_loopback(|| {
        let mut monitor = Monitor::open().unwrap();
        nix::sys::socket::setsockopt(&monitor, nix::sys::socket::sockopt::RcvBufForce, &2048).unwrap();
        let mut nftables = Nftables::open().unwrap();
        for _ in 0..50 {
            nftables.load(&Ruleset::default()).unwrap();
        }
        let changes = monitor.wait(DEADLINE).unwrap();
        assert!(changes.len() < 50, "{changes:#?}");
        assert_eq!(changes.iter().position(|it| *it == Changed::Unknown), Some(changes.len() - 1), "{changes:#?}");
        assert_eq!(monitor.wait(Duration::ZERO), Ok(Vec::new()));
        nftables.unload().unwrap();
        assert!(matches!(wait_for(&mut monitor, 1)[..], [Changed::Transaction { .. }]));
    });
}

/// Runs something in a namespace whose loopback interface is up. It does not run, and says so, without root or nft.
fn in_loopback(work: impl FnOnce() + Send) {
    in_netns(|| {
        Links::open().unwrap().set_up("lo").unwrap();
        if nft(&["list", "ruleset"], "").is_some() {
            work();
        }
    });
}

/// A rule for what arrives.
fn deny(rule: &str) {
    nft(&["-f", "-"], &format!("table inet test {{ chain c {{ type filter hook input priority 0; {rule}\n}}\n}}\n"));
}

/// Tracks every connection with mark 7, and does something else before.
fn track(before: &str) {
    let mut text = "table inet test { chain c { type filter hook output priority 0; ct state new ct mark set 7\n}\n}\n".to_owned();
    if !before.is_empty() {
        // The answer must find the connection in its zone as well.
        for hook in ["output", "prerouting"] {
            text += &format!("table inet raw {{ chain {hook} {{ type filter hook {hook} priority -300; {before}\n}}\n}}\n");
        }
    }
    nft(&["-f", "-"], &text);
}

/// An echo request, answered by the kernel before this returns.
fn ping(address: IpAddr, id: u16) {
    let (family, protocol, kind) = match address {
        IpAddr::V4(_) => (AddressFamily::Inet, SockProtocol::Icmp, 8),
        IpAddr::V6(_) => (AddressFamily::Inet6, SockProtocol::IcmpV6, 128),
    };
    let socket = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol).unwrap();
    // The kernel sums up ICMPv6 itself.
    let sum = !(0x0800 + id + 1);
    let [[id_high, id_low], [sum_high, sum_low]] = [id.to_be_bytes(), sum.to_be_bytes()];
    let request = [kind, 0, sum_high, sum_low, id_high, id_low, 0, 1];
    sendto(socket.as_raw_fd(), &request, &SockaddrStorage::from(SocketAddr::new(address, 0)), MsgFlags::empty()).unwrap();
}

fn read_until(log: &mut Log, events: u64) -> (Vec<Seen>, Read) {
    let (mut seen, mut total) = (Vec::new(), Read::default());
    let deadline = Instant::now() + DEADLINE;
    while total.events < events {
        assert!(Instant::now() < deadline, "{total:?}");
        let read = log.read(DEADLINE, |it| {
            seen.push(Seen {
                prefix: it.prefix.to_owned(),
                family: it.family,
                hook: it.hook,
                input: it.input,
                output: it.output,
                sequence: it.sequence,
                payload: it.payload.to_vec(),
            });
        });
        let read = read.unwrap();
        total = Read { events: total.events + read.events, lost: total.lost + read.lost, overruns: total.overruns + read.overruns };
    }
    (seen, total)
}

fn wait_for(monitor: &mut Monitor, count: usize) -> Vec<Changed> {
    let deadline = Instant::now() + DEADLINE;
    let mut changes = Vec::new();
    while changes.len() < count {
        assert!(Instant::now() < deadline, "{changes:?}");
        changes.extend(monitor.wait(DEADLINE).unwrap());
    }
    changes
}

fn one(mut connections: Vec<Connection>) -> Connection {
    assert_eq!(connections.len(), 1, "{connections:#?}");
    connections.remove(0)
}

/// Its number is fixed in the kernel.
fn first_process_namespace() -> bool {
    std::fs::read_link("/proc/self/ns/pid").unwrap().as_os_str() == "pid:[4026531836]"
}
