//! What the tests stand on: a node with one pod, an agent, and somebody else who has nft.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use palisade_agent::{Applied, Attention, Event, Running, StartError};
use palisade_kernel::{KernelError, Links, LogOptions, Namespace};
use palisade_model::{Endpoint, EndpointId, Model, NodeId, PodName};
use palisade_testkit::check::snapshot;

/// Longer than anything that works takes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
/// The pod, and the node as the pod knows it.
pub(crate) const POD: &str = "10.0.0.1";
pub(crate) const NODE: &str = "10.0.0.254";
pub(crate) const LINK: &str = "pod1";

/// A node with a link to its pod.
pub(crate) struct Ground {
    pub(crate) node: Namespace,
    pub(crate) pod: Namespace,
}

impl Ground {
    /// None, and a word about it, without root or without nft.
    pub(crate) fn create() -> Option<Ground> {
        let node = match Namespace::create() {
            Ok(node) => node,
            Err(KernelError::NoPermission) => {
                say("skipped: needs root");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let pod = Namespace::create().unwrap();
        let mut links = node.run(|| Links::open().unwrap()).unwrap();
        let mut inside = pod.run(|| Links::open().unwrap()).unwrap();
        links.add_veth(LINK, "eth0", &pod).unwrap();
        for (links, link, address) in [(&mut links, LINK, NODE), (&mut inside, "eth0", POD)] {
            links.set_up("lo").unwrap();
            links.add_address(link, format!("{address}/24").parse().unwrap()).unwrap();
            links.set_up(link).unwrap();
        }
        let ground = Ground { node, pod };
        if Command::new("nft").arg("--version").stdout(Stdio::null()).status().is_err() {
            say("skipped: nft is not installed");
            return None;
        }
        Some(ground)
    }

    /// An agent, and what it says.
    pub(crate) fn start(&self) -> Result<(Running, Receiver<Event>), StartError> {
        self.start_with(LogOptions::default())
    }

    pub(crate) fn start_with(&self, options: LogOptions) -> Result<(Running, Receiver<Event>), StartError> {
        let (sender, events) = channel();
        let report = move |event| drop(sender.send(event));
        Ok((Running::start_with(&self.node, Attention::Packets, options, report)?, events))
    }

    /// What nft prints on the node; it has to go well.
    pub(crate) fn nft(&self, input: &str) -> String {
        let output = self.try_nft(input);
        output.unwrap_or_else(|error| panic!("{input}: {error}"))
    }

    pub(crate) fn try_nft(&self, input: &str) -> Result<String, String> {
        // Some versions want every closing brace on a line of its own.
        let input = input.replace(" }", "\n}");
        let output = self.node.run(|| {
            let mut child = Command::new("nft")
                .args(["-s", "-f", "-"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
            child.wait_with_output().unwrap()
        });
        let output = output.unwrap();
        if output.status.success() { Ok(String::from_utf8(output.stdout).unwrap()) } else { Err(String::from_utf8(output.stderr).unwrap()) }
    }

    /// The table, as nft shows it.
    pub(crate) fn table(&self) -> String {
        self.nft("list table inet palisade")
    }
}

/// The pod may do what it wants.
pub(crate) fn apply_nothing(agent: &Running) -> Applied {
    let mut open = model(&[]);
    open.policies.clear();
    agent.apply(&Arc::new(open), NodeId(0), links()).unwrap()
}

pub(crate) fn links() -> BTreeMap<EndpointId, String> {
    BTreeMap::from([(EndpointId(0), LINK.to_owned())])
}

/// The pod may call nobody but at some ports; with none, not at all.
pub(crate) fn model(ports: &[u16]) -> Model {
    model_of("TCP", ports)
}

/// The same for ports of a protocol.
pub(crate) fn model_of(protocol: &str, ports: &[u16]) -> Model {
    let ports: Vec<String> = ports.iter().map(|it| format!("{{port: {it}, protocol: {protocol}}}")).collect();
    model_with(&if ports.is_empty() { String::new() } else { format!("{{ports: [{}]}}", ports.join(", ")) })
}

/// The pod may call nobody but by these rules of egress.
pub(crate) fn model_with(rules: &str) -> Model {
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{namespace: x, name: a}}\n\
         spec: {{nodeName: node-1, containers: [{{name: m, image: i}}]}}\nstatus: {{podIPs: [{{ip: {POD}}}]}}\n"
    );
    let policy = format!(
        "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{namespace: x, name: p}}\n\
         spec: {{podSelector: {{}}, policyTypes: [Ingress, Egress], egress: [{rules}]}}\n"
    );
    let model = snapshot("cluster.yaml", &(pod + &policy)).model;
    assert_eq!((model.endpoints.len(), model.nodes.len()), (1, 1));
    model
}

/// So many pods of other nodes besides, like the one that is there.
pub(crate) fn with_others(mut model: Model, others: u32) -> Model {
    let pod = model.endpoints.first().unwrap().clone();
    model.endpoints.extend((0..others).map(|at| Endpoint {
        name: PodName { namespace: "x".into(), name: format!("far-{at}").into() },
        addresses: vec![std::net::Ipv4Addr::from_bits(0x0a64_0000 + at).into()],
        node: None,
        ..pod.clone()
    }));
    model
}

pub(crate) fn apply(agent: &Running, ports: &[u16]) -> Applied {
    agent.apply(&Arc::new(model(ports)), NodeId(0), links()).unwrap()
}

/// The next event that something is made of. Others are passed over, but a failure is one.
pub(crate) fn wait_for<T>(events: &Receiver<Event>, mut find: impl FnMut(&Event) -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let event = events.recv_timeout(left).unwrap_or_else(|error| panic!("no such event: {error}"));
        if let Some(found) = find(&event) {
            return found;
        }
        assert!(!matches!(event, Event::Failed(_)), "{event:?}");
    }
}

#[expect(clippy::print_stderr, reason = "a test that did nothing says so")]
pub(crate) fn say(what: &str) {
    eprintln!("{what}");
}
