//! Answers of the kernel about the table: none makes the decoder panic, and a ruleset that it reads is one that it would write.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use palisade_netlink::{Attributes, Message, Messages};
use palisade_nft::uapi::{element, message};
use palisade_nft::{
    At, CtState, Dump, Expected, Match, Packet, Rule, Ruleset, Shared, Transaction, counters, decode, encode, items, listed, trace,
};

/// An input is the messages of all answers, one after the other.
pub(crate) fn check(data: &[u8]) {
    let dump = gathered(Messages::of(data).map_while(Result::ok));
    for payload in &dump.sets {
        drop(listed(payload));
    }
    for payload in dump.elements.values().flatten() {
        drop(items(payload));
    }
    drop(counters(&dump.rules));
    let Ok(ruleset) = decode(&dump) else { return };
    walk(&ruleset);
    reads_back(&ruleset);
}

/// The answers as a dump. What has no name is left out, as the kernel would.
pub(crate) fn gathered<'a>(messages: impl Iterator<Item = Message<'a>>) -> Dump {
    let mut dump = Dump::default();
    for it in messages {
        let payload = it.payload.to_vec();
        let name = Attributes::of_payload(it.payload).and_then(|it| it.text(element::SET).map(str::to_owned));
        match (it.kind, name) {
            (message::NEW_TABLE, _) => dump.table = payload,
            (message::NEW_CHAIN, _) => dump.chains.push(payload),
            (message::NEW_RULE, _) => dump.rules.push(payload),
            (message::NEW_SET, Ok(name)) => {
                dump.elements.entry(name).or_default();
                dump.sets.push(payload);
            }
            (message::NEW_ELEMENTS, Ok(name)) => dump.elements.entry(name).or_default().push(payload),
            _ => {}
        }
    }
    dump
}

/// What is written is read back as it was, or it is said why it cannot be written.
pub(crate) fn reads_back(ruleset: &Ruleset) {
    // Sets without a name get one only in a kernel: those of all rules look the same here.
    if protocol_sets(ruleset) > 1 {
        return;
    }
    let Ok(encoded) = encode(&Transaction::load(ruleset), 1, Expected::Anything) else { return };
    let messages = Messages::of(&encoded.bytes).map(|it| it.expect("a message of ours"));
    let read = decode(&gathered(messages));
    assert_eq!(read, Ok(as_kept(ruleset)), "written as\n{ruleset:#?}");
}

fn protocol_sets(ruleset: &Ruleset) -> usize {
    let matches = ruleset.chains.values().flat_map(|it| &it.rules).flat_map(|it| &it.matches);
    let sets: BTreeMap<Vec<u8>, ()> = matches.filter_map(several).map(|it| (it, ())).collect();
    sets.len()
}

fn several(condition: &Match) -> Option<Vec<u8>> {
    let Match::Protocol(protocols) = condition else { return None };
    (protocols.len() != 1).then(|| {
        let mut sorted = protocols.clone();
        sorted.sort_unstable();
        sorted.dedup();
        sorted
    })
}

fn as_kept(ruleset: &Ruleset) -> Ruleset {
    let mut kept = Ruleset { origins: Shared::default(), ..ruleset.clone() };
    for chain in kept.chains.values_mut() {
        chain.rules = chain.rules.iter().map(Rule::as_kept).collect();
    }
    kept
}

/// A packet finds its way through any ruleset, or it is said that there is none.
pub(crate) fn walk(ruleset: &Ruleset) {
    let address = IpAddr::from(Ipv4Addr::new(10, 0, 0, 1));
    let link = || "pod1".to_owned();
    for at in [At::Forward, At::Input, At::Output, At::Ingress { link: link() }, At::Frame { link: link(), kind: 0x8100 }] {
        let packet = Packet {
            at,
            source: address,
            destination: address,
            protocol: 6,
            port: Some(80),
            source_port: Some(4000),
            state: CtState::New,
            priority: 0,
            from_link: None,
            to_link: None,
            source_is_local: false,
        };
        drop(trace(ruleset, &packet));
    }
}
