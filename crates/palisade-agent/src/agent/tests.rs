use nix::errno::Errno;
use palisade_engine::compile;
use palisade_kernel::{Fake, Fault, Object, Refusal};
use palisade_nft::{Change, Ids, Table, Transaction, lower};
use palisade_testkit::check::snapshot;

use super::*;
use crate::core::own_table::{ATTEMPTS, Built};
use crate::core::refusals::same;

/// Pods `a` and `b` on one node, and policies that let each in from the other at a port.
fn model(ports: &[u16]) -> Model {
    let pod = |(name, address): (&str, &str)| {
        let head = format!("apiVersion: v1\nkind: Pod\nmetadata: {{namespace: x, name: {name}, labels: {{app: {name}}}}}\n");
        format!(
            "{head}spec: {{nodeName: node-1, containers: [{{name: m, image: i}}]}}\nstatus: {{podIPs: [{{ip: {address}}}, {{ip: 'fd00::{name}'}}]}}\n"
        )
    };
    let policy = |port: &u16| {
        let head = format!("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{namespace: x, name: p{port}}}\n");
        format!("{head}spec: {{podSelector: {{}}, ingress: [{{from: [{{podSelector: {{}}}}], ports: [{{port: {port}}}]}}]}}\n")
    };
    let pods = [("a", "10.0.0.1"), ("b", "10.0.0.2")].map(pod);
    let text: Vec<String> = pods.into_iter().chain(ports.iter().map(policy)).collect();
    let model = snapshot("cluster.yaml", &text.join("---\n")).model;
    assert_eq!((model.endpoints.len(), model.nodes.len()), (2, 1), "{}", text.join("---\n"));
    model
}

fn agent() -> Agent<Fake> {
    Agent::new(Fake::new())
}

impl Agent<Fake> {
    fn take(&mut self, ports: &[u16]) -> Result<Applied, AgentError> {
        self.apply(&model(ports), NodeId(0), BTreeMap::new())
    }

    fn fail(&mut self, faults: impl IntoIterator<Item = Fault>) {
        assert_eq!(self.kernel.faults(), 0);
        self.kernel.fail(faults);
    }

    /// The kernel and the agent have the same, and that is what the model wants.
    fn assert_holds(&mut self, ports: &[u16]) {
        assert_eq!(self.kernel.faults(), 0, "faults that no call has met");
        let model = model(ports);
        let expected = lower(
            &model,
            &compile(&model),
            &NodeView { node: NodeId(0), links: BTreeMap::new(), unknown: Unknown::Closed(PodLinks::default()) },
            &mut Ids::default(),
        );
        let found = self.kernel.dump().unwrap().unwrap();
        assert!(same(&found, &expected), "{ports:?}: {found:#?}");
        assert!(self.own.is_as_left());
        assert_eq!(self.own.wanted().map(Arc::as_ref), Some(&expected));
    }

    fn settle(&mut self) -> Result<(), KernelError> {
        let first = self.own.settle();
        match self.drive(first) {
            Finished::Settled(settled) => settled,
            other @ (Finished::Applied(_) | Finished::Checked(_)) => panic!("{other:?}"),
        }
    }

    /// Somebody else's transaction.
    fn meddle(&mut self, changes: Vec<Change>) {
        self.kernel.commit(&Transaction { table: Table::Own, changes }).unwrap();
    }
}

fn refused(errno: Errno) -> KernelError {
    KernelError::Refused(vec![Refusal { object: Object::Table, errno }])
}

fn foreign() -> KernelError {
    KernelError::Foreign { object: Object::Table, what: "dormant".to_owned() }
}

/// What makes a chain that others go to empty.
fn flush() -> Vec<Change> {
    vec![Change::FlushChain("forward".to_owned())]
}

const PASSING: [Errno; 4] = [Errno::EBUSY, Errno::EINTR, Errno::EAGAIN, Errno::ENOBUFS];

