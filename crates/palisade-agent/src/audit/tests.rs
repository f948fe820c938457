use std::net::IpAddr;

use nix::errno::Errno;
use palisade_kernel::{Fake, Fault, Kernel, Object, Refusal};
use palisade_nft::{Change, Table, Transaction};
use palisade_testkit::check::snapshot;

use super::*;
use crate::agent::Checked;
use crate::core::refusals::same;
use crate::core::small_table::{Finished, Goal, SmallTable};
use crate::core::work::{Progress, perform};
use crate::packet::Tuple;

/// A keeper with its table, on a kernel.
#[derive(Default)]
struct Kept {
    keeper: Keeper,
    table: Option<SmallTable>,
}

impl std::ops::Deref for Kept {
    type Target = Keeper;

    fn deref(&self) -> &Keeper {
        &self.keeper
    }
}

impl std::ops::DerefMut for Kept {
    fn deref_mut(&mut self) -> &mut Keeper {
        &mut self.keeper
    }
}

impl Kept {
    fn drive(&mut self, kernel: &mut Fake, begin: impl FnOnce(&mut SmallTable) -> Progress<Finished>) -> Finished {
        let table = self.table.get_or_insert_with(|| SmallTable::new(Table::Audit));
        let mut progress = begin(table);
        loop {
            match progress {
                Progress::Finished(finished) => return finished,
                Progress::Do(work) => progress = table.done(perform(kernel, &work).unwrap()).unwrap(),
            }
        }
    }

    fn apply(&mut self, kernel: &mut Fake, model: &Model, node: NodeId, now: Duration) {
        // Every model of a test is read anew.
        self.keeper.update(model, &Changes::all(model), node);
        let needs = self.keeper.needs(model);
        if needs.count {
            match kernel.counters_of(Table::Audit) {
                Ok(counters) => self.keeper.counted(&counters),
                Err(error) => self.keeper.not_counted(&error),
            }
        }
        let goal = self.keeper.goal();
        let written = needs.write.then(|| match self.drive(kernel, |it| it.bring(Goal::Ruleset(goal))) {
            Finished::Written(written) => written,
            other @ Finished::Restored(_) => panic!("{other:?}"),
        });
        self.keeper.written(written.transpose(), model, now);
    }

    fn check(&mut self, kernel: &mut Fake) -> Result<Checked, KernelError> {
        let checked = match self.drive(kernel, SmallTable::restore) {
            Finished::Restored(checked) => checked,
            other @ Finished::Written(_) => panic!("{other:?}"),
        };
        if matches!(checked, Ok(Checked::WasChanged | Checked::WasRemoved)) {
            self.keeper.reloaded();
        }
        checked
    }
}

/// A set, since when, and its flows: port, connections, first and last.
type Counts = (String, u64, Vec<(Option<u16>, u64, u64, u64)>);

const SECOND: Duration = Duration::from_secs(1);

/// Two pods on one node, and policies that isolate all pods of it for ingress, each in a set.
fn model(sets: &[&str]) -> Model {
    let pod = |name: &str, address: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{namespace: x, name: {name}}}, spec: {{nodeName: node-1}}, status: {{podIPs: [{{ip: {address}}}]}}}}\n---\n"
        )
    };
    let policy = |set: &&str| {
        let annotations = format!("palisade.dev/mode: audit, palisade.dev/audit-set: {set}");
        format!(
            "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{namespace: x, name: p-{set}, annotations: {{{annotations}}}}}, \
             spec: {{podSelector: {{}}}}}}\n---\n"
        )
    };
    let policies: String = sets.iter().map(policy).collect();
    snapshot("cluster.yaml", &format!("{}{}{policies}", pod("a", "10.0.0.1"), pod("b", "10.0.0.2"))).model
}

fn key(keeper: &Keeper, set: &str, port: u16) -> Key {
    let number = keeper.woulds.iter().find(|(_, it)| *it.set == *set).map(|(number, _)| *number).unwrap();
    let address = |it: &str| -> IpAddr { it.parse().unwrap() };
    let tuple = Tuple { source: address("10.0.0.1"), destination: address("10.0.0.2"), protocol: 6, ports: Some((4000, port)), icmp: None };
    Key { tuple, origin: number }
}

