//! Versions of Palisade that follow each other on a node, each with a layout of its own, under traffic.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use palisade_agent::{Agent, Applied, Held, verification};
use palisade_kernel::{Counted, Kernel, KernelError, Nftables};
use palisade_model::NodeId;
use palisade_nft::{
    Chain, Change, Layout, Map, Match, NodeView, PodLinks, Rule, Ruleset, Statement, Table, Transaction, Unknown, Value, Verdict,
};

use crate::ground::{DEADLINE, Ground, NODE, links, model_of, say};
use crate::traffic::{FAR, OPEN, PATIENCE, Place, far, traffic};

/// How often each version takes over from the other.
const TURNS: usize = 12;
const OLDER: Layout = Layout::Version(0);
/// What a base chain is called in the older layout, and the chain that it does nothing but jump to.
const HOOKED: &str = "at-";
const BODY: &str = "v0-";

/// A kernel as a version with another layout has it: everything has another name, and base chains do nothing but jump.
struct Older(Nftables);

impl Older {
    fn transaction(transaction: &Transaction) -> Transaction {
        let changes = transaction.changes.iter().flat_map(Older::change).collect();
        Transaction { table: transaction.table, changes }
    }

    fn change(change: &Change) -> Vec<Change> {
        let (hooked, body) = (|it: &String| format!("{HOOKED}{it}"), |it: &String| format!("{BODY}{it}"));
        let map = |it: &Map| match it {
            Map::Verdict(map) => {
                let mut map = map.clone();
                map.elements.values_mut().for_each(|it| *it = body(it));
                Map::Verdict(map)
            }
            Map::Tuples(map) => {
                let mut map = map.clone();
                map.elements.values_mut().for_each(|it| *it = body(it));
                Map::Tuples(map)
            }
            other @ (Map::Data(_) | Map::Interval(_) | Map::Sources(_) | Map::Pairs(_) | Map::Addresses(_)) => other.clone(),
        };
        vec![match change {
            Change::AddTable(_) | Change::DeleteTable | Change::FlushTable => change.clone(),
            Change::AddChain { name, hook: hook @ Some(_) } => {
                let jump = Rule { statements: vec![Statement::Verdict(Verdict::Jump(body(name)))], ..Rule::default() };
                return vec![
                    Change::AddChain { name: body(name), hook: None },
                    Change::AddChain { name: hooked(name), hook: hook.clone() },
                    Change::AppendRule { chain: hooked(name), rule: jump },
                ];
            }
            Change::AddChain { name, hook: None } => Change::AddChain { name: body(name), hook: None },
            Change::DeleteChain(name) => Change::DeleteChain(body(name)),
            Change::AddDevices { chain, devices } => Change::AddDevices { chain: hooked(chain), devices: devices.clone() },
            Change::DeleteDevices { chain, devices } => Change::DeleteDevices { chain: hooked(chain), devices: devices.clone() },
            Change::FlushChain(name) => Change::FlushChain(body(name)),
            Change::AppendRule { chain, rule } => Change::AppendRule { chain: body(chain), rule: renamed(rule, &body) },
            Change::AddMap { name, kind, elements } => Change::AddMap { name: body(name), kind: *kind, elements: *elements },
            Change::DeleteMap(name) => Change::DeleteMap(body(name)),
            Change::AddElements { map: name, elements } => Change::AddElements { map: body(name), elements: map(elements) },
            Change::DeleteElements { map: name, elements } => Change::DeleteElements { map: body(name), elements: map(elements) },
        }]
    }

    /// The ruleset as this version means it.
    fn ruleset(mut found: Ruleset) -> Ruleset {
        let own = |it: &String| it.strip_prefix(BODY).unwrap_or(it).to_owned();
        let hooks: BTreeMap<String, _> =
            found.chains.iter().filter_map(|(name, it)| Some((name.strip_prefix(HOOKED)?.to_owned(), it.hook.clone()))).collect();
        let bodies = std::mem::take(&mut found.chains).into_iter().filter(|(name, _)| name.starts_with(BODY));
        found.chains = bodies
            .map(|(name, chain)| {
                let hook = hooks.get(&own(&name)).cloned().flatten();
                (own(&name), Chain { hook, rules: chain.rules.iter().map(|it| renamed(it, &own)).collect() })
            })
            .collect();
        fn rename<T>(maps: &mut BTreeMap<String, T>, own: impl Fn(&String) -> String) {
            *maps = std::mem::take(maps).into_iter().map(|(name, map)| (own(&name), map)).collect();
        }
        rename(&mut found.data, own);
        rename(&mut found.intervals, own);
        rename(&mut found.verdicts, own);
        rename(&mut found.sets, own);
        rename(&mut found.pairs, own);
        rename(&mut found.addresses, own);
        found.verdicts.values_mut().flat_map(|it| it.elements.values_mut()).for_each(|it| *it = own(it));
        found
    }
}

/// A rule with other names for what it goes to and asks.
fn renamed(rule: &Rule, name: &impl Fn(&String) -> String) -> Rule {
    let mut rule = rule.clone();
    for it in &mut rule.statements {
        match it {
            Statement::Verdict(Verdict::Jump(it) | Verdict::Goto(it)) | Statement::Look(it) => *it = name(it),
            Statement::Set(Value::From { map, .. }) | Statement::LookTuple { map, .. } => *map = name(map),
            Statement::Set(Value::Zero) | Statement::Counter | Statement::Log(_) | Statement::Would(_) => {}
            Statement::Verdict(Verdict::Accept | Verdict::Drop | Verdict::Return) => {}
        }
    }
    for it in &mut rule.matches {
        if let Match::LinkAndSource { set, .. } | Match::LinkAndDestination { set, .. } | Match::Pair { set, .. } | Match::In { set, .. } =
            it
        {
            *set = name(set);
        }
    }
    rule
}

