//! `MockApi` is not an API server. It is a mock that says over HTTP what a test tells it to say, because no API
//! server can run inside a unit test. What it is told to say was copied from what real ones say.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

/// More requests than any test makes; then the mock falls silent.
const REQUESTS: usize = 100;

/// An HTTP status and a body.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    code: u16,
    body: String,
}

/// A page of a list; `next` is its continue token.
pub(crate) fn page(items: &[Value], next: &str) -> Reply {
    let list = json!({ "kind": "List", "apiVersion": "v1", "metadata": { "continue": next }, "items": items });
    Reply { code: 200, body: list.to_string() }
}

/// A whole list.
pub(crate) fn list(items: &[Value]) -> Reply {
    page(items, "")
}

/// An error as the API server words it.
pub(crate) fn status(code: u16, message: &str) -> Reply {
    let status = json!({ "kind": "Status", "status": "Failure", "message": message, "code": code });
    Reply { code, body: status.to_string() }
}

/// Anything else.
pub(crate) fn raw(code: u16, body: &str) -> Reply {
    Reply { code, body: body.to_owned() }
}

/// A mock of the API server, gone when dropped.
#[derive(Debug)]
pub(crate) struct MockApi {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl MockApi {
    /// Answers each path with its replies in turn, the last one for ever; every other path with `otherwise`.
    pub(crate) fn start(otherwise: Reply, routes: &[(&str, &[Reply])]) -> MockApi {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        let mut routes: BTreeMap<String, VecDeque<Reply>> =
            routes.iter().map(|(path, replies)| ((*path).to_owned(), replies.iter().cloned().collect())).collect();
        let thread = std::thread::spawn(move || {
            for _ in 0..REQUESTS {
                let (stream, _) = listener.accept().unwrap();
                let Some(target) = request(&stream) else { continue };
                if target == "/stop" {
                    return;
                }
                let path = target.split('?').next().unwrap();
                let reply = match routes.get_mut(path) {
                    Some(replies) if replies.len() > 1 => replies.pop_front().unwrap(),
                    Some(replies) => replies.front().unwrap().clone(),
                    None => otherwise.clone(),
                };
                log.lock().unwrap().push(target);
                respond(stream, &reply);
            }
        });
        MockApi { address, requests, thread: Some(thread) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The target of every request so far that begins with `path`.
    pub(crate) fn requests(&self, path: &str) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|target| target.starts_with(path)).cloned().collect()
    }
}

impl Drop for MockApi {
    fn drop(&mut self) {
        if let Ok(mut stream) = TcpStream::connect(self.address) {
            drop(stream.write_all(b"GET /stop HTTP/1.1\r\n\r\n"));
        }
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// The target of a GET; nothing when what came is no such request.
fn request(stream: &TcpStream) -> Option<String> {
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    let target = first.strip_prefix("GET ")?.split(' ').next()?.to_owned();
    let rest = lines.map_while(Result::ok).take_while(|line| !line.is_empty());
    (rest.count() < 100).then_some(target)
}

fn respond(mut stream: TcpStream, Reply { code, body }: &Reply) {
    let head =
        format!("HTTP/1.1 {code} Mock\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    // A client that has gone away has made up its mind.
    drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())));
}
