//! Pods of the node that the agent does not know yet, behind interfaces whose names match no pattern of pods: the table `inet palisade-strays`.
//!
//! Only a route shows such a pod. While its address and interface are in this table, nothing from or for that address passes on that interface.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::layout::Layout;
use crate::ruleset::{Address, Chain, CtState, Hook, Match, Rule, Ruleset, SourceSet, Statement, Verdict};

/// The interface of the node that leads to a pod, and the address of the pod.
pub type UnknownPod = (String, IpAddr);

/// The unknown pods of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownPods {
    /// The origin that logged packets name.
    pub origin: u32,
    pub pods: BTreeSet<UnknownPod>,
}

const DENIED: &str = "denied";

impl UnknownPods {
    /// The table. None without pods: an empty table would cost every packet a hook.
    pub fn ruleset(&self) -> Option<Ruleset> {
        if self.pods.is_empty() {
            return None;
        }
        let mut ruleset = Ruleset { layout: Layout::Unmarked, ..Ruleset::default() };
        for family in Address::BOTH {
            let elements = self.pods.iter().filter(|(_, address)| Address::of(*address) == family).cloned().collect();
            ruleset.sets.insert(set(family), SourceSet { family, elements });
        }
        let from = |family| Rule::to(Verdict::Goto(DENIED.to_owned())).when(Match::LinkAndSource { family, set: set(family) });
        let to = |family| Rule::to(Verdict::Goto(DENIED.to_owned())).when(Match::LinkAndDestination { family, set: set(family) });
        let forward = Address::BOTH.into_iter().flat_map(|family| [from(family), to(family)]).collect();
        // The node may call the pod, and the replies of the pod pass.
        let input = Address::BOTH.map(|family| {
            let matches = [Match::Ct(CtState::New)].into_iter().chain(from(family).matches).collect();
            Rule { matches, ..from(family) }
        });
        let denied = Rule { statements: denied(self.origin), ..Rule::default() };
        for (name, hook, rules) in
            [("forward", Some(Hook::Forward), forward), ("input", Some(Hook::Input), input.into()), (DENIED, None, vec![denied])]
        {
            ruleset.chains.insert(name.to_owned(), Chain { hook, rules });
        }
        Some(ruleset)
    }

    /// The unknown pods that a table of this kind holds.
    pub fn pods_of(ruleset: &Ruleset) -> BTreeSet<UnknownPod> {
        Address::BOTH.into_iter().filter_map(|family| ruleset.sets.get(&set(family))).flat_map(|it| it.elements.iter().cloned()).collect()
    }
}

/// Counts, logs and drops, as the rules of policies do.
pub(crate) fn denied(origin: u32) -> Vec<Statement> {
    vec![Statement::Counter, Statement::Log(origin), Statement::Verdict(Verdict::Drop)]
}

fn set(family: Address) -> String {
    format!("strays{}", family.digit())
}
