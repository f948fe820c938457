//! The rules of a policy in another shape.

use palisade_model::{
    Action, Direction, IpBlock, LabelSelector, NamespaceSet, Peer, PeerSet, PerDirection, Policy, PolicyKind, PortMatch, PortProtocol,
    PortSet, Ports, RelativeNamespaces, RelativePods, RelativeSelector, Rule, RuleRef, Subject, Tier,
};

use super::form::{Form, NamedPorts, Outside, RuleLimit};
use super::parts::Pieces;
use super::selectors::{by_labels, written};
use super::{Loss, Target, Weight};

/// How many entries `networks` and `domainNames` have, wherever there are such.
const MOST_IN_A_SET: usize = 25;

/// A policy on its way: what its pieces say, and not yet how they are called and when they are asked.
#[derive(Clone, Debug)]
pub(super) struct Carried {
    pub(super) old: Policy,
    pub(super) pieces: Vec<Piece>,
}

/// One of the policies that stand for one.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// What its name ends with, and empty for the name of the policy itself.
    pub(super) suffix: String,
    pub(super) subject: Subject,
    pub(super) rules: PerDirection<Vec<(Rule, RuleRef)>>,
    /// Whether the piece has to be asked after the one before it.
    pub(super) sequence: Sequence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sequence {
    AfterLast,
    Apart,
}

/// Carries a policy over, and lists what is not.
pub(super) fn carry(form: &Form, policy: &Policy, pieces: Pieces) -> (Carried, Vec<Loss>) {
    let mut losses = Vec::new();
    let parts = match pieces {
        Pieces::Whole => vec![(String::new(), policy.clone())],
        Pieces::ByValue(parts) => {
            losses.push(by_value(form, policy, &parts));
            parts
        }
    };
    let mut carried = Carried { old: policy.clone(), pieces: Vec::new() };
    let alone = parts.len() == 1 && parts.iter().all(|it| it.0.is_empty());
    for (suffix, part) in parts {
        let mut telling = Telling { form, policy, losses: &mut losses };
        let rules = PerDirection { egress: telling.rules(&part, Direction::Egress), ingress: telling.rules(&part, Direction::Ingress) };
        // A part that says nothing to anybody is no policy.
        if alone || !rules.egress.is_empty() || !rules.ingress.is_empty() {
            carried.pieces.extend(in_limits(form, suffix, &subject(&part.subject), rules));
        }
    }
    if alone && carried.pieces.len() > 1 {
        losses.push(Loss {
            policy: policy.origin.clone(),
            path: "spec".to_owned(),
            why: format!("{} has at most {}", form.called(policy.tier), form.rules.said()),
            instead: Some(format!("{} policies, asked one after the other", carried.pieces.len())),
            weight: Weight::Form,
        });
    }
    let mut unique: Vec<Loss> = Vec::new();
    for loss in losses {
        if !unique.contains(&loss) {
            unique.push(loss);
        }
    }
    (carried, unique)
}

fn by_value(form: &Form, policy: &Policy, parts: &[(String, Policy)]) -> Loss {
    let values: Vec<&str> = parts.iter().map(|it| it.0.as_str()).collect();
    let instead = match values.is_empty() {
        true => "nothing, since it selects no pod now".to_owned(),
        false => format!("one policy for each value that its subjects have now ({})", values.join(", ")),
    };
    Loss {
        policy: policy.origin.clone(),
        path: "spec".to_owned(),
        why: match form.target {
            Target::ClusterNetworkPolicy | Target::AdminNetworkPolicy => {
                format!("{} cannot compare peers with the subject", form.called(policy.tier))
            }
            // It says all relations but this one.
            Target::Kep2091 => {
                "`notSameLabels` of KEP-2091 means something else: whoever has none of the values, with or without the labels".to_owned()
            }
        },
        instead: Some(format!("{instead}; namespaces and pods that come later with another value are not covered")),
        weight: Weight::Later,
    }
}

impl RuleLimit {
    fn said(self) -> String {
        match self {
            RuleLimit::EachDirection(count) => format!("{count} rules in each direction"),
            RuleLimit::Total(count) => format!("{count} rules in all"),
        }
    }
}

