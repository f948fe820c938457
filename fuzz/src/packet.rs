//! Packets that may be cut anywhere: none makes the reader panic, and more of a packet never contradicts less of it.

use std::collections::BTreeMap;

use palisade_agent::{Book, Denial, Names, Unreadable};
use palisade_model::Model;

const PREFIX: &str = "palisade:00000001 ";

/// An input is a packet from its IP header on.
pub(crate) fn check(data: &[u8]) {
    let names = Names::of(&Model::default(), &BTreeMap::new());
    let read = |length: usize| Book::read(data.get(..length).unwrap_or(data), PREFIX, &names);
    let whole = read(data.len());
    let mut before: Result<Denial, Unreadable> = Err(Unreadable::CutShort);
    for length in 0..=data.len().min(512) {
        let now = read(length);
        match (&before, &now) {
            (Ok(before), Ok(now)) => never_contradicts(before, now),
            (Ok(_), Err(unreadable)) => panic!("could be read with one byte less than {length}: {unreadable}"),
            (Err(_), _) => {}
        }
        before = now;
    }
    if let Ok(denial) = whole {
        assert_eq!((denial.source.address.to_string(), denial.destination.address.to_string()), plain(data));
        drop(denial.report());
    }
}

/// Ends stay, and so do ports and types once they are known.
fn never_contradicts(less: &Denial, more: &Denial) {
    assert_eq!((&less.source, &less.destination), (&more.source, &more.destination));
    assert!(less.port.is_none() || (less.source_port, less.port) == (more.source_port, more.port), "{less:?}\n{more:?}");
    assert!(less.icmp.is_none() || less.icmp == more.icmp, "{less:?}\n{more:?}");
}

/// Both addresses, read without any care.
fn plain(data: &[u8]) -> (String, String) {
    let at = |first: usize, length: usize| data.get(first..first + length).expect("it was read");
    let four = |first| std::net::Ipv4Addr::from(<[u8; 4]>::try_from(at(first, 4)).expect("four bytes")).to_string();
    let six = |first| std::net::Ipv6Addr::from(<[u8; 16]>::try_from(at(first, 16)).expect("sixteen bytes")).to_string();
    match data.first().map(|it| it >> 4) {
        Some(4) => (four(12), four(16)),
        _ => (six(8), six(24)),
    }
}
