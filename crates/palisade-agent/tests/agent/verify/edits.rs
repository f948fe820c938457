//! What somebody may do to a node by hand, with nft, tc, ip and sysctl.

use palisade_nft::Ruleset;
use palisade_testkit::random::Random;

use super::ground::Node;

/// One edit.
pub(super) struct Edit {
    /// In words of the one who makes it.
    pub(super) does: String,
    with: With,
    /// Names of findings, one of which must be told.
    pub(super) expected: &'static [&'static str],
    /// What no repair of ours undoes, as a line of a shell.
    undo: &'static str,
}

#[derive(Clone, Copy)]
enum With {
    Nft,
    Shell,
}

type Make = fn(&mut Random, &Node) -> Option<Edit>;

/// Every kind of edit, by name.
pub(super) const KINDS: &[(&str, Make)] = &[
    ("a rule deleted", rule_deleted),
    ("a rule inserted", rule_inserted),
    ("a rule added", rule_added),
    ("a rule replaced", rule_replaced),
    ("a rule moved", rule_moved),
    ("a chain flushed", |random, node| nft(format!("flush chain inet palisade {}", chain(random, node)), &["rule-missing"])),
    ("an element deleted", element_deleted),
    ("an element changed", element_changed),
    ("an element added", element_added),
    ("an element of a verdict map deleted", verdict_deleted),
    ("an element of a verdict map changed", verdict_changed),
    ("an element of a verdict map added", verdict_added),
    ("a range deleted", range_deleted),
    ("a range changed", range_changed),
    ("a source added", source_added),
    ("a source deleted", source_deleted),
    ("a pair added", |_, _| nft("add element inet palisade self4 { 10.0.0.1 . 10.0.0.2 }".to_owned(), &["element-added"])),
    ("a pair deleted", |random, _| {
        let address = random.of(["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
        nft(format!("delete element inet palisade self4 {{ {address} . {address} }}"), &["element-missing"])
    }),
    ("a map flushed", map_flushed),
    ("an element with a timeout or comment", |_, _| {
        nft("add element inet palisade class4 { 10.66.0.1 comment \"hello\" : 0:77 }".to_owned(), &["element-added", "foreign"])
    }),
    ("the ruleset flushed", |_, _| nft("flush ruleset".to_owned(), &["table-missing"])),
    ("the table deleted", |_, _| nft("delete table inet palisade".to_owned(), &["table-missing"])),
    ("the table flushed", |_, _| nft("flush table inet palisade".to_owned(), &["rule-missing"])),
    ("the table deleted and made again", |_, _| nft("delete table inet palisade\nadd table inet palisade".to_owned(), &["chain-missing"])),
    ("the table switched off", |_, _| nft("add table inet palisade { flags dormant; }".to_owned(), &["table-dormant"])),
    ("a table with the mark of another layout", |random, _| {
        let mark = random.of(["s/(layout 1)/(layout 2)/", "s/(layout 1)/(mine)/", "/(layout 1)/d"]);
        let listed = "nft -s list table inet palisade";
        let does = format!("table=$({listed} | sed '{mark}'); printf 'delete table inet palisade\\n%s\\n' \"$table\" | nft -f -");
        shell(&does, &["table-layout"], "true")
    }),
    ("a map that has only so much room", |random, _| {
        let (map, size) = (random.of(["class4", "egress4", "ingress4"]), random.of(["size 100", "size 65535", ""]));
        let listed = "nft -s list table inet palisade";
        let does = format!(
            "table=$({listed} | sed '/map {map} {{/,/elements/ s/size .*/{size}/'); printf 'delete table inet palisade\\n%s\\n' \"$table\" | nft -f -"
        );
        shell(&does, &["foreign"], "true")
    }),
    ("a policy changed", |random, _| {
        let chain = random.of(["forward", "input"]);
        nft(format!("add chain inet palisade {chain} {{ policy drop; }}"), &["chain-moved"])
    }),
    ("a chain moved", chain_moved),
    ("a chain renamed", |random, node| {
        let chain = plain(random, node)?;
        nft(format!("rename chain inet palisade {chain} other"), &["chain-missing"])
    }),
    ("a chain added", |_, _| nft("add chain inet palisade own".to_owned(), &["chain-added"])),
    ("a base chain added", |random, _| {
        let hook = random.of(["forward", "input", "output", "prerouting"]);
        nft(format!("add chain inet palisade own {{ type filter hook {hook} priority -5; policy drop; }}"), &["chain-added"])
    }),
    ("a nat chain added", |_, _| {
        let rule = "add rule inet palisade own tcp dport 80 redirect to :81";
        nft(format!("add chain inet palisade own {{ type nat hook prerouting priority -100; }}\n{rule}"), &["chain-added"])
    }),
    ("a set added", |_, _| nft("add set inet palisade marks { type mark; }".to_owned(), &["foreign"])),
    ("a map added", |_, _| nft("add map inet palisade more { type ipv4_addr : classid; size 256; }".to_owned(), &["map-added"])),
    ("a link taken from the chain of sources", |_, _| {
        nft("delete chain inet palisade sources { type filter hook ingress device pod1 priority -500; }".to_owned(), &["chain-moved"])
            .map(|it| Edit { with: With::Shell, does: moved_sources().to_owned(), ..it })
    }),
    ("a rule that does not track", |random, _| {
        let family = random.of(["ip", "ip6", "inet"]);
        let table = format!("add table {family} raw\nadd chain {family} raw pre {{ type filter hook prerouting priority -300; }}");
        let edit = nft(format!("{table}\nadd rule {family} raw pre udp dport 53 notrack"), &["notrack"])?;
        let undo = match family {
            "ip" => "nft delete table ip raw",
            "ip6" => "nft delete table ip6 raw",
            _ => "nft delete table inet raw",
        };
        Some(Edit { undo, ..edit })
    }),
    ("a rule of our own table that does not track", |_, _| {
        let chain = "add chain inet palisade pre { type filter hook prerouting priority -300; }";
        nft(format!("{chain}\nadd rule inet palisade pre notrack"), &["chain-added", "foreign"])
    }),
    ("a rule that forwards", |random, _| {
        let does = random.of(["fwd to pod2", "dup to pod2"]);
        let chain = "add table netdev fast\nadd chain netdev fast in { type filter hook ingress device pod1 priority 0; }";
        let edit = nft(format!("{chain}\nadd rule netdev fast in {does}"), &["forwards", "duplicates"])?;
        Some(Edit { undo: "nft delete table netdev fast", ..edit })
    }),
    ("a rule that answers for pods, or for others", |random, _| {
        let (chain, does, expected): (_, _, &[&str]) = random.of([
            ("type filter hook forward priority -10;", "tcp dport 80 ct state new,invalid synproxy mss 1460 wscale 7", &["synproxy"]),
            ("type nat hook prerouting priority -100;", "iifname pod1 tcp dport 80 redirect to :15001", &["tproxy"]),
            ("type filter hook postrouting priority 300;", "ip saddr 10.0.0.1 tcp dport 80 tcp dport set 90", &["rewrites"]),
            ("type filter hook postrouting priority 300;", "ip daddr 10.0.0.1 ip daddr set 10.0.0.2", &["rewrites"]),
        ]);
        let edit = nft(format!("add table ip odd\nadd chain ip odd own {{ {chain} }}\nadd rule ip odd own {does}"), expected)?;
        Some(Edit { undo: "nft delete table ip odd", ..edit })
    }),
    ("a rule in a small table of ours that does not track", |random, _| {
        let (table, undo) = random.of([
            ("palisade-answers", "nft delete table inet palisade-answers"),
            ("palisade-strays", "nft delete table inet palisade-strays"),
        ]);
        let chain = format!("add table inet {table}\nadd chain inet {table} pre {{ type filter hook prerouting priority -300; }}");
        Some(Edit { undo, ..nft(format!("{chain}\nadd rule inet {table} pre notrack"), &["notrack"])? })
    }),
    ("packets that name their way", |random, _| {
        let (does, undo) = random.of([
            (
                "sysctl -qw net.ipv4.conf.all.accept_source_route=1 net.ipv4.conf.pod1.accept_source_route=1",
                "sysctl -qw net.ipv4.conf.all.accept_source_route=0",
            ),
            (
                "sysctl -qw net.ipv6.conf.all.seg6_enabled=1 net.ipv6.conf.pod1.seg6_enabled=1",
                "sysctl -qw net.ipv6.conf.all.seg6_enabled=0",
            ),
        ]);
        shell(does, &["source-routing"], undo)
    }),
    ("a link on that of a pod", |_, _| {
        shell("ip link add link pod1 name child type macvlan mode bridge", &["link-on-link"], "ip link del child")
    }),
    ("the table of frames", |random, _| {
        let line = random.of([
            "delete table netdev palisade",
            "flush table netdev palisade",
            "insert rule netdev palisade frames-1 accept",
            "add chain netdev palisade own",
            "add table netdev palisade { flags dormant; }",
        ]);
        nft(line.to_owned(), &["table-missing", "table-dormant", "rule-missing", "rule-added", "chain-added"])
    }),
    ("a table left beside ours", |_, _| {
        nft(
            "add table inet palisade-next\nadd chain inet palisade-next forward { type filter hook forward priority 0; policy drop; }"
                .to_owned(),
            &["table-left"],
        )
    }),
    ("forwarding switched off", |random, _| {
        let (does, undo) = random.of([
            ("sysctl -qw net.ipv4.ip_forward=0", "sysctl -qw net.ipv4.ip_forward=1"),
            ("sysctl -qw net.ipv6.conf.all.forwarding=0", "sysctl -qw net.ipv6.conf.all.forwarding=1"),
        ]);
        shell(does, &["forwarding-off"], undo)
    }),
    ("a bridge that does not call", |random, _| {
        let (does, undo) = random.of([
            ("sysctl -qw net.bridge.bridge-nf-call-iptables=0", "sysctl -qw net.bridge.bridge-nf-call-iptables=1"),
            ("sysctl -qw net.bridge.bridge-nf-call-ip6tables=0", "sysctl -qw net.bridge.bridge-nf-call-ip6tables=1"),
        ]);
        shell(does, &["bridge-not-filtered"], undo)
    }),
    ("a program of tc", |random, _| {
        let (does, undo) = random.of([
            ("tc qdisc add dev pod1 clsact; tc filter add dev pod1 ingress bpf da bytecode '1,6 0 0 0'", "tc qdisc del dev pod1 clsact"),
            ("tc qdisc add dev pod2 clsact; tc filter add dev pod2 egress bpf da bytecode '1,6 0 0 0'", "tc qdisc del dev pod2 clsact"),
            (
                "tc qdisc add dev pod3 ingress; tc filter add dev pod3 parent ffff: bpf da bytecode '1,6 0 0 0'",
                "tc qdisc del dev pod3 ingress",
            ),
        ]);
        shell(does, &["tc-filter"], undo)
    }),
    ("a redirect of tc", |random, _| {
        let (does, undo) = random.of([
            (
                "tc qdisc add dev pod1 clsact; tc filter add dev pod1 ingress u32 match u32 0 0 action mirred egress redirect dev pod2",
                "tc qdisc del dev pod1 clsact",
            ),
            (
                "tc qdisc add dev br0 clsact; tc filter add dev br0 egress u32 match u32 0 0 action mirred egress mirror dev pod2",
                "tc qdisc del dev br0 clsact",
            ),
        ]);
        shell(does, &["tc-filter"], undo)
    }),
    ("a program of tc for a class", |_, _| {
        let root = "tc qdisc add dev pod2 root handle 1: htb default 1; tc class add dev pod2 parent 1: classid 1:1 htb rate 1gbit";
        let filter =
            "tc filter add dev pod2 parent 1:1 protocol ip prio 1 bpf bytecode '1,6 0 0 4294967295,' action mirred egress mirror dev pod1";
        shell(&format!("{root}; {filter}"), &["tc-filter"], "tc qdisc del dev pod2 root")
    }),
    ("a program of XDP", |random, node| {
        let (mode, undo) = random.of([("xdp", "ip link set dev pod1 xdp off"), ("xdpgeneric", "ip link set dev pod1 xdpgeneric off")]);
        let file = node.program.path().join("pass.o");
        shell(&format!("ip link set dev pod1 {mode} obj {} sec xdp", file.display()), &["xdp-program"], undo)
    }),
    ("a link of IPVS", |_, _| shell("ip link add kube-ipvs0 type bridge", &["ipvs"], "ip link del kube-ipvs0")),
];

impl Edit {
    pub(super) fn apply(&self, node: &Node) -> Result<(), String> {
        match self.with {
            With::Nft => node.ground.try_nft(&self.does).map(drop),
            With::Shell => node.shell(&self.does),
        }
    }

    pub(super) fn undo(&self, node: &Node) {
        node.shell(self.undo).unwrap_or_else(|error| panic!("{}: {error}", self.undo));
    }
}

fn nft(does: String, expected: &'static [&'static str]) -> Option<Edit> {
    Some(Edit { does, with: With::Nft, expected, undo: "true" })
}

fn shell(does: &str, expected: &'static [&'static str], undo: &'static str) -> Option<Edit> {
    Some(Edit { does: does.to_owned(), with: With::Shell, expected, undo })
}

