//! Other agents of a namespace, agents that were killed, and agents without rights.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use palisade_agent::{Applied, Attention, Running};
use palisade_kernel::{Kernel as _, Namespace, Nftables};
use palisade_nft::Table;

use crate::ground::{Ground, apply, say};

/// Set for a process that is to be an agent itself.
const CHILD: &str = "PALISADE_AGENT_CHILD";
const ROOT: u32 = 0;
const NOBODY: u32 = 65534;
/// What it says when it is.
const STARTED: &str = "child: started";

#[test]
fn a_second_agent_is_refused_and_told_of_the_first() {
    let Some(ground) = Ground::create() else { return };
    let (first, _) = ground.start().unwrap();
    let command = std::fs::read("/proc/self/cmdline").unwrap();
    let words: Vec<&[u8]> = command.split(|it| *it == 0).filter(|it| !it.is_empty()).collect();
    let expected =
        format!("`palisade-agent` is held by process {} (`{}`)", std::process::id(), String::from_utf8(words.join(&b' ')).unwrap());
    // More often than the kernel lets wait in a queue that nobody looks at.
    for _ in 0..5_000 {
        assert_eq!(ground.start().unwrap_err().to_string(), expected);
    }
    // The first is none the worse for it.
    assert_eq!(apply(&first, &[80]), Applied::Loaded);
    let Some(elsewhere) = Ground::create() else { return };
    elsewhere.start().unwrap();
    drop(first);
    ground.start().unwrap();
}

#[test]
fn after_an_agent_was_killed_the_next_takes_over() {
    if be_a_child() {
        return;
    }
    let Some(ground) = Ground::create() else { return };
    let mut child = try_spawn(&ground, ROOT, &[], "after_an_agent_was_killed_the_next_takes_over").unwrap();
    assert_eq!(child.first_word(), STARTED);
    let left = ground.table();
    let error = ground.start().unwrap_err().to_string();
    let named = format!("`palisade-agent` is held by process {} (`", child.0.id());
    assert!(error.starts_with(&named) && error.ends_with("--nocapture`)"), "{error}");
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    // Policy stays in force between.
    assert_eq!(ground.table(), left);
    let (agent, _) = ground.start().unwrap();
    assert_eq!(ground.table(), left);
    // Every number in it is the same.
    assert_eq!(apply(&agent, &[80]), Applied::Unchanged);
    assert!(matches!(apply(&agent, &[80, 81]), Applied::Changed(_)));
}

#[test]
fn without_the_capability_one_sentence_says_what_is_missing() {
    if be_a_child() {
        return;
    }
    let Some(ground) = Ground::create() else { return };
    let sentence = "child: no permission: this needs the capability CAP_NET_ADMIN in the network namespace, \
                    and CAP_SYS_ADMIN to make or enter another";
    let name = "without_the_capability_one_sentence_says_what_is_missing";
    let without = &["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin"][..];
    for (user, by) in [(NOBODY, &[][..]), (ROOT, without)] {
        if let Some(mut child) = try_spawn(&ground, user, by, name) {
            assert_eq!(child.first_word(), sentence, "user {user} {by:?}");
        }
    }
    assert_eq!(ground.node.run(|| Nftables::open().unwrap().exists(Table::Own)).unwrap(), Ok(false));
}

/// In its own namespace an agent needs no more than that.
#[test]
fn the_one_capability_is_enough() {
    if be_a_child() {
        return;
    }
    let Some(ground) = Ground::create() else { return };
    let only = ["setpriv", "--bounding-set", "-all,+net_admin", "--inh-caps", "-all,+net_admin"];
    if let Some(mut child) = try_spawn(&ground, ROOT, &only, "the_one_capability_is_enough") {
        assert_eq!(child.first_word(), STARTED);
        assert!(ground.table().contains("hook forward"));
    }
}

/// In a child: an agent that lives until its input ends, or a word about why there is none.
#[expect(clippy::print_stdout, reason = "this is how a child tells its parent")]
fn be_a_child() -> bool {
    if std::env::var_os(CHILD).is_none() {
        return false;
    }
    let started = Namespace::current().map_err(Into::into).and_then(|it| Running::start(&it, Attention::Packets, |_| {}));
    // The test's own line may have no end yet.
    println!();
    match started {
        Ok(agent) => {
            assert_eq!(apply(&agent, &[80]), Applied::Loaded);
            println!("{STARTED}");
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        }
        Err(error) => println!("child: {error}"),
    }
    true
}

/// A process that ends with its handle.
struct Own(Child);

impl Own {
    /// The first line that it says for its parent.
    fn first_word(&mut self) -> String {
        let lines = BufReader::new(self.0.stdout.take().unwrap()).lines();
        lines.map_while(Result::ok).find(|it| it.starts_with("child: ")).unwrap_or_default()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// This test again, as a process on the node. None, and a word about it, if what should start it is missing.
fn try_spawn(ground: &Ground, user: u32, by: &[&str], test: &str) -> Option<Own> {
    let own = std::env::current_exe().unwrap();
    let mut command = match by.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments).arg(own);
            command
        }
        None => Command::new(own),
    };
    command.args(["--exact", &format!("instances::{test}"), "--nocapture"]).env(CHILD, "1").current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).uid(user).gid(user);
    match ground.node.run(|| command.spawn()).unwrap() {
        Ok(child) => Some(Own(child)),
        Err(error) => {
            say(&format!("skipped: no process of user {user} by {by:?}: {error}"));
            None
        }
    }
}
