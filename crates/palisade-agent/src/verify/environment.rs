//! What leads packets past our hooks, or keeps them from where policy lets them go.

mod kinds;

use std::collections::{BTreeMap, BTreeSet};

use palisade_kernel::{Environment, Filter, LinkFacts, TableOf};
use palisade_model::{Endpoint, EndpointId, Model, NetworkId, NodeId, Place};
use palisade_nft::Table;
use palisade_report::v1;

pub use kinds::EnvironmentKind;

/// Everything that is known to lead packets of the node's pods past our hooks.
pub(crate) fn judge(
    model: &Model,
    node: NodeId,
    links: &BTreeMap<EndpointId, String>,
    environment: &Environment,
) -> Vec<v1::VerifyFinding> {
    let pods = Pods { model, links };
    let mut findings = Vec::new();
    attached(environment, &pods, &mut findings);
    made_on(environment, &pods, &mut findings);
    filters(environment, &pods, &mut findings);
    left(environment, &mut findings);
    tables(environment, &mut findings);
    bridges(environment, &pods, &mut findings);
    without_link(node, environment, &pods, &mut findings);
    settings(node, environment, &pods, &mut findings);
    named_ways(environment, &pods, &mut findings);
    findings
}

/// The pods of a node by their links.
struct Pods<'a> {
    model: &'a Model,
    links: &'a BTreeMap<EndpointId, String>,
}

impl<'a> Pods<'a> {
    /// The pod that a link leads to.
    fn at(&self, link: &str) -> Option<&'a Endpoint> {
        let id = self.links.iter().find(|(_, it)| *it == link)?.0;
        self.model.endpoint(*id)
    }

    fn of(&self, node: NodeId) -> impl Iterator<Item = (EndpointId, &'a Endpoint)> {
        let all = self.model.endpoints.iter().enumerate().map(|(at, it)| (EndpointId(at), it));
        all.filter(move |(_, it)| it.node == Some(node))
    }
}

fn attached(environment: &Environment, pods: &Pods<'_>, out: &mut Vec<v1::VerifyFinding>) {
    for link in &environment.links {
        let Some(xdp) = &link.xdp else { continue };
        let program = xdp.program.map_or_else(|| "programs".to_owned(), |it| format!("program {it}"));
        let object = format!("link `{}`", link.name);
        out.push(match pods.at(&link.name) {
            Some(pod) => EnvironmentKind::XdpProgram.finding(
                object,
                format!(
                    "XDP {program} on link `{}` of pod {} sees packets before any hook, and may send them anywhere",
                    link.name, pod.name
                ),
            ),
            None => {
                EnvironmentKind::OtherLink.finding(object, format!("XDP {program} on link `{}` sees packets before any hook", link.name))
            }
        });
    }
}

/// Kinds of links that take packets out of others that anybody may send to the node.
const TUNNELS: [&str; 11] = ["bareudp", "erspan", "geneve", "gre", "gretap", "ip6gre", "ip6gretap", "ip6tnl", "ipip", "sit", "vxlan"];

/// Links on those of pods, and tunnels.
fn made_on(environment: &Environment, pods: &Pods<'_>, out: &mut Vec<v1::VerifyFinding>) {
    for link in &environment.links {
        // Loopback and hardware have no kind, and are made on nothing.
        let (name, Some(kind)) = (&link.name, link.kind.as_deref()) else { continue };
        let below = link.on.and_then(|on| environment.links.iter().find(|it| it.index == on)).filter(|_| kind != "veth");
        if let Some((below, pod)) = below.and_then(|it| Some((it, pods.at(&it.name)?))) {
            let sentence = format!(
                "link `{name}` ({kind}) is made on link `{}` of pod {}: what goes by it never meets our hooks",
                below.name, pod.name
            );
            out.push(EnvironmentKind::LinkOnLink.finding(format!("link `{name}`"), sentence));
        }
        if link.up && TUNNELS.contains(&kind) {
            let sentence = format!(
                "link `{name}` ({kind}) takes apart what is sent to this node: a pod that may send to nodes can bring packets with any source past the \
                 chains that bind sources"
            );
            out.push(EnvironmentKind::Tunnel.finding(format!("link `{name}`"), sentence));
        }
    }
}

/// Actions that only drop, pass, count or mark.
const HARMLESS: [&str; 6] = ["gact", "police", "skbedit", "sample", "connmark", "ctinfo"];

