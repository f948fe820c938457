//! Pods of the node that nobody has told of yet: closed both ways, by the links that lead to them.
//!
//! The rules never change with pods, so a link that is new is closed from its first packet on, whether or not anybody looks. A pod is let through by
//! its elements in `known4` and `known6`.
//!
//! INVARIANT: whoever changes a table in force adds these elements last of all that a pod gets, and deletes them first.

use std::collections::BTreeSet;
use std::net::IpAddr;

use palisade_engine::Known;
use palisade_model::Model;

use crate::ids::Ids;
use crate::lower::{NodeView, guard_rule};
use crate::ruleset::{Address, AddressSet, Chain, End, Guard, LinkName, Match, Neighbour, Rule, Ruleset, SourceSet, Verdict};
use crate::sources::own;

/// What becomes of pods that are not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// They are strangers like any other, to whom no policy applies.
    Open,
    /// What is from or for them is dropped.
    Closed(PodLinks),
}

/// How a node knows a pod without being told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodLinks {
    /// The node's ends of links that lead to pods and to nobody else.
    pub names: BTreeSet<LinkName>,
    /// Bridges whose ports are such links: hooks see packets on these, and never on the ports.
    pub bridges: BTreeSet<String>,
    /// Addresses on such links that are let through all the same: of whatever is no pod.
    pub exempt: BTreeSet<IpAddr>,
}

impl Default for PodLinks {
    /// The names that usual CNIs give.
    fn default() -> PodLinks {
        let names = ["azv", "cali", "eni", "gke", "lxc", "veth"].map(|it| LinkName::Beginning(it.to_owned()));
        PodLinks { names: names.into(), bridges: BTreeSet::new(), exempt: BTreeSet::new() }
    }
}

impl PodLinks {
    /// Whether a link is known for one of a pod by its name.
    pub fn covers(&self, link: &str) -> bool {
        self.names.iter().any(|it| it.is(link))
    }

    /// What packets from and for pods are seen on.
    fn seen_on(&self) -> impl Iterator<Item = LinkName> + '_ {
        self.names.iter().cloned().chain(self.bridges.iter().cloned().map(LinkName::Whole))
    }
}

const FROM: &str = "unknown-from";
const TO: &str = "unknown-to";

/// What closes a hook to pods that are not known. It comes after the rules for connections that are known: what a pod that is gone has left of these
/// ends when its link goes, and every packet would pay for asking again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closing {
    pub(crate) from: Vec<Rule>,
    pub(crate) to: Vec<Rule>,
}

/// Adds to a ruleset what its hooks need to be closed to pods that are not known.
pub(crate) fn close(model: &Model, known: &[Known], view: &NodeView, ids: &mut Ids, ruleset: &mut Ruleset) -> Closing {
    let Unknown::Closed(links) = &view.unknown else { return Closing::default() };
    for family in Address::BOTH {
        let own = own(model, known, &view.links, family);
        let each = own.iter().flat_map(|(link, address)| {
            let by_link = links.covers(link).then_some(link);
            by_link.into_iter().chain(&links.bridges).map(|it| (it.clone(), *address))
        });
        ruleset.sets.insert(set("known", family), SourceSet { family, elements: each.collect() });
        let exempt = links.exempt.iter().copied().filter(|it| Address::of(*it) == family).collect();
        ruleset.addresses.insert(set("exempt", family), AddressSet { family, elements: exempt });
    }
    let guard = guard_rule(Guard::UnknownPod, ids, ruleset);
    ruleset.chains.insert(FROM.to_owned(), chain(End::Source, guard.clone()));
    ruleset.chains.insert(TO.to_owned(), chain(End::Destination, guard));
    let jumps = |end: End, to: &str| {
        let rules = links.seen_on().map(|name| Rule::to(Verdict::Jump(to.to_owned())).when(Match::Link { end, name }));
        rules.collect::<Vec<Rule>>()
    };
    Closing { from: jumps(End::Source, FROM), to: jumps(End::Destination, TO) }
}

fn set(name: &str, family: Address) -> String {
    format!("{name}{}", family.digit())
}

/// Who is known goes on, and so does what finds neighbours: it ends at the next link.
fn chain(end: End, guard: Rule) -> Chain {
    let known = Address::BOTH.map(|family| match end {
        End::Source => Match::LinkAndSource { family, set: set("known", family) },
        End::Destination => Match::LinkAndDestination { family, set: set("known", family) },
    });
    let exempt = Address::BOTH.map(|family| Match::In { end, family, set: set("exempt", family) });
    let listeners = [Neighbour::Unspecified, Neighbour::LinkLocal]
        .into_iter()
        .flat_map(|it| [Match::ListenerDiscoveryFrom(it), Match::ListenerReportFrom(it)]);
    let good = known.into_iter().chain(exempt).chain([Match::NeighbourDiscovery]).chain(listeners);
    let mut rules: Vec<Rule> = good.map(|it| Rule::to(Verdict::Return).when(it)).collect();
    rules.push(guard);
    Chain { hook: None, rules }
}
