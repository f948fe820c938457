//! A ruleset as the planner sees it: subjects with programs, programs with a leaf for each class, addresses with classes.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_model::{Direction, PerDirection};

use crate::lower::program_chain;
use crate::naming::{class_map, leaves_map, programs_map, range_map, subject_map};
use crate::ruleset::{Address, Chain, DataMap, Ruleset, Statement, Verdict};

/// A ruleset, read.
#[derive(Debug)]
pub(super) struct Tables<'a> {
    pub(super) ruleset: &'a Ruleset,
    pub(super) sides: PerDirection<Side<'a>>,
    pub(super) classes: Classes<'a>,
}

/// Classes that some address has.
#[derive(Debug)]
pub(super) struct Classes<'a> {
    known: Vec<&'a DataMap>,
    of_ranges: BTreeSet<u32>,
}

/// One direction.
#[derive(Debug)]
pub(super) struct Side<'a> {
    pub(super) direction: Direction,
    ruleset: &'a Ruleset,
    /// By number.
    pub(super) programs: BTreeMap<u32, Program<'a>>,
}

/// A program by the names of its leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program<'a> {
    pub(super) number: u32,
    pub(super) chain: String,
    pub(super) itself: String,
    pub(super) rest: String,
    pub(super) leaves: Cow<'a, BTreeMap<u32, String>>,
}

