//! The arguments of `palisade lab`.

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand, ValueEnum};
use palisade_agent::Established;

use crate::cli::{InputArgs, Output};

/// The lab that is meant without a name.
pub(crate) const DEFAULT_NAME: &str = "default";

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
  palisade lab verify                                            whether each node's kernel does what policy says
  palisade lab audit-report
  palisade lab down
  palisade lab soak --changes 20000                              changes under traffic: nothing leaks")]
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
    Metrics(MetricsArgs),
    Verify(VerifyArgs),
    Soak(SoakArgs),
    Accepted(AcceptedArgs),
    AuditReport(AuditReportArgs),
    Down(DownArgs),
}

#[derive(Args, Debug)]
pub(crate) struct NameArgs {
    /// Which lab, where there are several
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME)]
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
  palisade lab up -f manifests/ --watch --established=keep
  palisade lab up -f manifests/ --unknown=open          new pods are like the outside until their policy is in force
  palisade lab up -f manifests/ --exempt 10.244.0.250   all but this address, which no pod has
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
    /// What becomes of live connections that a change denies
    #[arg(long, value_name = "FATE", default_value = "cut")]
    pub(crate) established: EstablishedArg,
    /// What becomes of a pod whose link is there before its policy is in force: closed or open
    ///
    /// Closed, nothing is from or for it until then, but what its own node asks of it.
    #[arg(long, value_name = "WHAT", default_value = "closed")]
    pub(crate) unknown: WhileUnknownArg,
    /// Where pods have their addresses from, besides `spec.podCIDRs` of nodes; may be repeated
    ///
    /// Who has an address there and is not known to a node is a pod that it has not heard of: no CIDR accepts it, and every rule denies it that denies
    /// pods. Without it, the ranges that the lab takes addresses from. The first two addresses of a node's range are the node's own.
    #[arg(long, value_name = "CIDR")]
    pub(crate) pod_cidr: Vec<ipnet::IpNet>,
    /// An address on the link of a pod that is let through though no pod is known to have it; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) exempt: Vec<std::net::IpAddr>,
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

/// What becomes of live connections that a change denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EstablishedArg {
    /// They end at once, whoever sends next
    Cut,
    /// They live on until one of their ends closes them
    Keep,
}

impl From<EstablishedArg> for Established {
    fn from(it: EstablishedArg) -> Established {
        match it {
            EstablishedArg::Cut => Established::Cut,
            EstablishedArg::Keep => Established::Keep,
        }
    }
}

/// What becomes of pods that are not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WhileUnknownArg {
    Closed,
    Open,
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
  palisade lab probe --from 203.0.113.7 --to shop/web --port 8080
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

/// Print what the agents have done and met: commits, refusals of the kernel, what was lost for want of room
///
/// Numbers only grow, and begin anew with an agent.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  palisade lab metrics
  palisade lab metrics -o prometheus

Exit codes: 0; 2 when no lab is up.")]
pub(crate) struct MetricsArgs {
    /// text for people, json for programs (`palisade schema metrics` is its schema), prometheus for Prometheus
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: MetricsOutput,
    #[command(flatten)]
    pub(crate) lab: NameArgs,
}

/// How numbers are written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum MetricsOutput {
    Text,
    Json,
    Prometheus,
}

/// Print the connections that were denied or cut, each with the rule that did so
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
    /// text for people, json for programs: one object a line (`palisade schema denial` is its schema; of connections that were cut,
    /// `palisade schema cut`)
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) lab: NameArgs,
}

/// Say whether the kernel of each node does what policy says
///
/// As `palisade verify`, for the nodes of a lab that is up.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  palisade lab verify
  palisade lab verify lab-1 -o json
  palisade lab verify --repair

Exit codes: 0 as it should be, 1 differences or places where policy cannot be enforced, 2 could not find out.")]
pub(crate) struct VerifyArgs {
    /// One node, by name; all of them without it
    #[arg(value_name = "NODE")]
    pub(crate) node: Option<String>,
    /// Put back what is wrong with our tables, step by step
    #[arg(long)]
    pub(crate) repair: bool,
    /// text for people, json for programs: one object a node (`palisade schema verification` is its schema)
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

/// What policies asked to have logged of the connections they accept
///
/// A policy with the annotation `palisade.dev/log: accepted` has each connection told that one of its rules accepts; with `ingress#0,egress#1` only
/// those of these rules. A connection that one end accepts and the other denies is in both lists. Nothing is logged unless a policy asks.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  palisade lab accepted
  palisade lab accepted --follow -o json | jq -r .from.pod

Exit codes: 0, also when nothing was logged; 2 when no lab is up.")]
pub(crate) struct AcceptedArgs {
    /// Go on with what is accepted from now on, until Ctrl-C
    #[arg(long)]
    pub(crate) follow: bool,
    /// text for people, json for programs: one object a line (`palisade schema acceptance` is its schema)
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) lab: NameArgs,
}

/// Change a lab over and over under traffic, and count what leaks and what is lost
///
/// Builds a lab of its own, on two nodes, and makes changes one after the other: pods come, go and get other labels, policies come, go and change, agents
/// start anew. All the while packets are sent, each a connection of its own. What policy denies before and after a change must not arrive, what it
/// accepts before and after must not be lost. Prints both by the kind of change, and each packet that did what it should not.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  palisade lab soak
  palisade lab soak --changes 20000
  palisade lab soak --changes 20000 --seed 7            the same changes again: times differ, changes do not
  palisade lab soak --changes 500 --kill                an agent is killed in each of them

Exit codes: 0 nothing leaked and nothing was lost, 1 something did, 2 could not tell.")]
pub(crate) struct SoakArgs {
    /// How many changes are made
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) changes: usize,
    /// Which changes are made
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Kill the agent of a node in the middle of each change (SIGKILL), and let another take over
    #[arg(long)]
    pub(crate) kill: bool,
    /// Be such an agent
    #[arg(long, hide = true, value_name = "WORDS")]
    pub(crate) agent: Option<String>,
}

/// End a lab, and every command that still runs in it
#[derive(Args, Debug)]
pub(crate) struct DownArgs {
    #[command(flatten)]
    pub(crate) lab: NameArgs,
}
