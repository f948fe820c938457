//! The ruleset as nft text, for people and for `nft -f`.

use crate::netlink::encode::hook_priority;
use crate::netlink::map::Shape;
use crate::ruleset::{
    AUDIT_GROUP, AUDIT_PREFIX, Address, AddressSet, Chain, CtState, DataMap, End, Hook, IntervalMap, LOG_GROUP, LOG_PREFIX, LinkName,
    Match, Neighbour, PairSet, Rule, Ruleset, SourceSet, Statement, TupleKey, TupleMap, Value, Verdict, VerdictMap, quotable,
};
use crate::transaction::Table;

/// The own table as `nft -f` takes it. The same ruleset always gives the same bytes.
pub fn render(ruleset: &Ruleset) -> String {
    render_table(Table::Own, ruleset)
}

/// The same for another of our tables.
pub fn render_table(table: Table, ruleset: &Ruleset) -> String {
    let mut out = format!("table {table} {{\n");
    for (name, map) in &ruleset.data {
        out.push_str(&data(name, map));
    }
    for (name, map) in &ruleset.intervals {
        out.push_str(&intervals(name, map));
    }
    for (name, map) in &ruleset.verdicts {
        out.push_str(&verdicts(name, map));
    }
    for (name, set) in &ruleset.sets {
        out.push_str(&sources(name, set));
    }
    for (name, set) in &ruleset.pairs {
        out.push_str(&pairs(name, set));
    }
    for (name, set) in &ruleset.addresses {
        out.push_str(&addresses(name, set));
    }
    for (name, map) in &ruleset.tuples {
        out.push_str(&tuples(name, map));
    }
    for (name, it) in &ruleset.chains {
        out.push_str(&chain(table, name, it));
    }
    out.push_str("}\n");
    out
}

fn address_type(family: Address) -> &'static str {
    match family {
        Address::V4 => "ipv4_addr",
        Address::V6 => "ipv6_addr",
    }
}

/// The room and the elements of a map.
fn elements(shape: Shape, items: Vec<String>) -> String {
    let room = match shape.room(items.len()) {
        Some(room) => format!("    size {room}\n"),
        None => String::new(),
    };
    match items.is_empty() {
        true => room,
        false => format!("{room}    elements = {{ {} }}\n", items.join(",\n                 ")),
    }
}

fn data(name: &str, map: &DataMap) -> String {
    let items = map.elements.iter().map(|(address, it)| format!("{address} : {}", number(*it))).collect();
    format!("  map {name} {{\n    type {} : classid\n{}  }}\n", address_type(map.family), elements(Shape::Data(map.family), items))
}

fn intervals(name: &str, map: &IntervalMap) -> String {
    let items = map.elements.iter().map(|(first, (last, it))| format!("{first}-{last} : {}", number(*it))).collect();
    format!(
        "  map {name} {{\n    type {} : classid\n    flags interval\n{}  }}\n",
        address_type(map.family),
        elements(Shape::Interval(map.family), items)
    )
}

fn verdicts(name: &str, map: &VerdictMap) -> String {
    let items = map.elements.iter().map(|(it, chain)| format!("{} : goto {chain}", number(*it))).collect();
    format!("  map {name} {{\n    type classid : verdict\n{}  }}\n", elements(Shape::Numbers, items))
}

fn sources(name: &str, set: &SourceSet) -> String {
    let items = set.elements.iter().map(|(name, address)| format!("{} . {address}", link(name))).collect();
    format!("  set {name} {{\n    type ifname . {}\n{}  }}\n", address_type(set.family), elements(Shape::Sources(set.family), items))
}

fn pairs(name: &str, set: &PairSet) -> String {
    let items = set.elements.iter().map(|(source, destination)| format!("{source} . {destination}")).collect();
    let key = address_type(set.family);
    format!("  set {name} {{\n    type {key} . {key}\n{}  }}\n", elements(Shape::Pairs(set.family), items))
}

fn addresses(name: &str, set: &AddressSet) -> String {
    let items = set.elements.iter().map(ToString::to_string).collect();
    format!("  set {name} {{\n    type {}\n{}  }}\n", address_type(set.family), elements(Shape::Addresses(set.family), items))
}

