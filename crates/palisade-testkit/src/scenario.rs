//! Reads `expect.txt` of a scenario folder. The format is described in `scenarios/README.md`.
//!
//! Nothing here decides whether an expectation holds, and nothing reads the objects: a [`Scenario`] is the
//! text as values, each with the number of its line.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// One folder: the rule it states, and the lines of its `expect.txt`.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The folder's own name.
    pub name: String,
    pub dir: PathBuf,
    /// Numbers start at one; blank lines and comments are left out.
    pub lines: Vec<(usize, Line)>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    Probe(Probe),
    Step(Step),
    /// The reader must refuse this object.
    Refused(ObjectKey),
    /// The reader must warn about this object and still count it.
    Warned(ObjectKey),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// `NAMESPACE/NAME` of the network that both ends are on; `None` for the pod network.
    pub network: Option<String>,
    pub from: Party,
    pub to: Party,
    pub protocol: RawProtocol,
    /// `None` for protocols without ports.
    pub port: Option<u16>,
    pub expect: Expect,
    /// The reason of the source's side, as written.
    pub egress: Option<String>,
    /// The reason of the destination's side, as written.
    pub ingress: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Party {
    Pod { namespace: String, name: String },
    Node(String),
    Address(IpAddr),
    Service { namespace: String, name: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RawProtocol {
    Tcp,
    Udp,
    Sctp,
    Icmp,
    /// The number of an IP protocol.
    Other(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    Accept,
    Deny,
    DependsOnDns,
    /// The Service has no endpoint to pick.
    None,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// The file's path, with the scenario's folder.
    Apply(PathBuf),
    Delete(ObjectKey),
    /// A key without a value is removed.
    Relabel(ObjectKey, Vec<(String, Option<String>)>),
    /// An array is RFC 6902, an object is RFC 7386.
    Patch(ObjectKey, Value),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectKey {
    /// In lower case.
    pub kind: String,
    pub namespace: Option<String>,
    pub name: String,
}

impl Scenario {
    /// Reads one folder. Errors name the file and the line.
    pub fn read(dir: &Path) -> Result<Scenario, String> {
        let name = dir
            .file_name()
            .and_then(|name| name.to_str())
            .ok_or_else(|| format!("{}: not a folder with a readable name", dir.display()))?;
        if !dir.join("cluster.yaml").is_file() {
            return Err(format!("{}: no cluster.yaml", dir.display()));
        }
        let path = dir.join("expect.txt");
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let lines = parse_lines(&text, dir).map_err(|error| format!("{}:{error}", path.display()))?;
        Ok(Scenario { name: name.to_owned(), dir: dir.to_owned(), lines })
    }

    /// Whether some probe is about a network other than the pod network.
    pub fn has_networks(&self) -> bool {
        self.lines.iter().any(|(_, line)| matches!(line, Line::Probe(Probe { network: Some(_), .. })))
    }

    /// The path of the manifests the scenario starts from.
    pub fn cluster(&self) -> PathBuf {
        self.dir.join("cluster.yaml")
    }
}

/// Every folder under `root`, sorted by name.
pub fn all(root: &Path) -> Result<Vec<Scenario>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", root.display());
    let mut dirs = Vec::new();
    for entry in fs::read_dir(root).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            dirs.push(path);
        }
    }
    dirs.sort();
    dirs.iter().map(|dir| Scenario::read(dir)).collect()
}

/// The lines of an `expect.txt`; errors start with the number of the line. Files of `step apply` are looked
/// for in `dir`.
pub fn parse_lines(text: &str, dir: &Path) -> Result<Vec<(usize, Line)>, String> {
    let mut lines = Vec::new();
    for (index, text) in text.lines().enumerate() {
        let number = index + 1;
        let line = parse_line(text, dir).map_err(|error| format!("{number}: {error}"))?;
        lines.extend(line.map(|line| (number, line)));
    }
    Ok(lines)
}

/// One line, or `None` if it says nothing.
fn parse_line(text: &str, dir: &Path) -> Result<Option<Line>, String> {
    // A patch is cut by the JSON reader, since its strings may contain anything.
    if let Some(rest) = after_words(text, &["step", "patch"]) {
        return parse_patch(rest).map(|step| Some(Line::Step(step)));
    }
    let words: Vec<&str> = without_comment(text).split_whitespace().collect();
    let line = match words.as_slice() {
        [] => return Ok(None),
        ["refused", key] => Line::Refused(parse_key(key)?),
        ["warned", key] => Line::Warned(parse_key(key)?),
        ["step", step @ ..] => Line::Step(parse_step(step, dir)?),
        [from, "->", to, protocol, expect, reasons @ ..] => {
            let (protocol, port) = parse_protocol(protocol)?;
            let ((from_party, network), (to_party, other)) = (parse_end(from)?, parse_end(to)?);
            if network != other {
                return Err(format!("`{from}` and `{to}` are on two networks"));
            }
            let mut probe = Probe {
                network,
                from: from_party,
                to: to_party,
                protocol,
                port,
                expect: parse_expect(expect)?,
                egress: None,
                ingress: None,
            };
            if let Party::Service { .. } = probe.from {
                return Err(format!("`{from}`: a Service cannot be the source"));
            }
            parse_reasons(reasons, &mut probe)?;
            Line::Probe(probe)
        }
        [first, ..] => return Err(format!("`{first}`: neither a probe, a step nor a demand")),
    };
    Ok(Some(line))
}

/// The rest of `text` after the given words, if it starts with them.
fn after_words<'a>(text: &'a str, words: &[&str]) -> Option<&'a str> {
    words.iter().try_fold(text, |rest, word| {
        let rest = rest.trim_start().strip_prefix(word)?;
        rest.starts_with(char::is_whitespace).then_some(rest)
    })
}

