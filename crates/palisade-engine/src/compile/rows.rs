//! What a program does with every other end of another namespace: a default for each kind of end, and exceptions.
//!
//! Only ends that some condition of the program picks out are looked at. Tiers are worked out once for each distinct list of rules, programs once for
//! each distinct triple of tiers.

use std::sync::OnceLock;

use palisade_model::Direction;
use rustc_hash::FxHashMap;

use crate::compile::evaluate::{Context, Outcome, Passing, Relation, Sets, combine};
use crate::compile::intern::{Interned, Lists, index, number};
use crate::compile::ports::PortSetId;
use crate::compile::prefixes::NOWHERE;
use crate::compile::rules::{Everyone, Parts, Peers};
use crate::compile::{Compiled, Foreign, Kind, Program};

/// A value for every foreign view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    /// By kind: pod, node, outside.
    pub(crate) defaults: [u32; 3],
    /// Views with another value, in order.
    pub(crate) exceptions: Vec<(u32, u32)>,
}

impl Row {
    pub(crate) fn at(&self, view: u32, kind: Kind) -> u32 {
        match self.exceptions.binary_search_by_key(&view, |it| it.0) {
            Ok(at) => self.exceptions.get(at).map_or(0, |it| it.1),
            Err(_) => self.default_of(kind),
        }
    }

    fn default_of(&self, kind: Kind) -> u32 {
        let [pod, node, outside] = self.defaults;
        match kind {
            Kind::Pod => pod,
            Kind::Node => node,
            Kind::Outside => outside,
        }
    }
}

const KINDS: [Kind; 3] = [Kind::Pod, Kind::Node, Kind::Outside];

/// The rows of one direction.
#[derive(Debug)]
pub(crate) struct Rows {
    /// By program.
    pub(crate) of_program: Vec<u32>,
    pub(crate) rows: Interned<Row>,
    pub(crate) passing: Interned<Passing>,
    columns: OnceLock<Columns>,
}

/// Views that every row has the same value for are one column.
#[derive(Debug)]
pub(crate) struct Columns {
    of_view: Vec<u32>,
    /// A view of each.
    first: Vec<u32>,
}

impl Columns {
    fn of(rows: &[Row], foreign: &[Foreign]) -> Columns {
        let mut values: Vec<Vec<(u32, u32)>> = vec![Vec::new(); foreign.len()];
        for (row, number) in rows.iter().zip(0..) {
            for (view, value) in &row.exceptions {
                values.get_mut(index(*view)).into_iter().for_each(|it| it.push((number, *value)));
            }
        }
        let mut known: FxHashMap<(Kind, Vec<(u32, u32)>), u32> = FxHashMap::default();
        let mut columns = Columns { of_view: Vec::with_capacity(foreign.len()), first: Vec::new() };
        for ((view, foreign), values) in (0..).zip(foreign).zip(values) {
            let column = *known.entry((foreign.kind, values)).or_insert_with(|| {
                columns.first.push(view);
                number(columns.first.len() - 1)
            });
            columns.of_view.push(column);
        }
        columns
    }

    pub(crate) fn of_view(&self, view: u32) -> Option<u32> {
        self.of_view.get(index(view)).copied()
    }
}

impl Rows {
    pub(crate) fn columns(&self, compiled: &Compiled) -> &Columns {
        self.columns.get_or_init(|| Columns::of(self.rows.values(), compiled.foreign.values()))
    }

    /// What a row lets pass with those of a column.
    pub(crate) fn at(&self, compiled: &Compiled, row: u32, column: u32) -> Option<Passing> {
        let view = *self.columns(compiled).first.get(index(column))?;
        let kind = compiled.foreign.get(view)?.kind;
        self.passing.get(self.rows.get(row)?.at(view, kind)).copied()
    }
}

