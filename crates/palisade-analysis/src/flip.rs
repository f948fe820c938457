//! What would change a verdict. Every suggestion is tried out on the model before it is made.

use palisade_engine::{Decision, Match, Outcome, PeerMiss, Scope, Walk, decide};
use palisade_model::{
    Action, Direction, End, Endpoint, Flow, IpBlock, LabelSelector, Labels, Model, NamespaceSet, NetworkId, Operator, Peer, PeerSet,
    PerDirection, Place, Policy, PolicyKind, PolicyRef, PortMatch, PortSet, Ports, Protocol, Reason, Requirement, Rule, RuleRef,
    ServiceKind, Shape, Subject, Tier, Verdict,
};

use crate::nearest::nearest;

/// One way to change the verdict: all of its edits together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flip {
    pub edits: Vec<Edit>,
}

/// One change to the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Create this NetworkPolicy.
    Create {
        policy: Policy,
        /// Set when the pod was not isolated in that direction before, and would be closed to everything else.
        newly_isolates: Option<Direction>,
    },
    /// Put these labels on the pod, so that this rule matches it.
    Relabel { pod: String, labels: Vec<(String, String)>, matches: RuleRef },
    /// Insert a rule before this one.
    Insert { before: RuleRef, rule: Rule },
    /// Remove these rules.
    Remove(Vec<RuleRef>),
}

/// The ways to change the verdict of a flow that are known to work, the most local first.
pub(crate) fn flips(model: &Model, flow: &Flow, decision: &Decision) -> Vec<Flip> {
    let candidates = match decision.verdict {
        Verdict::Deny => opening(model, flow, decision),
        Verdict::Accept => closing(model, flow, decision),
        Verdict::DependsOnDns => Vec::new(),
    };
    candidates.into_iter().filter(|flip| works(model, flow, decision.verdict, flip)).collect()
}

pub(crate) fn works(model: &Model, flow: &Flow, before: Verdict, flip: &Flip) -> bool {
    let mut changed = model.clone();
    for edit in &flip.edits {
        apply(&mut changed, flow, edit);
    }
    let after = decide(&changed, flow).verdict;
    after != before && after != Verdict::DependsOnDns
}

fn apply(model: &mut Model, flow: &Flow, edit: &Edit) {
    match edit {
        Edit::Create { policy, .. } => model.policies.push(policy.clone()),
        Edit::Relabel { labels, .. } => {
            for end in [flow.from, flow.to] {
                let Place::Pod(id) = end.place else { continue };
                let Some(endpoint) = model.endpoints.get_mut(id) else { continue };
                if matches!(edit, Edit::Relabel { pod, .. } if *pod == endpoint.name.to_string()) {
                    labels.iter().for_each(|(key, value)| endpoint.labels.set(key, value));
                }
            }
        }
        Edit::Insert { before, rule } => {
            let holder = model.policies.iter_mut().find(|policy| policy.origin == before.policy);
            if let Some(policy) = holder {
                let rules = policy.rules.of_mut(before.direction);
                rules.insert(before.index.min(rules.len()), rule.clone());
            }
        }
        Edit::Remove(rules) => {
            for rule in rules {
                let holder = model.policies.iter_mut().find(|policy| policy.origin == rule.policy);
                if let Some(policy) = holder {
                    policy.rules.of_mut(rule.direction).retain(|it| it.index != rule.index);
                }
            }
        }
    }
}

/// For a denied flow: what each denying direction would need, taken together.
fn opening(model: &Model, flow: &Flow, decision: &Decision) -> Vec<Flip> {
    let denying: Vec<Direction> = Direction::BOTH.into_iter().filter(|it| decision.walks.of(*it).verdict == Verdict::Deny).collect();
    let local: Option<Vec<Edit>> =
        denying.iter().map(|direction| open_locally(model, flow, *direction, decision.walks.of(*direction))).collect();
    let mut flips: Vec<Flip> = local.map(|edits| Flip { edits }).into_iter().collect();
    if let [direction] = denying.as_slice() {
        flips.extend(relabel(model, flow, *direction, decision.walks.of(*direction)).map(|edit| Flip { edits: vec![edit] }));
    }
    flips
}

