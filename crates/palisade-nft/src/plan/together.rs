//! Stages that one commit may make together.
//!
//! What a packet reads of one commit is as before it up to some lookup, and as after it from then on. So a stage needs no commit of its own before the
//! next one if the next one changes only what is asked *before* all that it changes itself: who meets the later stage then meets the earlier one
//! too, with a grace between both or without. Who is known by which link is asked first; then in each direction the program of the subject, then
//! whether it meets itself, then the class of its peer.

use palisade_model::Direction;

use crate::plan::links::all_stay_known;
use crate::plan::transitions::{Context, Transition};
use crate::ruleset::Ruleset;

/// Whether a change may be made at once, after what it refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hurry {
    AtOnce,
    ByAndBy,
}

/// All may be made at once if pods only come to the node, and these may send whatever they want. Then egress of such a pod says nothing, before or
/// after. What is for it, it receives by the old ruleset, which denies nothing, or has read its program, and everything after that is new. What others
/// make of it is one lookup of its class. Ranges are in force too late for that; and who is known no more would be let through by that, and meet what
/// is new. `before` is what the new ruleset has not.
pub(super) fn may_come_at_once(context: &mut Context<'_>, transitions: &[Transition], before: &Ruleset) -> Option<Hurry> {
    let ranges_stay = context.moves.values().all(|it| it.spans.is_empty());
    if !ranges_stay || !all_stay_known(before) {
        return Some(Hurry::ByAndBy);
    }
    for transition in transitions {
        let harmless = match (transition.from, transition.to, transition.direction) {
            (None, Some(program), Direction::Egress) => context.lets_all_pass(Direction::Egress, program)?,
            (None, Some(_), Direction::Ingress) => true,
            (Some(_), _, _) | (None, None, _) => false,
        };
        if !harmless {
            return Some(Hurry::ByAndBy);
        }
    }
    Some(Hurry::AtOnce)
}

/// Makes stages equal to the one before them where they need no commit of their own.
pub(super) fn join([before, refined, narrowed, moved, widened, settled, _]: &mut [Ruleset; 7], hurry: Hurry) {
    let next = match hurry {
        Hurry::AtOnce => &*settled,
        Hurry::ByAndBy => &*narrowed,
    };
    // A chain is at a link from the moment on that it is told so, and not only with the commit.
    if only_selves_and_links(before, refined) && refined.chains == next.chains {
        refined.clone_from(before);
    }
    match hurry {
        Hurry::AtOnce => [narrowed, moved, widened].into_iter().for_each(|stage| stage.clone_from(refined)),
        Hurry::ByAndBy if only_classes(narrowed, moved) && only_who_is_known(moved, widened) => moved.clone_from(narrowed),
        Hurry::ByAndBy => {}
    }
}

fn only_classes(from: &Ruleset, to: &Ruleset) -> bool {
    Ruleset { data: from.data.clone(), ..to.clone() } == *from
}

fn only_who_is_known(from: &Ruleset, to: &Ruleset) -> bool {
    Ruleset { sets: from.sets.clone(), addresses: from.addresses.clone(), ..to.clone() } == *from
}

/// Subjects are asked for before whether they meet themselves, and nobody asks about links that no chain stands at.
fn only_selves_and_links(from: &Ruleset, to: &Ruleset) -> bool {
    Ruleset { pairs: from.pairs.clone(), sets: from.sets.clone(), ..to.clone() } == *from
}
