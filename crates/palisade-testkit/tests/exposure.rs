//! Exposure, held against `decide` on random clusters in which the pods that it speaks of have really been added.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its fixtures has failed")]

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use palisade_analysis::exposure::{Exposures, Open, Protection, Side, expose};
use palisade_engine::{PortSetId, PortSets, decide_direction, selects};
use palisade_model::{
    Direction, End, Endpoint, EndpointId, Family, Flow, Labels, Model, Namespace, NamespaceSet, NetworkId, Path, Peer, PeerSet, Place,
    PodName, Protocol, Readiness, Running, Tier, Verdict,
};
use palisade_testkit::check::snapshot;
use palisade_testkit::generate::generate;
use palisade_testkit::pods::{ends, workload};
use palisade_testkit::random::Random;

const PORTS: [u16; 6] = [9, 53, 80, 443, 8080, 65535];

type Traffic = (Protocol, Option<u16>);

fn traffics() -> Vec<Traffic> {
    let with_ports = [Protocol::TCP, Protocol::UDP, Protocol::SCTP];
    let numbered = with_ports.into_iter().flat_map(|protocol| PORTS.map(|port| (protocol, Some(port))));
    numbered.chain([(Protocol::Icmp, None)]).collect()
}

/// Whether one side lets some traffic pass, in some family; None if the ends have none in common.
fn passes(model: &Model, subject: usize, others: &[End], direction: Direction, (protocol, port): Traffic) -> Option<bool> {
    let mut verdicts = Vec::new();
    for own in ends(model, EndpointId(subject)) {
        for other in others {
            let families = (own.address.map(Family::of), other.address.map(Family::of));
            if families.0.is_some() && families.1.is_some() && families.0 != families.1 {
                continue;
            }
            let (from, to) = match direction {
                Direction::Egress => (own, *other),
                Direction::Ingress => (*other, own),
            };
            verdicts.push(
                decide_direction(model, &Flow { network: NetworkId::DEFAULT, from, to, protocol, port, path: Path::Direct }, direction)
                    .verdict,
            );
        }
    }
    (!verdicts.is_empty()).then(|| verdicts.contains(&Verdict::Accept))
}

/// A model with one more namespace and a pod in it.
fn with_newcomer(model: &Model, namespace: Labels, labels: Labels, addresses: &[IpAddr]) -> (Model, usize) {
    let mut model = model.clone();
    let name = namespace.get("kubernetes.io/metadata.name").unwrap().to_owned();
    assert!(!model.namespaces.contains_key(name.as_str()));
    model.namespaces.insert(name.clone().into(), Namespace { labels: namespace, assumed: false });
    let name = PodName { namespace: name.into(), name: "newcomer".into() };
    let (readiness, running) = (Readiness::Ready, Running::NotSaid);
    let addresses = addresses.to_vec();
    model.endpoints.push(Endpoint {
        attachment: None,
        name,
        labels,
        addresses,
        node: None,
        ports: Vec::new(),
        owners: Vec::new(),
        readiness,
        running,
    });
    let at = model.endpoints.len() - 1;
    (model, at)
}

/// Every label that some peer asks about, and a value that none does.
fn vocabulary(model: &Model, pods: bool) -> Vec<(String, String)> {
    use palisade_model::Operator::{DoesNotExist, Equals, Exists, In, NotIn};
    let mut found = BTreeSet::new();
    for rule in model.policies.iter().flat_map(|it| it.rules.egress.iter().chain(&it.rules.ingress)) {
        let PeerSet::Of(peers) = &rule.peers else { continue };
        for peer in peers {
            let Peer::Pods { namespaces: NamespaceSet::Matching(namespaces), pods: labels } = peer else { continue };
            for asked in &(if pods { labels } else { namespaces }).requirements {
                let values = match &asked.operator {
                    Equals(value) => vec![value.clone()],
                    In(values) | NotIn(values) => values.clone(),
                    Exists | DoesNotExist => Vec::new(),
                };
                found.insert((asked.key.to_string(), "other".to_owned()));
                found.extend(values.into_iter().map(|it| (asked.key.to_string(), it.to_string())));
            }
        }
    }
    found.retain(|it| it.0 != "kubernetes.io/metadata.name");
    found.into_iter().collect()
}

