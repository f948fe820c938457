//! The pods behind a Service port that kube-proxy could pick, with the port each is reached at.

use serde_json::Value;

use super::read::{at, is_kind, items, label_value, name, namespace, port_number, port_protocol, text};
use super::world::{Pod, World};
use crate::scenario::RawProtocol;

/// None if the Service has no such port, no selector or no pod that is ready.
pub(super) fn endpoints<'a>(
    world: &'a World<'a>,
    in_namespace: &str,
    named: &str,
    protocol: RawProtocol,
    port: Option<u16>,
) -> Result<Vec<(&'a Pod<'a>, u16)>, String> {
    let mut services = world.objects.iter().filter(|it| is_kind(it, "v1", "Service"));
    let service = services
        .find(|it| namespace(it) == in_namespace && name(it) == named)
        .ok_or_else(|| format!("`svc/{in_namespace}/{named}`: no such Service"))?;
    let mut ports = items(service, "/spec/ports").iter();
    let found = ports.find(|it| port.is_some() && port_number(at(it, "/port")) == port && port_protocol(it) == Some(protocol));
    let (Some(entry), Some(port)) = (found, port) else {
        return Ok(Vec::new());
    };
    let picks = world
        .pods
        .iter()
        .filter(|pod| !pod.is_completed() && is_behind(service, pod))
        .filter_map(|pod| Some((pod, target(entry, port, protocol, pod)?)))
        // Clients of a headless Service call the pods themselves, on the port they were told.
        .map(|(pod, target)| (pod, if is_headless(service) { port } else { target }))
        .collect();
    if at(service, "/spec/publishNotReadyAddresses").as_bool() == Some(true) {
        return Ok(picks);
    }
    let ready: Vec<_> = picks.into_iter().filter(|(pod, _)| pod.is_ready()).collect();
    let staying: Vec<_> = ready.iter().copied().filter(|(pod, _)| !pod.is_terminating()).collect();
    // Terminating pods serve only when nobody else does.
    Ok(if staying.is_empty() { ready } else { staying })
}

/// Without an address of its own nothing is rewritten.
fn is_headless(service: &Value) -> bool {
    text(service, "/spec/clusterIP") == Some("None")
}

/// Whether the clients of this Service call the pods themselves.
pub(super) fn is_headless_named(world: &World<'_>, in_namespace: &str, named: &str) -> bool {
    let mut services = world.objects.iter().filter(|it| is_kind(it, "v1", "Service"));
    services.any(|it| namespace(it) == in_namespace && name(it) == named && is_headless(it))
}

/// A Service without a selector has no pods of its own choice.
fn is_behind(service: &Value, pod: &Pod<'_>) -> bool {
    let selector = at(service, "/spec/selector").as_object();
    let Some(selector) = selector.filter(|selector| !selector.is_empty()) else {
        return false;
    };
    let pod_labels = &pod.labels;
    namespace(service) == pod.namespace
        && text(service, "/spec/type") != Some("ExternalName")
        && selector.iter().all(|(key, value)| label_value(value).is_some() && pod_labels.get(key.as_str()).copied() == label_value(value))
}

/// The number of the target port on this pod; a pod without the name is no endpoint of the port.
fn target(entry: &Value, port: u16, protocol: RawProtocol, pod: &Pod<'_>) -> Option<u16> {
    let target = at(entry, "/targetPort");
    match text(entry, "/targetPort") {
        None if target.is_null() || target.as_u64() == Some(0) => Some(port),
        None => port_number(target),
        Some(name) => {
            let mut named = pod.ports_named(name).into_iter();
            named.find(|(_, its)| *its == protocol).map(|(number, _)| number)
        }
    }
}
