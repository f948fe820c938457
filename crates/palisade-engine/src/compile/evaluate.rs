//! What a program does with one other end. The plain way, rule by rule: rows are held against it, and it answers what rows leave out.

use palisade_model::{Action, Direction};
use rustc_hash::FxHashMap;

use crate::compile::intern::Lists;
use crate::compile::ports::{PortSetId, PortSets, range};
use crate::compile::rules::{Compact, Everyone, Names, Parts, Peers};
use crate::compile::{Compiled, Foreign, Kind, Program};

/// How the other end stands to the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Relation {
    /// Another namespace, or no pod.
    Apart,
    /// A pod of the same namespace with these labels.
    SameNamespace { labels: u32 },
    /// The node that the subject runs on.
    OwnNode,
}

/// What a tier leaves behind: traffic that it accepts, traffic that the next tier decides, traffic that would be accepted if a name resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Outcome {
    pub(crate) accepted: PortSetId,
    pub(crate) open: PortSetId,
    pub(crate) perhaps: PortSetId,
}

/// What passes in the end, and what would if a name resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Passing {
    pub(crate) accepted: PortSetId,
    pub(crate) perhaps: PortSetId,
}

enum Hit {
    Yes,
    Perhaps,
    No,
}

/// Sets of traffic, and what named ports came to so far.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    pub(crate) ports: PortSets,
    /// By rule and by the named ports of the destination.
    named: FxHashMap<(u32, u32), PortSetId>,
}

impl Sets {
    pub(crate) fn of(ports: PortSets) -> Sets {
        Sets { ports, named: FxHashMap::default() }
    }
}

/// What evaluation reads.
pub(crate) struct Context<'c> {
    pub(crate) parts: &'c Parts,
    pub(crate) views: &'c Lists,
    pub(crate) port_views: &'c Lists,
    pub(crate) direction: Direction,
}

impl Compiled {
    pub(crate) fn context(&self, direction: Direction) -> Context<'_> {
        Context { parts: &self.parts, views: &self.views, port_views: &self.port_views, direction }
    }
}

