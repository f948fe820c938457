//! How people name the ends of a connection.

use std::net::IpAddr;

use palisade_api::syntax;
use palisade_model::Labels;

/// One end, as a user writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Party {
    /// `shop/web-7c9`: a pod, or a workload of that name.
    Pod { namespace: String, name: String },
    /// `shop/deploy/web`: the pods of a workload.
    Workload { namespace: String, kind: &'static str, name: String },
    /// `shop/app=web,tier=front`: any pod with these labels, whether it exists or not.
    Labels { namespace: String, labels: Labels },
    /// `10.0.0.7` or `fd00::7`.
    Address(IpAddr),
    /// `svc/shop/web`.
    Service { namespace: String, name: String },
    /// `node/worker-1`.
    Node(String),
}

/// Kinds that have pods, with the short names kubectl knows.
const KINDS: &[(&str, &[&str])] = &[
    ("Pod", &["pod", "pods", "po"]),
    ("Deployment", &["deployment", "deployments", "deploy"]),
    ("StatefulSet", &["statefulset", "statefulsets", "sts"]),
    ("DaemonSet", &["daemonset", "daemonsets", "ds"]),
    ("ReplicaSet", &["replicaset", "replicasets", "rs"]),
    ("ReplicationController", &["replicationcontroller", "replicationcontrollers", "rc"]),
    ("Job", &["job", "jobs"]),
    ("CronJob", &["cronjob", "cronjobs", "cj"]),
    ("Service", &["service", "services", "svc"]),
];

/// The forms a party can take, for messages.
pub const FORMS: &str =
    "namespace/pod, namespace/deploy/name, namespace/key=value[,key=value], svc/namespace/name, node/name, or an IP address";

impl Party {
    /// The namespace it names, if it names one.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Party::Pod { namespace, .. }
            | Party::Workload { namespace, .. }
            | Party::Labels { namespace, .. }
            | Party::Service { namespace, .. } => Some(namespace),
            Party::Address(_) | Party::Node(_) => None,
        }
    }

    /// Reads a party; the message says what was expected.
    pub fn parse(text: &str) -> Result<Party, String> {
        let party = Party::read(text)?;
        if let Some(namespace) = party.namespace() {
            syntax::dns_label(namespace)?;
        }
        if let Party::Labels { labels, .. } = &party {
            labels.iter().try_for_each(|(key, value)| syntax::label_key(key).and_then(|()| syntax::label_value(value)))?;
        }
        Ok(party)
    }

    fn read(text: &str) -> Result<Party, String> {
        let wrong = |why: &str| Err(format!("`{text}`: {why}; write {FORMS}"));
        if let Ok(address) = text.parse() {
            return Ok(Party::Address(address));
        }
        if text.parse::<ipnet::IpNet>().is_ok() {
            return wrong("a range is not one end; name one of its addresses");
        }
        if text.ends_with('/') {
            return wrong("a name is missing after the slash");
        }
        let parts: Vec<&str> = text.split('/').collect();
        match parts.as_slice() {
            [namespace, labels] if !namespace.is_empty() && labels.contains('=') => {
                Ok(Party::Labels { namespace: (*namespace).to_owned(), labels: parse_labels(labels)? })
            }
            // A label key may hold a slash: shop/app.kubernetes.io/name=web.
            [namespace, rest @ ..] if rest.len() > 1 && !namespace.is_empty() && rest.join("/").contains('=') => {
                Ok(Party::Labels { namespace: (*namespace).to_owned(), labels: parse_labels(&rest.join("/"))? })
            }
            ["node", name] if !name.is_empty() => Ok(Party::Node((*name).to_owned())),
            [namespace, name] if !namespace.is_empty() => Ok(Party::Pod { namespace: (*namespace).to_owned(), name: (*name).to_owned() }),
            ["svc" | "service", namespace, name] if !namespace.is_empty() && !name.is_empty() => {
                Ok(Party::Service { namespace: (*namespace).to_owned(), name: (*name).to_owned() })
            }
            [namespace, kind, name] if !namespace.is_empty() && !name.is_empty() => match kind_of(kind) {
                Some("Pod") => Ok(Party::Pod { namespace: (*namespace).to_owned(), name: (*name).to_owned() }),
                Some("Service") => Ok(Party::Service { namespace: (*namespace).to_owned(), name: (*name).to_owned() }),
                Some(kind) => Ok(Party::Workload { namespace: (*namespace).to_owned(), kind, name: (*name).to_owned() }),
                None => wrong(&format!("`{kind}` is not a kind that has pods")),
            },
            [_] => wrong("a namespace is missing"),
            _ => wrong("this names nothing"),
        }
    }
}

fn kind_of(text: &str) -> Option<&'static str> {
    let text = text.to_ascii_lowercase();
    KINDS.iter().find(|(_, names)| names.contains(&text.as_str())).map(|(kind, _)| *kind)
}

fn parse_labels(text: &str) -> Result<Labels, String> {
    let mut labels = Labels::default();
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some((key, value)) if !key.is_empty() => labels.set(key.trim(), value.trim()),
            Some(_) | None => return Err(format!("`{pair}` is not a label; write key=value")),
        }
    }
    Ok(labels)
}
