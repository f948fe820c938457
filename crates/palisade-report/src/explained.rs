//! From the answer of the analysis to the answer that leaves the house.

use palisade_analysis::{self as analysis, Answer, Nearest, nearest};
use palisade_engine as engine;
use palisade_k8s::{ObjectKey, Sources};
use palisade_model::{
    Action, Diagnostic, Direction, End, Flow, Model, Path, Place, PolicyRef, PortSet, Reason, RuleRef, Severity, Verdict,
};

use crate::locate::{mark, matched_paths, nearest_paths, peer_path, port_path, rule_path};
use crate::{manifest, standing, v1, words};

/// Writes down an explanation, with its places in the manifests.
pub fn explained(
    question: v1::Question,
    explanation: &analysis::Explanation,
    sources: &Sources,
    diagnostics: &[Diagnostic],
    unavailable: &[String],
) -> v1::Explanation {
    let writer = Writer { model: &explanation.model, sources };
    let refused = diagnostics.iter().filter(|it| it.severity == Severity::Error).count();
    let mut qualifications = Vec::new();
    if refused > 0 {
        let (noun, verb) = if refused == 1 { ("error", "was") } else { ("errors", "were") };
        qualifications.push(format!("{refused} {noun} {verb} found while reading, so this is only what the rest says"));
    }
    qualifications.extend(unavailable.iter().cloned());
    let mut diagnostics: Vec<v1::Diagnostic> = diagnostics.iter().map(v1::Diagnostic::from).collect();
    diagnostics.extend(explanation.assumed.iter().map(|name| assumed(name)));
    v1::Explanation {
        api_version: v1::API_VERSION.to_owned(),
        kind: "Explanation".to_owned(),
        question,
        verdict: if refused == 0 { overall(explanation.answer) } else { v1::Verdict::Unknown },
        would_be: (refused > 0).then(|| overall(explanation.answer)),
        trusted: refused == 0,
        qualifications,
        // A suggestion was tried without the object that is missing, and proves nothing.
        cases: explanation
            .cases
            .iter()
            .map(|case| writer.case(case))
            .map(|case| if refused == 0 { case } else { v1::Case { flips: Vec::new(), ..case } })
            .collect(),
        diagnostics,
    }
}

/// A namespace that only the question speaks of.
fn assumed(name: &str) -> v1::Diagnostic {
    v1::Diagnostic {
        severity: Severity::Note.to_string(),
        code: "assumed-namespace".to_owned(),
        place: None,
        object: String::new(),
        path: String::new(),
        message: format!("namespace `{name}` was not read, and is assumed with no label but kubernetes.io/metadata.name"),
        help: None,
    }
}

fn overall(answer: Answer) -> v1::Verdict {
    match answer {
        Answer::Allowed => v1::Verdict::Allowed,
        Answer::Denied => v1::Verdict::Denied,
        Answer::DependsOnDns => v1::Verdict::DependsOnDns,
        Answer::Mixed => v1::Verdict::Mixed,
        Answer::NoEndpoints => v1::Verdict::NoEndpoints,
    }
}

/// A verdict as it leaves the house.
pub fn verdict(it: Verdict) -> v1::Verdict {
    match it {
        Verdict::Accept => v1::Verdict::Allowed,
        Verdict::Deny => v1::Verdict::Denied,
        Verdict::DependsOnDns => v1::Verdict::DependsOnDns,
    }
}

struct Writer<'a> {
    model: &'a Model,
    sources: &'a Sources,
}

/// What a sentence about one direction needs to know.
struct Scene<'a> {
    direction: Direction,
    /// What the other end is called.
    other: &'a str,
    /// The traffic, as in `tcp/80`.
    asked: String,
}

