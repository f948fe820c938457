//! Every name that Palisade gives to something outside itself. The page in docs/ is made from this table.

use palisade_k8s::names;

/// Name, what it is, what it is for.
pub(crate) const NAMES: &[(&str, &str, &str)] = &[
    ("palisade", "program", "the one binary"),
    ("kubectl-palisade", "program", "the same binary as a kubectl plugin: `kubectl palisade …`"),
    (names::GROUP, "API group", "everything of ours that carries an `apiVersion`"),
    (palisade_report::v1::API_VERSION, "apiVersion", "machine-readable answers (`-o json`)"),
    ("Explanation", "kind", "the answer of `palisade explain`"),
    ("TestReport", "kind", "the answer of `palisade test`"),
    ("Matrix", "kind", "the answer of `palisade matrix`"),
    ("Exposure", "kind", "the answer of `palisade exposure`"),
    ("LintReport", "kind", "the answer of `palisade lint`"),
    ("Diff", "kind", "the answer of `palisade diff`"),
    ("Allowance", "kind", "the answer of `palisade allow`"),
    ("Conversion", "kind", "the answer of `palisade convert`"),
    ("OverrideReport", "kind", "the answer of `palisade overrides`"),
    ("ProbeReport", "kind", "the answer of `palisade lab probe`"),
    ("LabStatus", "kind", "the answer of `palisade lab status`"),
    ("Denial", "kind", "a denied connection: a line of `palisade lab denied`"),
    (names::KEP2091_API_VERSION, "apiVersion", "KEP-2091's AdminNetworkPolicy in a live cluster; see labels.md"),
    (names::SHAPE, "annotation", "the shape that an AdminNetworkPolicy is written in"),
    (names::CONTROLLER_LABEL, "label", "the controller that a policy is for; Kubernetes' own, and read by us"),
    (names::CONTROLLER_NAME, "controller name", "the value of that label that we answer to"),
    (names::DISABLED, "controller name", "nobody's: a policy with it is switched off"),
    ("inet palisade", "nftables table", "policy on a node"),
    ("netdev palisade", "nftables table", "which frames may come from the links of pods; no policy in it"),
    ("inet palisade-lab-services", "nftables table", "Services on a node of a lab, as kube-proxy does them"),
    ("4791", "NFLOG group", "where denied packets are logged"),
    ("palisade:", "NFLOG prefix", "followed by the number of what denied a packet, eight hexadecimal digits"),
    ("@palisade-agent", "abstract unix socket", "held by the one agent of a network namespace"),
    ("@palisade-lab-NAME", "abstract unix socket", "how the `lab` commands talk to a lab"),
    ("0, 1, 2", "exit codes", "yes, allowed, clean; no, denied, found something; could not tell"),
    ("NO_COLOR", "environment", "no colours, unless `--color always`"),
    ("PALISADE_LAB", "environment", "the lab that a command was started in by `palisade lab exec`"),
    ("KUBECONFIG", "environment", "the kubeconfig files, as kubectl reads them"),
];
