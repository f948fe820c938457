//! Three network namespaces in a row: client → router → server. Only the router has a ruleset.
//!
//! The client owns every address that calls, the server every one that is called; both by their loopback. Nothing has a name outside, so
//! nothing is left when the process ends, however it ends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context as _, Result};
use ipnet::IpNet;
use palisade_kernel::{KernelError, Links, Namespace, NextHop, Route, set_sysctl};
use palisade_model::Family;

use super::cluster::{CALLER_NETS, CALLERS, LOCAL, REMOTE_NETS, SERVER_NETS, local, remote};

/// The link of client and of server, and what the router calls the other end.
pub(super) const LINK: &str = "eth0";
const TO_CLIENT: &str = "client";
/// As links of pods are called by default, by the last of the names that are tried.
pub(super) const TO_SERVER: &str = "veth-server";
/// How many pods elsewhere call by IPv6: there every address of a loopback is one by itself.
pub(super) const CALLERS_V6: usize = 256;

#[derive(Debug)]
pub(super) struct Ground {
    pub(super) client: Namespace,
    pub(super) router: Namespace,
    pub(super) server: Namespace,
}

impl Ground {
    pub(super) fn create() -> Result<Ground> {
        let create = || Namespace::create().context("cannot make a network namespace (this needs root)");
        let ground = Ground { client: create()?, router: create()?, server: create()? };
        for namespace in [&ground.client, &ground.router, &ground.server] {
            namespace.run(|| SETTINGS.iter().try_for_each(|(name, value)| set_sysctl(name, value)))??;
        }
        ground.router.run(|| FORWARDING.iter().try_for_each(|(name, value)| set_sysctl(name, value)))??;
        ground.router.run(|| ground.set_up_router())??;
        let far = |it: usize| remote(it, Family::V6);
        let client_v6: Vec<IpAddr> = (0..CALLERS_V6).map(far).collect();
        let server_v6: Vec<IpAddr> = (CALLERS..LOCAL).map(|it| local(it, Family::V6)).collect();
        ground.client.run(|| set_up_end(1, &[(CALLER_NETS.0, 24), (REMOTE_NETS.0, 9)], &client_v6))??;
        ground.server.run(|| set_up_end(2, &[(SERVER_NETS.0, 24)], &server_v6))??;
        Ok(ground)
    }

    fn set_up_router(&self) -> Result<(), KernelError> {
        let mut links = Links::open()?;
        links.set_up("lo")?;
        for (number, link, end) in [(1, TO_CLIENT, &self.client), (2, TO_SERVER, &self.server)] {
            links.add_veth(link, LINK, end)?;
            addresses_of_link(&mut links, link, number, ROUTER)?;
        }
        for (number, link, nets) in
            [(1, TO_CLIENT, &[(CALLER_NETS, 24, 112), (REMOTE_NETS, 9, 64)][..]), (2, TO_SERVER, &[(SERVER_NETS, 24, 112)])]
        {
            let [gateway, gateway_v6] = on_link(number, END);
            for ((four, six), bits, bits_v6) in nets {
                route(&mut links, IpNet::new_assert((*four).into(), *bits), gateway, link)?;
                route(&mut links, IpNet::new_assert((*six).into(), *bits_v6), gateway_v6, link)?;
            }
        }
        Ok(())
    }
}

/// A loopback takes packets for every IPv4 address of its networks, and for single IPv6 addresses.
fn set_up_end(number: u8, nets: &[(Ipv4Addr, u8)], singles: &[IpAddr]) -> Result<(), KernelError> {
    let mut links = Links::open()?;
    links.set_up("lo")?;
    for (net, bits) in nets {
        links.add_address("lo", IpNet::new_assert(Ipv4Addr::from_bits(net.to_bits() | 1).into(), *bits))?;
    }
    singles.iter().try_for_each(|it| links.add_address("lo", IpNet::from(*it)))?;
    addresses_of_link(&mut links, LINK, number, END)?;
    let [gateway, gateway_v6] = on_link(number, ROUTER);
    route(&mut links, IpNet::new_assert(Ipv4Addr::UNSPECIFIED.into(), 0), gateway, LINK)?;
    route(&mut links, IpNet::new_assert(Ipv6Addr::UNSPECIFIED.into(), 0), gateway_v6, LINK)
}

/// Who has which address on a link.
const ROUTER: u8 = 1;
const END: u8 = 2;

fn on_link(number: u8, who: u8) -> [IpAddr; 2] {
    [Ipv4Addr::new(169, 254, number, who).into(), Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, u16::from(number), u16::from(who)).into()]
}

fn addresses_of_link(links: &mut Links, link: &str, number: u8, who: u8) -> Result<(), KernelError> {
    let [four, six] = on_link(number, who);
    links.add_address(link, IpNet::new_assert(four, 24))?;
    links.add_address(link, IpNet::new_assert(six, 64))?;
    links.set_up(link)
}

fn route(links: &mut Links, to: IpNet, gateway: IpAddr, link: &str) -> Result<(), KernelError> {
    links.add_route(&Route { to, via: NextHop::OnLink(gateway), link: link.to_owned(), source: None })
}

/// No waiting for duplicate addresses, and no check of the way back.
const SETTINGS: &[(&str, &str)] = &[
    ("net/ipv6/conf/all/accept_dad", "0"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    ("net/ipv6/conf/default/dad_transmits", "0"),
    ("net/ipv6/conf/default/accept_ra", "0"),
    ("net/ipv6/conf/all/disable_ipv6", "0"),
    ("net/ipv6/conf/default/disable_ipv6", "0"),
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
];

const FORWARDING: &[(&str, &str)] =
    &[("net/ipv4/ip_forward", "1"), ("net/ipv6/conf/all/forwarding", "1"), ("net/ipv4/conf/all/send_redirects", "0")];