impl Writer<'_> {
    fn case(&self, case: &analysis::Case) -> v1::Case {
        let flow = &case.flow;
        let asked = traffic(flow);
        let scene = |direction| {
            let other = match direction {
                Direction::Egress => &case.to.name,
                Direction::Ingress => &case.from.name,
            };
            Scene { direction, other, asked: asked.clone() }
        };
        let walks = &case.decision.walks;
        v1::Case {
            from: self.side(&case.from, &flow.from),
            to: self.side(&case.to, &flow.to),
            protocol: flow.protocol.to_string(),
            port: flow.port,
            through_service: flow.path == Path::Service,
            family: case.family.map(|it| it.to_string()),
            pairs: case.pairs,
            verdict: verdict(case.decision.verdict),
            egress: self.walk(&walks.egress, &scene(Direction::Egress)),
            ingress: self.walk(&walks.ingress, &scene(Direction::Ingress)),
            notes: self.notes(case),
            flips: case.flips.iter().map(|flip| self.flip(flip)).collect(),
        }
    }

    fn side(&self, side: &analysis::Side, end: &End) -> v1::Side {
        let (kind, labels) = match side.place {
            Place::Pod(id) => (v1::SideKind::Pod, self.model.endpoint(id).map(|it| it.labels.to_string())),
            Place::Node(id) => (v1::SideKind::Node, self.model.node(id).map(|it| it.labels.to_string())),
            Place::Outside => (v1::SideKind::Outside, None),
        };
        let address = end.address.map(|it| it.to_string());
        v1::Side { name: side.name.clone(), kind, address, labels: labels.unwrap_or_default(), alike: side.alike.clone() }
    }

    fn walk(&self, walk: &engine::Walk, scene: &Scene<'_>) -> v1::Walk {
        v1::Walk {
            verdict: verdict(walk.verdict),
            reason: walk.reason.to_string(),
            sentence: reason(&walk.reason, scene.direction),
            tiers: walk.tiers.iter().map(|step| self.tier(step, scene)).collect(),
        }
    }

    fn tier(&self, step: &engine::TierStep, scene: &Scene<'_>) -> v1::Tier {
        let nearest = (step.outcome == engine::Outcome::Isolated).then(|| nearest(&step.rules)).flatten();
        let is_nearest = |it: &engine::RuleStep| nearest.as_ref().is_some_and(|nearest| nearest.step.rule == it.rule);
        v1::Tier {
            tier: step.tier.to_string(),
            outcome: outcome(&step.outcome),
            sentence: self.sentence(step, nearest.as_ref(), scene),
            policies: step.policies.iter().map(|it| self.policy(it)).collect(),
            rules: step.rules.iter().map(|it| v1::Rule { nearest: is_nearest(it), ..tried(it, scene) }).collect(),
            mark: self.tier_mark(step, nearest.as_ref(), scene),
        }
    }

    fn policy(&self, it: &PolicyRef) -> v1::Policy {
        let policy = self.model.policies.iter().find(|policy| policy.origin == *it);
        v1::Policy {
            shape: policy.and_then(standing::shape).map(str::to_owned),
            priority: policy.and_then(standing::priority),
            kind: it.kind.as_str().to_owned(),
            namespace: it.namespace.as_deref().map(str::to_owned),
            name: it.name.to_string(),
            place: self.sources.location(&ObjectKey::from(it)).as_ref().map(v1::Place::from),
        }
    }

    fn sentence(&self, step: &engine::TierStep, nearest: Option<&Nearest>, scene: &Scene<'_>) -> String {
        let direction = scene.direction;
        if let Some((rule, _)) = step.rules.iter().find_map(depends_on_dns) {
            return format!(
                "Accept by {} {} if a name resolves to it; otherwise {}",
                words::short(&rule.policy),
                words::rule(rule),
                otherwise(step)
            );
        }
        match step.outcome {
            engine::Outcome::Matched(action) => match step.rules.last() {
                Some(last) => {
                    let by = format!("{action} by {} {}", words::short(&last.rule.policy), words::rule(&last.rule));
                    match standing::standing(self.model, &step.policies, &last.rule.policy) {
                        Some(standing) => format!("{by} ({standing})"),
                        None => by,
                    }
                }
                None => action.to_string(),
            },
            engine::Outcome::NoMatch if step.policies.is_empty() => "no policy selects the pod".to_owned(),
            engine::Outcome::NoMatch if step.rules.is_empty() => format!("no {direction} rule for the pod"),
            engine::Outcome::NoMatch => "no rule matches".to_owned(),
            engine::Outcome::NotIsolated => format!("not isolated for {direction}"),
            engine::Outcome::OwnNode => format!("isolated by {}; the source is the pod's own node", words::several(&step.policies)),
            engine::Outcome::Itself => format!("isolated by {}; a Service led the pod back to itself", words::several(&step.policies)),
            engine::Outcome::Isolated => {
                let isolated = format!("isolated by {}", words::several(&step.policies));
                match nearest.and_then(|it| self.rule_in_words(&it.step.rule)) {
                    Some(rule) => format!("{isolated}; no rule accepts; nearest: {rule}"),
                    None if step.policies.len() == 1 => format!("{isolated}, which accepts nothing for {direction}"),
                    None => format!("{isolated}, which accept nothing for {direction}"),
                }
            }
        }
    }

    /// `rule 0 of `db` accepts tcp/5432 from pods with app=api`.
    fn rule_in_words(&self, rule: &RuleRef) -> Option<String> {
        let policy = self.model.policies.iter().find(|it| it.origin == rule.policy)?;
        let found = policy.rules.of(rule.direction).iter().find(|it| it.index == rule.index)?;
        let verb = match found.action {
            Action::Accept => "accepts",
            Action::Deny => "denies",
            Action::Pass => "passes",
        };
        let preposition = words::preposition(rule.direction);
        let (traffic, peers) = (words::traffic(&found.ports), words::peers(&found.peers));
        Some(format!("{} of {} {verb} {traffic} {preposition} {peers}", words::rule(rule), words::short(&rule.policy)))
    }

    fn tier_mark(&self, step: &engine::TierStep, nearest: Option<&Nearest>, scene: &Scene<'_>) -> Option<v1::Mark> {
        if let Some(nearest) = nearest {
            let label = match (nearest.peer_miss(), nearest.port_miss()) {
                (Some(miss), Some(port)) => {
                    format!("{}; and {}", words::peer_miss(miss, scene.other), words::port_miss(port, &scene.asked))
                }
                (Some(miss), None) => words::peer_miss(miss, scene.other),
                (None, Some(miss)) => words::port_miss(miss, &scene.asked),
                (None, None) => "this matches nothing".to_owned(),
            };
            return mark(self.sources, &nearest.step.rule, &nearest_paths(self.model, nearest), label);
        }
        if let Some((rule, peer)) = step.rules.iter().find_map(depends_on_dns) {
            let label = format!("accepts if one of these names resolves to {}", scene.other);
            return mark(self.sources, rule, &[peer_path(rule, peer).field("domainNames"), peer_path(rule, peer)], label);
        }
        let last = step.rules.last()?;
        match (&step.outcome, &last.result) {
            (engine::Outcome::Matched(action), engine::Match::Yes { peer, port }) => {
                // What an Accept has left matches as it is written; what else became of a rule stands nowhere.
                let closed = self.fail_closed(&last.rule).filter(|_| *action != Action::Accept);
                let label = match (&closed, peer) {
                    (Some(found), _) => format!("{action}: fails closed, because {found} is not known"),
                    (None, Some(_)) => format!("{action}: matches {}", scene.other),
                    (None, None) => format!("{action}: matches everyone"),
                };
                let rule = &last.rule;
                let paths = match (closed, peer, port) {
                    (Some(_), ..) | (None, None, None) => vec![rule_path(rule)],
                    (None, Some(at), _) => matched_paths(self.model, rule, *at),
                    (None, None, Some(at)) => vec![port_path(rule, *at)],
                };
                mark(self.sources, rule, &paths, label)
            }
            _ => None,
        }
    }

    fn fail_closed(&self, rule: &RuleRef) -> Option<String> {
        let policy = self.model.policies.iter().find(|it| it.origin == rule.policy)?;
        let rule = policy.rules.of(rule.direction).iter().find(|it| it.index == rule.index)?;
        rule.fail_closed.as_ref().map(|it| it.found.to_string())
    }

    fn notes(&self, case: &analysis::Case) -> Vec<String> {
        let mut notes = Vec::new();
        for direction in Direction::BOTH {
            let walk = case.decision.walks.of(direction);
            let other = match direction {
                Direction::Egress => &case.to.name,
                Direction::Ingress => &case.from.name,
            };
            let by_address = walk.tiers.iter().flat_map(|tier| &tier.rules).find(|it| misses_an_address(it));
            if let Some(step) = by_address {
                let rule = format!("{} of {}", words::rule(&step.rule), words::short(&step.rule.policy));
                notes.push(format!("no address is known for {other}, so it matches no CIDR; {rule} names addresses and might match it"));
            }
            if let (Verdict::DependsOnDns, Reason::Rule(rule)) = (walk.verdict, &walk.reason) {
                let rule = format!("{} of {}", words::rule(rule), words::short(&rule.policy));
                notes.push(format!(
                    "{rule} accepts by domain name: allowed if a name it lists resolves to the destination, denied otherwise"
                ));
            }
        }
        notes.extend(self.unknown_ports(case));
        notes.extend(self.unknown_node(case));
        for side in [&case.from, &case.to] {
            if let Some(pod) = side.name.strip_suffix(" (host network)") {
                notes.push(format!("{pod} is on the host network: policy sees its node, and no selector matches it"));
            }
        }
        notes
    }

    /// A pod that was only asked about declares no ports, so a rule that names one cannot match it.
    fn unknown_ports(&self, case: &analysis::Case) -> Option<String> {
        let Place::Pod(id) = case.to.place else { return None };
        let unknown = self.model.endpoint(id).is_some_and(|it| it.ports.is_empty());
        let rules = Direction::BOTH.into_iter().flat_map(|it| &case.decision.walks.of(it).tiers).flat_map(|tier| &tier.rules);
        let step = rules.into_iter().find(|it| unknown && misses_a_port_name(it))?;
        let rule = format!("{} of {}", words::rule(&step.rule), words::short(&step.rule.policy));
        Some(format!("{} declares no ports; {rule} names one, and matches if the pod has it with this number", case.to.name))
    }

    /// A node always reaches its own pods, and where this pod runs is not known.
    fn unknown_node(&self, case: &analysis::Case) -> Option<String> {
        let (Place::Node(_), Place::Pod(id)) = (case.from.place, case.to.place) else { return None };
        let homeless = self.model.endpoint(id).is_some_and(|it| it.node.is_none());
        let isolated = matches!(case.decision.walks.ingress.reason, Reason::Isolated(_));
        (homeless && isolated)
            .then(|| format!("where {} runs is not known: its own node reaches it, whatever NetworkPolicy says", case.to.name))
    }

    fn flip(&self, flip: &analysis::Flip) -> v1::Flip {
        v1::Flip { edits: flip.edits.iter().map(|edit| self.edit(edit)).collect() }
    }

    fn edit(&self, edit: &analysis::Edit) -> v1::Edit {
        match edit {
            analysis::Edit::Create { policy, newly_isolates } => {
                let closes = match newly_isolates {
                    Some(direction) => {
                        format!(" (it isolates the pods it selects for {direction}: everything it does not accept is then denied)")
                    }
                    None => String::new(),
                };
                let wide = match policy.rules.egress.iter().chain(&policy.rules.ingress).any(|rule| rule.ports == PortSet::Any) {
                    true => " (a NetworkPolicy cannot name this protocol, so it accepts all traffic between them)",
                    false => "",
                };
                v1::Edit { sentence: format!("create this NetworkPolicy{closes}{wide}"), yaml: Some(manifest::network_policy(policy)) }
            }
            analysis::Edit::Relabel { pod, labels, matches } => {
                let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
                let rule = format!("{} of {}", words::rule(matches), words::short(&matches.policy));
                v1::Edit { sentence: format!("label {pod} {}, which {rule} accepts", labels.join(" ")), yaml: None }
            }
            analysis::Edit::Insert { before, rule } => {
                let place = format!("{}, before {}", words::policy(&before.policy), words::rule(before));
                let sentence = format!("in {place} of its {} rules, insert", before.direction);
                v1::Edit { sentence, yaml: Some(manifest::cluster_rule(rule, before.direction, before.policy.kind)) }
            }
            analysis::Edit::Remove(rules) => {
                let named: Vec<String> = rules.iter().map(|it| format!("{} of {}", words::rule(it), words::policy(&it.policy))).collect();
                let last = match rules.iter().any(|it| it.direction == Direction::Egress) {
                    true => "; list Egress in policyTypes, or a policy without egress rules stops isolating",
                    false => "",
                };
                v1::Edit { sentence: format!("remove {}{last}", named.join(" and ")), yaml: None }
            }
        }
    }
}

