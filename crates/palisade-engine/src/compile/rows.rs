//! What a program does with every other end of another namespace: a default for each kind of end, and exceptions.
//!
//! Only ends that some condition of the program picks out are looked at. Tiers are worked out once for each distinct list of rules, programs once for
//! each distinct triple of tiers.

use palisade_model::Direction;
use rustc_hash::FxHashMap;

use crate::compile::evaluate::{Context, Outcome, Passing, Relation, combine};
use crate::compile::intern::{Interned, index};
use crate::compile::ports::PortSets;
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
}

/// Which views each condition picks out.
#[derive(Debug, Default)]
pub(crate) struct Postings {
    pods: Vec<Vec<u32>>,
    nodes: Vec<Vec<u32>>,
    blocks: Vec<Vec<u32>>,
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
            compiled.regions.lists.get(foreign.blocks).iter().for_each(|it| post(&mut postings.blocks, *it, id));
            let ports = compiled.port_views.get(foreign.ports);
            ports.chunks(2).filter_map(|it| it.first()).for_each(|it| post(&mut postings.ports, *it, id));
        }
        postings
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
    sets: &'c mut PortSets,
    outcomes: Interned<Outcome>,
    /// By list, own ports and kind of tier.
    tiers: FxHashMap<(u32, u32, TierKind), usize>,
    tier_rows: Vec<Row>,
    /// Which views have been met in the row that is being worked out.
    met: Vec<u32>,
    turn: u32,
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
    pub(crate) fn work_out(compiled: &Compiled, direction: Direction, postings: &Postings, sets: &mut PortSets) -> Rows {
        let mut working = Working {
            compiled,
            context: compiled.context(direction),
            postings,
            sets,
            outcomes: Interned::default(),
            tiers: FxHashMap::default(),
            tier_rows: Vec::new(),
            met: vec![0; compiled.foreign.values().len()],
            turn: 0,
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
        Rows { of_program, rows, passing: working.passing }
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

    fn tier(&mut self, list: u32, ports: u32, kind: TierKind) -> usize {
        if let Some(known) = self.tiers.get(&(list, ports, kind)) {
            return *known;
        }
        let row = self.tier_row(list, ports, kind);
        self.tier_rows.push(row);
        self.tiers.insert((list, ports, kind), self.tier_rows.len() - 1);
        self.tier_rows.len() - 1
    }

    fn tier_row(&mut self, list: u32, ports: u32, kind: TierKind) -> Row {
        let nothing = |kind| Foreign { kind, view: 0, blocks: self.compiled.no_blocks(), ports: 0 };
        let defaults = KINDS.map(nothing).map(|it| self.outcome(list, ports, kind, it));
        let mut exceptions = Vec::new();
        if kind != TierKind::NotIsolated {
            for view in self.picked_out(list) {
                let Some(foreign) = self.compiled.foreign.get(view).copied() else { continue };
                let outcome = self.outcome(list, ports, kind, foreign);
                let row = Row { defaults, exceptions: Vec::new() };
                if outcome != row.default_of(foreign.kind) {
                    exceptions.push((view, outcome));
                }
            }
        }
        Row { defaults, exceptions }
    }

    fn outcome(&mut self, list: u32, ports: u32, kind: TierKind, foreign: Foreign) -> u32 {
        let outcome = match kind {
            TierKind::Ordered => self.context.ordered(list, ports, foreign, Relation::Apart, self.sets),
            TierKind::Isolated => self.context.network(Some(list), ports, foreign, Relation::Apart, self.sets),
            TierKind::NotIsolated => self.context.network(None, ports, foreign, Relation::Apart, self.sets),
        };
        self.outcomes.intern(outcome)
    }

    /// The views that some condition of some rule picks out, in order.
    fn picked_out(&mut self, list: u32) -> Vec<u32> {
        self.turn += 1;
        let (postings, met, turn) = (self.postings, &mut self.met, self.turn);
        let mut found = Vec::new();
        for rule in self.context.rules(list) {
            let peers = &rule.peers;
            let names = rule.named.iter().filter_map(|it| self.context.parts.named.get(*it)).map(|it| &it.name);
            let of_names = names.filter(|_| self.context.direction == Direction::Egress).filter_map(|it| postings.ports.get(index(*it)));
            let pods = peers.pods.iter().filter_map(|it| postings.pods.get(index(*it)));
            let nodes = peers.nodes.iter().filter_map(|it| postings.nodes.get(index(*it)));
            let blocks = peers.blocks.iter().filter_map(|it| postings.blocks.get(index(*it)));
            for view in pods.chain(nodes).chain(blocks).chain(of_names).flatten() {
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
        let [a, n, b] = triple.map(|at| self.tier_rows.get(at).cloned().unwrap_or(Row { defaults: [0; 3], exceptions: Vec::new() }));
        let kinds = [0, 1, 2].map(|at: usize| [&a, &n, &b].map(|row| row.defaults.get(at).copied().unwrap_or(0)));
        let defaults = kinds.map(|it| self.combined(it));
        let mut views: Vec<u32> = [&a, &n, &b].into_iter().flat_map(|row| row.exceptions.iter().map(|it| it.0)).collect();
        views.sort_unstable();
        views.dedup();
        let mut row = Row { defaults, exceptions: Vec::new() };
        for view in views {
            let Some(kind) = self.compiled.foreign.get(view).map(|it| it.kind) else { continue };
            let value = self.combined([a.at(view, kind), n.at(view, kind), b.at(view, kind)]);
            if value != row.default_of(kind) {
                row.exceptions.push((view, value));
            }
        }
        row
    }

    fn combined(&mut self, triple: [u32; 3]) -> u32 {
        if let Some(known) = self.combined.get(&triple) {
            return *known;
        }
        let [Some(admin), Some(network), Some(baseline)] = triple.map(|it| self.outcomes.get(it).copied()) else { return 0 };
        let passing = self.passing.intern(combine(admin, network, baseline, self.sets));
        self.combined.insert(triple, passing);
        passing
    }
}
