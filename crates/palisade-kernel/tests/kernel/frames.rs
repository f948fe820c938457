//! Frames that only the family `netdev` sees, sent by hand.

use std::collections::BTreeSet;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, sendto, socket};
use palisade_kernel::{KernelError, Namespace, Nftables, Restored, TableKeeper};
use palisade_nft::{Frames, Ruleset, Table};

use crate::ground::{Cluster, exchange_datagram, nft, open_links, say};

/// The table of frames of a node.
struct Keeper(TableKeeper<Nftables>);

impl Keeper {
    fn open(node: &Namespace) -> Keeper {
        Keeper(TableKeeper::new(node.run(|| Nftables::open().unwrap()).unwrap(), Table::Frames))
    }

    fn replace(&mut self, links: &BTreeSet<String>) {
        self.0.replace_in_stages(|held| Frames { links: links.clone() }.stages(held)).unwrap();
    }

    fn links(&mut self) -> BTreeSet<String> {
        self.0.dump().unwrap().map(|it| Frames::of(&it).links).unwrap_or_default()
    }
}

/// An IPv4 datagram with a source that nobody here has.
fn datagram(to: IpAddr, port: u16, mark: u8) -> Vec<u8> {
    let IpAddr::V4(to) = to else { panic!("{to} is not IPv4") };
    let [high, low] = port.to_be_bytes();
    let mut header = vec![0x45, 0, 0, 29, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 9];
    header.extend(to.octets());
    let words = header.chunks(2).map(|it| it.iter().fold(0, |word: u32, byte| word << 8 | u32::from(*byte)));
    let sum: u32 = words.sum();
    let sum = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    header.splice(10..12, sum.to_be_bytes());
    [header, vec![0x30, 0x39, high, low, 0, 9, 0, 0, mark]].concat()
}

/// Sends a frame by the link `eth0` of the calling thread's namespace.
fn send(hardware: [u8; 6], tags: usize, packet: &[u8]) {
    let link = getifaddrs().unwrap().filter(|it| it.interface_name == "eth0").find_map(|it| it.address?.as_link_addr().copied()).unwrap();
    let fd = socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), None).unwrap();
    let mut frame = [&hardware[..], &[2, 0, 0, 0, 0, 1]].concat();
    frame.extend([0x81, 0, 0, 0].repeat(tags));
    frame.extend([0x08, 0]);
    frame.extend(packet);
    sendto(fd.as_raw_fd(), &frame, &link, MsgFlags::empty()).unwrap();
}

#[test]
fn a_frame_with_tags_brings_no_foreign_source_in() {
    let Some(cluster) = Cluster::create(2) else { return };
    let (caller, called) = (&cluster.pods[0], &cluster.pods[1]);
    let receiver = called.namespace.run(|| UdpSocket::bind((called.addresses[0], 0)).unwrap()).unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let port = receiver.local_addr().unwrap().port();
    let hardware = open_links(&cluster.node).link("pod1").unwrap().hardware.unwrap();
    let say = |tags, mark| caller.namespace.run(|| send(hardware, tags, &datagram(called.addresses[0], port, mark))).unwrap();
    let heard = || {
        let mut buffer = [0; 8];
        receiver.recv(&mut buffer).map(|_| buffer[0]).unwrap()
    };
    // The neighbour is known from here on, and a link that is asked nothing lets everything in.
    exchange_datagram(&caller.namespace, &called.namespace, called.addresses[0]);
    for (tags, mark) in [(0, 1), (1, 2), (2, 3)] {
        say(tags, mark);
        assert_eq!(heard(), mark, "{tags} tags");
    }
    let mut frames = Keeper::open(&cluster.node);
    frames.replace(&BTreeSet::from(["pod1".to_owned()]));
    for (tags, mark) in [(1, 4), (2, 5), (0, 6)] {
        say(tags, mark);
    }
    // What came after is there, so what came before never will be.
    assert_eq!(heard(), 6);
    exchange_datagram(&caller.namespace, &called.namespace, called.addresses[1]);
    assert_eq!(frames.0.restore(), Ok(Restored::No));
    let listed = cluster.node.run(|| nft(&["list", "table", "netdev", "palisade"], "")).unwrap();
    let Some(listed) = listed else { return };
    assert!(listed.contains("ether type != ip ether type != ip6 ether type != arp counter packets 2"), "{listed}");
    // What happens in other tables does not make this one another; whatever happens in it does.
    cluster.node.run(|| nft(&["add", "table", "netdev", "theirs"], "")).unwrap();
    assert_eq!(frames.0.restore(), Ok(Restored::No));
    cluster.node.run(|| nft(&["delete", "table", "netdev", "theirs"], "")).unwrap();
    for (number, change) in [
        "flush table netdev palisade",
        "delete table netdev palisade",
        "insert rule netdev palisade frames-1 accept",
        "add chain netdev palisade more",
        "add table netdev palisade { flags dormant; }",
        "flush chain netdev palisade frames-1; add rule netdev palisade frames-1 accept",
        "flush chain netdev palisade frames-1; add rule netdev palisade frames-1 ether type != ip ether type != ip6 ether type != arp drop",
        "delete table netdev palisade; add table netdev palisade; add chain netdev palisade frames-1 \
         { type filter hook ingress device pod2 priority -510; }; add rule netdev palisade frames-1 drop",
    ]
    .into_iter()
    .enumerate()
    {
        cluster.node.run(|| nft(&["-f", "-"], &change.replace("; }", ";\n}").replace("; ", "\n"))).unwrap();
        assert_eq!((number, frames.0.restore(), frames.0.restore()), (number, Ok(Restored::Yes), Ok(Restored::No)));
    }
    frames.replace(&BTreeSet::new());
    let left = cluster.node.run(|| nft(&["list", "tables"], "")).unwrap();
    assert_eq!(left.as_deref(), Some(""));
}

