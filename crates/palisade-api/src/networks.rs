//! Annotations about networks other than the pod network, in the formats of the Network Plumbing Working Group.
//!
//! They are read here and judged nowhere in this crate: an annotation that cannot be read is no problem of the object, because most readers ignore it.

use std::net::IpAddr;

use serde::Deserialize;

use crate::syntax;

/// The annotation in which a CNI meta-plugin reports the networks of a pod.
// SPEC: Kubernetes Network Custom Resource Definition De-facto Standard, version 1.3, section 5.
pub const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";
/// The annotation that names the networks a policy is for, separated by commas. Each is `NAME` or `NAMESPACE/NAME`.
pub const POLICY_FOR: &str = "k8s.v1.cni.cncf.io/policy-for";

/// Annotations of one object about networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkAnnotations {
    /// Networks that a pod is attached to besides the pod network, or the reason why the annotation cannot be read.
    pub status: Result<Vec<NetworkStatus>, String>,
    /// Networks that a policy is for, each with the reason if it cannot be read. None without the annotation.
    pub policy_for: Option<Vec<Result<NetworkReference, String>>>,
}

/// One attachment of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkStatus {
    pub network: NetworkReference,
    /// The pod's interface, in its own network namespace.
    pub interface: Option<Box<str>>,
    pub addresses: Vec<IpAddr>,
}

/// A network by the object that describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkReference {
    /// None for the namespace of the object that refers to it.
    pub namespace: Option<Box<str>>,
    pub name: Box<str>,
}

impl NetworkReference {
    fn read(text: &str) -> Result<NetworkReference, String> {
        let (namespace, name) = match text.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, text),
        };
        namespace.map_or(Ok(()), syntax::dns_label).and_then(|()| syntax::subdomain(name)).map_err(|why| format!("`{text}`: {why}"))?;
        Ok(NetworkReference { namespace: namespace.map(Into::into), name: name.into() })
    }

    /// `NAMESPACE/NAME`. None if the reference has no namespace and neither has the object that refers.
    pub fn full_name(&self, own: Option<&str>) -> Option<Box<str>> {
        let namespace = self.namespace.as_deref().or(own)?;
        Some(format!("{namespace}/{}", self.name).into())
    }
}

/// An entry of the annotation. Other fields say nothing that policy depends on.
#[derive(Deserialize)]
struct Entry {
    name: String,
    #[serde(default)]
    interface: Option<String>,
    #[serde(default)]
    ips: Option<Vec<IpAddr>>,
    /// Whether it is the entry of the pod network, whose addresses `status.podIPs` has.
    #[serde(default)]
    default: bool,
}

impl NetworkAnnotations {
    /// None if the object has neither annotation.
    pub(crate) fn of(annotations: &[(&str, &str)]) -> Option<Box<NetworkAnnotations>> {
        let value = |name: &str| annotations.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let (status, policy_for) = (value(NETWORK_STATUS), value(POLICY_FOR));
        status.or(policy_for)?;
        let references = |text: &str| text.split(',').map(|it| NetworkReference::read(it.trim())).collect();
        Some(Box::new(NetworkAnnotations { status: status.map_or(Ok(Vec::new()), statuses), policy_for: policy_for.map(references) }))
    }
}

fn statuses(text: &str) -> Result<Vec<NetworkStatus>, String> {
    let entries: Vec<Entry> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let attached = entries.into_iter().filter(|it| !it.default);
    let status = |it: Entry| {
        let network = NetworkReference::read(&it.name)?;
        let interface = it.interface.filter(|it| !it.is_empty()).map(Into::into);
        Ok(NetworkStatus { network, interface, addresses: it.ips.unwrap_or_default() })
    };
    attached.map(status).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, interface and number of addresses.
    type Attached<'a> = (&'a str, Option<&'a str>, usize);

    fn check(status: &str, expected: Result<&[Attached<'_>], &str>) {
        let read = NetworkAnnotations::of(&[(NETWORK_STATUS, status)]).unwrap();
        let shown = read.status.as_ref().map(|all| {
            let one = |it: &NetworkStatus| (it.network.full_name(Some("own")).unwrap(), it.interface.clone(), it.addresses.len());
            all.iter().map(one).collect::<Vec<_>>()
        });
        match (shown, expected) {
            (Ok(shown), Ok(expected)) => {
                let expected: Vec<(Box<str>, Option<Box<str>>, usize)> =
                    expected.iter().map(|(name, interface, addresses)| ((*name).into(), interface.map(Into::into), *addresses)).collect();
                assert_eq!(shown, expected, "{status}");
            }
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{status}: {why}"),
            (shown, expected) => panic!("{status}: {shown:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn a_status_lists_the_networks_besides_the_pod_network() {
        check("[]", Ok(&[]));
        check(r#"[{"name": "cbr0", "interface": "eth0", "ips": ["10.0.0.1"], "default": true, "dns": {}}]"#, Ok(&[]));
        check(
            r#"[{"name": "x/blue", "interface": "net1", "ips": ["10.0.0.1", "fd00::1"], "mac": "02:00"}, {"name": "red"}]"#,
            Ok(&[("x/blue", Some("net1"), 2), ("own/red", None, 0)]),
        );
        check("{}", Err("invalid type"));
        check(r#"[{"name": "x/blue", "ips": ["10.0.0.1/24"]}]"#, Err("IP address"));
        check(r#"[{"name": "x/y/blue"}]"#, Err("`x/y/blue`"));
        check(r#"[{"interface": "net1"}]"#, Err("missing field `name`"));
    }

    #[test]
    fn a_policy_names_networks_in_its_own_or_in_another_namespace() {
        assert_eq!(NetworkAnnotations::of(&[("another", "annotation")]), None);
        let read = NetworkAnnotations::of(&[(POLICY_FOR, "blue, x/red,,Y/green")]).unwrap();
        let names = |own| -> Vec<Result<Option<Box<str>>, bool>> {
            let all = read.policy_for.iter().flatten();
            all.map(|it| it.as_ref().map(|it| it.full_name(own)).map_err(|why| why.starts_with('`'))).collect()
        };
        assert_eq!(names(Some("own")), [Ok(Some("own/blue".into())), Ok(Some("x/red".into())), Err(true), Err(true)]);
        assert_eq!(names(None), [Ok(None), Ok(Some("x/red".into())), Err(true), Err(true)]);
        assert_eq!(read.status, Ok(vec![]));
    }
}
