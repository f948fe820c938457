//! Which of the blocks asked about hold each prefix, and which rules name one of these: one walk over the prefixes in order, from wide to narrow.
//!
//! A prefix is in the blocks that its wider prefix is in, but for the few that begin or end with it. So what holds it is kept as a difference
//! (`Sets`), and a policy of many blocks costs their number times a logarithm, however they are nested and whatever they leave out.

use ipnet::IpNet;
use palisade_model::{Family, IpBlock};
use rustc_hash::FxHashMap;

use crate::compile::intern::{index, number};
use crate::compile::node::asked::Asked;
use crate::compile::node::sets::{EMPTY, Sets};
use crate::compile::node::words::{self, digest};
use crate::compile::prefixes::{Prefixes, bits};

/// Blocks and rules that hold the addresses of a prefix, compared with those of a family as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// Blocks, by number.
    pub(super) blocks: u32,
    /// Rules with one of these among their peers.
    pub(super) rules: u32,
    /// How many more blocks than those that hold the family as a whole; one of these that does not hold the prefix counts as one less.
    deviating: i64,
    /// Sum of the digests of blocks, counted likewise.
    digest: u128,
}

/// What holds each prefix.
#[derive(Debug)]
pub(super) struct Holding {
    blocks: Sets,
    rules: Sets,
    of_prefix: Vec<Held>,
    /// By the set of blocks: everything else follows from that.
    of_blocks: FxHashMap<u32, Held>,
    /// Of each family: the blocks that hold all of it unless they say otherwise, as if they did not.
    whole: [Held; 2],
}

/// A block that begins to hold addresses, or no longer does.
type Event = (u32, Turns);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turns {
    On,
    Off,
}

impl Turns {
    fn back(self) -> Turns {
        match self {
            Turns::On => Turns::Off,
            Turns::Off => Turns::On,
        }
    }
}

impl Holding {
    pub(super) fn of(asked: &Asked<'_>, prefixes: &Prefixes) -> Holding {
        let mut events: FxHashMap<IpNet, Vec<Event>> = FxHashMap::default();
        for (block, id) in asked.blocks.values().iter().zip(0..) {
            let Some(except) = exceptions(block) else { continue };
            events.entry(block.cidr.trunc()).or_default().push((id, Turns::On));
            for net in except {
                events.entry(net).or_default().push((id, Turns::Off));
            }
        }
        let mut walk = Walk::over(asked);
        let mut holding = Holding {
            blocks: Sets::below(asked.blocks.values().len()),
            rules: Sets::below(asked.rule_count()),
            of_prefix: Vec::new(),
            of_blocks: FxHashMap::default(),
            whole: [Held::default(); 2],
        };
        holding.whole = [Family::V4, Family::V6].map(|family| {
            let all: Vec<Event> = walk.whole(family).map(|it| (it, Turns::On)).collect();
            let whole = walk.turn(Held::default(), &all, &mut holding.blocks, &mut holding.rules);
            walk.count_back(&all);
            whole
        });
        // Prefixes around the present one: where each ends, what held before it, and what it turned.
        let mut around: Vec<(Family, u128, Held, &[Event])> = Vec::new();
        let mut now = Held::default();
        holding.of_blocks.insert(EMPTY, now);
        for (id, net) in prefixes.ids().filter_map(|it| Some((it, prefixes.get(it)?))) {
            let (family, first) = (Family::of(net.network()), bits(net.network()));
            while let Some((_, _, before, turned)) = around.pop_if(|(of, last, ..)| *of != family || *last < first) {
                walk.count_back(turned);
                now = before;
            }
            let here = events.get(&net).map_or(&[][..], Vec::as_slice);
            around.push((family, bits(net.broadcast()), now, here));
            now = walk.turn(now, here, &mut holding.blocks, &mut holding.rules);
            if holding.of_prefix.len() <= index(id) {
                holding.of_prefix.resize(index(id) + 1, Held::default());
            }
            holding.of_prefix.get_mut(index(id)).into_iter().for_each(|it| *it = now);
            holding.of_blocks.insert(now.blocks, now);
        }
        holding
    }

    /// The set of the blocks that hold a prefix.
    pub(super) fn blocks_of(&self, prefix: u32) -> u32 {
        self.of_prefix.get(index(prefix)).map_or(EMPTY, |it| it.blocks)
    }

    /// Whether a rule names a block that holds the addresses which a set of blocks holds.
    pub(super) fn is_named(&self, blocks: u32, rule: u32) -> bool {
        self.rules.contains(self.held(blocks).rules, rule)
    }

