//! A packet's way while the tables change: everything that it may meet.
//!
//! What the kernel promises is little. A packet reads the rules of a base chain once, when it enters. Rules of other chains are those of the
//! generation that it began in, or of the one before the present (which of both depends on how many commits came between, by anybody). Each
//! lookup in a map is of the present; but ranges are in force only a moment after the rest of their commit, and a chain stands at more links a moment
//! before. A chain that is gone has no rules, and a map that is gone no elements. A grace ends all packets that were on their way.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::plan::Step;
use crate::ruleset::{Rule, Ruleset, Tuple};
use crate::trace::{Packet, Reads, base, walk};
use crate::transaction::Table;
use crate::transaction::apply::{Refused, apply};

/// All of our tables at one moment.
pub type Standing = BTreeMap<Table, Ruleset>;

/// The states that a plan goes through, by what a packet can meet of them: those between two graces, with the last one before.
pub fn states(old: Standing, steps: &[Step]) -> Result<Vec<Vec<Standing>>, Vec<Refused>> {
    let mut segments = vec![vec![old.clone()]];
    let mut now = old;
    for step in steps {
        match step {
            Step::Commit(transaction) => {
                let mut table = now.remove(&transaction.table);
                apply(&mut table, transaction)?;
                now.extend(table.map(|it| (transaction.table, it)));
                segments.last_mut().into_iter().for_each(|it| it.push(now.clone()));
            }
            Step::Grace => segments.push(vec![now.clone()]),
        }
    }
    Ok(segments)
}

/// What may become of a packet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fate {
    pub accepted: bool,
    /// The origin of the rule that dropped it.
    pub origin: Option<u32>,
    /// The number of the state that it came in. Who met ranges a moment late came before their commit was over.
    pub since: usize,
    /// The number of the state that it read last.
    pub until: usize,
}

/// Everything that may become of a packet that enters and leaves while the tables go through some states. It is given once for each hook that it
/// comes to, in order. An error is a walk without end.
pub fn fates(states: &[Standing], hooks: &[Packet]) -> Result<BTreeSet<Fate>, String> {
    let mut fates = BTreeSet::new();
    let mut choices = Choices::default();
    loop {
        fates.insert(fate(states, hooks, &mut choices)?);
        if !choices.next() {
            return Ok(fates);
        }
    }
}

fn fate(states: &[Standing], hooks: &[Packet], choices: &mut Choices) -> Result<Fate, String> {
    let mut since = choices.pick((0..states.len()).collect());
    let mut now = since;
    for (packet, table) in hooks.iter().flat_map(|packet| Table::ALL.map(|table| (packet, table))) {
        // It enters the base chain that is there, with the rules that this has, at any moment from now on.
        let rules = |at: usize, name: &str| Some(states.get(at)?.get(&table)?.chains.get(name)?.rules.as_slice());
        let stands = |at: usize| states.get(at).and_then(|it| it.get(&table)).and_then(|it| base(it, &packet.at));
        let entered = (now..states.len()).flat_map(|at| {
            let early = stands(at + 1).filter(|name| stands(at).is_none() && rules(at, name).is_some());
            [stands(at), early.or(stands(at))].map(|name| (at, name.map(|name| (name, rules(at, name)))))
        });
        let entered = choices.pick(distinct(entered));
        now = entered.0;
        let Some((name, _)) = entered.1 else { continue };
        let mut reader = Reader { states, table, start: now, now, since, choices };
        let traced = walk(&mut reader, packet, name)?;
        (now, since) = (reader.now, reader.since);
        if !traced.accepted {
            return Ok(Fate { accepted: false, origin: traced.origins.last().copied(), since, until: now });
        }
    }
    Ok(Fate { accepted: true, origin: None, since, until: now })
}

/// Choices made so far, to be made otherwise the next time: the last one first.
#[derive(Debug, Default)]
struct Choices {
    /// What was chosen, of how many.
    made: Vec<(usize, usize)>,
    at: usize,
}

impl Choices {
    /// Reads something at any moment from `now` on. Of moments at which it reads the same, the first: it leaves the most open to what is read after.
    fn choose<'a, T: PartialEq>(&mut self, states: &'a [Standing], now: usize, read: impl Fn(&'a Standing) -> T) -> (usize, T) {
        let moments = states.iter().enumerate().skip(now).map(|(at, state)| (at, read(state)));
        self.pick(distinct(moments))
    }

