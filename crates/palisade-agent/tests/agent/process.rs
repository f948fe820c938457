//! Agents that are processes of their own, with nothing but the kernel to go by, and with too little memory.

use std::net::UdpSocket;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use palisade_agent::{Agent, Applied, Attention, Checked, Running};
use palisade_kernel::{Kernel as _, Namespace, Nftables};
use palisade_model::NodeId;

use crate::ground::{Ground, NODE, links, model_of, say, with_others};
use crate::traffic::{OPEN, PATIENCE, Place, Traffic, traffic};

/// Set for a process that is to be an agent: the path of its namespace, and how many bytes more it may have than it starts with.
const CHILD: &str = "PALISADE_AGENT_CHILD";
/// What it says before its answer.
const ANSWER: &str = "answer: ";

/// Runs a test of this file again, as an agent in the node of a ground.
fn child(ground: &Ground, test: &str, more: Option<u64>) -> Output {
    // A folder that is gone: whoever wants to keep something has no place for it.
    let folder = tempfile::tempdir().unwrap();
    let namespace = format!("/proc/{}/fd/{}", std::process::id(), ground.node.as_fd().as_raw_fd());
    let words = format!("{namespace} {}", more.map_or(String::new(), |it| it.to_string()));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("process::{test}"), "--nocapture"]).env_clear().env(CHILD, words).current_dir(folder.path());
    let spawned = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(folder);
    spawned.wait_with_output().unwrap()
}

fn answer(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find_map(|it| it.split_once(ANSWER).map(|(_, answer)| answer.to_owned()))
}

/// What a child was told.
fn told() -> Option<(Namespace, Option<u64>)> {
    let words = std::env::var(CHILD).ok()?;
    let (namespace, more) = words.split_once(' ').unwrap();
    Some((Namespace::open(std::path::Path::new(namespace)).unwrap(), more.parse().ok()))
}

#[expect(clippy::print_stdout, reason = "the process that started this one reads it")]
fn say_answer(text: &str) {
    println!("{ANSWER}{text}");
}

/// There is no state but the table: what is lost with every file of the machine is nothing.
#[test]
fn an_agent_with_nothing_but_the_kernel_finds_everything_as_it_was() {
    if let Some((namespace, _)) = told() {
        // Whoever writes a byte to a file is ended by the system (SIGXFSZ).
        setrlimit(Resource::RLIMIT_FSIZE, 0, 0).unwrap();
        let running = Running::start(&namespace, Attention::Packets, |_| {}).unwrap();
        let first = running.apply(&Arc::new(with_others(model_of("UDP", &[OPEN, 82]), 30)), NodeId(0), links()).unwrap();
        let found = running.counts().commits;
        let second = running.apply(&Arc::new(with_others(model_of("UDP", &[OPEN, 83]), 40)), NodeId(0), links()).unwrap();
        say_answer(&format!("{first:?} by {found} commits, {}", matches!(second, Applied::Changed(_))));
        return;
    }
    let Some(ground) = Ground::create() else { return };
    let (running, _) = ground.start().unwrap();
    // In another order than the numbers would be given to what is left in the end.
    for (ports, others) in [(&[90, 91][..], 3), (&[OPEN], 50), (&[82], 10), (&[OPEN, 82], 30)] {
        running.apply(&Arc::new(with_others(model_of("UDP", ports), others)), NodeId(0), links()).unwrap();
    }
    drop(running);
    let generation = || ground.node.run(|| Nftables::open().unwrap().generation().unwrap()).unwrap();
    let (before, table) = (generation(), ground.table());
    // Whoever comes next plans nothing, so the numbers are those of before.
    let mut agent = Agent::new(ground.node.run(|| Nftables::open().unwrap()).unwrap());
    assert_eq!(agent.apply(&with_others(model_of("UDP", &[OPEN, 82]), 30), NodeId(0), links()), Ok(Applied::Unchanged));
    assert_eq!((agent.counts().commits, generation(), ground.table()), (0, before, table));
    let output = child(&ground, "an_agent_with_nothing_but_the_kernel_finds_everything_as_it_was", None);
    assert_eq!(answer(&output).as_deref(), Some("Unchanged by 0 commits, true"), "{output:?}");
    let mut agent = Agent::new(ground.node.run(|| Nftables::open().unwrap()).unwrap());
    assert_eq!(agent.apply(&with_others(model_of("UDP", &[OPEN, 83]), 40), NodeId(0), links()), Ok(Applied::Unchanged));
}

/// A process that gets no memory is aborted wherever it is: for the node that is a crash like any other.
#[test]
fn an_agent_that_runs_out_of_memory_leaves_no_gap() {
    const OTHERS: u32 = 3_000;
    const STEP: u64 = 64 * 1_024;
    let wanted = || with_others(model_of("UDP", &[OPEN, 82]), OTHERS);
    if let Some((namespace, more)) = told() {
        let mut agent = Agent::new(namespace.run(|| Nftables::open().unwrap()).unwrap());
        let model = wanted();
        // Address space is set aside long before it is used; this limit is met by what is.
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let data = status.lines().find_map(|it| it.strip_prefix("VmData:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap();
        let (_, most) = getrlimit(Resource::RLIMIT_DATA).unwrap();
        setrlimit(Resource::RLIMIT_DATA, data * 1_024 + more.unwrap(), most).unwrap();
        let applied = agent.apply(&model, NodeId(0), links()).unwrap();
        say_answer(&format!("{applied:?}"));
        return;
    }
    let Some(ground) = Ground::create() else { return };
    let open = || ground.node.run(|| Nftables::open().unwrap()).unwrap();
    Agent::new(open()).apply(&model_of("UDP", &[OPEN]), NodeId(0), links()).unwrap();
    let sender = ground.pod.run(|| UdpSocket::bind(("0.0.0.0", 0)).unwrap()).unwrap();
    let places = [Place::of(&ground.node, NODE, PATIENCE)];
    let stop = AtomicBool::new(false);
    let generation = || open().generation().unwrap();
    let (traffic, (aborted, amid, done)): (Traffic, (usize, usize, u64)) = std::thread::scope(|scope| {
        let thread = scope.spawn(|| traffic(&sender, &places, &stop));
        let (mut aborted, mut amid) = (0, 0);
        // From next to nothing up to enough, which is reached in steps that some die between two commits of.
        let done = (0..2_000).map(|it| it * STEP).find(|more| {
            let before = generation();
            let output = child(&ground, "an_agent_that_runs_out_of_memory_leaves_no_gap", Some(*more));
            match (output.status.signal(), answer(&output)) {
                (None, Some(_)) => true,
                (signal, None) => {
                    assert_eq!(signal, Some(Signal::SIGABRT as i32), "{more}: {output:?}");
                    aborted += 1;
                    amid += usize::from(generation() != before);
                    false
                }
                (Some(_), Some(_)) => panic!("{more}: {output:?}"),
            }
        });
        stop.store(true, Ordering::Relaxed);
        (thread.join().unwrap(), (aborted, amid, done.unwrap()))
    });
    say(&format!("{aborted} were aborted, {amid} of them after a commit, and one had enough with {done} bytes more: {traffic:?}"));
    assert!(aborted > 2, "{aborted}");
    assert_eq!((traffic.lost, traffic.delivered), (0, 0), "{traffic:?}");
    let mut agent = Agent::new(open());
    assert_eq!(agent.apply(&wanted(), NodeId(0), links()), Ok(Applied::Unchanged));
    assert_eq!((agent.check(), agent.kernel().standing().unwrap().len()), (Ok(Checked::Intact), 1));
}
