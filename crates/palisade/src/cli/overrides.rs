//! Arguments of `palisade overrides`.

use clap::{Args, ValueEnum};

use super::InputArgs;

/// Where cluster policies override NetworkPolicies, and each other
///
/// For a cluster policy, existing or proposed: which NetworkPolicies, rules and pairs of workloads it overrides, which others have its priority and whether that matters, and
/// what opens and closes if it came or went. For a NetworkPolicy: which of its rules are overridden, by what, and what is left of them.
///
/// A rule overrides where it decides a connection and NetworkPolicies, had they been asked, would have said the opposite. Where no NetworkPolicy isolates a pod there is
/// nothing to override. Each side of a connection is judged by itself. Nodes are left out.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  palisade overrides -f manifests/                          every cluster policy
  palisade overrides cnp/tenants -f manifests/              one of them
  palisade overrides --apply new.yaml --context prod        what the cluster policies of a file would override
  palisade overrides np/shop/db -f manifests/               what is left of a NetworkPolicy, and by whose doing
  palisade overrides np/shop/db -f manifests/ --redact      the same without a word about the cluster policies
  palisade overrides -f manifests/ -o md                    for a comment on a pull request

Exit codes: 0 nothing is overridden and no equal priority matters, 1 something is, 2 could not tell.")]
pub(crate) struct OverridesArgs {
    /// Policies by the names that Palisade prints: cnp/NAME, anp/NAME, banp/NAME, kep2091/NAME, np/NAMESPACE/NAME. Without one: every cluster policy, or
    /// those that `--apply` brings, or with `--redact` every NetworkPolicy
    #[arg(value_name = "POLICY")]
    pub(crate) policies: Vec<String>,
    /// Put these objects over what was read: those of the same name are replaced, others added; may be repeated
    #[arg(long, value_name = "FILE|DIR|-")]
    pub(crate) apply: Vec<String>,
    /// Only say that NetworkPolicies are overridden, not by what: for who may not see cluster policies
    #[arg(long)]
    pub(crate) redact: bool,
    /// text for people, json for programs (`palisade schema overrides`), md for tables
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: OverridesOutput,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OverridesOutput {
    Text,
    Json,
    Md,
}
