//! Frames that links of pods may send: plain IPv4, IPv6 and ARP. The table `netdev palisade` drops every other frame.
//!
//! A frame with VLAN tags meets no chain of the family `inet`, but the kernel removes tags of VLAN 0 and accepts the packet inside, whatever its
//! source. Only the family `netdev` sees such a frame, so this is a table of its own. It has one rule and no policy.

use std::collections::{BTreeMap, BTreeSet};

use crate::layout::Layout;
use crate::ruleset::{Chain, Hook, Match, Rule, Ruleset, Statement, Verdict};

/// The first part of the names of chains; a number follows.
const NAME: &str = "frames-";
/// The kernel accepts this many devices for one chain.
const DEVICES: usize = 255;
const COMMENT: &str = "tagged or foreign frame";
/// IPv4, IPv6 and ARP.
const PLAIN: [u16; 3] = [0x0800, 0x86dd, 0x0806];

/// The links of a node whose frames are checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    pub links: BTreeSet<String>,
}

impl Frames {
    /// The table. None without links. A link that has a chain in the table `before` is in the same chain.
    pub fn ruleset(&self, before: Option<&Ruleset>) -> Option<Ruleset> {
        let mut rest = self.links.clone();
        let stay = before.into_iter().flat_map(numbered).map(|(number, devices)| {
            let links: BTreeSet<String> = devices.iter().filter(|it| rest.remove(*it)).cloned().collect();
            (number, links)
        });
        let mut rooms: BTreeMap<usize, BTreeSet<String>> = stay.filter(|(_, links)| !links.is_empty()).collect();
        let mut number = 1;
        for link in rest {
            while rooms.get(&number).is_some_and(|it| it.len() >= DEVICES) {
                number += 1;
            }
            rooms.entry(number).or_default().insert(link);
        }
        table(rooms)
    }

    /// The tables that lead from the table `before` to one for these links, the last one included. The caller waits for a grace after each but the last.
    ///
    /// INVARIANT: a link that stays has a chain at any time: while one commit deletes a chain and adds another, frames pass. So links that come get chains of
    /// their own, and a chain that some of its links leave goes after frames have met another chain for the rest. No kernel before 6.4 can change
    /// the links of a chain, so no chain is changed.
    pub fn stages(&self, before: Option<&Ruleset>) -> Vec<Option<Ruleset>> {
        let known: BTreeMap<usize, &BTreeSet<String>> = before.into_iter().flat_map(numbered).collect();
        let mut rooms: BTreeMap<usize, BTreeSet<String>> =
            known.iter().filter(|(_, it)| it.is_subset(&self.links)).map(|(number, it)| (*number, (*it).clone())).collect();
        let goes = rooms.len() < known.len();
        let rest: Vec<&String> = self.links.iter().filter(|link| !rooms.values().any(|it| it.contains(*link))).collect();
        let free = (1..).filter(|number| !known.contains_key(number));
        let come: BTreeMap<usize, BTreeSet<String>> =
            free.zip(rest.chunks(DEVICES)).map(|(number, links)| (number, links.iter().copied().cloned().collect())).collect();
        let mut stages = Vec::new();
        if let Some(before) = before.filter(|_| goes && !come.is_empty()) {
            let mut both = before.clone();
            both.chains.extend(come.iter().map(|(number, links)| (name(*number), chain(links.clone()))));
            stages.push(Some(both));
        }
        rooms.extend(come);
        stages.push(table(rooms));
        stages
    }

    /// The links that a table of this kind checks.
    pub fn of(ruleset: &Ruleset) -> Frames {
        Frames { links: numbered(ruleset).flat_map(|(_, devices)| devices.iter().cloned()).collect() }
    }
}

fn name(number: usize) -> String {
    format!("{NAME}{number}")
}

fn chain(devices: BTreeSet<String>) -> Chain {
    let statements = vec![Statement::Counter, Statement::Verdict(Verdict::Drop)];
    let rule = Rule { matches: vec![Match::FrameTypeNotIn(PLAIN.to_vec())], statements, comment: Some(COMMENT.to_owned()) };
    Chain { hook: Some(Hook::Frames { devices }), rules: vec![rule] }
}

fn table(rooms: BTreeMap<usize, BTreeSet<String>>) -> Option<Ruleset> {
    let chains: BTreeMap<String, Chain> = rooms.into_iter().map(|(number, links)| (name(number), chain(links))).collect();
    (!chains.is_empty()).then(|| Ruleset { layout: Layout::Unmarked, chains: chains.into(), ..Ruleset::default() })
}

