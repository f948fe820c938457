use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::*;
use crate::Layout;
use crate::render;
use crate::ruleset::{
    Address, Chain, CtState, DataMap, End, Hook, IntervalMap, Match, PairSet, Rule, SourceSet, Statement, Value, Verdict, VerdictMap,
};
use crate::{BlockedReplies, Force, Frames, Policy, Shared, Tuple, UnknownPods};

const POD: &str = "10.0.0.1";
const FRIEND: &str = "10.0.0.2";

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn drops(comment: &str) -> Rule {
    let statements = vec![Statement::Counter, Statement::Log(1), Statement::Verdict(Verdict::Drop)];
    Rule { statements, comment: Some(comment.to_owned()), ..Rule::default() }
}

/// One pod that a friend may call at TCP 80, and nobody else at anything.
fn ruleset() -> Ruleset {
    let goto = |chain: &str| Rule::to(Verdict::Goto(chain.to_owned()));
    let from = |end, map: &str| Rule::set(Value::From { end, family: Address::V4, map: map.to_owned() });
    let look = |map: &str| Rule { statements: vec![Statement::Look(map.to_owned())], ..Rule::default() };
    let forward = vec![
        Rule::to(Verdict::Accept).when(Match::Ct(CtState::Established)),
        Rule::to(Verdict::Accept).when(Match::NeighbourDiscovery),
        Rule::to(Verdict::Jump("ingress".to_owned())),
        Rule::set(Value::Zero),
    ];
    let ingress = vec![Rule::set(Value::Zero), from(End::Destination, "ingress4"), look("ingress-programs")];
    let program = vec![
        Rule::set(Value::Zero),
        goto("closed").when(Match::Pair { family: Address::V4, set: "self4".to_owned() }),
        from(End::Source, "class4"),
        from(End::Source, "net4").when(Match::Number(0)),
        look("p-leaves"),
        goto("closed"),
    ];
    let http = Rule::to(Verdict::Return).when(Match::Protocol(vec![6])).when(Match::Port { first: 80, last: 80 });
    let chain = |hook, rules| Chain { hook, rules };
    let devices = BTreeSet::from(["veth1".to_owned()]);
    let own = Rule::to(Verdict::Accept).when(Match::LinkAndSource { family: Address::V4, set: "sources4".to_owned() });
    let data =
        |elements: &[(&str, u32)]| DataMap { family: Address::V4, elements: elements.iter().map(|(it, n)| (address(it), *n)).collect() };
    Ruleset {
        layout: Layout::CURRENT,
        chains: Shared::from([
            ("forward".to_owned(), chain(Some(Hook::Forward), forward)),
            ("ingress".to_owned(), chain(None, ingress)),
            ("p".to_owned(), chain(None, program)),
            ("open".to_owned(), chain(None, vec![http, drops("isolated np/x/p")])),
            ("closed".to_owned(), chain(None, vec![drops("isolated np/x/p")])),
            ("sources".to_owned(), chain(Some(Hook::Ingress { devices }), vec![own, drops("forged source")])),
        ]),
        data: BTreeMap::from([("ingress4".to_owned(), data(&[(POD, 100)])), ("class4".to_owned(), data(&[(POD, 200), (FRIEND, 201)]))]),
        intervals: BTreeMap::from([(
            "net4".to_owned(),
            IntervalMap { family: Address::V4, elements: BTreeMap::from([(address("0.0.0.0"), (address("255.255.255.255"), 300))]) },
        )]),
        verdicts: [
            ("ingress-programs".to_owned(), VerdictMap { elements: BTreeMap::from([(100, "p".to_owned())]) }),
            ("p-leaves".to_owned(), VerdictMap { elements: BTreeMap::from([(201, "open".to_owned())]) }),
        ]
        .into(),
        sets: BTreeMap::from([(
            "sources4".to_owned(),
            SourceSet { family: Address::V4, elements: BTreeSet::from([("veth1".to_owned(), address(POD))]) },
        )]),
        addresses: BTreeMap::new(),
        tuples: BTreeMap::new(),
        pairs: BTreeMap::from([(
            "self4".to_owned(),
            PairSet { family: Address::V4, elements: BTreeSet::from([(address(POD), address(POD))]) },
        )]),
        origins: Shared::default(),
    }
}

