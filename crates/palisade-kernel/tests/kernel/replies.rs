//! Datagrams that are dropped though the kernel takes them for replies.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::time::Duration;

use palisade_kernel::{Namespace, Nftables, Restored, TableKeeper};
use palisade_nft::{BlockedReplies, Table, Tuple};
use socket2::{Domain, Socket, Type};

use crate::ground::{Cluster, in_netns, nft};
use crate::packets::{Prefixes, is_silent, received, server};

fn reply(from: SocketAddr, to: SocketAddr) -> Tuple {
    Tuple::new(from, to, 17)
}

/// The table of blocked replies of the calling thread's namespace.
struct Keeper(TableKeeper<Nftables>);

impl Keeper {
    fn open() -> Keeper {
        Keeper(TableKeeper::new(Nftables::open().unwrap(), Table::Replies))
    }

    fn replace(&mut self, replies: &BTreeMap<Tuple, u32>) {
        self.0.replace(BlockedReplies { replies: replies.clone() }.ruleset()).unwrap();
    }

    fn found(&mut self) -> BTreeMap<Tuple, u32> {
        self.0.dump().unwrap().map(|it| BlockedReplies::of(&it).replies).unwrap_or_default()
    }
}

/// Those of others between the same pods pass.
#[test]
fn replies_of_one_pair_of_ports_are_dropped_and_logged_as_what_denies_them() {
    let Some(cluster) = Cluster::create(2) else { return };
    let [client, other] = cluster.pods.as_slice() else { panic!("two pods") };
    let mut replies = cluster.node.run(Keeper::open).unwrap();
    let mut logged = Prefixes::open(&cluster.node);
    let mut shut = BTreeMap::new();
    for (own, far) in client.addresses.into_iter().zip(other.addresses) {
        let at_client = [6000, 6001].map(|port| server(&client.namespace, SocketAddr::new(own, port)));
        let at_other = server(&other.namespace, SocketAddr::new(far, 5000));
        let [cut, lives] = at_client.each_ref().map(|it| it.local_addr().unwrap());
        shut.insert(reply(at_other.local_addr().unwrap(), cut), 42);
        replies.replace(&shut);
        for socket in &at_client {
            socket.send_to(b"question", at_other.local_addr().unwrap()).unwrap();
            assert_eq!(received(&at_other), "question");
        }
        at_other.send_to(b"answer", cut).unwrap();
        assert_eq!(logged.next(), "palisade:0000002a ");
        at_other.send_to(b"answer", lives).unwrap();
        assert_eq!(received(&at_client[1]), "answer");
        assert!(is_silent(&at_client[0]));
    }
    replies.replace(&BTreeMap::new());
    for (reply, _) in shut {
        let from = server(&other.namespace, reply.from());
        let to = server(&client.namespace, reply.to());
        from.send_to(b"answer", reply.to()).unwrap();
        assert_eq!(received(&to), "answer");
    }
}

/// Raw packets of a protocol that nobody has given to anything.
#[test]
fn packets_without_ports_are_dropped_by_their_protocol() {
    let Some(cluster) = Cluster::create(2) else { return };
    let [client, other] = cluster.pods.as_slice() else { panic!("two pods") };
    let mut replies = cluster.node.run(Keeper::open).unwrap();
    for (own, far) in client.addresses.into_iter().zip(other.addresses) {
        let raw = |namespace: &Namespace, protocol: i32| {
            let socket = namespace.run(|| Socket::new(Domain::for_address(SocketAddr::new(own, 0)), Type::RAW, Some(protocol.into())));
            let socket = socket.unwrap().unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            socket
        };
        let hears = |protocol: i32| {
            let (from, to) = (raw(&client.namespace, protocol), raw(&other.namespace, protocol));
            from.send_to(b"word", &SocketAddr::new(far, 0).into()).unwrap();
            to.recv(&mut [MaybeUninit::uninit(); 64]).is_ok()
        };
        assert!(hears(253) && hears(254));
        // Whatever was told for ports.
        let shut = Tuple::new(SocketAddr::new(own, 7), SocketAddr::new(far, 8), 253);
        replies.replace(&BTreeMap::from([(shut, 42)]));
        assert_eq!(cluster.node.run(|| Keeper::open().found()).unwrap(), [(shut, 42)].into());
        assert!(!hears(253) && hears(254));
        replies.replace(&BTreeMap::new());
        assert!(hears(253));
    }
}

#[test]
fn the_table_holds_what_was_asked_for_last() {
    in_netns(|| {
        let mut replies = Keeper::open();
        let [one, two]: [SocketAddr; 2] = ["10.0.0.1:53", "10.0.0.2:4000"].map(|it| it.parse().unwrap());
        let [three, four]: [SocketAddr; 2] = ["[fd00::1]:53", "[fd00::2]:4000"].map(|it| it.parse().unwrap());
        let wanted = [vec![(reply(one, two), 7)], vec![(reply(one, two), 8), (reply(three, four), 7)], vec![(reply(three, four), 9)]];
        let lists = |it: &str| nft(&["-s", "list", "table", "inet", "palisade-answers"], "").is_none_or(|text| text.contains(it));
        for wanted in wanted.map(BTreeMap::from_iter) {
            replies.replace(&wanted);
            for (reply, origin) in &wanted {
                let (from, to) = (reply.from(), reply.to());
                let element = format!("{} . {} . udp . {} . {} : goto denied-{origin:08x}", from.ip(), to.ip(), from.port(), to.port());
                assert!(lists(&element), "{element}\n{:?}", nft(&["list", "table", "inet", "palisade-answers"], ""));
            }
            // Whoever comes later finds them.
            assert_eq!(Keeper::open().found(), wanted);
            assert_eq!(replies.0.restore_missing(), Ok(Restored::No));
            if nft(&["delete", "table", "inet", "palisade-answers"], "").is_some() {
                assert_eq!(replies.0.restore_missing(), Ok(Restored::Yes));
            }
            let list = || nft(&["-s", "list", "table", "inet", "palisade-answers"], "");
            let before = list();
            if nft(&["flush", "chain", "inet", "palisade-answers", "forward"], "").is_some() {
                assert_ne!(list(), before);
                assert_eq!((replies.0.restore_missing(), replies.0.restore()), (Ok(Restored::No), Ok(Restored::Yes)));
                assert_eq!(list(), before);
            }
        }
        // A later agent knows nothing of it, and takes it away.
        Keeper::open().replace(&BTreeMap::new());
        assert!(nft(&["list", "ruleset"], "").is_none_or(|it| it.is_empty()));
        assert_eq!(Keeper::open().found(), BTreeMap::new());
        assert_eq!(replies.0.restore_missing(), Ok(Restored::Yes));
        replies.replace(&BTreeMap::new());
        assert!(nft(&["list", "ruleset"], "").is_none_or(|it| it.is_empty()));
    });
}