fn open_locally(model: &Model, flow: &Flow, direction: Direction, walk: &Walk) -> Option<Edit> {
    match &walk.reason {
        Reason::Isolated(_) => allow_policy(model, flow, direction).map(|policy| Edit::Create { policy, newly_isolates: None }),
        Reason::Rule(rule) if tier_of(model, rule) == Some(Tier::Baseline) => {
            allow_policy(model, flow, direction).map(|policy| Edit::Create { policy, newly_isolates: Some(direction) })
        }
        Reason::Rule(rule) => insert(model, flow, direction, rule, Action::Accept),
        Reason::NotAPod | Reason::Itself | Reason::OwnNode | Reason::Default => None,
    }
}

/// For an allowed flow: what would close it, at the destination if that is a pod, else at the source.
fn closing(model: &Model, flow: &Flow, decision: &Decision) -> Vec<Flip> {
    let direction = if matches!(flow.to.place, Place::Pod(_)) { Direction::Ingress } else { Direction::Egress };
    let walk = decision.walks.of(direction);
    let edit = match &walk.reason {
        Reason::Rule(rule) if tier_of(model, rule) == Some(Tier::NetworkPolicy) => remove_until_closed(model, flow, direction),
        Reason::Rule(rule) if tier_of(model, rule) == Some(Tier::Admin) => insert(model, flow, direction, rule, Action::Deny),
        Reason::Rule(_) | Reason::Default => {
            isolating_policy(model, flow, direction).map(|policy| Edit::Create { policy, newly_isolates: Some(direction) })
        }
        Reason::NotAPod | Reason::Itself | Reason::OwnNode | Reason::Isolated(_) => None,
    };
    edit.into_iter().map(|edit| Flip { edits: vec![edit] }).collect()
}

/// A rule before the one that decided, where the shape of its policy has room and words for it.
pub(crate) fn insert(model: &Model, flow: &Flow, direction: Direction, before: &RuleRef, action: Action) -> Option<Edit> {
    let holder = model.policies.iter().find(|policy| policy.origin == before.policy)?;
    let here = holder.rules.of(direction).len();
    // How many rules it may have, and whether only pods can be peers.
    let (room, pods_only) = match holder.shape {
        Shape::Only => (here < 25, direction == Direction::Ingress),
        Shape::Late => (here < 100, direction == Direction::Ingress),
        Shape::Kep2091 => (holder.rules.egress.len() + holder.rules.ingress.len() < 100, true),
        // Nobody should write more of it.
        Shape::Early => return None,
    };
    let wordless = pods_only && pod_at(model, other(flow, direction)).is_none();
    let rule = exact_rule(model, flow, direction, before.index, action)?;
    (room && !wordless).then(|| Edit::Insert { before: before.clone(), rule })
}

/// All NetworkPolicy rules that would have to go; each removal can bring another accepting rule to light.
fn remove_until_closed(model: &Model, flow: &Flow, direction: Direction) -> Option<Edit> {
    let mut changed = model.clone();
    let mut removed = Vec::new();
    loop {
        match decide(&changed, flow).walks.of(direction) {
            Walk { verdict: Verdict::Accept, reason: Reason::Rule(rule), .. } if tier_of(&changed, rule) == Some(Tier::NetworkPolicy) => {
                apply(&mut changed, flow, &Edit::Remove(vec![rule.clone()]));
                removed.push(rule.clone());
            }
            _ => return (!removed.is_empty()).then_some(Edit::Remove(removed)),
        }
    }
}

