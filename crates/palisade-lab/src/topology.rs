//! The network of a lab: namespaces and links, addresses and routes. Knows nothing of policy.
//!
//! Every node has one link to the fabric, which routes between them and holds every address of the outside. Addresses are single ones
//! with on-link routes, so that pods and nodes can have whatever addresses the manifests give them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use ipnet::IpNet;
use palisade_kernel::{KernelError, Links, Namespace, NextHop, Route, set_sysctl, sysctl};
use palisade_model::{Family, PodName};

use crate::plan::PodNetwork;

/// A node, as its pods know it.
const GATEWAY: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::new(169, 254, 1, 1)), IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1))];
/// The fabric, as the nodes know it.
const FABRIC: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::new(169, 254, 1, 2)), IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2))];
pub(crate) const BRIDGE: &str = "pods";
const UPLINK: &str = "uplink";
const POD_LINK: &str = "eth0";
/// What the node's end of a pod's link is called, before a number.
pub(crate) const LINK_OF_POD: &str = "pod";

/// A network namespace with its links.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) namespace: Namespace,
    links: Links,
}

/// What routes between nodes, and is the outside.
#[derive(Debug)]
pub(crate) struct Fabric {
    pub(crate) place: Place,
    outside: BTreeSet<IpAddr>,
    ports: usize,
}

/// Whether the outside has an address only now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Became {
    New,
    Before,
}

#[derive(Debug)]
pub(crate) struct NodePlace {
    pub(crate) place: Place,
    /// The fabric's link to it.
    port: String,
    addresses: Vec<IpAddr>,
    network: PodNetwork,
    /// Links given out so far: a name is never used again.
    links: usize,
}

#[derive(Debug)]
pub(crate) struct PodPlace {
    pub(crate) name: PodName,
    pub(crate) place: Place,
    /// The node's end of its link.
    pub(crate) link: String,
    pub(crate) addresses: Vec<IpAddr>,
    /// When it could send its first packet.
    pub(crate) up: Instant,
}

impl Place {
    fn create(settings: &[(&str, &str)]) -> Result<Place, KernelError> {
        let namespace = Namespace::create()?;
        let links = namespace.run(|| -> Result<Links, KernelError> {
            for (name, value) in settings {
                set_sysctl(name, value)?;
            }
            for (name, value) in WHERE_KNOWN {
                // Older kernels have these for the whole host only, and it is none of a lab's business.
                if sysctl(name).is_ok() {
                    set_sysctl(name, value)?;
                }
            }
            let mut links = Links::open()?;
            links.set_up("lo")?;
            Ok(links)
        })??;
        Ok(Place { namespace, links })
    }

    fn addresses(&mut self, link: &str, addresses: &[IpAddr]) -> Result<(), KernelError> {
        addresses.iter().try_for_each(|it| self.links.add_address(link, host(*it)))
    }

    /// The other end of a link, by the address that it is always found at.
    fn neighbour_is(&mut self, link: &str, own: [IpAddr; 2]) -> Result<(), KernelError> {
        let [four, six] = own;
        self.links.add_address(link, host(four))?;
        self.links.add_address(link, IpNet::new_assert(six, 64))?;
        self.links.set_up(link)
    }

    fn route(&mut self, to: IpNet, via: NextHop, link: &str, source: Option<IpAddr>) -> Result<(), KernelError> {
        self.links.add_route(&Route { to, via, link: link.to_owned(), source })
    }

    /// Sends all that has no other way by a gateway on a link.
    fn default_route(&mut self, gateway: [IpAddr; 2], link: &str, own: &[IpAddr]) -> Result<(), KernelError> {
        for (family, gateway) in [Family::V4, Family::V6].into_iter().zip(gateway) {
            if let Some(source) = of_family(own, family) {
                self.route(everything(family), NextHop::OnLink(gateway), link, Some(source))?;
            }
        }
        Ok(())
    }
}

impl Fabric {
    pub(crate) fn create() -> Result<Fabric, KernelError> {
        let place = Place::create(&[ANYBODY, ROUTER].concat())?;
        Ok(Fabric { place, outside: BTreeSet::new(), ports: 0 })
    }

    /// Gives the outside an address, if it does not have it.
    pub(crate) fn be(&mut self, address: IpAddr) -> Result<Became, KernelError> {
        if !self.outside.insert(address) {
            return Ok(Became::Before);
        }
        self.place.links.add_address("lo", host(address))?;
        Ok(Became::New)
    }

    /// Takes an address from the outside, for somebody in the cluster.
    fn be_not(&mut self, address: IpAddr) -> Result<(), KernelError> {
        if self.outside.remove(&address) { self.place.links.delete_address("lo", host(address)) } else { Ok(()) }
    }

    pub(crate) fn add_node(&mut self, addresses: Vec<IpAddr>, network: PodNetwork) -> Result<NodePlace, KernelError> {
        let bridge: &[(&str, &str)] = match network {
            PodNetwork::Routed => &[],
            PodNetwork::Bridged => BRIDGED,
        };
        let mut place = Place::create(&[ANYBODY, ROUTER, bridge].concat())?;
        self.ports += 1;
        let port = format!("node{}", self.ports);
        self.place.links.add_veth(&port, UPLINK, &place.namespace)?;
        self.place.neighbour_is(&port, FABRIC)?;
        place.addresses(UPLINK, &addresses)?;
        place.links.set_up(UPLINK)?;
        place.default_route(FABRIC, UPLINK, &addresses)?;
        for address in &addresses {
            self.be_not(*address)?;
            self.place.route(host(*address), NextHop::Destination, &port, None)?;
        }
        if network == PodNetwork::Bridged {
            place.links.add_bridge(BRIDGE)?;
            place.neighbour_is(BRIDGE, GATEWAY)?;
        }
        Ok(NodePlace { place, port, addresses, network, links: 0 })
    }

