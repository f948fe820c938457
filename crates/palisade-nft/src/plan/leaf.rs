//! Leaves compared port by port.

use std::collections::{BTreeMap, BTreeSet};

use crate::ruleset::{Chain, Match, Rule, Statement, Verdict};

/// What a leaf does with each port, as its chain says it and those that it goes on to.
#[derive(Clone, Debug)]
pub(super) struct Leaf<'a> {
    /// Protocol, first and last port, in order and without overlaps.
    ranges: Vec<(Range, &'a Rule)>,
    rest: &'a Rule,
}

/// Protocol, first and last port.
type Range = (u8, u16, u16);

/// Traffic of one kind: a protocol with a port, or anything without one.
type Point = Option<(u8, u16)>;

/// The kernel has no deeper chains, gotos included.
const DEPTH: usize = 16;

impl<'a> Leaf<'a> {
    /// The leaf that begins with a chain. None if the chain is no leaf. `chain_named` finds the chains that it goes on to.
    pub(super) fn read(mut chain: &'a Chain, chain_named: impl Fn(&str) -> Option<&'a Chain>) -> Option<Leaf<'a>> {
        let mut rules: Vec<(Range, &'a Rule)> = Vec::new();
        for _ in 0..DEPTH {
            let (rest, ranges) = chain.rules.split_last().filter(|_| chain.hook.is_none())?;
            for rule in ranges {
                let [Match::Protocol(protocols), Match::Port { first, last }] = rule.matches.as_slice() else { return None };
                let [protocol] = protocols.as_slice() else { return None };
                rules.push(((*protocol, *first, *last), Some(rule).filter(|it| is_fate(it))?));
            }
            match rest.statements.as_slice() {
                [Statement::Verdict(Verdict::Goto(next))] if rest.matches.is_empty() => chain = chain_named(next)?,
                _ if rest.matches.is_empty() && is_fate(rest) => return Some(Leaf { ranges: disjoint(&rules), rest }),
                _ => return None,
            }
        }
        None
    }

    fn rule(&self, point: Point) -> &'a Rule {
        let Some((protocol, port)) = point else { return self.rest };
        let after = self.ranges.partition_point(|((of, first, _), _)| (*of, *first) <= (protocol, port));
        let found = after.checked_sub(1).and_then(|it| self.ranges.get(it));
        found.filter(|((of, _, last), _)| *of == protocol && port <= *last).map_or(self.rest, |(_, rule)| rule)
    }

    fn accepts(&self, point: Point) -> bool {
        self.rule(point).statements.last() == Some(&Statement::Verdict(Verdict::Return))
    }

    /// How many ranges of ports it tells apart.
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// What passes both: a chain of rules of either.
    pub(super) fn meet(&self, other: &Leaf<'_>) -> Chain {
        let chosen = |point: Point| if self.accepts(point) { other.rule(point) } else { self.rule(point) };
        let bare = |rule: &Rule| Rule { matches: Vec::new(), ..rule.clone() };
        let rest = bare(chosen(None));
        let mut cuts: BTreeMap<u8, BTreeSet<u16>> = BTreeMap::new();
        for (protocol, port) in points(&[self, other]).into_iter().flatten() {
            cuts.entry(protocol).or_default().insert(port);
        }
        let mut rules = Vec::new();
        for (protocol, starts) in cuts {
            let ends = starts.iter().skip(1).map(|it| it.saturating_sub(1)).chain([u16::MAX]);
            for (first, last) in starts.iter().copied().zip(ends) {
                let rule = bare(chosen(Some((protocol, first))));
                if rule != rest {
                    rules.push(rule.when(Match::Protocol(vec![protocol])).when(Match::Port { first, last }));
                }
            }
        }
        rules.push(rest);
        Chain { hook: None, rules }
    }
}

/// The same rules for ranges in order and without overlaps: where several match, the first counts.
fn disjoint<'a>(rules: &[(Range, &'a Rule)]) -> Vec<(Range, &'a Rule)> {
    let mut edges: Vec<(u8, u32, usize)> = Vec::with_capacity(rules.len() * 2);
    for (at, ((protocol, first, last), _)) in rules.iter().enumerate().filter(|(_, ((_, first, last), _))| first <= last) {
        edges.extend([(*protocol, u32::from(*first), at), (*protocol, u32::from(*last) + 1, at)]);
    }
    edges.sort_unstable();
    let mut matching: BTreeSet<usize> = BTreeSet::new();
    let mut ranges: Vec<(Range, &Rule)> = Vec::new();
    for (place, (protocol, start, at)) in edges.iter().enumerate() {
        // Each rule has two edges.
        if !matching.remove(at) {
            matching.insert(*at);
        }
        let end = edges.get(place + 1).filter(|it| it.0 == *protocol).map_or(*start, |it| it.1);
        let first = matching.first().and_then(|it| rules.get(*it));
        if let (Some((_, rule)), Ok(start), Ok(last)) = (first, u16::try_from(*start), u16::try_from(end.saturating_sub(1)))
            && u32::from(start) < end
        {
            ranges.push(((*protocol, start, last), *rule));
        }
    }
    ranges
}

/// Whether a rule of a leaf lets pass or drops, and does nothing else that matters.
fn is_fate(rule: &Rule) -> bool {
    let noted = |it: &Statement| matches!(it, Statement::Counter | Statement::Log(_));
    match rule.statements.split_last() {
        Some((Statement::Verdict(Verdict::Return | Verdict::Drop), notes)) => notes.iter().all(noted),
        Some((Statement::Verdict(_) | Statement::Set(_) | Statement::Counter | Statement::Look(_), _)) | None => false,
        Some((Statement::Log(_) | Statement::Would(_) | Statement::LookTuple { .. }, _)) => false,
    }
}

