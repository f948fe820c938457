//! A node with three pods, one of them on a bridge, and somebody else on another node.

use std::collections::BTreeMap;
use std::process::Command;

use palisade_agent::{Held, repair, verification};
use palisade_engine::compile;
use palisade_kernel::{Links, set_sysctl};
use palisade_model::{EndpointId, Model, NodeId};
use palisade_nft::{Ids, LinkName, NodeView, PodLinks, Ruleset, Unknown, lower};
use palisade_report::v1;
use palisade_testkit::check::snapshot;

use crate::ground::Ground;

const CLUSTER: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: x}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: x, name: web}
spec:
  podSelector: {matchLabels: {app: a}}
  policyTypes: [Ingress, Egress]
  ingress:
  - from: [{podSelector: {matchLabels: {app: b}}}]
    ports: [{port: 80}, {port: 9000, endPort: 9100}]
  - from: [{ipBlock: {cidr: 10.9.0.0/16, except: [10.9.7.0/24]}}, {ipBlock: {cidr: 'fd09::/16'}}]
    ports: [{port: 443}]
  egress:
  - to: [{podSelector: {matchLabels: {app: d}}}]
    ports: [{port: 5432}, {port: 53, protocol: UDP}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: x, name: quiet}
spec:
  podSelector: {matchLabels: {app: c}}
  policyTypes: [Ingress]
  ingress: [{from: [{podSelector: {matchLabels: {app: a}}}]}]
";

pub(super) struct Node {
    pub(super) ground: Ground,
    pub(super) model: Model,
    pub(super) id: NodeId,
    pub(super) links: BTreeMap<EndpointId, String>,
    pub(super) wanted: Ruleset,
    /// A program for a link, as a file.
    pub(super) program: tempfile::TempDir,
}

impl Node {
    /// None, and a word about it, without root or without nft.
    pub(super) fn create() -> Option<Node> {
        let ground = Ground::create()?;
        let mut links = ground.node.run(|| Links::open().unwrap()).unwrap();
        for (link, peer) in [("pod2", "eth1"), ("pod3", "eth2")] {
            links.add_veth(link, peer, &ground.pod).unwrap();
            links.set_up(link).unwrap();
        }
        links.add_bridge("br0").unwrap();
        links.attach("pod3", "br0").unwrap();
        links.set_up("br0").unwrap();
        ground
            .node
            .run(|| {
                for name in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
                    set_sysctl(name, "1").unwrap();
                }
                for name in ["net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables"] {
                    set_sysctl(name, "1").unwrap();
                }
            })
            .unwrap();
        let pod = |name: &str, node: &str, last: u8| {
            format!(
                "---\napiVersion: v1\nkind: Pod\nmetadata: {{namespace: x, name: {name}, labels: {{app: {name}}}}}\n\
                 spec: {{nodeName: {node}, containers: [{{name: m, image: i}}]}}\nstatus: {{podIPs: [{{ip: 10.0.0.{last}}}, {{ip: 'fd00::{last}'}}]}}\n"
            )
        };
        let pods = [pod("a", "node-1", 1), pod("b", "node-1", 2), pod("c", "node-1", 3), pod("d", "node-2", 4)].concat();
        let model = snapshot("cluster.yaml", &format!("{CLUSTER}{pods}")).model;
        let id = NodeId(model.nodes.iter().position(|it| &*it.name == "node-1").unwrap());
        let links: BTreeMap<EndpointId, String> =
            [(0, "pod1"), (1, "pod2"), (2, "pod3")].map(|(at, it)| (EndpointId(at), it.to_owned())).into();
        let view = NodeView { node: id, links: links.clone(), unknown: unknown() };
        let wanted = lower(&model, &compile(&model), &view, &mut Ids::default());
        let program = tempfile::tempdir().unwrap();
        std::fs::write(program.path().join("pass.o"), passes()).unwrap();
        let node = Node { ground, model, id, links, wanted, program };
        // The bridge knows who is at its port by their hardware address.
        let ways = "ip route add 10.0.0.1/32 dev pod1; ip route add 10.0.0.2/32 dev pod2; ip route add 10.0.0.3/32 dev br0
            ip -6 route add fd00::1/128 dev pod1; ip -6 route add fd00::2/128 dev pod2
            ip neigh add 10.0.0.3 lladdr 02:00:00:00:00:03 dev br0; bridge fdb add 02:00:00:00:00:03 dev pod3 master static";
        node.shell(ways).unwrap();
        node.repair();
        Some(node)
    }

    pub(super) fn held(&self) -> Held {
        self.ground.node.run(|| Held::read().unwrap()).unwrap()
    }

    pub(super) fn view(&self) -> NodeView {
        NodeView { node: self.id, links: self.links.clone(), unknown: unknown() }
    }

    pub(super) fn verification(&self, held: &Held) -> v1::Verification {
        verification(&self.model, &self.view(), held).unwrap()
    }

    /// Puts back what is wrong with our tables.
    pub(super) fn repair(&self) {
        self.ground.node.run(|| repair(&self.model, &self.view()).unwrap()).unwrap();
    }

    /// Runs a line on the node.
    pub(super) fn shell(&self, line: &str) -> Result<(), String> {
        let output = self.ground.node.run(|| Command::new("sh").args(["-ec", line]).output().unwrap()).unwrap();
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }
}

