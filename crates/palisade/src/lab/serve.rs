//! The process of a lab: builds it, says so, and answers until it is told to end.

use std::io::stdout;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use anyhow::Result;
use palisade_agent::{Checked, Event, LockError};
use palisade_kernel::{KernelError, Namespace};
use palisade_lab::control::{Door, Frame, write_line};
use palisade_lab::{Families, Lab, NodeEvent, Nodes, Options, PodNetwork, WhileUnknown, plan};
use palisade_report::{lab_text, text};

use crate::command_output::CommandOutput;
use crate::demo;
use crate::input::{self, Scope};
use crate::lab::args::WhileUnknownArg;
use crate::lab::history::{Entry, History, Since};
use crate::lab::server::{Server, Told};
use crate::lab::up::Bar;
use crate::lab::watch::Look;
use crate::lab::{UpArgs, named};
use crate::printer::Printer;

/// How often files are looked at, with `--watch`.
const LOOK: Duration = Duration::from_millis(250);

/// Whom the process talks to while it builds.
pub(crate) struct Voice<'a> {
    frames: bool,
    printer: Printer,
    bar: &'a Bar,
}

impl Voice<'_> {
    fn say(&self, frame: &Frame) -> Result<()> {
        if self.frames {
            return Ok(write_line(stdout().lock(), frame)?);
        }
        match frame {
            Frame::Out(text) => Ok(self.printer.out(text)?),
            Frame::Err(text) => Ok(self.printer.err(text)?),
            Frame::Progress(progress) => {
                self.bar.show(progress);
                Ok(())
            }
            Frame::Namespace(_) | Frame::Exit(_) => Ok(()),
        }
    }

    /// Says why there is no lab.
    fn give_up(&self, stdout: String, stderr: String) -> Result<CommandOutput> {
        let output = CommandOutput { stdout, ..CommandOutput::could_not_tell(stderr) };
        if !self.frames {
            return Ok(output);
        }
        self.say(&Frame::Err(output.stderr))?;
        self.say(&Frame::Out(output.stdout))?;
        self.say(&Frame::Exit(output.outcome.code()))?;
        Ok(CommandOutput::exited(output.outcome))
    }
}

pub(crate) fn run(args: &UpArgs, printer: Printer) -> Result<CommandOutput> {
    let bar = Bar::new();
    let voice = Voice { frames: args.frames, printer, bar: &bar };
    match built(args, &voice) {
        Ok(outcome) => Ok(outcome),
        Err(error) => voice.give_up(String::new(), format!("error: {error:#}\n")),
    }
}

fn built(args: &UpArgs, voice: &Voice<'_>) -> Result<CommandOutput> {
    if args.frames {
        // A process of its own, which no terminal takes along when it closes.
        nix::unistd::setsid()?;
    }
    if args.watch && args.input.filename.iter().any(|it| it == "-") {
        return voice.give_up(String::new(), "error: --watch follows files and folders; standard input cannot change\n".to_owned());
    }
    let input = input::cluster(&args.input, Scope::Any)?;
    if input.refused() {
        let help = "error: the lab was not built: mend the errors above first\n";
        return voice.give_up(String::new(), format!("{}{help}", text::diagnostics(&input.diagnostics())));
    }
    if let Err(KernelError::NoPermission) = Namespace::create() {
        return voice.give_up(demo::decided(&input)?, NO_ROOT.to_owned());
    }
    let door = match Door::take(&args.lab.name) {
        Ok(door) => door,
        Err(LockError::Held { holder, .. }) => {
            let name = &args.lab.name;
            let text = format!(
                "error: lab `{name}` is up already: process {holder}\n  `palisade lab down{}` ends it; `--name` makes another beside it\n",
                named(name)
            );
            return voice.give_up(String::new(), text);
        }
        Err(error @ (LockError::Io { .. } | LockError::HeldBySomebody { .. })) => return Err(error.into()),
    };
    voice.say(&Frame::Err(text::diagnostics(&input.diagnostics())))?;
    let options = options(args);
    let (events, heard) = channel();
    let established = args.established.into();
    let (lab, notes) = Lab::up_with(plan(&input.snapshot.model, &options)?, established, events, |progress| {
        // A reader that is gone does not stop the lab.
        drop(voice.say(&Frame::Progress(progress)));
    })?;
    voice.bar.clear();
    let history = Arc::new(History::default());
    notes.into_iter().for_each(|it| history.push(Entry::Note(format!("note: {it}"))));
    let (end, ended) = channel();
    let server = Arc::new(Server::new(args, options, (lab, input.snapshot), Arc::clone(&history), end));
    start(args, &server, heard, door)?;
    let status = server.status();
    let hint = match named(&args.lab.name).as_str() {
        "" => "  palisade lab probe | exec POD -- COMMAND | denied | status | down\n".to_owned(),
        name => format!("  palisade lab probe | exec POD -- COMMAND | denied | status | down, each with{name}\n"),
    };
    let up = format!("lab {} is up: {}\n{hint}", args.lab.name, lab_text::summary(&status));
    voice.say(&Frame::Out(up))?;
    voice.say(&Frame::Exit(0))?;
    if args.frames {
        let_go()?;
        // The door is open until somebody comes to end it.
        ended.recv().ok();
    } else {
        follow(&history, voice.printer, &ended)?;
    }
    // What is still being said by other threads does not keep the process.
    std::process::exit(0)
}

const NO_ROOT: &str =
    "a lab needs root: it makes network namespaces and writes nftables in them. Without packets, this is what policy decides:\n";

