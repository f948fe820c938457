//! Transactions without a kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::layout::Layout;
use crate::netlink::batch::Expected;
use crate::netlink::encode::encode;
use crate::object::Object;
use crate::ruleset::{
    Address, AddressSet, Chain, DataMap, End, Hook, IntervalMap, Match, PairSet, Rule, Ruleset, SourceSet, Statement, Value, Verdict,
    VerdictMap,
};
use crate::transaction::apply::{Cause, Refused, apply};
use crate::transaction::map::{Map, MapKind};
use crate::transaction::{Change, Table, Transaction};

fn address(it: &str) -> IpAddr {
    it.parse().unwrap()
}

fn data(elements: &[(&str, u32)]) -> DataMap {
    DataMap { family: Address::V4, elements: elements.iter().map(|(it, number)| (address(it), *number)).collect() }
}

fn look(map: &str) -> Rule {
    Rule { statements: vec![Statement::Look(map.to_owned())], ..Rule::default() }
}

fn ruleset(chains: &[(&str, Option<Hook>, &[Rule])]) -> Ruleset {
    let chain =
        |(name, hook, rules): &(&str, Option<Hook>, &[Rule])| ((*name).to_owned(), Chain { hook: hook.clone(), rules: rules.to_vec() });
    Ruleset { chains: chains.iter().map(chain).collect(), ..Ruleset::default() }
}

fn at(links: &[&str]) -> Option<Hook> {
    Some(Hook::Ingress { devices: links.iter().map(|it| (*it).to_owned()).collect() })
}

/// Rulesets that have every kind of object in common with each other, and little else.
fn rulesets() -> Vec<Ruleset> {
    let set = Rule::set(Value::From { end: End::Source, family: Address::V4, map: "m".to_owned() });
    let goto = |chain: &str| Rule::to(Verdict::Goto(chain.to_owned()));
    let mut one = ruleset(&[("a", Some(Hook::Forward), &[set, goto("b"), look("v")]), ("b", None, &[]), ("c", None, &[goto("b")])]);
    one.data.insert("m".to_owned(), data(&[("10.0.0.1", 1), ("10.0.0.2", 2)]));
    one.verdicts.insert("v".to_owned(), VerdictMap { elements: BTreeMap::from([(1, "b".to_owned()), (2, "c".to_owned())]) });
    // The same rule asks a map of another kind, and a chain stands elsewhere.
    let mut two = one.clone();
    two.data.clear();
    let range = (address("10.0.0.0"), (address("10.0.0.255"), 1));
    two.intervals.insert("m".to_owned(), IntervalMap { family: Address::V4, elements: BTreeMap::from([range]) });
    two.chains.insert("c".to_owned(), Chain { hook: Some(Hook::Input), rules: vec![goto("b")] });
    two.verdicts.insert("v".to_owned(), VerdictMap { elements: BTreeMap::from([(1, "b".to_owned()), (3, "b".to_owned())]) });
    let mut three = ruleset(&[("b", None, &[look("v")]), ("d", None, &[])]);
    three.verdicts.insert("v".to_owned(), VerdictMap { elements: BTreeMap::from([(1, "d".to_owned())]) });
    // One set is asked, and grows; another is of the other family, and a chain that was at links is elsewhere.
    let own = |links: &[&str], family: Address| {
        let own = Rule::to(Verdict::Accept).when(Match::LinkAndSource { family, set: "s".to_owned() });
        let pair = Rule::to(Verdict::Accept).when(Match::Pair { family, set: "self".to_owned() });
        let exempt = Rule::to(Verdict::Accept).when(Match::In { end: End::Source, family, set: "exempt".to_owned() });
        let mut ruleset = ruleset(&[("at", at(links), &[own, pair, exempt]), ("b", at(&["x"]), &[])]);
        let network = if family == Address::V4 { "10.0.0." } else { "fd00::" };
        let of = |link: &str| address(&format!("{network}{}", link.as_bytes()[0]));
        let elements = links.iter().map(|it| ((*it).to_owned(), of(it))).collect();
        ruleset.sets.insert("s".to_owned(), SourceSet { family, elements });
        let elements = links.iter().map(|it| (of(it), of(it))).collect();
        ruleset.pairs.insert("self".to_owned(), PairSet { family, elements });
        let elements = links.iter().map(|it| of(it)).collect();
        ruleset.addresses.insert("exempt".to_owned(), AddressSet { family, elements });
        ruleset
    };
    let (four, five) = (own(&["x", "y"], Address::V4), own(&["y", "z"], Address::V4));
    let mut six = own(&["z"], Address::V6);
    six.chains.insert("b".to_owned(), Chain { hook: Some(Hook::Input), rules: vec![] });
    vec![Ruleset::default(), one, two, three, four, five, six]
}

#[test]
fn the_difference_turns_every_ruleset_into_every_other() {
    for old in rulesets() {
        for new in rulesets() {
            let mut table = Some(old.clone());
            let transaction = new.changes_since(&old);
            assert_eq!(apply(&mut table, &transaction), Ok(()), "{transaction:#?}");
            assert_eq!(table, Some(new.clone()), "{transaction:#?}");
            assert_eq!(transaction.is_empty(), old == new);
            apply(&mut table, &Transaction::load(&old)).unwrap();
            assert_eq!(table, Some(old.clone()));
        }
    }
}