/// Rules in the order of their list, cut where a policy is full.
fn in_limits(form: &Form, suffix: String, subject: &Subject, mut rules: PerDirection<Vec<(Rule, RuleRef)>>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    loop {
        let (ingress, egress) = match form.rules {
            RuleLimit::EachDirection(limit) => (limit.min(rules.ingress.len()), limit.min(rules.egress.len())),
            RuleLimit::Total(limit) => {
                let ingress = limit.min(rules.ingress.len());
                (ingress, (limit - ingress).min(rules.egress.len()))
            }
        };
        let later = PerDirection { ingress: rules.ingress.split_off(ingress), egress: rules.egress.split_off(egress) };
        let sequence = if pieces.is_empty() { Sequence::Apart } else { Sequence::AfterLast };
        pieces.push(Piece { suffix: suffix.clone(), subject: subject.clone(), rules, sequence });
        rules = later;
        if rules.ingress.is_empty() && rules.egress.is_empty() {
            break;
        }
    }
    let width = pieces.len().to_string().len();
    for (at, piece) in pieces.iter_mut().enumerate().skip(1) {
        let dash = if piece.suffix.is_empty() { "" } else { "-" };
        piece.suffix.push_str(&format!("{dash}{:0width$}", at + 1));
    }
    pieces
}

fn subject(subject: &Subject) -> Subject {
    match subject {
        Subject::Pods { namespaces, pods } => Subject::Pods { namespaces: by_labels(namespaces), pods: written(pods) },
        Subject::Unknown => Subject::Unknown,
    }
}

/// Goes through the rules of one policy and tells what is lost.
struct Telling<'t> {
    form: &'t Form,
    policy: &'t Policy,
    losses: &'t mut Vec<Loss>,
}

/// Where in the old object something stands.
#[derive(Clone, Copy)]
struct At {
    direction: Direction,
    rule: usize,
}

