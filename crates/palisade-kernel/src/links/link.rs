//! Links: made, joined, switched on, listed.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, AsRawFd as _};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoBridgePort, InfoData, InfoKind, InfoPortData, InfoPortKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use nix::errno::Errno;

use super::Links;
use crate::error::{Attempt, KernelError, NetworkObject};
use crate::namespace::Namespace;

/// The longest name of a link, in bytes.
const NAME: usize = 15;

/// A link as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    /// `veth`, `bridge` and the like. Loopback and hardware have none.
    pub kind: Option<String>,
    pub state: LinkState,
    /// The index of the bridge that this is a port of.
    pub master: Option<u32>,
    pub hardware: Option<[u8; 6]>,
}

/// Whether a link can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// It was not set up.
    Down,
    /// It was set up, and has no other end that was, or the kernel is not done yet: what is sent now is lost.
    Waiting,
    Running,
}

impl Links {
    /// Adds a link here and its other end right inside another namespace.
    pub fn add_veth(&mut self, name: &str, peer: &str, peer_in: &Namespace) -> Result<(), KernelError> {
        let mut other = named(peer)?;
        other.attributes.push(LinkAttribute::NetNsFd(peer_in.as_fd().as_raw_fd()));
        let data = InfoData::Veth(InfoVeth::Peer(other));
        let message = with_info(named(name)?, vec![LinkInfo::Kind(InfoKind::Veth), LinkInfo::Data(data)]);
        let object = NetworkObject::Veth { name: name.to_owned(), peer: peer.to_owned() };
        self.change(Attempt::Add, object, RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    pub fn add_bridge(&mut self, name: &str) -> Result<(), KernelError> {
        let message = with_info(named(name)?, vec![LinkInfo::Kind(InfoKind::Bridge)]);
        self.change(Attempt::Add, link(name), RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Makes a link a port of a bridge, which also sends frames back to where they came from: a Service may lead a pod to itself.
    pub fn attach(&mut self, name: &str, bridge: &str) -> Result<(), KernelError> {
        let master = self.index(bridge)?;
        let mut message = named(name)?;
        message.attributes.push(LinkAttribute::Controller(master));
        let object = NetworkObject::Port { name: name.to_owned(), bridge: bridge.to_owned() };
        self.change(Attempt::Change, object.clone(), RouteNetlinkMessage::SetLink(message), 0)?;
        let back = InfoPortData::BridgePort(vec![InfoBridgePort::HairpinMode(true)]);
        let message = with_info(named(name)?, vec![LinkInfo::PortKind(InfoPortKind::Bridge), LinkInfo::PortData(back)]);
        self.change(Attempt::Change, object, RouteNetlinkMessage::NewLink(message), 0)
    }

    pub fn set_up(&mut self, name: &str) -> Result<(), KernelError> {
        let mut message = named(name)?;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.change(Attempt::Change, link(name), RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Deletes a link, and with a veth its other end.
    pub fn delete(&mut self, name: &str) -> Result<(), KernelError> {
        self.change(Attempt::Delete, link(name), RouteNetlinkMessage::DelLink(named(name)?), 0)
    }

    /// All links, by index.
    pub fn list(&mut self) -> Result<Vec<Link>, KernelError> {
        let replies = self.all("links", &RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
        let mut links = Vec::new();
        for reply in replies {
            if let RouteNetlinkMessage::NewLink(message) = reply {
                links.push(read(message)?);
            }
        }
        links.sort_by_key(|it| it.index);
        Ok(links)
    }

    /// One link.
    ///
    /// A veth runs some time after its second end was set up. From Linux 6.8 on the kernel ends that wait before it answers this, so
    /// after a look at the end that was set up first nothing is lost.
    pub fn link(&mut self, name: &str) -> Result<Link, KernelError> {
        let reply = self.find(link(name), RouteNetlinkMessage::GetLink(named(name)?))?;
        if let RouteNetlinkMessage::NewLink(message) = reply {
            read(message)
        } else {
            Err(KernelError::Truncated(format!("message {} is no link", reply.message_type())))
        }
    }

    /// The number that a link has now.
    pub(super) fn index(&mut self, name: &str) -> Result<u32, KernelError> {
        Ok(self.link(name)?.index)
    }

    /// The names of all links, by index.
    pub(super) fn names(&mut self) -> Result<BTreeMap<u32, String>, KernelError> {
        Ok(self.list()?.into_iter().map(|it| (it.index, it.name)).collect())
    }
}

fn link(name: &str) -> NetworkObject {
    NetworkObject::Link(name.to_owned())
}

/// A message about the link of that name. The kernel would complete an empty name, or one with a `%`, by itself.
fn named(name: &str) -> Result<LinkMessage, KernelError> {
    let odd = |it: char| it.is_whitespace() || it.is_control() || ['/', ':', '%'].contains(&it);
    if name.is_empty() || name.len() > NAME || [".", ".."].contains(&name) || name.contains(odd) {
        return Err(KernelError::refused(Attempt::Find, link(name), Errno::EINVAL));
    }
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::IfName(name.to_owned()));
    Ok(message)
}

fn with_info(mut message: LinkMessage, info: Vec<LinkInfo>) -> LinkMessage {
    message.attributes.push(LinkAttribute::LinkInfo(info));
    message
}

#[expect(clippy::wildcard_enum_match_arm, reason = "attributes are the kernel's, and a new one adds to them")]
fn read(message: LinkMessage) -> Result<Link, KernelError> {
    let flags = message.header.flags;
    let state = match (flags.contains(LinkFlags::Up), flags.contains(LinkFlags::Running)) {
        (false, _) => LinkState::Down,
        (true, false) => LinkState::Waiting,
        (true, true) => LinkState::Running,
    };
    let (mut name, mut kind, mut master, mut hardware) = (None, None, None, None);
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(it) => name = Some(it),
            LinkAttribute::Controller(it) => master = Some(it),
            LinkAttribute::Address(it) => hardware = it.try_into().ok(),
            LinkAttribute::LinkInfo(info) => {
                kind = info.iter().find_map(|it| if let LinkInfo::Kind(kind) = it { Some(kind.to_string()) } else { None });
            }
            _ => {}
        }
    }
    let name = name.ok_or_else(|| KernelError::Truncated(format!("link {} has no name", message.header.index)))?;
    Ok(Link { index: message.header.index, name, kind, state, master, hardware })
}
