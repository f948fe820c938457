//! What the links of the node's pods make of a ruleset.

use palisade_engine::Known;
use palisade_model::{Model, Place};

use crate::ids::Ids;
use crate::lower::NodeView;
use crate::ruleset::{Chain, Hook, Ruleset};
use crate::sources::bind_sources;
use crate::unknown::close;

/// The sets and chains that links are in, as a ruleset of nothing else.
#[derive(Debug)]
pub(super) struct Bound(Ruleset);

impl Bound {
    /// Where no address is claimed twice.
    pub(super) fn of(model: &Model, view: &NodeView, ids: &mut Ids) -> Bound {
        let pods = view.links.keys().filter_map(|id| Some((*id, model.endpoint(*id)?)));
        let each = pods.flat_map(|(id, pod)| pod.addresses.iter().map(move |address| (id, *address)));
        // Nobody asks for classes here.
        let mut known: Vec<Known> = each.map(|(id, address)| Known { address, place: Place::Pod(id), class: 0 }).collect();
        known.sort_unstable_by_key(|it| it.address);
        let mut ruleset = Ruleset::default();
        close(model, &known, view, ids, &mut ruleset);
        bind_sources(model, &known, &view.links, ids, &mut ruleset);
        Bound(ruleset)
    }

    /// Whether a ruleset has them as they are.
    pub(super) fn is_in(&self, ruleset: &Ruleset) -> bool {
        self.0.sets == ruleset.sets && self.has_same_chains(ruleset)
    }

    fn has_same_chains(&self, ruleset: &Ruleset) -> bool {
        let count = |of: &Ruleset| of.chains.values().filter(|it| is_at_ingress(it)).count();
        count(&self.0) == count(ruleset) && self.0.chains.iter().all(|(name, chain)| ruleset.chains.get(name) == Some(chain))
    }

    /// Puts them in the place of those that a ruleset has. Chains that are not touched stay one with those of the last ruleset.
    pub(super) fn put(self, ruleset: &mut Ruleset) {
        if !self.has_same_chains(ruleset) {
            ruleset.chains.retain(|_, it| !is_at_ingress(it));
            ruleset.chains.extend(self.0.chains);
        }
        ruleset.sets = self.0.sets;
    }
}

fn is_at_ingress(chain: &Chain) -> bool {
    matches!(chain.hook, Some(Hook::Ingress { .. }))
}