    fn pick<T>(&mut self, mut options: Vec<T>) -> T {
        let chosen = match self.made.get(self.at) {
            Some((chosen, _)) => *chosen,
            None => {
                self.made.push((0, options.len()));
                0
            }
        };
        self.at += 1;
        options.swap_remove(chosen)
    }

    /// Whether there is another way to choose.
    fn next(&mut self) -> bool {
        self.at = 0;
        while let Some((chosen, of)) = self.made.pop() {
            if chosen + 1 < of {
                self.made.push((chosen + 1, of));
                return true;
            }
        }
        false
    }
}

fn distinct<T: PartialEq>(moments: impl Iterator<Item = (usize, T)>) -> Vec<(usize, T)> {
    let mut found: Vec<(usize, T)> = Vec::new();
    for (at, read) in moments {
        if found.iter().all(|(_, known)| *known != read) {
            found.push((at, read));
        }
    }
    found
}

/// A packet in one table.
struct Reader<'a, 'c> {
    states: &'a [Standing],
    table: Table,
    /// When it entered.
    start: usize,
    now: usize,
    /// When it came.
    since: usize,
    choices: &'c mut Choices,
}

impl<'a> Reader<'a, '_> {
    fn read<T: PartialEq + Clone>(&mut self, read: impl Fn(&'a Ruleset) -> Result<T, String>, missing: T) -> T {
        let table = self.table;
        let read = |state: &'a Standing| state.get(&table).and_then(|it| read(it).ok()).unwrap_or_else(|| missing.clone());
        let (at, found) = self.choices.choose(self.states, self.now, read);
        self.now = at;
        found
    }
}

impl<'a> Reads<'a> for &mut Reader<'a, '_> {
    fn rules(&mut self, chain: &str) -> Result<&'a [Rule], String> {
        let (states, table, start) = (self.states, self.table, self.start);
        let rules = |at: usize| -> &'a [Rule] {
            let found = states.get(at).and_then(|it| it.get(&table)).and_then(|it| it.chains.get(chain));
            found.map_or(&[][..], |it| it.rules.as_slice())
        };
        let seen = (self.now..states.len()).flat_map(|now| [(now, rules(now)), (now, rules(now.saturating_sub(1).max(start)))]);
        // It has read those of its base chain.
        let seen = if self.now == start && states.get(start).and_then(|it| it.get(&table)).is_some_and(|it| is_base(it, chain)) {
            vec![(start, rules(start))]
        } else {
            distinct(seen)
        };
        let (now, rules) = self.choices.pick(seen);
        self.now = now;
        Ok(rules)
    }

    fn is_source(&mut self, set: &str, link: &str, source: IpAddr) -> Result<bool, String> {
        Ok(self.read(|mut it| it.is_source(set, link, source), false))
    }

    fn is_member(&mut self, set: &str, address: IpAddr) -> Result<bool, String> {
        Ok(self.read(|mut it| it.is_member(set, address), false))
    }

    fn is_pair(&mut self, set: &str, pair: (IpAddr, IpAddr)) -> Result<bool, String> {
        Ok(self.read(|mut it| it.is_pair(set, pair), false))
    }

    fn number(&mut self, map: &str, address: IpAddr) -> Result<Option<u32>, String> {
        let (states, table) = (self.states, self.table);
        let at = |at: usize| states.get(at).and_then(|it| it.get(&table));
        let number = |moment: usize| at(moment).and_then(|mut it| it.number(map, address).ok()).flatten();
        let ranges = |moment: usize| at(moment).is_some_and(|it| it.intervals.contains_key(map));
        let late = |now: usize| now.checked_sub(1).filter(|_| ranges(now)).map(|before| (now, number(before)));
        let seen = (self.now..states.len()).flat_map(|now| [Some((now, number(now))), late(now)].into_iter().flatten());
        let (now, found) = self.choices.pick(distinct(seen));
        self.now = now;
        if found != number(now) {
            self.since = self.since.min(now.saturating_sub(1));
        }
        Ok(found)
    }

    fn target(&mut self, map: &str, number: u32) -> Result<Option<&'a str>, String> {
        Ok(self.read(|mut it| it.target(map, number), None))
    }

    fn tuple_target(&mut self, map: &str, tuple: &Tuple) -> Result<Option<&'a str>, String> {
        Ok(self.read(|mut it| it.tuple_target(map, tuple), None))
    }
}

fn is_base(ruleset: &Ruleset, chain: &str) -> bool {
    ruleset.chains.get(chain).is_some_and(|it| it.hook.is_some())
}