/// Which views each condition picks out.
#[derive(Debug, Default)]
pub(crate) struct Postings {
    pods: Vec<Vec<u32>>,
    nodes: Vec<Vec<u32>>,
    prefixes: Vec<Vec<u32>>,
    ports: Vec<Vec<u32>>,
}

impl Postings {
    pub(crate) fn of(compiled: &Compiled) -> Postings {
        let mut postings = Postings::default();
        for (foreign, id) in compiled.foreign.values().iter().zip(0..) {
            let view = compiled.views.get(foreign.view);
            match foreign.kind {
                Kind::Pod => view.iter().for_each(|it| post(&mut postings.pods, *it, id)),
                Kind::Node => view.iter().for_each(|it| post(&mut postings.nodes, *it, id)),
                Kind::Outside => {}
            }
            post(&mut postings.prefixes, foreign.prefix, id);
            let ports = compiled.port_views.get(foreign.ports);
            ports.chunks(2).filter_map(|it| it.first()).for_each(|it| post(&mut postings.ports, *it, id));
        }
        postings
    }
}

impl Postings {
    /// The views that each condition of some peers picks out.
    fn picked_by<'a>(&'a self, peers: &'a Peers, parts: &'a Parts) -> impl Iterator<Item = &'a Vec<u32>> {
        let of = |lists: &'a [Vec<u32>], keys: &'a [u32]| keys.iter().filter_map(move |it| lists.get(index(*it)));
        let blocks = peers.blocks().iter().filter_map(|it| parts.blocks.get(*it));
        let prefixes = blocks.flat_map(|block| parts.prefixes.within(block.cidr).filter(|it| parts.prefixes.holds(block, *it)));
        let of_blocks = prefixes.filter_map(|it| self.prefixes.get(index(it)));
        of(&self.pods, peers.pods()).chain(of(&self.nodes, peers.nodes())).chain(of_blocks)
    }
}

fn post(lists: &mut Vec<Vec<u32>>, key: u32, id: u32) {
    if lists.len() <= index(key) {
        lists.resize_with(index(key) + 1, Vec::new);
    }
    if let Some(list) = lists.get_mut(index(key)).filter(|it| it.last() != Some(&id)) {
        list.push(id);
    }
}

/// What is worked out on the way.
struct Working<'c> {
    compiled: &'c Compiled,
    context: Context<'c>,
    postings: &'c Postings,
    sets: &'c mut Sets,
    /// Lists of rules that can mean somebody of another namespace, and which list comes to which.
    lists: Lists,
    abroad: FxHashMap<u32, u32>,
    outcomes: Interned<Outcome>,
    /// By list, own ports and kind of tier.
    tiers: FxHashMap<(u32, u32, TierKind), usize>,
    tier_rows: Vec<Row>,
    /// Which views have been met in the row that is being worked out.
    met: Vec<u32>,
    turn: u32,
    /// Traffic that the rules of a list hand to each view; nothing between lists.
    accepted: Vec<PortSetId>,
    combined: FxHashMap<[u32; 3], u32>,
    passing: Interned<Passing>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum TierKind {
    Ordered,
    Isolated,
    NotIsolated,
}

impl Rows {
    pub(crate) fn work_out(compiled: &Compiled, direction: Direction, postings: &Postings, sets: &mut Sets) -> Rows {
        let mut working = Working {
            compiled,
            context: compiled.context(direction),
            postings,
            sets,
            lists: Lists::default(),
            abroad: FxHashMap::default(),
            outcomes: Interned::default(),
            tiers: FxHashMap::default(),
            tier_rows: Vec::new(),
            met: vec![0; compiled.foreign.values().len()],
            turn: 0,
            accepted: Vec::new(),
            combined: FxHashMap::default(),
            passing: Interned::default(),
        };
        let mut rows: Interned<Row> = Interned::default();
        let mut triples: FxHashMap<[usize; 3], u32> = FxHashMap::default();
        let of_program = compiled.programs.of(direction).values().iter().map(|program| {
            let triple = working.tiers_of(*program);
            *triples.entry(triple).or_insert_with(|| rows.intern(working.whole(triple)))
        });
        let of_program = of_program.collect();
        Rows { of_program, rows, passing: working.passing, columns: OnceLock::new() }
    }
}

