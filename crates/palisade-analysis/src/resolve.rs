//! From what people name to the ends that policy judges.

use std::net::IpAddr;
use std::sync::Arc;

use palisade_model::{
    Attachment, ContainerPort, End, Endpoint, EndpointId, Family, HostPod, Model, NetworkId, NodeId, Path, Place, PodName, PortProtocol,
    Protocol, Reached, Readiness, Running, Service, ServiceKind, TargetPort,
};

use crate::party::Party;

/// A port, as a user writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortAsked {
    /// By number.
    Number(u16),
    /// By the name that the destination gives it.
    Name(String),
    /// The protocol has none.
    None,
}

/// A candidate for one end, and what to call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub place: Place,
    /// Every address it may use.
    pub addresses: Vec<IpAddr>,
    /// What to call it.
    pub name: String,
}

/// A candidate for the destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    pub candidate: Candidate,
    pub port: Option<u16>,
    pub path: Path,
}

/// Where a pair can be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) from: End,
    pub(crate) to: End,
    pub(crate) family: Option<Family>,
}

/// The ends a party stands for. The model gains an endpoint for a pod that does not exist.
pub(crate) fn source(model: &mut Model, network: NetworkId, party: &Party) -> Result<Vec<Candidate>, String> {
    match party {
        Party::Address(address) => Ok(vec![at_address(model, network, *address)]),
        Party::Labels { namespace, labels } => Ok(vec![hypothetical(model, network, namespace, labels.clone())]),
        Party::Pod { namespace, name } => pods_named(model, namespace, name),
        Party::Workload { namespace, kind, name } => workload(model, namespace, kind, name),
        Party::Node(name) => node(model, name).map(|it| vec![it]),
        Party::Service { namespace, name } => {
            Err(format!("`svc/{namespace}/{name}`: a Service opens no connections; name the pods behind it, as in {namespace}/{name}"))
        }
    }
}

/// The ends a party stands for as a destination, each with its port.
pub(crate) fn destination(
    model: &mut Model,
    network: NetworkId,
    party: &Party,
    protocol: Protocol,
    port: &PortAsked,
) -> Result<Vec<Destination>, String> {
    if let Some(service) = service_of(model, party)? {
        return behind_service(model, &service, party, protocol, port);
    }
    let candidates = source(model, network, party)?;
    let direct = |candidate: Candidate| {
        let port = resolve_port(model, &candidate, protocol, port)?;
        Ok(Destination { candidate, port, path: Path::Direct })
    };
    candidates.into_iter().map(direct).collect()
}

/// The pairs of addresses two candidates can use: one for each family both have, the destination's primary one first.
pub(crate) fn ends(from: &Candidate, to: &Candidate) -> Vec<Ends> {
    let pair = |from_address: Option<IpAddr>, to_address: Option<IpAddr>| Ends {
        from: End { place: from.place, address: from_address },
        to: End { place: to.place, address: to_address },
        family: to_address.or(from_address).map(Family::of),
    };
    if to.addresses.is_empty() {
        return match first_of_each_family(&from.addresses).as_slice() {
            [] => vec![pair(None, None)],
            addresses => addresses.iter().map(|address| pair(Some(*address), None)).collect(),
        };
    }
    let reached = first_of_each_family(&to.addresses);
    if from.addresses.is_empty() {
        return reached.into_iter().map(|address| pair(None, Some(address))).collect();
    }
    let same = |to: IpAddr| from.addresses.iter().find(|it| Family::of(**it) == Family::of(to)).copied();
    let shared: Vec<Ends> = reached.iter().filter_map(|to| same(*to).map(|from| pair(Some(from), Some(*to)))).collect();
    match (shared.is_empty(), reached.first()) {
        // No family in common: such a connection cannot exist, but the question still has an answer.
        (true, Some(to)) => vec![pair(None, Some(*to))],
        _ => shared,
    }
}

pub(crate) fn first_of_each_family(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let mut firsts: Vec<IpAddr> = Vec::with_capacity(2);
    for address in addresses {
        if firsts.iter().all(|it| Family::of(*it) != Family::of(*address)) {
            firsts.push(*address);
        }
    }
    firsts
}

fn at_address(model: &Model, network: NetworkId, address: IpAddr) -> Candidate {
    let place = model.place_of(network, address);
    let owner = match place {
        Place::Pod(id) => model.endpoint(id).map(|pod| model.endpoint_name(pod).to_string()),
        Place::Node(id) => model.node(id).map(|node| format!("node {}", node.name)),
        Place::Outside => None,
    };
    let name = owner.map_or(address.to_string(), |owner| format!("{owner} ({address})"));
    Candidate { place, addresses: vec![address], name }
}