/// Links of pods are known by how their names begin.
pub(super) fn unknown() -> Unknown {
    Unknown::Closed(PodLinks { names: [LinkName::Beginning("pod".to_owned())].into(), ..PodLinks::default() })
}

/// An object file with a program for XDP that lets everything pass: `r0 = 2; exit`.
fn passes() -> Vec<u8> {
    const CODE: [u8; 16] = [0xb7, 0, 0, 0, 2, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];
    const NAMES: &[u8] = b"\0.strtab\0xdp\0license\0.symtab\0pass\0";
    let name = |it: &str| u32::try_from(NAMES.windows(it.len()).position(|at| at == it.as_bytes()).unwrap()).unwrap();
    let license = *b"GPL\0\0\0\0\0";
    let mut symbols = vec![0; 24];
    symbols.extend(name("pass").to_le_bytes());
    // A global function, in section 2.
    symbols.extend([0x12, 0, 2, 0]);
    symbols.extend(0_u64.to_le_bytes());
    symbols.extend(16_u64.to_le_bytes());
    let places = [64, 80, 88, 136_u64];
    let headers = (places[3] + u64::try_from(NAMES.len()).unwrap()).next_multiple_of(8);
    let section = |name: u32, kind: u32, flags: u64, at: u64, size: usize, (link, info): (u32, u32), entry: u64| {
        let words = [name.to_le_bytes(), kind.to_le_bytes()].concat();
        let numbers = [flags, 0, at, u64::try_from(size).unwrap()].map(u64::to_le_bytes).concat();
        let align = if entry == 0 { 1_u64 } else { 8 };
        [
            words,
            numbers,
            link.to_le_bytes().to_vec(),
            info.to_le_bytes().to_vec(),
            align.to_le_bytes().to_vec(),
            entry.to_le_bytes().to_vec(),
        ]
        .concat()
    };
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\xf7\0\x01\0\0\0".to_vec();
    file.extend([0, 0, headers].map(u64::to_le_bytes).concat());
    file.extend([0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 64, 0, 5, 0, 1, 0]);
    file.extend(CODE);
    file.extend(license);
    file.extend(symbols);
    file.extend(NAMES);
    file.resize(usize::try_from(headers).unwrap(), 0);
    file.extend(section(0, 0, 0, 0, 0, (0, 0), 0));
    file.extend(section(name(".strtab"), 3, 0, places[3], NAMES.len(), (0, 0), 0));
    file.extend(section(name("xdp"), 1, 6, places[0], CODE.len(), (0, 0), 0));
    file.extend(section(name("license"), 1, 3, places[1], 4, (0, 0), 0));
    file.extend(section(name(".symtab"), 2, 0, places[2], 48, (1, 1), 24));
    file
}