fn tuples(name: &str, map: &TupleMap) -> String {
    let items = map.elements.iter().map(|(tuple, chain)| format!("{tuple} : goto {chain}")).collect();
    let (address, ports) = (address_type(map.family), if map.key == TupleKey::Ports { " . inet_service . inet_service" } else { "" });
    let key = format!("{address} . {address} . inet_proto{ports}");
    format!("  map {name} {{\n    type {key} : verdict\n{}  }}\n", elements(Shape::Tuples(map.family, map.key), items))
}

/// The name of a link. One with a quote in it cannot be said in this text, and one with a star would stand for all that begin so.
fn link(name: &str) -> String {
    format!("\"{}\"", quotable(name).replace('*', "\\*"))
}

/// A traffic class, which nft prints as major:minor in hexadecimal.
pub(crate) fn number(it: u32) -> String {
    format!("{:x}:{:x}", it >> 16, it & 0xffff)
}

/// What `number` wrote.
pub(crate) fn read_number(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once(':')?;
    let part = |it| u16::from_str_radix(it, 16).ok().map(u32::from);
    Some(part(major)? << 16 | part(minor)?)
}

fn chain(table: Table, name: &str, chain: &Chain) -> String {
    let mut out = format!("  chain {name} {{\n");
    if let Some(hook) = &chain.hook {
        let point = match hook {
            Hook::Frames { devices } | Hook::Ingress { devices } => {
                let devices: Vec<String> = devices.iter().map(|it| link(it)).collect();
                format!("ingress devices = {{ {} }}", devices.join(", "))
            }
            Hook::Forward => "forward".to_owned(),
            Hook::Input => "input".to_owned(),
            Hook::Output => "output".to_owned(),
        };
        out.push_str(&format!("    type filter hook {point} priority {}; policy accept;\n", priority(hook_priority(table, hook))));
    }
    for it in &chain.rules {
        out.push_str(&format!("    {}\n", rule(it)));
    }
    out.push_str("  }\n");
    out
}

/// A priority as `nft list` shows it: by the standard name where one is near.
fn priority(number: i32) -> String {
    match number {
        0 => "filter".to_owned(),
        -10..0 => format!("filter - {}", -number),
        other => other.to_string(),
    }
}

/// A rule as `nft list` shows it.
pub(crate) fn rule(rule: &Rule) -> String {
    let mut words: Vec<String> = rule.matches.iter().map(condition).collect();
    words.extend(rule.statements.iter().map(statement));
    words.extend(rule.comment.as_ref().map(|it| format!("comment \"{}\"", quotable(it))));
    words.join(" ")
}

fn condition(it: &Match) -> String {
    match it {
        Match::Ct(CtState::Established) => "ct state established".to_owned(),
        Match::Ct(CtState::Related) => "ct state related".to_owned(),
        Match::Ct(CtState::Invalid) => "ct state invalid".to_owned(),
        Match::Ct(CtState::New) => "ct state new".to_owned(),
        Match::Protocol(protocols) => match protocols.as_slice() {
            [only] => format!("meta l4proto {only}"),
            several => format!("meta l4proto {{ {} }}", several.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
        },
        Match::Port { first, last } if first == last => format!("th dport {first}"),
        Match::Port { first, last } => format!("th dport {first}-{last}"),
        Match::Number(it) => format!("meta priority {}", number(*it)),
        Match::NeighbourDiscovery => "icmpv6 type 133-137 ip6 hoplimit 255".to_owned(),
        Match::RouterSolicitationFrom(source) => format!("{} icmpv6 type nd-router-solicit ip6 hoplimit 255", neighbour(*source)),
        Match::NeighbourDiscoveryFrom(source) => format!("{} icmpv6 type 135-136 ip6 hoplimit 255", neighbour(*source)),
        Match::ListenerDiscoveryFrom(source) => format!("{} icmpv6 type 130-132 ip6 hoplimit 1", neighbour(*source)),
        Match::ListenerReportFrom(source) => format!("{} icmpv6 type mld2-listener-report ip6 hoplimit 1", neighbour(*source)),
        Match::LinkAndSource { family, set } => format!("iifname . {} saddr @{set}", layer(*family)),
        Match::LinkAndDestination { family, set } => format!("oifname . {} daddr @{set}", layer(*family)),
        Match::Link { end, name } => format!("{} {}", link_of(*end), link_name(name)),
        Match::In { end, family, set } => format!("{} {} @{set}", layer(*family), field(*end)),
        Match::Pair { family, set } => format!("{layer} saddr . {layer} daddr @{set}", layer = layer(*family)),
        Match::SourceIsLocal => "fib saddr type local".to_owned(),
        Match::NotSyn => "tcp flags & (fin|syn|rst|ack) != syn".to_owned(),
        Match::FrameTypeNotIn(kinds) => kinds.iter().map(|it| format!("ether type != {}", frame_type(*it))).collect::<Vec<_>>().join(" "),
    }
}

/// The type of a frame as `nft list` shows it.
fn frame_type(kind: u16) -> String {
    match kind {
        0x0800 => "ip".to_owned(),
        0x86dd => "ip6".to_owned(),
        0x0806 => "arp".to_owned(),
        other => format!("{other:#06x}"),
    }
}

fn link_of(end: End) -> &'static str {
    match end {
        End::Source => "iifname",
        End::Destination => "oifname",
    }
}