#[test]
fn the_first_model_is_loaded_and_the_next_are_differences() {
    let mut agent = agent();
    assert_eq!(agent.check(), Ok(Checked::NothingWanted));
    assert_eq!(agent.take(&[]), Ok(Applied::Loaded));
    agent.assert_holds(&[]);
    assert_eq!(agent.take(&[]), Ok(Applied::Unchanged));
    let first = agent.kernel.counters().unwrap().into_iter().find(|it| it.chain == "forward").unwrap();
    for ports in [&[80][..], &[80, 81], &[81], &[]] {
        // A count would be gone if the base chain were written anew.
        agent.kernel.count("forward", first.index, 7, 70);
        assert!(matches!(agent.take(ports), Ok(Applied::Changed(1..))), "{ports:?}");
        assert_eq!(agent.take(ports), Ok(Applied::Unchanged));
        agent.assert_holds(ports);
        let counted = agent.kernel.counters().unwrap().into_iter().find(|it| it.chain == "forward").unwrap();
        assert_eq!((counted.index, counted.packets), (first.index, 7), "{ports:?}");
    }
}

#[test]
fn a_table_of_an_earlier_run_is_replaced_whatever_it_holds() {
    let tables = [
        vec![Change::AddTable(Layout::CURRENT)],
        vec![Change::AddTable(Layout::CURRENT), Change::AddChain { name: "forward".to_owned(), hook: None }],
    ];
    for changes in tables {
        let mut agent = agent();
        agent.meddle(changes);
        assert_eq!(agent.check(), Ok(Checked::NothingWanted));
        assert_eq!(agent.take(&[80]), Ok(Applied::Loaded));
        agent.assert_holds(&[80]);
    }
}

#[test]
fn what_passes_is_tried_again() {
    let faults = PASSING.into_iter().flat_map(|errno| [refused(errno), KernelError::Socket { doing: "send to the kernel", errno }]);
    for error in faults.chain([KernelError::Unsteady(10)]) {
        for first in [Applied::Loaded, Applied::Changed(1)] {
            let mut agent = agent();
            if first != Applied::Loaded {
                agent.take(&[]).unwrap();
            }
            agent.fail(vec![Fault::Before(error.clone()); ATTEMPTS - 1]);
            let applied = agent.take(&[80]).unwrap();
            assert_eq!(applied == Applied::Loaded, first == Applied::Loaded, "{error}: {applied:?}");
            agent.assert_holds(&[80]);
            agent.fail(vec![Fault::Before(error.clone()); ATTEMPTS - 1]);
            assert_eq!(agent.check(), Ok(Checked::Intact), "{error}");
        }
    }
}

#[test]
fn what_does_not_pass_is_reported_with_the_table_as_it_was() {
    for errno in PASSING {
        let mut agent = agent();
        agent.take(&[]).unwrap();
        // Each attempt fails; the look at the table that follows does not.
        agent.fail(vec![Fault::Before(refused(errno)); ATTEMPTS]);
        assert_eq!(agent.take(&[80]), Err(AgentError::Kept(refused(errno))));
        agent.assert_holds(&[]);
        assert!(matches!(agent.take(&[80]), Ok(Applied::Changed(_))));
        agent.assert_holds(&[80]);
    }
}

#[test]
fn without_room_the_table_stays_and_the_next_apply_converges() {
    for errno in [Errno::ENOSPC, Errno::ENOMEM] {
        let mut agent = agent();
        agent.fail([Fault::Before(refused(errno))]);
        let error = agent.take(&[80]).unwrap_err();
        assert_eq!(error, AgentError::Kept(refused(errno)));
        let text = format!("the table is as it was before: the kernel refused table `inet palisade`: {}", errno.desc());
        assert_eq!(error.to_string(), text);
        assert_eq!((agent.kernel.dump(), agent.own.wanted()), (Ok(None), None));
        assert_eq!(agent.take(&[80]), Ok(Applied::Loaded));
        agent.fail([Fault::Before(refused(errno))]);
        assert_eq!(agent.take(&[80, 81]), Err(AgentError::Kept(refused(errno))));
        agent.assert_holds(&[80]);
        assert_eq!(agent.take(&[80]), Ok(Applied::Unchanged));
        assert!(matches!(agent.take(&[80, 81]), Ok(Applied::Changed(_))));
        agent.assert_holds(&[80, 81]);
    }
}

