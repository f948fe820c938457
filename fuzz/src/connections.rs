//! Answers about connections, and notifications: none makes a reader panic, and a connection that is read can be spoken of.

use std::collections::BTreeSet;

use palisade_kernel::{Changed, Connection, Tuple};
use palisade_netlink::{Messages, Writer};

/// An input is a datagram.
pub(crate) fn check(data: &[u8]) {
    let mut touched = BTreeSet::new();
    drop(Changed::all_of(data, &mut touched));
    for message in Messages::of(data).map_while(Result::ok) {
        if let Ok(connection) = Connection::read(message.payload) {
            reads_back(&connection);
        }
    }
}

/// Both tuples, in the words in which the kernel is asked to delete a connection.
fn reads_back(connection: &Connection) {
    let mut writer = Writer::default();
    for (kind, tuple, zone) in [(1, connection.original, connection.zone), (2, connection.reply, connection.reply_zone)] {
        writer.nest(kind, |writer| {
            Tuple::write(&tuple, writer);
            writer.bytes(3, &zone.to_be_bytes());
        });
        assert!(!tuple.to_string().is_empty());
    }
    for (kind, number) in [(12, connection.id), (3, connection.status.0), (8, connection.mark)] {
        writer.u32(kind, number);
    }
    let payload = [vec![0; 4], writer.finish().expect("short")].concat();
    assert_eq!(Connection::read(&payload).as_ref(), Ok(connection));
}
