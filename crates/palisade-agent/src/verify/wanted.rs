//! The content that each table of a node should have.

use std::collections::{BTreeMap, BTreeSet};

use palisade_engine::compile;
use palisade_model::{Model, Shared};
use palisade_nft::{BlockedReplies, Frames, Ids, NodeView, Origin, Ruleset, Table, audit, lower};

use crate::cluster::Cluster;
use crate::core::unknown::unknown_pods;
use crate::sweep::{Judge, denied};
use crate::verify::Held;

/// A ruleset that refers to something that it does not have. No ruleset of `lower` does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ruleset cannot be followed: {0}")]
pub struct Untraceable(String);

/// The rulesets of a node, and what the numbers in its logs stand for.
pub(super) struct Wanted {
    pub(super) tables: BTreeMap<Table, Ruleset>,
    pub(super) origins: Shared<BTreeMap<u32, Origin>>,
}

impl Wanted {
    /// Which connections were cut is known to no one but the agent that cut them. So of blocked replies those stay that the kernel has and that policy denies; whether
    /// one is missing cannot be seen.
    pub(super) fn of(model: &Model, view: &NodeView, held: &Held) -> Result<Wanted, Untraceable> {
        let own = lower(model, &compile(model), view, &mut Ids::default());
        let known = Cluster::of(model.clone(), view.node, view.links.clone());
        let mut tables = BTreeMap::new();
        for table in Table::EVERY {
            let found = held.examined(table);
            let ruleset = match table {
                Table::Own => Some(own.clone()),
                // They stand beside the own table only while that is replaced.
                Table::Next | Table::Again => None,
                Table::Audit => audit(model, view.node, &mut Ids::default()).map(|it| it.ruleset),
                Table::UnknownPods => {
                    let routes = held.environment.host_routes.iter().map(|it| (it.link.clone(), it.to));
                    unknown_pods(&known, &view.unknown, &own.origins, routes).ruleset()
                }
                Table::Replies => {
                    let blocked = found.map(|it| BlockedReplies::of(&it.ruleset).replies).unwrap_or_default();
                    let nowhere = BTreeSet::new();
                    let mut judge = Judge::new(&own, &known, &nowhere);
                    BlockedReplies { replies: denied(blocked.keys(), &mut judge).map_err(Untraceable)? }.ruleset()
                }
                Table::Frames => Frames { links: view.links.values().cloned().collect() }.ruleset(found.as_ref().map(|it| &it.ruleset)),
            };
            tables.extend(ruleset.map(|it| (table, it)));
        }
        Ok(Wanted { tables, origins: own.origins })
    }
}
