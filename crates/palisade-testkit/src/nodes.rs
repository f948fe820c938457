//! Sends a connection through the rulesets on its way, by interpreting them: those of nodes, and on networks that nodes do not see those of pods.
//!
//! Pods that no node is known for are spread over two nodes of their own, so that each scenario crosses a fabric.

use std::collections::BTreeMap;

use palisade_engine::compile_network;
use palisade_model::{Direction, EndpointId, Enforcement, Family, Flow, Model, NetworkId, Node, NodeId, Path, Place, PodName};
use palisade_nft::{
    At, Audit, CtState, Ids, LinkName, NodeView, Origin, Packet, PodLinks, Ruleset, Space, Traced, Unknown, Would, audit, lower,
    lower_pods, trace,
};

/// The nodes of a cluster with their rulesets.
#[derive(Debug)]
pub struct Nodes {
    model: Model,
    rulesets: Vec<Ruleset>,
    /// Rulesets in the namespaces of pods, on a network that is enforced there.
    pods: BTreeMap<EndpointId, Ruleset>,
    enforcement: Enforcement,
    /// What audited policies would do, if there are any.
    audits: Vec<Option<Audit>>,
}

/// What became of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    pub accepted: bool,
    /// Comments of the rules that counted it, over all nodes.
    pub comments: Vec<String>,
    /// What the rule that dropped it says it comes from.
    pub dropped_by: Option<Origin>,
}

impl Nodes {
    /// Lowers the pod network of a model for each of its nodes.
    pub fn of(model: &Model) -> Nodes {
        Nodes::of_network(model, NetworkId::DEFAULT)
    }

    /// Lowers a network of a model.
    pub fn of_network(model: &Model, network: NetworkId) -> Nodes {
        let mut model = model.on_network(network).into_owned();
        let first = model.nodes.len();
        for name in ["fabric-1", "fabric-2"] {
            let labels = palisade_model::Labels::default();
            model.nodes.push(Node { name: name.into(), labels, addresses: Vec::new(), host_pods: Vec::new(), assumed: true });
        }
        let ids: Vec<EndpointId> = model.endpoints.ids().collect();
        for (at, id) in ids.into_iter().enumerate() {
            model.endpoints.get_mut(id).into_iter().for_each(|it| it.node = it.node.or(Some(NodeId(first + at % 2))));
        }
        // One `Ids` for all: a cluster would have one for each node, and numbers mean nothing across nodes.
        let (mut ids, compiled) = (Ids::default(), compile_network(&model, network));
        let views = (0..model.nodes.len()).map(|at| view(&model, NodeId(at)));
        let rulesets = views.map(|view| lower(&model, &compiled, &view, &mut ids)).collect();
        let spaces = (0..model.nodes.len()).flat_map(|at| lower_pods(&model, &compiled, NodeId(at), &mut ids).tables);
        let named: BTreeMap<PodName, EndpointId> = model.endpoints.iter_ids().map(|(id, it)| (it.name.clone(), id)).collect();
        let pods = spaces.filter_map(|(id, ruleset)| match id.space {
            Space::Host => None,
            Space::Pod { pod, .. } => Some((*named.get(&pod)?, ruleset)),
        });
        let pods = pods.collect();
        let enforcement = model.network(network).map_or(Enforcement::HostHooks, |it| it.enforcement.clone());
        let mut ids = Ids::default();
        let audits = (0..model.nodes.len()).map(|at| audit(&model, NodeId(at), &mut ids)).collect();
        Nodes { model, rulesets, pods, enforcement, audits }
    }

    /// The rulesets, in the order of the model's nodes; the last two are those of the fabric.
    pub fn rulesets(&self) -> &[Ruleset] {
        &self.rulesets
    }

    /// The rulesets in the namespaces of pods, by endpoint.
    pub fn pods(&self) -> &BTreeMap<EndpointId, Ruleset> {
        &self.pods
    }

    /// The audits, in the same order.
    pub fn audits(&self) -> &[Option<Audit>] {
        &self.audits
    }