fn traffic(flow: &Flow) -> String {
    match flow.port {
        Some(port) => format!("{}/{port}", flow.protocol),
        None => flow.protocol.to_string(),
    }
}

pub(crate) fn reason(it: &Reason, direction: Direction) -> String {
    match it {
        Reason::NotAPod => "no pod of the pod network stands here, so no policy applies".to_owned(),
        Reason::Itself => "a pod always reaches itself".to_owned(),
        Reason::Rule(rule) => format!("{} of {}", words::rule(rule), words::policy(&rule.policy)),
        Reason::OwnNode => "the pod's own node always reaches it".to_owned(),
        Reason::Isolated(policies) => format!("isolated for {direction} by {}", words::several(policies)),
        Reason::Default => "no policy decides, and the default is accept".to_owned(),
    }
}

fn outcome(it: &engine::Outcome) -> v1::Outcome {
    match it {
        engine::Outcome::Matched(Action::Accept) => v1::Outcome::Accept,
        engine::Outcome::Matched(Action::Deny) => v1::Outcome::Deny,
        engine::Outcome::Matched(Action::Pass) => v1::Outcome::Pass,
        engine::Outcome::NoMatch => v1::Outcome::NoMatch,
        engine::Outcome::NotIsolated => v1::Outcome::NotIsolated,
        engine::Outcome::Isolated => v1::Outcome::Isolated,
        engine::Outcome::OwnNode => v1::Outcome::OwnNode,
        engine::Outcome::Itself => v1::Outcome::Itself,
    }
}

