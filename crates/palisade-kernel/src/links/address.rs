//! Addresses of links.

use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, ParseableParametrized as _};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::errno::Errno;
use palisade_netlink::Message;

use super::{ATTEMPTS, Links};
use crate::channel::Ended;
use crate::error::{Attempt, KernelError, NetworkObject};

/// `RTMGRP_IPV6_IFADDR`.
const IPV6_ADDRESSES: u32 = 0x100;

/// An address of a link, with the length of its network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkAddress {
    pub link: String,
    pub address: IpNet,
}

impl Links {
    /// Adds an address that can be used at once: nobody is asked whether an IPv6 address is free, and neighbours that ask for it are
    /// heard.
    pub fn add_address(&mut self, link: &str, address: IpNet) -> Result<(), KernelError> {
        let message = self.address(link, address)?;
        let index = message.header.index;
        let message = RouteNetlinkMessage::NewAddress(message);
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        match address {
            IpNet::V4(_) => self.change(Attempt::Add, object(link, address), message, flags),
            IpNet::V6(_) => {
                self.channel.hear(IPV6_ADDRESSES)?;
                let added = self.add_heard(index, object(link, address), address, message, flags);
                self.channel.hear(0)?;
                added
            }
        }
    }

    /// The kernel joins the group in which neighbours ask for an IPv6 address after it has acknowledged it, and then tells everyone.
    fn add_heard(
        &mut self,
        index: u32,
        object: NetworkObject,
        address: IpNet,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<(), KernelError> {
        let sequence = self.send(message, NLM_F_ACK | flags)?;
        let is_it = |message: &Message<'_>| {
            let told = RouteNetlinkMessage::parse_with_param(message.payload, message.kind);
            matches!(told, Ok(RouteNetlinkMessage::NewAddress(it)) if it.header.index == index && read(&it) == Ok(Some(address)))
        };
        match self.channel.hear_of(sequence, is_it)? {
            Ended::Complete(_) => Ok(()),
            Ended::Refused(errno) => Err(KernelError::refused(Attempt::Add, object, errno)),
            Ended::Interrupted => Err(KernelError::refused(Attempt::Add, object, Errno::EINTR)),
        }
    }

    pub fn delete_address(&mut self, link: &str, address: IpNet) -> Result<(), KernelError> {
        let message = RouteNetlinkMessage::DelAddress(self.address(link, address)?);
        self.change(Attempt::Delete, object(link, address), message, 0)
    }

    /// All addresses of both families, those that the kernel gave by itself among them.
    pub fn addresses(&mut self) -> Result<Vec<LinkAddress>, KernelError> {
        for _ in 0..ATTEMPTS {
            let addresses = self.read_addresses()?;
            // An IPv6 address that comes while the kernel answers moves others along, so that one is told twice. It does not say so.
            if addresses.windows(2).all(|pair| pair.first() != pair.last()) {
                return Ok(addresses);
            }
        }
        Err(KernelError::UnsteadyNetwork { what: "addresses", attempts: ATTEMPTS })
    }

    fn read_addresses(&mut self) -> Result<Vec<LinkAddress>, KernelError> {
        let replies = self.all("addresses", &RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
        let names = self.names()?;
        let mut addresses = Vec::new();
        for reply in replies {
            let RouteNetlinkMessage::NewAddress(message) = reply else { continue };
            // A link that is gone by now has taken its addresses along.
            let Some(link) = names.get(&message.header.index) else { continue };
            if let Some(address) = read(&message)? {
                addresses.push(LinkAddress { link: link.clone(), address });
            }
        }
        addresses.sort();
        Ok(addresses)
    }

    fn address(&mut self, link: &str, address: IpNet) -> Result<AddressMessage, KernelError> {
        let mut message = AddressMessage::default();
        message.header.index = self.index(link)?;
        message.header.prefix_len = address.prefix_len();
        message.header.family = super::family(address.addr());
        if address.addr().is_loopback() {
            message.header.scope = AddressScope::Host;
        }
        match address.addr() {
            IpAddr::V4(_) => {}
            IpAddr::V6(_) => message.header.flags = AddressHeaderFlags::Nodad,
        }
        message.attributes = vec![AddressAttribute::Local(address.addr()), AddressAttribute::Address(address.addr())];
        Ok(message)
    }
}

fn object(link: &str, address: IpNet) -> NetworkObject {
    NetworkObject::Address { link: link.to_owned(), address }
}

/// The link's own address: with a peer, `Address` is the peer's. None if it is of neither family of IP.
fn read(message: &AddressMessage) -> Result<Option<IpNet>, KernelError> {
    if ![AddressFamily::Inet, AddressFamily::Inet6].contains(&message.header.family) {
        return Ok(None);
    }
    let local = message.attributes.iter().find_map(|it| if let AddressAttribute::Local(it) = it { Some(*it) } else { None });
    let address = || message.attributes.iter().find_map(|it| if let AddressAttribute::Address(it) = it { Some(*it) } else { None });
    let odd = || KernelError::Truncated(format!("an address of link {} cannot be read", message.header.index));
    let address = local.or_else(address).ok_or_else(odd)?;
    IpNet::new(address, message.header.prefix_len).map(Some).map_err(|_| odd())
}
