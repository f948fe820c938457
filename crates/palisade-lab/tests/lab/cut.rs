//! Live connections that a change denies are cut, whoever sends next; all others live on.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use palisade_agent::{CutBy, Cuts, Denial, Established, Event, Name};
use palisade_kernel::{Connection, Conntrack, Namespace};
use palisade_lab::{Families, Lab, NodeEvent, Options, PodNetwork, Speaker, plan};
use palisade_model::{PodName, Severity};
use palisade_testkit::check::snapshot;

use crate::ground::{is_root, say};
use crate::talk::{Protocol, Side, Talk, alive, both_silent, silent};

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

/// Set when it is dropped.
#[derive(Default)]
struct Flag(Arc<AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
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
        assert_eq!(notes, Vec::<String>::new(), "{:?}", events.try_iter().collect::<Vec<_>>());
        World { lab, events, nodes, network, port: 7000 }
    }

    fn apply(&mut self, more: &[String]) {
        let options = Options { network: self.network, ..Options::default() };
        let plan = self.lab.plan().next(&model(self.nodes, more), &options).unwrap();
        let notes = self.lab.apply(plan, |_| {}).unwrap();
        assert_eq!(notes, Vec::<String>::new(), "{:?}", self.events.try_iter().collect::<Vec<_>>());
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

    /// The denials that were told, with both ends and the rule.
    fn denied(&self) -> Vec<Denial> {
        self.events.try_iter().filter_map(|it| if let Event::Denied(denial) = it.event { Some(*denial) } else { None }).collect()
    }

    /// Deletes what the nodes remember of conversations that were cut, and waits until it is back. False without nft.
    fn forget_answers(&self) -> bool {
        let nodes = || self.lab.namespaces().into_iter().filter(|(who, _)| matches!(who, Speaker::Node(_)));
        let nft = |word: &'static str| move || std::process::Command::new("nft").args([word, "table", "inet", "palisade-answers"]).output();
        let forgotten: Vec<_> = nodes().filter_map(|(_, it)| it.run(nft("delete")).unwrap().ok()).collect();
        assert!(forgotten.iter().all(|it| it.status.success()), "{forgotten:?}");
        let deadline = Instant::now() + Duration::from_secs(10);
        while !nodes().all(|(_, it)| it.run(nft("list")).unwrap().is_ok_and(|it| it.status.success())) && !forgotten.is_empty() {
            assert!(Instant::now() < deadline, "the table does not come back");
        }
        !forgotten.is_empty()
    }

    /// All that was told about connections that were cut.
    fn cuts(&self) -> Vec<(Box<str>, Cuts)> {
        let mut cuts = Vec::new();
        while let Ok(NodeEvent { node, event }) = self.events.recv_timeout(Duration::ZERO) {
            match event {
                Event::Cut(it) => cuts.push((node, *it)),
                Event::Failed(error) => panic!("{node}: {error}"),
                Event::Denied(_) | Event::DeniedAgain(_) | Event::Lost(_) | Event::Restored { .. } | Event::Bypassed(_) => {}
                Event::Suppressed { .. } | Event::Noticed(_) | Event::Accepted(_) | Event::AcceptedMore { .. } => {}
                Event::Would(_) | Event::WouldMore { .. } => {}
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

/// Opens conversations of a client, gives its address to another pod, and finds that the other inherits nothing.
fn check_reuse(heir: &str) {
    if !is_root() {
        return;
    }
    let policy = called_by("server", &["client", "other"]);
    for (nodes, next) in [(Nodes::One, Side::Client), (Nodes::One, Side::Server), (Nodes::Two, Side::Client), (Nodes::Two, Side::Server)] {
        let mut world = World::up(nodes, PodNetwork::Routed, Established::Cut, &[client(), policy.clone()]);
        let (left, lives) = (world.talks("client"), world.talks("other"));
        // With a while in which nobody has the address, and in one step.
        if next == Side::Server {
            world.apply(std::slice::from_ref(&policy));
            assert_eq!(world.tracked(CLIENT), Vec::new(), "{nodes:?}");
        }
        world.apply(&[pod("heir", heir, "n1", CLIENT), policy.clone()]);
        assert_eq!(world.tracked(CLIENT), Vec::new(), "{nodes:?}");
        let inherited: Vec<Talk> = left.into_iter().filter_map(|it| it.inherited(world.namespace("heir"))).collect();
        assert_eq!(inherited.len(), 2);
        match (heir, next) {
            // It may call the server by itself, and has its answers.
            ("client", Side::Client) => alive(&refs(&inherited), next),
            _ => silent(&refs(&inherited), next),
        }
        alive(&refs(&lives), next);
    }
}

#[test]
fn a_pod_does_not_inherit_the_connections_of_its_address() {
    check_reuse("stranger");
}

#[test]
fn a_pod_with_the_labels_of_the_one_before_inherits_nothing_either() {
    check_reuse("client");
}

#[test]
fn connections_of_ipv6_end_too() {
    if !is_root() {
        return;
    }
    let options = Options { families: Families::Both, ..Options::default() };
    for (nodes, next) in [(Nodes::One, Side::Client), (Nodes::Two, Side::Server)] {
        let (events, _heard) = channel();
        let before = model(nodes, &[client(), called_by("server", &["client", "other"])]);
        let (mut lab, _) = Lab::up(plan(&before, &options).unwrap(), events, |_| {}).unwrap();
        let address = |lab: &Lab, pod: &str| {
            let endpoint = lab.plan().model.endpoints.iter().find(|it| it.name == name(pod)).unwrap();
            *endpoint.addresses.iter().find(|it| it.is_ipv6()).unwrap()
        };
        let talk = |client: &str, protocol, port| {
            let namespaces = [client, "server"].map(|it| lab.namespace(&Speaker::Pod(name(it))).unwrap());
            let at = SocketAddr::new(address(&lab, "server"), port);
            Talk::open(&format!("{protocol:?} of {client} by IPv6, {nodes:?}"), protocol, namespaces, at, at)
        };
        let cut = [talk("client", Protocol::Tcp, 7000), talk("client", Protocol::Udp, 7001)];
        let lives = [talk("other", Protocol::Tcp, 7002), talk("other", Protocol::Udp, 7003)];
        let after = model(nodes, &[client(), called_by("server", &["other"])]);
        let plan = lab.plan().next(&after, &options).unwrap();
        assert_eq!(lab.apply(plan, |_| {}).unwrap(), Vec::<String>::new());
        silent(&refs(&cut), next);
        alive(&refs(&lives), next);
    }
}

#[test]
fn kept_connections_live_on() {
    if is_root() {
        for nodes in [Nodes::One, Nodes::Two] {
            let before = [client(), called_by("server", &["client", "other"])];
            let mut world = World::up(nodes, PodNetwork::Routed, Established::Keep, &before);
            let talks = world.talks("client");
            world.apply(&[client(), called_by("server", &["other"])]);
            alive(&refs(&talks), Side::Server);
            alive(&refs(&talks), Side::Client);
            assert_eq!(world.cuts(), Vec::new());
        }
    }
}

/// A datagram after the cut opens a connection of its own, in its own direction.
#[test]
fn a_server_that_may_call_its_client_can_do_so_after_the_cut() {
    if is_root() {
        for nodes in [Nodes::One, Nodes::Two] {
            let allowed = called_by("client", &["server"]).replace("to-client", "answers");
            let mut world =
                World::up(nodes, PodNetwork::Routed, Established::Cut, &[client(), allowed.clone(), called_by("server", &["client"])]);
            let [datagrams, segments] = [Protocol::Udp, Protocol::Tcp].map(|it| world.talk("client", it, By::Pod));
            world.apply(&[client(), allowed, called_by("server", &[])]);
            silent(&[&datagrams, &segments], Side::Client);
            silent(&[&segments], Side::Server);
            alive(&[&datagrams], Side::Server);
        }
    }
}

/// Does something while both ends of conversations go on sending.
fn while_both_send(talks: &[Talk], pause: Duration, work: impl FnOnce()) {
    let stop = Flag::default();
    std::thread::scope(|scope| {
        let stopped = Arc::clone(&stop.0);
        scope.spawn(move || {
            while !stopped.load(Ordering::SeqCst) {
                talks.iter().for_each(Talk::send_both);
                std::thread::sleep(pause);
            }
        });
        // Also when it fails.
        let _stop = stop;
        work();
    });
}

/// Each may call out and neither may be called, so what each node sees come in could be the answer to what it saw go out.
#[test]
fn datagrams_of_both_ends_do_not_answer_each_other_after_the_cut() {
    if !is_root() {
        return;
    }
    for nodes in [Nodes::One, Nodes::Two] {
        let before = [client(), called_by("server", &["client", "other"])];
        let mut world = World::up(nodes, PodNetwork::Routed, Established::Cut, &before);
        let cut = [By::Pod, By::Service].map(|by| world.talk("client", Protocol::Udp, by));
        let lives = [By::Pod, By::Service].map(|by| world.talk("other", Protocol::Udp, by));
        // Not even while the change comes into force do they stop.
        while_both_send(&cut, Duration::from_millis(5), || {
            world.apply(&[client(), called_by("server", &["other"])]);
            both_silent(&refs(&cut));
            alive(&refs(&lives), Side::Server);
            // Denied in the words of policy, as a first packet would be.
            let denied = world.denied();
            for (from, to, policy) in [("client", "server", "to-server"), ("server", "client", "to-client")] {
                let ends = [from, to].map(|it| Name::Pod(name(it)));
                let told: Vec<&Denial> = denied.iter().filter(|it| [&it.source.name, &it.destination.name] == ends.each_ref()).collect();
                assert!(told.iter().any(|it| format!("{:?}", it.by).contains(policy)), "{nodes:?} {from} {to}: {told:#?}");
            }
            // Without the table that remembers them they would go on, so it is put back at once.
            if nodes == Nodes::Two && world.forget_answers() {
                both_silent(&refs(&cut));
            }
            // Nothing of it is left when policy allows it again.
            world.apply(&before);
            alive(&refs(&cut), Side::Client);
        });
    }
}

/// An agent that comes after another knows of what was cut only what the kernel has.
#[test]
fn datagrams_of_both_ends_stay_cut_when_agents_come_and_go() {
    if !is_root() {
        return;
    }
    let after = [client(), called_by("server", &["other"])];
    let mut world = World::up(Nodes::Two, PodNetwork::Routed, Established::Cut, &[client(), called_by("server", &["client", "other"])]);
    let cut = [world.talk("client", Protocol::Udp, By::Pod)];
    while_both_send(&cut, Duration::from_micros(200), || {
        world.apply(&after);
        both_silent(&refs(&cut));
        for turn in 0..5 {
            for node in ["n1", "n2"] {
                world.lab.restart_agent(node).unwrap();
            }
            world.apply(&after);
            assert!(!cut[0].is_heard_by_any(), "restart {turn}");
            both_silent(&refs(&cut));
        }
    });
}

#[test]
fn cuts_are_told_with_pods_and_rule() {
    if is_root() {
        let mut world = World::up(Nodes::One, PodNetwork::Routed, Established::Cut, &[client(), called_by("server", &["client"])]);
        let _talks = [By::Pod, By::Service, By::Pod].map(|by| world.talk("client", Protocol::Tcp, by));
        world.apply(&[client(), called_by("server", &["other"])]);
        let [(node, cuts)] = &world.cuts()[..] else { panic!("not one event") };
        assert_eq!((&**node, cuts.connections, cuts.others()), ("n1", 3, 0));
        for cut in &cuts.told {
            let names = [&cut.source.name, &cut.destination.name];
            assert_eq!(names, [&Name::Pod(name("client")), &Name::Pod(name("server"))]);
            assert_eq!((cut.protocol, cut.connections), (6, 1));
            let CutBy::Denied(by) = &cut.by else { panic!("{cut:?}") };
            assert!(format!("{by:?}").contains("to-server"), "{by:?}");
        }
        let mut ports: Vec<Option<u16>> = cuts.told.iter().map(|it| it.port).collect();
        ports.sort_unstable();
        assert_eq!(ports, [Some(7000), Some(7001), Some(7002)]);
        let _talk = world.talk("other", Protocol::Tcp, By::Pod);
        world.apply(&[client()]);
        assert_eq!(world.cuts(), Vec::new());
    }
}

/// What a node tracks of a first packet that the other node has denied is no connection.
#[test]
fn a_call_that_nobody_answered_is_not_told_as_cut() {
    if !is_root() {
        return;
    }
    let mut world = World::up(Nodes::Two, PodNetwork::Routed, Established::Cut, &[client(), called_by("server", &["other"])]);
    let called = (SERVER.parse::<IpAddr>().unwrap(), 9000).into();
    let refused = world.namespace("client").run(|| TcpStream::connect_timeout(&called, Duration::from_millis(300))).unwrap();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(world.tracked(CLIENT).len(), 1);
    world.apply(&[client(), called_by("server", &["other", "third"])]);
    assert_eq!((world.tracked(CLIENT).len(), world.cuts()), (0, Vec::new()));
}

/// Whoever removed the table has let in what policy denies.
#[test]
fn what_came_in_while_the_table_was_gone_ends_when_it_is_back() {
    if !is_root() {
        return;
    }
    let mut world = World::up(Nodes::One, PodNetwork::Routed, Established::Cut, &[client(), called_by("server", &["other"])]);
    let lives = world.talks("other");
    let listener = world.namespace("server").run(|| UdpSocket::bind((SERVER, 9000)).unwrap()).unwrap();
    listener.set_nonblocking(true).unwrap();
    let socket = world.namespace("client").run(|| UdpSocket::bind((CLIENT, 0)).unwrap()).unwrap();
    let node = world.lab.namespace(&Speaker::Node("n1".into())).unwrap();
    let nft = |arguments: &[&str]| std::process::Command::new("nft").args(arguments).output();
    if nft(&["--version"]).is_err() {
        say("skipped: nft is not installed");
        return;
    }
    // The agent restores the table within milliseconds, so the test removes it until a datagram has passed.
    let slipped = (0..200).any(|_| {
        node.run(|| nft(&["delete", "table", "inet", "palisade"])).unwrap().unwrap();
        socket.send_to(b"word", (SERVER, 9000)).unwrap();
        listener.recv(&mut [0; 64]).is_ok()
    });
    if !slipped {
        say("skipped: the agent restored the table 200 times before a datagram could pass");
        return;
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    while !world.tracked(CLIENT).is_empty() {
        assert!(Instant::now() < deadline, "{:#?}", world.tracked(CLIENT));
        std::thread::sleep(Duration::from_millis(5));
    }
    alive(&refs(&lives), Side::Server);
}
