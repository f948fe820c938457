//! Every argument, with its help. `--help` is documentation.

pub(crate) mod allow;
pub(crate) mod overrides;

use std::path::PathBuf;

use clap::builder::Styles;
use clap::{Args, Parser, Subcommand, ValueEnum};

/// Network policy for Kubernetes that can say why.
#[derive(Debug, Parser)]
#[command(name = "palisade", version, styles = Styles::styled(), max_term_width = 110, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  palisade demo                                                   see it work, without a cluster
  palisade explain -f manifests/ --from shop/web --to shop/db --port 5432
  kubectl get netpol,ns,pods -A -o yaml | palisade explain -f - --from shop/web --to shop/db --port 80
  palisade test -f manifests/ expectations.yaml
  palisade matrix -f manifests/ -o csv                            who reaches whom, on which ports
  palisade diff main/ branch/                                     which connections a change opens and closes, and why
  palisade exposure -f manifests/ --only unprotected              what is open to everybody, what nothing protects
  palisade allow shop/web shop/db 5432 -f manifests/              what to write so that it is allowed
  palisade convert --to clusternetworkpolicy -f manifests/        policies in another shape, with the same reach
  palisade lint -f manifests/                                     what is probably wrong with policies that are valid
  palisade overrides -f manifests/                                where cluster policies override NetworkPolicies
  palisade lab up -f manifests/                                   a cluster of namespaces, with real packets
  palisade verify -f manifests/ --node worker-1                   whether the kernel of this node does what they say

As a kubectl plugin: name the binary kubectl-palisade, on your PATH, and say `kubectl palisade …`.
Exit codes: 0 yes, allowed, clean; 1 no, denied, found something; 2 could not tell.")]
pub(crate) struct Cli {
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, and unless NO_COLOR is set
    Auto,
    Always,
    Never,
}