    /// What the audits say of one connection, as if nothing were denied on its way; each as often as it is logged. None as for `pass`.
    pub fn would(&self, flow: &Flow) -> Result<Option<Vec<&Would>>, String> {
        let Some(packet) = first_packet(flow) else { return Ok(None) };
        let mut told = Vec::new();
        for (node, at) in self.way(flow) {
            let Some(Some(audit)) = self.audits.get(node.0) else { continue };
            if let At::Ingress { .. } = at {
                continue;
            }
            let Traced { accepted, origins, priority, .. } = trace(&audit.ruleset, &self.as_seen(&packet, flow, node, at))?;
            if !accepted || priority != 0 {
                return Err(format!("the audit says accepted: {accepted} and leaves {priority} in the packet"));
            }
            for number in origins {
                told.push(audit.woulds.get(&number).ok_or_else(|| format!("{number:08x} stands for nothing"))?);
            }
        }
        Ok(Some(told))
    }

    /// A packet at a hook of a node. A link is seen by the node that has it.
    fn as_seen(&self, packet: &Packet, flow: &Flow, node: NodeId, at: At) -> Packet {
        let link = |end| link_at(end).filter(|_| self.node_of(end) == Some(node));
        Packet { at, from_link: link(flow.from.place), to_link: link(flow.to.place), ..packet.clone() }
    }

    /// Sends one connection on its way. None where an address is missing or no packet crosses a node.
    pub fn pass(&self, flow: &Flow) -> Result<Option<Passed>, String> {
        let Some(packet) = first_packet(flow) else { return Ok(None) };
        if self.enforcement == Enforcement::PodNamespace {
            return self.pass_pods(flow, &packet);
        }
        let mut passed = Passed { accepted: true, comments: Vec::new(), dropped_by: None };
        for (node, at) in self.way(flow) {
            let ruleset = self.rulesets.get(node.0).ok_or("a node without a ruleset")?;
            let Traced { accepted, comments, priority, origins } = trace(ruleset, &self.as_seen(&packet, flow, node, at.clone()))?;
            passed.comments.extend(comments);
            // Policy reads the number, so whatever it was before policy does not matter.
            let after_policy = match at {
                At::Frame { .. } | At::Ingress { .. } => false,
                At::Forward | At::Input | At::Output => true,
            };
            if accepted && after_policy && priority != 0 {
                return Err(format!("the number {priority} is left in the packet"));
            }
            if !accepted {
                passed.accepted = false;
                passed.dropped_by = origins.last().and_then(|it| ruleset.origins.get(it)).cloned();
                break;
            }
        }
        Ok(Some(passed))
    }

    /// The rulesets of pods in order. In the hook `forward` each must do the same as in the hook for the pod's own processes.
    fn pass_pods(&self, flow: &Flow, packet: &Packet) -> Result<Option<Passed>, String> {
        let mut passed = Passed { accepted: true, comments: Vec::new(), dropped_by: None };
        for (place, direction) in [(flow.from.place, Direction::Egress), (flow.to.place, Direction::Ingress)] {
            let Place::Pod(id) = place else { continue };
            let interface = self.model.endpoint(id).and_then(|it| it.interfaces().last()).map(ToString::to_string);
            let Some((ruleset, interface)) = self.pods.get(&id).zip(interface) else { return Ok(None) };
            let (at, from_link, to_link) = match direction {
                Direction::Egress => (At::Output, None, Some(interface)),
                Direction::Ingress => (At::Input, Some(interface), None),
            };
            let seen = |at| Packet { at, from_link: from_link.clone(), to_link: to_link.clone(), ..packet.clone() };
            let [own, forwarded] = [trace(ruleset, &seen(at))?, trace(ruleset, &seen(At::Forward))?];
            if (own.accepted, &own.origins) != (forwarded.accepted, &forwarded.origins) {
                return Err(format!("{own:?}, but {forwarded:?} if it is forwarded"));
            }
            if own.accepted && own.priority != 0 {
                return Err(format!("the number {} is left in the packet", own.priority));
            }
            passed.comments.extend(own.comments);
            if !own.accepted {
                passed.accepted = false;
                passed.dropped_by = own.origins.last().and_then(|it| ruleset.origins.get(it)).cloned();
                break;
            }
        }
        Ok(Some(passed))
    }

    fn node_of(&self, place: Place) -> Option<NodeId> {
        match place {
            Place::Pod(id) => self.model.endpoint(id).and_then(|it| it.node),
            Place::Node(id) => Some(id),
            Place::Outside => None,
        }
    }