/// A second attempt, or a load after a difference, would meet no fault and succeed.
#[test]
fn what_no_other_attempt_can_mend_is_tried_once() {
    let socket = KernelError::Socket { doing: "send to the kernel", errno: Errno::EMSGSIZE };
    let unwritable = KernelError::Unwritable { object: Object::Table, what: "too long".to_owned() };
    for error in [KernelError::NoPermission, KernelError::NoSupport(Errno::EOPNOTSUPP), socket, unwritable] {
        let mut agent = agent();
        agent.fail([Fault::Before(error.clone())]);
        assert_eq!(agent.take(&[]), Err(AgentError::Kept(error.clone())));
        assert_eq!(agent.kernel.dump(), Ok(None));
        agent.take(&[]).unwrap();
        agent.fail([Fault::Before(error.clone())]);
        assert_eq!(agent.take(&[80]), Err(AgentError::Kept(error.clone())));
        agent.assert_holds(&[]);
        agent.fail([Fault::Before(error.clone())]);
        assert_eq!(agent.check(), Err(AgentError::NotKnown(error)));
    }
}

#[test]
fn a_lost_answer_is_found_out() {
    for lost in [KernelError::Overrun, KernelError::Timeout(10), KernelError::Truncated("x".to_owned())] {
        let mut agent = agent();
        agent.fail([Fault::Before(lost.clone())]);
        assert_eq!(agent.take(&[80]), Err(AgentError::Kept(lost.clone())));
        // Two looks and the first grace.
        agent.fail([Fault::Spared, Fault::Spared, Fault::Spared, Fault::After(lost.clone())]);
        assert_eq!(agent.take(&[80]), Ok(Applied::Loaded));
        agent.assert_holds(&[80]);
        agent.fail([Fault::After(lost.clone())]);
        assert!(matches!(agent.take(&[81]), Ok(Applied::Changed(_))));
        agent.assert_holds(&[81]);
        agent.fail([Fault::Before(lost.clone())]);
        assert_eq!(agent.take(&[80]), Err(AgentError::Kept(lost)));
        agent.assert_holds(&[81]);
    }
}

/// The transaction is in force, and nobody could tell: what was applied before must not pass for what is there.
#[test]
fn after_an_answer_that_stays_unknown_the_table_is_read() {
    for (first, then) in [(&[80][..], &[80][..]), (&[80], &[81]), (&[81], &[80, 81])] {
        for lost in [Fault::Before(KernelError::Overrun), Fault::After(KernelError::Overrun)] {
            let mut agent = agent();
            agent.take(first).unwrap();
            agent.fail([lost, Fault::Before(KernelError::Timeout(10))]);
            let error = agent.take(&[82]).unwrap_err();
            assert_eq!(error, AgentError::NotKnown(KernelError::Timeout(10)));
            agent.take(then).unwrap();
            agent.assert_holds(then);
        }
    }
}

