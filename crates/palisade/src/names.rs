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
    ("Status", "kind", "the answer of `palisade status`"),
    ("ProbeReport", "kind", "the answer of `palisade lab probe`"),
    ("LabStatus", "kind", "the answer of `palisade lab status`"),
    ("Metrics", "kind", "the answer of `palisade lab metrics`"),
    ("palisade_*_total", "Prometheus metrics", "what agents count: `palisade lab metrics -o prometheus`"),
    ("Denial", "kind", "a denied connection: a line of `palisade lab denied`"),
    ("Verification", "kind", "the answer of `palisade verify` and of `palisade lab verify`"),
    ("KernelDump", "kind", "what a kernel holds: the file of `palisade verify --save-dump`"),
    ("Cut", "kind", "live connections that a change ended: a line of `palisade lab denied`"),
    ("Acceptance", "kind", "an accepted connection that a policy wants logged: a line of `palisade lab accepted`"),
    ("Would", "kind", "a connection that audited policies would treat otherwise: a line of `palisade lab denied --would`"),
    ("AuditReport", "kind", "the answer of `palisade lab audit-report`"),
    (names::KEP2091_API_VERSION, "apiVersion", "KEP-2091's AdminNetworkPolicy in a live cluster; see labels.md"),
    (names::SHAPE, "annotation", "the shape that an AdminNetworkPolicy is written in"),
    (names::MODE, "annotation", "`audit`: a policy that is watched and not enforced"),
    (names::AUDIT_SET, "annotation", "the set that such a policy is watched in"),
    (names::LOG, "annotation", "which connections that a policy accepts are logged"),
    (names::CONTROLLER_LABEL, "label", "the controller that a policy is for; Kubernetes' own, and read by us"),
    (names::CONTROLLER_NAME, "controller name", "the value of that label that we answer to"),
    (names::DISABLED, "controller name", "nobody's: a policy with it is switched off"),
    ("inet palisade", "nftables table", "policy on a node"),
    ("inet palisade-next", "nftables table", "policy as well, beside that one while all of it is replaced"),
    ("inet palisade-again", "nftables table", "policy as well, beside both where somebody died while that was done"),
    (
        "inet palisade-answers",
        "nftables table",
        "datagrams that are dropped though they look like answers; only there while there are some",
    ),
    (
        "inet palisade-strays",
        "nftables table",
        "addresses that are closed since nobody has told of them yet; only there while there are some",
    ),
    ("inet palisade-audit", "nftables table", "what audited policies would do on a node; nothing in it decides"),
    ("netdev palisade", "nftables table", "which frames may come from the links of pods; no policy in it"),
    ("inet palisade-lab-services", "nftables table", "Services on a node of a lab, as kube-proxy does them"),
    ("4791", "NFLOG group", "where denied packets are logged"),
    ("palisade:", "NFLOG prefix", "followed by the number of what denied a packet, eight hexadecimal digits"),
    ("4792", "NFLOG group", "where packets are logged that audited policies would treat otherwise"),
    ("palisade-would:", "NFLOG prefix", "followed by the number of what would become of a packet, eight hexadecimal digits"),
    ("@palisade-agent", "abstract unix socket", "held by the one agent of a network namespace"),
    ("@palisade-lab-NAME", "abstract unix socket", "how the `lab` commands talk to a lab"),
    ("0, 1, 2", "exit codes", "yes, allowed, clean; no, denied, found something; could not tell"),
    ("NO_COLOR", "environment", "no colours, unless `--color always`"),
    ("PALISADE_LAB", "environment", "the lab that a command was started in by `palisade lab exec`"),
    ("KUBECONFIG", "environment", "the kubeconfig files, as kubectl reads them"),
];

#[cfg(test)]
mod tests {
    use palisade_k8s::names::Standing;
    use palisade_nft::Table;

    use super::*;

    /// Whether the page has all of these, each as that.
    fn check(expected: &[(String, &str)]) {
        let lacks = |it: &&(String, &str)| !NAMES.iter().any(|(name, is, _)| (*name, *is) == (it.0.as_str(), it.1));
        assert_eq!(expected.iter().filter(lacks).collect::<Vec<_>>(), Vec::<&(String, &str)>::new());
    }

    #[test]
    fn every_table_of_a_node_is_named() {
        check(&Table::EVERY.map(|it| (it.to_string(), "nftables table")));
    }

    #[test]
    fn every_name_that_works_in_a_cluster_is_named() {
        let works = names::NAMES.iter().filter(|it| it.standing == Standing::Works);
        check(&works.map(|it| (it.name.to_owned(), it.is)).collect::<Vec<_>>());
    }
}
