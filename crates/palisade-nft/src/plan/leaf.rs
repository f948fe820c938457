//! Leaves compared port by port.

use std::collections::{BTreeMap, BTreeSet};

use crate::ruleset::{Chain, Match, Rule, Statement, Verdict};

/// What a leaf does with each port, as its chain says it.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// Protocol, first and last port; the first that matches counts.
    ranges: Vec<((u8, u16, u16), Rule)>,
    rest: Rule,
}

/// Traffic of one kind: a protocol with a port, or anything without one.
type Point = Option<(u8, u16)>;

impl Leaf {
    /// None if the chain is no leaf.
    pub(super) fn read(chain: &Chain) -> Option<Leaf> {
        let (rest, ranges) = chain.rules.split_last()?;
        let ranges = ranges.iter().map(|rule| {
            let [Match::Protocol(protocols), Match::Port { first, last }] = rule.matches.as_slice() else { return None };
            let [protocol] = protocols.as_slice() else { return None };
            is_fate(rule).then(|| ((*protocol, *first, *last), rule.clone()))
        });
        let leaf = Leaf { ranges: ranges.collect::<Option<_>>()?, rest: rest.clone() };
        (chain.hook.is_none() && rest.matches.is_empty() && is_fate(rest)).then_some(leaf)
    }

    fn rule(&self, point: Point) -> &Rule {
        let matches =
            |(protocol, first, last): &(u8, u16, u16)| point.is_some_and(|(of, port)| of == *protocol && (*first..=*last).contains(&port));
        self.ranges.iter().find(|(range, _)| matches(range)).map_or(&self.rest, |(_, rule)| rule)
    }

    fn accepts(&self, point: Point) -> bool {
        self.rule(point).statements.last() == Some(&Statement::Verdict(Verdict::Return))
    }

    /// What passes both: a chain of rules of either.
    pub(super) fn meet(&self, other: &Leaf) -> Chain {
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

/// Whether a rule of a leaf lets pass or drops, and does nothing else that matters.
fn is_fate(rule: &Rule) -> bool {
    let noted = |it: &Statement| matches!(it, Statement::Counter | Statement::Log(_));
    match rule.statements.split_last() {
        Some((Statement::Verdict(Verdict::Return | Verdict::Drop), notes)) => notes.iter().all(noted),
        Some((Statement::Verdict(_) | Statement::Set(_) | Statement::Counter | Statement::Look(_), _)) | None => false,
        Some((Statement::Log(_) | Statement::Would(_), _)) => false,
    }
}

/// Traffic of every kind that one of the leaves may treat unlike another.
fn points(leaves: &[&Leaf]) -> BTreeSet<Point> {
    let mut points = BTreeSet::from([None]);
    for (protocol, first, last) in leaves.iter().flat_map(|it| &it.ranges).map(|(range, _)| *range) {
        points.extend([Some((protocol, 0)), Some((protocol, first))]);
        points.extend(last.checked_add(1).map(|next| Some((protocol, next))));
    }
    points
}

/// Whether something holds for all traffic, told who accepts it. Nobody's leaf accepts everything.
pub(super) fn all<const N: usize>(leaves: [Option<&Leaf>; N], holds: impl Fn([bool; N]) -> bool) -> bool {
    let known: Vec<&Leaf> = leaves.iter().copied().flatten().collect();
    points(&known).into_iter().all(|point| holds(leaves.map(|it| it.is_none_or(|leaf| leaf.accepts(point)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fate(accepts: bool, name: &str) -> Rule {
        let verdict = Statement::Verdict(if accepts { Verdict::Return } else { Verdict::Drop });
        Rule { matches: Vec::new(), statements: vec![Statement::Counter, verdict], comment: Some(name.to_owned()) }
    }

    fn leaf(ranges: &[(u16, u16, bool)], rest: bool, name: &str) -> Leaf {
        let port = |(first, last, accepts): &(u16, u16, bool)| {
            fate(*accepts, name).when(Match::Protocol(vec![6])).when(Match::Port { first: *first, last: *last })
        };
        let rules = ranges.iter().map(port).chain([fate(rest, name)]).collect();
        Leaf::read(&Chain { hook: None, rules }).unwrap()
    }

    #[test]
    fn a_meet_lets_pass_what_both_let_pass_and_says_who_does_not() {
        let (a, b) = (leaf(&[(80, 90, true)], false, "a"), leaf(&[(85, 85, false)], true, "b"));
        for (one, other) in [(&a, &b), (&b, &a)] {
            let meet = Leaf::read(&one.meet(other)).unwrap();
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
        let chain = |rules: Vec<Rule>| Chain { hook: None, rules };
        assert!(Leaf::read(&chain(vec![])).is_none());
        assert!(Leaf::read(&chain(vec![fate(true, "").when(Match::NotSyn)])).is_none());
        assert!(Leaf::read(&chain(vec![fate(true, "").when(Match::NotSyn), fate(true, "")])).is_none());
        assert!(Leaf::read(&chain(vec![Rule::to(Verdict::Goto("x".to_owned()))])).is_none());
    }
}