    pub(crate) fn add_pod(&mut self, node: &mut NodePlace, name: &PodName, addresses: Vec<IpAddr>) -> Result<PodPlace, KernelError> {
        let mut pod = Place::create(ANYBODY)?;
        node.links += 1;
        let link = format!("{LINK_OF_POD}{}", node.links);
        node.place.links.add_veth(&link, POD_LINK, &pod.namespace)?;
        let way = match node.network {
            PodNetwork::Routed => {
                node.place.neighbour_is(&link, GATEWAY)?;
                link.as_str()
            }
            PodNetwork::Bridged => {
                node.place.links.attach(&link, BRIDGE)?;
                node.place.links.set_up(&link)?;
                BRIDGE
            }
        };
        pod.addresses(POD_LINK, &addresses)?;
        let up = Instant::now();
        pod.links.set_up(POD_LINK)?;
        pod.default_route(GATEWAY, POD_LINK, &addresses)?;
        for address in &addresses {
            let of_node = of_family(&node.addresses, Family::of(*address));
            node.place.route(host(*address), NextHop::Destination, way, of_node)?;
            self.be_not(*address)?;
            if let Some(gateway) = of_node {
                self.place.route(host(*address), NextHop::OnLink(gateway), &node.port, None)?;
            }
        }
        Ok(PodPlace { name: name.clone(), place: pod, link, addresses, up })
    }

    /// Takes a pod's link and routes away. Its namespace goes with the value.
    pub(crate) fn remove_pod(&mut self, node: &mut NodePlace, pod: PodPlace) -> Result<(), KernelError> {
        for address in &pod.addresses {
            if let Some(gateway) = of_family(&node.addresses, Family::of(*address)) {
                let route = Route { to: host(*address), via: NextHop::OnLink(gateway), link: node.port.clone(), source: None };
                self.place.links.delete_route(&route)?;
            }
            if node.network == PodNetwork::Bridged {
                let source = of_family(&node.addresses, Family::of(*address));
                let route = Route { to: host(*address), via: NextHop::Destination, link: BRIDGE.to_owned(), source };
                node.place.links.delete_route(&route)?;
            }
        }
        node.place.links.delete(&pod.link)
    }

    /// Takes a node's link and routes away. Its namespace goes with the value.
    pub(crate) fn remove_node(&mut self, node: NodePlace) -> Result<(), KernelError> {
        self.place.links.delete(&node.port)
    }
}

/// On a bridge, the pods of one node speak to each other without the node: by a route for each.
///
/// The routes of a node's pods grow with the square of their number, which is why this is for small labs.
pub(crate) fn join_neighbours(pods: &mut [&mut PodPlace]) -> Result<(), KernelError> {
    let all: Vec<(PodName, Vec<IpAddr>)> = pods.iter().map(|it| (it.name.clone(), it.addresses.clone())).collect();
    for pod in pods {
        let known: BTreeSet<IpNet> =
            pod.place.links.routes()?.into_iter().filter(|it| it.via == NextHop::Destination).map(|it| it.to).collect();
        let others = all.iter().filter(|(name, _)| *name != pod.name).flat_map(|(_, addresses)| addresses);
        for address in others.filter(|it| !known.contains(&host(**it))) {
            let own = of_family(&pod.addresses, Family::of(*address));
            if own.is_some() {
                pod.place.route(host(*address), NextHop::Destination, POD_LINK, own)?;
            }
        }
    }
    Ok(())
}

/// Quick and plain: no waiting for duplicate addresses, no limit on the answers that probes wait for.
const ANYBODY: &[(&str, &str)] = &[
    ("net/ipv6/conf/all/accept_dad", "0"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    ("net/ipv6/conf/default/dad_transmits", "0"),
    ("net/ipv6/conf/default/accept_ra", "0"),
    ("net/ipv6/conf/default/disable_ipv6", "0"),
    ("net/ipv6/conf/all/disable_ipv6", "0"),
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/ipv4/icmp_ratelimit", "0"),
    ("net/ipv6/icmp/ratelimit", "0"),
    ("net/ipv4/ping_group_range", "0 2147483647"),
];

const WHERE_KNOWN: &[(&str, &str)] = &[("net/ipv4/icmp_msgs_per_sec", "1000000"), ("net/ipv4/icmp_msgs_burst", "100000")];

const ROUTER: &[(&str, &str)] = &[
    ("net/ipv4/ip_forward", "1"),
    ("net/ipv6/conf/all/forwarding", "1"),
    ("net/ipv4/conf/all/send_redirects", "0"),
    ("net/ipv4/conf/default/send_redirects", "0"),
];

/// Without these the pods of one bridge speak past every hook.
const BRIDGED: &[(&str, &str)] = &[("net/bridge/bridge-nf-call-iptables", "1"), ("net/bridge/bridge-nf-call-ip6tables", "1")];

fn host(address: IpAddr) -> IpNet {
    IpNet::from(address)
}

fn everything(family: Family) -> IpNet {
    match family {
        Family::V4 => IpNet::new_assert(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        Family::V6 => IpNet::new_assert(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0),
    }
}

fn of_family(addresses: &[IpAddr], family: Family) -> Option<IpAddr> {
    addresses.iter().copied().find(|it| Family::of(*it) == family)
}
