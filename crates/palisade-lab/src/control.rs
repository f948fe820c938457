//! How the commands talk to a lab that is up: one line of JSON as the request, lines of JSON as the answer.
//!
//! The process of the lab renders; whoever asked prints. The socket is an abstract one of the host's network namespace: it has no file that could be
//! left behind. Only root is answered.

use std::io::{self, BufRead as _, BufReader};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use palisade_agent::{Holder, LockError, bind, holder};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::lab::Progress;

/// Longer than any request.
const LINE: u64 = 1 << 20;
/// How long somebody may take to say what they want.
const PATIENCE: Duration = Duration::from_secs(10);

/// What can be asked of a lab that is up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    Status {
        output: Output,
    },
    /// All pairs, or one.
    Probe {
        one: Option<ProbeRequest>,
        output: Output,
    },
    /// Connections, one by one.
    Told {
        what: Wanted,
        follow: bool,
        output: Output,
    },
    /// What audited policies would have done, of one set or of each.
    AuditReport {
        set: Option<String>,
        output: Output,
    },
    /// What each rule has counted.
    Counted,
    /// What the agents have counted.
    Metrics {
        form: MetricsForm,
    },
    /// Whether the kernels of all nodes, or of one, do what policy says.
    Verify {
        node: Option<String>,
        repair: bool,
        output: Output,
    },
    /// The namespace of a pod, a node or the outside, as a path.
    Where {
        of: String,
    },
    Down,
}

/// Which connections are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wanted {
    /// Those that were denied, and those that a change ended.
    Denied,
    /// Those that were accepted where policies asked to have that logged.
    Accepted,
    /// Those that audited policies would treat otherwise.
    Would,
}

/// One connection to try, as people write it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeRequest {
    pub from: String,
    pub to: String,
    pub protocol: String,
    pub port: Option<String>,
}

/// Text for people or JSON for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    Text,
    Json,
}

/// How numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MetricsForm {
    Text,
    Json,
    /// As Prometheus reads them.
    Prometheus,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Frame {
    Out(String),
    Err(String),
    Namespace(PathBuf),
    /// How far a lab is that is being built.
    Progress(Progress),
    /// The last one.
    Exit(u8),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("no lab `{0}` is up")]
    NoLab(String),
    #[error("the lab closed the connection")]
    Closed,
    #[error("the lab cannot be talked to: {0}")]
    Io(#[from] io::Error),
}

/// The door of a lab: taken before anything is built, so that two never build at once.
#[derive(Debug)]
pub struct Door {
    listener: UnixListener,
}

/// The name of a lab's socket.
fn socket_name(lab: &str) -> String {
    format!("palisade-lab-{lab}")
}

impl Door {
    /// Takes the name of a lab, or says which process has it.
    pub fn take(lab: &str) -> Result<Door, LockError> {
        bind(&socket_name(lab)).map(|listener| Door { listener })
    }

    /// Answers whoever asks, each in a thread of its own, until the process ends.
    pub fn serve(self, answer: impl Fn(Request, &mut dyn FnMut(Frame) -> io::Result<()>) -> io::Result<()> + Send + Sync + 'static) {
        let answer = Arc::new(answer);
        for stream in self.listener.incoming() {
            let Ok(stream) = stream else { continue };
            let answer = Arc::clone(&answer);
            // Who asked and left, or could not be understood, has nobody to tell.
            std::thread::spawn(move || holder(&stream).and_then(|asker| converse(&stream, &asker, &*answer)).ok());
        }
    }
}

/// Whoever asks is heard before they are answered: what is said to somebody who still speaks may be lost when the stream is closed.
fn converse(
    stream: &UnixStream,
    asker: &Holder,
    answer: &(impl Fn(Request, &mut dyn FnMut(Frame) -> io::Result<()>) -> io::Result<()> + ?Sized),
) -> io::Result<()> {
    let mut say = |frame: Frame| write_line(stream, &frame);
    stream.set_read_timeout(Some(PATIENCE))?;
    match (read_line(&mut BufReader::new(stream), LINE), asker.user) {
        (Ok(None), _) => Ok(()),
        (Ok(Some(_)) | Err(_), 1..) => {
            say(Frame::Err("only root may ask a lab\n".to_owned()))?;
            say(Frame::Exit(2))
        }
        (Ok(Some(request)), 0) => answer(request, &mut say),
        (Err(error), 0) => Err(error),
    }
}

/// Asks a lab that is up, and gives each part of the answer as it comes. Returns how to exit.
pub fn ask(lab: &str, request: &Request, mut take: impl FnMut(Frame) -> io::Result<()>) -> Result<u8, AskError> {
    let stream = connect(lab)?;
    write_line(&stream, request).map_err(of_conversation)?;
    let mut lines = BufReader::new(&stream);
    while let Some(frame) = read_line(&mut lines, u64::MAX).map_err(of_conversation)? {
        match frame {
            Frame::Exit(code) => return Ok(code),
            frame @ (Frame::Out(_) | Frame::Err(_) | Frame::Namespace(_) | Frame::Progress(_)) => take(frame)?,
        }
    }
    Err(AskError::Closed)
}

/// An error of the stream itself. Who takes the frames may meet a broken pipe, too, and that is another one.
fn of_conversation(error: io::Error) -> AskError {
    let closed = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset, io::ErrorKind::UnexpectedEof];
    if closed.contains(&error.kind()) { AskError::Closed } else { AskError::Io(error) }
}

/// The process of a lab that is up.
pub fn process(lab: &str) -> Result<Holder, AskError> {
    Ok(holder(&connect(lab)?)?)
}

fn connect(lab: &str) -> Result<UnixStream, AskError> {
    let address = SocketAddr::from_abstract_name(socket_name(lab))?;
    UnixStream::connect_addr(&address).map_err(|error| {
        let nobody = [io::ErrorKind::ConnectionRefused, io::ErrorKind::NotFound].contains(&error.kind());
        if nobody { AskError::NoLab(lab.to_owned()) } else { AskError::Io(error) }
    })
}

/// Writes a value as one line.
pub fn write_line(mut to: impl io::Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Reads a value that stands in one line; None at the end.
pub fn read_line<T: DeserializeOwned>(lines: &mut impl io::BufRead, limit: u64) -> io::Result<Option<T>> {
    let mut line = String::new();
    let length = io::Read::take(&mut *lines, limit).read_line(&mut line)?;
    if length == 0 { Ok(None) } else { Ok(Some(serde_json::from_str(&line)?)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: Request = Request::Status { output: Output::Text };

    /// All that somebody hears who asks this, or leaves without a word.
    fn check(user: u32, asked: Option<&Request>, expected: &[Frame]) {
        let (client, server) = UnixStream::pair().unwrap();
        asked.iter().for_each(|it| write_line(&client, it).unwrap());
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let asker = Holder { pid: 1, user, command: String::new() };
        converse(&server, &asker, &|_, say| say(Frame::Exit(0))).unwrap();
        drop(server);
        let mut lines = BufReader::new(&client);
        let heard: Vec<Frame> = std::iter::from_fn(|| read_line(&mut lines, LINE).unwrap()).collect();
        assert_eq!(heard, expected);
    }

    #[test]
    fn whoever_asks_is_heard_before_they_are_answered() {
        let refused = [Frame::Err("only root may ask a lab\n".to_owned()), Frame::Exit(2)];
        check(0, Some(&STATUS), &[Frame::Exit(0)]);
        check(1000, Some(&STATUS), &refused);
        check(0, None, &[]);
        check(1000, None, &[]);
    }
}
