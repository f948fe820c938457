//! One transaction on a table that is no ruleset, with the object that each message is about.

use palisade_netlink::{Header, Writer};
use palisade_nft::uapi::{SUBSYSTEM, flag, message};
use palisade_nft::{Encoded, Object};

use crate::error::KernelError;

/// Messages between a begin and an end.
#[derive(Debug)]
pub(crate) struct Transaction {
    writer: Writer,
    family: u8,
    first: u32,
    objects: Vec<Object>,
    /// Where the last message starts, and its flags.
    last: Option<(usize, u16)>,
}

impl Transaction {
    /// A transaction on tables of a family whose messages are numbered from `first` on.
    pub(crate) fn new(family: u8, first: u32) -> Transaction {
        let mut writer = Writer::default();
        writer.message(limit(message::BATCH_BEGIN, first), |_| {});
        Transaction { writer, family, first, objects: vec![Object::Batch], last: None }
    }

    pub(crate) fn push(&mut self, object: Object, kind: u16, flags: u16, body: impl FnOnce(&mut Writer)) {
        let flags = flag::REQUEST | flags;
        self.last = Some((self.writer.len(), flags));
        let header = Header { kind, flags, sequence: self.next(), family: self.family, resource: 0 };
        self.writer.message(header, body);
        self.objects.push(object);
    }

    /// Asks for an acknowledgement of the last message alone: errors of the others come anyway.
    pub(crate) fn finish(mut self) -> Result<Encoded, KernelError> {
        if let Some((start, flags)) = self.last {
            self.writer.set_flags(start, flags | flag::ACK);
        }
        let end = limit(message::BATCH_END, self.next());
        self.writer.message(end, |_| {});
        let too_long = |_| KernelError::Unwritable { object: Object::Batch, what: "it is longer than a message can say".to_owned() };
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