fn hypothetical(model: &mut Model, network: NetworkId, namespace: &str, labels: palisade_model::Labels) -> Candidate {
    assume_namespace(model, namespace);
    let name = if labels.is_empty() { "(no labels)".to_owned() } else { labels.to_string() };
    let pod = PodName { namespace: namespace.into(), name: name.clone().into() };
    let named = |port: &ContainerPort| port.name.is_some();
    // A pod like the existing ones of its labels has the ports they have; one without labels is like nobody.
    let alike = model
        .endpoints
        .iter()
        .find(|it| *it.name.namespace == *namespace && !labels.is_empty() && labels.iter().all(|(k, v)| it.labels.get(k) == Some(v)));
    let ports = alike.map_or_else(Vec::new, |it| it.ports.iter().filter(|port| named(port)).cloned().collect());
    let (readiness, running) = (Readiness::Ready, Running::NotSaid);
    let attached = |network| Arc::new(Attachment { network, interfaces: Vec::new() });
    let attachment = Some(network).filter(|it| *it != NetworkId::DEFAULT).map(attached);
    let endpoint =
        Endpoint { attachment, name: pod, labels, addresses: Vec::new(), node: None, ports, owners: Vec::new(), readiness, running };
    let name = model.endpoint_name(&endpoint).to_string();
    let id = model.endpoints.push(endpoint);
    Candidate { place: Place::Pod(id), addresses: Vec::new(), name }
}

fn assume_namespace(model: &mut Model, namespace: &str) {
    let labels = || [("kubernetes.io/metadata.name", namespace)].into_iter().collect();
    let assumed = || palisade_model::Namespace { labels: labels(), assumed: true };
    model.namespaces.entry(namespace.into()).or_insert_with(assumed);
}

pub(crate) fn candidate(model: &Model, id: EndpointId) -> Option<Candidate> {
    let endpoint = model.endpoint(id)?;
    Some(Candidate { place: Place::Pod(id), addresses: endpoint.addresses.clone(), name: model.endpoint_name(endpoint).to_string() })
}

fn pods_named(model: &Model, namespace: &str, name: &str) -> Result<Vec<Candidate>, String> {
    // Two workloads of different kinds may have one name: then both are meant.
    let exact = model.endpoints.iter_ids().filter(|(_, it)| *it.name.namespace == *namespace && *it.name.name == *name);
    let mut found: Vec<Candidate> = exact.filter_map(|(id, _)| candidate(model, id)).collect();
    found.extend(on_host_network(model, namespace, |pod| *pod.name.name == *name));
    if !found.is_empty() {
        return Ok(found);
    }
    let owned = owned_by(model, namespace, |owner| *owner.name == *name || is_replica(owner, name));
    if !owned.is_empty() {
        return Ok(owned);
    }
    if model.completed.iter().any(|pod| *pod.namespace == *namespace && *pod.name == *name) {
        return Err(format!("`{namespace}/{name}` has run to its end: no policy applies to it and it has no address any more"));
    }
    Err(nothing_named(model, namespace, name))
}

/// Pods on the network of their node; each stands for its node.
fn on_host_network(model: &Model, namespace: &str, wanted: impl Fn(&HostPod) -> bool) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (id, node) in model.nodes.iter_ids() {
        for pod in node.host_pods.iter().filter(|pod| *pod.name.namespace == *namespace && wanted(pod)) {
            found.push(on_node(model, id, format!("{} (host network)", pod.name)));
        }
    }
    found
}

fn owned_by(model: &Model, namespace: &str, owns: impl Fn(&palisade_model::Owner) -> bool) -> Vec<Candidate> {
    let belongs = |(id, it): (EndpointId, &Endpoint)| {
        let owned = *it.name.namespace == *namespace && it.owners.iter().any(&owns);
        owned.then(|| candidate(model, id)).flatten()
    };
    model.endpoints.iter_ids().filter_map(belongs).collect()
}

/// `db-0` for the StatefulSet `db`, whose pods were not read one by one.
fn is_replica(owner: &palisade_model::Owner, name: &str) -> bool {
    let ordinal = name.strip_prefix(owner.name.as_ref()).and_then(|rest| rest.strip_prefix('-'));
    *owner.kind == *"StatefulSet" && ordinal.is_some_and(|it| !it.is_empty() && it.bytes().all(|b| b.is_ascii_digit()))
}

