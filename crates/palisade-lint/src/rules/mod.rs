//! The rules, one a file.

mod duplicate_rule_name;
mod named_port_nobody_has;
mod policy_types_mismatch;
mod selector_selects_nothing;
mod two_dashes;

use crate::rule::Rule;

/// Every rule, by name.
pub const RULES: &[Rule] = &[
    duplicate_rule_name::RULE,
    named_port_nobody_has::RULE,
    policy_types_mismatch::RULE,
    selector_selects_nothing::RULE,
    two_dashes::RULE,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_in_kebab_case() {
        let names: Vec<&str> = RULES.iter().map(|it| it.name).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        assert!(names.iter().all(|it| it.bytes().all(|it| it.is_ascii_lowercase() || it == b'-')), "{names:?}");
    }

    #[test]
    fn every_rule_says_what_it_is_about_in_sentences() {
        for rule in RULES {
            for text in [rule.summary, rule.why, rule.fix] {
                assert!(text.ends_with('.') && text.starts_with(|it: char| it.is_ascii_uppercase() || it == '`'), "{}: {text}", rule.name);
            }
        }
    }
}