impl Context<'_> {
    /// All three tiers.
    pub(crate) fn passing(&self, program: Program, foreign: Foreign, relation: Relation, sets: &mut Sets) -> Passing {
        let lists = &self.parts.lists;
        let admin = self.ordered(lists.get(program.admin), program.ports, foreign, relation, sets);
        let network = self.network(program.network.map(|it| lists.get(it)), program.ports, foreign, relation, sets);
        let baseline = self.ordered(lists.get(program.baseline), program.ports, foreign, relation, sets);
        combine(admin, network, baseline, &mut sets.ports)
    }

    /// SPEC: semantics 2.2: rules in order, the first match ends the tier.
    pub(crate) fn ordered(&self, rules: &[u32], ports: u32, foreign: Foreign, relation: Relation, sets: &mut Sets) -> Outcome {
        let (mut accepted, mut left, mut passed, mut perhaps) = (PortSetId::NONE, PortSetId::ALL, PortSetId::NONE, PortSetId::NONE);
        for (number, rule) in self.rules(rules) {
            let hit = self.hit(&rule.peers, foreign, relation);
            if matches!(hit, Hit::No) {
                continue;
            }
            let traffic = self.traffic(number, rule, ports, foreign, sets);
            let met = sets.ports.and(left, traffic);
            if matches!(hit, Hit::Perhaps) {
                perhaps = sets.ports.or(perhaps, met);
                continue;
            }
            left = sets.ports.without(left, met);
            match rule.action {
                Action::Accept => accepted = sets.ports.or(accepted, met),
                Action::Pass => passed = sets.ports.or(passed, met),
                Action::Deny => {}
            }
        }
        Outcome { accepted, open: sets.ports.or(left, passed), perhaps }
    }

    /// SPEC: semantics 0, step 4: additive, and final for a pod that is isolated.
    pub(crate) fn network(&self, rules: Option<&[u32]>, ports: u32, foreign: Foreign, relation: Relation, sets: &mut Sets) -> Outcome {
        let Some(rules) = rules else { return Outcome { accepted: PortSetId::NONE, open: PortSetId::ALL, perhaps: PortSetId::NONE } };
        // SPEC: semantics 1.8.
        let mut accepted = if relation == Relation::OwnNode { PortSetId::ALL } else { PortSetId::NONE };
        for (number, rule) in self.rules(rules) {
            if matches!(self.hit(&rule.peers, foreign, relation), Hit::Yes) {
                let traffic = self.traffic(number, rule, ports, foreign, sets);
                accepted = sets.ports.or(accepted, traffic);
            }
        }
        Outcome { accepted, open: PortSetId::NONE, perhaps: PortSetId::NONE }
    }

    pub(crate) fn rules<'a>(&'a self, rules: &'a [u32]) -> impl Iterator<Item = (u32, &'a Compact)> {
        rules.iter().filter_map(|it| Some((*it, self.parts.rules.get(*it)?)))
    }

    /// Whether a rule holds for those whom its conditions pick out, and for nobody else, with traffic that is the same for all of them.
    pub(crate) fn is_plain(&self, rule: u32) -> bool {
        self.parts.rules.get(rule).is_some_and(|it| {
            let by_default = it.peers.pods().iter().any(|condition| self.parts.peers.default_of(*condition));
            it.peers.everyone == Everyone::No && !by_default && it.named.is_empty()
        })
    }

    fn hit(&self, peers: &Peers, foreign: Foreign, relation: Relation) -> Hit {
        match peers.everyone {
            Everyone::Yes => return Hit::Yes,
            Everyone::ButOwnNode => return if relation == Relation::OwnNode { Hit::No } else { Hit::Yes },
            Everyone::No => {}
        }
        let view = self.views.get(foreign.view);
        let by_kind = match foreign.kind {
            Kind::Pod => peers.pods().iter().any(|it| self.parts.peers.default_of(*it) != view.binary_search(it).is_ok()),
            Kind::Node => peers.nodes().iter().any(|it| view.binary_search(it).is_ok()),
            Kind::Outside => false,
        };
        let local = match relation {
            Relation::SameNamespace { labels } => peers.local().iter().any(|it| self.parts.pods.holds(*it, labels)),
            Relation::Apart | Relation::OwnNode => false,
        };
        if by_kind || local || peers.blocks().iter().any(|it| self.holds(*it, foreign.prefix)) {
            return Hit::Yes;
        }
        match (peers.names, foreign.kind) {
            // SPEC: semantics 7.4.
            (Names::Anywhere, _) | (Names::Outside, Kind::Node | Kind::Outside) => Hit::Perhaps,
            (Names::Outside, Kind::Pod) | (Names::None, _) => Hit::No,
        }
    }

    fn holds(&self, block: u32, prefix: u32) -> bool {
        self.parts.blocks.get(block).is_some_and(|it| self.parts.prefixes.holds(it, prefix))
    }

    /// The traffic of a rule, with the ports that its names stand for at the destination.
    fn traffic(&self, number: u32, rule: &Compact, own: u32, foreign: Foreign, sets: &mut Sets) -> PortSetId {
        if rule.named.is_empty() {
            return rule.ports;
        }
        let at_destination = match self.direction {
            Direction::Egress => foreign.ports,
            Direction::Ingress => own,
        };
        if let Some(known) = sets.named.get(&(number, at_destination)) {
            return *known;
        }
        let view = self.port_views.get(at_destination);
        let mut parts = Vec::new();
        for named in &rule.named {
            let of_name = view.chunks(2).filter(|it| it.first() == Some(&named.name)).filter_map(|it| it.get(1)).copied();
            let of_protocol = of_name.filter(|it| named.protocol.is_none_or(|protocol| range(protocol).contains(it)));
            parts.extend(of_protocol.map(|it| (it, it + 1)));
        }
        let named = sets.ports.of(parts);
        let traffic = sets.ports.or(rule.ports, named);
        sets.named.insert((number, at_destination), traffic);
        traffic
    }
}

/// What three tiers let pass together.
pub(crate) fn combine(admin: Outcome, network: Outcome, baseline: Outcome, sets: &mut PortSets) -> Passing {
    // SPEC: semantics 0: what nobody decides is accepted.
    let last = sets.or(baseline.accepted, baseline.open);
    let below = sets.and(network.open, last);
    let below = sets.or(network.accepted, below);
    let below = sets.and(admin.open, below);
    let accepted = sets.or(admin.accepted, below);
    let reached = sets.and(admin.open, network.open);
    let perhaps = sets.and(reached, baseline.perhaps);
    let perhaps = sets.or(admin.perhaps, perhaps);
    Passing { accepted, perhaps: sets.without(perhaps, accepted) }
}
