//! Object metadata.

use palisade_model::Labels;

use crate::logging::Logging;
use crate::names;
use crate::networks::NetworkAnnotations;
use crate::problem::Consequence;
use crate::read::Reader;
use crate::syntax;
use crate::tree::Node;

/// The part of an object's metadata that policy needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Empty when the object has no name.
    pub name: String,
    /// As written; whoever knows whether the kind is namespaced applies the default.
    pub namespace: Option<String>,
    pub labels: Labels,
    /// Whether `deletionTimestamp` is set.
    pub terminating: bool,
    /// The controlling owner.
    pub owner: Option<OwnerReference>,
    /// What `palisade.dev/log` asks for; nothing where it cannot be read.
    pub logging: Logging,
    /// What a policy is for.
    pub mode: Mode,
    /// Annotations about networks other than the pod network, where there are any.
    pub networks: Option<Box<NetworkAnnotations>>,
}

/// What a policy is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Enforce,
    /// It is watched together with all others of a set, and never enforced.
    Audit { set: Box<str> },
}

impl Mode {
    /// What annotations say. A mode that nobody knows enforces.
    fn of(annotations: &[(&str, &str)]) -> Mode {
        let value = |name: &str| annotations.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        match value(names::MODE) {
            Some(names::MODE_AUDIT) => {
                let named = value(names::AUDIT_SET).filter(|it| is_set_name(it));
                Mode::Audit { set: named.unwrap_or(names::DEFAULT_AUDIT_SET).into() }
            }
            Some(_) | None => Mode::Enforce,
        }
    }
}

/// Whether a set of audited policies can be called so.
pub(crate) fn is_set_name(text: &str) -> bool {
    !text.is_empty() && syntax::label_value(text).is_ok()
}

/// The controller that owns an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerReference {
    pub kind: String,
    pub name: String,
}

const FIELDS: &[&str] = &[
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Whoever reads the annotations says what is wrong with it.
fn logging(metadata: &Node<'_>) -> Logging {
    let text = metadata.get("annotations").and_then(|it| it.get(names::LOG)).and_then(Node::as_str);
    text.and_then(|it| Logging::read(it).ok()).unwrap_or_default()
}

impl Reader {
    /// Reads `metadata` of an object or of a pod template.
    pub(crate) fn meta(&mut self, node: &Node<'_>) -> Meta {
        let Some(node) = node.get("metadata") else { return Meta::default() };
        self.within("metadata", |r| {
            let Some(fields) = r.fields(node) else { return Meta::default() };
            r.only(&fields, FIELDS);
            let name = r.optional(&fields, "name", |r, node| r.checked(node, syntax::subdomain));
            let namespace = r.optional(&fields, "namespace", |r, node| r.checked(node, syntax::dns_label));
            let annotations = r.optional(&fields, "annotations", Reader::string_map).unwrap_or_default();
            let labels = r.optional(&fields, "labels", Reader::labels).unwrap_or_default();
            let owners = r.list(&fields, "ownerReferences", Reader::owner);
            let terminating = fields.get("deletionTimestamp").is_some();
            Meta {
                name: name.unwrap_or_default().to_owned(),
                namespace: namespace.filter(|it| !it.is_empty()).map(str::to_owned),
                labels,
                terminating,
                owner: owners.into_iter().flatten().next(),
                logging: logging(node),
                mode: Mode::of(&annotations),
                networks: NetworkAnnotations::of(&annotations),
            }
        })
    }

    /// A string that must be spelt as `rule` says. An empty one counts as absent.
    pub(crate) fn checked<'n>(&mut self, node: &'n Node<'n>, rule: fn(&str) -> Result<(), String>) -> Option<&'n str> {
        let text = self.string(node)?;
        if text.is_empty() { None } else { self.spelt(node, rule) }
    }

    /// A string that must be spelt as `rule` says, and so not be empty.
    pub(crate) fn spelt<'n>(&mut self, node: &'n Node<'n>, rule: fn(&str) -> Result<(), String>) -> Option<&'n str> {
        let text = self.string(node)?;
        match rule(text) {
            Ok(()) => Some(text),
            Err(message) => {
                self.invalid(node.span, message);
                None
            }
        }
    }

    fn labels<'n>(&mut self, node: &'n Node<'n>) -> Option<Labels> {
        let pairs = self.string_map(node)?;
        for (key, value) in &pairs {
            let wrong = syntax::label_key(key).and_then(|()| syntax::label_value(value));
            if let Err(message) = wrong {
                self.within((*key).to_owned(), |r| r.invalid(node.span, message));
            }
        }
        Some(pairs.into_iter().collect())
    }

    fn owner<'n>(&mut self, node: &'n Node<'n>) -> Option<Option<OwnerReference>> {
        let fields = self.fields(node)?;
        let controls = self.optional(&fields, "controller", |r, node| r.boolean(node)).unwrap_or(false);
        let kind = self.optional(&fields, "kind", Reader::string)?.to_owned();
        let name = self.optional(&fields, "name", Reader::string)?.to_owned();
        // An API server takes anything here, and rows are named after it.
        let plain = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_.:".contains(&it));
        if !plain(&kind) || !plain(&name) {
            let message = "an owner of such a name or kind cannot be quoted, and is left out";
            let help = Some("owners are named with letters, digits, `-`, `_`, `.` and `:`".to_owned());
            self.problem(Consequence::Narrowed, "odd-owner", node.span, message, help);
            return Some(None);
        }
        Some(controls.then_some(OwnerReference { kind, name }))
    }

    /// Says that an object has no name, which only hurts where it is quoted.
    pub(crate) fn nameless(&mut self, node: &Node<'_>) {
        let help = Some("give it a `metadata.name`; an API server refuses it without one".to_owned());
        let message = "the object has no name, and is named by its place";
        self.within("metadata", |r| r.within("name", |r| r.problem(Consequence::Narrowed, "nameless", node.span, message, help)));
    }
}
