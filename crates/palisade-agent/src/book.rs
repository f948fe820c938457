//! The book of denied packets: which were met before, and how many in all.
//!
//! A drop leaves no connection behind, so every retry of a client is another packet. The first packet of a connection is an event, and
//! what follows within a window is counted.

use std::collections::{BTreeMap, HashMap};
use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use palisade_nft::{AUDIT_PREFIX, LOG_PREFIX};

use crate::denial::Denial;
use crate::names::Names;
use crate::packet::{self, Tuple};

/// How much is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections that are remembered at one time. Beyond that the one whose event is the oldest is forgotten.
    pub tuples: NonZeroUsize,
    /// For so long after an event the packets of the same connection are only counted.
    pub window: Duration,
    /// Events of one origin that are told within a second. More are counted, and their number is told when the second is over.
    pub told: NonZeroU64,
}

/// Enough for a node under a flood, and little enough to keep.
impl Default for Limits {
    fn default() -> Limits {
        Limits {
            tuples: NonZeroUsize::MIN.saturating_add(65_535),
            window: Duration::from_secs(60),
            told: NonZeroU64::MIN.saturating_add(99),
        }
    }
}

/// Denied packets of one node.
#[derive(Debug)]
pub struct Book {
    limits: Limits,
    /// What the prefixes of its packets begin with.
    prefix: &'static str,
    entries: HashMap<Key, Entry>,
    /// The entries in the order of their last event.
    // INVARIANT: has one key for each entry, at the entry's `event`.
    events: BTreeMap<u64, Key>,
    /// How many events there were.
    noted: u64,
    rates: Rates,
    totals: Totals,
}

/// How many events of each origin were told within a second.
#[derive(Debug)]
pub(crate) struct Rates {
    limit: NonZeroU64,
    /// By the number of an origin, for as long as its second lasts.
    origins: BTreeMap<u32, Rate>,
}

/// The events of one origin within a second.
#[derive(Clone, Copy, Debug)]
struct Rate {
    since: Duration,
    told: u64,
    untold: u64,
}

/// Events of one origin within a second that were not told one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suppressed {
    /// The number of the origin.
    pub origin: u32,
    pub connections: u64,
}

const SECOND: Duration = Duration::from_secs(1);

/// A connection, and the number of what denied it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) tuple: Tuple,
    pub(crate) origin: u32,
}

/// What became of a packet, before it has names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    /// The first of its connection for a while, which has had so many.
    New(Key, u64),
    Repeated,
    Unreadable(Unreadable),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    packets: u64,
    /// Which of all events was its last one.
    event: u64,
    /// When that was.
    at: Duration,
}

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    New(Box<Denial>),
    /// Counted.
    Repeated,
    /// An event like `New`, and too many of its origin were told in this second. Counted.
    Suppressed,
    Unreadable(Unreadable),
}

/// Why a packet cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("its prefix is not of Palisade's making")]
    Prefix,
    #[error("it is cut short within its IP header")]
    CutShort,
    #[error("it is no IP packet")]
    NotIp,
}

/// All packets since the book was begun: `packets` is the sum of `events`, `suppressed`, `repeated` and `unreadable`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// That were taken.
    pub packets: u64,
    pub events: u64,
    /// Events that were told by their number only.
    pub suppressed: u64,
    pub repeated: u64,
    pub unreadable: u64,
    /// That were logged but never came.
    pub lost: u64,
    /// Connections that made room for others; a later packet of one is an event again, and its count starts anew.
    pub forgotten: u64,
}

impl Totals {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Totals) -> Totals {
        Totals {
            packets: self.packets + other.packets,
            events: self.events + other.events,
            suppressed: self.suppressed + other.suppressed,
            repeated: self.repeated + other.repeated,
            unreadable: self.unreadable + other.unreadable,
            lost: self.lost + other.lost,
            forgotten: self.forgotten + other.forgotten,
        }
    }
}

impl Book {
    pub fn new(limits: Limits) -> Book {
        Book {
            limits,
            prefix: LOG_PREFIX,
            entries: HashMap::new(),
            events: BTreeMap::new(),
            noted: 0,
            rates: Rates::new(limits),
            totals: Totals::default(),
        }
    }

    /// A book of packets that audited policies would treat otherwise.
    pub(crate) fn of_audits(limits: Limits) -> Book {
        Book { prefix: AUDIT_PREFIX, ..Book::new(limits) }
    }

