//! A block that is the address of a node.

use palisade_model::{Direction, Severity, Tier};

use crate::context::{Context, Owner};
use crate::finding::Finding;
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "node-ip-in-ip-block",
    severity: Severity::Note,
    summary: "A block of one address is the address of a node.",
    why: "The address stands for everything on the node's network: the kubelet, every host-network pod, and whatever the node forwards with its own address, such as \
          traffic of NodePort Services. A new node has another address. What the node sends to its own pods is let in by any NetworkPolicy anyway.",
    fix: "For egress, a ClusterNetworkPolicy selects nodes by labels (`nodes`). Otherwise name the network of all nodes.",
    fixable: false,
    needs: Needs::Policies,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for block in context.blocks().filter(|it| it.is_one_address()) {
        let address = block.block.cidr.network();
        let Some(Owner::Node(node)) = context.owners_in(block.block).next() else { continue };
        let Some(node) = context.model.node(node) else { continue };
        let message = format!("{address} is the address of node {}: everything on its network is meant", node.name);
        let finding = Finding::new(&RULE, block.spot("a node"), message);
        findings.push(match (block.placed.policy.tier, block.placed.direction) {
            (Tier::Admin | Tier::Baseline, Direction::Egress) => finding.help("select nodes by labels, with `nodes`"),
            (Tier::Admin | Tier::Baseline | Tier::NetworkPolicy, _) => finding,
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use crate::testing::{found, np};

    const NODE: &str =
        "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {addresses: [{type: InternalIP, address: 192.0.2.1}]}\n---\n";

    fn lint(cidr: &str) -> Vec<String> {
        let spec = format!("  podSelector: {{}}\n  ingress:\n  - from: [{{ipBlock: {{cidr: {cidr}}}}}]");
        found("node-ip-in-ip-block", &(NODE.to_owned() + &np(&spec)))
    }

    #[test]
    fn the_address_of_a_node() {
        let expected = "note NetworkPolicy shop/p spec.ingress[0].from[0].ipBlock.cidr: 192.0.2.1 is the address of node n1: everything on its network is meant";
        assert_eq!(lint("192.0.2.1/32"), [expected]);
    }

    #[test]
    fn the_network_of_the_nodes_is_fine() {
        assert_eq!(lint("192.0.2.0/24"), Vec::<String>::new());
    }
}