fn labels(random: &mut Random, words: &[(String, String)]) -> Labels {
    let count = random.between(0, 3);
    (0..count).filter_map(|_| random.pick(words).cloned()).collect()
}

/// What is said of one workload in one direction.
struct Asked<'a> {
    model: &'a Model,
    sets: &'a PortSets,
    side: &'a Side,
    direction: Direction,
    pods: &'a [usize],
    name: String,
}

impl Asked<'_> {
    fn has(&self, open: &Open, traffic: Traffic) -> bool {
        self.sets.contains(open.traffic, traffic.0, traffic.1)
    }

    /// What `decide` says about any of its pods.
    fn decided(&self, model: &Model, others: &[End], traffic: Traffic) -> Option<bool> {
        let said: Vec<bool> = self.pods.iter().filter_map(|it| passes(model, *it, others, self.direction, traffic)).collect();
        (!said.is_empty()).then(|| said.contains(&true))
    }

    /// Every pod of other namespaces.
    fn cluster(&self) {
        let own = &self.model.endpoint(EndpointId(*self.pods.first().unwrap())).unwrap().name.namespace;
        let others: Vec<usize> =
            (0..self.model.endpoints.len()).filter(|it| self.model.endpoint(EndpointId(*it)).unwrap().name.namespace != *own).collect();
        for traffic in traffics() {
            let said: Vec<bool> =
                others.iter().filter_map(|it| self.decided(self.model, &ends(self.model, EndpointId(*it)), traffic)).collect();
            let expected = (!said.is_empty()).then(|| said.iter().all(|it| *it));
            let told = self.side.cluster.as_ref().map(|it| self.has(it, traffic));
            assert_eq!(told, expected, "{} {traffic:?}: the whole cluster", self.name);
        }
    }

    fn outside(&self, addresses: &[IpAddr]) {
        for address in addresses {
            let end = End { place: Place::Outside, address: Some(*address) };
            let range =
                self.side.outside.iter().find(|it| it.first.is_ipv4() == address.is_ipv4() && (it.first..=it.last).contains(address));
            for traffic in traffics() {
                let told = range.is_some_and(|it| self.has(&it.open, traffic));
                assert_eq!(told, self.decided(self.model, &[end], traffic).unwrap_or(false), "{} {address} {traffic:?}", self.name);
            }
        }
    }

    fn protection(&self) {
        let speaks = |at: &usize, tier: Tier| {
            let pod = self.model.endpoint(EndpointId(*at)).unwrap();
            self.model
                .policies
                .iter()
                .filter(|it| it.tier == tier && selects(self.model, it, pod))
                .any(|it| *it.isolates.of(self.direction) || !it.rules.of(self.direction).is_empty())
        };
        let all = [Tier::Admin, Tier::NetworkPolicy, Tier::Baseline];
        let tiers: BTreeSet<Tier> = all.into_iter().filter(|tier| self.pods.iter().any(|it| speaks(it, *tier))).collect();
        let bare = self.pods.iter().filter(|it| !all.iter().any(|tier| speaks(it, *tier))).count();
        let expected = match bare {
            0 => Protection::Policy,
            it if it == self.pods.len() => Protection::Nothing,
            _ => Protection::SomePods,
        };
        assert_eq!((&self.side.tiers, self.side.protection), (&tiers, expected), "{}", self.name);
    }

    /// Those who are told to be let in, really added.
    fn labelled(&self, addresses: &[IpAddr]) {
        for labelled in &self.side.labelled {
            let newcomer = &labelled.newcomer;
            assert!(newcomer.wish.namespace.matches(&newcomer.namespace) && newcomer.wish.pod.matches(&newcomer.labels), "{newcomer:?}");
            let (model, at) = with_newcomer(self.model, newcomer.namespace.clone(), newcomer.labels.clone(), addresses);
            for traffic in traffics() {
                let decided = self.decided(&model, &ends(&model, EndpointId(at)), traffic).unwrap_or(false);
                assert_eq!(self.has(&labelled.open, traffic), decided, "{} {traffic:?}: {newcomer:?}", self.name);
            }
        }
    }

    /// A newcomer with some labels: what every newcomer may, it may. How much of what it may was not told.
    fn newcomer(&self, namespace: &Labels, pod: &Labels, addresses: &[IpAddr]) -> usize {
        let mut untold = 0;
        let (model, at) = with_newcomer(self.model, namespace.clone(), pod.clone(), addresses);
        for traffic in traffics() {
            let decided = self.decided(&model, &ends(&model, EndpointId(at)), traffic).unwrap_or(false);
            let told = self.side.labelled.iter().any(|it| self.has(&it.open, traffic)) || self.has(&self.side.unlabelled, traffic);
            let who = format!("{} {traffic:?}: a newcomer with {pod} in a namespace with {namespace}", self.name);
            assert!(decided || !self.has(&self.side.any_new, traffic), "{who} is denied");
            untold += usize::from(decided && !told);
            if pod.is_empty() && namespace.iter().count() == 1 {
                assert_eq!(self.has(&self.side.unlabelled, traffic), decided, "{who}");
            }
        }
        untold
    }
}