    /// The hooks a connection meets, in order.
    fn way(&self, flow: &Flow) -> Vec<(NodeId, At)> {
        let (from, to) = (self.node_of(flow.from.place), self.node_of(flow.to.place));
        let mut way = Vec::new();
        match (flow.from.place, from) {
            (Place::Pod(pod), Some(node)) => {
                way.push((node, At::Ingress { link: link(pod) }));
                if flow.to.place == Place::Node(node) {
                    way.push((node, At::Input));
                    return way;
                }
                way.push((node, At::Forward));
            }
            // A node that calls its own pod uses the output hook, where there is no policy.
            (Place::Node(node), _) if to == Some(node) => return way,
            (Place::Pod(_) | Place::Node(_) | Place::Outside, _) => {}
        }
        match (flow.to.place, to) {
            (Place::Pod(_), Some(node)) if from != Some(node) => way.push((node, At::Forward)),
            (Place::Node(_), Some(node)) if from != Some(node) => way.push((node, At::Input)),
            (Place::Pod(_) | Place::Node(_) | Place::Outside, _) => {}
        }
        way
    }
}

/// What a connection begins with, at whatever hook.
fn first_packet(flow: &Flow) -> Option<Packet> {
    let (source, destination) = flow.from.address.zip(flow.to.address)?;
    // A pod's own address never leaves its network namespace; addresses of two families never meet.
    let direct_self = flow.from.place == flow.to.place && flow.path == Path::Direct;
    if direct_self || source.is_ipv4() != destination.is_ipv4() {
        return None;
    }
    Some(Packet {
        at: At::Forward,
        from_link: None,
        to_link: None,
        source,
        destination,
        protocol: flow.protocol.number(Family::of(source)),
        port: flow.port,
        source_port: None,
        state: CtState::New,
        // As a sender might set it: no class may be chosen by it.
        priority: 3,
        source_is_local: false,
    })
}

/// The node's end of the link to a pod.
fn link(pod: EndpointId) -> String {
    format!("pod{}", pod.0)
}

fn link_at(place: Place) -> Option<String> {
    match place {
        Place::Pod(id) => Some(link(id)),
        Place::Node(_) | Place::Outside => None,
    }
}

/// A node that knows all its pods, and is closed to others.
fn view(model: &Model, node: NodeId) -> NodeView {
    let pods = PodLinks { names: [LinkName::Beginning("pod".to_owned())].into(), ..PodLinks::default() };
    NodeView { node, links: links(model, node), unknown: Unknown::Closed(pods) }
}

fn links(model: &Model, node: NodeId) -> BTreeMap<EndpointId, String> {
    let here = model.endpoints.iter_ids().filter(|(_, it)| it.node == Some(node));
    here.map(|(id, _)| (id, link(id))).collect()
}

#[cfg(test)]
mod tests {

    use std::net::IpAddr;

    use palisade_engine::compile;
    use palisade_nft::{Change, Guard, MapKind};

    use super::*;
    use crate::check::snapshot;