/// Whoever comes next finds the table in any state that a change goes through, and others beside it.
#[test]
fn who_dies_anywhere_in_a_change_leaves_what_the_next_can_go_on_from() {
    let shape = |agent: &mut Agent<Fake>| agent.meddle(vec![Change::FlushChain("input".to_owned())]);
    let layout = |agent: &mut Agent<Fake>| {
        let mut other = Agent::of_layout(agent.kernel.clone(), Layout::Version(0));
        other.take(&[80]).unwrap();
        agent.kernel = other.kernel;
    };
    let nothing = |_: &mut Agent<Fake>| {};
    type Meddle = fn(&mut Agent<Fake>);
    let cases: [(Meddle, bool); 3] = [(nothing, false), (shape, true), (layout, true)];
    for (meddle, beside) in cases {
        let mut met = false;
        for calls in 0.. {
            assert!(calls < 40, "a change has an end");
            let mut first = agent();
            first.take(&[80]).unwrap();
            meddle(&mut first);
            let mut second = Agent::new(first.kernel);
            second.fail(vec![Fault::Spared; calls].into_iter().chain([Fault::Before(KernelError::NoPermission)]));
            let died = second.take(&[81, 82]).is_err();
            met |= second.kernel.clone().standing().unwrap_or_default().len() > 1;
            let mut third = Agent::new(second.kernel);
            third.kernel.forgive();
            third.take(&[82]).unwrap();
            third.assert_holds(&[82]);
            assert_eq!(third.kernel.standing(), Ok(vec![Table::Own]), "after {calls} calls");
            if !died {
                break;
            }
        }
        assert_eq!(met, beside);
    }
}

/// What a chain of the same name means in another layout is not known: nothing of it is built on, and nothing of it is read.
#[test]
fn a_table_of_another_layout_is_replaced_whole_in_either_direction() {
    let layouts = [Layout::Version(0), Layout::CURRENT, Layout::Unmarked, Layout::Version(2)];
    let mut kernel = Fake::new();
    let mut before = None;
    for layout in layouts.into_iter().chain(layouts).rev() {
        let mut agent = Agent::of_layout(kernel, layout);
        let expected = before.map_or(Applied::Loaded, Applied::TakenOver);
        let graces = agent.kernel.graces();
        assert_eq!(agent.take(&[80]), Ok(expected), "{layout}");
        // The first stands alone; the others go through a table beside, which packets leave before it is gone. Whoever came before may have left one due.
        assert_eq!(agent.kernel.graces() - graces, if before.is_some() { 6 } else { 2 }, "{layout}");
        assert_eq!(agent.kernel.layout(), Ok(Some(layout)));
        assert_eq!(agent.kernel.standing(), Ok(vec![Table::Own]));
        assert_eq!(agent.take(&[80]), Ok(Applied::Unchanged));
        let mut same = Agent::of_layout(agent.kernel, layout);
        assert!(matches!(same.take(&[81]), Ok(Applied::Changed(_))), "{layout}");
        (kernel, before) = (same.kernel, Some(layout));
    }
}

#[test]
fn what_is_done_and_met_is_counted() {
    let mut agent = agent();
    agent.fail([Fault::Before(refused(Errno::EBUSY)), Fault::Before(refused(Errno::EINTR))]);
    agent.take(&[80]).unwrap();
    // A load is two commits, and what passes was met twice.
    let failures = |counts: &[(&str, u64)]| counts.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect();
    let loaded = Counts { commits: 2, retries: 2, failures: failures(&[("EBUSY", 1), ("EINTR", 1)]), ..Counts::default() };
    assert_eq!(agent.counts(), &loaded);
    agent.take(&[80]).unwrap();
    assert_eq!(agent.counts(), &loaded);
    agent.fail([Fault::Before(refused(Errno::ENOMEM))]);
    agent.take(&[81]).unwrap_err();
    agent.fail([Fault::Before(KernelError::Socket { doing: "send to the kernel", errno: Errno::EMSGSIZE })]);
    agent.take(&[81]).unwrap_err();
    assert_eq!(agent.in_vain(), 2);
    let more = [("EBUSY", 1), ("EINTR", 1), ("EMSGSIZE", 1), ("ENOMEM", 1)];
    assert_eq!(agent.counts(), &Counts { unfulfilled: 2, failures: failures(&more), ..loaded.clone() });
    agent.take(&[81]).unwrap();
    assert_eq!(agent.in_vain(), 0);
    let commits = agent.counts().commits;
    assert!(commits > 2);
    agent.meddle(vec![Change::FlushChain("input".to_owned())]);
    agent.check().unwrap();
    let Counts { restorations, replacements, takeovers, .. } = *agent.counts();
    assert_eq!((restorations, replacements, takeovers), (1, 1, 0));
    let mut other = Agent::of_layout(agent.kernel, Layout::Version(2));
    other.take(&[80]).unwrap();
    let Counts { restorations, replacements, takeovers, .. } = *other.counts();
    assert_eq!((restorations, replacements, takeovers), (0, 1, 1));
}

