//! Addresses of links.

use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::Links;
use crate::error::{Attempt, KernelError, NetworkObject};

/// An address of a link, with the length of its network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkAddress {
    pub link: String,
    pub address: IpNet,
}

impl Links {
    /// Adds an address that can be used at once: nobody is asked whether an IPv6 address is free.
    pub fn add_address(&mut self, link: &str, address: IpNet) -> Result<(), KernelError> {
        let message = self.address(link, address)?;
        let message = RouteNetlinkMessage::NewAddress(message);
        self.change(Attempt::Add, object(link, address), message, NLM_F_CREATE | NLM_F_EXCL)
    }

    pub fn delete_address(&mut self, link: &str, address: IpNet) -> Result<(), KernelError> {
        let message = RouteNetlinkMessage::DelAddress(self.address(link, address)?);
        self.change(Attempt::Delete, object(link, address), message, 0)
    }

    /// All addresses of both families, those that the kernel gave by itself among them.
    pub fn addresses(&mut self) -> Result<Vec<LinkAddress>, KernelError> {
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