impl<'a> Tables<'a> {
    /// None if the ruleset is built in another way than `lower` builds one.
    pub(super) fn read(ruleset: &'a Ruleset) -> Option<Tables<'a>> {
        let side = |direction| Side::read(ruleset, direction);
        let sides = PerDirection { egress: side(Direction::Egress)?, ingress: side(Direction::Ingress)? };
        let is_whole = |it| ruleset.data.contains_key(&class_map(it)) && ruleset.intervals.contains_key(&range_map(it));
        Address::BOTH.into_iter().all(is_whole).then_some(Tables { ruleset, sides, classes: Classes::of(ruleset) })
    }

    /// The class of an address, if it has one.
    pub(super) fn class(&self, address: IpAddr) -> Option<u32> {
        let family = Address::of(address);
        let exact = self.ruleset.data.get(&class_map(family)).and_then(|it| it.elements.get(&address)).copied();
        exact.or_else(|| self.range_class(address))
    }

    /// The class that an address has by its range.
    pub(super) fn range_class(&self, address: IpAddr) -> Option<u32> {
        range_class(self.ruleset, address)
    }
}

impl<'a> Classes<'a> {
    fn of(ruleset: &'a Ruleset) -> Classes<'a> {
        let ranges = Address::BOTH.into_iter().filter_map(|it| ruleset.intervals.get(&range_map(it)));
        Classes {
            known: Address::BOTH.into_iter().filter_map(|it| ruleset.data.get(&class_map(it))).collect(),
            of_ranges: ranges.flat_map(|it| it.elements.values().map(|(_, number)| *number)).collect(),
        }
    }

    pub(super) fn contains(&self, class: &u32) -> bool {
        self.of_ranges.contains(class) || self.known.iter().any(|it| it.elements.has_value(class))
    }
}

impl<'a> Side<'a> {
    fn read(ruleset: &'a Ruleset, direction: Direction) -> Option<Side<'a>> {
        let numbers = &ruleset.verdicts.get(&programs_map(direction))?.elements;
        let programs = numbers.iter().map(|(number, chain)| Some((*number, Program::read(ruleset, direction, *number, chain)?)));
        let side = Side { direction, ruleset, programs: programs.collect::<Option<_>>()? };
        // A subject without a program would be let go.
        let whole = side.subjects().all(|(_, program)| side.programs.contains_key(&program));
        whole.then_some(side)
    }

    /// Addresses of the node's pods with the numbers of their programs.
    pub(super) fn subjects(&self) -> impl Iterator<Item = (IpAddr, u32)> {
        let maps = Address::BOTH.into_iter().filter_map(|it| self.ruleset.data.get(&subject_map(self.direction, it)));
        maps.flat_map(|it| it.elements.iter().map(|(address, program)| (*address, *program)))
    }

    /// Whether some subject of a program has a peer of a class: another than itself.
    pub(super) fn meets(&self, program: u32, class: u32) -> bool {
        let with_class = |map: &DataMap, but: IpAddr| map.elements.iter().any(|(address, of)| *of == class && *address != but);
        self.subjects().filter(|it| it.1 == program).any(|(subject, _)| {
            let family = Address::of(subject);
            let known = self.ruleset.data.get(&class_map(family)).is_some_and(|it| with_class(it, subject));
            let ranges = self.ruleset.intervals.get(&range_map(family));
            known || ranges.is_some_and(|it| it.elements.values().any(|(_, of)| *of == class))
        })
    }

    pub(super) fn subject(&self, address: IpAddr) -> Option<u32> {
        self.ruleset.data.get(&subject_map(self.direction, Address::of(address)))?.elements.get(&address).copied()
    }
}

impl<'a> Program<'a> {
    fn read(ruleset: &'a Ruleset, direction: Direction, number: u32, name: &str) -> Option<Program<'a>> {
        let chain = ruleset.chains.get(name)?;
        let mut targets = chain.rules.iter().flat_map(|it| &it.statements).filter_map(|it| match it {
            Statement::Verdict(Verdict::Goto(chain)) => Some(chain.clone()),
            Statement::Verdict(_)
            | Statement::Set(_)
            | Statement::Counter
            | Statement::Log(_)
            | Statement::Would(_)
            | Statement::Look(_)
            | Statement::LookTuple { .. } => None,
        });
        let (itself, rest) = (targets.next()?, targets.next_back()?);
        let leaves = Cow::Borrowed(&ruleset.verdicts.get(&leaves_map(name))?.elements);
        let program = Program { number, chain: name.to_owned(), itself, rest, leaves };
        (program.as_chain(direction) == *chain).then_some(program)
    }

    pub(super) fn as_chain(&self, direction: Direction) -> Chain {
        program_chain(&self.chain, self.number, direction, &self.itself, &self.rest)
    }

    /// The same program with what another ruleset lists for it.
    pub(super) fn with(&self, other: &Program<'_>) -> Program<'a> {
        let mut both = self.clone();
        if !self.lists_as(other) {
            both.leaves.to_mut().extend(other.leaves.iter().map(|(class, leaf)| (*class, leaf.clone())));
        }
        both
    }

    /// Whether it lists the same leaves. Most rulesets share them.
    pub(super) fn lists_as(&self, other: &Program<'_>) -> bool {
        std::ptr::eq(&raw const *self.leaves, &raw const *other.leaves) || self.leaves == other.leaves
    }

    /// Whether some classes have one leaf.
    pub(super) fn treats_alike(&self, classes: &BTreeSet<u32>) -> bool {
        let mut leaves = classes.iter().map(|it| self.leaf(*it));
        leaves.next().is_none_or(|first| leaves.all(|it| it == first))
    }

    /// The leaf of a class.
    pub(super) fn leaf(&self, class: u32) -> &str {
        self.leaves.get(&class).unwrap_or(&self.rest)
    }
}

/// The class that an address has by its range.
pub(super) fn range_class(ruleset: &Ruleset, address: IpAddr) -> Option<u32> {
    let ranges = ruleset.intervals.get(&range_map(Address::of(address)))?;
    let below = ranges.elements.range(..=address).next_back();
    below.filter(|(_, (last, _))| address <= *last).map(|(_, (_, number))| *number)
}

/// Whether a chain stands at the links of pods.
pub(super) fn is_ingress(chain: &Chain) -> bool {
    chain.hook.as_ref().is_some_and(|it| it.devices().is_some())
}