fn filters(environment: &Environment, pods: &Pods<'_>, out: &mut Vec<v1::VerifyFinding>) {
    for filter in &environment.filters {
        let Filter { link, kind, actions, .. } = filter;
        let sends = |it: &&String| !HARMLESS.contains(&it.as_str());
        let program = kind == "bpf";
        if !program && !actions.iter().any(|it| sends(&it)) {
            continue;
        }
        let to_pod = actions.iter().filter_map(|it| it.strip_prefix("mirred ")?.split_once(' ')).find_map(|(_, to)| pods.at(to));
        let does = match program {
            true => "is a program that may send packets anywhere".to_owned(),
            false => format!("does `{}`", actions.iter().filter(sends).cloned().collect::<Vec<_>>().join("`, `")),
        };
        let side = match filter.side {
            palisade_kernel::FilterSide::In => "what comes in by",
            palisade_kernel::FilterSide::Out => "what leaves by",
        };
        let object = format!("link `{link}`");
        let sentence = |of: &str| format!("a tc filter ({kind}) on {side} link `{link}`{of} {does}, past our hooks");
        out.push(match (pods.at(link), to_pod) {
            (Some(pod), _) => EnvironmentKind::TcFilter.finding(object, sentence(&format!(" of pod {}", pod.name))),
            (None, Some(pod)) => EnvironmentKind::TcFilter.finding(object, sentence(&format!(", towards pod {},", pod.name))),
            (None, None) => EnvironmentKind::OtherLink.finding(object, sentence("")),
        });
    }
}

/// Tables that somebody left who died while the own one was replaced. A packet must pass them too.
fn left(environment: &Environment, out: &mut Vec<v1::VerifyFinding>) {
    for table in Table::ALL.into_iter().filter(|it| *it != Table::Own) {
        let name = table.name();
        if environment.chains.iter().any(|it| it.table.family == "inet" && it.table.name == name) {
            let sentence = format!("table `inet {name}` stands beside the own one: what it does not let through is dropped as well");
            out.push(EnvironmentKind::TableLeft.finding(format!("table `inet {name}`"), sentence));
        }
    }
}

fn tables(environment: &Environment, out: &mut Vec<v1::VerifyFinding>) {
    let words = |table: &TableOf| format!("table `{} {}`", table.family, table.name);
    for rule in &environment.rules {
        let (kind, consequence) = match rule.does.as_str() {
            "notrack" | "NOTRACK" | "CT" => (
                EnvironmentKind::Notrack,
                "replies of untracked connections are judged as if they began one, and a connection that was cut can go on",
            ),
            "fwd" => (EnvironmentKind::Forwards, "packets leave by another link without meeting the hooks"),
            "dup" | "TEE" => (EnvironmentKind::Duplicates, "a copy of each packet leaves without meeting the hooks"),
            "flow_offload" | "FLOWOFFLOAD" => {
                (EnvironmentKind::FlowOffload, "its connections go on past the hooks, also when policy denies them later")
            }
            "synproxy" | "SYNPROXY" => {
                (EnvironmentKind::Synproxy, "this node opens the connection to the pod itself, and that never meets the forward hook")
            }
            "payload set" => (EnvironmentKind::Rewrites, "addresses or ports are others than those that policy was asked about"),
            _ => (EnvironmentKind::Tproxy, "connections end at a proxy on this node, and what that opens is the node's"),
        };
        let object = format!("{}, chain `{}`", words(&rule.table), rule.chain);
        let sentence = format!("a rule in chain `{}` of {} does `{}`: {consequence}", rule.chain, words(&rule.table), rule.does);
        out.push(kind.finding(object, sentence));
    }
    for flowtable in &environment.flowtables {
        let devices = flowtable.devices.iter().cloned().collect::<Vec<_>>().join(", ");
        let object = format!("{}, flowtable `{}`", words(&flowtable.table), flowtable.name);
        let sentence = format!("flowtable `{}` of {} takes packets of {devices} past the hooks", flowtable.name, words(&flowtable.table));
        out.push(EnvironmentKind::Flowtable.finding(object, sentence));
    }
    for table in &environment.legacy_tables {
        let (kind, may) = match table.split_once(' ') {
            Some((_, "raw")) => (EnvironmentKind::LegacyRawTable, "take packets from tracking"),
            Some((_, "mangle" | "nat")) => (EnvironmentKind::LegacyTable, "hand packets to a program of this node, or copy them"),
            _ => continue,
        };
        let sentence = format!("table `{table}` of the older iptables is in use, and what is in it is not read: it may {may}");
        out.push(kind.finding(format!("table `{table}`"), sentence));
    }
}