fn tried(step: &engine::RuleStep, scene: &Scene<'_>) -> v1::Rule {
    let (result, peer, port, missed) = match &step.result {
        engine::Match::Yes { peer, port } => (v1::Tried::Matched, *peer, *port, Vec::new()),
        engine::Match::DependsOnDns { peer } => (v1::Tried::DependsOnDns, Some(*peer), None, Vec::new()),
        engine::Match::No { peers, ports } => {
            let mut missed = peers.as_ref().map_or_else(Vec::new, |it| words::peer_misses(it, scene.other));
            missed.extend(ports.iter().flatten().map(|it| words::port_miss(it, &scene.asked)));
            (v1::Tried::Missed, None, None, missed)
        }
    };
    let name = step.rule.name.as_deref().map(str::to_owned);
    v1::Rule { rule: step.rule.to_string(), name, action: step.action.to_string(), result, peer, port, missed, nearest: false }
}

/// What a tier says when no name resolves.
fn otherwise(step: &engine::TierStep) -> String {
    match (&step.outcome, step.rules.last()) {
        (engine::Outcome::Matched(action), Some(last)) => format!("{action} by {}", words::rule(&last.rule)),
        (_, _) => "no rule matches".to_owned(),
    }
}

/// A rule that waits for a name, and the entry that holds it.
fn depends_on_dns(step: &engine::RuleStep) -> Option<(&RuleRef, usize)> {
    match step.result {
        engine::Match::DependsOnDns { peer } => Some((&step.rule, peer)),
        engine::Match::Yes { .. } | engine::Match::No { .. } => None,
    }
}

/// A rule that would match but for the name of a port that nobody knows.
fn misses_a_port_name(step: &engine::RuleStep) -> bool {
    match &step.result {
        engine::Match::No { peers: None, ports: Some(misses) } => misses.iter().any(|it| matches!(it, engine::PortMiss::NoSuchName(_))),
        engine::Match::No { .. } | engine::Match::Yes { .. } | engine::Match::DependsOnDns { .. } => false,
    }
}

/// A rule that would match but for an address that nobody knows.
fn misses_an_address(step: &engine::RuleStep) -> bool {
    match &step.result {
        engine::Match::No { peers: Some(engine::PeerMisses::Entries(entries)), ports: None } => {
            entries.contains(&engine::PeerMiss::NoAddress)
        }
        engine::Match::No { .. } | engine::Match::Yes { .. } | engine::Match::DependsOnDns { .. } => false,
    }
}