/// A label change on the other end that makes the nearest rule match, if labels are all that is missing.
fn relabel(model: &Model, flow: &Flow, direction: Direction, walk: &Walk) -> Option<Edit> {
    let step = walk.tiers.iter().find(|step| step.outcome == Outcome::Isolated)?;
    let nearest = nearest(&step.rules)?;
    let Match::No { ports: None, .. } = nearest.step.result else { return None };
    let PeerMiss::Labels(failed) = nearest.peer_miss()? else { return None };
    let wanted = |it: &palisade_engine::FailedRequirement| {
        let value = match &it.requirement.operator {
            Operator::Equals(value) => value.to_string(),
            Operator::In(values) => values.first()?.to_string(),
            Operator::NotIn(_) | Operator::Exists | Operator::DoesNotExist => return None,
        };
        (it.scope == Scope::Pod).then(|| (it.requirement.key.to_string(), value))
    };
    let labels: Option<Vec<(String, String)>> = failed.iter().map(wanted).collect();
    let (pod, labels) = (pod_at(model, other(flow, direction))?, labels?);
    // The labels of a workload's pods are its selector's, and a Service may find the pod by them: changing those breaks more than it mends. A
    // pod that was only asked about has none to change.
    let bare = pod.owners.is_empty() && !pod.name.name.contains(['=', '(']);
    let selected = |key: &str| model.services.iter().any(|it| it.namespace == pod.name.namespace && selects_by(&it.kind, key));
    if !bare || labels.iter().any(|(key, _)| selected(key)) {
        return None;
    }
    Some(Edit::Relabel { pod: pod.name.to_string(), labels, matches: nearest.step.rule.clone() })
}

fn selects_by(kind: &ServiceKind, key: &str) -> bool {
    match kind {
        ServiceKind::Selector { pods, .. } => pods.requirements.iter().any(|it| *it.key == *key),
        ServiceKind::NoSelector | ServiceKind::ExternalName(_) => false,
    }
}

fn allow_policy(model: &Model, flow: &Flow, direction: Direction) -> Option<Policy> {
    let mut policy = isolating_policy(model, flow, direction)?;
    let rule = exact_rule(model, flow, direction, 0, Action::Accept)?;
    let subject = pod_at(model, own(flow, direction))?;
    let peer = peer_name(model, other(flow, direction));
    let name = match direction {
        Direction::Ingress => format!("allow-{peer}-to-{}", short_name(subject)),
        Direction::Egress => format!("allow-{}-out-to-{peer}", short_name(subject)),
    };
    policy.origin.name = unused_name(model, &policy.origin, &name);
    *policy.rules.of_mut(direction) = vec![rule];
    Some(policy)
}

/// A name that replaces no policy of that namespace.
/// What a policy calls the other end.
pub(crate) fn peer_name(model: &Model, end: &End) -> String {
    match end.place {
        Place::Node(_) => "node".to_owned(),
        Place::Pod(_) | Place::Outside => pod_at(model, end).map_or("external".to_owned(), short_name),
    }
}

/// A name that no policy there has which was read.
pub(crate) fn unused_name(model: &Model, origin: &PolicyRef, name: &str) -> Box<str> {
    let audited = || model.audited.values().flatten();
    let known = || model.policies.iter().chain(audited()).map(|it| &it.origin).chain(&model.foreign);
    let taken = |name: &str| known().any(|it| it.namespace == origin.namespace && *it.name == *name);
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let free = std::iter::once(name.to_owned()).chain(numbered).find(|it| !taken(it));
    free.unwrap_or_else(|| name.to_owned()).into()
}

/// A NetworkPolicy that selects the subject and accepts nothing in this direction.
fn isolating_policy(model: &Model, flow: &Flow, direction: Direction) -> Option<Policy> {
    // A pod without labels can only be selected together with all others.
    let subject = pod_at(model, own(flow, direction)).filter(|it| !it.labels.is_empty())?;
    let namespace = subject.name.namespace.clone();
    let mut isolates = PerDirection::default();
    *isolates.of_mut(direction) = true;
    let mut origin = PolicyRef { kind: PolicyKind::NetworkPolicy, namespace: Some(namespace.clone()), name: Box::default() };
    origin.name = unused_name(model, &origin, &format!("deny-{direction}-of-{}", short_name(subject)));
    Some(Policy {
        network: NetworkId::DEFAULT,
        shape: Shape::Only,
        origin,
        tier: Tier::NetworkPolicy,
        rank: 0,
        subject: Subject::Pods { namespaces: NamespaceSet::Own(namespace), pods: telling_labels(&subject.labels) },
        isolates,
        rules: PerDirection::default(),
    })
}

