//! Whether a proxy stands between here and the API server.
//!
//! The client library asks `NO_PROXY` about the proxy rather than about the server, so the choice is made here.

use std::env;
use std::net::IpAddr;

use http::Uri;
use ipnet::IpNet;

/// The `proxy-url` of the cluster; without one, what the environment says about the server.
pub(super) fn choose(server: &Uri, declared: Option<&str>) -> Result<Option<Uri>, &'static str> {
    let read = |upper: &str, lower: &str| env::var(upper).or_else(|_| env::var(lower)).ok();
    let declared = declared.filter(|url| !url.is_empty()).map(str::to_owned);
    let from_environment = || {
        let proxy = read("HTTPS_PROXY", "https_proxy").filter(|url| !url.is_empty())?;
        let exempt = read("NO_PROXY", "no_proxy").unwrap_or_default();
        applies(server, &exempt).then_some(proxy)
    };
    match declared.or_else(from_environment) {
        Some(url) => url.parse().map(Some).map_err(|_| "the proxy is not a URL"),
        None => Ok(None),
    }
}

/// Whether a proxy for HTTPS is used for this server, by the rules of Go, which are those of `kubectl`.
/// SPEC: <https://pkg.go.dev/golang.org/x/net/http/httpproxy#Config>
fn applies(server: &Uri, exempt: &str) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    let ip = host.parse::<IpAddr>().ok();
    server.scheme_str() == Some("https")
        && host != "localhost"
        && !ip.is_some_and(|ip| ip.is_loopback())
        && !exempt.split(',').map(str::trim).any(|entry| exempts(entry, host, ip))
}

/// One entry of `NO_PROXY`: `*`, a CIDR, an address, or a domain with all that is below it.
fn exempts(entry: &str, host: &str, ip: Option<IpAddr>) -> bool {
    if let Ok(net) = entry.parse::<IpNet>() {
        return ip.is_some_and(|ip| net.contains(&ip));
    }
    if let Ok(address) = entry.parse::<IpAddr>() {
        return ip == Some(address);
    }
    let entry = entry.split_once(':').map_or(entry, |(name, _)| name);
    let domain = entry.trim_start_matches('*').to_ascii_lowercase();
    let host = host.to_ascii_lowercase();
    match domain.as_str() {
        "" => entry == "*",
        domain => match domain.strip_prefix('.') {
            Some(below) => host.strip_suffix(below).is_some_and(|rest| rest.ends_with('.')),
            None => host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(server: &str, exempt: &str, proxied: bool) {
        let server: Uri = server.parse().unwrap();
        assert_eq!(applies(&server, exempt), proxied, "{server} with NO_PROXY={exempt}");
    }

    #[test]
    fn a_proxy_applies_unless_the_server_is_local_or_exempt() {
        check("https://10.0.0.1:6443", "", true);
        check("https://10.0.0.1:6443", "10.0.0.0/8,example.com", false);
        check("https://10.0.0.1:6443", "10.0.0.1", false);
        check("https://10.0.0.1:6443", "10.0.0.2, 192.168.0.0/16", true);
        check("https://api.example.com", "example.com", false);
        check("https://api.example.com", ".example.com", false);
        check("https://api.example.com", "*.example.com", false);
        check("https://example.com", ".example.com", true);
        check("https://notexample.com", "example.com", true);
        check("https://api.example.com", "*", false);
        check("https://api.example.com", "api.example.com:443", false);
        check("https://127.0.0.1:6443", "", false);
        check("https://[::1]:6443", "", false);
        check("https://localhost:6443", "", false);
        check("http://10.0.0.1:8080", "", false);
    }
}