/// Settings by which a packet of a pod may name the stops of its way. They count where they are set for all and for the link.
fn named_ways(environment: &Environment, pods: &Pods<'_>, out: &mut Vec<v1::VerifyFinding>) {
    let all = environment.settings.iter().filter_map(|(name, value)| Some((name.split_once("/conf/all/")?, value)));
    for ((folder, name), _) in all.filter(|((_, name), value)| *name != "forwarding" && *value != "0") {
        let of_link = |it: &LinkFacts| environment.settings.get(&format!("{folder}/conf/{}/{name}", it.name)).is_some_and(|it| it != "0");
        let found = environment.links.iter().filter(|it| of_link(it)).find_map(|it| Some((it, pods.at(&it.name)?)));
        if let Some((link, pod)) = found {
            let setting = format!("{folder}/conf/all/{name}").replace('/', ".");
            let sentence = format!(
                "{setting} and that of link `{}` of pod {} are on: a packet may name the stops of its way, and our hooks are asked about the next one, not the last",
                link.name, pod.name
            );
            out.push(EnvironmentKind::SourceRouting.finding(format!("setting {setting}"), sentence));
        }
    }
}

fn bridges(environment: &Environment, pods: &Pods<'_>, out: &mut Vec<v1::VerifyFinding>) {
    let is_on = |name: &str| environment.settings.get(name).is_some_and(|it| it != "0");
    let by_index: BTreeMap<u32, &LinkFacts> = environment.links.iter().map(|it| (it.index, it)).collect();
    let mut told: BTreeSet<(&str, bool)> = BTreeSet::new();
    for link in &environment.links {
        let bridge = link.master.and_then(|it| by_index.get(&it)).filter(|it| it.kind.as_deref() == Some("bridge"));
        let (Some(bridge), Some(pod)) = (bridge, pods.at(&link.name)) else { continue };
        let families = [
            (true, "net/bridge/bridge-nf-call-iptables", bridge.calls_ipv4),
            (false, "net/bridge/bridge-nf-call-ip6tables", bridge.calls_ipv6),
        ];
        for (ipv4, setting, called) in families {
            let speaks = pod.addresses.iter().any(|it| it.is_ipv4() == ipv4);
            if speaks && !called && !is_on(setting) && told.insert((&bridge.name, ipv4)) {
                let family = if ipv4 { "IPv4" } else { "IPv6" };
                let sentence = format!(
                    "link `{}` of pod {} is a port of bridge `{}`, and {} is 0: {family} between pods of that bridge never meets our hooks",
                    link.name,
                    pod.name,
                    bridge.name,
                    setting.replace('/', ".")
                );
                out.push(EnvironmentKind::BridgeNotFiltered.finding(format!("link `{}`", bridge.name), sentence));
            }
        }
    }
}

fn without_link(node: NodeId, environment: &Environment, pods: &Pods<'_>, out: &mut Vec<v1::VerifyFinding>) {
    for (id, pod) in pods.of(node) {
        let has_own = pod.addresses.iter().any(|it| pods.model.place_of(NetworkId::DEFAULT, *it) == Place::Pod(id));
        let link = pods.links.get(&id);
        let exists = link.is_some_and(|link| environment.links.iter().any(|it| it.name == *link));
        if has_own && !exists {
            let why = link.map_or_else(|| "no link of this node leads to it".to_owned(), |it| format!("its link `{it}` is not there"));
            let sentence = format!("pod {}: {why}, so its packets need not meet our hooks, and its source is not bound", pod.name);
            out.push(EnvironmentKind::PodWithoutLink.finding(format!("pod {}", pod.name), sentence));
        }
    }
}

fn settings(node: NodeId, environment: &Environment, pods: &Pods<'_>, out: &mut Vec<v1::VerifyFinding>) {
    let balances = environment.links.iter().find(|it| it.name == "kube-ipvs0");
    if let (Some(_), count) | (None, count @ 1..) = (balances, environment.virtual_servers) {
        let object = if balances.is_some() { "link `kube-ipvs0`".to_owned() } else { format!("{count} virtual servers") };
        let sentence =
            format!("IPVS is in use ({object}): connections to Services go by input and output, and never meet the forward hook");
        out.push(EnvironmentKind::Ipvs.finding(object, sentence));
    }
    for (ipv4, setting) in [(true, "net/ipv4/ip_forward"), (false, "net/ipv6/conf/all/forwarding")] {
        let off = environment.settings.get(setting).is_some_and(|it| it == "0");
        let speaks = pods.of(node).any(|(_, it)| it.addresses.iter().any(|it| it.is_ipv4() == ipv4));
        if off && speaks {
            let name = setting.replace('/', ".");
            let sentence = format!("{name} is 0: nothing is forwarded, so pods reach nobody, whatever policy allows");
            out.push(EnvironmentKind::ForwardingOff.finding(format!("setting {name}"), sentence));
        }
    }
}

#[cfg(test)]
mod tests;
