//! Texts that are no manifests, or only in part.

use crate::check;

const A: &str = "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x}}\n";
const B: &str = "{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: x}}\n";

/// The document between two good ones.
fn between(text: &str, said: &[&str]) {
    check(&format!("{A}---\n{text}---\n{B}"), &["x/a", "x/b"], said);
}

#[test]
fn a_document_that_cannot_be_read_leaves_the_others() {
    between(
        "a: [\n",
        &[
            "f.yaml:3:4: error[unreadable-document]: the document cannot be read: unclosed bracket '['; objects in other documents of this file still count",
        ],
    );
    between(
        "a: b: c\n",
        &[
            "f.yaml:3:5: error[unreadable-document]: the document cannot be read: mapping values are not allowed in this context; objects in other documents of this file still count",
        ],
    );
    between(
        "a: 'b\n",
        &[
            "f.yaml:4:1: error[unreadable-document]: the document cannot be read: invalid indentation in multiline quoted scalar; objects in other documents of this file still count",
        ],
    );
    between(
        "a: \0\n",
        &[
            r"f.yaml:3:4: error[unreadable-document]: the document cannot be read: unexpected character: `\u{0}'; objects in other documents of this file still count",
        ],
    );
}

#[test]
fn tabs_and_templates_get_their_own_advice() {
    between(
        "kind: Pod\nmetadata:\n\tname: a\n",
        &[
            "f.yaml:5:2: error[unreadable-document]: the document cannot be read: tabs disallowed within this context (block indentation); YAML does not take tabs for indentation",
        ],
    );
    between(
        "metadata: {{ .Values.x }}\n",
        &[
            "f.yaml:3:12: error[unreadable-document]: the document cannot be read: a key is a map, quote it; this looks like a template; render it first: helm template . | palisade … -f -",
        ],
    );
    between(
        "{{- if .Values.x }}\na: b\n{{- end }}\n",
        &[
            "f.yaml:3:3: error[unreadable-document]: the document cannot be read: \"-\" is only valid inside a block; this looks like a template; render it first: helm template . | palisade … -f -",
        ],
    );
}

#[test]
fn semicolons_in_braces_get_the_line_as_it_was_meant() {
    between(
        "spec:\n  matchExpressions: {key: \"tenant\"; operator: Exists}\n",
        &[
            "f.yaml:4:35: error[unreadable-document]: the document cannot be read: invalid trailing content after double-quoted scalar; write it as: matchExpressions: [{key: tenant, operator: Exists}]",
        ],
    );
    between(
        "spec: {a: \"b\";\n  c: d}\n",
        &[
            "f.yaml:3:14: error[unreadable-document]: the document cannot be read: invalid trailing content after double-quoted scalar; entries in `{ }` and `[ ]` are separated by `,`, not by `;`",
        ],
    );
}

#[test]
fn a_key_that_is_set_twice_is_refused() {
    between(
        "apiVersion: v1\nkind: Pod\nkind: Pod\n",
        &[
            "f.yaml:5:1: error[unreadable-document]: the document cannot be read: the key `kind` is already set on line 4; objects in other documents of this file still count",
        ],
    );
    check(
        r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "name": "b"}}"#,
        &[],
        &[
            "f.yaml:1:63: error[unreadable-document]: the document cannot be read: the key `name` is already set on line 1; objects in other documents of this file still count",
        ],
    );
}

#[test]
fn deep_nesting_is_refused() {
    let block: String = (0..2000).map(|at| format!("{}a:\n", " ".repeat(at))).collect();
    between(
        &block,
        &[
            "f.yaml:103:101: error[unreadable-document]: the document cannot be read: nested more than 100 levels deep; objects in other documents of this file still count",
        ],
    );
    between(
        &format!("a: {}{}\n", "[".repeat(5000), "]".repeat(5000)),
        &[
            "f.yaml:3:259: error[unreadable-document]: the document cannot be read: recursion limit exceeded; objects in other documents of this file still count",
        ],
    );
    // Each level is shallow, and hangs below the one before.
    let hanging = |at: usize| format!("k{at}: &k{at} [[[[[[*k{}]]]]]]\n", at - 1);
    let chain: String = (1..60).map(hanging).collect();
    between(
        &format!("k0: &k0 x\n{chain}"),
        &[
            "f.yaml:20:17: error[unreadable-document]: the document cannot be read: nested more than 100 levels deep; objects in other documents of this file still count",
        ],
    );
}

