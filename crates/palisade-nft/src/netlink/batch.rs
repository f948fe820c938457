//! One transaction: messages between a begin and an end, with the object that each is about.

use palisade_netlink::{Header, Writer};

use crate::netlink::uapi::{BATCH_GENERATION, SUBSYSTEM, flag, message};
use crate::object::{Object, Unwritable};

/// A transaction in the making: messages about tables of one address family.
#[derive(Debug)]
pub struct Messages {
    writer: Writer,
    family: u8,
    first: u32,
    /// By sequence number, from `first` on.
    objects: Vec<Object>,
    /// Where the last message starts, and its flags.
    last: Option<(usize, u16)>,
    /// The first that did not fit.
    too_long: Option<Object>,
}

/// What a transaction takes the tables of the network namespace to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    Anything,
    /// As they were after the transaction of this number, or the kernel does nothing.
    Generation(u32),
}

/// A transaction that can be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    pub bytes: Vec<u8>,
    /// The sequence number of the first message.
    pub first: u32,
    /// By sequence number, from `first` on. The first stands for the transaction, the last is the one that is acknowledged.
    pub objects: Vec<Object>,
}

impl Messages {
    /// A transaction on tables of an address family (`NFPROTO_*`) whose messages are numbered from `first` on.
    pub fn new(family: u8, first: u32, expected: Expected) -> Messages {
        let mut writer = Writer::default();
        writer.message(limit(message::BATCH_BEGIN, first), |writer| match expected {
            Expected::Anything => {}
            Expected::Generation(generation) => writer.u32(BATCH_GENERATION, generation),
        });
        Messages { writer, family, first, objects: vec![Object::Batch], last: None, too_long: None }
    }

    /// Adds a message of a type with these flags; an error of the kernel about it names `object`.
    pub fn push(&mut self, object: Object, kind: u16, flags: u16, body: impl FnOnce(&mut Writer)) {
        let flags = flag::REQUEST | flags;
        self.last = Some((self.writer.len(), flags));
        let header = Header { kind, flags, sequence: self.next(), family: self.family, resource: 0 };
        self.writer.message(header, body);
        if self.writer.is_too_long() && self.too_long.is_none() {
            self.too_long = Some(object.clone());
        }
        self.objects.push(object);
    }

    /// Asks for an acknowledgement of the last message: the kernel answers errors of all of them anyway, and thousands of
    /// acknowledgements would not fit its queue.
    pub fn finish(mut self) -> Result<Encoded, Unwritable> {
        if let Some((start, flags)) = self.last {
            self.writer.set_flags(start, flags | flag::ACK);
        }
        let end = limit(message::BATCH_END, self.next());
        self.writer.message(end, |_| {});
        let object = self.too_long.unwrap_or(Object::Batch);
        let too_long = |_| Unwritable { object, what: "it is longer than a message can say".to_owned() };
        Ok(Encoded { bytes: self.writer.finish().map_err(too_long)?, first: self.first, objects: self.objects })
    }

    fn next(&self) -> u32 {
        // The objects of one transaction are far fewer than sequence numbers.
        self.first.wrapping_add(u32::try_from(self.objects.len()).unwrap_or(u32::MAX))
    }
}

fn limit(kind: u16, sequence: u32) -> Header {
    Header { kind, flags: flag::REQUEST, sequence, family: 0, resource: SUBSYSTEM }
}
