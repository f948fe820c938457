//! Datagrams that are dropped though the kernel takes them for answers.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::time::Duration;

use palisade_kernel::{Answer, Answers, Namespace, Restored};
use socket2::{Domain, Socket, Type};

use crate::ground::{Cluster, in_netns, nft};
use crate::packets::{Prefixes, is_silent, received, server};

fn answer(from: SocketAddr, to: SocketAddr) -> Answer {
    Answer::new(from, to, 17)
}

/// Those of others between the same pods pass.
#[test]
fn answers_of_one_pair_of_ports_are_dropped_and_logged_as_what_denies_them() {
    let Some(cluster) = Cluster::create(2) else { return };
    let [client, other] = cluster.pods.as_slice() else { panic!("two pods") };
    let mut answers = cluster.node.run(|| Answers::open().unwrap()).unwrap();
    let mut logged = Prefixes::open(&cluster.node);
    let mut shut = BTreeMap::new();
    for (own, far) in client.addresses.into_iter().zip(other.addresses) {
        let at_client = [6000, 6001].map(|port| server(&client.namespace, SocketAddr::new(own, port)));
        let at_other = server(&other.namespace, SocketAddr::new(far, 5000));
        let [cut, lives] = at_client.each_ref().map(|it| it.local_addr().unwrap());
        shut.insert(answer(at_other.local_addr().unwrap(), cut), 42);
        answers.replace(&shut).unwrap();
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
    answers.replace(&BTreeMap::new()).unwrap();
    for (answer, _) in shut {
        let from = server(&other.namespace, answer.from());
        let to = server(&client.namespace, answer.to());
        from.send_to(b"answer", answer.to()).unwrap();
        assert_eq!(received(&to), "answer");
    }
}

/// Raw packets of a protocol that nobody has given to anything.
#[test]
fn packets_without_ports_are_dropped_by_their_protocol() {
    let Some(cluster) = Cluster::create(2) else { return };
    let [client, other] = cluster.pods.as_slice() else { panic!("two pods") };
    let mut answers = cluster.node.run(|| Answers::open().unwrap()).unwrap();
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
        let shut = Answer::new(SocketAddr::new(own, 7), SocketAddr::new(far, 8), 253);
        answers.replace(&BTreeMap::from([(shut, 42)])).unwrap();
        assert_eq!(cluster.node.run(|| Answers::open().unwrap().found()).unwrap(), Ok([shut].into()));
        assert!(!hears(253) && hears(254));
        answers.replace(&BTreeMap::new()).unwrap();
        assert!(hears(253));
    }
}

#[test]
fn the_table_holds_what_was_asked_for_last() {
    in_netns(|| {
        let mut answers = Answers::open().unwrap();
        let [one, two]: [SocketAddr; 2] = ["10.0.0.1:53", "10.0.0.2:4000"].map(|it| it.parse().unwrap());
        let [three, four]: [SocketAddr; 2] = ["[fd00::1]:53", "[fd00::2]:4000"].map(|it| it.parse().unwrap());
        let wanted = [vec![(answer(one, two), 7)], vec![(answer(one, two), 8), (answer(three, four), 7)], vec![(answer(three, four), 9)]];
        let lists = |it: &str| nft(&["-s", "list", "table", "inet", "palisade-answers"], "").is_none_or(|text| text.contains(it));
        for wanted in wanted.map(BTreeMap::from_iter) {
            answers.replace(&wanted).unwrap();
            for (answer, origin) in &wanted {
                let (from, to) = (answer.from(), answer.to());
                let element = format!("{} . {} . udp . {} . {} : goto denied-{origin:08x}", from.ip(), to.ip(), from.port(), to.port());
                assert!(lists(&element), "{element}\n{:?}", nft(&["list", "table", "inet", "palisade-answers"], ""));
            }
            // Whoever comes later finds them.
            assert_eq!(Answers::open().unwrap().found(), Ok(wanted.keys().copied().collect()));
            assert_eq!(answers.check(), Ok(Restored::No));
            if nft(&["delete", "table", "inet", "palisade-answers"], "").is_some() {
                assert_eq!(answers.check(), Ok(Restored::Yes));
            }
            let list = || nft(&["-s", "list", "table", "inet", "palisade-answers"], "");
            let before = list();
            if nft(&["flush", "chain", "inet", "palisade-answers", "forward"], "").is_some() {
                assert_ne!(list(), before);
                assert_eq!((answers.check(), answers.restore()), (Ok(Restored::No), Ok(Restored::Yes)));
                assert_eq!(list(), before);
            }
        }
        // A later agent knows nothing of it, and takes it away.
        Answers::open().unwrap().replace(&BTreeMap::new()).unwrap();
        assert!(nft(&["list", "ruleset"], "").is_none_or(|it| it.is_empty()));
        assert_eq!(Answers::open().unwrap().found(), Ok(Default::default()));
        assert_eq!(answers.check(), Ok(Restored::Yes));
        answers.replace(&BTreeMap::new()).unwrap();
        assert!(nft(&["list", "ruleset"], "").is_none_or(|it| it.is_empty()));
    });
}
