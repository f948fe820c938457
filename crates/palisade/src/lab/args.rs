//! The arguments of `palisade lab`.

use clap::{Args, Subcommand};

use crate::cli::{InputArgs, Output};

/// A cluster of network namespaces on this machine, with real policy and real packets
///
/// Makes nodes, pods and Services of ordinary manifests, enforces their policies in the kernel, and tries connections. Needs root; nothing outside of
/// the lab is touched, and all of it is gone with `down`, or with its process.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  palisade lab up -f manifests/                                  two nodes, in the background
  palisade lab up -f manifests/ --nodes 3 --ipv6 --watch         follow every change of the files
  palisade lab probe                                             everybody to every port
  palisade lab probe --from shop/web --to svc/shop/db --port 5432
  palisade lab exec shop/web -- curl -sm1 http://10.244.0.3:8080
  palisade lab denied --follow
  palisade lab audit-report
  palisade lab down")]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    Up(UpArgs),
    Probe(ProbeArgs),
    Exec(ExecArgs),
    Status(StatusArgs),
    Denied(DeniedArgs),
    AuditReport(AuditReportArgs),
    Down(DownArgs),
}

#[derive(Args, Debug)]
pub(crate) struct NameArgs {
    /// Which lab, where there are several
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) name: String,
}

/// Build a lab and leave it running
///
/// Pods get the addresses and nodes that their manifests say; what manifests leave open is filled in. A workload without pods gets one. Policy is in
/// force before anything listens. Prints where everything is; exit 0 when the lab is up, 2 when it is not.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  palisade lab up -f manifests/
  palisade lab up -f manifests/ --nodes 3 --ipv6
  palisade lab up -f manifests/ --watch                 and edit the files
  palisade lab up -f manifests/ --foreground            in this terminal, with every denial, until Ctrl-C")]
pub(crate) struct UpArgs {
    /// Put pods that say no node on this many nodes of the lab's own
    ///
    /// Without it they go to the nodes that were read, or to two of the lab's own if there are none.
    #[arg(long, value_name = "N")]
    pub(crate) nodes: Option<usize>,
    /// Give every pod and Service an address of both families
    #[arg(long)]
    pub(crate) ipv6: bool,
    /// Put the pods of a node on one bridge instead of routing to each
    #[arg(long)]
    pub(crate) bridged: bool,
    /// Follow changes of the files
    #[arg(long)]
    pub(crate) watch: bool,
    /// Stay in this terminal and print what is denied; Ctrl-C ends the lab
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Write what is said as lines of JSON, for the process that waits for it
    #[arg(long, hide = true, requires = "foreground")]
    pub(crate) frames: bool,
    #[command(flatten)]
    pub(crate) lab: NameArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

/// Try connections with real packets
///
/// Without --from and --to everybody is tried to every port that a pod declares, and an address outside of the cluster with them. A probe ends with proof:
/// an answer, a refusal by the destination, or the event of the rule that dropped it. Each is held against what policy decides.
#[derive(Args, Debug)]
#[command(after_help = "\
Ends are written as for `palisade explain`.

Examples:
  palisade lab probe
  palisade lab probe --from shop/web --to shop/db --port 5432
  palisade lab probe --from 203.0.113.7 --to svc/shop/web --port 80
  palisade lab probe --from shop/web --to shop/db --protocol icmp -o json

Exit codes: with --from and --to 0 reached, 1 denied; without 0 when packets do what policy says, 1 when some do not; 2 could not tell.")]
pub(crate) struct ProbeArgs {
    /// Who opens the connection
    #[arg(long, value_name = "END", requires = "to")]
    pub(crate) from: Option<String>,
    /// Who is called
    #[arg(long, value_name = "END", requires = "from")]
    pub(crate) to: Option<String>,
    /// The destination's port, by number or by the name the destination gives it
    #[arg(long, short = 'p', value_name = "PORT", requires = "from")]
    pub(crate) port: Option<String>,
    /// tcp, udp, sctp or icmp
    #[arg(long, value_name = "PROTOCOL", default_value = "tcp")]
    pub(crate) protocol: String,
    /// text for people, json for programs (`palisade schema probe-report` is its schema)
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) lab: NameArgs,
}

/// Run a command in a pod, on a node, or outside of the cluster
///
/// Only the network is the pod's: files and programs are those of this machine.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  palisade lab exec shop/web -- curl -sm1 http://10.244.0.3:8080
  palisade lab exec shop/web -- ip route
  palisade lab exec node/lab-1 -- nft list table inet palisade
  palisade lab exec outside -- ping -c1 10.244.0.3")]
pub(crate) struct ExecArgs {
    /// NAMESPACE/POD, node/NAME, or `outside`
    #[arg(value_name = "WHERE")]
    pub(crate) place: String,
    /// The command with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<std::ffi::OsString>,
    #[command(flatten)]
    pub(crate) lab: NameArgs,
}

/// Say what a lab is made of and how it fares
#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// text for people, json for programs (`palisade schema lab-status` is its schema)
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) lab: NameArgs,
}

/// Print the connections that were denied, each with the rule that denied it
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  palisade lab denied
  palisade lab denied --follow
  palisade lab denied --by-rule
  palisade lab denied --would                           what audited policies would deny or allow
  palisade lab denied -o json | jq -r .rule.name

Exit codes: 0, also when nothing was denied; 2 when no lab is up.")]
pub(crate) struct DeniedArgs {
    /// Go on with what is denied from now on, until Ctrl-C
    #[arg(long)]
    pub(crate) follow: bool,
    /// Instead, connections that audited policies would deny or newly allow, each with the rule (`palisade schema would` is the schema)
    #[arg(long, conflicts_with = "by_rule")]
    pub(crate) would: bool,
    /// Instead, how many packets each rule of each node has dropped and let pass
    #[arg(long, conflicts_with_all = ["follow", "output"])]
    pub(crate) by_rule: bool,
    /// text for people, json for programs: one object a line (`palisade schema denial` is its schema)
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) lab: NameArgs,
}

/// Say what audited policies would have done with the connections that were seen, and how to enforce them
///
/// Policies with the annotation `palisade.dev/mode: audit` decide nothing. Each set of them (`palisade.dev/audit-set`) is held against the policies that
/// are enforced: which connections would break, which would open, and which pods had none, so that nothing is known about them.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  palisade lab audit-report
  palisade lab audit-report --set next -o json

Exit codes: 0 nothing that was seen would change, 1 something would, 2 no lab is up or no such set is audited.")]
pub(crate) struct AuditReportArgs {
    /// Only this set
    #[arg(long, value_name = "NAME")]
    pub(crate) set: Option<String>,
    /// text for people, json for programs (`palisade schema audit-report` is its schema)
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) lab: NameArgs,
}

/// End a lab, and every command that still runs in it
#[derive(Args, Debug)]
pub(crate) struct DownArgs {
    #[command(flatten)]
    pub(crate) lab: NameArgs,
}
