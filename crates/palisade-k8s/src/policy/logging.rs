//! Which rules of a policy log what they accept.

use palisade_api::Logging;
use palisade_model::{Action, Direction, Policy, RuleRef};

/// The rules that log, and a word about each that was asked for and cannot.
pub(crate) fn logged(policy: &Policy, logging: &Logging) -> (Vec<RuleRef>, Vec<String>) {
    let accepting = |direction: Direction| policy.rules.of(direction).iter().filter(|it| it.action == Action::Accept);
    let reference = |direction: Direction, rule: &palisade_model::Rule| RuleRef {
        policy: policy.origin.clone(),
        direction,
        index: rule.index,
        name: rule.name.clone(),
    };
    match logging {
        Logging::None => (Vec::new(), Vec::new()),
        Logging::Accepted => {
            let all = Direction::BOTH.into_iter().flat_map(|direction| accepting(direction).map(move |it| reference(direction, it)));
            (all.collect(), Vec::new())
        }
        Logging::Rules(wanted) => {
            let (mut rules, mut odd) = (Vec::new(), Vec::new());
            for (direction, index) in wanted {
                match accepting(*direction).find(|it| it.index == *index) {
                    Some(rule) => rules.push(reference(*direction, rule)),
                    None => odd.push(format!("has no rule `{direction}#{index}` that accepts; nothing is logged for it")),
                }
            }
            (rules, odd)
        }
    }
}