    /// The rules that name a block of a set and none that holds the whole family, or the other way round.
    pub(super) fn deviating_rules(&self, blocks: u32, family: Family) -> Vec<u32> {
        self.rules.differing(self.held(blocks).rules, self.whole(family).rules)
    }

    /// How many blocks of a set do not hold the whole family, or hold it and are not in the set.
    pub(super) fn deviating_count(&self, blocks: u32, family: Family) -> i64 {
        // Blocks of the whole family count as one less in both.
        self.held(blocks).deviating - self.whole(family).deviating
    }

    /// These blocks, in order.
    pub(super) fn deviating_blocks(&self, blocks: u32, family: Family) -> Vec<u32> {
        self.blocks.differing(blocks, self.whole(family).blocks)
    }

    /// The sum of their digests.
    pub(super) fn deviating_digest(&self, blocks: u32, family: Family) -> u128 {
        self.held(blocks).digest.wrapping_sub(self.whole(family).digest)
    }

    fn held(&self, blocks: u32) -> Held {
        self.of_blocks.get(&blocks).copied().unwrap_or_default()
    }

    fn whole(&self, family: Family) -> Held {
        let [four, six] = self.whole;
        match family {
            Family::V4 => four,
            Family::V6 => six,
        }
    }
}

/// What a walk over the prefixes knows of blocks and rules.
struct Walk {
    /// Rules that name each block.
    rules: Vec<Vec<u32>>,
    /// How many blocks of each rule hold the present prefix.
    count: Vec<u32>,
    digests: Vec<u128>,
    /// The family that each block holds as a whole.
    whole: Vec<Option<Family>>,
}

impl Walk {
    fn over(asked: &Asked<'_>) -> Walk {
        let blocks = asked.blocks.values();
        let mut rules: Vec<Vec<u32>> = vec![Vec::new(); blocks.len()];
        for rule in asked.all_rules() {
            for block in &rule.blocks {
                rules.get_mut(index(*block)).into_iter().for_each(|it| it.push(rule.id));
            }
        }
        let whole = (0..number(blocks.len())).map(|it| [Family::V4, Family::V6].into_iter().find(|family| asked.is_whole(it, *family)));
        Walk {
            rules,
            count: vec![0; asked.rule_count()],
            digests: blocks.iter().map(|it| digest(&words::block(it))).collect(),
            whole: whole.collect(),
        }
    }

    fn whole(&self, family: Family) -> impl Iterator<Item = u32> + use<'_> {
        (0..).zip(&self.whole).filter(move |(_, it)| **it == Some(family)).map(|(id, _)| id)
    }

    fn turn(&mut self, before: Held, events: &[Event], blocks: &mut Sets, rules: &mut Sets) -> Held {
        let mut now = before;
        for (block, turns) in events {
            now.blocks = blocks.flip(now.blocks, *block);
            let is_whole = self.whole.get(index(*block)).is_some_and(Option::is_some);
            let digest = self.digests.get(index(*block)).copied().unwrap_or_default();
            if (*turns == Turns::On) == is_whole {
                (now.deviating, now.digest) = (now.deviating - 1, now.digest.wrapping_sub(digest));
            } else {
                (now.deviating, now.digest) = (now.deviating + 1, now.digest.wrapping_add(digest));
            }
            self.count(*block, *turns, |rule| now.rules = rules.flip(now.rules, rule));
        }
        now
    }

    /// Counts as before some events.
    fn count_back(&mut self, events: &[Event]) {
        for (block, turns) in events {
            self.count(*block, turns.back(), |_| {});
        }
    }

    /// Calls `changed` with each rule that comes to name a block that holds the prefix, or no longer names one.
    fn count(&mut self, block: u32, turns: Turns, mut changed: impl FnMut(u32)) {
        for rule in self.rules.get(index(block)).into_iter().flatten() {
            let Some(count) = self.count.get_mut(index(*rule)) else { continue };
            let before = *count;
            *count = match turns {
                Turns::On => before + 1,
                Turns::Off => before.saturating_sub(1),
            };
            if (before == 0) != (*count == 0) {
                changed(*rule);
            }
        }
    }
}

/// The exceptions of a block that lie within it and within no other, in order; None if there is nothing else in the block.
pub(crate) fn exceptions(block: &IpBlock) -> Option<Vec<IpNet>> {
    let mut nets: Vec<IpNet> = block.except.iter().map(IpNet::trunc).collect();
    if nets.iter().any(|it| it.contains(&block.cidr)) {
        return None;
    }
    nets.retain(|it| block.cidr.contains(it));
    nets.sort_unstable_by_key(|it| (bits(it.network()), it.prefix_len()));
    nets.dedup_by(|narrower, wider| wider.contains(&*narrower));
    Some(nets)
}
