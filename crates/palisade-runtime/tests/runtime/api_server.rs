//! A real API server with its etcd, where somebody has the binaries: `KUBEBUILDER_ASSETS` is a folder with `kube-apiserver` and `etcd`.
//!
//! Both listen on free ports of 127.0.0.1, keep everything in a folder that is deleted, and end with the value.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use palisade_runtime::live::LiveOptions;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// How long anything may take that is waited for.
const DEADLINE: Duration = Duration::from_secs(180);
/// Between two looks at what is waited for.
const PAUSE: Duration = Duration::from_millis(100);
const TOKEN: &str = "nobody-else-listens";
/// The private key 1, for the tokens of service accounts, of which there are none.
const KEY: &str = "-----BEGIN EC PRIVATE KEY-----
MDECAQEEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABoAoGCCqGSM49AwEH
-----END EC PRIVATE KEY-----
";

/// What the server answered: the object, or why not.
pub(crate) type Answer = Result<Value, String>;

/// A process that ends with its owner.
struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    fn start(assets: &Path, folder: &Path, name: &'static str, arguments: &[String]) -> Process {
        let log = folder.join(format!("{name}.log"));
        let output = File::create(&log).unwrap();
        let mut command = Command::new(assets.join(name));
        command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let child = command.spawn().unwrap_or_else(|error| panic!("`{name}` of KUBEBUILDER_ASSETS cannot be started: {error}"));
        Process { name, child, log }
    }

    fn expect_alive(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("{} ended with {status}\n{}", self.name, self.last_words());
        }
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// An API server that nobody else uses.
pub(crate) struct ApiServer {
    client: Client,
    runtime: Runtime,
    /// The server before its etcd, so that it does not see it go.
    processes: Vec<Process>,
    folder: TempDir,
}

impl ApiServer {
    /// None without binaries.
    #[expect(clippy::print_stderr, reason = "a test that did nothing says so")]
    pub(crate) fn start() -> Option<ApiServer> {
        let assets = std::env::var_os("KUBEBUILDER_ASSETS").filter(|it| !it.is_empty());
        let Some(assets) = assets.map(PathBuf::from) else {
            eprintln!("skipped: KUBEBUILDER_ASSETS is not set");
            return None;
        };
        let folder = TempDir::with_prefix("palisade").unwrap();
        let [clients, peers, secure] = free_ports();
        let etcd = Process::start(&assets, folder.path(), "etcd", &etcd_arguments(clients, peers));
        fs::write(folder.path().join("tokens.csv"), format!("{TOKEN},someone,1,\"system:masters\"\n")).unwrap();
        fs::write(folder.path().join("key.pem"), KEY).unwrap();
        let server = Process::start(&assets, folder.path(), "kube-apiserver", &server_arguments(clients, secure));
        let mut processes = vec![server, etcd];
        // The server writes its certificate when it starts.
        let certificate = folder.path().join("certificates/apiserver.crt");
        until("the certificate of the server", &mut processes, || fs::read(&certificate).is_ok_and(|it| !it.is_empty()));
        let kubeconfig = kubeconfig(secure, &certificate);
        fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let kubeconfig = Kubeconfig::read_from(folder.path().join("kubeconfig")).unwrap();
            Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()).unwrap()
        });
        let mut api = ApiServer { client, runtime, processes, folder };
        api.until("the server to be ready", |api| api.ask("GET", "/readyz", None).is_ok());
        Some(api)
    }

    pub(crate) fn options(&self) -> LiveOptions {
        LiveOptions { kubeconfig: Some(self.folder.path().join("kubeconfig")), context: None, namespace: None }
    }

    /// Waits for a condition.
    pub(crate) fn until(&mut self, what: &str, holds: impl Fn(&ApiServer) -> bool) {
        let mut processes = std::mem::take(&mut self.processes);
        until(what, &mut processes, || holds(self));
        self.processes = processes;
    }

    /// One request. Fields that the server does not know are refused.
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let body = body.map(|it| it.to_string().into_bytes()).unwrap_or_default();
        let request = http::Request::builder().method(method).uri(path).header("Content-Type", kind).body(Body::from(body)).unwrap();
        let answer = self.runtime.block_on(async {
            let exchange = async {
                let response = self.client.send(request).await?;
                let code = response.status();
                Ok::<_, kube::Error>((code, response.into_body().collect_bytes().await?))
            };
            tokio::time::timeout(DEADLINE, exchange).await
        });
        let (code, body) = answer.map_err(|_| "no answer in time".to_owned())?.map_err(|error| error.to_string())?;
        let value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if code.is_success() { Ok(value) } else { Err(value["message"].as_str().unwrap_or_default().to_owned()) }
    }

    /// Stores an object and its status, the way kubectl and a controller would.
    pub(crate) fn create(&self, object: &Value) -> Result<(), String> {
        let path = collection(object);
        self.ask("POST", &format!("{path}?fieldValidation=Strict"), Some(object))?;
        if let Some(status) = object.get("status") {
            let mut status = status.clone();
            // The server wants the first address twice.
            if let Some(first) = status.pointer("/podIPs/0/ip").cloned() {
                status["podIP"] = first;
            }
            let name = object["metadata"]["name"].as_str().unwrap();
            self.ask("PATCH", &format!("{path}/{name}/status"), Some(&json!({ "status": status })))?;
        }
        Ok(())
    }

    /// Deletes what was created, but for definitions.
    pub(crate) fn clear(&self) {
        let cluster = [
            "/apis/kep2091.palisade.dev/v1alpha1/adminnetworkpolicies",
            "/apis/policy.networking.k8s.io/v1alpha1/adminnetworkpolicies",
            "/apis/policy.networking.k8s.io/v1alpha1/baselineadminnetworkpolicies",
            "/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies",
            "/api/v1/nodes",
        ];
        for path in cluster {
            self.ask("DELETE", path, None).unwrap();
        }
        let namespaces = self.ask("GET", "/api/v1/namespaces", None).unwrap();
        for mut namespace in namespaces["items"].as_array().unwrap().iter().cloned() {
            let name = namespace["metadata"]["name"].as_str().unwrap().to_owned();
            self.ask("DELETE", &format!("/api/v1/namespaces/{name}/pods?gracePeriodSeconds=0"), None).unwrap();
            self.ask("DELETE", &format!("/apis/networking.k8s.io/v1/namespaces/{name}/networkpolicies"), None).unwrap();
            if name == "default" || name.starts_with("kube-") {
                continue;
            }
            // No controller runs that would empty the namespace and say so.
            self.ask("DELETE", &format!("/api/v1/namespaces/{name}"), None).unwrap();
            namespace["spec"]["finalizers"] = json!([]);
            namespace["metadata"]["resourceVersion"].take();
            self.ask("PUT", &format!("/api/v1/namespaces/{name}/finalize"), Some(&namespace)).unwrap();
        }
    }
}