/// What was met in random clusters.
#[derive(Default)]
struct Met {
    /// Workloads that are open to some newcomer.
    open: usize,
    asked: usize,
    /// Newcomers that are let in by rules that only do so together, and were not told.
    untold: usize,
}

fn check(model: &Model, exposures: &Exposures, random: &mut Random, seed: u64, met: &mut Met) {
    let (pod_words, namespace_words) = (vocabulary(model, true), vocabulary(model, false));
    let outside: Vec<IpAddr> =
        ["203.0.113.5", "203.0.113.200", "2001:db8::5", "8.8.8.8", "172.18.0.77"].map(|it| it.parse().unwrap()).into();
    for told in &exposures.workloads {
        let pods: Vec<usize> = model.endpoints.iter().enumerate().filter(|(_, it)| workload(it) == told.name).map(|it| it.0).collect();
        assert_eq!(pods.len(), told.pods);
        for direction in Direction::BOTH {
            let side = told.sides.of(direction);
            let name = format!("seed {seed}: {direction} of {}", told.name);
            let asked = Asked { model, sets: &exposures.sets, side, direction, pods: &pods, name };
            asked.cluster();
            asked.outside(&outside);
            asked.protection();
            asked.labelled(&exposures.assumed.addresses);
            for plain in [true, false, false, false] {
                let (mut namespace, mut pod) = (labels(random, &namespace_words), labels(random, &pod_words));
                if plain {
                    (namespace, pod) = Default::default();
                }
                namespace.set("kubernetes.io/metadata.name", "not-yet");
                met.untold += asked.newcomer(&namespace, &pod, &exposures.assumed.addresses);
                met.asked += traffics().len();
            }
            met.open += usize::from(side.unlabelled.traffic != PortSetId::NONE || !side.labelled.is_empty());
        }
    }
}

#[test]
fn exposure_says_what_decide_says_of_pods_that_were_really_added() {
    let seconds: u64 = std::env::var("PALISADE_DIFFERENTIAL_SECONDS").ok().and_then(|it| it.parse().ok()).unwrap_or(3);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut seed, mut met) = (0, Met::default());
    while Instant::now() < end || seed < 20 {
        let model = snapshot("cluster.json", &generate(seed).objects.to_json()).model;
        let exposures = expose(&model, None);
        check(&model, &exposures, &mut Random::new(seed), seed, &mut met);
        seed += 1;
    }
    let Met { open, asked, untold } = met;
    assert!(open > 20, "{open} workloads were open to newcomers, too few to mean anything");
    // The search for labels takes two rules together, not any number.
    assert!(untold * 1_000 <= asked, "of {asked} newcomers, {untold} are let in and were not told");
}