impl Working<'_> {
    fn tiers_of(&mut self, program: Program) -> [usize; 3] {
        let network = match program.network {
            Some(list) => self.tier(list, program.ports, TierKind::Isolated),
            None => self.tier(0, 0, TierKind::NotIsolated),
        };
        [self.tier(program.admin, program.ports, TierKind::Ordered), network, self.tier(program.baseline, program.ports, TierKind::Ordered)]
    }

    /// The rules of a list that can mean somebody of another namespace: lists that differ in the others only fare alike here.
    fn abroad(&mut self, list: u32) -> u32 {
        if let Some(known) = self.abroad.get(&list) {
            return *known;
        }
        let rules = self.compiled.parts.lists.get(list);
        let looks = |it: &&u32| self.compiled.parts.rules.get(**it).is_some_and(|rule| rule.peers.looks_abroad());
        let left: Vec<u32> = rules.iter().filter(looks).copied().collect();
        let id = self.lists.intern(&left);
        self.abroad.insert(list, id);
        id
    }

    fn tier(&mut self, list: u32, ports: u32, kind: TierKind) -> usize {
        let list = self.abroad(list);
        if let Some(known) = self.tiers.get(&(list, ports, kind)) {
            return *known;
        }
        let row = self.tier_row(list, ports, kind);
        self.tier_rows.push(row);
        self.tiers.insert((list, ports, kind), self.tier_rows.len() - 1);
        self.tier_rows.len() - 1
    }

    fn tier_row(&mut self, list: u32, ports: u32, kind: TierKind) -> Row {
        let nothing = |kind| Foreign { kind, view: 0, prefix: NOWHERE, ports: 0 };
        let defaults = KINDS.map(nothing).map(|it| self.outcome(list, ports, kind, it));
        let row = Row { defaults, exceptions: Vec::new() };
        let exceptions = match kind {
            TierKind::NotIsolated => Vec::new(),
            TierKind::Isolated => self.isolated_exceptions(list, ports, &row),
            TierKind::Ordered => {
                let views = self.picked_out(list);
                let found = views.into_iter().filter_map(|view| {
                    let foreign = *self.compiled.foreign.get(view)?;
                    let outcome = self.outcome(list, ports, kind, foreign);
                    (outcome != row.default_of(foreign.kind)).then_some((view, outcome))
                });
                found.collect()
            }
        };
        Row { defaults, exceptions }
    }

    /// The same for rules that only add up. A rule that holds for those whom it picks out, and nobody else, need not be asked: its traffic is
    /// handed to each of them.
    fn isolated_exceptions(&mut self, list: u32, ports: u32, row: &Row) -> Vec<(u32, u32)> {
        let views = self.picked_out(list);
        let Working { compiled, context, postings, sets, lists, accepted, outcomes, .. } = self;
        accepted.resize(compiled.foreign.values().len(), PortSetId::NONE);
        let (plain, special): (Vec<u32>, Vec<u32>) = lists.get(list).iter().partition(|it| context.is_plain(**it));
        for (_, rule) in context.rules(&plain) {
            for view in postings.picked_by(&rule.peers, context.parts).flatten() {
                if let Some(known) = accepted.get_mut(index(*view)) {
                    *known = sets.ports.or(*known, rule.ports);
                }
            }
        }
        let mut exceptions = Vec::with_capacity(views.len());
        for view in views {
            let (Some(foreign), Some(known)) = (compiled.foreign.get(view), accepted.get_mut(index(view))) else { continue };
            let plain = std::mem::replace(known, PortSetId::NONE);
            let mut outcome = context.network(Some(&special), ports, *foreign, Relation::Apart, sets);
            outcome.accepted = sets.ports.or(outcome.accepted, plain);
            let outcome = outcomes.intern(outcome);
            if outcome != row.default_of(foreign.kind) {
                exceptions.push((view, outcome));
            }
        }
        exceptions
    }

    fn outcome(&mut self, list: u32, ports: u32, kind: TierKind, foreign: Foreign) -> u32 {
        let rules = self.lists.get(list);
        let outcome = match kind {
            TierKind::Ordered => self.context.ordered(rules, ports, foreign, Relation::Apart, self.sets),
            TierKind::Isolated => self.context.network(Some(rules), ports, foreign, Relation::Apart, self.sets),
            TierKind::NotIsolated => self.context.network(None, ports, foreign, Relation::Apart, self.sets),
        };
        self.outcomes.intern(outcome)
    }

    /// The views that some condition of some rule picks out, in order.
    fn picked_out(&mut self, list: u32) -> Vec<u32> {
        self.turn += 1;
        let (postings, met, turn) = (self.postings, &mut self.met, self.turn);
        let mut found = Vec::new();
        for (_, rule) in self.context.rules(self.lists.get(list)) {
            let peers = &rule.peers;
            // Names of ports matter where the rule holds unless something picks it out; where it does not, its peers do.
            let by_default = peers.everyone != Everyone::No || peers.pods().iter().any(|it| self.context.parts.peers.default_of(*it));
            let by_names = by_default && self.context.direction == Direction::Egress;
            let names = rule.named.iter().filter(|_| by_names).map(|it| &it.name);
            let of_names = names.filter_map(|it| postings.ports.get(index(*it)));
            for view in postings.picked_by(peers, self.context.parts).chain(of_names).flatten() {
                if let Some(mark) = met.get_mut(index(*view)).filter(|it| **it != turn) {
                    *mark = turn;
                    found.push(*view);
                }
            }
        }
        found.sort_unstable();
        found
    }

    /// Three tiers as one.
    fn whole(&mut self, triple: [usize; 3]) -> Row {
        let tiers = std::mem::take(&mut self.tier_rows);
        let row = match triple.map(|at| tiers.get(at)) {
            [Some(admin), Some(network), Some(baseline)] => self.merged([admin, network, baseline]),
            _ => Row { defaults: [0; 3], exceptions: Vec::new() },
        };
        self.tier_rows = tiers;
        row
    }

    fn merged(&mut self, tiers: [&Row; 3]) -> Row {
        let defaults = KINDS.map(|kind| self.combined(tiers.map(|it| it.default_of(kind))));
        let mut row = Row { defaults, exceptions: Vec::new() };
        let mut places = [0_usize; 3];
        loop {
            let heads: [Option<&(u32, u32)>; 3] = std::array::from_fn(|at| tiers.get(at)?.exceptions.get(*places.get(at)?));
            let Some(view) = heads.iter().flatten().map(|it| it.0).min() else { return row };
            let kind = self.compiled.foreign.get(view).map_or(Kind::Outside, |it| it.kind);
            let values = std::array::from_fn(|at| match heads.get(at) {
                Some(Some((of, value))) if *of == view => *value,
                _ => tiers.get(at).map_or(0, |it| it.default_of(kind)),
            });
            for (place, head) in places.iter_mut().zip(heads) {
                *place += usize::from(head.is_some_and(|it| it.0 == view));
            }
            let value = self.combined(values);
            if value != row.default_of(kind) {
                row.exceptions.push((view, value));
            }
        }
    }

    fn combined(&mut self, triple: [u32; 3]) -> u32 {
        if let Some(known) = self.combined.get(&triple) {
            return *known;
        }
        let [Some(admin), Some(network), Some(baseline)] = triple.map(|it| self.outcomes.get(it).copied()) else { return 0 };
        let passing = self.passing.intern(combine(admin, network, baseline, &mut self.sets.ports));
        self.combined.insert(triple, passing);
        passing
    }
}
