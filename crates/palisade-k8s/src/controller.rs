//! Whose policy it is. SPEC: semantics 4 (KEP-5790).

use std::collections::BTreeSet;

use palisade_api::Body;
use palisade_model::{Diagnostic, Location, Severity};

use crate::sources::ObjectKey;

/// The label that says which controller a policy is for. A policy without it is for all.
pub const CONTROLLER_LABEL: &str = "networking.k8s.io/policy-controller-name";
/// The name that we answer to, unless told otherwise.
pub const CONTROLLER_NAME: &str = "palisade";
/// The value for a policy that is nobody's: it is switched off.
pub const DISABLED: &str = "none";

/// A controller, by the names that it answers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    names: BTreeSet<Box<str>>,
}

impl Default for Controller {
    fn default() -> Controller {
        Controller { names: BTreeSet::from([CONTROLLER_NAME.into()]) }
    }
}

impl Controller {
    /// One that answers to these names. The message says why a name cannot be one.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Controller, String> {
        let mut found = BTreeSet::new();
        for name in names {
            let spelled = name.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_.".contains(&it));
            if name.is_empty() || name.len() > 63 || !spelled {
                return Err(format!("`{name}` cannot be the value of a label: up to 63 letters, digits, `-`, `_` and `.`"));
            }
            if name == DISABLED {
                return Err(format!("`{DISABLED}` is no controller's name: a policy that has it is switched off"));
            }
            found.insert(name.into());
        }
        Ok(Controller { names: found })
    }

    /// The controller that an object is for, if it is for another one.
    pub(crate) fn foreign<'b>(&self, body: &'b Body) -> Option<&'b str> {
        let labels = match body {
            Body::NetworkPolicy(it) => &it.meta.labels,
            Body::ClusterNetworkPolicy(it) => &it.meta.labels,
            Body::Pod(_) | Body::Workload(_) | Body::Namespace(_) | Body::Node(_) | Body::Service(_) | Body::Nothing(_) => return None,
        };
        labels.get(CONTROLLER_LABEL).filter(|it| !self.names.contains(*it))
    }

    /// Says that an object was left out, and why.
    pub(crate) fn ignored(&self, key: &ObjectKey, controller: &str, location: Option<Location>) -> Diagnostic {
        let us: Vec<String> = self.names.iter().map(|it| format!("`{it}`")).collect();
        let (message, help) = match controller {
            DISABLED => {
                ("is switched off: its controller is `none`".to_owned(), format!("remove the label `{CONTROLLER_LABEL}` to switch it on"))
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
}