#[test]
fn anchors_aliases_and_merge_keys_work() {
    let text = "
defaults: &meta {namespace: x, labels: &labels {app: web}}
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {<<: *meta, name: a}}
- {apiVersion: v1, kind: Pod, metadata: {<<: *meta, name: b, namespace: z, labels: *labels}}
- apiVersion: networking.k8s.io/v1
  kind: NetworkPolicy
  metadata: {<<: [*meta, {name: p}]}
  spec: {podSelector: {matchLabels: *labels}}
";
    check(text, &["x/a", "z/b", "np/x/p"], &[]);
}

#[test]
fn aliases_that_copy_too_much_or_lead_nowhere_are_refused() {
    let tenfold = |at: u8| format!("k{at}: &k{at} [{}]\n", vec![format!("*k{}", at - 1); 10].join(", "));
    let bomb: String = (1..9).map(tenfold).collect();
    between(
        &format!("k0: &k0 x\n{bomb}"),
        &[
            "f.yaml:8:45: error[unreadable-document]: the document cannot be read: aliases copy more than 100000 values; objects in other documents of this file still count",
        ],
    );
    between(
        "a: &a [*a]\n",
        &[
            "f.yaml:3:8: error[unreadable-document]: the document cannot be read: an alias refers to a value that contains it; objects in other documents of this file still count",
        ],
    );
    between(
        "a: *b\n",
        &[
            "f.yaml:3:4: error[unreadable-document]: the document cannot be read: while parsing node, found unknown anchor; objects in other documents of this file still count",
        ],
    );
}

#[test]
fn a_text_without_objects_is_fine() {
    check("", &[], &[]);
    check("# a\n# b\n", &[], &[]);
    check("---\n---\n...\n", &[], &[]);
    check("\u{feff}", &[], &[]);
}

#[test]
fn a_document_that_is_no_object_is_ignored_aloud() {
    let ignored = "not a Kubernetes object (no apiVersion, no kind), and ignored";
    between("hello\n", &[&format!("f.yaml:3:1: warning[not-an-object]: {ignored}")]);
    between("- a\n- b\n", &[&format!("f.yaml:3:1: warning[not-an-object]: {ignored}")]);
    between("replicas: 3\n", &[&format!("f.yaml:3:1: warning[not-an-object]: {ignored}")]);
}

#[test]
fn json_is_read_with_tabs_too() {
    check("{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Pod\",\n\t\"metadata\": {\n\t\t\"name\": \"a\"\n\t}\n}\n", &["default/a"], &[]);
    check(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a\u002db"}}"#, &["default/a-b"], &[]);
}

#[test]
fn windows_line_ends_and_byte_order_marks_are_no_part_of_the_text() {
    let policy = "apiVersion: networking.k8s.io/v1\r\nkind: NetworkPolicy\r\nmetadata:\r\n  name: p\r\n  namespace: x\r\nspec:\r\n  podSelector: {}\r\n";
    check(&format!("\u{feff}{policy}"), &["np/x/p"], &[]);
    check(
        &format!("{policy}  ingres: []\r\n"),
        &[],
        &[
            "f.yaml:8:3: error[unknown-field]: NetworkPolicy x/p: `spec.ingres`: the API does not know this field; an API server drops it, and what is left can be wider than what was meant; did you mean `ingress`? write it as: ingress: []",
        ],
    );
}

#[test]
fn every_document_of_a_long_file_counts() {
    let pod = |at: usize| format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: p{at}, namespace: x}}\n");
    let text = (0..10_000).map(pod).collect::<Vec<_>>().join("---\n");
    let read = palisade_testkit::check::snapshot("f.yaml", &text);
    assert_eq!(read.model.endpoints.len(), 10_000);
}

#[test]
fn a_merge_that_fights_with_the_maps_own_key_is_refused() {
    let policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: x}\nspec:\n";
    let fight = "  podSelector: &x {matchLabels: {a: b}}\n  ingress: [{from: [{podSelector: {matchLabels: {c: d}, <<: *x}}]}]\n";
    let message = "`matchLabels` is set here and by `<<` after it; tools do not agree on which counts";
    let said = format!(
        "f.yaml:6:57: error[unreadable-document]: the document cannot be read: {message}; objects in other documents of this file still count"
    );
    check(&format!("{policy}{fight}"), &[], &[&said]);
    let agreed = "  podSelector: &x {matchLabels: {a: b}}\n  ingress: [{from: [{podSelector: {<<: *x, matchLabels: {c: d}}}]}]\n";
    check(&format!("{policy}{agreed}"), &["np/x/p"], &[]);
}