/// `#` starts a comment only at the beginning of a word: reasons such as `np/x/deny#0` contain it.
fn without_comment(text: &str) -> &str {
    let mut boundary = true;
    for (index, character) in text.char_indices() {
        if character == '#' && boundary {
            return text.get(..index).unwrap_or(text);
        }
        boundary = character.is_whitespace();
    }
    text
}

fn parse_step(words: &[&str], dir: &Path) -> Result<Step, String> {
    match words {
        ["apply", file] => {
            let path = dir.join(file);
            if path.is_file() { Ok(Step::Apply(path)) } else { Err(format!("`{file}`: no such file in the folder")) }
        }
        ["delete", key] => Ok(Step::Delete(parse_key(key)?)),
        ["relabel", key, labels @ ..] if !labels.is_empty() => {
            let labels = labels.iter().map(|label| parse_label(label)).collect::<Result<_, _>>()?;
            Ok(Step::Relabel(parse_key(key)?, labels))
        }
        [] | [_, ..] => Err(format!("`step {}`: not a step", words.join(" "))),
    }
}

fn parse_label(text: &str) -> Result<(String, Option<String>), String> {
    let (key, value) = match (text.split_once('='), text.strip_suffix('-')) {
        (Some((key, value)), _) => (key, Some(value.to_owned())),
        (None, Some(key)) => (key, None),
        (None, None) => return Err(format!("`{text}`: neither `key=value` nor `key-`")),
    };
    if key.is_empty() {
        return Err(format!("`{text}`: the label has no key"));
    }
    Ok((key.to_owned(), value))
}

fn parse_patch(rest: &str) -> Result<Step, String> {
    let rest = rest.trim_start();
    let (key, json) = rest.split_once(char::is_whitespace).ok_or_else(|| format!("`step patch {rest}`: the patch is missing"))?;
    let mut values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
    let patch = match values.next() {
        Some(Ok(patch)) => patch,
        Some(Err(error)) => return Err(format!("`{}`: {error}", json.trim())),
        None => return Err(format!("`step patch {key}`: the patch is missing")),
    };
    if !patch.is_array() && !patch.is_object() {
        return Err(format!("`{patch}`: a patch is an array or an object"));
    }
    let left = json.get(values.byte_offset()..).unwrap_or("");
    let words = without_comment(left).trim();
    if words.is_empty() { Ok(Step::Patch(parse_key(key)?, patch)) } else { Err(format!("`{words}`: left over after the patch")) }
}

fn parse_key(text: &str) -> Result<ObjectKey, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let (kind, namespace, name) = match parts.as_slice() {
        [kind, name] => (*kind, None, *name),
        [kind, namespace, name] => (*kind, Some(*namespace), *name),
        [] | [_, ..] => return Err(format!("`{text}`: not KIND/[NAMESPACE/]NAME")),
    };
    if kind.is_empty() || name.is_empty() || namespace == Some("") {
        return Err(format!("`{text}`: not KIND/[NAMESPACE/]NAME"));
    }
    Ok(ObjectKey { kind: kind.to_lowercase(), namespace: namespace.map(str::to_owned), name: name.to_owned() })
}

