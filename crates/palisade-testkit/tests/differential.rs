//! Random clusters through every judge. What they disagree about is printed as a scenario.
//!
//! `PALISADE_DIFFERENTIAL_SECONDS` says how long, `PALISADE_DIFFERENTIAL_SEED` where to start.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use palisade_analysis::{Answer, Asked, Party, PortAsked, answer};
use palisade_model::{NetworkId, Protocol};
use palisade_testkit::check::{snapshot, snapshot_with_networks};
use palisade_testkit::differential::{Settings, run};
use palisade_testkit::features::features;
use palisade_testkit::generate::generate;

#[test]
fn every_judge_gives_random_clusters_the_same_verdicts() {
    let seconds = setting("PALISADE_DIFFERENTIAL_SECONDS").unwrap_or(3);
    let seed = setting("PALISADE_DIFFERENTIAL_SEED").unwrap_or(0);
    match run(Settings { seed, time: Duration::from_secs(seconds), threads: 2 }) {
        Ok(tally) if seconds > 3 => writeln!(std::io::stderr(), "{tally}").unwrap(),
        Ok(_) => {}
        Err(find) => panic!("seed {}\n{}", find.seed, find.scenario),
    }
}

/// Clusters that are looked at; each feature must be in some of them.
const CLUSTERS: u64 = 400;

#[test]
fn random_clusters_have_everything_that_policy_can_speak_of() {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 0..CLUSTERS {
        let model = snapshot_with_networks("cluster.json", &generate(seed).objects.to_json()).model;
        for (feature, has) in features(&model) {
            *counts.entry(feature).or_default() += u64::from(has);
        }
    }
    let missing: Vec<&String> = counts.iter().filter(|(_, count)| **count == 0).map(|(feature, _)| feature).collect();
    assert!(missing.is_empty(), "no cluster of {CLUSTERS} has: {missing:#?}");
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn a_pod_among_its_likes_still_meets_itself() {
    let pod = |name: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: x, labels: {{app: web}}, \
             ownerReferences: [{{kind: Deployment, name: web, controller: true}}]}}}}\n---\n"
        )
    };
    let service =
        "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: x}, spec: {selector: {app: web}, ports: [{port: 80}]}}\n---\n";
    let policy = "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: x}, spec: {podSelector: {}}}\n";
    let model = snapshot("cluster.yaml", &format!("{}{}{service}{policy}", pod("a"), pod("b"))).model;
    for (from, to) in [("x/a", "svc/x/web"), ("x/b", "svc/x/web"), ("x/deploy/web", "x/deploy/web"), ("x/a", "x/deploy/web")] {
        let (from, to) = (Party::parse(from).unwrap(), Party::parse(to).unwrap());
        let asked = Asked { network: NetworkId::DEFAULT, from, to, protocol: Protocol::TCP, port: PortAsked::Number(80) };
        assert_eq!(answer(&model, &asked).unwrap().answer, Answer::Mixed, "{asked:?}");
    }
}