fn link_name(name: &LinkName) -> String {
    match name {
        LinkName::Whole(name) => format!("\"{name}\""),
        LinkName::Beginning(start) => format!("\"{start}*\""),
    }
}

fn field(end: End) -> &'static str {
    match end {
        End::Source => "saddr",
        End::Destination => "daddr",
    }
}

fn neighbour(source: Neighbour) -> &'static str {
    match source {
        Neighbour::Unspecified => "ip6 saddr ::",
        Neighbour::LinkLocal => "ip6 saddr fe80::/10",
    }
}

fn statement(it: &Statement) -> String {
    match it {
        Statement::Set(Value::Zero) => "meta priority set 0".to_owned(),
        Statement::Set(Value::From { end, family, map }) => {
            format!("meta priority set {} {} map @{map}", layer(*family), field(*end))
        }
        Statement::Counter => "counter".to_owned(),
        Statement::Log(origin) => format!("log prefix \"{LOG_PREFIX}{origin:08x} \" group {LOG_GROUP}"),
        Statement::Would(number) => format!("log prefix \"{AUDIT_PREFIX}{number:08x} \" group {AUDIT_GROUP}"),
        Statement::Look(map) => format!("meta priority vmap @{map}"),
        Statement::LookTuple { family, key, map } => {
            let (layer, ports) = (layer(*family), if *key == TupleKey::Ports { " . th sport . th dport" } else { "" });
            format!("{layer} saddr . {layer} daddr . meta l4proto{ports} vmap @{map}")
        }
        Statement::Verdict(verdict) => match verdict {
            Verdict::Accept => "accept".to_owned(),
            Verdict::Drop => "drop".to_owned(),
            Verdict::Return => "return".to_owned(),
            Verdict::Jump(chain) => format!("jump {chain}"),
            Verdict::Goto(chain) => format!("goto {chain}"),
        },
    }
}

fn layer(family: Address) -> &'static str {
    match family {
        Address::V4 => "ip",
        Address::V6 => "ip6",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_and_no_comment_ends_its_quotes_or_its_line() {
        let rule = Rule { comment: Some("a\"b\nc\u{17}".to_owned()), ..Rule::to(Verdict::Drop) };
        let devices = ["po\"d".to_owned(), "eth*".to_owned()].into();
        let chain = Chain { hook: Some(Hook::Ingress { devices }), rules: vec![rule] };
        let text = render(&Ruleset { chains: [("sources".to_owned(), chain)].into(), ..Ruleset::default() });
        let expected = "table inet palisade {\n  chain sources {\n    type filter hook ingress devices = { \"eth\\*\", \"po'd\" } \
            priority -500; policy accept;\n    drop comment \"a'b?c?\"\n  }\n}\n";
        assert_eq!(text, expected);
    }
}