/// What counts on is the same rule.
#[test]
fn a_link_that_stays_keeps_a_chain_while_others_come_and_go() {
    let Some(cluster) = Cluster::create(3) else { return };
    let links = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<BTreeSet<String>>();
    let hardware = open_links(&cluster.node).link("pod1").unwrap().hardware.unwrap();
    let (caller, called) = (&cluster.pods[0], &cluster.pods[1]);
    let open = || Keeper::open(&cluster.node);
    let listed = |chain: &str| cluster.node.run(|| nft(&["list", "chain", "netdev", "palisade", chain], "")).unwrap();
    let mut frames = open();
    frames.replace(&links(&["pod1"]));
    caller.namespace.run(|| send(hardware, 2, &datagram(called.addresses[0], 9, 1))).unwrap();
    let counts = || listed("frames-1").is_none_or(|it| it.contains("counter packets 1"));
    assert!(counts());
    // One comes, one goes, and another agent goes on from there.
    for names in [&["pod1", "pod2"][..], &["pod1"], &["pod1", "pod2", "pod3"]] {
        frames.replace(&links(names));
        assert_eq!((counts(), frames.0.restore()), (true, Ok(Restored::No)), "{names:?}");
        frames = open();
        frames.replace(&links(names));
        assert_eq!((counts(), frames.0.restore()), (true, Ok(Restored::No)), "{names:?}");
        assert_eq!(frames.links(), links(names));
    }
    // Two share a chain, and one of them goes.
    frames.replace(&links(&["pod1", "pod2"]));
    assert_eq!((counts(), frames.links()), (true, links(&["pod1", "pod2"])));
    frames.replace(&links(&[]));
    assert_eq!(cluster.node.run(|| nft(&["list", "tables"], "")).unwrap().as_deref(), Some(""));
}

/// A dump that a change comes between says nothing about the table, and nothing is wrong with it.
#[test]
fn changes_of_other_tables_do_not_get_in_the_way_of_a_look() {
    let Some(cluster) = Cluster::create(1) else { return };
    let mut frames = Keeper::open(&cluster.node);
    frames.replace(&BTreeSet::from(["pod1".to_owned()]));
    let mut others = cluster.node.run(|| Nftables::open().unwrap()).unwrap();
    let done = AtomicBool::new(false);
    let (mut intact, mut unsteady) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..3_000 {
                others.load(&Ruleset::default()).unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            match frames.0.restore() {
                Ok(Restored::No) => intact += 1,
                Err(KernelError::Unsteady(attempts)) => {
                    assert!(attempts > 1);
                    unsteady += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    });
    assert_eq!(frames.0.restore(), Ok(Restored::No));
    say(&format!("{intact} looks found the frames intact, {unsteady} could not tell"));
}