/// Each difference in words, and what shows it: what should become of which packet, and what does.
fn check(edit: impl FnOnce(&mut Examined), expected: &[(&str, &str, &str)]) {
    let mut found = Examined::as_written(Table::Own, ruleset());
    edit(&mut found);
    let verified = verify(Table::Own, Some(&found), Some(&ruleset()));
    let told: Vec<(&str, String, String)> =
        verified.differences.iter().map(|it| (it.kind.name(), it.sentence(), shown(&found, it))).collect();
    let expected: Vec<(&str, String, String)> =
        expected.iter().map(|(kind, sentence, shown)| (*kind, (*sentence).to_owned(), (*shown).to_owned())).collect();
    assert_eq!(told, expected);
}

fn shown(found: &Examined, difference: &Difference) -> String {
    let it = match &difference.effect {
        Effect::Shown(it) => it,
        Effect::NoVerdict => return "changes no verdict".to_owned(),
        Effect::NotShown(why) => return why.clone(),
    };
    assert_eq!(fare(found, &it.packet).as_ref(), Ok(&it.found), "a packet fares as it is said to");
    let word = |it: &Fared| if it.accepted { "accepted" } else { "dropped" };
    let Packet { source, destination, protocol, port, .. } = &it.packet;
    let port = port.map_or(String::new(), |it| format!("/{it}"));
    format!("{source} > {destination} {protocol}{port} {} not {}", word(&it.found), word(&it.wanted))
}

#[test]
fn a_table_that_is_as_it_should_be_has_no_differences() {
    check(|_| {}, &[]);
    let compared = verify(Table::Own, Some(&Examined::as_written(Table::Own, ruleset())), Some(&ruleset())).compared;
    assert_eq!(compared, Compared { chains: 6, rules: 18, maps: 7, elements: 8, programs: 1, classes: 3 });
}

#[test]
fn a_table_that_is_not_there_lets_everything_in() {
    let verified = verify(Table::Own, None, Some(&ruleset()));
    let [only] = verified.differences.as_slice() else { panic!("{verified:?}") };
    assert_eq!(only.sentence(), "table `inet palisade` is missing");
    let Effect::Shown(example) = &only.effect else { panic!("{only:?}") };
    assert!(example.found.accepted && !example.wanted.accepted, "{example:?}");
}

#[test]
fn a_dormant_table_lets_everything_in() {
    let dormant = "table `inet palisade` is dormant: its chains are switched off";
    check(|it| it.force = Force::Dormant, &[("table-dormant", dormant, "10.0.0.2 > 10.0.0.1 1 accepted not dropped")]);
}

#[test]
fn a_table_of_another_layout_is_named_and_changes_no_verdict_by_that() {
    let older = "table `inet palisade` is of layout 0, and this is layout 1";
    check(|it| it.ruleset.layout = Layout::Version(0), &[("table-layout", older, "changes no verdict")]);
    let unmarked = "table `inet palisade` is of no layout that it names, and this is layout 1";
    check(|it| it.ruleset.layout = Layout::Unmarked, &[("table-layout", unmarked, "changes no verdict")]);
}

#[test]
fn elements_are_named_with_what_they_should_be() {
    let gone = "map `ingress4`: element 10.0.0.1 is missing; it should be `0:64`";
    check(
        |it| {
            it.ruleset.data.get_mut("ingress4").unwrap().elements.clear();
        },
        &[("element-missing", gone, "10.0.0.2 > 10.0.0.1 1 accepted not dropped")],
    );
    let changed = "map `class4`: element 10.0.0.2 should be `0:c9` and is `0:c8`";
    check(
        |it| {
            it.ruleset.data.get_mut("class4").unwrap().elements.insert(address(FRIEND), 200);
        },
        &[("element-changed", changed, "10.0.0.2 > 10.0.0.1 6/80 dropped not accepted")],
    );
    let added = "map `class4`: element 10.0.0.3 should not be there: `0:c9`";
    check(
        |it| {
            it.ruleset.data.get_mut("class4").unwrap().elements.insert(address("10.0.0.3"), 201);
        },
        &[("element-added", added, "10.0.0.3 > 10.0.0.1 6/80 accepted not dropped")],
    );
    let nobody = "map `class4`: element 10.0.0.3 should not be there: `1:0`";
    check(
        |it| {
            it.ruleset.data.get_mut("class4").unwrap().elements.insert(address("10.0.0.3"), 0x10000);
        },
        &[("element-added", nobody, "changes no verdict")],
    );
    let source = "map `sources4`: element \"veth1\" . 192.0.2.9 should not be there: `in the set`";
    check(
        |it| {
            it.ruleset.sets.get_mut("sources4").unwrap().elements.insert(("veth1".to_owned(), address("192.0.2.9")));
        },
        &[("element-added", source, "192.0.2.9 > 10.0.0.1 1 accepted not dropped")],
    );
}

