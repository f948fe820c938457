//! A rule that is added by hand to any table of a node is named by a verification, and taken out by a repair and by an agent at work.

use std::sync::Arc;
use std::time::Instant;

use palisade_agent::{Event, Held, repair, verification};
use palisade_kernel::{Kernel as _, Links, NextHop, Nftables, Route, TableKeeper, set_sysctl};
use palisade_model::{Model, NodeId};
use palisade_nft::{
    BlockedReplies, Change, Hook, Layout, LinkName, NodeView, PodLinks, Rule, Statement, Table, Transaction, Tuple, Unknown,
};
use palisade_report::{v1, verify_text};

use crate::ground::{DEADLINE, Ground, NODE, POD, links, model, say, wait_for};

const COMMENT: &str = "by hand";
/// A pod that no object tells of, behind a link whose name is no pod's.
const UNKNOWN: (&str, &str) = ("tap1", "10.0.0.77");

/// A node on which every table of ours has something to do.
struct Node {
    ground: Ground,
    model: Model,
    view: NodeView,
}

impl Node {
    fn create() -> Option<Node> {
        let ground = Ground::create()?;
        let mut model = model(&[]);
        model.close_ranges(&["10.0.0.0/24".parse().unwrap()], &[NODE.parse().unwrap()].into());
        // Of the one policy a copy is audited.
        let mut audited = model.policies.first().unwrap().clone();
        audited.origin.name = "audited".into();
        model.audited.insert("trial".into(), vec![audited]);
        let names = [LinkName::Beginning("pod".to_owned())].into();
        let unknown = Unknown::Closed(PodLinks { names, exempt: [NODE.parse().unwrap()].into(), ..PodLinks::default() });
        let view = NodeView { node: NodeId(0), links: links(), unknown };
        let (link, address) = UNKNOWN;
        ground
            .node
            .run(|| {
                for name in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
                    set_sysctl(name, "1").unwrap();
                }
                let mut links = Links::open().unwrap();
                links.add_veth(link, "eth1", &ground.pod).unwrap();
                links.set_up(link).unwrap();
                let to = format!("{address}/32").parse().unwrap();
                let route = Route { to, link: link.to_owned(), via: NextHop::Destination, source: None };
                links.add_route(&route).unwrap();
                // The pod may not call its node: a server there that goes on with a connection that was cut is denied.
                let reply = Tuple::new(format!("{NODE}:80").parse().unwrap(), format!("{POD}:4000").parse().unwrap(), 6);
                let replies = BlockedReplies { replies: [(reply, 7)].into() };
                TableKeeper::new(Nftables::open().unwrap(), Table::Replies).replace(replies.ruleset()).unwrap();
            })
            .unwrap();
        Some(Node { ground, model, view })
    }

    fn verify(&self) -> v1::Verification {
        let held = self.ground.node.run(|| Held::read().unwrap()).unwrap();
        verification(&self.model, &self.view, &held).unwrap()
    }

    /// Adds a rule that only counts to a table, as another process would: to its first base chain, or where there is no table to one of a new one.
    fn edit(&self, table: Table) {
        let rule = Rule { statements: vec![Statement::Counter], comment: Some(COMMENT.to_owned()), ..Rule::default() };
        self.ground
            .node
            .run(|| {
                let mut nftables = Nftables::open().unwrap();
                let found = nftables.dump_of(table).unwrap();
                let base =
                    found.iter().flat_map(|it| it.chains.iter()).find(|(_, chain)| chain.hook.is_some()).map(|(name, _)| name.clone());
                let mut changes = Vec::new();
                let chain = match (table, base) {
                    (Table::Own | Table::Audit | Table::UnknownPods | Table::Replies | Table::Frames, Some(base)) => base,
                    // They are only there while the own table is replaced.
                    (Table::Next | Table::Again, None) => {
                        let hook = Some(Hook::Forward);
                        changes.extend([Change::AddTable(Layout::CURRENT), Change::AddChain { name: "mine".to_owned(), hook }]);
                        "mine".to_owned()
                    }
                    (table, base) => panic!("{table} has the base chain {base:?}"),
                };
                changes.push(Change::AppendRule { chain, rule: rule.clone() });
                nftables.commit(&Transaction { table, changes }).unwrap();
            })
            .unwrap();
    }
}

#[test]
fn a_rule_added_by_hand_to_each_table_is_named_and_a_repair_takes_it_out() {
    let Some(node) = Node::create() else { return };
    node.ground.node.run(|| repair(&node.model, &node.view).unwrap()).unwrap();
    let told = node.verify();
    assert!(told.holds, "{}", verify_text(&told));
    for table in Table::EVERY {
        node.edit(table);
        let told = node.verify();
        let text = verify_text(&told);
        assert!(!told.holds, "{table}\n{text}");
        let of_table = |it: &v1::VerifyFinding| table == Table::Own || it.object.ends_with(&format!("of table `{table}`"));
        let named = told.findings.iter().any(|it| of_table(it) && it.sentence.contains("counter") && it.sentence.contains(COMMENT));
        assert!(named, "{table}\n{text}");
        node.ground.node.run(|| repair(&node.model, &node.view).unwrap()).unwrap();
        let told = node.verify();
        assert!(told.holds, "{table}\n{}", verify_text(&told));
    }
}

#[test]
fn a_rule_added_by_hand_to_each_table_is_taken_out_by_an_agent_at_work() {
    let Some(node) = Node::create() else { return };
    let (agent, events) = node.ground.start().unwrap();
    agent.treat_unknown(node.view.unknown.clone());
    agent.apply(&Arc::new(node.model.clone()), node.view.node, node.view.links.clone()).unwrap();
    // The route to the unknown pod is heard of by another thread.
    let start = Instant::now();
    let mut told = node.verify();
    while !told.holds {
        assert!(start.elapsed() < DEADLINE, "{}", verify_text(&told));
        std::thread::sleep(std::time::Duration::from_millis(10));
        told = node.verify();
    }
    for table in Table::EVERY {
        node.edit(table);
        let by = wait_for(&events, |it| if let Event::Restored { by, .. } = it { Some(by.clone()) } else { None });
        let told = node.verify();
        assert!(told.holds, "{table}, changed by {by}\n{}", verify_text(&told));
        say(&format!("{table}: put back after a change by {by}"));
    }
    assert_eq!(agent.check().map(|it| format!("{it:?}")), Ok("Intact".to_owned()));
}
