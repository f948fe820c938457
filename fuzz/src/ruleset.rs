//! Rulesets of any content, with names and comments of odd letters: written and read back they are the same, and their text is one
//! that nft takes apart as it was put together.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use arbitrary::{Result, Unstructured};
use palisade_nft::{
    Address, Chain, CtState, DataMap, End, Hook, IntervalMap, Match, Neighbour, PairSet, Rule, Ruleset, SharedMap, SourceSet, Statement,
    Tuple, TupleKey, TupleMap, Value, Verdict, VerdictMap, render,
};

use crate::dump;

/// An input is a row of choices.
pub(crate) fn check(data: &[u8]) {
    let Ok(ruleset) = ruleset(&mut Unstructured::new(data)) else { return };
    dump::walk(&ruleset);
    dump::reads_back(&ruleset);
    has_its_lines(&ruleset, &render(&ruleset));
}

/// Each rule is one line of its chain, whatever stands in it; outside of quotes there are only letters that the grammar has.
fn has_its_lines(ruleset: &Ruleset, text: &str) {
    let mut chains = ruleset.chains.iter();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(head) = line.strip_prefix("  chain ") else { continue };
        let (name, chain) = chains.next().expect("no more chains than there are");
        assert_eq!(head, format!("{name} {{"));
        let body: Vec<&str> = lines.by_ref().take_while(|it| *it != "  }").collect();
        let expected = chain.rules.len() + usize::from(chain.hook.is_some());
        assert_eq!(body.len(), expected, "{name}: {body:#?}");
    }
    assert!(chains.next().is_none(), "a chain is missing:\n{text}");
    for (at, part) in text.split('"').enumerate() {
        let odd = |it: char| match at % 2 {
            0 => !it.is_ascii_alphanumeric() && !" \n.:-_,;{}=<>!@&()|/".contains(it),
            _ => it.is_control(),
        };
        assert!(!part.contains(odd), "{part:?} in\n{text}");
    }
    assert_eq!(text.matches('"').count() % 2, 0, "{text}");
}

/// Names as `lower` makes them.
const CHAINS: [&str; 6] = ["forward", "input", "sources", "egress", "program-1", "leaf-2"];
const MAPS: [&str; 4] = ["pods4", "pods6", "nets4", "classes"];

fn ruleset(u: &mut Unstructured<'_>) -> Result<Ruleset> {
    let mut ruleset = Ruleset::default();
    for name in MAPS {
        let family = family(u)?;
        match u.int_in_range(0..=6)? {
            0 => drop(ruleset.data.insert(name.to_owned(), DataMap { family, elements: numbers(u, family)? })),
            1 => drop(ruleset.intervals.insert(name.to_owned(), IntervalMap { family, elements: ranges(u, family)? })),
            2 => {
                let chain = |u: &mut Unstructured<'_>| Ok((u.arbitrary()?, chain(u)?));
                drop(ruleset.verdicts.insert(name.to_owned(), VerdictMap { elements: several(u, chain)? }));
            }
            3 => {
                let source = |u: &mut Unstructured<'_>| Ok((link(u)?, address(u, family)?));
                drop(ruleset.sets.insert(name.to_owned(), SourceSet { family, elements: several(u, source)? }));
            }
            4 => {
                let pair = |u: &mut Unstructured<'_>| Ok((address(u, family)?, address(u, family)?));
                drop(ruleset.pairs.insert(name.to_owned(), PairSet { family, elements: several(u, pair)? }));
            }
            5 => {
                let key = key(u)?;
                let tuple = |u: &mut Unstructured<'_>| Ok((tuple(u, family, key)?, chain(u)?));
                drop(ruleset.tuples.insert(name.to_owned(), TupleMap { family, key, elements: several(u, tuple)? }));
            }
            _ => {}
        }
    }
    for name in CHAINS {
        if u.arbitrary()? {
            let hook = match u.int_in_range(0..=5)? {
                0 => Some(Hook::Forward),
                1 => Some(Hook::Input),
                2 => Some(Hook::Ingress { devices: several(u, link)? }),
                _ => None,
            };
            ruleset.chains.insert(name.to_owned(), Chain { hook, rules: several(u, rule)? });
        }
    }
    Ok(ruleset)
}

/// Up to seven of something.
fn several<T, C: FromIterator<T>>(u: &mut Unstructured<'_>, one: impl Fn(&mut Unstructured<'_>) -> Result<T>) -> Result<C> {
    let count = u.int_in_range(0..=7)?;
    (0..count).map(|_| one(u)).collect()
}

fn family(u: &mut Unstructured<'_>) -> Result<Address> {
    u.choose(&Address::BOTH).copied()
}

fn address(u: &mut Unstructured<'_>, family: Address) -> Result<IpAddr> {
    Ok(match family {
        Address::V4 => IpAddr::from(u.arbitrary::<[u8; 4]>()?),
        Address::V6 => IpAddr::from(u.arbitrary::<[u8; 16]>()?),
    })
}