/// A rule for just this peer and this traffic.
pub(crate) fn exact_rule(model: &Model, flow: &Flow, direction: Direction, index: usize, action: Action) -> Option<Rule> {
    let end = other(flow, direction);
    let peer = match (pod_at(model, end), end.address) {
        (Some(pod), _) => {
            let own = pod_at(model, own(flow, direction)).map(|subject| &subject.name.namespace);
            let same = action == Action::Accept && own == Some(&pod.name.namespace);
            let by_name = Requirement { key: "kubernetes.io/metadata.name".into(), operator: Operator::Equals(pod.name.namespace.clone()) };
            let namespaces = match same {
                true => NamespaceSet::Own(pod.name.namespace.clone()),
                false => NamespaceSet::Matching(LabelSelector { requirements: vec![by_name] }),
            };
            Peer::Pods { namespaces, pods: telling_labels(&pod.labels) }
        }
        (None, Some(address)) => Peer::Networks(vec![IpBlock::whole(address.into())]),
        (None, None) => return None,
    };
    let ports = match (flow.protocol, flow.port) {
        (Protocol::Port(protocol), Some(port)) => PortSet::Of(vec![PortMatch::Numbers { protocol, ports: Ports::one(port) }]),
        (Protocol::Port(_) | Protocol::Icmp | Protocol::Other(_), _) => PortSet::Any,
    };
    Some(Rule { index, name: None, action, peers: PeerSet::Of(vec![peer]), ports, fail_closed: None })
}

/// Labels that workloads put on their pods for their own use.
const MECHANICAL: &[&str] = &[
    "pod-template-hash",
    "controller-revision-hash",
    "pod-template-generation",
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "controller-uid",
    "job-name",
];

/// The labels a person would select the pod by: `app` and its likes if there, else all but the mechanical ones.
pub(crate) fn telling_labels(labels: &Labels) -> LabelSelector {
    let naming = ["app", "app.kubernetes.io/name", "k8s-app", "name"];
    let named: Vec<(&str, &str)> = labels.iter().filter(|(key, _)| naming.contains(key)).collect();
    let chosen = match named.is_empty() {
        false => named,
        true => labels.iter().filter(|(key, _)| !MECHANICAL.contains(key)).collect(),
    };
    let requirement = |(key, value): (&str, &str)| Requirement { key: key.into(), operator: Operator::Equals(value.into()) };
    LabelSelector { requirements: chosen.into_iter().map(requirement).collect() }
}

pub(crate) fn short_name(pod: &Endpoint) -> String {
    let name = pod.workload().map_or(&pod.name.name, |owner| &owner.name);
    let clean: String =
        name.chars().map(|it| if it.is_ascii_alphanumeric() || it == '-' { it.to_ascii_lowercase() } else { '-' }).collect();
    let short: String = clean.chars().take(40).collect();
    short.trim_matches('-').to_owned()
}

pub(crate) fn own(flow: &Flow, direction: Direction) -> &End {
    match direction {
        Direction::Egress => &flow.from,
        Direction::Ingress => &flow.to,
    }
}

pub(crate) fn other(flow: &Flow, direction: Direction) -> &End {
    match direction {
        Direction::Egress => &flow.to,
        Direction::Ingress => &flow.from,
    }
}

pub(crate) fn pod_at<'m>(model: &'m Model, end: &End) -> Option<&'m Endpoint> {
    match end.place {
        Place::Pod(id) => model.endpoint(id),
        Place::Node(_) | Place::Outside => None,
    }
}

fn tier_of(model: &Model, rule: &RuleRef) -> Option<Tier> {
    model.policies.iter().find(|policy| policy.origin == rule.policy).map(|policy| policy.tier)
}