fn workload(model: &Model, namespace: &str, kind: &str, name: &str) -> Result<Vec<Candidate>, String> {
    let pods = owned_by(model, namespace, |owner| *owner.kind == *kind && *owner.name == *name);
    if !pods.is_empty() {
        return Ok(pods);
    }
    let owned = |pod: &HostPod| pod.owners.iter().any(|owner| *owner.kind == *kind && *owner.name == *name);
    let hosts = on_host_network(model, namespace, owned);
    if hosts.is_empty() { Err(format!("{kind} {}", nothing_named(model, namespace, name))) } else { Ok(hosts) }
}

fn nothing_named(model: &Model, namespace: &str, name: &str) -> String {
    let names = model.endpoints.iter().filter(|it| *it.name.namespace == *namespace);
    let mut known: Vec<String> =
        names.flat_map(|it| it.owners.iter().map(|owner| owner.name.to_string()).chain([it.name.name.to_string()])).collect();
    let hosts = model.nodes.iter().flat_map(|it| &it.host_pods).filter(|it| *it.name.namespace == *namespace);
    known.extend(hosts.map(|it| it.name.name.to_string()));
    known.sort();
    known.dedup();
    let close = known.iter().filter(|it| it.starts_with(name) || name.starts_with(it.as_str()) || strsim::osa_distance(it, name) <= 2);
    let close: Vec<String> = close.take(3).map(|it| format!("`{namespace}/{it}`")).collect();
    let hint = match (close.is_empty(), known.is_empty()) {
        (false, _) => format!("did you mean {}?", close.join(", ")),
        (true, true) => {
            format!("nothing was read in namespace `{namespace}`; name a pod that need not exist by its labels: {namespace}/app={name}")
        }
        (true, false) => format!("name a pod that need not exist by its labels: {namespace}/app={name}"),
    };
    format!("`{namespace}/{name}` is not among the pods and workloads that were read; {hint}")
}

fn node(model: &Model, name: &str) -> Result<Candidate, String> {
    let id = model.nodes.iter_ids().find(|(_, node)| *node.name == *name);
    id.map(|(id, _)| on_node(model, id, format!("node {name}"))).ok_or_else(|| format!("node `{name}` was not read"))
}

fn on_node(model: &Model, id: NodeId, name: String) -> Candidate {
    let addresses = model.node(id).map_or_else(Vec::new, |node| node.addresses.clone());
    Candidate { place: Place::Node(id), addresses, name }
}

/// The Service a party names, also by one of its virtual addresses.
pub(crate) fn service_of(model: &Model, party: &Party) -> Result<Option<Service>, String> {
    match party {
        Party::Service { namespace, name } => {
            let found = model.services.iter().find(|it| *it.namespace == **namespace && *it.name == **name);
            found.cloned().map(Some).ok_or_else(|| format!("Service `{namespace}/{name}` was not read"))
        }
        // SPEC: semantics 1.10: policy sees packets after the Service's address was rewritten.
        Party::Address(address) => Ok(model.services.iter().find(|it| it.addresses().contains(address)).cloned()),
        Party::Pod { .. } | Party::Workload { .. } | Party::Labels { .. } | Party::Node(_) => Ok(None),
    }
}

/// The families in which a Service can be called: that of the address asked about, else those it has.
fn service_families(service: &Service, party: &Party) -> Vec<Family> {
    match party {
        Party::Address(address) => vec![Family::of(*address)],
        Party::Pod { .. } | Party::Workload { .. } | Party::Labels { .. } | Party::Service { .. } | Party::Node(_) => {
            service.addresses().iter().map(|it| Family::of(*it)).collect()
        }
    }
}

/// Where kube-proxy sends what comes for one port of a Service.
pub fn backends_of(model: &Model, service: &Service, port: &palisade_model::ServicePort) -> Result<Vec<Destination>, String> {
    let party = Party::Service { namespace: service.namespace.to_string(), name: service.name.to_string() };
    behind_service(model, service, &party, Protocol::Port(port.protocol), &PortAsked::Number(port.port))
}

