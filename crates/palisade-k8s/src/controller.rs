//! Whose policy it is. SPEC: semantics 4 (KEP-5790).

use std::collections::{BTreeMap, BTreeSet};

use palisade_api::names::{CONTROLLER_LABEL, CONTROLLER_NAME, DISABLED_VALUES};
use palisade_api::{Body, Meta, Mode};
use palisade_model::{Diagnostic, Location, Severity};

use crate::sources::ObjectKey;

/// A controller, by the names that it answers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    names: BTreeSet<Box<str>>,
    /// Values that are nobody's name: a policy that has one is switched off.
    disabled: BTreeSet<Box<str>>,
}

impl Default for Controller {
    fn default() -> Controller {
        Controller { names: BTreeSet::from([CONTROLLER_NAME.into()]), disabled: DISABLED_VALUES.iter().map(|it| Box::from(*it)).collect() }
    }
}

impl Controller {
    /// The name that a label must have to be this controller's, where it switches a policy off.
    pub(crate) fn instead_of(&self, label: &str) -> Option<&str> {
        self.names.first().map(AsRef::as_ref).filter(|_| self.disabled.contains(label))
    }

    /// One that answers to these names. The message says why a name cannot be one.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Controller, String> {
        Controller::named_and_disabled(names, DISABLED_VALUES.iter().copied())
    }

    /// One that answers to these names, where these values switch a policy off.
    pub fn named_and_disabled<'a>(
        names: impl IntoIterator<Item = &'a str>,
        disabled: impl IntoIterator<Item = &'a str>,
    ) -> Result<Controller, String> {
        let disabled: BTreeSet<Box<str>> = disabled.into_iter().map(spelled).collect::<Result<_, _>>()?;
        let names: BTreeSet<Box<str>> = names.into_iter().map(spelled).collect::<Result<_, _>>()?;
        match names.intersection(&disabled).next() {
            Some(both) => Err(format!("`{both}` is no controller's name: a policy that has it is switched off")),
            None => Ok(Controller { names, disabled }),
        }
    }

    /// The names that it answers to.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(AsRef::as_ref)
    }

    /// Whether a value of the label switches a policy off, for everybody.
    pub fn is_disabled(&self, value: &str) -> bool {
        self.disabled.contains(value)
    }

    /// What an object is to it. Whose it is comes before its mode; what is switched off can be watched all the same.
    pub(crate) fn reads<'b>(&self, body: &'b Body) -> ReadAs<'b> {
        let Some(meta) = policy_meta(body) else { return ReadAs::Counting };
        let label = meta.labels.get(CONTROLLER_LABEL);
        match (self.whose(label), &meta.mode, label) {
            (Whose::Everybodys | Whose::Ours | Whose::SwitchedOff, Mode::Audit { set }, label) => ReadAs::Audited { set, label },
            (Whose::Everybodys | Whose::Ours, Mode::Enforce, _) => ReadAs::Counting,
            (_, _, Some(controller)) => ReadAs::Foreign(controller),
            (_, _, None) => ReadAs::Counting,
        }
    }

    /// Says that others enforce what is only watched here.
    pub(crate) fn audited_by_some(key: &ObjectKey, location: Option<Location>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Note,
            code: "audited-here-enforced-elsewhere",
            location,
            object: key.to_string().into(),
            path: "metadata.labels".into(),
            message: format!(
                "is only watched here; without the label `{CONTROLLER_LABEL}` any other controller of the cluster enforces it"
            )
            .into(),
            help: Some(format!("label it `{CONTROLLER_LABEL}: {CONTROLLER_NAME}`, so that nobody does").into()),
        }
    }

    /// Says that an object was left out, and why.
    pub(crate) fn ignored(&self, key: &ObjectKey, controller: &str, location: Option<Location>) -> Diagnostic {
        let us: Vec<String> = self.names.iter().map(|it| format!("`{it}`")).collect();
        let (message, help) = match controller {
            off if self.is_disabled(off) => {
                (format!("is switched off: its controller is `{off}`"), format!("remove the label `{CONTROLLER_LABEL}` to switch it on"))
            }
            "" => (
                format!("is for no controller: its label `{CONTROLLER_LABEL}` is empty"),
                "remove the label, or name a controller".to_owned(),
            ),
            other => (
                format!("is for the controller `{other}`, so that it does not exist for {}", us.join(", ")),
                format!("`--controller-name {other}` answers as that controller would"),
            ),
        };
        Diagnostic {
            severity: Severity::Note,
            code: "foreign-policy",
            location,
            object: key.to_string().into(),
            path: "metadata.labels".into(),
            message: message.into(),
            help: Some(help.into()),
        }
    }
}

