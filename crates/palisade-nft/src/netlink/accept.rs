//! Whether the kernel would take a rule: its expressions one after the other, with the registers that they fill and ask.

use crate::netlink::expression::{Expression, Lookup, LookupResult};
use crate::netlink::map::Shape;
use crate::netlink::rule::lower;
use crate::netlink::uapi::meta;
use crate::ruleset::{Chain, Rule, Ruleset, Verdict};
use crate::transaction::apply::Cause;

/// Whether each expression of a rule finds what it refers to.
pub(crate) fn accepts(ruleset: &Ruleset, rule: &Rule) -> Result<(), Cause> {
    let mut loaded = 0;
    for expression in lower(rule, |_| 0) {
        match expression {
            Expression::Meta(meta::LINK | meta::OUT_LINK) => loaded |= words(1, 16),
            Expression::Meta(_) | Expression::State | Expression::SourceType => loaded |= words(1, 4),
            Expression::MetaTo { to, .. } => loaded |= words(to, 4),
            Expression::Payload { length, to, .. } => loaded |= words(to, length),
            Expression::Value(_) => loaded |= words(1, 4),
            Expression::Verdict(Verdict::Jump(chain) | Verdict::Goto(chain)) => goes(ruleset, &chain)?,
            Expression::Lookup(Lookup { set, id: None, result }) => {
                let kind = ruleset.map(&set).ok_or(Cause::Missing)?.kind();
                let key = words(1, Shape::of(kind).key().1);
                if loaded & key != key {
                    return Err(Cause::Unread);
                }
                // Whether something is there can be asked of a map too.
                if result != LookupResult::Found && Shape::of(kind).result() != result {
                    return Err(Cause::Invalid);
                }
            }
            // The set of the rule itself.
            Expression::Lookup(Lookup { id: Some(_), .. }) => {}
            Expression::Verdict(Verdict::Accept | Verdict::Drop | Verdict::Return) => {}
            Expression::Mask(_) | Expression::Compare(..) | Expression::SetPriority | Expression::Counter | Expression::Log { .. } => {}
        }
    }
    Ok(())
}

/// Whether a verdict may go to a chain.
pub(crate) fn goes(ruleset: &Ruleset, chain: &str) -> Result<(), Cause> {
    match ruleset.chains.get(chain) {
        None => Err(Cause::Missing),
        Some(Chain { hook: Some(_), .. }) => Err(Cause::BaseChain),
        Some(Chain { hook: None, .. }) => Ok(()),
    }
}

/// The words of four bytes that a value has in the registers, as bits. Registers 1 to 4 have sixteen bytes each, and those from 8 on are
/// the same in pieces of four.
fn words(register: u32, bytes: u32) -> u32 {
    let first = if register >= 8 { register - 8 } else { register.saturating_sub(1) * 4 };
    let below = |it: u32| 1_u32.checked_shl(it).map_or(u32::MAX, |it| it - 1);
    below(first + bytes.div_ceil(4)) & !below(first)
}
