//! What a change touches, and how connections are judged, on clusters in their text form.

pub(super) mod changing;
mod judge;
mod view;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use palisade_model::{EndpointId, Model, NodeId, PodName};
use palisade_testkit::check::snapshot;

use crate::sweep::view::View;

/// A cluster, line by line: `pod NAME NODE ADDRESS LABELS`, `node NAME ADDRESS`, `namespace LABELS`, `in|out NAME LABELS: PEERS PORTS`, where
/// PEERS are the labels of pods or a CIDR, and PORTS are TCP ports.
pub(super) fn model(text: &str) -> Model {
    let yaml: String = text.lines().map(str::trim).filter(|it| !it.is_empty()).map(object).collect();
    snapshot("cluster.yaml", &yaml).model
}

/// The cluster as its first node sees it, each of its pods with a link of its name.
pub(super) fn view(text: &str) -> View {
    view_of(&model(text))
}

pub(super) fn view_of(model: &Model) -> View {
    let own = model.endpoints.iter().enumerate().filter(|(_, it)| it.node == Some(NodeId(0)));
    let links: BTreeMap<EndpointId, String> = own.map(|(at, it)| (EndpointId(at), it.name.name.to_string())).collect();
    View::of(&Arc::new(model.clone()), NodeId(0), &links)
}

pub(super) fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(super) fn name(pod: &str) -> PodName {
    PodName { namespace: "x".into(), name: pod.into() }
}

fn object(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let text = match &words[..] {
        ["pod", name, node, address, labels] => format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{namespace: x, name: {name}, labels: {{{}}}}}\n\
             spec: {{nodeName: {node}, containers: [{{name: m, image: i}}]}}\nstatus: {{phase: Running, podIPs: [{{ip: '{address}'}}]}}",
            labels.replace('=', ": ")
        ),
        ["node", name, address] => format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\nstatus: {{addresses: [{{type: InternalIP, address: '{address}'}}]}}"
        ),
        ["namespace", labels] => {
            format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: x, labels: {{{}}}}}", labels.replace('=', ": "))
        }
        [direction @ ("in" | "out"), name, labels, peers @ ..] => {
            let (kind, rules, end) = if *direction == "in" { ("Ingress", "ingress", "from") } else { ("Egress", "egress", "to") };
            let peers: Vec<String> = peers.iter().map(|it| rule(it, end)).collect();
            format!(
                "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{namespace: x, name: {name}}}\n\
                 spec: {{podSelector: {{matchLabels: {{{}}}}}, policyTypes: [{kind}], {rules}: [{}]}}",
                labels.replace('=', ": "),
                peers.join(", ")
            )
        }
        _ => panic!("{line}"),
    };
    format!("{text}\n---\n")
}

/// `app=a`, `app=a:80` or `10.0.0.0/8:80`.
fn rule(peer: &str, end: &str) -> String {
    let (peer, port) = peer.split_once(':').map_or((peer, None), |(peer, port)| (peer, Some(port)));
    let peer = match peer.split_once('=') {
        Some((key, value)) => format!("podSelector: {{matchLabels: {{{key}: {value}}}}}"),
        None => format!("ipBlock: {{cidr: {peer}}}"),
    };
    let ports = port.map(|it| format!(", ports: [{{port: {it}}}]")).unwrap_or_default();
    format!("{{{end}: [{{{peer}}}]{ports}}}")
}