#[test]
fn rules_are_named_with_their_place() {
    let rule = "rule 2 of chain `forward` is missing; it should be `jump ingress`";
    check(
        |it| drop(it.ruleset.chains.get_mut("forward").unwrap().rules.remove(2)),
        &[("rule-missing", rule, "10.0.0.2 > 10.0.0.1 1 accepted not dropped")],
    );
    let rule = "rule 0 of chain `closed` should not be there: `return`";
    check(
        |it| it.ruleset.chains.get_mut("closed").unwrap().rules.insert(0, Rule::to(Verdict::Return)),
        &[("rule-added", rule, "203.0.113.7 > 10.0.0.1 1 accepted not dropped")],
    );
    let rule = "rule 1 of chain `forward` is missing; it should be `icmpv6 type 133-137 ip6 hoplimit 255 accept`";
    check(
        |it| drop(it.ruleset.chains.get_mut("forward").unwrap().rules.remove(1)),
        &[("rule-missing", rule, "it is about packets that do not begin a connection")],
    );
    let rule = "rule 0 of chain `open` should be `meta l4proto 6 th dport 80 return` and is `meta l4proto 6 th dport 80-81 return`";
    check(
        |it| it.ruleset.chains.get_mut("open").unwrap().rules[0].matches[1] = Match::Port { first: 80, last: 81 },
        &[("rule-changed", rule, "10.0.0.2 > 10.0.0.1 6/81 accepted not dropped")],
    );
}

#[test]
fn chains_that_stand_elsewhere_are_named() {
    let wanted = "type filter hook forward priority 0; policy accept";
    let moved = format!("chain `forward` should be `{wanted}` and is `type filter hook forward priority 10; policy accept`");
    check(|it| it.stances.get_mut("forward").unwrap().priority = 10, &[("chain-moved", &moved, "changes no verdict")]);
    let closed = format!("chain `forward` should be `{wanted}` and is `type filter hook forward priority 0; policy drop`");
    check(
        |it| it.stances.get_mut("forward").unwrap().policy = Policy::Drop,
        &[("chain-moved", &closed, "10.0.0.1 > 10.0.0.2 1 dropped not accepted")],
    );
}

#[test]
fn maps_are_named_in_words_of_nft() {
    let leaves = "map `p-leaves` is missing; it should be a map of numbers to chains with 1 element";
    check(|it| drop(it.ruleset.verdicts.remove("p-leaves")), &[("map-missing", leaves, "no map `p-leaves`")]);
    let classes = "map `class4` is missing; it should be a map of IPv4 addresses to numbers with 2 elements";
    check(|it| drop(it.ruleset.data.remove("class4")), &[("map-missing", classes, "no map `class4`")]);
    let ranges = "map `net4` is missing; it should be a map of ranges of IPv4 addresses to numbers with 1 element";
    check(|it| drop(it.ruleset.intervals.remove("net4")), &[("map-missing", ranges, "no map `net4`")]);
    let sources = "map `sources4` is missing; it should be a set of links and IPv4 addresses with 1 element";
    check(|it| drop(it.ruleset.sets.remove("sources4")), &[("map-missing", sources, "no set `sources4`")]);
    let pairs = "map `more6` should not be there: a set of pairs of IPv6 addresses with 0 elements";
    let set = || PairSet { family: Address::V6, elements: BTreeSet::new() };
    check(|it| drop(it.ruleset.pairs.insert("more6".to_owned(), set())), &[("map-added", pairs, "changes no verdict")]);
    let kind = "map `self4` should be a set of pairs of IPv4 addresses and is a set of pairs of IPv6 addresses";
    check(|it| drop(it.ruleset.pairs.insert("self4".to_owned(), set())), &[("map-kind", kind, "changes no verdict")]);
}