/// What an object is to a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadAs<'b> {
    /// It counts, if it is a policy.
    Counting,
    /// It is watched, and has this value of the label.
    Audited { set: &'b str, label: Option<&'b str> },
    /// It is for another controller, or for none.
    Foreign(&'b str),
}

/// What a value of the label means for one controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whose {
    /// There is no label: the policy is for all.
    Everybodys,
    /// It names the controller.
    Ours,
    /// It names another.
    Foreign,
    /// It is empty.
    Nobodys,
    /// It is a value that switches a policy off.
    SwitchedOff,
}

/// The policies that have one value of the label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labelled {
    /// None for those without the label.
    pub value: Option<Box<str>>,
    pub whose: Whose,
    /// How many there are of each kind, by the kind as the API spells it.
    pub policies: BTreeMap<Box<str>, usize>,
}

impl Controller {
    fn whose(&self, value: Option<&str>) -> Whose {
        match value {
            None => Whose::Everybodys,
            Some("") => Whose::Nobodys,
            Some(it) if self.names.contains(it) => Whose::Ours,
            Some(it) if self.is_disabled(it) => Whose::SwitchedOff,
            Some(_) => Whose::Foreign,
        }
    }

    /// Policies by their value of the label: those without it first. What is watched is left out.
    pub(crate) fn labelled<'o>(&self, objects: impl Iterator<Item = (&'o ObjectKey, &'o Body)>) -> Vec<Labelled> {
        let mut found: BTreeMap<Option<Box<str>>, BTreeMap<Box<str>, usize>> = BTreeMap::new();
        let watched = |body: &Body| matches!(self.reads(body), ReadAs::Audited { .. });
        for (key, meta) in objects.filter(|it| !watched(it.1)).filter_map(|(key, body)| Some((key, policy_meta(body)?))) {
            let of_value = found.entry(meta.labels.get(CONTROLLER_LABEL).map(Box::from)).or_default();
            *of_value.entry(key.kind.clone()).or_default() += 1;
        }
        found.into_iter().map(|(value, policies)| Labelled { whose: self.whose(value.as_deref()), value, policies }).collect()
    }
}

/// The metadata of a policy of any kind.
pub(crate) fn policy_meta(body: &Body) -> Option<&Meta> {
    match body {
        Body::NetworkPolicy(it) => Some(&it.meta),
        Body::ClusterNetworkPolicy(it) => Some(&it.meta),
        Body::AdminNetworkPolicy(it) => Some(&it.meta),
        Body::BaselineAdminNetworkPolicy(it) => Some(&it.meta),
        Body::Kep2091(it) => Some(&it.meta),
        Body::Pod(_) | Body::Workload(_) | Body::Namespace(_) | Body::Node(_) | Body::Service(_) | Body::Nothing(_) => None,
    }
}