/// Writes the chain anew, with all but its first link.
fn moved_sources() -> &'static str {
    "nft list chain inet palisade sources | sed 's/devices = { \"\\?pod1\"\\?, /devices = { /' > /dev/shm/palisade-verify-$$
     grep -q 'pod2' /dev/shm/palisade-verify-$$ && ! grep -q 'devices.*pod1' /dev/shm/palisade-verify-$$
     nft 'flush chain inet palisade sources; delete chain inet palisade sources'
     nft -f /dev/shm/palisade-verify-$$; rm /dev/shm/palisade-verify-$$"
}

/// A chain that has rules.
fn chain(random: &mut Random, node: &Node) -> String {
    let all: Vec<&String> = node.wanted.chains.iter().filter(|(_, it)| !it.rules.is_empty()).map(|(name, _)| name).collect();
    (*random.pick(&all).unwrap()).clone()
}

/// One that is no base chain.
fn plain(random: &mut Random, node: &Node) -> Option<String> {
    let all: Vec<&String> = node.wanted.chains.iter().filter(|(_, it)| it.hook.is_none()).map(|(name, _)| name).collect();
    random.pick(&all).map(|it| (*it).clone())
}

/// The handles of the rules of a chain.
fn handles(node: &Node, chain: &str) -> Vec<String> {
    let command = format!("nft -a list chain inet palisade {chain}");
    let output = node.ground.node.run(|| std::process::Command::new("sh").args(["-c", &command]).output().unwrap()).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let rules = text.lines().filter(|it| !it.contains("chain ") && !it.contains("table "));
    rules.filter_map(|it| it.split_once("# handle ").map(|(_, handle)| handle.trim().to_owned())).collect()
}

