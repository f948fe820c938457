//! The class of a sender is its address, whatever it writes into its packets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use palisade_kernel::Nftables;
use palisade_nft::Ids;
use socket2::{Domain, Protocol, Socket, Type};

use crate::ground::{Cluster, lowered, model, nft, pod};
use crate::packets::{counted, is_silent, received, server};

/// Classes that are let in besides the first pod's.
const CLASSES: u32 = 8;

#[test]
fn neither_tos_nor_priority_chooses_a_class() {
    let Some(cluster) = Cluster::create(3) else { return };
    // The third is no pod of this cluster.
    let [first, second, outside] = cluster.pods.as_slice() else { panic!("three pods") };
    let model = model(&manifests());
    let ruleset = lowered(&model, BTreeMap::new(), &mut Ids::default());
    let classes: BTreeSet<u32> = ruleset.data["class4"].elements.values().copied().collect();
    // A TOS comes to a priority below 16.
    assert!(classes.len() > 7 && classes.iter().all(|it| *it >= 16), "{classes:?}");
    cluster.node.run(|| Nftables::open().unwrap().load(&ruleset)).unwrap().unwrap();
    let watch = "table inet watch {
        chain postrouting {
            type filter hook postrouting priority 0; policy accept;
            udp dport 5000 counter comment \"all\"
            udp dport 5000 meta priority != 0:0 counter comment \"with a priority\"
        }
    }";
    let watched = cluster.node.run(|| nft(&["-f", "-"], watch)).unwrap().is_some();
    let [address, _] = second.addresses;
    let servers = [5000, 5001].map(|port| server(&second.namespace, SocketAddr::new(address, port)));
    let [inside, outside] =
        [first, outside].map(|it| it.namespace.run(|| Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap()).unwrap());
    let mut sent = 0;
    let priorities: Vec<u32> = (0..=7).chain(classes).collect();
    for (tos, priority) in (0..=255).step_by(4).flat_map(|tos| priorities.iter().map(move |priority| (tos, *priority))) {
        for socket in [&inside, &outside] {
            // A TOS brings a priority of its own, so that comes first.
            socket.set_tos_v4(tos).unwrap();
            socket.set_priority(priority).unwrap();
        }
        let text = format!("tos {tos} priority {priority}");
        send(&outside, "from outside", address, 5000);
        send(&inside, "to another port", address, 5001);
        send(&inside, &text, address, 5000);
        assert_eq!(received(&servers[0]), text);
        sent += 1;
    }
    assert!(servers.iter().all(is_silent));
    if watched {
        let count = |comment| counted(&cluster.node, "watch", "postrouting", comment);
        assert_eq!((count("all"), count("with a priority")), (Some(sent), Some(0)));
    }
}

fn send(socket: &Socket, text: &str, to: IpAddr, port: u16) {
    assert_eq!(socket.send_to(text.as_bytes(), &SocketAddr::new(to, port).into()).unwrap(), text.len());
}

/// Two pods, and others that are only known of; all but the second may send to port 5000 of the second.
fn manifests() -> String {
    let mut text = pod("p1", &["10.1.0.1"]) + &pod("p2", &["10.1.0.2"]);
    let mut from = "    - podSelector: {matchLabels: {app: p1}}\n".to_owned();
    for number in 0..CLASSES {
        text += &pod(&format!("other{number}"), &[&format!("10.2.0.{number}")]);
        from += &format!("    - podSelector: {{matchLabels: {{app: other{number}}}}}\n");
    }
    text + "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: x, name: in}
spec:
  podSelector: {matchLabels: {app: p2}}
  policyTypes: [Ingress]
  ingress:
  - ports: [{protocol: UDP, port: 5000}]
    from:
" + &from
}