#[test]
fn what_a_table_keeps_in_another_form_is_no_difference() {
    let rule = Rule { comment: Some("a \"b\"".to_owned()), ..Rule::to(Verdict::Drop).when(Match::Protocol(vec![58, 1, 58])) };
    let written = ruleset(&[("a", None, &[rule])]);
    let mut table = None;
    apply(&mut table, &Transaction::load(&written)).unwrap();
    let kept = table.unwrap();
    assert_eq!(kept.chains["a"].rules[0].comment.as_deref(), Some("a 'b'"));
    assert_eq!(kept.chains["a"].rules[0].matches, [Match::Protocol(vec![1, 58])]);
    assert_eq!(written.changes_since(&kept), Transaction::default());
}

#[test]
fn one_element_more_is_one_small_message() {
    let mut old = Ruleset::default();
    let elements = (0..5_000_u32).map(|it| (IpAddr::from(std::net::Ipv4Addr::from_bits(it)), it)).collect();
    old.data.insert("m".to_owned(), DataMap { family: Address::V4, elements });
    let mut new = old.clone();
    new.data.get_mut("m").unwrap().elements.insert(address("192.0.2.1"), 7);
    let added = Map::Data(data(&[("192.0.2.1", 7)]));
    let transaction = new.changes_since(&old);
    assert_eq!(transaction.changes, [Change::AddElements { map: "m".to_owned(), elements: added }]);
    let encoded = encode(&transaction, 1, Expected::Anything).unwrap();
    assert_eq!((encoded.bytes.len(), encoded.objects.len()), (116, 2));
}

#[test]
fn a_chain_is_told_of_other_links_where_it_stands() {
    let chain = || "at".to_owned();
    let drop = [Rule::to(Verdict::Drop)];
    let old = ruleset(&[("at", at(&["x", "y"]), &drop)]);
    let new = ruleset(&[("at", at(&["y", "z"]), &drop)]);
    let one = |it: &str| BTreeSet::from([it.to_owned()]);
    let expected = [Change::DeleteDevices { chain: chain(), devices: one("x") }, Change::AddDevices { chain: chain(), devices: one("z") }];
    assert_eq!(new.changes_since(&old).changes, expected);
}

#[test]
fn a_device_that_comes_in_a_transaction_cannot_go_in_it() {
    let devices = || BTreeSet::from(["z".to_owned()]);
    let (add, delete) = (
        |chain: &str| Change::AddDevices { chain: chain.to_owned(), devices: devices() },
        |chain: &str| Change::DeleteDevices { chain: chain.to_owned(), devices: devices() },
    );
    let old = ruleset(&[("at", at(&["x"]), &[]), ("base", Some(Hook::Input), &[]), ("none", None, &[])]);
    let refuse = |changes: Vec<Change>| {
        apply(&mut Some(old.clone()), &Transaction { table: Table::Own, changes })
            .map_err(|it| it.into_iter().map(|it| it.cause).collect::<Vec<_>>())
    };
    assert_eq!(refuse(vec![add("at")]), Ok(()));
    assert_eq!(refuse(vec![add("at"), delete("at")]), Err(vec![Cause::Missing]));
    assert_eq!(refuse(vec![add("at"), add("at")]), Err(vec![Cause::Exists]));
    assert_eq!(refuse(vec![add("base"), add("none"), add("nowhere")]), Err(vec![Cause::WrongHook, Cause::Exists, Cause::Missing]));
    let again = Change::AddChain { name: "at".to_owned(), hook: at(&["z"]) };
    assert_eq!(refuse(vec![add("at"), Change::DeleteChain("at".to_owned()), again, delete("at")]), Ok(()));
}

#[test]
fn each_refusal_is_named_and_nothing_is_done() {
    let before = rulesets()[1].clone();
    let mut table = Some(before.clone());
    let changes = vec![
        Change::AddMap { name: "new".to_owned(), kind: MapKind::Numbers, elements: 0 },
        Change::AddTable(Layout::CURRENT),
        Change::DeleteChain("b".to_owned()),
        Change::DeleteMap("m".to_owned()),
        Change::AddElements { map: "m".to_owned(), elements: Map::Data(data(&[("10.0.0.1", 9)])) },
        Change::AppendRule { chain: "b".to_owned(), rule: Rule::to(Verdict::Drop) },
        Change::AppendRule { chain: "b".to_owned(), rule: Rule::to(Verdict::Goto("a".to_owned())) },
    ];
    let refused = apply(&mut table, &Transaction { table: Table::Own, changes }).unwrap_err();
    let expected = [
        (Object::Table, Cause::Exists),
        (Object::Chain("b".to_owned()), Cause::InUse),
        (Object::Map("m".to_owned()), Cause::InUse),
        (Object::Elements("m".to_owned()), Cause::Exists),
        (Object::Rule { chain: "b".to_owned(), index: 1 }, Cause::BaseChain),
    ];
    assert_eq!(refused, expected.map(|(object, cause)| Refused { object, cause }));
    assert_eq!(table, Some(before));
}

#[test]
fn chains_in_a_circle_are_refused_where_it_closes() {
    let jump = |chain: &str| Rule::to(Verdict::Jump(chain.to_owned()));
    let old = ruleset(&[("a", None, &[jump("b")]), ("b", None, &[]), ("base", Some(Hook::Input), &[jump("a")])]);
    let mut table = Some(old);
    let changes = vec![
        Change::AppendRule { chain: "b".to_owned(), rule: Rule::to(Verdict::Drop) },
        Change::AppendRule { chain: "b".to_owned(), rule: jump("a") },
    ];
    let refused = apply(&mut table, &Transaction { table: Table::Own, changes });
    assert_eq!(refused, Err(vec![Refused { object: Object::Rule { chain: "b".to_owned(), index: 1 }, cause: Cause::TooDeep }]));
}
