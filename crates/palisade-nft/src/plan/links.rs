//! Links that chains stand at, and the sets that say who is known by which link.

use std::collections::BTreeSet;

use crate::plan::tables::is_ingress;
use crate::ruleset::{AddressSet, Chain, Hook, Ruleset, SourceSet};
use crate::transaction::difference::{devices, maps_of};

/// Both rulesets, and what they do not have in common.
pub(super) struct Links<'a> {
    pub(super) old: &'a Ruleset,
    pub(super) new: &'a Ruleset,
    pub(super) before: &'a Ruleset,
    pub(super) after: &'a Ruleset,
}

impl Links<'_> {
    /// Adds sets that are new, and who is known by links that no chain stands at yet.
    pub(super) fn prepare(&self, stage: &mut Ruleset) {
        for (name, set) in &self.after.sets {
            let asking = Asking::of(self.old, name);
            let known = stage.sets.entry(name.clone()).or_insert_with(|| SourceSet { family: set.family, elements: BTreeSet::new() });
            known.elements.extend(set.elements.iter().filter(|(link, _)| !asking.about(link)).cloned());
        }
        for (name, set) in &self.after.addresses {
            stage.addresses.entry(name.clone()).or_insert_with(|| AddressSet { family: set.family, elements: BTreeSet::new() });
        }
    }

    /// Takes away who is known no more, but by links that are left. Chains stand at the old links and the new ones: each more is one bound more.
    pub(super) fn narrow(&self, stage: &mut Ruleset) {
        for (name, set) in stage.sets.iter_mut().filter(|(name, _)| self.after.sets.contains_key(*name)) {
            let asking = Asking::of(self.new, name);
            let gone = self.before.sets.get(name).map(|it| &it.elements);
            set.elements.retain(|it| !gone.is_some_and(|gone| gone.contains(it)) || !asking.about(&it.0));
        }
        for (name, set) in stage.addresses.iter_mut().filter(|(name, _)| self.after.addresses.contains_key(*name)) {
            let gone = self.before.addresses.get(name).map(|it| &it.elements);
            set.elements.retain(|it| !gone.is_some_and(|gone| gone.contains(it)));
        }
        for (name, chain) in at_links(self.after) {
            let mut chain = chain.clone();
            if let (Some(Hook::Ingress { devices }), Some(Hook::Ingress { devices: old })) =
                (&mut chain.hook, self.before.chains.get(name).and_then(|it| it.hook.as_ref()))
            {
                devices.extend(old.iter().cloned());
            }
            stage.chains.insert(name.clone(), chain);
        }
    }

    /// Adds who is known now. Chains leave the links that they stand at no more.
    pub(super) fn widen(&self, stage: &mut Ruleset) {
        for (name, set) in &mut stage.sets {
            set.elements.extend(self.after.sets.get(name).into_iter().flat_map(|it| it.elements.iter().cloned()));
        }
        for (name, set) in &mut stage.addresses {
            set.elements.extend(self.after.addresses.get(name).into_iter().flat_map(|it| it.elements.iter().copied()));
        }
        for (name, _) in at_links(self.before) {
            stage.chains.remove(name);
        }
        stage.chains.extend(at_links(self.after).map(|(name, chain)| (name.clone(), chain.clone())));
    }
}

/// Whether everybody who is known by a link stays so; `before` is what the new ruleset has not.
pub(super) fn all_stay_known(before: &Ruleset) -> bool {
    before.sets.values().all(|it| it.elements.is_empty()) && before.addresses.values().all(|it| it.elements.is_empty())
}

fn at_links(ruleset: &Ruleset) -> impl Iterator<Item = (&String, &Chain)> {
    ruleset.chains.iter().filter(|(_, chain)| is_ingress(chain))
}

/// Who asks a set in a ruleset. One that chains at links ask is asked by these alone.
enum Asking<'a> {
    /// Chains at these links.
    AtLinks(Vec<&'a BTreeSet<String>>),
    /// Others, about any link.
    Anywhere,
}

impl<'a> Asking<'a> {
    fn of(ruleset: &'a Ruleset, set: &str) -> Asking<'a> {
        let asks = |chain: &&Chain| chain.rules.iter().flat_map(maps_of).any(|it| it == set);
        let asking = ruleset.chains.values().filter_map(|chain| Some((chain, devices(chain)?))).filter(|(chain, _)| asks(chain));
        let links: Vec<&BTreeSet<String>> = asking.map(|(_, devices)| devices).collect();
        if links.is_empty() && ruleset.sets.contains_key(set) { Asking::Anywhere } else { Asking::AtLinks(links) }
    }

    /// Whether somebody may ask for an element of a link.
    fn about(&self, link: &str) -> bool {
        match self {
            Asking::AtLinks(links) => links.iter().any(|it| it.contains(link)),
            Asking::Anywhere => true,
        }
    }
}