fn key(u: &mut Unstructured<'_>) -> Result<TupleKey> {
    u.choose(&[TupleKey::Ports, TupleKey::Protocol]).copied()
}

fn tuple(u: &mut Unstructured<'_>, family: Address, key: TupleKey) -> Result<Tuple> {
    let protocol = match key {
        TupleKey::Ports => *u.choose(&[6, 17, 33, 132, 136])?,
        TupleKey::Protocol => *u.choose(&[1, 4, 47, 58, 253])?,
    };
    let from = SocketAddr::new(address(u, family)?, u.arbitrary()?);
    Ok(Tuple::new(from, SocketAddr::new(address(u, family)?, u.arbitrary()?), protocol))
}

fn numbers(u: &mut Unstructured<'_>, family: Address) -> Result<SharedMap<IpAddr, u32>> {
    several(u, |u| Ok((address(u, family)?, u.arbitrary()?)))
}

/// Ranges that do not overlap.
fn ranges(u: &mut Unstructured<'_>, family: Address) -> Result<BTreeMap<IpAddr, (IpAddr, u32)>> {
    let edges: BTreeSet<IpAddr> = several(u, |u| address(u, family))?;
    let edges: Vec<IpAddr> = edges.into_iter().collect();
    edges.chunks_exact(2).filter_map(|it| it.first_chunk::<2>()).map(|[first, last]| Ok((*first, (*last, u.arbitrary()?)))).collect()
}

fn chain(u: &mut Unstructured<'_>) -> Result<String> {
    u.choose(&CHAINS).map(|it| (*it).to_owned())
}

fn map(u: &mut Unstructured<'_>) -> Result<String> {
    u.choose(&MAPS).map(|it| (*it).to_owned())
}

/// Whatever the kernel takes as the name of a link: up to 15 bytes, no slash, no colon, no blank.
fn link(u: &mut Unstructured<'_>) -> Result<String> {
    let text: String = u.arbitrary()?;
    let mut name: String = text.chars().filter(|it| !it.is_whitespace() && !"/:\0".contains(*it)).take(15).collect();
    while name.len() > 15 {
        name.pop();
    }
    Ok(if name.is_empty() { "pod1".to_owned() } else { name })
}

fn rule(u: &mut Unstructured<'_>) -> Result<Rule> {
    let comment = u.arbitrary::<Option<String>>()?;
    Ok(Rule { matches: several(u, condition)?, statements: several(u, statement)?, comment })
}

fn condition(u: &mut Unstructured<'_>) -> Result<Match> {
    let neighbour = |u: &mut Unstructured<'_>| u.choose(&[Neighbour::Unspecified, Neighbour::LinkLocal]).copied();
    Ok(match u.int_in_range(0..=14)? {
        0 => Match::Ct(*u.choose(&[CtState::Established, CtState::Related, CtState::Invalid, CtState::New])?),
        1 => Match::Protocol(vec![u.arbitrary()?]),
        2 => Match::Protocol(vec![1, 58]),
        3 => {
            let (a, b) = (u.arbitrary()?, u.arbitrary()?);
            Match::Port { first: std::cmp::min(a, b), last: std::cmp::max(a, b) }
        }
        4 => Match::Number(u.arbitrary()?),
        5 => Match::NeighbourDiscovery,
        6 => Match::RouterSolicitationFrom(neighbour(u)?),
        7 => Match::NeighbourDiscoveryFrom(neighbour(u)?),
        8 => Match::ListenerDiscoveryFrom(neighbour(u)?),
        9 => Match::ListenerReportFrom(neighbour(u)?),
        10 => Match::LinkAndSource { family: family(u)?, set: map(u)? },
        11 => Match::Pair { family: family(u)?, set: map(u)? },
        12 => Match::SourceIsLocal,
        13 => Match::FrameTypeNotIn(vec![u.arbitrary()?, u.arbitrary()?]),
        _ => Match::NotSyn,
    })
}

fn statement(u: &mut Unstructured<'_>) -> Result<Statement> {
    Ok(match u.int_in_range(0..=10)? {
        0 => Statement::Set(Value::Zero),
        1 => {
            let end = *u.choose(&[End::Source, End::Destination])?;
            Statement::Set(Value::From { end, family: family(u)?, map: map(u)? })
        }
        2 => Statement::Counter,
        3 => Statement::Log(u.arbitrary()?),
        4 => Statement::Look(map(u)?),
        5 => Statement::Verdict(Verdict::Accept),
        6 => Statement::Verdict(Verdict::Drop),
        7 => Statement::Verdict(Verdict::Return),
        8 => Statement::Verdict(Verdict::Jump(chain(u)?)),
        9 => Statement::LookTuple { family: family(u)?, key: key(u)?, map: map(u)? },
        _ => Statement::Verdict(Verdict::Goto(chain(u)?)),
    })
}