const RULES: [&str; 10] = [
    "accept",
    "drop",
    "return",
    "counter",
    "ip saddr 10.0.0.2 accept",
    "tcp dport 80 drop",
    "meta mark 7 counter accept",
    "ip daddr 10.0.0.0/24 accept",
    "meta l4proto 17 th dport 53 return",
    "limit rate 10/second accept",
];

fn rule_deleted(random: &mut Random, node: &Node) -> Option<Edit> {
    let chain = chain(random, node);
    let handle = random.pick(&handles(node, &chain))?.clone();
    nft(format!("delete rule inet palisade {chain} handle {handle}"), &["rule-missing"])
}

fn rule_inserted(random: &mut Random, node: &Node) -> Option<Edit> {
    nft(format!("insert rule inet palisade {} {}", chain(random, node), random.of(RULES)), &["rule-added", "foreign"])
}

fn rule_added(random: &mut Random, node: &Node) -> Option<Edit> {
    nft(format!("add rule inet palisade {} {}", chain(random, node), random.of(RULES)), &["rule-added", "foreign"])
}

fn rule_replaced(random: &mut Random, node: &Node) -> Option<Edit> {
    let chain = chain(random, node);
    let handle = random.pick(&handles(node, &chain))?.clone();
    let rule = random.of(RULES);
    nft(format!("replace rule inet palisade {chain} handle {handle} {rule} comment \"new\""), &["rule-changed", "rule-missing"])
}