#[test]
fn a_check_puts_back_the_layout_as_well() {
    let mut agent = agent();
    agent.take(&[80]).unwrap();
    let mut other = Agent::of_layout(agent.kernel.clone(), Layout::Version(2));
    other.take(&[80]).unwrap();
    agent.kernel = other.kernel;
    assert_eq!(agent.check(), Ok(Checked::WasChanged));
    agent.assert_holds(&[80]);
}

/// A pod of another node is one commit, and a policy is some, with packets let go between them.
#[test]
fn between_steps_packets_are_waited_for() {
    let mut agent = agent();
    agent.take(&[80]).unwrap();
    // One before anything is built on what somebody else has left, one after the load.
    assert_eq!(agent.kernel.graces(), 2);
    agent.take(&[80]).unwrap();
    assert_eq!(agent.kernel.graces(), 2);
    agent.take(&[81]).unwrap();
    assert!(agent.kernel.graces() > 4, "{}", agent.kernel.graces());
}

#[test]
fn a_difference_that_does_not_fit_the_table_becomes_a_load() {
    let gone = |agent: &mut Agent<Fake>| agent.meddle(vec![Change::DeleteTable]);
    let empty = |agent: &mut Agent<Fake>| agent.meddle(vec![Change::DeleteTable, Change::AddTable(Layout::CURRENT)]);
    for meddle in [gone, empty] {
        let mut agent = agent();
        agent.take(&[80]).unwrap();
        meddle(&mut agent);
        assert_eq!(agent.take(&[80, 81]), Ok(Applied::Loaded));
        agent.assert_holds(&[80, 81]);
    }
    // It was refused, and the table has something that no ruleset has.
    let mut agent = agent();
    agent.take(&[80]).unwrap();
    agent.fail([Fault::Before(refused(Errno::EEXIST)), Fault::Before(foreign())]);
    assert!(matches!(agent.take(&[81]), Ok(Applied::Changed(_))));
    agent.assert_holds(&[81]);
}

#[test]
fn a_load_that_fails_after_a_difference_is_made_up_for() {
    for ports in [&[80][..], &[81]] {
        let mut agent = agent();
        agent.take(&[80]).unwrap();
        agent.meddle(vec![Change::DeleteTable]);
        // The difference is refused, a look finds no table, and then there is no room.
        agent.fail([Fault::Spared, Fault::Spared, Fault::Before(refused(Errno::ENOMEM))]);
        assert_eq!(agent.take(&[81]), Err(AgentError::Kept(refused(Errno::ENOMEM))));
        assert_eq!(agent.kernel.dump(), Ok(None));
        assert_eq!(agent.take(ports), Ok(Applied::Loaded));
        agent.assert_holds(ports);
    }
}

#[test]
fn a_check_puts_back_what_others_did() {
    let cases = [(vec![Change::DeleteTable], Checked::WasRemoved), (flush(), Checked::WasChanged)];
    for (changes, checked) in cases {
        let mut agent = agent();
        agent.take(&[80]).unwrap();
        assert_eq!(agent.check(), Ok(Checked::Intact));
        agent.meddle(changes);
        assert_eq!(agent.check(), Ok(checked));
        agent.assert_holds(&[80]);
        assert_eq!(agent.check(), Ok(Checked::Intact));
    }
    let mut agent = agent();
    agent.take(&[80]).unwrap();
    agent.fail([Fault::Before(foreign())]);
    assert_eq!(agent.check(), Ok(Checked::WasChanged));
    agent.assert_holds(&[80]);
}

