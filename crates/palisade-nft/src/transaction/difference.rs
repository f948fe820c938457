//! What turns one ruleset into another.

use std::collections::BTreeSet;

use crate::ruleset::{Chain, Hook, Match, Rule, Ruleset, Statement, Value};
use crate::transaction::map::MapRef;
use crate::transaction::{Change, Table, Transaction};

impl Ruleset {
    /// The plain difference: what turns the table that holds `old` into one that holds this, in an order that the kernel accepts.
    ///
    /// It is atomic and yet not safe against packets on their way: one may meet the old chains and the new maps and pass where neither
    /// ruleset lets it. Whoever changes a table in force must split it into steps that narrow before they widen.
    pub fn changes_since(&self, old: &Ruleset) -> Transaction {
        let parts = Parts::of(self, old);
        let mut changes = Vec::new();
        // Whatever refers to something goes before it.
        let flushed = parts.rewritten.union(&parts.gone_chains).filter(|it| old.chains.get(**it).is_some_and(|it| !it.rules.is_empty()));
        changes.extend(flushed.map(|it| Change::FlushChain((*it).to_owned())));
        for (name, map) in old.maps().filter(|(name, _)| !parts.gone_maps.contains(name.as_str())) {
            let elements = map.without(self.map(name));
            changes.extend((!elements.is_empty()).then(|| Change::DeleteElements { map: name.clone(), elements }));
        }
        changes.extend(parts.gone_maps.iter().map(|it| Change::DeleteMap((*it).to_owned())));
        changes.extend(parts.gone_chains.iter().map(|it| Change::DeleteChain((*it).to_owned())));
        for (name, chain) in self.chains.iter().filter(|(name, _)| !parts.gone_chains.contains(name.as_str())) {
            let (before, now) = (old.chains.get(name).and_then(devices), devices(chain));
            let (Some(before), Some(now)) = (before, now) else { continue };
            let (fewer, more): (BTreeSet<String>, BTreeSet<String>) = (before - now, now - before);
            changes.extend((!fewer.is_empty()).then(|| Change::DeleteDevices { chain: name.clone(), devices: fewer }));
            changes.extend((!more.is_empty()).then(|| Change::AddDevices { chain: name.clone(), devices: more }));
        }
        // Whatever is referred to comes before what refers to it.
        for (name, chain) in &self.chains {
            if !old.chains.contains_key(name) || parts.gone_chains.contains(name.as_str()) {
                changes.push(Change::AddChain { name: name.clone(), hook: chain.hook.clone() });
            }
        }
        for (name, map) in self.maps() {
            if parts.staying(old, name).is_none() {
                changes.push(Change::AddMap { name: name.clone(), kind: map.kind(), elements: map.len() });
            }
        }
        for name in &parts.rewritten {
            let rules = self.chains.get(*name).map_or(&[][..], |chain| &chain.rules);
            changes.extend(rules.iter().map(|rule| Change::AppendRule { chain: (*name).to_owned(), rule: rule.clone() }));
        }
        // For each chain that comes to ask a map, the kernel walks over all that is in it by then.
        for (name, map) in self.maps() {
            let elements = map.without(parts.staying(old, name));
            changes.extend((!elements.is_empty()).then(|| Change::AddElements { map: name.clone(), elements }));
        }
        Transaction { table: Table::Own, changes }
    }
}

/// Which objects of two rulesets cannot stay as they are, by name.
struct Parts<'a> {
    /// Maps that are not there any more, or are of another kind.
    gone_maps: BTreeSet<&'a str>,
    /// Chains that are not there any more, or stand elsewhere.
    gone_chains: BTreeSet<&'a str>,
    /// Chains of the new ruleset that need their rules anew.
    rewritten: BTreeSet<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(new: &'a Ruleset, old: &'a Ruleset) -> Parts<'a> {
        let moved = |name: &str, chain: &Chain| new.chains.get(name).is_none_or(|it| !is_there(it, chain));
        let gone_chains = old.chains.iter().filter(|(name, chain)| moved(name, chain)).map(|(name, _)| name.as_str()).collect();
        let gone_maps = old.maps().filter(|(name, map)| new.map(name).is_none_or(|it| it.kind() != map.kind()));
        let gone_maps: BTreeSet<&str> = gone_maps.map(|(name, _)| name.as_str()).collect();
        // A map cannot go while a rule asks it, not even to come back as another.
        let asks = |rule: &Rule| maps_of(rule).any(|it| gone_maps.contains(it));
        let stays = |name: &str, chain: &Chain| {
            old.chains.get(name).is_some_and(|it| is_there(it, chain) && same(&it.rules, &chain.rules) && !it.rules.iter().any(asks))
        };
        let rewritten = new.chains.iter().filter(|(name, chain)| !stays(name, chain)).map(|(name, _)| name.as_str()).collect();
        Parts { gone_maps, gone_chains, rewritten }
    }

    /// A map that can stay as it is, but for its elements.
    fn staying<'o>(&self, old: &'o Ruleset, name: &str) -> Option<MapRef<'o>> {
        old.map(name).filter(|_| !self.gone_maps.contains(name))
    }
}

/// Whether a chain stands where another does. A chain at links can be told of other links.
fn is_there(it: &Chain, other: &Chain) -> bool {
    match (&it.hook, &other.hook) {
        (Some(one), Some(other)) => one.is_same_point(other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

pub(crate) fn devices(chain: &Chain) -> Option<&BTreeSet<String>> {
    chain.hook.as_ref().and_then(Hook::devices)
}

/// Whether rules are kept as the same.
pub(crate) fn same(old: &[Rule], new: &[Rule]) -> bool {
    old.len() == new.len() && old.iter().zip(new).all(|(old, new)| old == new || old.as_kept() == new.as_kept())
}

/// The maps that a rule asks.
pub(crate) fn maps_of(rule: &Rule) -> impl Iterator<Item = &str> {
    let sets = rule.matches.iter().filter_map(|it| match it {
        Match::LinkAndSource { set, .. } | Match::LinkAndDestination { set, .. } => Some(set.as_str()),
        Match::Pair { set, .. } | Match::In { set, .. } => Some(set.as_str()),
        Match::Ct(_) | Match::Protocol(_) | Match::Port { .. } | Match::Number(_) | Match::SourceIsLocal | Match::NotSyn => None,
        Match::NeighbourDiscovery | Match::RouterSolicitationFrom(_) | Match::NeighbourDiscoveryFrom(_) => None,
        Match::ListenerDiscoveryFrom(_) | Match::ListenerReportFrom(_) | Match::Link { .. } | Match::FrameTypeNotIn(_) => None,
    });
    let maps = rule.statements.iter().filter_map(|it| match it {
        Statement::Set(Value::From { map, .. }) | Statement::Look(map) | Statement::LookTuple { map, .. } => Some(map.as_str()),
        Statement::Set(Value::Zero) | Statement::Counter | Statement::Log(_) | Statement::Would(_) | Statement::Verdict(_) => None,
    });
    sets.chain(maps)
}
