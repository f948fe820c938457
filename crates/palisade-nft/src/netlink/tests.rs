//! To bytes and back. The kernel answers in the words in which it is told, so what is sent can be read as a dump.

use palisade_netlink::messages;

use crate::netlink::batch::Expected;
use crate::netlink::decode::{Dump, decode};
use crate::netlink::encode::encode;
use crate::netlink::uapi::{element, message};
use crate::object::Object;
use crate::ruleset::{
    Address, Chain, CtState, DataMap, End, Hook, IntervalMap, Match, PairSet, Rule, Ruleset, SourceSet, Statement, Value, Verdict,
    VerdictMap,
};
use crate::transaction::{Table, Transaction};

fn ruleset() -> Ruleset {
    let mut ruleset = Ruleset::default();
    let statements = vec![Statement::Counter, Statement::Log(7), Statement::Look("numbers".to_owned())];
    let pair = Match::Pair { family: Address::V6, set: "pairs".to_owned() };
    let matches = vec![Match::Ct(CtState::New), Match::Protocol(vec![1, 58]), Match::NotSyn, pair];
    let set = Rule::set(Value::From { end: End::Source, family: Address::V4, map: "data".to_owned() });
    let rules =
        vec![Rule { matches, statements, comment: Some("np/default/a#1".to_owned()) }, set, Rule::to(Verdict::Jump("leaf".to_owned()))];
    ruleset.chains.insert("forward".to_owned(), Chain { hook: Some(Hook::Forward), rules });
    ruleset.chains.insert("leaf".to_owned(), Chain::default());
    let data = [("10.0.0.1".parse().unwrap(), 1)].into();
    ruleset.data.insert("data".to_owned(), DataMap { family: Address::V4, elements: data });
    let range = |first: &str, last: &str, number| (first.parse().unwrap(), (last.parse().unwrap(), number));
    let ranges = [range("10.0.0.0", "10.0.0.255", 1), range("10.0.1.0", "255.255.255.255", 2)].into();
    ruleset.intervals.insert("net".to_owned(), IntervalMap { family: Address::V4, elements: ranges });
    ruleset.verdicts.insert("numbers".to_owned(), VerdictMap { elements: [(1, "leaf".to_owned())].into() });
    let pairs = [("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap())].into();
    ruleset.pairs.insert("pairs".to_owned(), PairSet { family: Address::V6, elements: pairs });
    let sources = [("pod1".to_owned(), "fd00::1".parse().unwrap()), ("sixteen-letters".to_owned(), "fd00::2".parse().unwrap())].into();
    ruleset.sets.insert("sources".to_owned(), SourceSet { family: Address::V6, elements: sources });
    let devices = ["pod1".to_owned(), "sixteen-letters".to_owned()].into();
    let own = Rule::to(Verdict::Accept).when(Match::LinkAndSource { family: Address::V6, set: "sources".to_owned() });
    ruleset.chains.insert("sources".to_owned(), Chain { hook: Some(Hook::Ingress { devices }), rules: vec![own] });
    ruleset.data.insert("empty".to_owned(), DataMap { family: Address::V6, elements: [].into() });
    ruleset
}

fn dump(ruleset: &Ruleset) -> Dump {
    let encoded = encode(&Transaction::load(ruleset), 1, Expected::Anything).unwrap();
    let mut dump = Dump::default();
    for message in messages(&encoded.bytes).unwrap() {
        let payload = message.payload.to_vec();
        let attributes = palisade_netlink::Attributes::of_payload(&payload).unwrap();
        match message.kind {
            message::NEW_TABLE => dump.table = payload,
            message::NEW_CHAIN => dump.chains.push(payload),
            message::NEW_RULE => dump.rules.push(payload),
            message::NEW_SET => {
                dump.elements.entry(attributes.text(element::SET).unwrap().to_owned()).or_default();
                dump.sets.push(payload);
            }
            message::NEW_ELEMENTS => dump.elements.entry(attributes.text(element::SET).unwrap().to_owned()).or_default().push(payload),
            message::BATCH_BEGIN | message::BATCH_END | message::DELETE_TABLE => {}
            other => panic!("message {other:#x}"),
        }
    }
    dump
}

#[test]
fn a_ruleset_is_the_same_after_the_way_through_bytes() {
    for ruleset in [Ruleset::default(), ruleset()] {
        assert_eq!(decode(&dump(&ruleset)), Ok(ruleset));
    }
}

/// Answers of one kind.
type Part = fn(&mut Dump) -> Vec<&mut Vec<u8>>;

#[test]
fn every_answer_that_is_cut_short_is_named_or_says_less() {
    let whole = dump(&ruleset());
    let read = decode(&whole).unwrap();
    let parts: [Part; 5] = [
        |it| vec![&mut it.table],
        |it| it.chains.iter_mut().collect(),
        |it| it.sets.iter_mut().collect(),
        |it| it.elements.values_mut().flatten().collect(),
        |it| it.rules.iter_mut().collect(),
    ];
    let mut foreign = 0;
    for part in parts {
        for at in 0..part(&mut whole.clone()).len() {
            let mut less = 0;
            for end in 0..part(&mut whole.clone())[at].len() {
                let mut cut = whole.clone();
                part(&mut cut)[at].truncate(end);
                match decode(&cut) {
                    Err(_) => foreign += 1,
                    // Between two attributes nothing is missing but the second, which need not be there: a hook, a comment.
                    Ok(ruleset) if ruleset != read => less += 1,
                    Ok(_) => {}
                }
            }
            // There are a few such places in each answer, with up to three bytes of padding.
            assert!(less < 10, "{less} with less of answer {at}");
        }
    }
    assert!(foreign > 1_000, "{foreign} named");
}

#[test]
fn nothing_that_decides_is_written_to_the_table_of_audits() {
    let with = |verdict: Verdict| {
        let rules =
            vec![Rule::to(Verdict::Return), Rule { statements: vec![Statement::Counter, Statement::Verdict(verdict)], ..Rule::default() }];
        let chains = [("leaf".to_owned(), Chain::default()), ("forward".to_owned(), Chain { hook: Some(Hook::Forward), rules })].into();
        Ruleset { chains, ..Ruleset::default() }
    };
    for verdict in [Verdict::Accept, Verdict::Drop, Verdict::Return, Verdict::Jump("leaf".to_owned()), Verdict::Goto("leaf".to_owned())] {
        let decides = matches!(verdict, Verdict::Accept | Verdict::Drop);
        let ruleset = with(verdict);
        for table in Table::EVERY {
            let written = encode(&Transaction::load_into(table, &ruleset), 1, Expected::Anything);
            match (table, decides) {
                (Table::Audit, true) => {
                    let expected = Object::Rule { chain: "forward".to_owned(), index: 1 };
                    assert_eq!(written.unwrap_err().object, expected);
                }
                // They have no hook `forward`, or no other rules than about frames.
                (Table::Frames, _) => assert!(written.is_err()),
                (Table::Own | Table::Next | Table::Again | Table::Audit | Table::UnknownPods | Table::Replies, _) => {
                    assert!(written.is_ok(), "{written:?}")
                }
            }
        }
    }
}
