//! Kubeconfigs, good and bad. No cluster is needed to find out that one cannot be used.

use std::fs;
use std::path::PathBuf;

use palisade_runtime::live::{LiveOptions, list};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A kubeconfig with a context `dev` for this server, as a user with this entry.
pub(crate) struct Kubeconfig {
    folder: TempDir,
}

impl Kubeconfig {
    pub(crate) fn new(server: &str, user: &Value) -> Kubeconfig {
        let content = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "dev",
            "contexts": [
                { "name": "dev", "context": { "cluster": "mock", "user": "someone" } },
                { "name": "broken", "context": { "cluster": "gone", "user": "someone" } },
            ],
            "clusters": [{ "name": "mock", "cluster": { "server": server } }],
            "users": [{ "name": "someone", "user": user }],
        });
        Kubeconfig::with_content(&content.to_string())
    }

    fn with_content(content: &str) -> Kubeconfig {
        let folder = TempDir::with_prefix("palisade").unwrap();
        fs::write(folder.path().join("config"), content).unwrap();
        Kubeconfig { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("config")
    }

    pub(crate) fn options(&self) -> LiveOptions {
        LiveOptions { kubeconfig: Some(self.path()), context: None, namespace: None }
    }

    /// The message of an error, with `$` for the folder of the kubeconfig.
    pub(crate) fn message(&self, options: &LiveOptions) -> String {
        let error = list(options).unwrap_err();
        error.to_string().replace(&self.folder.path().display().to_string(), "$")
    }
}

#[test]
fn a_kubeconfig_that_cannot_be_used_says_why_without_quoting_itself() {
    let cases = [
        ("token: [hunter2", "`$/config`: not a kubeconfig: see line 1, column 8"),
        ("users: hunter2", "`$/config`: not a kubeconfig: see line 1, column 8"),
        ("{}", "`$/config`: no current context is set; pass --context with one of: none"),
        ("{contexts: [{name: b}, {name: a}]}", "`$/config`: no current context is set; pass --context with one of: `a`, `b`"),
        ("{current-context: c, contexts: [{name: b}]}", "`$/config`: there is no context `c`; pass --context with one of: `b`"),
    ];
    for (content, expected) in cases {
        let kubeconfig = Kubeconfig::with_content(content);
        assert_eq!(kubeconfig.message(&kubeconfig.options()), expected, "{content}");
    }
}

#[test]
fn a_cluster_or_user_that_cannot_be_used_says_why_without_showing_secrets() {
    let exec = |script: &str| {
        json!({ "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "sh",
            "args": ["-c", script],
            "env": [{ "name": "SECRET", "value": "hunter2" }],
            "interactiveMode": "Never",
        } })
    };
    let unparsable = "the credential plugin `sh` did not print an ExecCredential with a status";
    let failed = "the credential plugin `sh` failed with exit status: 3; run it by hand to see why";
    let cases = [
        ("127.0.0.1:1", json!({}), "`server` must begin with https:// or http://"),
        ("https://a b", json!({}), "`server` is not a URL"),
        ("https://127.0.0.1:1", json!({ "token": "hunter2\n" }), "the token of this user has a space or line break in it"),
        (
            "https://127.0.0.1:1",
            json!({ "client-certificate-data": "aHVudGVyMg==", "client-key-data": "!hunter2" }),
            "`client-key-data` is not base64",
        ),
        (
            "https://127.0.0.1:1",
            json!({ "client-certificate-data": "aHVudGVyMg==", "client-key-data": "aHVudGVyMg==" }),
            "the client key is missing or is not PKCS8 or RSA",
        ),
        (
            "https://127.0.0.1:1",
            json!({ "tokenFile": "/nowhere/token" }),
            "token file `/nowhere/token` cannot be read: No such file or directory (os error 2)",
        ),
        ("https://127.0.0.1:1", exec("echo $SECRET; echo $SECRET >&2; exit 3"), failed),
        ("https://127.0.0.1:1", exec("echo $SECRET"), unparsable),
    ];
    for (server, user, expected) in cases {
        let kubeconfig = Kubeconfig::new(server, &user);
        let message = kubeconfig.message(&kubeconfig.options());
        assert_eq!(message, format!("context `dev` of `$/config`: {expected}"), "{user}");
        let debug = format!("{:?}", list(&kubeconfig.options()));
        assert!(!debug.contains("hunter2"), "{debug}");
    }
}

#[test]
fn the_context_asked_for_is_the_one_used() {
    let kubeconfig = Kubeconfig::new("https://127.0.0.1:1", &json!({}));
    let with = |context: &str| LiveOptions { context: Some(context.to_owned()), ..kubeconfig.options() };
    let expected = "context `broken` of `$/config`: there is no cluster `gone`";
    assert_eq!(kubeconfig.message(&with("broken")), expected);
    let expected = "`$/config`: there is no context `prod`; pass --context with one of: `broken`, `dev`";
    assert_eq!(kubeconfig.message(&with("prod")), expected);
}

#[test]
fn a_kubeconfig_that_does_not_exist_is_an_error_even_in_a_pod() {
    let kubeconfig = Kubeconfig::with_content("");
    let options = LiveOptions { kubeconfig: Some(kubeconfig.folder.path().join("gone")), ..LiveOptions::default() };
    let expected = "`$/gone`: cannot be read: No such file or directory (os error 2)";
    assert_eq!(kubeconfig.message(&options), expected);
}