impl Telling<'_> {
    fn rules(&mut self, part: &Policy, direction: Direction) -> Vec<(Rule, RuleRef)> {
        let mut rules = Vec::new();
        for old in part.rules.of(direction) {
            let origin = RuleRef { policy: part.origin.clone(), direction, index: old.index, name: old.name.clone() };
            rules.extend(self.rule(old, direction).into_iter().map(|rule| (rule, origin.clone())));
        }
        rules
    }

    /// The rules that together are this one.
    fn rule(&mut self, rule: &Rule, direction: Direction) -> Vec<Rule> {
        let at = At { direction, rule: rule.index };
        if let Some(reason) = &rule.fail_closed {
            let why = format!("`{}` could not be read ({})", reason.path, reason.found);
            self.lose(at, String::new(), why, Some("what it is read as, by the API's own rule".to_owned()), Weight::Reach);
        }
        let named_before = self.losses.len();
        let peers = self.peers(rule, at);
        let ports = self.ports(rule, at);
        if peers.is_empty() || ports.as_ref().is_some_and(Vec::is_empty) {
            for loss in self.losses.iter_mut().skip(named_before) {
                loss.instead = Some("nothing: the rule is left out".to_owned());
            }
            // What matches nothing can be left out; what matches nothing only since it could not be said was told above.
            if self.losses.len() == named_before && rule.fail_closed.is_none() {
                self.lose(
                    at,
                    String::new(),
                    "it matches nothing".to_owned(),
                    Some("nothing, which does the same".to_owned()),
                    Weight::Form,
                );
            }
            return Vec::new();
        }
        let name = self.name(rule, at);
        let action = self.action(rule, at);
        let written = |peers: &[Peer], ports: &PortSet| Rule {
            index: 0,
            name: name.clone(),
            action,
            peers: PeerSet::Of(peers.to_vec()),
            ports: ports.clone(),
            fail_closed: None,
        };
        let mut rules = Vec::new();
        for (peers, ports) in self.apart(peers, ports, at) {
            let ports: Vec<PortSet> = match ports {
                None => vec![PortSet::Any],
                Some(ports) => chunks(&ports, self.form.entries).into_iter().map(PortSet::Of).collect(),
            };
            let peers = chunks(&peers, self.form.entries);
            if peers.len() * ports.len() > 1 {
                let limit = self.form.entries.unwrap_or_default();
                let why = format!("a rule has at most {limit} peers and {limit} ports");
                self.lose(at, String::new(), why, Some(format!("{} rules, one after the other", peers.len() * ports.len())), Weight::Form);
            }
            rules.extend(peers.iter().flat_map(|peers| ports.iter().map(|ports| written(peers, ports)).collect::<Vec<_>>()));
        }
        rules
    }

    /// Peers with their ports. Only pods have ports with names, so that no name stands beside any other peer.
    fn apart(&mut self, peers: Vec<Peer>, ports: Option<Vec<PortMatch>>, at: At) -> Vec<(Vec<Peer>, Option<Vec<PortMatch>>)> {
        let is_named = |it: &PortMatch| matches!(it, PortMatch::Named { .. });
        let (of_pods, others): (Vec<Peer>, Vec<Peer>) =
            peers.iter().cloned().partition(|it| matches!(it, Peer::Pods { .. } | Peer::Relative(_)));
        let Some(all) = ports.as_ref().filter(|it| it.iter().any(is_named) && !others.is_empty()) else { return vec![(peers, ports)] };
        let numbers: Vec<PortMatch> = all.iter().filter(|it| !is_named(it)).cloned().collect();
        // A node and a name of DNS have no ports with names; a block may have pods in it.
        let blocks = others.iter().any(|it| matches!(it, Peer::Networks(_)));
        let weight = if blocks { Weight::Reach } else { Weight::Form };
        let why = "a named port may not stand beside networks, nodes or domainNames".to_owned();
        let instead = "names for pods alone, and numbers for the others, one rule after the other".to_owned();
        self.lose(at, String::new(), why, Some(instead), weight);
        let sayable = |(peers, ports): &(Vec<Peer>, Vec<PortMatch>)| !peers.is_empty() && !ports.is_empty();
        let both = [(of_pods, all.clone()), (others, numbers)];
        both.into_iter().filter(sayable).map(|(peers, ports)| (peers, Some(ports))).collect()
    }

    fn name(&mut self, rule: &Rule, at: At) -> Option<Box<str>> {
        let name = rule.name.clone()?;
        match self.form.name {
            Some(limit) if name.chars().count() > limit => {
                let short: String = name.chars().take(limit).collect();
                self.lose(
                    at,
                    ".name".to_owned(),
                    format!("a name has at most {limit} characters"),
                    Some(format!("its first {limit}")),
                    Weight::Form,
                );
                Some(short.into())
            }
            Some(_) | None => Some(name),
        }
    }

    fn action(&mut self, rule: &Rule, at: At) -> Action {
        let baseline = (self.form.target, self.policy.tier) == (Target::AdminNetworkPolicy, Tier::Baseline);
        match rule.action {
            Action::Pass if baseline => {
                let why = "a BaselineAdminNetworkPolicy has no Pass".to_owned();
                let instead =
                    "Allow, which does the same: nothing is asked after the Baseline tier, and what it lets go is accepted".to_owned();
                self.lose(at, ".action".to_owned(), why, Some(instead), Weight::Form);
                Action::Accept
            }
            Action::Accept | Action::Deny | Action::Pass => rule.action,
        }
    }

    fn peers(&mut self, rule: &Rule, at: At) -> Vec<Peer> {
        let everybody = Peer::Pods { namespaces: NamespaceSet::Matching(LabelSelector::default()), pods: LabelSelector::default() };
        match &rule.peers {
            PeerSet::Of(entries) => entries.iter().enumerate().flat_map(|(index, peer)| self.peer(rule, at, index, peer)).collect(),
            // Only what failed closed speaks of everybody, and that has been told.
            PeerSet::Any | PeerSet::AnyButOwnNode => match (at.direction, self.form.outside) {
                (Direction::Egress, Outside::Sayable) => vec![everybody, Peer::Networks(everywhere())],
                (Direction::Ingress, _) | (Direction::Egress, Outside::Never) => vec![everybody],
            },
        }
    }

    fn peer(&mut self, rule: &Rule, at: At, index: usize, peer: &Peer) -> Vec<Peer> {
        let outside = self.form.outside == Outside::Sayable;
        let baseline = (self.form.target, self.policy.tier) == (Target::AdminNetworkPolicy, Tier::Baseline);
        match peer {
            Peer::Pods { namespaces, pods } => vec![Peer::Pods { namespaces: by_labels(namespaces), pods: written(pods) }],
            Peer::Relative(relative) if self.form.says(relative) => vec![Peer::Relative(normal(relative))],
            Peer::Networks(blocks) if outside => chunks(blocks, Some(MOST_IN_A_SET)).into_iter().map(Peer::Networks).collect(),
            Peer::Nodes(nodes) if outside => vec![Peer::Nodes(written(nodes))],
            Peer::Domains(names) if outside && !baseline => chunks(names, Some(MOST_IN_A_SET)).into_iter().map(Peer::Domains).collect(),
            Peer::Networks(_) => self.unsayable(rule, at, index, "networks", "names networks: all of its peers are pods of the cluster"),
            Peer::Nodes(_) => self.unsayable(rule, at, index, "nodes", "names nodes: all of its peers are pods of the cluster"),
            Peer::Domains(_) => self.unsayable(rule, at, index, "domainNames", "names domains"),
            Peer::Relative(_) => self.unsayable(rule, at, index, "", "compares peers with the subject in this way"),
            // It matches nobody; if it could not be read, the rule has said so.
            Peer::Unreadable => Vec::new(),
        }
    }

    fn unsayable(&mut self, rule: &Rule, at: At, index: usize, field: &str, what: &str) -> Vec<Peer> {
        let list = match at.direction {
            Direction::Ingress => "from",
            Direction::Egress => "to",
        };
        let dot = if field.is_empty() { "" } else { "." };
        let why = format!("no rule of {} {what}", self.form.called(self.policy.tier));
        let left = match &rule.peers {
            PeerSet::Of(entries) if entries.len() > 1 => Some("the other peers of the rule".to_owned()),
            PeerSet::Of(_) | PeerSet::Any | PeerSet::AnyButOwnNode => None,
        };
        self.lose(at, format!(".{list}[{index}]{dot}{field}"), why, left, Weight::Reach);
        Vec::new()
    }

    /// None for all traffic.
    fn ports(&mut self, rule: &Rule, at: At) -> Option<Vec<PortMatch>> {
        match &rule.ports {
            PortSet::Any => None,
            PortSet::Of(entries) => Some(entries.iter().enumerate().flat_map(|(index, it)| self.port(at, index, it)).collect()),
        }
    }

    fn port(&mut self, at: At, index: usize, port: &PortMatch) -> Vec<PortMatch> {
        let field = match self.policy.origin.kind {
            PolicyKind::ClusterNetworkPolicy => "protocols",
            PolicyKind::Kep2091 => "l4Selector.ports",
            PolicyKind::NetworkPolicy | PolicyKind::AdminNetworkPolicy | PolicyKind::BaselineAdminNetworkPolicy => "ports",
        };
        match (port, self.form.named_ports) {
            (PortMatch::Numbers { protocol, ports }, _) => {
                let ports = Ports::range(ports.first().max(1), ports.last()).map(|ports| PortMatch::Numbers { protocol: *protocol, ports });
                ports.into_iter().collect()
            }
            (PortMatch::Named { protocol: Some(protocol), name }, NamedPorts::AnyProtocol) => {
                let why = format!("a named port stands alone, and `{name}` is of {} here", protocol.to_string().to_uppercase());
                let instead = format!("`{name}` of any protocol");
                self.lose(at, format!(".{field}[{index}]"), why, Some(instead), Weight::Reach);
                vec![PortMatch::Named { protocol: None, name: name.clone() }]
            }
            (PortMatch::Named { protocol: None, name }, NamedPorts::OneProtocol) => {
                let named = |protocol| PortMatch::Named { protocol: Some(protocol), name: name.clone() };
                [PortProtocol::Tcp, PortProtocol::Udp, PortProtocol::Sctp].map(named).to_vec()
            }
            (PortMatch::Named { .. }, NamedPorts::AnyProtocol | NamedPorts::OneProtocol) => vec![port.clone()],
            (PortMatch::Unreadable, _) => Vec::new(),
        }
    }

    fn lose(&mut self, at: At, field: String, why: String, instead: Option<String>, weight: Weight) {
        let path = format!("spec.{}[{}]{field}", at.direction, at.rule);
        self.losses.push(Loss { policy: self.policy.origin.clone(), path, why, instead, weight });
    }
}

fn normal(relative: &RelativePods) -> RelativePods {
    let selector = |it: &RelativeSelector| match it {
        RelativeSelector::Matching(selector) => RelativeSelector::Matching(written(selector)),
        RelativeSelector::Same(_) | RelativeSelector::NoneSame(_) | RelativeSelector::SomeDiffer(_) => it.clone(),
    };
    let namespaces = match &relative.namespaces {
        RelativeNamespaces::Own => RelativeNamespaces::Own,
        RelativeNamespaces::Others => RelativeNamespaces::Others,
        RelativeNamespaces::Labelled(labelled) => RelativeNamespaces::Labelled(selector(labelled)),
    };
    RelativePods { namespaces, pods: selector(&relative.pods) }
}

/// Every address of both families.
pub(super) fn everywhere() -> Vec<IpBlock> {
    let all = [ipnet::IpNet::from(ipnet::Ipv4Net::default()), ipnet::IpNet::from(ipnet::Ipv6Net::default())];
    all.map(IpBlock::whole).to_vec()
}

fn chunks<T: Clone>(items: &[T], limit: Option<usize>) -> Vec<Vec<T>> {
    items.chunks(limit.unwrap_or(usize::MAX).max(1)).map(<[T]>::to_vec).collect()
}
