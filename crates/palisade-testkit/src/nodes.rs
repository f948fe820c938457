//! Sends a connection through the rulesets of the nodes on its way, by interpreting them.
//!
//! Pods that no node is known for are spread over two nodes of their own, so that each scenario crosses a fabric.

use palisade_model::{Family, Flow, Model, Node, NodeId, Path, Place};
use palisade_nft::{CtState, Hook, Ids, NodeView, Packet, Ruleset, Traced, lower, trace};

/// The nodes of a cluster with their rulesets.
#[derive(Debug)]
pub struct Nodes {
    model: Model,
    rulesets: Vec<Ruleset>,
}

/// What became of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    pub accepted: bool,
    /// Comments of the rules that counted it, over all nodes.
    pub comments: Vec<String>,
}

impl Nodes {
    /// Lowers a model for each of its nodes.
    pub fn of(model: &Model) -> Nodes {
        let mut model = model.clone();
        let first = model.nodes.len();
        for name in ["fabric-1", "fabric-2"] {
            let labels = palisade_model::Labels::default();
            model.nodes.push(Node { name: name.into(), labels, addresses: Vec::new(), host_pods: Vec::new(), assumed: true });
        }
        for (at, endpoint) in model.endpoints.iter_mut().enumerate() {
            endpoint.node = endpoint.node.or(Some(NodeId(first + at % 2)));
        }
        // One `Ids` for all: a cluster would have one for each node, and numbers mean nothing across nodes.
        let mut ids = Ids::default();
        let rulesets = (0..model.nodes.len()).map(|at| lower(&model, NodeView { node: NodeId(at) }, &mut ids)).collect();
        Nodes { model, rulesets }
    }

    /// The rulesets, in the order of the model's nodes; the last two are those of the fabric.
    pub fn rulesets(&self) -> &[Ruleset] {
        &self.rulesets
    }

    /// Sends one connection on its way. None where an address is missing or no packet crosses a node.
    pub fn pass(&self, flow: &Flow) -> Result<Option<Passed>, String> {
        let (Some(source), Some(destination)) = (flow.from.address, flow.to.address) else { return Ok(None) };
        // A pod's own address never leaves its network namespace; addresses of two families never meet.
        let direct_self = flow.from.place == flow.to.place && flow.path == Path::Direct;
        if direct_self || source.is_ipv4() != destination.is_ipv4() {
            return Ok(None);
        }
        let packet = |hook| Packet {
            hook,
            source,
            destination,
            protocol: flow.protocol.number(Family::of(source)),
            port: flow.port,
            state: CtState::New,
            // As a sender might set it: no class may be chosen by it.
            priority: 3,
            source_is_local: false,
        };
        let mut passed = Passed { accepted: true, comments: Vec::new() };
        for (node, hook) in self.way(flow) {
            let ruleset = self.rulesets.get(node.0).ok_or("a node without a ruleset")?;
            let Traced { accepted, comments, priority, .. } = trace(ruleset, &packet(hook))?;
            passed.comments.extend(comments);
            if accepted && priority != 0 {
                return Err(format!("the number {priority} is left in the packet"));
            }
            if !accepted {
                passed.accepted = false;
                break;
            }
        }
        Ok(Some(passed))
    }

    /// The hooks a connection meets, in order.
    fn way(&self, flow: &Flow) -> Vec<(NodeId, Hook)> {
        let at = |place| match place {
            Place::Pod(id) => self.model.endpoint(id).and_then(|it| it.node),
            Place::Node(id) => Some(id),
            Place::Outside => None,
        };
        let (from, to) = (at(flow.from.place), at(flow.to.place));
        let mut way = Vec::new();
        match (flow.from.place, from) {
            (Place::Pod(_), Some(node)) if flow.to.place == Place::Node(node) => return vec![(node, Hook::Input)],
            (Place::Pod(_), Some(node)) => way.push((node, Hook::Forward)),
            // A node that calls its own pod uses the output hook, where there is no policy.
            (Place::Node(node), _) if to == Some(node) => return way,
            (Place::Pod(_) | Place::Node(_) | Place::Outside, _) => {}
        }
        match (flow.to.place, to) {
            (Place::Pod(_), Some(node)) if from != Some(node) => way.push((node, Hook::Forward)),
            (Place::Node(_), Some(node)) if from != Some(node) => way.push((node, Hook::Input)),
            (Place::Pod(_) | Place::Node(_) | Place::Outside, _) => {}
        }
        way
    }
}