/// The table is known to be wrong, or may be: neither the same model nor a difference that the kernel takes may leave it so.
#[test]
fn after_a_check_that_failed_an_apply_writes_all() {
    let no_room = [Fault::Spared, Fault::Before(refused(Errno::ENOMEM))];
    let not_seen = [Fault::Before(KernelError::Timeout(10)), Fault::Spared];
    let cases = [(no_room, AgentError::Kept(refused(Errno::ENOMEM))), (not_seen, AgentError::NotKnown(KernelError::Timeout(10)))];
    for (faults, error) in cases {
        for ports in [&[80][..], &[80, 81]] {
            let mut agent = agent();
            agent.take(&[80]).unwrap();
            agent.meddle(flush());
            agent.fail(faults.clone());
            assert_eq!(agent.check(), Err(error.clone()));
            assert_eq!(agent.take(ports), Ok(Applied::Loaded));
            agent.assert_holds(ports);
        }
    }
}

#[test]
fn a_check_that_failed_is_made_up_for_by_the_next() {
    let mut agent = agent();
    agent.take(&[80]).unwrap();
    agent.meddle(flush());
    agent.fail([Fault::Spared, Fault::Before(refused(Errno::ENOMEM))]);
    assert_eq!(agent.check(), Err(AgentError::Kept(refused(Errno::ENOMEM))));
    assert_eq!(agent.check(), Ok(Checked::WasChanged));
    agent.assert_holds(&[80]);
    // Nothing was wrong, and one could not see it.
    agent.fail([Fault::Before(KernelError::Timeout(10))]);
    assert_eq!(agent.check(), Err(AgentError::NotKnown(KernelError::Timeout(10))));
    assert_eq!(agent.check(), Ok(Checked::Intact));
    assert_eq!(agent.take(&[80]), Ok(Applied::Unchanged));
}

/// What packets are waited for at the end of a change is due until somebody builds on it.
#[test]
fn a_change_is_in_force_before_packets_have_left() {
    let mut agent = agent();
    agent.take(&[80]).unwrap();
    let enforce = |agent: &mut Agent<Fake>, ports: &[u16]| agent.bring(&model(ports), NodeId(0), BTreeMap::new(), Ends::InForce);
    enforce(&mut agent, &[81]).unwrap();
    agent.assert_holds(&[81]);
    let before = agent.kernel.graces();
    assert_eq!(enforce(&mut agent, &[81]), Ok(Applied::Unchanged));
    assert_eq!(agent.kernel.graces(), before);
    for expected in [1, 1] {
        agent.settle().unwrap();
        assert_eq!(agent.kernel.graces() - before, expected);
    }
    // The next change waits first, and does nothing where it cannot.
    enforce(&mut agent, &[82]).unwrap();
    let before = agent.kernel.graces();
    agent.fail([Fault::Before(KernelError::Grace(Errno::EMFILE))]);
    assert_eq!(enforce(&mut agent, &[83]), Err(AgentError::Kept(KernelError::Grace(Errno::EMFILE))));
    agent.assert_holds(&[82]);
    assert_eq!(agent.kernel.graces(), before);
    enforce(&mut agent, &[83]).unwrap();
    let with_one_due = agent.kernel.graces() - before;
    agent.settle().unwrap();
    let before = agent.kernel.graces();
    enforce(&mut agent, &[84]).unwrap();
    assert_eq!(agent.kernel.graces() - before, with_one_due - 1);
}

/// Tables that packets are asked in.
fn in_force(kernel: &Fake) -> Vec<Table> {
    let mut kernel = kernel.clone();
    kernel.forgive();
    let asked = |it: &Ruleset| it.chains.get("forward").is_some_and(|it| !it.rules.is_empty());
    Table::ALL.into_iter().filter(|it| kernel.dump_of(*it).unwrap().as_ref().is_some_and(asked)).collect()
}