/// The first rule of a chain becomes its last.
fn rule_moved(random: &mut Random, node: &Node) -> Option<Edit> {
    let chain = chain(random, node);
    let first = node.wanted.chains.get(&chain)?.rules.first()?.clone();
    if node.wanted.chains.get(&chain)?.rules.iter().all(|it| *it == first) {
        return None;
    }
    let handle = handles(node, &chain).first()?.clone();
    let only = Ruleset { chains: [("x".to_owned(), palisade_nft::Chain { hook: None, rules: vec![first] })].into(), ..Ruleset::default() };
    let text = palisade_nft::render(&only);
    let rule = text.lines().nth(2)?.trim().to_owned();
    nft(
        format!("delete rule inet palisade {chain} handle {handle}\nadd rule inet palisade {chain} {rule}"),
        &["rule-missing", "rule-added", "rule-changed"],
    )
}

fn data_element(random: &mut Random, node: &Node) -> Option<(String, String)> {
    let all: Vec<(String, String)> =
        node.wanted.data.iter().flat_map(|(name, map)| map.elements.keys().map(move |it| (name.clone(), it.to_string()))).collect();
    random.pick(&all).cloned()
}

fn element_deleted(random: &mut Random, node: &Node) -> Option<Edit> {
    let (map, key) = data_element(random, node)?;
    nft(format!("delete element inet palisade {map} {{ {key} }}"), &["element-missing"])
}

