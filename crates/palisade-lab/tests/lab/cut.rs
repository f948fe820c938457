//! Live connections that a change denies are cut, whoever sends next; all others live on.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use palisade_agent::{CutBy, Cuts, Established, Event, Name};
use palisade_kernel::{Connection, Conntrack, Namespace};
use palisade_lab::{Lab, NodeEvent, Options, PodNetwork, Speaker, plan};
use palisade_model::{PodName, Severity};
use palisade_testkit::check::snapshot;

use crate::ground::is_root;
use crate::talk::{Protocol, Side, Talk, alive, silent};

const SERVER: &str = "10.0.2.1";
const CLIENT: &str = "10.0.1.1";
const OTHER: &str = "10.0.1.2";
const SERVICE: &str = "10.96.0.7";

/// Where the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nodes {
    /// On the node of its clients.
    One,
    /// On another.
    Two,
}

/// Who is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Pod,
    Service,
}

fn pod(name: &str, app: &str, node: &str, address: &str) -> String {
    let labels = format!("labels: {{app: {app}}}");
    let spec = format!("spec: {{nodeName: {node}, containers: [{{name: m, image: i}}]}}");
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{namespace: x, name: {name}, {labels}}}\n{spec}\nstatus: {{podIPs: [{{ip: '{address}'}}]}}\n---\n"
    )
}

/// Pods of an app that may be called by these apps alone.
fn called_by(app: &str, callers: &[&str]) -> String {
    let peers: Vec<String> = callers.iter().map(|it| format!("{{podSelector: {{matchLabels: {{app: {it}}}}}}}")).collect();
    let rules = if peers.is_empty() { String::new() } else { format!("{{from: [{}]}}", peers.join(", ")) };
    let head = format!("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{namespace: x, name: to-{app}}}\n");
    format!("{head}spec: {{podSelector: {{matchLabels: {{app: {app}}}}}, policyTypes: [Ingress], ingress: [{rules}]}}\n---\n")
}

/// Pods of an app that may call these apps alone.
fn calls(app: &str, called: &[&str]) -> String {
    let peers: Vec<String> = called.iter().map(|it| format!("{{podSelector: {{matchLabels: {{app: {it}}}}}}}")).collect();
    let rules = if peers.is_empty() { String::new() } else { format!("{{to: [{}]}}", peers.join(", ")) };
    let head = format!("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{namespace: x, name: from-{app}}}\n");
    format!("{head}spec: {{podSelector: {{matchLabels: {{app: {app}}}}}, policyTypes: [Egress], egress: [{rules}]}}\n---\n")
}

/// Nodes, the server and its Service, and another client. No client may be called, so a server's datagram is an answer or nothing.
fn ground(nodes: Nodes) -> String {
    let server = match nodes {
        Nodes::One => "n1",
        Nodes::Two => "n2",
    };
    let node = |name: &str| format!("apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\n---\n");
    let ports: Vec<String> = (7000..7020)
        .flat_map(|port| ["TCP", "UDP"].map(|it| format!("{{name: p{}-{port}, port: {port}, protocol: {it}}}", it.to_lowercase())))
        .collect();
    let spec = format!("spec: {{clusterIP: {SERVICE}, selector: {{app: server}}, ports: [{}]}}", ports.join(", "));
    let service = format!("apiVersion: v1\nkind: Service\nmetadata: {{namespace: x, name: s}}\n{spec}\n---\n");
    let isolated = ["client", "other", "stranger"].map(|it| called_by(it, &[])).concat();
    [node("n1"), node("n2"), service, isolated, pod("server", "server", server, SERVER), pod("other", "other", "n1", OTHER)].concat()
}

struct World {
    lab: Lab,
    events: Receiver<NodeEvent>,
    nodes: Nodes,
    network: PodNetwork,
    port: u16,
}

impl World {
    fn up(nodes: Nodes, network: PodNetwork, established: Established, more: &[String]) -> World {
        let (sender, events) = channel();
        let plan = plan(&model(nodes, more), &Options { network, ..Options::default() }).unwrap();
        let (lab, notes) = Lab::up_with(plan, established, sender, |_| {}).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(notes, Vec::<String>::new());
        World { lab, events, nodes, network, port: 7000 }
    }

    fn apply(&mut self, more: &[String]) {
        let options = Options { network: self.network, ..Options::default() };
        let plan = self.lab.plan().next(&model(self.nodes, more), &options).unwrap();
        assert_eq!(self.lab.apply(plan, |_| {}).unwrap(), Vec::<String>::new());
    }