    /// Takes a packet from its IP header on, with the prefix of the rule that logged it. `now` is the time since some start.
    pub fn take(&mut self, packet: &[u8], prefix: &str, names: &Names, now: Duration) -> Taken {
        match self.note(packet, prefix, now) {
            Noted::New(key, packets) if self.tells(key.origin, now) => Taken::New(Box::new(denial(key, packets, names))),
            Noted::New(..) => Taken::Suppressed,
            Noted::Repeated => Taken::Repeated,
            Noted::Unreadable(unreadable) => Taken::Unreadable(unreadable),
        }
    }

    /// Notes a packet without names, and without deciding whether it is told.
    pub(crate) fn note(&mut self, packet: &[u8], prefix: &str, now: Duration) -> Noted {
        self.totals.packets += 1;
        let key = match key_of(packet, prefix, self.prefix) {
            Ok(key) => key,
            Err(unreadable) => {
                self.totals.unreadable += 1;
                return Noted::Unreadable(unreadable);
            }
        };
        let packets = match self.entries.get_mut(&key) {
            Some(entry) => {
                entry.packets += 1;
                if now.saturating_sub(entry.at) < self.limits.window {
                    self.totals.repeated += 1;
                    return Noted::Repeated;
                }
                self.events.remove(&entry.event);
                entry.packets
            }
            None => {
                self.make_room();
                1
            }
        };
        let event = self.noted;
        self.noted += 1;
        self.entries.insert(key, Entry { packets, event, at: now });
        self.events.insert(event, key);
        Noted::New(key, packets)
    }

    /// Whether one more event of an origin is told within its second; it is counted in any case.
    fn tells(&mut self, origin: u32, now: Duration) -> bool {
        let tells = self.rates.tells(origin, now);
        *(if tells { &mut self.totals.events } else { &mut self.totals.suppressed }) += 1;
        tells
    }

    /// Ends the seconds that are over, and gives what was not told in them. Until that is asked for, a second goes on.
    pub fn settle(&mut self, now: Duration) -> Vec<Suppressed> {
        self.rates.settle(now)
    }

    /// Reads a packet without writing it down.
    pub fn read(packet: &[u8], prefix: &str, names: &Names) -> Result<Denial, Unreadable> {
        key_of(packet, prefix, LOG_PREFIX).map(|key| denial(key, 1, names))
    }

    /// Counts packets that never came.
    pub fn lost(&mut self, packets: u64) {
        self.totals.lost += packets;
    }

    pub fn totals(&self) -> Totals {
        self.totals
    }

    fn make_room(&mut self) {
        if self.entries.len() < self.limits.tuples.get() {
            return;
        }
        if let Some((_, oldest)) = self.events.pop_first() {
            self.entries.remove(&oldest);
            self.totals.forgotten += 1;
        }
    }
}

impl Rates {
    pub(crate) fn new(limits: Limits) -> Rates {
        Rates { limit: limits.told, origins: BTreeMap::new() }
    }

    /// Whether one more event of an origin is told within its second.
    pub(crate) fn tells(&mut self, origin: u32, now: Duration) -> bool {
        let rate = self.origins.entry(origin).or_insert(Rate { since: now, told: 0, untold: 0 });
        let tells = rate.told < self.limit.get();
        *(if tells { &mut rate.told } else { &mut rate.untold }) += 1;
        tells
    }

    /// Ends the seconds that are over, and gives the events that were not told in them.
    pub(crate) fn settle(&mut self, now: Duration) -> Vec<Suppressed> {
        let mut settled = Vec::new();
        self.origins.retain(|origin, rate| {
            // A second that begins in the future was begun by a clock that has been set back.
            let lasts = now.checked_sub(rate.since).is_some_and(|it| it < SECOND);
            if !lasts && rate.untold > 0 {
                settled.push(Suppressed { origin: *origin, connections: rate.untold });
            }
            lasts
        });
        settled
    }

    /// When the first second ends in which events were not told.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.origins.values().filter(|it| it.untold > 0).map(|it| it.since + SECOND).min()
    }
}

pub(crate) fn key_of(packet: &[u8], prefix: &str, begins: &str) -> Result<Key, Unreadable> {
    let origin = number(prefix, begins).ok_or(Unreadable::Prefix)?;
    Ok(Key { tuple: packet::read(packet)?, origin })
}

/// The number after `LOG_PREFIX`.
pub(crate) fn origin(prefix: &str) -> Option<u32> {
    number(prefix, LOG_PREFIX)
}

/// The number after the beginning of a prefix.
fn number(prefix: &str, begins: &str) -> Option<u32> {
    let digits = prefix.strip_prefix(begins)?.strip_suffix(' ')?;
    // A sign would be read as well.
    let plain = digits.len() == 8 && digits.bytes().all(|it| it.is_ascii_hexdigit());
    if plain { u32::from_str_radix(digits, 16).ok() } else { None }
}