/// Traffic of every kind that one of the leaves may treat unlike another.
fn points(leaves: &[&Leaf<'_>]) -> BTreeSet<Point> {
    let mut points = BTreeSet::from([None]);
    for (protocol, first, last) in leaves.iter().flat_map(|it| &it.ranges).map(|(range, _)| *range) {
        points.extend([Some((protocol, 0)), Some((protocol, first))]);
        points.extend(last.checked_add(1).map(|next| Some((protocol, next))));
    }
    points
}

/// Whether something holds for all traffic, told who accepts it. Nobody's leaf accepts everything.
pub(super) fn all<const N: usize>(leaves: [Option<&Leaf<'_>>; N], holds: impl Fn([bool; N]) -> bool) -> bool {
    let known: Vec<&Leaf<'_>> = leaves.iter().copied().flatten().collect();
    points(&known).into_iter().all(|point| holds(leaves.map(|it| it.is_none_or(|leaf| leaf.accepts(point)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fate(accepts: bool, name: &str) -> Rule {
        let verdict = Statement::Verdict(if accepts { Verdict::Return } else { Verdict::Drop });
        Rule { matches: Vec::new(), statements: vec![Statement::Counter, verdict], comment: Some(name.to_owned()) }
    }

    fn leaf(ranges: &[(u16, u16, bool)], rest: bool, name: &str) -> Chain {
        let port = |(first, last, accepts): &(u16, u16, bool)| {
            fate(*accepts, name).when(Match::Protocol(vec![6])).when(Match::Port { first: *first, last: *last })
        };
        Chain { hook: None, rules: ranges.iter().map(port).chain([fate(rest, name)]).collect() }
    }

    #[test]
    fn a_meet_lets_pass_what_both_let_pass_and_says_who_does_not() {
        let chains = (leaf(&[(80, 90, true)], false, "a"), leaf(&[(85, 85, false)], true, "b"));
        let (a, b) = (Leaf::read(&chains.0, |_| None).unwrap(), Leaf::read(&chains.1, |_| None).unwrap());
        for (one, other) in [(&a, &b), (&b, &a)] {
            let meet = one.meet(other);
            let meet = Leaf::read(&meet, |_| None).unwrap();
            for (port, accepted, by) in [(79, false, "a"), (80, true, ""), (85, false, "b"), (90, true, ""), (91, false, "a")] {
                assert_eq!(meet.accepts(Some((6, port))), accepted, "{port}");
                if !accepted {
                    assert_eq!(meet.rule(Some((6, port))).comment.as_deref(), Some(by), "{port}");
                }
            }
            assert!(!meet.accepts(None) && !meet.accepts(Some((17, 80))));
            assert!(all([Some(&meet), Some(&a), Some(&b)], |[meet, a, b]| meet == (a && b)));
            assert!(all([Some(&meet), Some(&a), None], |[meet, a, all]| all && (!meet || a)));
            assert!(!all([Some(&a), Some(&b)], |[a, b]| a == b));
        }
    }

    #[test]
    fn what_is_no_leaf_is_not_taken_for_one() {
        let read = |rules: Vec<Rule>| Leaf::read(&Chain { hook: None, rules }, |_| None).map(|_| ());
        assert!(read(vec![]).is_none());
        assert!(read(vec![fate(true, "").when(Match::NotSyn)]).is_none());
        assert!(read(vec![fate(true, "").when(Match::NotSyn), fate(true, "")]).is_none());
        assert!(read(vec![Rule::to(Verdict::Goto("x".to_owned()))]).is_none());
    }

    #[test]
    fn a_leaf_that_goes_on_to_others_is_all_of_them_in_order() {
        let port = |first, last, accepts, name| fate(accepts, name).when(Match::Protocol(vec![6])).when(Match::Port { first, last });
        let goes_on = |to: &str| Rule::to(Verdict::Goto(to.to_owned()));
        let chain = |rules: Vec<Rule>| Chain { hook: None, rules };
        let one = chain(vec![port(10, 20, true, "a"), port(65_535, 65_535, true, "b"), goes_on("two")]);
        let two = chain(vec![port(15, 30, false, "c"), port(0, 12, true, "d"), goes_on("three")]);
        let three = chain(vec![port(25, 40, true, "e"), port(0, 65_535, false, "f"), fate(true, "rest")]);
        let named = |name: &str| match name {
            "two" => Some(&two),
            "three" => Some(&three),
            _ => None,
        };
        let leaf = Leaf::read(&one, named).unwrap();
        let expected = [(0, "d"), (9, "d"), (10, "a"), (20, "a"), (21, "c"), (30, "c"), (31, "e"), (40, "e"), (41, "f"), (65_535, "b")];
        for (port, by) in expected {
            assert_eq!(leaf.rule(Some((6, port))).comment.as_deref(), Some(by), "{port}");
        }
        assert_eq!(leaf.rule(None).comment.as_deref(), Some("rest"));
        assert_eq!(leaf.rule(Some((17, 10))).comment.as_deref(), Some("rest"));
        let turning = chain(vec![goes_on("turning")]);
        assert!(Leaf::read(&turning, |_| Some(&turning)).is_none());
    }
}
