//! Datagrams of logged packets: none makes the reader panic, each packet is counted once, and what is written is read back.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use palisade_agent::{Book, Limits, Names};
use palisade_kernel::Logged;
use palisade_model::Model;
use palisade_netlink::{Header, Writer};

/// An input is a datagram.
pub(crate) fn check(data: &[u8]) {
    let names = Names::of(&Model::default(), &BTreeMap::new());
    let mut book = Book::new(Limits { tuples: NonZeroUsize::MIN, window: Duration::from_secs(1), ..Limits::default() });
    let mut count = 0;
    for logged in Logged::all_of(data).map_while(Result::ok) {
        count += 1;
        book.take(logged.payload, logged.prefix, &names, Duration::from_millis(count));
        reads_back(&logged);
    }
    let totals = book.totals();
    assert_eq!((totals.packets, totals.events + totals.suppressed + totals.repeated + totals.unreadable), (count, count));
}

/// A packet as the kernel tells of it.
fn reads_back(logged: &Logged<'_>) {
    let mut writer = Writer::default();
    let header = Header { kind: 4 << 8, flags: 0, sequence: 0, family: logged.family, resource: 0 };
    writer.message(header, |writer| {
        writer.bytes(1, &[0, 0, logged.hook, 0]);
        writer.text(10, logged.prefix);
        for (kind, number) in [(4, logged.input), (5, logged.output), (12, logged.sequence)] {
            if let Some(number) = number {
                writer.u32(kind, number);
            }
        }
        writer.bytes(9, logged.payload);
    });
    let Ok(bytes) = writer.finish() else { return };
    let read: Vec<Logged<'_>> = Logged::all_of(&bytes).map(|it| it.expect("a packet of ours")).collect();
    assert_eq!(read, [*logged]);
}