fn held(kernel: &mut Fake, keeper: &Keeper) -> bool {
    let wanted = keeper.wanted.as_ref().map(|it| &it.ruleset);
    match (kernel.dump_of(Table::Audit).unwrap(), wanted) {
        (Some(found), Some(wanted)) => same(&found, wanted),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

#[test]
fn the_table_is_there_as_long_as_something_is_audited() {
    let (mut keeper, mut kernel) = (Kept::default(), Fake::new());
    for sets in [&["s"][..], &["s", "t"], &["t"], &[], &["s"]] {
        keeper.apply(&mut kernel, &model(sets), NodeId(0), SECOND);
        assert_eq!((keeper.failure(), held(&mut kernel, &keeper)), (None, true), "{sets:?}");
        assert_eq!(kernel.dump_of(Table::Audit).unwrap().is_some(), !sets.is_empty(), "{sets:?}");
        // Nothing that decides was written.
        assert_eq!((kernel.dump(), kernel.standing()), (Ok(None), Ok(Vec::new())));
    }
}

#[test]
fn what_somebody_else_did_to_the_table_is_undone() {
    let (mut keeper, mut kernel) = (Kept::default(), Fake::new());
    assert_eq!(keeper.check(&mut kernel), Ok(Checked::NothingWanted));
    keeper.apply(&mut kernel, &model(&["s"]), NodeId(0), SECOND);
    assert_eq!(keeper.check(&mut kernel), Ok(Checked::Intact));
    let (chain, (subject, _)) = keeper.subjects.shown.iter().next().map(|(chain, it)| (chain.clone(), it.clone())).unwrap();
    for (change, expected) in [(Change::FlushTable, Checked::WasChanged), (Change::DeleteTable, Checked::WasRemoved)] {
        kernel.commit(&Transaction { table: Table::Audit, changes: vec![change] }).unwrap();
        // Counters of the new table begin anew, whatever the old ones showed.
        keeper.subjects.show(&chain, 5);
        let counted = keeper.subjects.counted[&subject];
        assert_eq!((keeper.check(&mut kernel), held(&mut kernel, &keeper)), (Ok(expected), true));
        keeper.subjects.show(&chain, 5);
        assert_eq!(keeper.subjects.counted[&subject], counted + 5);
    }
    // And by the next change, if it does not fit what is there.
    kernel.commit(&Transaction::unload_of(Table::Audit)).unwrap();
    keeper.apply(&mut kernel, &model(&["s", "t"]), NodeId(0), SECOND);
    assert_eq!((keeper.failure(), held(&mut kernel, &keeper)), (None, true));
}

#[test]
fn a_failure_is_told_once_and_made_up_for() {
    let (mut keeper, mut kernel) = (Kept::default(), Fake::new());
    let refused = KernelError::Refused(vec![Refusal { object: Object::Table, errno: Errno::ENOMEM }]);
    kernel.fail([Fault::Before(refused)]);
    keeper.apply(&mut kernel, &model(&["s"]), NodeId(0), SECOND);
    assert!(keeper.failure().is_some_and(|it| it.starts_with("audit: ")) && keeper.failure().is_none());
    keeper.apply(&mut kernel, &model(&["s"]), NodeId(0), SECOND);
    assert_eq!((keeper.failure(), held(&mut kernel, &keeper)), (None, true));
}

#[test]
fn connections_are_counted_until_their_set_is_edited() {
    let (mut keeper, mut kernel) = (Kept::default(), Fake::new());
    let both = model(&["s", "t"]);
    keeper.apply(&mut kernel, &both, NodeId(0), SECOND);
    let names = Names::of(&both, &BTreeMap::new());
    for (set, port, at) in [("s", 80, 2), ("s", 80, 5), ("s", 81, 3), ("t", 80, 4)] {
        let key = key(&keeper, set, port);
        let told = keeper.take(key, 1, &names, at * SECOND).unwrap();
        assert_eq!((told.would.becomes, told.port), (Becomes::Denied, Some(port)));
        assert_eq!(told.report().sentence, format!("isolated by NetworkPolicy x/p-{set}, no rule accepts"));
    }
    let unknown = Key { origin: 1, ..key(&keeper, "s", 80) };
    assert_eq!(keeper.take(unknown, 1, &names, SECOND), None);
    let counts = |keeper: &mut Kept, kernel: &mut Fake| -> Vec<Counts> {
        let flow = |it: &WatchedFlow| (it.port, it.connections, it.first.as_secs(), it.last.as_secs());
        let of = |it: Watched| (it.set.to_string(), it.since.as_secs(), it.flows.iter().map(flow).collect());
        {
            keeper.keeper.counted(&kernel.counters_of(Table::Audit).unwrap());
            keeper.watched()
        }
        .into_iter()
        .map(of)
        .collect()
    };
    let t = ("t".to_owned(), 1, vec![(Some(80), 1, 4, 4)]);
    let s = ("s".to_owned(), 1, vec![(Some(80), 2, 2, 5), (Some(81), 1, 3, 3)]);
    assert_eq!(counts(&mut keeper, &mut kernel), [s, t.clone()]);
    // Another model with the same policies goes on; an edit begins anew, and only with its own set.
    keeper.apply(&mut kernel, &both, NodeId(0), 6 * SECOND);
    let mut edited = both.clone();
    edited.audited.get_mut("s").unwrap()[0].isolates.egress = true;
    keeper.apply(&mut kernel, &edited, NodeId(0), 7 * SECOND);
    assert_eq!(counts(&mut keeper, &mut kernel), [("s".to_owned(), 7, vec![]), t]);
}

#[test]
fn a_counter_that_begins_anew_takes_nothing_back() {
    let both = model(&["s"]);
    let (table, _) = Auditing::default().audit(&both, NodeId(0)).unwrap();
    let mut subjects = Subjects::default();
    subjects.know(Some(&table));
    let (chain, key) = table.subjects.iter().next().unwrap();
    for (shown, counted) in [(3, 3), (5, 5), (5, 5), (2, 7), (4, 9)] {
        subjects.show(chain, shown);
        assert_eq!(subjects.counted[key], counted);
        // A table that has the chain goes on with it.
        subjects.know(Some(&table));
    }
    let since = subjects.since(&BTreeMap::from([(key.clone(), 7)]));
    assert_eq!((since[key], since.len()), (2, table.subjects.len()));
}