/// The chains that have names of ours, by number, with their links.
fn numbered(ruleset: &Ruleset) -> impl Iterator<Item = (usize, &BTreeSet<String>)> {
    ruleset.chains.iter().filter_map(|(name, chain)| {
        let number: usize = name.strip_prefix(NAME)?.parse().ok()?;
        // `frames-01` is another chain than `frames-1`.
        let devices = chain.hook.as_ref()?.devices()?;
        (self::name(number) == *name).then_some((number, devices))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::Change;

    fn links(names: &[&str]) -> Frames {
        Frames { links: names.iter().map(|it| (*it).to_owned()).collect() }
    }

    fn rooms(ruleset: &Ruleset) -> Vec<(String, Vec<String>)> {
        let devices = |it: &Chain| it.hook.as_ref().and_then(Hook::devices).unwrap().iter().cloned().collect();
        ruleset.chains.iter().map(|(name, chain)| (name.clone(), devices(chain))).collect()
    }

    #[test]
    fn a_link_keeps_its_chain_while_others_come_and_go() {
        let first = links(&["a", "b"]).ruleset(None).unwrap();
        assert_eq!(rooms(&first), [("frames-1".to_owned(), vec!["a".to_owned(), "b".to_owned()])]);
        // An agent of another version may have made one chain for each link.
        let mut before = first.clone();
        let chain = Chain { hook: Some(Hook::Frames { devices: links(&["c"]).links }), rules: Vec::new() };
        before.chains.insert("frames-7".to_owned(), chain.clone());
        before.chains.insert("frames-07".to_owned(), chain.clone());
        before.chains.insert("other".to_owned(), chain);
        let second = links(&["b", "c", "d"]).ruleset(Some(&before)).unwrap();
        assert_eq!(
            rooms(&second),
            [("frames-1".to_owned(), vec!["b".to_owned(), "d".to_owned()]), ("frames-7".to_owned(), vec!["c".to_owned()])]
        );
        assert_eq!(Frames::of(&second), links(&["b", "c", "d"]));
        assert_eq!(links(&[]).ruleset(Some(&second)), None);
    }

    /// Each step is a commit: no chain of a link that stays is deleted in a commit before which the link has no other chain, and no chain changes its links.
    fn check_stages(before: Option<&Ruleset>, wanted: &Frames, stages: usize) {
        let all = wanted.stages(before);
        assert_eq!(all.len(), stages, "{all:#?}");
        let mut held = before.cloned();
        for stage in all {
            let (old, new) = [&held, &stage].map(|it| it.clone().unwrap_or_default()).into();
            let changes = new.changes_since(&old).changes;
            assert!(!changes.iter().any(|it| matches!(it, Change::AddDevices { .. } | Change::DeleteDevices { .. })), "{changes:?}");
            let stays = Frames::of(&old).links.intersection(&wanted.links).cloned().collect::<BTreeSet<String>>();
            // Chains that are the same before and after.
            let kept = old.chains.iter().filter(|(name, it)| new.chains.get(*name).map(|it| &it.hook) == Some(&it.hook));
            let covered: BTreeSet<String> = kept.filter_map(|(_, it)| it.hook.as_ref()?.devices()).flatten().cloned().collect();
            assert!(stays.is_subset(&covered), "{stays:?} {covered:?}");
            held = stage;
        }
        assert_eq!(held.as_ref().map(Frames::of).unwrap_or_default(), *wanted);
        // Written like this, it is what a verification takes for right.
        assert_eq!(wanted.ruleset(held.as_ref()), held);
    }

    #[test]
    fn no_stage_leaves_a_link_that_stays_without_a_chain() {
        check_stages(None, &links(&["a"]), 1);
        let first = links(&["a", "b"]).ruleset(None).unwrap();
        check_stages(Some(&first), &links(&["a", "b"]), 1);
        check_stages(Some(&first), &links(&["a", "b", "c"]), 1);
        check_stages(Some(&first), &links(&["c"]), 2);
        check_stages(Some(&first), &links(&["a"]), 2);
        check_stages(Some(&first), &links(&["b", "c"]), 2);
        check_stages(Some(&first), &links(&[]), 1);
        let mut apart = first.clone();
        apart.chains.extend(
            table([(2, links(&["c"]).links), (7, links(&["d"]).links)].into()).unwrap().chains.iter().map(|(k, v)| (k.clone(), v.clone())),
        );
        check_stages(Some(&apart), &links(&["a", "b", "d"]), 1);
        check_stages(Some(&apart), &links(&["a", "c", "d", "e"]), 2);
    }

    #[test]
    fn a_chain_has_no_more_links_than_the_kernel_accepts() {
        let many = Frames { links: (0..600).map(|it| format!("pod{it:03}")).collect() };
        let ruleset = many.ruleset(None).unwrap();
        assert_eq!(rooms(&ruleset).iter().map(|(_, it)| it.len()).collect::<Vec<_>>(), [255, 255, 90]);
        assert_eq!(Frames::of(&ruleset), many);
    }
}
