//! The rules of a ruleset that a packet meets say the reasons that were decided, whether they let it pass or not.

use palisade_analysis::{Case, answer};
use palisade_model::{Direction, End, Model, NetworkId, Place, Reason, Verdict};
use palisade_nft::Origin;
use palisade_testkit::check::{asked, snapshot};
use palisade_testkit::generate::generate;
use palisade_testkit::nodes::Nodes;

const CLUSTERS: u64 = 80;

#[test]
fn rulesets_do_with_random_clusters_what_is_decided_and_say_why() {
    let mut packets = 0;
    for seed in 0..CLUSTERS {
        let generated = generate(seed);
        let model = snapshot("cluster.json", &generated.objects.to_json()).model;
        let nodes = Nodes::of(&model);
        for question in &generated.questions {
            let asked = asked(&question.from, &question.to, question.protocol, question.port);
            let Ok(explanation) = answer(&model, &asked) else { continue };
            // A pod that is only asked about runs nowhere.
            let cases = explanation.cases.iter().filter(|_| explanation.model.endpoints.len() == model.endpoints.len());
            // A packet goes to who has the address, and others may claim it.
            let has = |end: End| end.address.is_some_and(|it| model.place_of(NetworkId::DEFAULT, it) == end.place);
            for case in cases.filter(|it| has(it.flow.from) && has(it.flow.to)) {
                let Some(passed) = nodes.pass(&case.flow).unwrap() else { continue };
                let expected = (case.decision.verdict == Verdict::Accept, comments(&model, case));
                assert_eq!(
                    (passed.accepted, passed.comments),
                    expected,
                    "seed {seed}: {question}: {:?}\n{}",
                    case.flow,
                    generated.objects.to_json()
                );
                packets += 1;
            }
        }
    }
    assert!(packets > 1_000, "{packets} packets show little");
}

/// What the rules say that a connection meets: those of its egress, and if they let it pass those of its ingress.
fn comments(model: &Model, case: &Case) -> Vec<String> {
    let on = match case.flow.to.place {
        Place::Pod(id) => model.endpoint(id).and_then(|it| it.node).map(Place::Node),
        Place::Node(_) | Place::Outside => None,
    };
    // A node reaches its own pods by no hook that is Palisade's.
    let met = |direction: Direction| direction == Direction::Egress || on.is_none_or(|it| it != case.flow.from.place);
    let mut comments = Vec::new();
    for direction in Direction::BOTH.into_iter().filter(|it| met(*it)) {
        let walk = case.decision.walks.of(direction);
        if walk.reason != Reason::NotAPod {
            let origin = Origin::Policy { direction, reason: walk.reason.clone() };
            comments.push(origin.to_string().chars().take(120).collect());
        }
        if walk.verdict != Verdict::Accept {
            break;
        }
    }
    comments
}
