use super::{parse, run};

fn problems(yaml: &str) -> String {
    let (_, diagnostics) = parse("e.yaml", yaml);
    diagnostics.iter().map(|it| format!("{it}\n")).collect()
}

fn check_problem(sentence: &str, expected: &str) {
    let found = problems(&format!("- {sentence}\n"));
    let wanted = format!("e.yaml:1:{expected}");
    assert!(found.starts_with(&wanted), "{sentence}\n  found:  {found}  wanted: {wanted}");
    assert_eq!(found.lines().count(), 1, "{found}");
}

/// Both sentences claim the same.
fn check_same(one: &str, other: &str) {
    let yaml = format!("- '{one}'\n- '{other}'\n");
    let (expectations, diagnostics) = parse("e.yaml", &yaml);
    assert_eq!(diagnostics, [], "{one} | {other}");
    let [one, other] = expectations.as_slice() else { panic!("{expectations:?}") };
    assert_eq!(one.claim, other.claim, "{} | {}", one.text, other.text);
}

#[test]
fn spelling_is_free_where_meaning_is_not_at_stake() {
    check_same("a/b -> c/d tcp/80 allowed", "  a/b→c/d   TCP/80 Allowed ");
    check_same("a/b -> c/d tcp/80,443 denied", "a/b -> c/d tcp/80, 443 denied");
    check_same("a/b -> c/d tcp/80,udp/53 denied", "a/b -> c/d tcp/80 udp/53 denied");
    check_same("a/b -> c/d:80 denied", "a/b -> c/d tcp/80 denied");
    check_same("a/b -> c/d:http denied", "a/b -> c/d tcp/http denied");
    check_same("a/b -> [fd00::7]:80 denied", "a/b -> fd00::7 tcp/80 denied");
    check_same("a/b -> 10.0.0.7:80 denied", "a/b -> 10.0.0.7 tcp/80 denied");
    check_same("nothing outside shop, prod-* reaches c/d", "NOTHING Outside shop/*,prod-*/* reaches c/d");
    check_same("only x/app=a,tier=b, y reaches c/d", "only x/tier=b,app=a,y/* reaches c/d");
    check_same("* -> c/d denied", "*/* -> c/d denied");
    check_same("everything reaches c/d icmp", "everything reaches c/d ICMP");
    check_same("10.0.0.1/8 -> c/d denied", "10.0.0.0/8 -> c/d denied");
}

