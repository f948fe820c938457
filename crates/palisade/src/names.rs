//! Every name that Palisade gives to something outside itself. The page in docs/ is made from this table.

/// Name, what it is, what it is for.
pub(crate) const NAMES: &[(&str, &str, &str)] = &[
    ("palisade", "program", "the one binary"),
    ("kubectl-palisade", "program", "the same binary as a kubectl plugin: `kubectl palisade …`"),
    ("palisade.dev", "API group", "everything of ours that carries an `apiVersion`"),
    (palisade_report::v1::API_VERSION, "apiVersion", "machine-readable answers (`-o json`)"),
    ("Explanation", "kind", "the answer of `palisade explain`"),
    ("TestReport", "kind", "the answer of `palisade test`"),
    ("0, 1, 2", "exit codes", "yes, allowed, clean; no, denied, found something; could not tell"),
    ("NO_COLOR", "environment", "no colours, unless `--color always`"),
    ("KUBECONFIG", "environment", "the kubeconfig files, as kubectl reads them"),
];