/// A party and its network: `shop/web@blue` is on the network `blue` of its own namespace, `shop/web@infra/blue` on that of another.
fn parse_end(text: &str) -> Result<(Party, Option<String>), String> {
    let Some((party, network)) = text.split_once('@') else { return Ok((parse_party(text)?, None)) };
    let party = parse_party(party)?;
    let full = match (network.split('/').collect::<Vec<&str>>().as_slice(), &party) {
        ([namespace, name], _) if !namespace.is_empty() && !name.is_empty() => network.to_owned(),
        ([name], Party::Pod { namespace, .. }) if !name.is_empty() => format!("{namespace}/{name}"),
        _ => return Err(format!("`{text}`: not a network behind `@`")),
    };
    Ok((party, Some(full)))
}

fn parse_party(text: &str) -> Result<Party, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(Party::Address(address));
    }
    let parts: Vec<&str> = text.split('/').collect();
    if parts.iter().any(|part| part.is_empty()) {
        return Err(format!("`{text}`: an empty name"));
    }
    match parts.as_slice() {
        ["node", name] => Ok(Party::Node((*name).to_owned())),
        ["svc", namespace, name] => Ok(Party::Service { namespace: (*namespace).to_owned(), name: (*name).to_owned() }),
        [namespace, name] => Ok(Party::Pod { namespace: (*namespace).to_owned(), name: (*name).to_owned() }),
        [] | [_, ..] => Err(format!("`{text}`: not a pod, a node, a Service or an address")),
    }
}

fn parse_protocol(text: &str) -> Result<(RawProtocol, Option<u16>), String> {
    let (name, port) = match text.split_once(':') {
        Some((name, port)) => {
            let port = port.parse().map_err(|_| format!("`{text}`: `{port}` is not a port"))?;
            (name, Some(port))
        }
        None => (text, None),
    };
    let protocol = match name {
        "tcp" => RawProtocol::Tcp,
        "udp" => RawProtocol::Udp,
        "sctp" => RawProtocol::Sctp,
        "icmp" => RawProtocol::Icmp,
        number => RawProtocol::Other(number.parse().map_err(|_| format!("`{number}`: not a protocol or its number"))?),
    };
    let has_ports = match protocol {
        RawProtocol::Tcp | RawProtocol::Udp | RawProtocol::Sctp => true,
        RawProtocol::Icmp | RawProtocol::Other(_) => false,
    };
    match (has_ports, port) {
        (true, None) => Err(format!("`{text}`: the port is missing")),
        (false, Some(_)) => Err(format!("`{text}`: the protocol has no ports")),
        (true, Some(_)) | (false, None) => Ok((protocol, port)),
    }
}

fn parse_expect(text: &str) -> Result<Expect, String> {
    match text {
        "accept" => Ok(Expect::Accept),
        "deny" => Ok(Expect::Deny),
        "depends-on-dns" => Ok(Expect::DependsOnDns),
        "none" => Ok(Expect::None),
        other => Err(format!("`{other}`: not accept, deny, depends-on-dns or none")),
    }
}