#[test]
fn an_entry_is_a_sentence_or_has_a_name() {
    let yaml = "name: shop
tests:
  - a/b -> c/d denied
  - name: two of them
    expect:
      - nothing reaches a/b
      - a/b reaches everything
  - {expect: nothing leaves a/b}
";
    let (expectations, diagnostics) = parse("e.yaml", yaml);
    assert_eq!(diagnostics, []);
    let found: Vec<String> =
        expectations.iter().map(|it| format!("{} {} | {}", it.location, it.name.as_deref().unwrap_or("-"), it.text)).collect();
    let wanted = [
        "e.yaml:3:5 - | a/b -> c/d denied",
        "e.yaml:6:9 two of them | nothing reaches a/b",
        "e.yaml:7:9 two of them | a/b reaches everything",
        "e.yaml:8:14 - | nothing leaves a/b",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn what_is_wrong_with_a_sentence_is_said_at_the_word() {
    check_problem("a/b -> c/d tcp/80 allow", "21: error[bad-expectation]: `[0]`: `allow` stands where `allowed` or `denied` must end");
    check_problem(
        "shop -> c/d denied",
        "3: error[bad-expectation]: `[0]`: `shop`: a namespace is missing; for all pods of a namespace write `shop/*`",
    );
    check_problem("svc/a/b -> c/d denied", "3: error[bad-expectation]: `[0]`: `svc/a/b`: a Service opens no connections");
    check_problem("a/b -> c/d tcp/0 denied", "14: error[bad-expectation]: `[0]`: `0` is not a port");
    check_problem("a/b -> c/d tcp/80-90 denied", "14: error[bad-expectation]: `[0]`: `80-90` is not a port");
    check_problem("a/b -> c/d icmp/8 denied", "14: error[bad-expectation]: `[0]`: `icmp/8`: icmp has no ports");
    check_problem("a/b:80 -> c/d denied", "3: error[bad-expectation]: `[0]`: `a/b:80`: a port belongs to one destination");
    check_problem("a/b -> c/d:80 tcp/80 denied", "17: error[bad-expectation]: `[0]`: the port is said twice");
    check_problem("a/b -> 10.0.0.0/99 denied", "10: error[bad-expectation]: `[0]`: `10.0.0.0/99` is not a CIDR");
    check_problem("a/b -> c/deploy/d-* denied", "10: error[bad-expectation]: `[0]`: `c/deploy/d-*` is not a pattern");
    check_problem("a/b -> c/d c/e denied", "14: error[bad-expectation]: `[0]`: `c/e` is out of place; names are separated by commas");
    check_problem("a/b, -> c/d denied", "8: error[bad-expectation]: `[0]`: a name is missing next to `->`");
    check_problem("nothing reaches c/d denied", "23: error[bad-expectation]: `[0]`: `denied` is out of place; a sentence without an arrow");
    check_problem("nothing reaches c/d tcp/80 denied", "30: error[bad-expectation]: `[0]`: `denied` is out of place; ports end");
    check_problem("nothing enters c/d", "11: error[bad-expectation]: `[0]`: `enters` cannot follow `nothing`");
    check_problem("nothing leaves a/b except to c tcp/80", "34: error[bad-expectation]: `[0]`: `tcp/80` cannot limit an exception");
    check_problem("a/b reaches nothing", "15: error[bad-expectation]: `[0]`: `reaches nothing` is not a form; write `nothing leaves FROM`");
    check_problem("a/b calls c/d", "3: error[bad-expectation]: `[0]`: this is no sentence that can be tested; write `FROM -> TO");
    check_problem("42", "3: error[bad-expectation]: `[0]`: a number stands here; expected a sentence");
    check_problem("* -> c/d denied", "3: error[unreadable-document]: ");
}

#[test]
fn a_star_in_front_asks_for_quotes() {
    assert!(problems("- * -> c/d denied\n").contains("a sentence that begins with `*` needs quotes"));
}

#[test]
fn an_unknown_key_is_an_error_with_a_hint() {
    assert_eq!(
        problems("tests:\n- {expects: a/b -> c/d denied}\n- {expect: nothing reaches a/b, port: 80}\n"),
        "e.yaml:2:4: error[unknown-key]: `tests[0].expects`: `expects` is not a key of expectations; did you mean `expect`?
e.yaml:3:33: error[unknown-key]: `tests[1].port`: `port` is not a key of expectations; the keys here are `name` and `expect`\n"
    );
}

#[test]
fn a_file_that_expects_nothing_is_an_error() {
    for empty in ["", "# nothing yet\n", "[]", "tests: []"] {
        assert!(problems(empty).starts_with("e.yaml:1:1: error[no-expectations]: the file expects nothing"), "{empty}");
    }
    assert!(problems("- name: a\n").contains("`expect` is missing"));
    assert!(problems("- expect: []\n").contains("expected at least one sentence"));
}

#[test]
fn a_bad_sentence_does_not_hide_the_others() {
    let (expectations, diagnostics) = parse("e.yaml", "- nonsense\n- nothing reaches a/b\n");
    assert_eq!((expectations.len(), diagnostics.len()), (1, 1));
}

#[test]
fn in_an_empty_model_every_name_matches_nothing() {
    let (expectations, _) = parse("e.yaml", "- a/b -> c/d denied\n- nothing reaches a/*\n- external -> external denied\n");
    let found: Vec<String> = expectations.iter().map(|it| format!("{:?}", run(&palisade_model::Model::default(), it).result)).collect();
    assert!(found[0].starts_with("MatchesNothing { why: \"`a/b` is not among the pods"), "{}", found[0]);
    assert!(found[1].starts_with("MatchesNothing { why: \"`a/*` matches nothing: no pod was read in such a namespace"), "{}", found[1]);
    assert!(found[2].starts_with("CannotTell { why: \"no policy judges"), "{}", found[2]);
}

mod addresses {
    use std::collections::BTreeSet;

    use crate::expect::outside::representatives;

    fn check(networks: &str, inside: &str, expected: &str) {
        let networks = networks.split_whitespace().map(|it| it.parse().unwrap()).collect();
        let inside: BTreeSet<_> = inside.split_whitespace().map(|it| it.parse().unwrap()).collect();
        let found: Vec<String> = representatives(&networks, &inside).iter().map(ToString::to_string).collect();
        assert_eq!(found.join(" "), expected);
    }

    #[test]
    fn one_address_stands_for_each_region() {
        check("", "", "203.0.113.10 2001:db8::10");
        check("0.0.0.0/0 ::/0", "", "203.0.113.10 2001:db8::10");
        check("10.0.0.0/8 10.1.0.0/16", "", "10.0.0.1 10.1.0.1 203.0.113.10 2001:db8::10");
        check("10.0.0.0/8 10.0.0.0/16 10.0.0.7/32", "", "10.0.0.1 10.0.0.7 10.1.0.0 203.0.113.10 2001:db8::10");
        check("fd00::/8", "", "203.0.113.10 2001:db8::10 fd00::1");
    }

    #[test]
    fn addresses_of_the_cluster_are_passed_over() {
        check("10.0.0.0/30", "10.0.0.1 10.0.0.2", "10.0.0.3 203.0.113.10 2001:db8::10");
        check("10.0.0.0/30", "10.0.0.1 10.0.0.2 10.0.0.3", "10.0.0.0 203.0.113.10 2001:db8::10");
        check("10.0.0.7/32", "10.0.0.7", "203.0.113.10 2001:db8::10");
    }

    #[test]
    fn a_block_that_others_cover_has_no_region_of_its_own() {
        check("10.0.0.0/8 10.0.0.0/9 10.128.0.0/9", "", "10.0.0.1 10.128.0.1 203.0.113.10 2001:db8::10");
        check("0.0.0.0/1 128.0.0.0/1 ::/1 8000::/1", "", "0.0.0.1 203.0.113.10 2001:db8::10 8000::1");
        check("203.0.113.0/24", "", "198.51.100.10 203.0.113.10 2001:db8::10");
    }
}