fn behind_service(
    model: &Model,
    service: &Service,
    party: &Party,
    protocol: Protocol,
    port: &PortAsked,
) -> Result<Vec<Destination>, String> {
    let name = format!("svc/{}/{}", service.namespace, service.name);
    if *port == PortAsked::None {
        return Err(format!("`{name}`: a Service only has ports; ask about the pods behind it"));
    }
    let (pods, not_ready_too) = match &service.kind {
        ServiceKind::Selector { pods, not_ready_too } => (pods, *not_ready_too),
        ServiceKind::NoSelector => {
            return Err(format!(
                "`{name}` has no selector: its endpoints are written by somebody else, and are not read; ask about the address of one"
            ));
        }
        ServiceKind::ExternalName(host) => {
            return Err(format!("`{name}` is only a DNS name for `{host}`; ask about the address it resolves to"));
        }
    };
    let wanted = |it: &&palisade_model::ServicePort| match port {
        PortAsked::Number(number) => it.port == *number,
        PortAsked::Name(wanted) => it.name.as_deref() == Some(wanted),
        PortAsked::None => false,
    };
    let listed = || service.ports.iter().map(|it| format!("{}/{}", it.protocol, it.port)).collect::<Vec<_>>().join(", ");
    let asked = service.ports.iter().filter(|it| Protocol::Port(it.protocol) == protocol).find(wanted);
    let Some(asked) = asked else { return Err(format!("`{name}` has no such port; it has {}", listed())) };
    let backends = backends(model, service, pods);
    let families = service_families(service, party);
    let behind = |it: &Backend<'_>| {
        let target = target(it.ports, asked.protocol, &asked.target)?;
        // DNS leads to the pods of a headless Service; nobody rewrites the port.
        let (port, path) = match service.reached {
            Reached::Virtual(_) => (target, Path::Service),
            Reached::Headless => (asked.port, Path::Direct),
        };
        let mut candidate = it.candidate.clone();
        candidate.addresses.retain(|it| families.is_empty() || families.contains(&Family::of(*it)));
        Some((it.readiness, Destination { candidate, port: Some(port), path }))
    };
    // A pod that lacks the named port is no endpoint of this port, and does not keep the others from serving it.
    let (usable, rest): (Vec<_>, Vec<_>) = backends.iter().filter_map(behind).partition(|(readiness, _)| match readiness {
        Readiness::Ready => true,
        Readiness::NotReady | Readiness::Terminating => not_ready_too,
    });
    // kube-proxy falls back to terminating endpoints when there are no others.
    let terminating = || rest.into_iter().filter(|(readiness, _)| *readiness == Readiness::Terminating).collect();
    let chosen: Vec<_> = if usable.is_empty() { terminating() } else { usable };
    Ok(chosen.into_iter().map(|(_, destination)| destination).collect())
}

/// A pod that a Service may send traffic to.
struct Backend<'m> {
    candidate: Candidate,
    ports: &'m [ContainerPort],
    readiness: Readiness,
}

fn backends<'m>(model: &'m Model, service: &Service, pods: &palisade_model::LabelSelector) -> Vec<Backend<'m>> {
    let mine = |name: &PodName, labels| name.namespace == service.namespace && pods.matches(labels);
    let mut found = Vec::new();
    for (id, pod) in model.endpoints.iter_ids().filter(|(_, pod)| mine(&pod.name, &pod.labels)) {
        let candidate = candidate(model, id);
        found.extend(candidate.map(|candidate| Backend { candidate, ports: &pod.ports, readiness: pod.readiness }));
    }
    for (id, node) in model.nodes.iter_ids() {
        for pod in node.host_pods.iter().filter(|pod| mine(&pod.name, &pod.labels)) {
            let candidate = on_node(model, id, format!("{} (host network)", pod.name));
            found.push(Backend { candidate, ports: &pod.ports, readiness: pod.readiness });
        }
    }
    found
}

/// A pod that does not have the named target port is no endpoint for it.
fn target(ports: &[ContainerPort], protocol: PortProtocol, target: &TargetPort) -> Option<u16> {
    match target {
        TargetPort::Number(port) => Some(*port),
        TargetPort::Name(name) => ports.iter().find(|it| it.name.as_ref() == Some(name) && it.protocol == protocol).map(|it| it.port),
    }
}

pub(crate) fn resolve_port(model: &Model, to: &Candidate, protocol: Protocol, port: &PortAsked) -> Result<Option<u16>, String> {
    let name = match port {
        PortAsked::Number(number) => return Ok(Some(*number)),
        PortAsked::None => return Ok(None),
        PortAsked::Name(name) => name,
    };
    let pod = match to.place {
        Place::Pod(id) => model.endpoint(id),
        Place::Node(_) | Place::Outside => None,
    };
    let Some(pod) = pod else { return Err(format!("{} is no pod, so it has no port named `{name}`; give the number", to.name)) };
    let found = pod.ports.iter().find(|it| it.name.as_deref() == Some(name) && Protocol::Port(it.protocol) == protocol);
    let named: Vec<&str> = pod.ports.iter().filter_map(|it| it.name.as_deref()).collect();
    let hint = if named.is_empty() { "it names no ports".to_owned() } else { format!("it names {}", named.join(", ")) };
    found.map(|it| Some(it.port)).ok_or_else(|| format!("{} has no {protocol} port named `{name}`; {hint}", to.name))
}
