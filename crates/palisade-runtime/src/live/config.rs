//! Which cluster, as whom: `--kubeconfig`, then `KUBECONFIG`, then `~/.kube/config`, then the service account of
//! this pod.
//!
//! SPEC: <https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/>

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use kube::Config;
use kube::config::{Cluster, KubeConfigOptions, Kubeconfig};

use super::error::{Origin, Settings, Used, settings};
use super::{LiveError, LiveOptions, proxy};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// A way into a cluster.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) config: Config,
    pub(super) used: Used,
}

/// Finds the cluster and the user, without talking to either.
pub(super) async fn find(options: &LiveOptions) -> Result<Access, LiveError> {
    let files = match &options.kubeconfig {
        Some(file) => vec![file.clone()],
        // Whoever sets the variable to several files may have only some of them.
        None => default_files().into_iter().filter(|file| file.exists()).collect(),
    };
    let kubeconfig = merge(&files)?;
    let is_empty = kubeconfig.contexts.is_empty() && kubeconfig.clusters.is_empty();
    let mut access = if is_empty && options.kubeconfig.is_none() {
        in_cluster(options)?
    } else {
        from_kubeconfig(kubeconfig, quoted(&files), options.context.as_deref()).await?
    };
    access.config.connect_timeout = Some(CONNECT_TIMEOUT);
    access.config.read_timeout = Some(READ_TIMEOUT);
    access.config.reset_reader_on_write = true;
    // A busy server is asked again by the lister, which knows when to give up.
    access.config.default_retry = false;
    Ok(access)
}

/// The files that apply when none is named.
fn default_files() -> Vec<PathBuf> {
    let listed = env::var_os("KUBECONFIG").unwrap_or_default();
    let files: Vec<PathBuf> = env::split_paths(&listed).filter(|file| !file.as_os_str().is_empty()).collect();
    if files.is_empty() { env::home_dir().map(|home| home.join(".kube").join("config")).into_iter().collect() } else { files }
}

/// Reads the files; what an earlier one says is never changed by a later one.
fn merge(files: &[PathBuf]) -> Result<Kubeconfig, LiveError> {
    files.iter().try_fold(Kubeconfig::default(), |merged, file| {
        Kubeconfig::read_from(file)
            .and_then(|next| merged.merge(next))
            .map_err(|error| LiveError::Kubeconfig { files: quote(file), why: settings(&error) })
    })
}

async fn from_kubeconfig(kubeconfig: Kubeconfig, files: String, wanted: Option<&str>) -> Result<Access, LiveError> {
    let context = choose_context(&kubeconfig, &files, wanted)?;
    let settled = settle(kubeconfig, &context).await;
    let origin = Origin::Kubeconfig { files, context };
    let used = |server, plugin| Used(Arc::new(Settings { origin, server, plugin }));
    match settled {
        Ok((config, server)) => {
            let plugin = config.auth_info.exec.as_ref().and_then(|exec| exec.command.clone());
            Ok(Access { config, used: used(server, plugin) })
        }
        Err(why) => Err(LiveError::Unusable { used: used(String::new(), None), why }),
    }
}

/// The settings of a context and the address of its server, or what is wrong with them.
async fn settle(kubeconfig: Kubeconfig, context: &str) -> Result<(Config, String), String> {
    let proxy_url = cluster_of(&kubeconfig, context).and_then(|it| it.proxy_url.clone());
    let options = KubeConfigOptions { context: Some(context.to_owned()), ..Default::default() };
    let loaded = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = loaded.map_err(|error| settings(&error))?;
    let Some(server) = address(&config.cluster_url) else {
        return Err("`server` must begin with https:// or http://".to_owned());
    };
    config.proxy_url = proxy::choose(&config.cluster_url, proxy_url.as_deref())?;
    check_token(&mut config)?;
    Ok((config, server))
}

fn choose_context(kubeconfig: &Kubeconfig, files: &str, wanted: Option<&str>) -> Result<String, LiveError> {
    let mut names: Vec<&str> = kubeconfig.contexts.iter().map(|it| it.name.as_str()).collect();
    names.sort_unstable();
    let known: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let files = files.to_owned();
    let current = kubeconfig.current_context.as_deref().filter(|name| !name.is_empty());
    let Some(context) = wanted.or(current).map(str::to_owned) else {
        return Err(LiveError::NoContext { files, known });
    };
    if names.contains(&context.as_str()) { Ok(context) } else { Err(LiveError::UnknownContext { context, files, known }) }
}

fn cluster_of<'a>(kubeconfig: &'a Kubeconfig, context: &str) -> Option<&'a Cluster> {
    let context = kubeconfig.contexts.iter().find(|it| it.name == context)?.context.as_ref()?;
    kubeconfig.clusters.iter().find(|it| it.name == context.cluster)?.cluster.as_ref()
}

/// The client gives up the whole program over a token that does not fit in a header, and sends an empty one.
fn check_token(config: &mut Config) -> Result<(), &'static str> {
    let user = serde_json::to_value(&config.auth_info).unwrap_or_default();
    match user.get("token").and_then(|token| token.as_str()) {
        None => Ok(()),
        Some("") => {
            config.auth_info.token = None;
            Ok(())
        }
        Some(token) if token.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(()),
        Some(_) => Err("the token of this user has a space or line break in it"),
    }
}

fn in_cluster(options: &LiveOptions) -> Result<Access, LiveError> {
    let none = || LiveError::NoKubeconfig { looked: quoted(&default_files()) };
    // A service account has no contexts: whoever asks for one expects a kubeconfig.
    if options.context.is_some() {
        return Err(none());
    }
    let config = Config::incluster().map_err(|_| none())?;
    let server = address(&config.cluster_url).ok_or_else(none)?;
    let settings = Settings { origin: Origin::ServiceAccount, server, plugin: None };
    Ok(Access { config, used: Used(Arc::new(settings)) })
}

/// Scheme, host and port, without the user name and password that a URL may carry.
fn address(url: &Uri) -> Option<String> {
    let (scheme, host) = (url.scheme_str()?, url.host()?);
    Some(match url.port() {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    })
}

fn quote(file: &Path) -> String {
    format!("`{}`", file.display())
}

fn quoted(files: &[PathBuf]) -> String {
    files.iter().map(|file| quote(file)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_files_the_first_to_say_something_wins() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            path
        };
        let cluster = |server: &str| format!("{{name: c, cluster: {{server: \"{server}\"}}}}");
        let files = [
            file("one", &format!("{{clusters: [{}]}}", cluster("https://one"))),
            file(
                "two",
                &format!(
                    "{{current-context: dev, clusters: [{}], contexts: [{{name: dev, context: {{cluster: c}}}}]}}",
                    cluster("https://two")
                ),
            ),
        ];
        let merged = merge(&files).unwrap();
        let context = choose_context(&merged, "", None).unwrap();
        let server = cluster_of(&merged, &context).and_then(|it| it.server.as_deref());
        assert_eq!((context.as_str(), server), ("dev", Some("https://one")));
    }

    #[test]
    fn an_address_is_shown_without_its_password() {
        let shown = |url: &str| address(&url.parse().unwrap());
        assert_eq!(shown("https://me:hunter2@[::1]:6443/k8s"), Some("https://[::1]:6443".to_owned()));
        assert_eq!(shown("https://example.com"), Some("https://example.com".to_owned()));
        assert_eq!(shown("example.com:6443"), None);
    }
}