/// The tables that only an agent at work fills, each with something in it.
fn small_tables() -> [(Table, Ruleset, &'static str); 3] {
    let reply = Tuple::new("10.0.0.2:53".parse().unwrap(), "10.0.0.1:4000".parse().unwrap(), 17);
    let unknown = UnknownPods { origin: 7, pods: [("tap1".to_owned(), address(FRIEND))].into() };
    [
        (Table::UnknownPods, unknown.ruleset().unwrap(), "forward"),
        (Table::Replies, BlockedReplies { replies: [(reply, 7)].into() }.ruleset().unwrap(), "forward"),
        (Table::Frames, Frames { links: ["veth1".to_owned()].into() }.ruleset(None).unwrap(), "frames-1"),
    ]
}

#[test]
fn a_rule_that_accepts_in_a_small_table_opens() {
    for (table, wanted, base) in small_tables() {
        let name = table.to_string();
        assert_eq!(verify(table, Some(&Examined::as_written(table, wanted.clone())), Some(&wanted)).differences, []);
        let mut found = Examined::as_written(table, wanted.clone());
        found.ruleset.chains.get_mut(base).unwrap().rules.insert(0, Rule::to(Verdict::Accept));
        let verified = verify(table, Some(&found), Some(&wanted));
        let [only] = verified.differences.as_slice() else { panic!("{verified:?}") };
        assert_eq!(only.sentence(), format!("rule 0 of chain `{base}` of table `{name}` should not be there: `accept`"));
        assert!(shown(&found, only).ends_with("accepted not dropped"), "{only:?}");
        let missing = verify(table, None, Some(&wanted));
        let [only] = missing.differences.as_slice() else { panic!("{missing:?}") };
        assert_eq!(only.sentence(), format!("table `{name}` is missing"));
        assert!(matches!(&only.effect, Effect::Shown(it) if it.found.accepted), "{only:?}");
    }
}

#[test]
fn a_small_table_that_should_not_be_there_closes_and_is_named_with_its_rules() {
    for (table, ruleset, base) in small_tables() {
        let found = Examined::as_written(table, ruleset.clone());
        let verified = verify(table, Some(&found), None);
        let sentences: Vec<String> = verified.differences.iter().map(Difference::sentence).collect();
        assert_eq!(sentences[0], format!("table `{table}` should not be there"));
        assert!(matches!(&verified.differences[0].effect, Effect::Shown(it) if !it.found.accepted), "{verified:?}");
        let rule = render::rule(&ruleset.chains.get(base).unwrap().rules[0]);
        assert!(
            sentences.iter().any(|it| it.starts_with(&format!("chain `{base}` of table `{table}`")) && it.contains(&rule)),
            "{sentences:?}"
        );
    }
}

/// The packet that an element names is the one that shows what becomes of it.
#[test]
fn a_reply_that_is_blocked_no_more_is_shown_by_its_packet() {
    let [_, (table, wanted, _), _] = small_tables();
    let mut found = Examined::as_written(table, wanted.clone());
    found.ruleset.tuples.values_mut().for_each(|it| it.elements.clear());
    let verified = verify(table, Some(&found), Some(&wanted));
    let [only] = verified.differences.as_slice() else { panic!("{verified:?}") };
    let expected = "map `answers4` of table `inet palisade-answers`: element 10.0.0.2 . 10.0.0.1 . 17 . 53 . 4000 is missing; it should be `goto denied-00000007`";
    assert_eq!((only.kind, only.sentence().as_str()), (DifferenceKind::ElementMissing, expected));
    assert_eq!(shown(&found, only), "10.0.0.2 > 10.0.0.1 17/4000 accepted not dropped");
}