    fn namespace(&self, pod: &str) -> &Namespace {
        self.lab.namespace(&Speaker::Pod(name(pod))).unwrap_or_else(|| panic!("no pod {pod}"))
    }

    /// Conversations of a client with the server: of both protocols, with the pod and through the Service.
    fn talks(&mut self, client: &str) -> Vec<Talk> {
        let kinds = [(Protocol::Tcp, By::Pod), (Protocol::Tcp, By::Service), (Protocol::Udp, By::Pod), (Protocol::Udp, By::Service)];
        kinds.map(|(protocol, by)| self.talk(client, protocol, by)).into()
    }

    fn talk(&mut self, client: &str, protocol: Protocol, by: By) -> Talk {
        let port = self.port;
        self.port += 1;
        let called = match by {
            By::Pod => SERVER,
            By::Service => SERVICE,
        };
        let at = |address: &str| SocketAddr::new(address.parse().unwrap(), port);
        let name = format!("{protocol:?} of {client} by {by:?} on {:?} node, {:?}", self.nodes, self.network);
        Talk::open(&name, protocol, [self.namespace(client), self.namespace("server")], at(called), at(SERVER))
    }

    /// What is tracked on any node with an address.
    fn tracked(&self, address: &str) -> Vec<Connection> {
        let address: IpAddr = address.parse().unwrap();
        let nodes = self.lab.namespaces().into_iter().filter(|(who, _)| matches!(who, Speaker::Node(_)));
        let all = nodes.flat_map(|(_, it)| it.run(|| Conntrack::open().unwrap().dump(None).unwrap()).unwrap());
        all.filter(|it| [it.original.source, it.reply.source].contains(&address)).collect()
    }

    /// All that was told about connections that were cut.
    fn cuts(&self) -> Vec<(Box<str>, Cuts)> {
        let mut cuts = Vec::new();
        while let Ok(NodeEvent { node, event }) = self.events.recv_timeout(Duration::ZERO) {
            match event {
                Event::Cut(it) => cuts.push((node, *it)),
                Event::Failed(error) => panic!("{node}: {error}"),
                Event::Denied(_) | Event::DeniedAgain(_) | Event::Lost(_) | Event::Restored { .. } => {}
            }
        }
        cuts
    }
}

fn model(nodes: Nodes, more: &[String]) -> palisade_model::Model {
    let text = format!("{}{}", ground(nodes), more.concat());
    let snapshot = snapshot("cluster.yaml", &text);
    let errors: Vec<String> = snapshot.diagnostics.iter().filter(|it| it.severity == Severity::Error).map(ToString::to_string).collect();
    assert_eq!(errors, Vec::<String>::new(), "{text}");
    snapshot.model
}

fn name(pod: &str) -> PodName {
    PodName { namespace: "x".into(), name: pod.into() }
}

fn refs(talks: &[Talk]) -> Vec<&Talk> {
    talks.iter().collect()
}

fn client() -> String {
    pod("client", "client", "n1", CLIENT)
}

/// Opens conversations of two clients, changes something, and finds those of the first cut, whichever side sends next.
fn check(before: &[String], after: &[String]) {
    if !is_root() {
        return;
    }
    for (nodes, network) in [(Nodes::One, PodNetwork::Routed), (Nodes::Two, PodNetwork::Routed), (Nodes::One, PodNetwork::Bridged)] {
        for next in [Side::Client, Side::Server] {
            let mut world = World::up(nodes, network, Established::Cut, before);
            let (cut, lives) = (world.talks("client"), world.talks("other"));
            world.apply(after);
            assert_eq!(world.tracked(CLIENT), Vec::new(), "{nodes:?} {next:?}");
            silent(&refs(&cut), next);
            alive(&refs(&lives), next);
        }
    }
}

#[test]
fn a_connection_ends_when_a_policy_of_the_server_stops_allowing_it() {
    check(&[client(), called_by("server", &["client", "other"])], &[client(), called_by("server", &["other"])]);
}

#[test]
fn a_connection_ends_when_a_policy_of_the_client_stops_allowing_it() {
    check(&[client(), calls("client", &["server"])], &[client(), calls("client", &["other"])]);
}

#[test]
fn a_connection_ends_with_a_label_of_the_client() {
    let policy = called_by("server", &["client", "other"]);
    check(&[client(), policy.clone()], &[pod("client", "stranger", "n1", CLIENT), policy]);
}