pub(crate) fn denial(Key { tuple, origin }: Key, count: u64, names: &Names) -> Denial {
    let by = names.origin(origin);
    Denial {
        source: names.source(tuple.source, &by),
        by,
        destination: names.side(tuple.destination),
        protocol: tuple.protocol,
        source_port: tuple.ports.map(|(source, _)| source),
        port: tuple.ports.map(|(_, destination)| destination),
        icmp: tuple.icmp,
        count,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use palisade_model::{Direction, Model, Reason};
    use palisade_nft::Origin;
    use proptest::prelude::*;

    use super::*;
    use crate::denial::{DeniedBy, Name, Side};

    fn book(tuples: usize) -> Book {
        Book::new(Limits { tuples: NonZeroUsize::new(tuples).unwrap(), window: 10 * SECOND, told: NonZeroU64::MAX })
    }

    /// UDP from 10.0.0.1 to 10.0.0.2 port 53.
    fn packet(source_port: u16) -> Vec<u8> {
        let [a, b] = source_port.to_be_bytes();
        vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, a, b, 0, 53, 0, 8, 0, 0]
    }

    fn prefix(origin: u32) -> String {
        format!("{LOG_PREFIX}{origin:08x} ")
    }

    fn names() -> Names {
        let origin = Origin::Policy { direction: Direction::Ingress, reason: Reason::Isolated(Vec::new()) };
        Names::of(&Model::default(), &BTreeMap::from([(7, origin)]))
    }

    /// The count of an event, and nothing for a repetition.
    fn count(taken: Taken) -> Option<u64> {
        match taken {
            Taken::New(denial) => Some(denial.count),
            Taken::Repeated => None,
            Taken::Suppressed => panic!("it was not told"),
            Taken::Unreadable(unreadable) => panic!("{unreadable}"),
        }
    }

    #[test]
    fn the_first_packet_of_a_connection_is_an_event() {
        let mut book = book(10);
        let side = |address: &str| Side { address: address.parse().unwrap(), name: Name::Outside };
        let expected = Denial {
            by: DeniedBy::Policy { direction: Direction::Ingress, reason: Reason::Isolated(Vec::new()) },
            source: side("10.0.0.1"),
            destination: side("10.0.0.2"),
            protocol: 17,
            source_port: Some(4000),
            port: Some(53),
            icmp: None,
            count: 1,
        };
        assert_eq!(book.take(&packet(4000), &prefix(7), &names(), SECOND), Taken::New(Box::new(expected)));
        assert_eq!(book.take(&packet(4000), &prefix(7), &names(), SECOND), Taken::Repeated);
        // Another connection, and the same one denied by something else.
        assert_eq!(count(book.take(&packet(4001), &prefix(7), &names(), SECOND)), Some(1));
        assert_eq!(count(book.take(&packet(4000), &prefix(8), &names(), SECOND)), Some(1));
        book.lost(5);
        assert_eq!(book.totals(), Totals { packets: 4, events: 3, repeated: 1, lost: 5, ..Totals::default() });
    }

    #[test]
    fn after_the_window_there_is_an_event_with_all_packets_so_far() {
        let mut book = book(10);
        let mut at = |seconds| count(book.take(&packet(1), &prefix(7), &names(), seconds * SECOND));
        assert_eq!([5, 6, 14, 15, 16, 24, 25].map(&mut at), [Some(1), None, None, Some(4), None, None, Some(7)]);
        // A clock that goes back makes no event.
        assert_eq!([3, 34, 35].map(at), [None, None, Some(10)]);
    }

    #[test]
    fn what_is_not_told_is_counted_by_origin_and_second() {
        let told = NonZeroU64::new(2).unwrap();
        let mut book = Book::new(Limits { told, ..Limits::default() });
        let names = names();
        let take = |book: &mut Book, port, origin, tenths| match book.take(&packet(port), &prefix(origin), &names, tenths * SECOND / 10) {
            Taken::New(_) => "told",
            Taken::Suppressed => "counted",
            Taken::Repeated => "repeated",
            Taken::Unreadable(unreadable) => panic!("{unreadable}"),
        };
        assert_eq!([1, 2, 3, 4].map(|it| take(&mut book, it, 7, 0)), ["told", "told", "counted", "counted"]);
        // One that was only counted is known, and another origin has a second of its own.
        assert_eq!((take(&mut book, 3, 7, 5), take(&mut book, 1, 8, 5)), ("repeated", "told"));
        assert_eq!(book.settle(SECOND * 9 / 10), []);
        assert_eq!(book.settle(SECOND), [Suppressed { origin: 7, connections: 2 }]);
        assert_eq!([5, 6, 7].map(|it| take(&mut book, it, 7, 10)), ["told", "told", "counted"]);
        assert_eq!(book.settle(Duration::MAX).iter().map(|it| it.connections).sum::<u64>(), 1);
        assert!(book.settle(Duration::MAX).is_empty());
        assert_eq!(book.totals(), Totals { packets: 9, events: 5, suppressed: 3, repeated: 1, ..Totals::default() });
    }

    #[test]
    fn an_origin_that_is_not_known_is_said() {
        let taken = book(1).take(&packet(1), &prefix(0xfedc_ba98), &names(), SECOND);
        assert!(matches!(taken, Taken::New(denial) if denial.by == DeniedBy::Unknown(0xfedc_ba98)));
    }

    #[test]
    fn the_oldest_event_makes_room() {
        let mut book = book(2);
        let mut at = |port, seconds| count(book.take(&packet(port), &prefix(7), &names(), seconds * SECOND));
        assert_eq!([at(1, 0), at(2, 1), at(1, 2)], [Some(1), Some(1), None]);
        // The window of 1 is over: its event is the newer one, so 2 leaves, and only then 1.
        assert_eq!([at(1, 10), at(3, 11), at(1, 12), at(2, 13)], [Some(3), Some(1), None, Some(1)]);
        assert_eq!([at(1, 14), at(2, 15)], [Some(1), None]);
        assert_eq!((book.totals().forgotten, book.entries.len(), book.events.len()), (3, 2, 2));
    }

    #[test]
    fn a_prefix_of_somebody_else_is_unreadable() {
        for prefix in ["", "palisade:", "palisade:0000002a", "palisade:2a ", "palisade:+000002a ", "palisade:0000002g ", "other:0000002a "]
        {
            let mut book = book(1);
            assert_eq!(book.take(&packet(1), prefix, &names(), SECOND), Taken::Unreadable(Unreadable::Prefix), "{prefix}");
            assert_eq!(book.totals(), Totals { packets: 1, unreadable: 1, ..Totals::default() });
        }
    }

    /// Some packets that are whole, some that are cut, and some that are anything.
    fn any_packet() -> impl Strategy<Value = Vec<u8>> {
        let cut = (0u16..4, 0usize..=28).prop_map(|(port, length)| packet(port)[..length].to_vec());
        prop_oneof![(0u16..4).prop_map(packet), cut, prop::collection::vec(any::<u8>(), 0..80)]
    }

    fn any_prefix() -> impl Strategy<Value = String> {
        prop_oneof![4 => (6u32..9).prop_map(prefix), 1 => any::<String>()]
    }

    proptest! {
        #[test]
        fn every_packet_is_an_event_repeated_or_unreadable(
            packets in prop::collection::vec((any_packet(), any_prefix(), 0u64..4), 0..200),
            tuples in 1usize..6,
        ) {
            let (mut book, names, mut now) = (book(tuples), names(), Duration::ZERO);
            let (mut counted, mut expected) = (Totals::default(), Totals::default());
            // The same book, kept plainly: connections by their last event, the oldest first.
            let mut model: VecDeque<(Key, u64, Duration)> = VecDeque::new();
            for (packet, prefix, seconds) in &packets {
                now += SECOND * u32::try_from(*seconds).unwrap();
                counted.packets += 1;
                expected.packets += 1;
                let met = key_of(packet, prefix, LOG_PREFIX).map(|key| match model.iter().position(|it| it.0 == key) {
                    Some(at) if now - model[at].2 < 10 * SECOND => {
                        model[at].1 += 1;
                        None
                    }
                    Some(at) => {
                        let (_, packets, _) = model.remove(at).unwrap();
                        model.push_back((key, packets + 1, now));
                        Some(packets + 1)
                    }
                    None => {
                        if model.len() == tuples {
                            model.pop_front();
                            expected.forgotten += 1;
                        }
                        model.push_back((key, 1, now));
                        Some(1)
                    }
                });
                let taken = match book.take(packet, prefix, &names, now) {
                    Taken::New(denial) => { counted.events += 1; Ok(Some(denial.count)) }
                    Taken::Repeated => { counted.repeated += 1; Ok(None) }
                    Taken::Suppressed => { counted.suppressed += 1; Ok(None) }
                    Taken::Unreadable(unreadable) => { counted.unreadable += 1; Err(unreadable) }
                };
                prop_assert_eq!(taken, met);
            }
            let totals = book.totals();
            prop_assert_eq!(totals, Totals { forgotten: expected.forgotten, ..counted });
            prop_assert_eq!(totals.packets, totals.events + totals.repeated + totals.unreadable);
            prop_assert_eq!((book.entries.len(), book.events.len()), (model.len(), model.len()));
        }
    }
}
