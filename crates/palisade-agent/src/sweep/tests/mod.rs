//! What a change touches, and how connections are judged, on clusters in their text form.

pub(super) mod changing;
mod judge;
mod touched;

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_model::{Changes, EndpointId, Model, NodeId, PodName};
use palisade_testkit::check::snapshot;

use crate::cluster::{Cluster, Here};
use crate::sweep::Touched;

/// A cluster, line by line: `pod NAME NODE ADDRESS LABELS`, `node NAME ADDRESS`, `namespace LABELS`, `in|out NAME LABELS: PEERS PORTS`, where
/// PEERS are the labels of pods or a CIDR, and PORTS are TCP ports.
pub(super) fn model(text: &str) -> Model {
    let yaml: String = text.lines().map(str::trim).filter(|it| !it.is_empty()).map(object).collect();
    snapshot("cluster.yaml", &yaml).model
}

/// The cluster as its first node sees it, each of its pods with a link of its name.
pub(super) fn cluster_of(model: &Model) -> Cluster {
    Cluster::of(model.clone(), NodeId(0), links_of(model))
}

pub(super) fn links_of(model: &Model) -> BTreeMap<EndpointId, String> {
    let own = model.endpoints.iter_ids().filter(|(_, it)| it.node == Some(NodeId(0)));
    own.map(|(id, it)| (id, it.name.name.to_string())).collect()
}

/// Follows the change to another model whose ids mean the same.
pub(super) fn follow(cluster: &mut Cluster, after: &Model, links: BTreeMap<EndpointId, String>) -> Touched {
    let changes = Changes::between(cluster.model(), after).starting(cluster.revision());
    cluster.follow(&changes, Here { node: NodeId(0), links, pod_ranges: after.pod_ranges.clone() }).unwrap()
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
