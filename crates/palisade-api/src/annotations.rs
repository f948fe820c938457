//! Annotations of ours on policies: the ones that do nothing yet say so, and one that nobody knows is a slip.

use crate::logging::Logging;
use crate::meta::is_set_name;
use crate::names::{self, Name, Standing};
use crate::object::Body;
use crate::problem::Consequence;
use crate::read::{Reader, near};
use crate::tree::{Entry, Node, Value};

impl Reader {
    /// Looks at the annotations of a policy that begin with our group.
    pub(crate) fn own_annotations(&mut self, node: &Node<'_>, body: &Body) {
        let shapes = match body {
            Body::AdminNetworkPolicy(_) | Body::BaselineAdminNetworkPolicy(_) | Body::Kep2091(_) => true,
            Body::NetworkPolicy(_) | Body::ClusterNetworkPolicy(_) => false,
            Body::Pod(_) | Body::Workload(_) | Body::Namespace(_) | Body::Node(_) | Body::Service(_) | Body::Nothing(_) => return,
        };
        let annotations = node.get("metadata").and_then(|it| it.get("annotations"));
        let Some(Node { value: Value::Map(entries), .. }) = annotations else { return };
        let audited = entries.iter().any(|it| it.key == names::MODE && it.value.as_str() == Some(names::MODE_AUDIT));
        for entry in entries.iter().filter(|it| it.key.split_once('/').is_some_and(|(group, _)| group == names::GROUP)) {
            self.within("metadata", |r| r.within("annotations", |r| r.own_annotation(entry, shapes, audited)));
        }
    }

    fn own_annotation(&mut self, entry: &Entry<'_>, shapes: bool, audited: bool) {
        let value = entry.value.as_str();
        let found = names::NAMES.iter().find(|it| it.is == "annotation" && *it.name == entry.key);
        let (consequence, code, message, help) = match found {
            Some(Name { name: names::SHAPE, .. }) if shapes => return,
            // What is no text is said of every annotation, and refuses the object.
            Some(Name { name: names::LOG | names::MODE | names::AUDIT_SET, .. }) if value.is_none() => return,
            Some(Name { name: names::LOG, .. }) => match value.map(Logging::read) {
                Some(Err(odd)) => without_effect(format!("{odd}; no accepted connection is logged"), None),
                Some(Ok(_)) | None => return,
            },
            Some(Name { name: names::MODE, .. }) if audited => return,
            Some(Name { name: names::AUDIT_SET, .. }) if audited && value.is_some_and(is_set_name) => return,
            // Whoever wrote it wanted something else than all of the policy, but nobody knows what.
            Some(Name { name: names::MODE, .. }) => (
                Consequence::Untrusted,
                "invalid-value",
                "nobody knows this mode; the policy counts in full".to_owned(),
                Some(format!("write `{}`, or leave the annotation out", names::MODE_AUDIT)),
            ),
            Some(Name { name: names::AUDIT_SET, .. }) if audited => without_effect(
                format!("cannot be the name of a set; the policy is in the set `{}`", names::DEFAULT_AUDIT_SET),
                Some("at most 63 letters, digits, `-`, `_`, `.`, beginning and ending with a letter or digit".to_owned()),
            ),
            Some(Name { name: names::AUDIT_SET, .. }) => without_effect(
                "means nothing without the mode; the policy counts in full".to_owned(),
                Some(format!("add `{}: {}`, or remove it", names::MODE, names::MODE_AUDIT)),
            ),
            Some(Name { standing: Standing::Works, .. }) => without_effect("means nothing here: this kind has one shape".to_owned(), None),
            Some(Name { standing: Standing::Reserved, means, .. }) => {
                without_effect(format!("reserved ({means}) and without effect in this version; the policy counts in full"), None)
            }
            None => unknown(&entry.key),
        };
        let key = entry.key.to_string();
        self.within(key, |r| r.problem(consequence, code, entry.key_span, message, help));
    }
}

type Wrong = (Consequence, &'static str, String, Option<String>);

fn without_effect(message: String, help: Option<String>) -> Wrong {
    (Consequence::Narrowed, "annotation-without-effect", message, help)
}

fn unknown(key: &str) -> Wrong {
    let known: Vec<&str> = names::NAMES.iter().filter(|it| it.is == "annotation").map(|it| it.name).collect();
    let meant = near(key, &known, 2).map(|meant| format!("did you mean `{meant}`?"));
    let help = meant.or_else(|| Some(format!("known: {}", known.join(", "))));
    without_effect("nobody knows this annotation; it has no effect".to_owned(), help)
}
