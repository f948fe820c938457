//! One resource, page by page.

use std::time::Duration;

use kube::Client;
use kube::api::ListParams;
use kube::client::Body;
use kube::core::Request;
use palisade_k8s::LiveObject;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::LiveError;
use super::error::{Used, answer, refused, unreachable};
use super::resource::Resource;

const PAGE_SIZE: u32 = 500;
/// Half a thousand million objects: reached only by a server that never ends its list.
const PAGES: u32 = 1_000_000;
/// How often a list whose continue token went stale is begun again.
const RESTARTS: u32 = 4;
/// The pauses before a busy server is asked again.
const PAUSES: [Duration; 3] = [Duration::from_millis(200), Duration::from_millis(800), Duration::from_millis(3200)];
/// For one page as a whole, beyond the limits on connecting and on silence.
const PAGE_DEADLINE: Duration = Duration::from_secs(180);

/// What came of listing a resource.
#[derive(Debug)]
pub(super) enum Listing {
    /// Every object of it.
    Items(Vec<LiveObject>),
    /// 403.
    Forbidden,
    /// 404.
    NotFound,
}

/// Why a resource could not be listed at all.
#[derive(Debug)]
pub(super) enum Failure {
    Client(kube::Error),
    Deadline,
    Status { code: u16, message: String },
    Answer(&'static str),
}

/// What one request came to.
enum Answer {
    Page { items: Vec<LiveObject>, next: Option<String> },
    Status { code: u16, message: String },
}

/// Reads one object of a list, as soon as its page arrives.
pub(super) type Read<'r> = &'r dyn Fn(&str) -> LiveObject;

/// The JSON of a page. Its items are read one by one, so that one that cannot be read does not hide the others.
#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: Value,
    #[serde(borrow)]
    items: &'a RawValue,
}

/// Lists every object at a path. SPEC:
/// <https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks>
pub(super) async fn list(client: &Client, path: &str, read: Read<'_>) -> Result<Listing, Failure> {
    let mut restarts = 0;
    let mut items = Vec::new();
    let mut token = None;
    for _ in 0..PAGES {
        match patient(client, path, token.as_deref(), read).await? {
            Answer::Page { items: more, next } => {
                items.extend(more);
                match next {
                    None => return Ok(Listing::Items(items)),
                    next if next == token => return Err(Failure::Answer("the same page twice")),
                    next => token = next,
                }
            }
            // What was read so far belongs to a state that the server has forgotten: the rest would not fit it.
            Answer::Status { code: 410, .. } if token.is_some() && restarts < RESTARTS => {
                restarts += 1;
                items.clear();
                token = None;
            }
            Answer::Status { code: 403, .. } => return Ok(Listing::Forbidden),
            Answer::Status { code: 404, .. } => return Ok(Listing::NotFound),
            Answer::Status { code, message } => return Err(Failure::Status { code, message }),
        }
    }
    Err(Failure::Answer("a list that never ends"))
}

/// One page, asked for again while the server says that it is busy.
async fn patient(client: &Client, path: &str, token: Option<&str>, read: Read<'_>) -> Result<Answer, Failure> {
    for pause in PAUSES {
        match request(client, path, token, read).await? {
            Answer::Status { code: 429 | 503 | 504, .. } => tokio::time::sleep(pause).await,
            answer @ (Answer::Page { .. } | Answer::Status { .. }) => return Ok(answer),
        }
    }
    request(client, path, token, read).await
}

async fn request(client: &Client, path: &str, token: Option<&str>, read: Read<'_>) -> Result<Answer, Failure> {
    let mut params = ListParams::default().limit(PAGE_SIZE);
    params.continue_token = token.map(str::to_owned);
    let request = Request::new(path).list(&params).map_err(kube::Error::BuildRequest);
    let exchange = async {
        let response = client.send(request?.map(Body::from)).await?;
        let code = response.status().as_u16();
        Ok((code, response.into_body().collect_bytes().await?))
    };
    let (code, body) = match tokio::time::timeout(PAGE_DEADLINE, exchange).await {
        Ok(answered) => answered.map_err(Failure::Client)?,
        Err(_) => return Err(Failure::Deadline),
    };
    match code {
        200 => page(&body, read),
        code => Ok(Answer::Status { code, message: message(&body) }),
    }
}

fn page(body: &[u8], read: Read<'_>) -> Result<Answer, Failure> {
    let malformed = |error: serde_json::Error| match error.is_data() {
        true => Failure::Answer("JSON that is not a list of objects"),
        false => Failure::Answer("something that is not JSON"),
    };
    let Page { metadata, items } = serde_json::from_slice(body).map_err(malformed)?;
    let next = metadata.get("continue").and_then(Value::as_str).filter(|token| !token.is_empty());
    // Null is an empty list in Go.
    let items: Option<Vec<&RawValue>> = serde_json::from_str(items.get()).map_err(malformed)?;
    let items = items.unwrap_or_default();
    if !items.iter().all(|it| it.get().starts_with('{')) {
        return Err(Failure::Answer("JSON that is not a list of objects"));
    }
    Ok(Answer::Page { items: items.into_iter().map(|it| read(it.get())).collect(), next: next.map(str::to_owned) })
}

/// What the server says about an error. A proxy may send a page of HTML instead, which says nothing in a terminal.
fn message(body: &[u8]) -> String {
    let status = serde_json::from_slice::<Value>(body).unwrap_or(Value::Null);
    status.get("message").and_then(Value::as_str).unwrap_or_default().to_owned()
}

impl Failure {
    /// The error that the user sees.
    pub(super) fn at(self, used: &Used, resource: &Resource) -> LiveError {
        match self {
            Failure::Client(failure) => unreachable(used, &failure),
            Failure::Deadline => LiveError::TimedOut { used: used.clone() },
            Failure::Status { code: 401, .. } => LiveError::Unauthorized { used: used.clone() },
            Failure::Status { code, message } => refused(used, resource, code, &message),
            Failure::Answer(what) => answer(used, resource, what),
        }
    }
}