impl Kernel for Older {
    fn commit(&mut self, transaction: &Transaction) -> Result<(), KernelError> {
        self.0.commit(&Older::transaction(transaction))
    }

    fn commit_at(&mut self, generation: u32, transaction: &Transaction) -> Result<(), KernelError> {
        self.0.commit_at(generation, &Older::transaction(transaction))
    }

    fn grace(&mut self) -> Result<(), KernelError> {
        self.0.grace()
    }

    fn exists(&mut self, table: Table) -> Result<bool, KernelError> {
        self.0.exists(table)
    }

    fn standing(&mut self) -> Result<Vec<Table>, KernelError> {
        self.0.standing()
    }

    fn layout(&mut self) -> Result<Option<Layout>, KernelError> {
        self.0.layout()
    }

    fn dump_of(&mut self, table: Table) -> Result<Option<Ruleset>, KernelError> {
        Ok(self.0.dump_of(table)?.map(Older::ruleset))
    }

    fn generation(&mut self) -> Result<u32, KernelError> {
        self.0.generation()
    }

    fn counters_of(&mut self, table: Table) -> Result<Vec<Counted>, KernelError> {
        self.0.counters_of(table)
    }
}

fn apply<K: Kernel>(agent: &mut Agent<K>, ports: &[u16]) -> Applied {
    agent.apply(&model_of("UDP", ports), NodeId(0), links()).unwrap()
}

#[test]
fn versions_with_other_layouts_take_over_from_each_other_without_a_gap() {
    let Some(ground) = Ground::create() else { return };
    let far = far(&ground);
    let open = || ground.node.run(|| Nftables::open().unwrap()).unwrap();
    let mut first = Agent::of_layout(Older(open()), OLDER);
    assert_eq!(apply(&mut first, &[OPEN]), Applied::Loaded);
    let sender = ground.pod.run(|| UdpSocket::bind(("0.0.0.0", 0)).unwrap()).unwrap();
    let places = [Place::of(&ground.node, NODE, PATIENCE), Place::of(&far, FAR, PATIENCE)];
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    let (traffic, turns) = std::thread::scope(|scope| {
        let thread = scope.spawn(|| traffic(&sender, &places, &stop));
        let mut turns = 0;
        while turns < TURNS && !thread.is_finished() && start.elapsed() < DEADLINE {
            // An upgrade: what it finds is replaced, then changed step by step, and kept by the next of its version.
            let mut new = Agent::new(open());
            assert_eq!(apply(&mut new, &[OPEN]), Applied::TakenOver(OLDER));
            assert!(matches!(apply(&mut new, &[OPEN, 82]), Applied::Changed(_)));
            assert_eq!(apply(&mut Agent::new(open()), &[OPEN, 82]), Applied::Unchanged);
            assert!(ground.table().contains("(layout 1)") && !ground.table().contains(BODY));
            // A downgrade, and the same.
            let mut old = Agent::of_layout(Older(open()), OLDER);
            assert_eq!(apply(&mut old, &[OPEN]), Applied::TakenOver(Layout::CURRENT));
            assert!(matches!(apply(&mut old, &[OPEN, 83]), Applied::Changed(_)));
            assert_eq!(apply(&mut Agent::of_layout(Older(open()), OLDER), &[OPEN, 83]), Applied::Unchanged);
            assert!(ground.table().contains("(layout 0)") && ground.table().contains(BODY));
            // Of a version that knew no mark.
            assert_eq!(apply(&mut Agent::of_layout(open(), Layout::Unmarked), &[OPEN]), Applied::TakenOver(OLDER));
            assert!(!ground.table().contains("layout"));
            assert_eq!(apply(&mut Agent::new(open()), &[OPEN]), Applied::TakenOver(Layout::Unmarked));
            assert_eq!(apply(&mut Agent::of_layout(Older(open()), OLDER), &[OPEN]), Applied::TakenOver(Layout::CURRENT));
            turns += 1;
        }
        stop.store(true, Ordering::Relaxed);
        (thread.join().unwrap(), turns)
    });
    say(&format!("{turns} turns of five takeovers in {:?}: {traffic:?}", start.elapsed()));
    assert_eq!((turns, traffic.lost, traffic.delivered), (TURNS, 0, 0), "{traffic:?}");
    assert!(traffic.allowed > 0);
}

#[test]
fn a_table_of_another_layout_is_found_by_verify_and_changes_no_verdict() {
    let Some(ground) = Ground::create() else { return };
    let (model, view) =
        (model_of("UDP", &[OPEN]), NodeView { node: NodeId(0), links: links(), unknown: Unknown::Closed(PodLinks::default()) });
    let findings = || {
        let held = ground.node.run(|| Held::read().unwrap()).unwrap();
        let told = verification(&model, &view, &held).unwrap();
        told.findings.into_iter().filter(|it| it.name == "table-layout").map(|it| it.sentence).collect::<Vec<_>>()
    };
    let open = || ground.node.run(|| Nftables::open().unwrap()).unwrap();
    apply(&mut Agent::of_layout(Older(open()), OLDER), &[OPEN]);
    assert_eq!(findings(), ["table `inet palisade` is of layout 0, and this is layout 1"]);
    apply(&mut Agent::new(open()), &[OPEN]);
    assert_eq!(findings(), Vec::<String>::new());
}