fn parse_reasons(words: &[&str], probe: &mut Probe) -> Result<(), String> {
    for word in words {
        let (slot, reason) = match word.split_once('=') {
            Some(("egress", reason)) => (&mut probe.egress, reason),
            Some(("ingress", reason)) => (&mut probe.ingress, reason),
            Some(_) | None => return Err(format!("`{word}`: not egress=REASON or ingress=REASON")),
        };
        if reason.is_empty() || slot.replace(reason.to_owned()).is_some() {
            return Err(format!("`{word}`: the reason is empty or given twice"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<Line>, String> {
        parse_line(text, Path::new("."))
    }

    #[test]
    fn a_hash_inside_a_reason_is_not_a_comment() {
        let expected = Probe {
            network: None,
            from: Party::Pod { namespace: "x".into(), name: "a".into() },
            to: Party::Service { namespace: "y".into(), name: "web".into() },
            protocol: RawProtocol::Tcp,
            port: Some(80),
            expect: Expect::Deny,
            egress: Some("np/x/deny#0".into()),
            ingress: None,
        };
        let line = parse("x/a -> svc/y/web  tcp:80  deny egress=np/x/deny#0  # why").unwrap();
        assert_eq!(line, Some(Line::Probe(expected)));
    }

    #[test]
    fn a_patch_may_contain_spaces_and_hashes_and_be_followed_by_a_comment() {
        let line = parse(r#"step patch pod/x/a {"a": "b # c"}  # why"#).unwrap();
        let key = ObjectKey { kind: "pod".into(), namespace: Some("x".into()), name: "a".into() };
        let expected = Step::Patch(key, serde_json::json!({"a": "b # c"}));
        assert_eq!(line, Some(Line::Step(expected)));
    }

    #[test]
    fn relabel_sets_and_removes_labels() {
        let line = parse("step relabel namespace/x team=a empty= gone-").unwrap();
        let key = ObjectKey { kind: "namespace".into(), namespace: None, name: "x".into() };
        let labels = vec![("team".to_owned(), Some("a".to_owned())), ("empty".to_owned(), Some(String::new())), ("gone".to_owned(), None)];
        assert_eq!(line, Some(Line::Step(Step::Relabel(key, labels))));
    }

    #[test]
    fn parties_are_pods_nodes_services_and_addresses() {
        assert_eq!(parse_party("node/n1"), Ok(Party::Node("n1".into())));
        assert_eq!(parse_party("fd00::1"), Ok(Party::Address("fd00::1".parse().unwrap())));
        assert!(parse_party("x/").is_err());
        assert!(parse_party("a").is_err());
        assert!(parse_party("svc/a/b/c").is_err());
    }

    #[test]
    fn a_network_follows_the_party() {
        let a = || Party::Pod { namespace: "x".into(), name: "a".into() };
        assert_eq!(parse_end("x/a"), Ok((a(), None)));
        assert_eq!(parse_end("x/a@blue"), Ok((a(), Some("x/blue".into()))));
        assert_eq!(parse_end("x/a@y/blue"), Ok((a(), Some("y/blue".into()))));
        assert_eq!(parse_end("10.0.0.1@y/blue"), Ok((Party::Address("10.0.0.1".parse().unwrap()), Some("y/blue".into()))));
    }

    #[test]
    fn only_protocols_with_ports_take_and_need_one() {
        assert_eq!(parse_protocol("icmp"), Ok((RawProtocol::Icmp, None)));
        assert_eq!(parse_protocol("47"), Ok((RawProtocol::Other(47), None)));
        assert!(parse_protocol("tcp").is_err());
        assert!(parse_protocol("icmp:8").is_err());
        assert!(parse_protocol("tcp:http").is_err());
    }

    #[test]
    fn lines_that_are_not_understood_are_errors() {
        assert_eq!(parse("  # nothing"), Ok(None));
        for text in [
            "x/a -> y/b tcp:80",
            "x/a -> y/b tcp:80 maybe",
            "x/a -> y/b tcp:80 deny because",
            "x/a -> y/b tcp:80 deny egress=a egress=b",
            "svc/x/a -> y/b tcp:80 deny",
            "x/a@blue -> y/b tcp:80 deny",
            "x/a@blue -> y/b@blue tcp:80 deny",
            "x/a@blue -> 10.0.0.1@blue tcp:80 deny",
            "x/a@ -> x/b@ tcp:80 deny",
            "step delete",
            "step apply absent.yaml",
            "step relabel pod/x/a",
            "step relabel pod/x/a team",
            "step patch pod/x/a 7",
            "step patch pod/x/a {} {}",
            "refused a",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn folders_are_read_in_order_and_errors_name_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("README.md", "");
        for name in ["b", "a"] {
            write(&format!("{name}/cluster.yaml"), "");
            write(&format!("{name}/expect.txt"), "\nx/a -> 192.0.2.1 icmp accept\n");
        }
        let scenarios = all(root).unwrap();
        write("c/expect.txt", "");
        let without_cluster = all(root).unwrap_err();
        write("c/cluster.yaml", "");
        write("c/expect.txt", "# fine\nnonsense\n");
        let without_sense = all(root).unwrap_err();
        fs::remove_dir_all(root).unwrap();

        let found: Vec<_> = scenarios.iter().map(|it| (it.name.as_str(), it.lines.len(), it.lines[0].0)).collect();
        assert_eq!(found, [("a", 1, 2), ("b", 1, 2)]);
        assert!(without_cluster.ends_with("c: no cluster.yaml"), "{without_cluster}");
        assert!(without_sense.contains("c/expect.txt:2: `nonsense`"), "{without_sense}");
    }
}
