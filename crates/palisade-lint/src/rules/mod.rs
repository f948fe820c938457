//! The rules, one a file.

mod cluster_ip_in_ip_block;
mod duplicate_rule_name;
mod except_covers_everything;
mod except_undone;
mod metadata_address_open;
mod named_port_nobody_has;
mod named_port_with_networks;
mod node_ip_in_ip_block;
mod pod_ip_in_ip_block;
mod policy_types_mismatch;
mod selector_selects_nothing;
mod single_family_catch_all;
mod two_dashes;

use crate::rule::Rule;

/// Every rule, by name.
pub const RULES: &[Rule] = &[
    cluster_ip_in_ip_block::RULE,
    duplicate_rule_name::RULE,
    except_covers_everything::RULE,
    except_undone::RULE,
    metadata_address_open::RULE,
    named_port_nobody_has::RULE,
    named_port_with_networks::RULE,
    node_ip_in_ip_block::RULE,
    pod_ip_in_ip_block::RULE,
    policy_types_mismatch::RULE,
    selector_selects_nothing::RULE,
    single_family_catch_all::RULE,
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
