//! Routes: unicast, of the main table.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteNextHopFlags, RouteProtocol, RouteScope, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::Links;
use crate::error::{Attempt, KernelError, NetworkObject};

/// The way to a network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    pub to: IpNet,
    pub via: NextHop,
    pub link: String,
    /// The address that this host speaks from on this way, unless told otherwise.
    pub source: Option<IpAddr>,
}

/// Whom a packet is handed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NextHop {
    /// Its destination itself.
    Destination,
    /// A gateway that another route leads to.
    Gateway(IpAddr),
    /// A gateway that is taken to be on the link, whatever its address.
    OnLink(IpAddr),
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to)?;
        match self.via {
            NextHop::Destination => {}
            NextHop::Gateway(address) => write!(f, " via {address}")?,
            NextHop::OnLink(address) => write!(f, " via {address} on-link")?,
        }
        write!(f, " on `{}`", self.link)?;
        match self.source {
            Some(source) => write!(f, " from {source}"),
            None => Ok(()),
        }
    }
}

impl Links {
    pub fn add_route(&mut self, route: &Route) -> Result<(), KernelError> {
        let mut message = self.route(route)?;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = match (route.via, route.to) {
            (NextHop::Destination, IpNet::V4(_)) => RouteScope::Link,
            (NextHop::Destination, IpNet::V6(_)) | (NextHop::Gateway(_) | NextHop::OnLink(_), _) => RouteScope::Universe,
        };
        let message = RouteNetlinkMessage::NewRoute(message);
        self.change(Attempt::Add, NetworkObject::Route(route.clone()), message, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Deletes a route, whoever made it.
    pub fn delete_route(&mut self, route: &Route) -> Result<(), KernelError> {
        let mut message = self.route(route)?;
        message.header.scope = RouteScope::NoWhere;
        self.change(Attempt::Delete, NetworkObject::Route(route.clone()), RouteNetlinkMessage::DelRoute(message), 0)
    }

    /// All unicast routes of the main table, those that came with an address among them. One over several links is told once for each.
    pub fn routes(&mut self) -> Result<Vec<Route>, KernelError> {
        Ok(self.routes_by_metric()?.into_iter().map(|(_, it)| it).collect())
    }

    /// The same, each with its metric: of several to one destination the least counts.
    pub(crate) fn routes_by_metric(&mut self) -> Result<Vec<(u32, Route)>, KernelError> {
        let replies = self.all("routes", &RouteNetlinkMessage::GetRoute(RouteMessage::default()))?;
        let names = self.names()?;
        let mut routes = Vec::new();
        for reply in replies {
            let RouteNetlinkMessage::NewRoute(message) = reply else { continue };
            if is_listed(&message) {
                let metric = message.attributes.iter().find_map(|it| if let RouteAttribute::Priority(it) = it { Some(*it) } else { None });
                routes.extend(read(&message, &names)?.into_iter().map(|it| (metric.unwrap_or(0), it)));
            }
        }
        routes.sort_by(|(_, one), (_, other)| one.cmp(other));
        Ok(routes)
    }

    /// What adding and deleting have in common.
    fn route(&mut self, route: &Route) -> Result<RouteMessage, KernelError> {
        let mut message = RouteMessage::default();
        message.header.address_family = super::family(route.to.addr());
        message.header.destination_prefix_length = route.to.prefix_len();
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.kind = RouteType::Unicast;
        if route.to.prefix_len() > 0 {
            message.attributes.push(RouteAttribute::Destination(route.to.addr().into()));
        }
        match route.via {
            NextHop::Destination => {}
            NextHop::Gateway(address) => message.attributes.push(gateway(route.to, address)),
            NextHop::OnLink(address) => {
                message.header.flags = RouteFlags::Onlink;
                message.attributes.push(gateway(route.to, address));
            }
        }
        message.attributes.push(RouteAttribute::Oif(self.index(&route.link)?));
        if let Some(source) = route.source {
            message.attributes.push(RouteAttribute::PrefSource(source.into()));
        }
        Ok(message)
    }
}

/// A gateway may be of the other family.
fn gateway(to: IpNet, address: IpAddr) -> RouteAttribute {
    match (to, address) {
        (IpNet::V4(_), IpAddr::V4(_)) | (IpNet::V6(_), IpAddr::V6(_)) => RouteAttribute::Gateway(address.into()),
        (IpNet::V4(_), IpAddr::V6(address)) => RouteAttribute::Via(RouteVia::Inet6(address)),
        (IpNet::V6(_), IpAddr::V4(address)) => RouteAttribute::Via(RouteVia::Inet(address)),
    }
}

fn is_listed(message: &RouteMessage) -> bool {
    let header = &message.header;
    // The attribute has room for tables above 255, and is always there.
    let table = message.attributes.iter().find_map(|it| if let RouteAttribute::Table(it) = it { Some(*it) } else { None });
    [AddressFamily::Inet, AddressFamily::Inet6].contains(&header.address_family)
        && header.kind == RouteType::Unicast
        && table.unwrap_or_else(|| header.table.into()) == RouteHeader::RT_TABLE_MAIN.into()
}

/// The parts of a route that may differ from one of its links to the next.
#[derive(Clone, Copy, Default)]
struct Hop {
    link: Option<u32>,
    gateway: Option<IpAddr>,
}

fn read(message: &RouteMessage, names: &BTreeMap<u32, String>) -> Result<Vec<Route>, KernelError> {
    let odd = |what: &str| KernelError::Truncated(format!("a route with {what}"));
    let four = message.header.address_family == AddressFamily::Inet;
    let mut to = if four { IpAddr::from(Ipv4Addr::UNSPECIFIED) } else { IpAddr::from(Ipv6Addr::UNSPECIFIED) };
    let mut source = None;
    let mut hops = Vec::new();
    for attribute in &message.attributes {
        if let RouteAttribute::Destination(it) = attribute {
            to = ip(it).ok_or_else(|| odd("a destination other than an address"))?;
        } else if let RouteAttribute::PrefSource(it) = attribute {
            source = Some(ip(it).ok_or_else(|| odd("a source other than an address"))?);
        } else if let RouteAttribute::MultiPath(several) = attribute {
            for it in several {
                let hop = Hop { link: Some(it.interface_index), ..hop(&it.attributes) };
                hops.push((hop, it.flags.contains(RouteNextHopFlags::Onlink)));
            }
        }
    }
    if hops.is_empty() {
        hops.push((hop(&message.attributes), message.header.flags.contains(RouteFlags::Onlink)));
    }
    let to = IpNet::new(to, message.header.destination_prefix_length).map_err(|_| odd("a prefix that is too long"))?;
    let mut routes = Vec::new();
    for (hop, on_link) in hops {
        let index = hop.link.ok_or_else(|| odd("no link"))?;
        // A link that is gone by now has taken its routes along.
        let Some(link) = names.get(&index) else { continue };
        let via = match hop.gateway {
            None => NextHop::Destination,
            Some(gateway) if on_link => NextHop::OnLink(gateway),
            Some(gateway) => NextHop::Gateway(gateway),
        };
        routes.push(Route { to, via, link: link.clone(), source });
    }
    Ok(routes)
}

fn hop(attributes: &[RouteAttribute]) -> Hop {
    let mut hop = Hop::default();
    for attribute in attributes {
        if let RouteAttribute::Oif(index) = attribute {
            hop.link = Some(*index);
        } else if let RouteAttribute::Gateway(address) = attribute {
            hop.gateway = ip(address);
        } else if let RouteAttribute::Via(RouteVia::Inet6(address)) = attribute {
            hop.gateway = Some((*address).into());
        }
    }
    hop
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    if let RouteAddress::Inet(it) = address {
        Some((*it).into())
    } else if let RouteAddress::Inet6(it) = address {
        Some((*it).into())
    } else {
        None
    }
}