/// Any number that another element of the map has, or none has.
fn number(random: &mut Random, node: &Node, map: &str) -> String {
    let mut all: Vec<u32> = node.wanted.data.get(map).into_iter().flat_map(|it| it.elements.values().copied()).collect();
    all.push(0x7777);
    let number = *random.pick(&all).unwrap();
    format!("{:x}:{:x}", number >> 16, number & 0xffff)
}

fn element_changed(random: &mut Random, node: &Node) -> Option<Edit> {
    let (map, key) = data_element(random, node)?;
    let number = number(random, node, &map);
    let is = node.wanted.data.get(&map)?.elements.get(&key.parse().ok()?)?;
    if number == format!("{:x}:{:x}", is >> 16, is & 0xffff) {
        return None;
    }
    let delete = format!("delete element inet palisade {map} {{ {key} }}");
    nft(format!("{delete}\nadd element inet palisade {map} {{ {key} : {number} }}"), &["element-changed"])
}

fn element_added(random: &mut Random, node: &Node) -> Option<Edit> {
    let (map, key) = data_element(random, node)?;
    let number = number(random, node, &map);
    let address = if key.contains(':') { format!("fd77::{}", random.between(1, 9)) } else { format!("10.77.0.{}", random.between(1, 9)) };
    nft(format!("add element inet palisade {map} {{ {address} : {number} }}"), &["element-added"])
}

fn verdict_element(random: &mut Random, node: &Node) -> Option<(String, String, String)> {
    let all: Vec<(String, u32, String)> = node
        .wanted
        .verdicts
        .iter()
        .flat_map(|(name, map)| map.elements.iter().map(move |(it, chain)| (name.clone(), *it, chain.clone())))
        .collect();
    let (map, key, chain) = random.pick(&all)?.clone();
    Some((map, format!("{:x}:{:x}", key >> 16, key & 0xffff), chain))
}

fn verdict_deleted(random: &mut Random, node: &Node) -> Option<Edit> {
    let (map, key, _) = verdict_element(random, node)?;
    nft(format!("delete element inet palisade {map} {{ {key} }}"), &["element-missing"])
}