    /// Two pods that claim one address, and one that has none yet.
    const PODS: &str = r#"
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: a}, spec: {nodeName: node-1}, status: {podIPs: [{ip: 10.0.0.1}, {ip: "fd00::1"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: b}, spec: {nodeName: node-1}, status: {podIPs: [{ip: 10.0.0.1}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: c}, spec: {nodeName: node-1}}
"#;

    fn check(ruleset: &Ruleset, link: &str, source: &str) -> (bool, Vec<Origin>) {
        let source: IpAddr = source.parse().unwrap();
        let destination = if source.is_ipv4() { "192.0.2.1" } else { "2001:db8::1" };
        let packet = Packet {
            at: At::Ingress { link: link.to_owned() },
            source,
            destination: destination.parse().unwrap(),
            protocol: 17,
            port: Some(53),
            source_port: None,
            state: CtState::New,
            priority: 0,
            source_is_local: false,
            from_link: None,
            to_link: None,
        };
        let traced = trace(ruleset, &packet).unwrap();
        (traced.accepted, traced.origins.iter().map(|it| ruleset.origins[it].clone()).collect())
    }

    #[test]
    fn only_a_pods_own_addresses_come_in_by_its_link() {
        let model = snapshot("cluster.yaml", PODS).model;
        assert_eq!(model.endpoints.len(), 3, "{model:?}");
        let owner = match model.place_of(NetworkId::DEFAULT, "10.0.0.1".parse().unwrap()) {
            Place::Pod(id) => id,
            place @ (Place::Node(_) | Place::Outside) => panic!("{place:?}"),
        };
        let ruleset = lower(&model, &compile(&model), &view(&model, NodeId(0)), &mut Ids::default());
        let (accepted, forged) = ((true, vec![]), (false, vec![Origin::Guard(Guard::ForgedSource)]));
        for id in (0..3).map(EndpointId) {
            let expected = if id == owner { &accepted } else { &forged };
            assert_eq!(&check(&ruleset, &link(id), "10.0.0.1"), expected, "{id:?}");
            let expected = if id == EndpointId(0) { &accepted } else { &forged };
            assert_eq!(&check(&ruleset, &link(id), "fd00::1"), expected, "{id:?}");
            for stranger in ["10.0.0.2", "0.0.0.0", "192.0.2.7", "fd00::2", "fe80::1", "::", "::ffff:10.0.0.1"] {
                assert_eq!(check(&ruleset, &link(id), stranger), forged, "{id:?} {stranger}");
            }
        }
        assert_eq!(check(&ruleset, "eth0", "192.0.2.7"), accepted);
    }

    #[test]
    fn no_source_is_bound_where_no_link_is_known() {
        let model = snapshot("cluster.yaml", PODS).model;
        let view = NodeView { node: NodeId(0), links: BTreeMap::new(), unknown: Unknown::Open };
        let ruleset = lower(&model, &compile(&model), &view, &mut Ids::default());
        assert!(ruleset.sets.is_empty() && !ruleset.chains.contains_key("sources"));
        assert_eq!(check(&ruleset, "pod0", "192.0.2.7"), (true, vec![]));
    }

    /// Replicas on one node that may talk to each other and, through a Service, each to itself.
    fn replicas(names: &[&str]) -> Model {
        let policy = "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: x, name: own}, spec: {podSelector: {}, \
                      policyTypes: [Ingress, Egress], ingress: [{from: [{podSelector: {}}]}], egress: [{to: [{podSelector: {}}]}]}}\n";
        let pod = |(at, name): (usize, &&str)| {
            format!(
                "---\n{{apiVersion: v1, kind: Pod, metadata: {{namespace: x, name: {name}}}, spec: {{nodeName: node-1}}, \
                 status: {{podIPs: [{{ip: 10.0.0.{at}}}, {{ip: 'fd00::{at}'}}]}}}}\n"
            )
        };
        let pods: String = names.iter().enumerate().map(pod).collect();
        snapshot("cluster.yaml", &format!("{policy}{pods}")).model
    }

    /// Any other change makes the kernel check the whole table again.
    #[test]
    fn one_more_replica_on_the_node_is_data_and_a_device() {
        let (few, more) = (replicas(&["a", "b"]), replicas(&["a", "b", "c"]));
        for bound in [true, false] {
            let open = || NodeView { node: NodeId(0), links: BTreeMap::new(), unknown: Unknown::Open };
            let view = |model| if bound { view(model, NodeId(0)) } else { open() };
            let mut ids = Ids::default();
            let [old, new] = [&few, &more].map(|it| lower(it, &compile(it), &view(it), &mut ids));
            let mut touched = Vec::new();
            for change in new.changes_since(&old).changes {
                if let Change::AddElements { map, elements } = change {
                    assert!(matches!(elements.kind(), MapKind::Data(_) | MapKind::Sources(_) | MapKind::Pairs(_)), "{map}");
                    assert_eq!(elements.len(), 1, "{map}");
                    touched.push(map);
                } else {
                    let device = Change::AddDevices { chain: "sources".to_owned(), devices: ["pod2".to_owned()].into() };
                    assert_eq!((bound, change), (true, device));
                }
            }
            let maps = ["class", "egress", "ingress", "known", "self", "sources"];
            let maps = maps.into_iter().filter(|it| bound || !["known", "sources"].contains(it));
            let expected: Vec<String> = maps.flat_map(|it| [format!("{it}4"), format!("{it}6")]).collect();
            touched.sort();
            assert_eq!(touched, expected);
        }
    }
}