/// A value that the label can have.
fn spelled(name: &str) -> Result<Box<str>, String> {
    let spelled = name.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_.".contains(&it));
    if name.is_empty() || name.len() > 63 || !spelled {
        return Err(format!("`{name}` cannot be the value of a label: up to 63 letters, digits, `-`, `_` and `.`"));
    }
    Ok(name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_has_a_name_that_a_label_can_have() {
        let refused = |name: &str| Controller::named([name]).unwrap_err();
        assert!(refused("none").contains("switched off"));
        assert!(refused("").contains("63"));
        assert!(refused("a/b").contains("`a/b`"));
        assert!(refused(&"a".repeat(64)).contains("63"));
        assert_eq!(Controller::named([CONTROLLER_NAME]).unwrap(), Controller::default());
    }

    #[test]
    fn names_and_disabled_values_are_sets_that_do_not_meet() {
        let both = Controller::named_and_disabled(["one", "two"], ["off", "none"]).unwrap();
        assert_eq!(both.names().collect::<Vec<_>>(), ["one", "two"]);
        assert!(both.is_disabled("off") && both.is_disabled("none") && !both.is_disabled("one"));
        assert!(Controller::named_and_disabled(["one", "off"], ["off"]).unwrap_err().contains("`off`"));
        assert!(Controller::named_and_disabled(["none"], ["off"]).is_ok());
        assert_eq!(["off", "none", "one", "other"].map(|it| both.instead_of(it)), [Some("one"), Some("one"), None, None]);
    }

    fn read(annotations: &str, label: Option<&str>) -> crate::Snapshot {
        let labels = label.map(|it| format!("labels: {{{CONTROLLER_LABEL}: \"{it}\"}}, ")).unwrap_or_default();
        let content = format!(
            "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: p, namespace: x, {labels}annotations: {{{annotations}}}}}, \
             spec: {{podSelector: {{}}}}}}\n"
        );
        let mut index = crate::Index::default();
        index.read(crate::Text { file: "f".into(), content: content.into() });
        index.snapshot()
    }

    #[test]
    fn an_audited_policy_is_in_its_set_and_nowhere_else() {
        const AUDIT: &str = "palisade.dev/mode: audit";
        const NAMED: &str = "palisade.dev/mode: audit, palisade.dev/audit-set: next";
        const ODD: &str = "palisade.dev/mode: audit, palisade.dev/audit-set: -x-";
        const NOTE: &str = "audited-here-enforced-elsewhere";
        // Set, policies that count, foreign ones, and what is said but for the namespace that is assumed.
        let table = [
            (AUDIT, None, Some("audit"), 0, 0, vec![NOTE]),
            (AUDIT, Some(CONTROLLER_NAME), Some("audit"), 0, 0, vec![]),
            (AUDIT, Some("none"), Some("audit"), 0, 0, vec![]),
            (NAMED, Some("none"), Some("next"), 0, 0, vec![]),
            (ODD, Some("none"), Some("audit"), 0, 0, vec!["annotation-without-effect"]),
            (AUDIT, Some("other"), None, 0, 1, vec!["foreign-policy"]),
            (AUDIT, Some(""), None, 0, 1, vec!["foreign-policy"]),
            ("palisade.dev/mode: Audit", None, None, 1, 0, vec!["invalid-value"]),
            ("", None, None, 1, 0, vec![]),
            ("", Some("none"), None, 0, 1, vec!["foreign-policy"]),
        ];
        for (annotations, label, set, counting, foreign, said) in table {
            let snapshot = read(annotations, label);
            let model = &snapshot.model;
            let found: Vec<(&str, usize)> = model.audited.iter().map(|(set, policies)| (set.as_ref(), policies.len())).collect();
            assert_eq!(found, set.map(|it| (it, 1)).into_iter().collect::<Vec<_>>(), "{annotations} {label:?}");
            assert_eq!((model.policies.len(), model.foreign.len()), (counting, foreign), "{annotations} {label:?}");
            let codes: Vec<&str> = snapshot.diagnostics.iter().map(|it| it.code).filter(|it| *it != "assumed-namespace").collect();
            assert_eq!(codes, said, "{annotations} {label:?}");
            let controllers: Vec<Option<&str>> = snapshot.audited.iter().map(|it| it.controller.as_deref()).collect();
            assert_eq!(controllers, set.map(|_| label).into_iter().collect::<Vec<_>>());
            // Only what is watched is in no other list.
            assert_eq!(snapshot.labelled.len(), usize::from(set.is_none()), "{annotations} {label:?}");
            if let Some(set) = set {
                let with = model.with_audited(set);
                assert_eq!((with.policies.len(), with.audited.len()), (1, 0));
                assert_eq!(model.with_audited("another").policies, model.policies);
            }
        }
    }
}
