//! Arguments of `palisade allow`.

use clap::{Args, ValueEnum};

use super::InputArgs;

/// What to write so that a connection is allowed
///
/// Prints the smallest NetworkPolicy for each side that denies the connection, or the addition to one that is there, as a diff of your file. It was tried out
/// before it is printed, and what else it opens is listed. Where a cluster policy makes every NetworkPolicy useless, it says which rule, where it stands and whom to ask.
/// Nothing is written and nothing is sent anywhere.
///
/// An addition is proposed where a policy is about the same pods and accepts something already; a policy of its own otherwise. Pods that no NetworkPolicy
/// isolates are never isolated by a proposal, unless `--isolate` says so.
#[derive(Args, Debug)]
#[command(after_help = "\
FROM and TO are ends of a connection as in `palisade explain`: a pod or workload (shop/web), shop/deploy/web, pods by labels
that need not exist (shop/app=web), an address, node/NAME, and svc/shop/db as TO.

Examples:
  palisade allow shop/web shop/db 5432 -f manifests/
  palisade allow shop/web shop/db 5432 -f manifests/ --new        a policy of its own, not an addition
  palisade allow shop/web svc/shop/db postgres -f manifests/      a Service and the name of its port
  palisade allow shop/app=web kube-system/k8s-app=kube-dns udp/53 -f manifests/
  palisade allow shop/web 203.0.113.7 443 --context prod -o yaml | kubectl apply -f -
  palisade allow shop/web shop/db icmp -f manifests/ -o json

Exit codes: 0 allowed already, or here is what to write; 1 no NetworkPolicy helps; 2 could not tell.")]
pub(crate) struct AllowArgs {
    /// Who opens the connection
    pub(crate) from: String,
    /// Who is called
    pub(crate) to: String,
    /// The destination's port, by number or by the name the destination gives it; of tcp unless it says otherwise, as in udp/53; or icmp
    #[arg(value_name = "[PROTOCOL/]PORT")]
    pub(crate) port: String,
    /// Always a policy of its own
    #[arg(long, conflicts_with = "edit")]
    pub(crate) new: bool,
    /// An addition to a policy that isolates the pods, also if it is about other pods, too
    #[arg(long)]
    pub(crate) edit: bool,
    /// Where only Baseline denies, propose a NetworkPolicy that isolates the pods; what that closes is listed
    #[arg(long)]
    pub(crate) isolate: bool,
    /// text for people, yaml of the policies afterwards, json for programs (`palisade schema allowance`)
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: AllowOutput,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AllowOutput {
    Text,
    Yaml,
    Json,
}
