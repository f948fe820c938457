//! Annotations of ours on policies: the ones that do nothing yet say so, and one that nobody knows is a slip.

use crate::logging::Logging;
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
        for entry in entries.iter().filter(|it| it.key.split_once('/').is_some_and(|(group, _)| group == names::GROUP)) {
            self.within("metadata", |r| r.within("annotations", |r| r.own_annotation(entry, shapes)));
        }
    }

    fn own_annotation(&mut self, entry: &Entry<'_>, shapes: bool) {
        let known: Vec<&str> = names::NAMES.iter().filter(|it| it.is == "annotation").map(|it| it.name).collect();
        let found = names::NAMES.iter().find(|it| it.is == "annotation" && *it.name == entry.key);
        let (message, help) = match found {
            Some(Name { name: names::LOG, .. }) => match entry.value.as_str().map(Logging::read) {
                Some(Ok(_)) => return,
                Some(Err(odd)) => (format!("{odd}; no accepted connection is logged"), None),
                // Said of every annotation.
                None => return,
            },
            Some(Name { standing: Standing::Works, .. }) if shapes => return,
            Some(Name { standing: Standing::Works, .. }) => ("means nothing here: this kind has one shape".to_owned(), None),
            Some(Name { standing: Standing::Reserved, means, .. }) => {
                (format!("reserved ({means}) and without effect in this version; the policy counts in full"), None)
            }
            None => {
                let meant = near(&entry.key, &known, 2).map(|meant| format!("did you mean `{meant}`?"));
                (
                    "nobody knows this annotation; it has no effect".to_owned(),
                    meant.or_else(|| Some(format!("known: {}", known.join(", ")))),
                )
            }
        };
        let key = entry.key.to_string();
        self.within(key, |r| r.problem(Consequence::Narrowed, "annotation-without-effect", entry.key_span, message, help));
    }
}
