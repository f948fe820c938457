//! Every name by which Palisade and the rest of a cluster know each other. docs/labels.md shows the same table, and a test holds both equal.

/// The group of everything that is ours.
pub const GROUP: &str = "palisade.dev";
/// The group of the kinds that cluster policies come in.
pub const POLICY_GROUP: &str = "policy.networking.k8s.io";
/// Where KEP-2091's AdminNetworkPolicy is served in a live cluster: its own group and version are taken by the shapes that were shipped.
pub const KEP2091_GROUP: &str = "kep2091.palisade.dev";
/// The same with its version.
pub const KEP2091_API_VERSION: &str = "kep2091.palisade.dev/v1alpha1";
/// How messages name its kind there, as kubectl does: another group has a kind of the same name.
pub const KEP2091_KIND: &str = "AdminNetworkPolicy.kep2091.palisade.dev";
/// The label that says which controller a policy is for. A policy without it is for all.
pub const CONTROLLER_LABEL: &str = "networking.k8s.io/policy-controller-name";
/// The name that we answer to, unless told otherwise.
pub const CONTROLLER_NAME: &str = "palisade";
/// The value for a policy that is nobody's: it is switched off.
pub const DISABLED: &str = "none";
/// All such values, unless told otherwise.
pub const DISABLED_VALUES: &[&str] = &[DISABLED];
/// The annotation that says in which shape an AdminNetworkPolicy is written.
pub const SHAPE: &str = "palisade.dev/shape";
/// Its value for KEP-2091.
pub const SHAPE_KEP2091: &str = "kep2091";
/// Its value for the shape of v0.1.0 to v0.1.2.
pub const SHAPE_EARLY: &str = "v0.1.0";
/// Its value for the shape as last shipped.
pub const SHAPE_LATE: &str = "v0.1.7";
/// The annotation that has a policy watched and not enforced.
pub const MODE: &str = "palisade.dev/mode";
/// Its only value.
pub const MODE_AUDIT: &str = "audit";
/// The annotation that names the policies that are watched together.
pub const AUDIT_SET: &str = "palisade.dev/audit-set";
/// The set of those that name none.
pub const DEFAULT_AUDIT_SET: &str = "audit";
/// The annotation that says which accepted connections are logged.
pub const LOG: &str = "palisade.dev/log";
/// The annotation that would bind a policy to another network of its pods.
pub const NETWORK: &str = "palisade.dev/network";
/// The setting that would name the namespace whose labels host-network pods have.
pub const HOST_NETWORK_NAMESPACE: &str = "[kubernetes] host-network-namespace";
/// The group in which results of compliance would be reported.
pub const REPORTS: &str = "openreports.io";

/// One name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    pub name: &'static str,
    /// What it is a name of.
    pub is: &'static str,
    /// What it may be set to; empty where nothing is set.
    pub values: &'static [&'static str],
    pub standing: Standing,
    pub means: &'static str,
}

/// Whether a name does anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Works,
    /// Kept free for a later version; it does nothing today.
    Reserved,
}

/// All of them.
pub const NAMES: &[Name] = &[
    name(GROUP, "API group", &[], "everything of ours that carries an `apiVersion`"),
    name(
        KEP2091_API_VERSION,
        "apiVersion",
        &["AdminNetworkPolicy"],
        "KEP-2091's AdminNetworkPolicy in a live cluster, and in files if you like",
    ),
    name(
        CONTROLLER_LABEL,
        "label",
        &[CONTROLLER_NAME, DISABLED],
        "the controller that a policy is for; with any other value it does not exist for us, and `none` is nobody's",
    ),
    name(
        SHAPE,
        "annotation",
        SHAPES,
        "the shape that an AdminNetworkPolicy or BaselineAdminNetworkPolicy is written in, where its fields do not say",
    ),
    name(MODE, "annotation", &[MODE_AUDIT], "watch what the policy would do, enforce nothing of it (docs/audit.md)"),
    name(AUDIT_SET, "annotation", &["NAME"], "policies in mode `audit` that are watched together; without it the set `audit`"),
    name(
        LOG,
        "annotation",
        &["accepted", "ingress#N,egress#N,…", "none"],
        "which accepted connections are logged: those of all its rules, or of these, numbered from 0; what is denied is logged in any case",
    ),
    reserved(NETWORK, "annotation", &["CLASS/[NAMESPACE/]NAME"], "the network of its pods that the policy is about"),
    reserved(HOST_NETWORK_NAMESPACE, "setting", &["NAMESPACE"], "the namespace whose labels host-network pods are given"),
    reserved(REPORTS, "API group", &["Report"], "results of compliance, where that API is installed"),
];

/// The values of [`SHAPE`].
pub const SHAPES: &[&str] = &[SHAPE_KEP2091, SHAPE_EARLY, SHAPE_LATE];

const fn name(name: &'static str, is: &'static str, values: &'static [&'static str], means: &'static str) -> Name {
    Name { name, is, values, standing: Standing::Works, means }
}

const fn reserved(name: &'static str, is: &'static str, values: &'static [&'static str], means: &'static str) -> Name {
    Name { name, is, values, standing: Standing::Reserved, means }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of docs/labels.md.
    fn table() -> String {
        let code = |it: &str| format!("`{it}`");
        let row = |it: &Name| {
            let values: Vec<String> = it.values.iter().map(|it| code(it)).collect();
            let today = match it.standing {
                Standing::Works => "works",
                Standing::Reserved => "reserved, does nothing",
            };
            format!("| {} | {} | {} | {today} | {} |\n", code(it.name), it.is, values.join(", "), it.means)
        };
        let rows: String = NAMES.iter().map(row).collect();
        format!("| name | is a | values | today | for |\n|---|---|---|---|---|\n{rows}")
    }

    #[test]
    fn names_within_names_are_the_same() {
        assert_eq!(KEP2091_API_VERSION, format!("{KEP2091_GROUP}/v1alpha1"));
        assert_eq!(KEP2091_KIND, format!("AdminNetworkPolicy.{KEP2091_GROUP}"));
        assert!(KEP2091_GROUP.ends_with(&format!(".{GROUP}")));
        for name in NAMES.iter().filter(|it| it.is == "annotation") {
            assert_eq!(name.name.split_once('/').map(|(group, _)| group), Some(GROUP));
        }
    }

    #[test]
    fn the_page_has_every_name_and_no_other() {
        let page = include_str!("../../../docs/labels.md");
        let found: String = page.lines().filter(|it| it.starts_with('|')).map(|it| format!("{it}\n")).collect();
        assert_eq!(found, table(), "docs/labels.md and crates/palisade-api/src/names.rs must say the same");
    }
}
