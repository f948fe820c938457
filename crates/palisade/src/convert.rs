//! `palisade convert`.

use anyhow::Result;
use clap::{Args, ValueEnum};
use ipnet::IpNet;
use palisade_analysis::convert::Unsayable;
use palisade_app::convert::{self, Conversion, ConvertOptions, WHOLE_CLUSTER};
use palisade_report::converted::converted_text;
use palisade_report::text;

use crate::cli::InputArgs;
use crate::command_output::CommandOutput;
use crate::input::{self, Scope};

/// Write policies in another shape, with the same reach
///
/// Reads cluster policies of any kind and writes them as another. The new objects go to standard output and apply cleanly: labels, annotations and
/// comments are kept, status and what servers fill in are not. What the other shape cannot say is listed on standard error, with what was written in its
/// place. Then both versions of the cluster are compared, connection by connection: what changes is printed as `palisade diff` prints it.
///
/// Nothing is deleted or applied. The objects that the new ones replace are named; delete them once the new ones are there.
#[derive(Args, Debug)]
#[command(after_help = "\
POLICY is cnp/NAME, anp/NAME, banp/NAME, kep2091/NAME, or a name alone. Without any, all cluster policies are converted.

Examples:
  palisade convert --to clusternetworkpolicy -f manifests/ > cnp.yaml
  palisade convert --to clusternetworkpolicy -f manifests/ anp/tenants
  palisade convert --to adminnetworkpolicy --context prod --keep
  palisade convert --to kep2091 -f manifests/ -o json | jq '.losses'
  palisade convert --to networkpolicy -f manifests/ > downgrade.yaml

Exit codes: 0 reach is the same, 1 connections change (they are listed), 2 could not tell.")]
pub(crate) struct ConvertArgs {
    /// The shape to write
    #[arg(long, value_name = "SHAPE")]
    pub(crate) to: Shape,
    /// The policies to convert
    #[arg(value_name = "POLICY")]
    pub(crate) policies: Vec<String>,
    /// Leave a policy in its own shape where the other cannot say all of it
    #[arg(long)]
    pub(crate) keep: bool,
    /// With `--to networkpolicy`: where pods have their addresses from, for each family that they have; may be repeated
    ///
    /// Blocks of addresses then leave out pods that come later too.
    #[arg(long, value_name = "CIDR")]
    pub(crate) pod_cidr: Vec<IpNet>,
    /// yaml: the new objects; json: the same with all that was lost and changed (`palisade schema conversion`)
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "yaml")]
    pub(crate) output: ConvertOutput,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// policy.networking.k8s.io/v1alpha2 ClusterNetworkPolicy
    Clusternetworkpolicy,
    /// policy.networking.k8s.io/v1alpha1 AdminNetworkPolicy and BaselineAdminNetworkPolicy, as last shipped
    Adminnetworkpolicy,
    /// kep2091.palisade.dev/v1alpha1 AdminNetworkPolicy, as KEP-2091 proposed it
    Kep2091,
    /// networking.k8s.io/v1 NetworkPolicies in every namespace that do what all cluster policies and NetworkPolicies did, for a downgrade
    Networkpolicy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConvertOutput {
    Yaml,
    Json,
}

pub(crate) fn run(args: &ConvertArgs) -> Result<CommandOutput> {
    let options = ConvertOptions {
        to: match args.to {
            Shape::Clusternetworkpolicy => convert::Shape::ClusterNetworkPolicy,
            Shape::Adminnetworkpolicy => convert::Shape::AdminNetworkPolicy,
            Shape::Kep2091 => convert::Shape::Kep2091,
            Shape::Networkpolicy => convert::Shape::NetworkPolicy,
        },
        policies: args.policies.clone(),
        unsayable: if args.keep { Unsayable::Kept } else { Unsayable::Dropped },
        pod_cidrs: args.pod_cidr.clone(),
    };
    let Conversion { report, yaml, converted } = convert::convert(&input::objects(&args.input, Scope::Whole(WHOLE_CLUSTER))?, &options)?;
    match args.output {
        ConvertOutput::Json => CommandOutput::json(&report, report.outcome()),
        ConvertOutput::Yaml => {
            let stderr = text::diagnostics(&report.diagnostics) + &converted_text(&report, &converted);
            Ok(CommandOutput { stdout: yaml, stderr, outcome: report.outcome() })
        }
    }
}