/// Where objects of this kind are created.
fn collection(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let plural = match object["kind"].as_str().unwrap() {
        kind if kind.ends_with("Policy") => format!("{}ies", kind.trim_end_matches('y').to_lowercase()),
        kind => format!("{}s", kind.to_lowercase()),
    };
    match object["kind"].as_str().unwrap() {
        "Pod" | "NetworkPolicy" => format!("{root}/namespaces/{}/{plural}", object["metadata"]["namespace"].as_str().unwrap()),
        _ => format!("{root}/{plural}"),
    }
}

fn until(what: &str, processes: &mut [Process], holds: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        processes.iter_mut().for_each(Process::expect_alive);
        let late = Instant::now() > deadline;
        assert!(!late, "waited in vain for {what}\n{}", processes.iter().map(Process::last_words).collect::<Vec<_>>().join("\n"));
        std::thread::sleep(PAUSE);
    }
}

fn etcd_arguments(clients: u16, peers: u16) -> Vec<String> {
    vec![
        "--data-dir=etcd".to_owned(),
        "--unsafe-no-fsync".to_owned(),
        format!("--listen-client-urls=http://127.0.0.1:{clients}"),
        format!("--advertise-client-urls=http://127.0.0.1:{clients}"),
        format!("--listen-peer-urls=http://127.0.0.1:{peers}"),
        format!("--initial-advertise-peer-urls=http://127.0.0.1:{peers}"),
        format!("--initial-cluster=default=http://127.0.0.1:{peers}"),
    ]
}

fn server_arguments(etcd: u16, secure: u16) -> Vec<String> {
    let mut arguments = vec![format!("--etcd-servers=http://127.0.0.1:{etcd}"), format!("--secure-port={secure}")];
    let others = [
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        "--cert-dir=certificates",
        "--token-auth-file=tokens.csv",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.96.0.0/12",
        "--service-account-issuer=https://127.0.0.1",
        "--service-account-key-file=key.pem",
        "--service-account-signing-key-file=key.pem",
        // It would wait for accounts that a controller makes.
        "--disable-admission-plugins=ServiceAccount",
    ];
    arguments.extend(others.map(str::to_owned));
    arguments
}

fn kubeconfig(port: u16, certificate: &Path) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "real",
        "contexts": [{ "name": "real", "context": { "cluster": "real", "user": "someone" } }],
        "clusters": [{ "name": "real", "cluster": { "server": format!("https://127.0.0.1:{port}"), "certificate-authority": certificate } }],
        "users": [{ "name": "someone", "user": { "token": TOKEN } }],
    })
}

/// Ports that nobody listened on a moment ago.
fn free_ports() -> [u16; 3] {
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|it| it.local_addr().unwrap().port())
}
