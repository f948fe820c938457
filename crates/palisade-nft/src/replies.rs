//! Packets of connections that were cut and that the kernel would let pass all the same: the table `inet palisade-answers`.
//!
//! Conntrack takes a datagram for a reply if it goes the other way between the same two ports as one before it. And a segment in the middle of a
//! connection that conntrack does not know opens that connection anew, from its sender: what this node sends meets no other hook of ours.
//! One map for each family and kind of key has the packets that are dropped, each with the chain of what denies it. There they are counted and logged as
//! in the own table.

use std::collections::BTreeMap;

use crate::layout::Layout;
use crate::ruleset::{Address, Chain, Hook, Rule, Ruleset, Statement, Tuple, TupleKey, TupleMap};
use crate::unknown_pods::denied;

/// The replies that a node blocks, each with the origin that logged packets name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockedReplies {
    pub replies: BTreeMap<Tuple, u32>,
}

/// The first part of the names of chains that drop; the origin follows.
const DENIED: &str = "denied-";

impl BlockedReplies {
    /// The table. None without replies: an empty table would cost every packet a hook.
    pub fn ruleset(&self) -> Option<Ruleset> {
        if self.replies.is_empty() {
            return None;
        }
        let mut ruleset = Ruleset { layout: Layout::Unmarked, ..Ruleset::default() };
        let mut looks = Vec::new();
        for key in [TupleKey::Ports, TupleKey::Protocol] {
            for family in Address::BOTH {
                let name = map_name(family, key);
                let own = self.replies.iter().filter(|(it, _)| it.key() == key && Address::of(it.from().ip()) == family);
                let elements = own.map(|(tuple, origin)| (*tuple, chain_name(*origin))).collect();
                ruleset.tuples.insert(name.clone(), TupleMap { family, key, elements });
                looks.push(Rule { statements: vec![Statement::LookTuple { family, key, map: name }], ..Rule::default() });
            }
        }
        for (name, hook) in [("forward", Hook::Forward), ("output", Hook::Output)] {
            ruleset.chains.insert(name.to_owned(), Chain { hook: Some(hook), rules: looks.clone() });
        }
        for origin in self.replies.values() {
            let rules = || vec![Rule { statements: denied(*origin), ..Rule::default() }];
            ruleset.chains.entry(chain_name(*origin)).or_insert_with(|| Chain { hook: None, rules: rules() });
        }
        Some(ruleset)
    }

    /// The replies that a table of this kind blocks. One that goes to a chain without the name of an origin is left out.
    pub fn of(ruleset: &Ruleset) -> BlockedReplies {
        let origin = |chain: &str| chain.strip_prefix(DENIED).and_then(|it| u32::from_str_radix(it, 16).ok());
        let elements = ruleset.tuples.values().flat_map(|it| &it.elements);
        BlockedReplies { replies: elements.filter_map(|(tuple, chain)| Some((*tuple, origin(chain)?))).collect() }
    }
}

fn map_name(family: Address, key: TupleKey) -> String {
    let name = match key {
        TupleKey::Ports => "answers",
        TupleKey::Protocol => "protocols",
    };
    format!("{name}{}", family.digit())
}

fn chain_name(origin: u32) -> String {
    format!("{DENIED}{origin:08x}")
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::ruleset::CtState;
    use crate::trace::{At, Packet, trace};

    #[test]
    fn a_reply_that_is_blocked_is_dropped_with_its_origin_and_no_other_is() {
        let tuple = |from: &str, to: &str, protocol| Tuple::new(from.parse().unwrap(), to.parse().unwrap(), protocol);
        let blocked = [
            (tuple("10.0.0.1:53", "10.0.0.2:4000", 17), 7),
            (tuple("[fd00::1]:53", "[fd00::2]:4000", 6), 8),
            (tuple("10.0.0.1:53", "10.0.0.2:4000", 47), 7),
        ];
        let replies = BlockedReplies { replies: blocked.into() };
        let ruleset = replies.ruleset().unwrap();
        assert_eq!(BlockedReplies::of(&ruleset), replies);
        let fate = |at: At, tuple: Tuple, source_port: Option<u16>| {
            let packet = Packet {
                at,
                source: tuple.from().ip(),
                destination: tuple.to().ip(),
                protocol: tuple.protocol(),
                port: source_port.map(|_| tuple.to().port()),
                source_port,
                state: CtState::Established,
                priority: 0,
                source_is_local: false,
                from_link: None,
                to_link: None,
            };
            let traced = trace(&ruleset, &packet).unwrap();
            (traced.accepted, traced.origins)
        };
        for at in [At::Forward, At::Output] {
            for (tuple, origin) in blocked {
                let ports = (tuple.key() == TupleKey::Ports).then_some(tuple.from().port());
                assert_eq!(fate(at.clone(), tuple, ports), (false, vec![origin]), "{tuple}");
                let other = Tuple::new(tuple.to(), tuple.from(), tuple.protocol());
                assert_eq!(fate(at.clone(), other, ports), (true, vec![]), "{other}");
            }
            let SocketAddr::V4(_) = blocked[0].0.from() else { panic!("IPv4 first") };
            assert_eq!(fate(at, blocked[0].0, Some(54)), (true, vec![]));
        }
        assert_eq!(BlockedReplies::default().ruleset(), None);
    }
}