/// What somebody did to a table.
fn did(checked: Checked) -> &'static str {
    match checked {
        Checked::WasRemoved => "removed",
        Checked::WasChanged | Checked::Intact | Checked::NothingWanted => "changed",
    }
}

fn options(args: &UpArgs) -> Options {
    Options {
        nodes: args.nodes.map_or(Nodes::AsRead, Nodes::Own),
        families: if args.ipv6 { Families::Both } else { Families::AsRead },
        network: if args.bridged { PodNetwork::Bridged } else { PodNetwork::Routed },
        unknown: match args.unknown {
            WhileUnknownArg::Closed => {
                WhileUnknown::Closed { ranges: args.pod_cidr.clone(), exempt: args.exempt.iter().copied().collect() }
            }
            WhileUnknownArg::Open => WhileUnknown::Open,
        },
    }
}

/// Starts what goes on beside: hearing the nodes, following the files, answering.
fn start(args: &UpArgs, server: &Arc<Server>, heard: std::sync::mpsc::Receiver<NodeEvent>, door: Door) -> Result<()> {
    let hearing = Arc::clone(server);
    spawn("events", move || heard.into_iter().for_each(|it| hear(&hearing, it)))?;
    if args.watch {
        let (watching, names) = (Arc::clone(server), args.input.filename.clone());
        spawn("watch", move || watch(&watching, &names))?;
    }
    let answering = Arc::clone(server);
    spawn("door", move || door.serve(move |request, say| answering.answer(request, say)))
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
    Ok(())
}

/// Gives the terminal back to whoever started this.
fn let_go() -> Result<()> {
    let nothing = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    nix::unistd::dup2_stdin(&nothing)?;
    nix::unistd::dup2_stdout(&nothing)?;
    nix::unistd::dup2_stderr(&nothing)?;
    Ok(())
}

fn hear(server: &Server, NodeEvent { node, event }: NodeEvent) {
    let entry = match event {
        Event::Denied(denial) => Entry::Denied(Box::new(denial.report())),
        // Counted by its node.
        Event::DeniedAgain(_) => return,
        Event::Suppressed { by, connections } => Entry::Suppressed { node: node.to_string(), by: by.sentence(), connections },
        Event::Accepted(it) => Entry::Accepted(Box::new(it.report())),
        Event::AcceptedMore { by, connections } => Entry::AcceptedMore { node: node.to_string(), by: by.sentence(), connections },
        Event::Would(told) => Entry::Would(Box::new(told.report())),
        Event::WouldMore { would, connections } => Entry::WouldMore { node: node.to_string(), set: would.set.to_string(), connections },
        Event::Lost(packets) => Entry::Lost { node: node.to_string(), packets },
        Event::Restored { checked, by } => Entry::Note(format!("node {node}: {by} {} the table; it was put back", did(checked))),
        Event::Bypassed(finding) => Entry::Note(format!("node {node}: unenforceable[{}]: {}", finding.name, finding.sentence)),
        Event::Cut(cuts) => {
            cuts.told.iter().for_each(|it| server.history.push(Entry::Cut(Box::new(it.report(&node)))));
            match cuts.others() {
                0 => return,
                others => Entry::Note(format!("node {node}: {others} more connections were cut")),
            }
        }
        Event::Noticed(notice) => Entry::Note(format!("node {node}: {notice}")),
        Event::Failed(error) => Entry::Note(format!("node {node}: {error}")),
    };
    server.history.push(entry);
}

/// Follows the files for as long as the process lives.
fn watch(server: &Server, names: &[String]) {
    let mut seen = Look::at(names);
    let mut last = seen.clone();
    loop {
        std::thread::sleep(LOOK);
        let now = Look::at(names);
        // Whoever writes a file may not be done, and one that is cut short has fewer policies: only what has come to rest is read.
        let rests = now == last;
        last = now.clone();
        if now == seen || !rests {
            continue;
        }
        seen = now;
        let told = match server.reread() {
            Ok(Told::Applied) => "the files changed; the lab is as they say".to_owned(),
            Ok(Told::Refused(why)) => format!("the files changed, but the lab stays as it was: {why}"),
            Err(error) => format!("the files changed, but the lab may be anything between: {error:#}"),
        };
        server.history.push(Entry::Note(told));
    }
}

/// Prints what happens until the lab ends.
fn follow(history: &History, printer: Printer, ended: &std::sync::mpsc::Receiver<()>) -> Result<()> {
    let mut place = 0;
    while ended.try_recv().is_err() {
        let Since { entries, next, .. } = history.since(place, Duration::from_millis(200));
        place = next;
        for entry in entries {
            match &entry {
                Entry::Denied(denial) => printer.out(&text::denial(denial))?,
                Entry::Cut(cut) => printer.out(&text::cut(cut))?,
                Entry::Accepted(it) => printer.out(&text::acceptance(it))?,
                Entry::Would(would) => printer.out(&text::would(would))?,
                Entry::Suppressed { .. } | Entry::AcceptedMore { .. } | Entry::WouldMore { .. } | Entry::Lost { .. } | Entry::Note(_) => {
                    printer.err(&entry.aside().unwrap_or_default())?
                }
            }
        }
    }
    Ok(())
}

/// Ends the process, once.
pub(crate) type End = Sender<()>;

/// What a lab is built from, for the next time.
pub(crate) fn reread(args: &crate::cli::InputArgs) -> Result<palisade_app::Cluster> {
    input::cluster(args, Scope::Any)
}