impl Color {
    pub(crate) fn choice(self) -> anstream::ColorChoice {
        match self {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::Always,
            Color::Never => anstream::ColorChoice::Never,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Explain(ExplainArgs),
    Test(TestArgs),
    Matrix(MatrixArgs),
    Diff(DiffArgs),
    Exposure(ExposureArgs),
    Allow(allow::AllowArgs),
    Convert(crate::convert::ConvertArgs),
    Lint(crate::lint::LintArgs),
    Overrides(overrides::OverridesArgs),
    Status(StatusArgs),
    Nft(NftArgs),
    Verify(crate::verify::VerifyArgs),
    Lab(crate::lab::LabArgs),
    Demo(DemoArgs),
    Completions(CompletionsArgs),
    Schema(SchemaArgs),
}

/// Where the objects come from.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Input")]
pub(crate) struct InputArgs {
    /// A file, a folder or `-` for standard input; may be repeated. Without it a live cluster is asked
    ///
    /// YAML of any number of documents, JSON, and Lists. Folders are read with all their .yaml, .yml and .json files.
    #[arg(short = 'f', long = "filename", value_name = "FILE|DIR|-")]
    pub(crate) filename: Vec<String>,
    /// The kubeconfig to use, instead of KUBECONFIG, ~/.kube/config or the pod's own account
    #[arg(long, value_name = "FILE", conflicts_with = "filename")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use
    #[arg(long, value_name = "NAME", conflicts_with = "filename")]
    pub(crate) context: Option<String>,
    /// Ask the live cluster for this namespace only, when all may not be listed
    #[arg(short = 'n', long, value_name = "NAME", conflicts_with = "filename")]
    pub(crate) namespace: Option<String>,
    /// Answer as this controller would: policies that are labelled for another do not exist for it; may be repeated
    #[arg(long, value_name = "NAME", default_value = palisade_k8s::CONTROLLER_NAME)]
    pub(crate) controller_name: Vec<String>,
    /// A value of that label which is nobody's name and switches a policy off; may be repeated
    #[arg(long, value_name = "NAME", default_value = palisade_k8s::DISABLED)]
    pub(crate) disabled_name: Vec<String>,
}

/// Why is this connection allowed or denied
///
/// Answers for one connection: the verdict, the walk through every tier at both ends with the place in the YAML that decided, and what would
/// change it. Nothing is sent anywhere; the answer is worked out from the objects.
#[derive(Args, Debug)]
#[command(after_help = "\
An end of the connection is one of
  shop/web-7c9          a pod, or a workload of that name
  shop/deploy/web       the pods of a workload (deploy, sts, ds, rs, rc, job, cj)
  shop/app=web,v=2      any pod with these labels, whether it exists or not
  10.1.2.3, fd00::7     an address; if a pod, a node or a Service has it, it is that
  node/worker-1         a node, or anything on its host network
  svc/shop/db           a Service, only as --to, with the Service's port: its pods are judged

Examples:
  palisade explain -f manifests/ --from shop/web --to shop/db --port 5432
  palisade explain -f policies.yaml --from shop/app=web --to shop/app=db --port 5432
  palisade explain -f manifests/ --from 203.0.113.7 --to svc/shop/web --port http
  palisade explain -f manifests/ --from shop/web --to shop/db --protocol icmp -o json
  helm template . | palisade explain -f - --from shop/web --to shop/db --port 5432
  palisade explain --context prod --from shop/web --to shop/db --port 5432

Exit codes: 0 allowed, 1 denied, 2 could not tell.")]
pub(crate) struct ExplainArgs {
    /// Who opens the connection
    #[arg(long, value_name = "END")]
    pub(crate) from: String,
    /// Who is called
    #[arg(long, value_name = "END")]
    pub(crate) to: String,
    /// The destination's port, by number or by the name the destination gives it
    #[arg(long, short = 'p', value_name = "PORT")]
    pub(crate) port: Option<String>,
    /// tcp, udp, sctp or icmp
    #[arg(long, value_name = "PROTOCOL", default_value = "tcp")]
    pub(crate) protocol: String,
    /// Show every rule that was tried and why it missed
    #[arg(long, short = 'v')]
    pub(crate) verbose: bool,
    /// text for people, json for programs (`palisade schema explanation` is its schema)
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
}

/// Hold expectations about connections against the policies, for CI
///
/// Expectations are sentences in a YAML list. A failure prints its explanation.
#[derive(Args, Debug)]
#[command(after_help = "\
Expectations:
  - shop/web -> shop/db tcp/5432 denied
  - shop/api -> svc/shop/db tcp/5432 allowed
  - only shop/api reaches shop/db:5432
  - nothing outside monitoring reaches *:9090
  - nothing leaves batch except to shop

Examples:
  palisade test -f manifests/ expectations.yaml
  helm template . | palisade test -f - expectations.yaml -o junit > junit.xml
  palisade test --context prod expectations.yaml

Exit codes: 0 all hold, 1 some do not, 2 could not tell.")]
pub(crate) struct TestArgs {
    /// Files of expectations
    #[arg(required = true, value_name = "EXPECTATIONS")]
    pub(crate) expectations: Vec<PathBuf>,
    /// text for people, json for programs (`palisade schema test-report`), junit for CI
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: TestOutput,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TestOutput {
    Text,
    Json,
    Junit,
}

/// Who reaches whom on which ports, for the whole cluster
///
/// Pods are collapsed to their workloads, written NAMESPACE/NAME[KIND]; addresses outside of the cluster to the ranges that policy tells apart. What a
/// workload may open towards itself is left out, and so are nodes and pods on their network. Where pods of one workload fare differently, a row says
/// what some of them may do, and text, json and md mark it. Services are left out too: a row is about the pods behind them, and their ports.
#[derive(Args, Debug)]
#[command(after_help = "\
An end is one of
  shop                  all pods of a namespace
  shop/web              a pod, or a workload of that name
  shop/deploy/web       a workload by its kind (deploy, sts, ds, rs, rc, job, cj)
  shop/app=web          the pods with these labels
  203.0.113.7           the range outside of the cluster that has this address, or the pod at it

Examples:
  palisade matrix -f manifests/
  palisade matrix -f manifests/ --to shop/db --port 5432
  palisade matrix -f manifests/ --focus shop -o svg > shop.svg
  palisade matrix -f manifests/ -o html > matrix.html
  palisade matrix -f manifests/ --focus shop -o dot | dot -Tpdf > shop.pdf
  palisade matrix -f manifests/ -o csv > connections.csv
  palisade matrix -f manifests/ --from 203.0.113.7
  palisade matrix -f manifests/ --denied --by namespace

Exit codes: 0 here it is, 2 could not tell.")]
pub(crate) struct MatrixArgs {
    /// Only rows with this end on either side
    #[arg(long, value_name = "END")]
    pub(crate) focus: Option<String>,
    /// Only rows from this end
    #[arg(long, value_name = "END")]
    pub(crate) from: Option<String>,
    /// Only rows to this end
    #[arg(long, value_name = "END")]
    pub(crate) to: Option<String>,
    /// Only connections to this port, of tcp unless it says otherwise, as in udp/53
    #[arg(long, short = 'p', value_name = "[PROTOCOL/]PORT")]
    pub(crate) port: Option<String>,
    /// The pairs that cannot talk at all, instead
    #[arg(long)]
    pub(crate) denied: bool,
    /// What a row is about
    #[arg(long, value_name = "WHAT", default_value = "workload")]
    pub(crate) by: MatrixBy,
    /// text for people, json for programs (`palisade schema matrix`), csv (src,dst,conn), md for a table, dot for Graphviz, svg for a picture, html for a page
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: MatrixOutput,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MatrixBy {
    /// The outermost owner of pods, or a pod that has none
    Workload,
    /// All pods of a namespace
    Namespace,
    /// Pods of a namespace that policy cannot tell apart
    Class,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MatrixOutput {
    Text,
    Json,
    Csv,
    Md,
    Dot,
    Svg,
    Html,
}

/// To whom each workload is exposed: the whole cluster, namespaces yet to come, the outside
///
/// For each workload and direction: what every pod of other namespaces may open, what pods of a namespace that does not exist yet may (any, or labelled so
/// that a rule lets it in), what addresses outside may; whether any policy speaks about it, and the tier that lets traffic pass. Only the workload's own side
/// is judged; `palisade matrix` says what both sides let through.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  palisade exposure -f manifests/
  palisade exposure -f manifests/ --only unprotected
  palisade exposure -f manifests/ --focus shop --direction ingress
  palisade exposure -f manifests/ --direction ingress --fail-on outside
  palisade exposure --context prod -o csv > exposure.csv

Exit codes: 0 here it is, 1 what `--fail-on` names was found, 2 could not tell.")]
pub(crate) struct ExposureArgs {
    /// Only workloads of this end: a namespace, a workload, or pods by labels, as in `palisade matrix`
    #[arg(long, value_name = "END")]
    pub(crate) focus: Option<String>,
    /// Only who may reach a workload, or whom it may reach
    #[arg(long, value_name = "DIRECTION")]
    pub(crate) direction: Option<ExposureDirection>,
    /// Only the worst
    #[arg(long, value_name = "WHAT")]
    pub(crate) only: Option<ExposureOnly>,
    /// Exit 1 if a workload in focus is so, in a direction that was asked for
    #[arg(long, value_name = "WHAT", default_value = "none")]
    pub(crate) fail_on: ExposureFailOn,
    /// text for people, json for programs (`palisade schema exposure`), csv, md for a table
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: ExposureOutput,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExposureDirection {
    /// Who may reach it
    Ingress,
    /// Whom it may reach
    Egress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExposureOnly {
    /// Open to the whole cluster, to new namespaces that nobody labelled, or to the outside
    Open,
    /// No policy of any tier speaks about it, or not about all its pods
    Unprotected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExposureFailOn {
    /// No policy of any tier speaks about it, or not about all its pods
    Unprotected,
    /// Open to addresses outside of the cluster
    Outside,
    /// Nothing: always exit 0
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExposureOutput {
    Text,
    Json,
    Csv,
    Md,
}

/// What was read: pods, policies by tier and kind, and which controllers they are for
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  palisade status -f manifests/
  palisade status -f manifests/ --controllers
  palisade status --controllers --controller-name cilium     as that controller sees the live cluster
  palisade status -f manifests/ -o json

Exit codes: 0 here it is, 2 objects were refused and are missing from the counts.")]
pub(crate) struct StatusArgs {
    /// Policies by the value of their label `networking.k8s.io/policy-controller-name`, also those that are ignored
    #[arg(long)]
    pub(crate) controllers: bool,
    /// text for people, json for programs, with everything (`palisade schema status`)
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: StatusOutput,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusOutput {
    Text,
    Json,
}

/// Which connections a change opens and closes, and by which policies
///
/// Two versions of the objects are compared: connections that are allowed now and were not before are opened, the other way round closed, and changed
/// where some traffic of a pair opened and some closed. Whoever changes alike is one line. Under each line stands what was responsible and what is now.
///
/// Pods are held against those of the same name, else of the same workload. Connections of workloads that only one version has are listed as added and
/// removed, apart from the others, and count for `--fail-on any` only. What passes only if a domain name resolves is told apart, and counts as opened when
/// it was denied, as closed when it was allowed. Nodes are left out, and so is what a pod without an owner may open towards itself.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  palisade diff main/ branch/                            two folders
  palisade diff old.yaml new.yaml -o md                  for a comment on a pull request
  palisade diff manifests/ --apply change.yaml           a folder, and the same with some objects put over it
  palisade diff --live --apply change.yaml               the cluster of your kubeconfig, and the same with some objects put over it
  palisade diff main/ branch/ --focus shop --port 5432   what it does to the database of the shop
  helm template . | palisade diff --live --apply - -o html > diff.html
  palisade diff main/ branch/ --fail-on any              exit 1 if anything changes at all

Exit codes: 0 nothing that is looked for, 1 something is (`--fail-on`), 2 could not tell.")]
pub(crate) struct DiffArgs {
    /// The old version and the new one: each a file, a folder or `-` for standard input
    ///
    /// YAML of any number of documents, JSON, and Lists. Folders are read with all their .yaml, .yml and .json files.
    #[arg(value_name = "OLD NEW", num_args = 0..=2)]
    pub(crate) versions: Vec<String>,
    /// The old version is the cluster of your kubeconfig
    #[arg(long)]
    pub(crate) live: bool,
    /// The new version is the old one with these objects put over it: those of the same name are replaced, others added; may be repeated
    ///
    /// Pods that run follow the template of a Deployment, StatefulSet or DaemonSet in it, with their names and addresses.
    #[arg(long, value_name = "FILE|DIR|-")]
    pub(crate) apply: Vec<String>,
    /// What to exit 1 for
    #[arg(long, value_name = "WHAT", default_value = "opened")]
    pub(crate) fail_on: FailOn,
    /// Only changes with this end on either side, written as for `palisade matrix`
    #[arg(long, value_name = "END")]
    pub(crate) focus: Option<String>,
    /// Only connections to this port, of tcp unless it says otherwise, as in udp/53
    #[arg(long, short = 'p', value_name = "[PROTOCOL/]PORT")]
    pub(crate) port: Option<String>,
    /// text for people, json for programs (`palisade schema diff`), csv, md for a table, html for a page
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: DiffOutput,
    /// The kubeconfig to use, instead of KUBECONFIG, ~/.kube/config or the pod's own account
    #[arg(long, value_name = "FILE", requires = "live")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use
    #[arg(long, value_name = "NAME", requires = "live")]
    pub(crate) context: Option<String>,
    /// Answer as this controller would: policies that are labelled for another do not exist for it; may be repeated
    #[arg(long, value_name = "NAME", default_value = palisade_k8s::CONTROLLER_NAME)]
    pub(crate) controller_name: Vec<String>,
    /// A value of that label which is nobody's name and switches a policy off; may be repeated
    #[arg(long, value_name = "NAME", default_value = palisade_k8s::DISABLED)]
    pub(crate) disabled_name: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// A connection between workloads of both versions that is or may be allowed now, and was not before
    Opened,
    /// A connection between workloads of both versions that is or may be denied now, and was not before
    Closed,
    /// Any change, those of new and removed workloads included
    Any,
    /// Nothing
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffOutput {
    Text,
    Json,
    Csv,
    Md,
    Html,
}

/// Show the nftables ruleset of a node, or walk a packet through it, without a kernel
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  palisade nft render -f manifests/ --node worker-1
  palisade nft trace -f manifests/ --node worker-1 --from 10.0.1.5 --to 10.0.2.7 --port 5432")]
pub(crate) struct NftArgs {
    #[command(subcommand)]
    pub(crate) command: NftCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NftCommand {
    /// Print the tables of one node that objects decide as `nft -f` takes them: that of policies and that of audited ones
    Render(NftRenderArgs),
    /// Say what the table of one node does with the first packet of a connection; exit 0 accepted, 1 dropped
    Trace(NftTraceArgs),
}

#[derive(Args, Debug)]
pub(crate) struct NftRenderArgs {
    /// The node, by name
    #[arg(long, value_name = "NAME")]
    pub(crate) node: String,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

#[derive(Args, Debug)]
pub(crate) struct NftTraceArgs {
    #[command(flatten)]
    pub(crate) of: NftRenderArgs,
    /// Source address
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) from: std::net::IpAddr,
    /// Destination address, after any Service
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) to: std::net::IpAddr,
    /// Destination port, after any Service
    #[arg(long, short = 'p', value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// tcp, udp, sctp or icmp
    #[arg(long, value_name = "PROTOCOL", default_value = "tcp")]
    pub(crate) protocol: String,
    /// Where the packet is met: forward for pods, input for what a pod sends to its own node
    #[arg(long, value_name = "HOOK", default_value = "forward")]
    pub(crate) hook: NftHook,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum NftHook {
    Forward,
    Input,
}

/// Show what Palisade does, with an example cluster and no cluster needed
///
/// Builds a shop with three tiers, a second tenant and monitoring as a cluster of network namespaces, tries every pair with real packets, prints what
/// became of each with its reason, explains one, changes a policy while it runs and shows what that did. Then all of it is gone. Without root it prints
/// the verdicts alone.
#[derive(Args, Debug)]
pub(crate) struct DemoArgs {}

/// Print a completion script for a shell
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  source <(palisade completions bash)
  palisade completions zsh > ~/.zfunc/_palisade
  palisade completions fish > ~/.config/fish/completions/palisade.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Print the JSON schema of an output, or the reference of names and commands
#[derive(Args, Debug)]
pub(crate) struct SchemaArgs {
    /// What to print
    pub(crate) of: SchemaOf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SchemaOf {
    /// The schema of `explain -o json`
    Explanation,
    /// The schema of `test -o json`
    TestReport,
    /// The schema of `matrix -o json`
    Matrix,
    /// The schema of `diff -o json`
    Diff,
    /// The schema of `exposure -o json`
    Exposure,
    /// The schema of `allow -o json`
    Allowance,
    /// The schema of `convert -o json`
    Conversion,
    /// The schema of `lint -o json`
    LintReport,
    /// The schema of `overrides -o json`
    Overrides,
    /// The schema of `status -o json`
    Status,
    /// The schema of `lab probe -o json`
    ProbeReport,
    /// The schema of `lab status -o json`
    LabStatus,
    /// The schema of `lab metrics -o json`
    Metrics,
    /// The schema of each line of `lab denied -o json`
    Denial,
    /// The schema of `verify -o json`
    Verification,
    /// The schema of lines of `lab denied -o json` about live connections that were cut
    Cut,
    /// The schema of each line of `lab accepted -o json`
    Acceptance,
    /// The schema of each line of `lab denied --would -o json`
    Would,
    /// The schema of `lab audit-report -o json`
    AuditReport,
    /// Every name that Palisade gives to something outside itself, as Markdown
    Names,
    /// Every command with its help, as Markdown
    Cli,
    /// Every rule of `lint`, as Markdown
    Lints,
}