fn verdict_changed(random: &mut Random, node: &Node) -> Option<Edit> {
    let (map, key, chain) = verdict_element(random, node)?;
    let leaves: Vec<String> =
        node.wanted.chains.keys().filter(|it| it.starts_with("leaf-") && **it != chain).map(|it| format!("goto {it}")).collect();
    let other = if random.percent(70) { random.pick(&leaves)?.clone() } else { random.of(["accept", "drop"]).to_owned() };
    let delete = format!("delete element inet palisade {map} {{ {key} }}");
    nft(format!("{delete}\nadd element inet palisade {map} {{ {key} : {other} }}"), &["element-changed", "element-missing"])
}

fn verdict_added(random: &mut Random, node: &Node) -> Option<Edit> {
    let (map, _, chain) = verdict_element(random, node)?;
    nft(format!("add element inet palisade {map} {{ 0:{:x} : goto {chain} }}", random.between(1, 40)), &["element-added"])
}

fn range(random: &mut Random, node: &Node) -> Option<(String, String)> {
    let all: Vec<(String, String)> = node
        .wanted
        .intervals
        .iter()
        .flat_map(|(name, map)| {
            let text = |first: &std::net::IpAddr, last: &std::net::IpAddr| {
                if first == last { first.to_string() } else { format!("{first}-{last}") }
            };
            map.elements.iter().map(move |(first, (last, _))| (name.clone(), text(first, last)))
        })
        .collect();
    random.pick(&all).cloned()
}

fn range_deleted(random: &mut Random, node: &Node) -> Option<Edit> {
    let (map, key) = range(random, node)?;
    nft(format!("delete element inet palisade {map} {{ {key} }}"), &["element-missing"])
}

fn range_changed(random: &mut Random, node: &Node) -> Option<Edit> {
    let (map, key) = range(random, node)?;
    let delete = format!("delete element inet palisade {map} {{ {key} }}");
    nft(format!("{delete}\nadd element inet palisade {map} {{ {key} : 0:7777 }}"), &["element-changed"])
}

fn source_added(random: &mut Random, _: &Node) -> Option<Edit> {
    let (set, address) = random.of([("sources4", "10.77.0.1"), ("sources4", "10.0.0.4"), ("sources6", "fd77::1")]);
    let link = random.of(["pod1", "pod2", "pod3", "nobody"]);
    nft(format!("add element inet palisade {set} {{ \"{link}\" . {address} }}"), &["element-added"])
}

fn source_deleted(random: &mut Random, node: &Node) -> Option<Edit> {
    let all: Vec<String> = node
        .wanted
        .sets
        .iter()
        .flat_map(|(name, set)| set.elements.iter().map(move |(link, address)| format!("{name} {{ \"{link}\" . {address} }}")))
        .collect();
    nft(format!("delete element inet palisade {}", random.pick(&all)?), &["element-missing"])
}

fn map_flushed(random: &mut Random, node: &Node) -> Option<Edit> {
    let maps = node.wanted.data.iter().filter(|(_, it)| !it.elements.is_empty()).map(|(name, _)| format!("map inet palisade {name}"));
    let verdicts =
        node.wanted.verdicts.iter().filter(|(_, it)| !it.elements.is_empty()).map(|(name, _)| format!("map inet palisade {name}"));
    let ranges = node.wanted.intervals.keys().map(|name| format!("map inet palisade {name}"));
    let sets = node.wanted.sets.keys().chain(node.wanted.pairs.keys()).map(|name| format!("set inet palisade {name}"));
    let all: Vec<String> = maps.chain(verdicts).chain(ranges).chain(sets).collect();
    nft(format!("flush {}", random.pick(&all)?), &["element-missing"])
}

/// A base chain at another priority, with its rules.
fn chain_moved(random: &mut Random, _: &Node) -> Option<Edit> {
    let chain = random.of(["forward", "input"]);
    let file = "/dev/shm/palisade-verify-$$";
    let line = format!(
        "nft list chain inet palisade {chain} | sed 's/priority filter/priority 10/' > {file}; grep -q 'priority 10' {file}
         nft 'flush chain inet palisade {chain}; delete chain inet palisade {chain}'; nft -f {file}; rm {file}"
    );
    shell(&line, &["chain-moved"], "true")
}
