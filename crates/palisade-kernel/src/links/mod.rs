//! The links of one network namespace, with their addresses, routes and neighbours.
//!
//! Links are named, never numbered: the kernel finds most of them by name itself, and where a request needs a number, it is looked up
//! right before. Nothing is remembered, so no number can be of a link that is gone.

mod address;
mod link;
mod neighbour;
mod route;

use std::net::IpAddr;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload, ParseableParametrized as _,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::errno::Errno;
use nix::sys::socket::SockProtocol;

use crate::channel::{Awaits, Channel, Ended, Reply};
use crate::error::{Attempt, KernelError, NetworkObject};

pub use address::LinkAddress;
pub use link::{Link, LinkState};
pub use route::{NextHop, Route};

/// How often a question is asked whose answer changes under way.
const ATTEMPTS: usize = 20;

/// The links of the network namespace that the thread was in when it opened this. It may be used from any thread afterwards, and keeps
/// the namespace alive.
#[derive(Debug)]
pub struct Links {
    channel: Channel,
}

impl Links {
    pub fn open() -> Result<Links, KernelError> {
        Ok(Links { channel: Channel::open(SockProtocol::NetlinkRoute)? })
    }

    /// Sends one request and waits until it is done.
    fn change(&mut self, attempt: Attempt, object: NetworkObject, message: RouteNetlinkMessage, flags: u16) -> Result<(), KernelError> {
        let sequence = self.send(message, NLM_F_ACK | flags)?;
        match self.channel.answer(sequence, Awaits::End)? {
            Ended::Complete(_) => Ok(()),
            Ended::Refused(errno) => Err(KernelError::refused(attempt, object, errno)),
            Ended::Interrupted => Err(KernelError::refused(attempt, object, Errno::EINTR)),
        }
    }

    /// Asks for one thing.
    fn find(&mut self, object: NetworkObject, message: RouteNetlinkMessage) -> Result<RouteNetlinkMessage, KernelError> {
        let sequence = self.send(message, 0)?;
        match self.channel.answer(sequence, Awaits::One)? {
            Ended::Complete(replies) => match replies.first() {
                Some(reply) => read(reply),
                None => Err(KernelError::Truncated(format!("nothing about {object}"))),
            },
            Ended::Refused(errno) => Err(KernelError::refused(Attempt::Find, object, errno)),
            Ended::Interrupted => Err(KernelError::refused(Attempt::Find, object, Errno::EINTR)),
        }
    }

    /// Asks for all things of a kind, again and again until they are of one state.
    fn all(&mut self, what: &'static str, message: &RouteNetlinkMessage) -> Result<Vec<RouteNetlinkMessage>, KernelError> {
        let replies = steady(what, || {
            let sequence = self.send(message.clone(), NLM_F_DUMP)?;
            self.channel.answer(sequence, Awaits::End)
        })?;
        replies.iter().map(read).collect()
    }

    fn send(&mut self, message: RouteNetlinkMessage, flags: u16) -> Result<u32, KernelError> {
        let sequence = self.channel.next();
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.channel.send(&bytes)?;
        Ok(sequence)
    }
}

/// The first answer that is of one state.
fn steady(what: &'static str, mut ask: impl FnMut() -> Result<Ended, KernelError>) -> Result<Vec<Reply>, KernelError> {
    for _ in 0..ATTEMPTS {
        match ask()? {
            Ended::Complete(replies) => return Ok(replies),
            Ended::Refused(errno) => return Err(KernelError::refused(Attempt::Read, NetworkObject::All(what), errno)),
            Ended::Interrupted => {}
        }
    }
    Err(KernelError::UnsteadyNetwork { what, attempts: ATTEMPTS })
}

fn read((kind, payload): &Reply) -> Result<RouteNetlinkMessage, KernelError> {
    RouteNetlinkMessage::parse_with_param(payload, *kind).map_err(|odd| KernelError::Truncated(odd.to_string()))
}

fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks until there is an answer, and says how often.
    fn asked(mut answers: impl Iterator<Item = Ended>) -> (usize, Result<Vec<Reply>, KernelError>) {
        let mut times = 0;
        let result = steady("links", || {
            times += 1;
            Ok(answers.next().unwrap())
        });
        (times, result)
    }

    #[test]
    fn what_changed_under_way_is_asked_again() {
        let reply = || vec![(16, vec![1])];
        assert_eq!(asked([Ended::Interrupted, Ended::Interrupted, Ended::Complete(reply())].into_iter()), (3, Ok(reply())));
    }

    #[test]
    fn what_always_changes_is_given_up() {
        let unsteady = KernelError::UnsteadyNetwork { what: "links", attempts: ATTEMPTS };
        assert_eq!(asked(std::iter::repeat_with(|| Ended::Interrupted)), (ATTEMPTS, Err(unsteady)));
    }

    #[test]
    fn a_refusal_is_not_asked_again() {
        let (times, result) = asked(std::iter::once(Ended::Refused(Errno::EOPNOTSUPP)));
        assert_eq!(
            (times, result.unwrap_err().to_string().as_str()),
            (1, "cannot read the links: Operation not supported on transport endpoint")
        );
    }
}
