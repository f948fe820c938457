//! Neighbours: who is at which hardware address.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};

use super::Links;
use crate::error::{Attempt, KernelError, NetworkObject};

impl Links {
    /// Adds a neighbour that is never asked again, in place of what the kernel may have learnt.
    pub fn add_neighbour(&mut self, link: &str, address: IpAddr, hardware: [u8; 6]) -> Result<(), KernelError> {
        let mut message = NeighbourMessage::default();
        message.header.family = super::family(address);
        message.header.ifindex = self.index(link)?;
        message.header.state = NeighbourState::Permanent;
        let destination = match address {
            IpAddr::V4(address) => NeighbourAddress::Inet(address),
            IpAddr::V6(address) => NeighbourAddress::Inet6(address),
        };
        message.attributes = vec![NeighbourAttribute::Destination(destination), NeighbourAttribute::LinkLayerAddress(hardware.to_vec())];
        let object = NetworkObject::Neighbour { link: link.to_owned(), address };
        self.change(Attempt::Add, object, RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
    }
}