/// So many calls go well, and the next does not.
fn ends_after(calls: usize, error: KernelError) -> Vec<Fault> {
    vec![Fault::Spared; calls].into_iter().chain([Fault::Before(error)]).collect()
}

#[test]
fn who_dies_after_two_who_died_leaves_some_table_in_force() {
    let model = model(&[80]);
    let mut first = agent();
    first.take(&[80]).unwrap();
    first.meddle(vec![Change::FlushChain("input".to_owned())]);
    // What the next agent leaves that ends after so many calls, and whether it came to its end.
    let next = |kernel: &Fake, calls: usize| {
        let mut agent = Agent::new(kernel.clone());
        agent.fail(ends_after(calls, KernelError::NoPermission));
        let done = agent.apply(&model, NodeId(0), BTreeMap::new()).is_ok();
        agent.kernel.forgive();
        (agent.kernel, done)
    };
    let tables = |kernel: &Fake| Table::ALL.map(|it| kernel.clone().dump_of(it).unwrap());
    let all = |kernel: &Fake| {
        let mut left: Vec<(usize, Fake)> = Vec::new();
        for calls in 0..40 {
            let (kernel, done) = next(kernel, calls);
            if left.last().is_none_or(|(_, before)| tables(before) != tables(&kernel)) {
                left.push((calls, kernel));
            }
            if done {
                return left;
            }
        }
        panic!("a change has an end");
    };
    let mut three_stood = false;
    for (one, second) in all(&first.kernel) {
        for (two, third) in all(&second) {
            three_stood |= third.clone().standing().unwrap().len() == Table::ALL.len();
            for (three, fourth) in all(&third) {
                assert_ne!(in_force(&fourth), [], "after {one}, {two} and {three} calls");
            }
        }
    }
    assert!(three_stood);
}

#[test]
fn what_a_replacement_left_beside_that_failed_is_taken_away_by_a_check() {
    let mut left = 0;
    for calls in 0..12 {
        let mut agent = agent();
        agent.take(&[80]).unwrap();
        // A map has no room: the table is replaced.
        let full = Fault::Before(refused(Errno::ENFILE));
        agent.fail([full].into_iter().chain(ends_after(calls, refused(Errno::ENOMEM))));
        let applied = agent.take(&[80, 81]);
        agent.kernel.forgive();
        left += usize::from(agent.kernel.standing().unwrap() != [Table::Own]);
        agent.check().unwrap();
        agent.take(&[80]).unwrap();
        assert_eq!(agent.kernel.standing(), Ok(vec![Table::Own]), "{calls} calls: {applied:?}");
        agent.assert_holds(&[80]);
    }
    assert!(left > 0);
}

/// Anybody may have opened something under what was in force and is not known.
#[test]
fn whether_a_change_was_built_on_what_is_known_is_told() {
    let mut agent = agent();
    agent.take(&[80]).unwrap();
    assert_eq!(agent.own.built(), Built::OnUnknown);
    agent.take(&[80, 81]).unwrap();
    assert_eq!(agent.own.built(), Built::OnKnown);
    // It ends half-way.
    agent.fail(ends_after(2, refused(Errno::ENOMEM)));
    assert_eq!(agent.take(&[82]), Err(AgentError::NotKnown(refused(Errno::ENOMEM))));
    assert!(matches!(agent.take(&[80, 81]), Ok(Applied::Changed(_))));
    assert_eq!(agent.own.built(), Built::OnUnknown);
    // Somebody has changed it, and nobody has noticed.
    agent.meddle(vec![Change::DeleteTable]);
    agent.take(&[83]).unwrap();
    assert_eq!(agent.own.built(), Built::OnUnknown);
    agent.assert_holds(&[83]);
}
