//! Services, as far as kube-proxy reads them.

use std::net::IpAddr;

use palisade_model::{LabelSelector, Operator, PortProtocol, Reached, Requirement, ServiceKind, ServicePort, TargetPort};

use crate::meta::Meta;
use crate::read::Reader;
use crate::tree::{Node, Value};

/// A Service.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    pub meta: Meta,
    pub reached: Reached,
    pub kind: ServiceKind,
    pub ports: Vec<ServicePort>,
}

const SPEC: &[&str] = &["selector", "ports", "clusterIP", "clusterIPs", "type", "externalName", "externalIPs", "publishNotReadyAddresses"];
const PORT: &[&str] = &["name", "protocol", "appProtocol", "port", "targetPort", "nodePort"];

impl Reader {
    pub(crate) fn service(&mut self, node: &Node<'_>) -> Option<Service> {
        let fields = self.fields(node)?;
        self.only(&fields, &["apiVersion", "kind", "metadata", "spec", "status"]);
        let meta = self.meta(node);
        let balanced = self.optional(&fields, "status", Reader::balancer_addresses).unwrap_or_default();
        self.required(&fields, "spec", |r, spec| {
            let fields = r.fields(spec)?;
            r.no_slips(&fields, SPEC);
            let ports = r.list(&fields, "ports", Reader::service_port);
            let mut cluster_ips = r.list(&fields, "clusterIPs", Reader::cluster_ip);
            if cluster_ips.is_empty() {
                cluster_ips.extend(r.optional(&fields, "clusterIP", Reader::cluster_ip));
            }
            let selector = r.optional(&fields, "selector", Reader::string_map).unwrap_or_default();
            let not_ready_too = r.optional(&fields, "publishNotReadyAddresses", |r, node| r.boolean(node)).unwrap_or(false);
            let external = r.optional(&fields, "externalName", Reader::string);
            let kind = match (r.optional(&fields, "type", Reader::string), external) {
                (Some("ExternalName"), name) => ServiceKind::ExternalName(name.unwrap_or("").into()),
                (_, _) if selector.is_empty() => ServiceKind::NoSelector,
                (_, _) => ServiceKind::Selector { pods: equals(selector), not_ready_too },
            };
            let headless = !cluster_ips.is_empty() && cluster_ips.iter().all(Option::is_none);
            let mut addresses: Vec<IpAddr> = cluster_ips.into_iter().flatten().collect();
            addresses.extend(r.list(&fields, "externalIPs", Reader::address));
            addresses.extend(balanced);
            let reached = if headless { Reached::Headless } else { Reached::Virtual(addresses) };
            Some(Service { meta, reached, kind, ports })
        })
    }

    /// The addresses of a load balancer in front. Those known by name only have none.
    fn balancer_addresses<'n>(&mut self, node: &'n Node<'n>) -> Option<Vec<IpAddr>> {
        let ingress = node.get("loadBalancer")?;
        self.within("loadBalancer", |r| {
            let fields = r.fields(ingress)?;
            let entry = |r: &mut Reader, node: &'n Node<'n>| {
                let fields = r.fields(node)?;
                r.optional(&fields, "ip", Reader::address)
            };
            Some(r.list(&fields, "ingress", entry))
        })
    }

    /// `None` inside for a headless Service.
    fn cluster_ip<'n>(&mut self, node: &'n Node<'n>) -> Option<Option<IpAddr>> {
        match node.as_str() {
            Some("None" | "") => Some(None),
            _ => self.address(node).map(Some),
        }
    }

    fn service_port<'n>(&mut self, node: &'n Node<'n>) -> Option<ServicePort> {
        let fields = self.fields(node)?;
        self.only(&fields, PORT);
        let name = self.optional(&fields, "name", Reader::string).filter(|name| !name.is_empty());
        let port = self.required(&fields, "port", |r, node| r.port(node))?;
        let protocol = match fields.get("protocol") {
            None => PortProtocol::Tcp,
            Some(node) => self.within("protocol", |r| r.port_protocol(node))?,
        };
        let target = match fields.get("targetPort") {
            None => TargetPort::Number(port),
            Some(Node { value: Value::Str(name), .. }) if name.is_empty() => TargetPort::Number(port),
            Some(Node { value: Value::Str(name), .. }) => TargetPort::Name(name.as_ref().into()),
            Some(Node { value: Value::Int(0), .. }) => TargetPort::Number(port),
            Some(node) => TargetPort::Number(self.within("targetPort", |r| r.port(node))?),
        };
        Some(ServicePort { name: name.map(Into::into), protocol, port, target })
    }
}

fn equals(pairs: Vec<(&str, &str)>) -> LabelSelector {
    let requirement = |(key, value): (&str, &str)| Requirement { key: key.into(), operator: Operator::Equals(value.into()) };
    let mut requirements: Vec<Requirement> = pairs.into_iter().map(requirement).collect();
    requirements.sort();
    LabelSelector { requirements }
}
