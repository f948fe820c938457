//! The rules, one a file.

mod cluster_ip_in_ip_block;
mod deprecated_shape;
mod dns_blocked;
mod dns_without_udp;
mod domain_names_of_services;
mod duplicate_entry;
mod duplicate_rule_name;
mod empty_list_allows_all;
mod equal_priority_conflict;
mod except_covers_everything;
mod except_undone;
mod exposed_but_blocked;
mod foreign_deny_all;
mod host_network_subject;
mod label_typo;
mod metadata_address_open;
mod named_port_nobody_has;
mod named_port_with_networks;
mod namespace_name_label;
mod no_default_deny;
mod node_ip_in_ip_block;
mod other_side_denies;
mod overridden_by_cluster_policy;
mod pass_in_baseline;
mod pod_ip_in_ip_block;
mod policy_types_mismatch;
mod port_not_served;
mod redundant_policy;
mod redundant_rule;
mod rule_matches_nothing;
mod rule_shadowed;
mod selector_selects_nothing;
mod single_family_catch_all;
mod two_dashes;
mod unreachable_baseline;
mod wide_open_rule;

use crate::rule::Rule;

/// Every rule, by name.
pub const RULES: &[Rule] = &[
    cluster_ip_in_ip_block::RULE,
    deprecated_shape::RULE,
    dns_blocked::RULE,
    dns_without_udp::RULE,
    domain_names_of_services::RULE,
    duplicate_entry::RULE,
    duplicate_rule_name::RULE,
    empty_list_allows_all::RULE,
    equal_priority_conflict::RULE,
    except_covers_everything::RULE,
    except_undone::RULE,
    exposed_but_blocked::RULE,
    foreign_deny_all::RULE,
    host_network_subject::RULE,
    label_typo::RULE,
    metadata_address_open::RULE,
    named_port_nobody_has::RULE,
    named_port_with_networks::RULE,
    namespace_name_label::RULE,
    no_default_deny::RULE,
    node_ip_in_ip_block::RULE,
    other_side_denies::RULE,
    overridden_by_cluster_policy::RULE,
    pass_in_baseline::RULE,
    pod_ip_in_ip_block::RULE,
    policy_types_mismatch::RULE,
    port_not_served::RULE,
    redundant_policy::RULE,
    redundant_rule::RULE,
    rule_matches_nothing::RULE,
    rule_shadowed::RULE,
    selector_selects_nothing::RULE,
    single_family_catch_all::RULE,
    two_dashes::RULE,
    unreachable_baseline::RULE,
    wide_open_rule::RULE,
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
