//! What the rules of all cluster policies have in common, whatever the kind and shape.

use palisade_model::{Action, DomainPattern, FailClosed, IpBlock, LabelSelector, PortMatch};

use crate::choice::{Dialect, Entry};
use crate::network_policy::Spelling;
use crate::problem::Consequence;
use crate::read::{Fields, Reader};
use crate::tree::{Node, Step, Value};

/// One rule.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterRule {
    pub name: Option<String>,
    pub action: Entry<Action>,
    pub peers: Vec<Entry<ClusterPeer>>,
    /// None: any traffic.
    pub ports: Option<Vec<Entry<PortMatch>>>,
    /// A field of the rule itself that we do not know.
    pub unknown: Option<FailClosed>,
}

/// The pods that a policy speaks about.
#[derive(Clone, Debug, PartialEq)]
pub struct SubjectPods {
    pub namespaces: LabelSelector,
    pub pods: LabelSelector,
}

/// One peer of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum ClusterPeer {
    Pods { namespaces: PeerNamespaces, pods: PeerPods },
    Networks(Vec<IpBlock>),
    Nodes(LabelSelector),
    Domains(Vec<DomainPattern>),
}

/// The namespaces of a peer.
#[derive(Clone, Debug, PartialEq)]
pub enum PeerNamespaces {
    /// `self`: the subject's own.
    Own,
    /// `notSelf`: all others.
    Others,
    Matching(LabelSelector),
    SameLabels(Vec<Box<str>>),
    NotSameLabels(Vec<Box<str>>),
}

/// The pods of a peer.
#[derive(Clone, Debug, PartialEq)]
pub enum PeerPods {
    Matching(LabelSelector),
    SameLabels(Vec<Box<str>>),
    NotSameLabels(Vec<Box<str>>),
}

impl ClusterPeer {
    /// Pods by labels alone.
    pub(crate) fn matching(pods: SubjectPods) -> ClusterPeer {
        ClusterPeer::Pods { namespaces: PeerNamespaces::Matching(pods.namespaces), pods: PeerPods::Matching(pods.pods) }
    }
}

impl SubjectPods {
    /// All pods of these namespaces.
    pub(crate) fn all_of(namespaces: LabelSelector) -> SubjectPods {
        SubjectPods { namespaces, pods: LabelSelector::default() }
    }
}

/// Where a rule keeps its ports, and the key of an entry that names one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedPorts {
    pub(crate) list: &'static str,
    pub(crate) key: &'static str,
}

impl Reader {
    /// A union that a policy is nothing without.
    pub(crate) fn subject<'n>(
        &mut self,
        node: &'n Node<'n>,
        known: &'static [&'static str],
        read: impl FnOnce(&mut Reader, &'n str, &'n Node<'n>) -> Option<SubjectPods>,
    ) -> Option<Entry<SubjectPods>> {
        let before = self.problems.len();
        let subject = self.one_of(node, known, read);
        if let Some(reason) = self.refused_since(before) {
            return Some(Entry::Unknown(reason));
        }
        let subject = subject?;
        if let Entry::Unknown(_) = &subject {
            // SPEC: semantics 2.4: its reach is unknown, so it selects nothing, loudly.
            let message = "the subject cannot be read, so the policy selects nothing";
            self.problem(Consequence::Untrusted, "unknown-subject", node.span, message, None);
        }
        Some(subject)
    }

    /// SPEC: semantics 2.4 and 2.7: an action of another API, or of a newer one. The rule then fails closed.
    pub(crate) fn action<'n>(&mut self, node: &'n Node<'n>, actions: &[Action]) -> Option<Entry<Action>> {
        let text = self.string(node)?;
        let accept = self.dialect.accept();
        let word = |action: &Action| match action {
            Action::Accept => accept,
            Action::Deny => "Deny",
            Action::Pass => "Pass",
        };
        if let Some(action) = actions.iter().find(|it| word(it) == text) {
            return Some(Entry::Known(*action));
        }
        let other_word = ["accept", "allow"].iter().any(|it| text.eq_ignore_ascii_case(it));
        let help = match (other_word, text) {
            (true, _) => Some(format!("this API says `{accept}`")),
            (false, "Pass") => Some("there is nothing left to pass to".to_owned()),
            (false, _) => None,
        };
        let words: Vec<&str> = actions.iter().map(word).collect();
        let words = words.split_last().map(|(last, rest)| format!("{} or {last}", rest.join(", "))).unwrap_or_default();
        let everything = self.dialect.everything();
        let message = format!("`{text}` is not an action: {words}; the rule fails closed and denies {everything}");
        self.problem(Consequence::Untrusted, "unknown-action", node.span, message, help);
        Some(Entry::Unknown(self.fail_closed(format!("action `{text}`"))))
    }

    /// The name of a rule, where the CRD limits it.
    pub(crate) fn rule_name<'n>(&mut self, node: &'n Node<'n>) -> Option<String> {
        let name = self.string(node)?;
        if name.chars().count() > 100 {
            self.invalid(node.span, "a rule name has at most 100 characters");
        }
        Some(name.to_owned())
    }

    /// SPEC: semantics 2.1: a name that resolves to more than was looked up makes Deny and Pass unsafe, so such a rule fails closed.
    pub(crate) fn domains_only_accept(
        &mut self,
        node: &Node<'_>,
        action: &Entry<Action>,
        peers: &[Entry<ClusterPeer>],
    ) -> Option<FailClosed> {
        let domains = peers.iter().any(|peer| matches!(peer, Entry::Known(ClusterPeer::Domains(_))));
        let Entry::Known(action @ (Action::Deny | Action::Pass)) = action else { return None };
        if !domains {
            return None;
        }
        let accept = self.dialect.accept();
        let message = format!("domainNames only work with {accept}; this {action} fails closed and denies everything");
        let article = if self.dialect == Dialect::Accept { "an Accept" } else { "an Allow" };
        let help = Some(format!("name the addresses in `networks`, or turn the rule round into {article}"));
        self.problem(Consequence::Narrowed, "domain-names-only-accept", node.span, message, help);
        Some(self.fail_closed(format!("domainNames with {action}")))
    }

    pub(crate) fn networks<'n>(&mut self, node: &'n Node<'n>) -> Option<Vec<IpBlock>> {
        self.set_of(node, |r, node| {
            if node.as_str().is_some_and(|it| it.len() > 43) {
                r.invalid(node.span, "a CIDR has at most 43 characters here");
            }
            r.cidr(node, Spelling::Strict).map(IpBlock::whole)
        })
    }

    pub(crate) fn domains<'n>(&mut self, node: &'n Node<'n>) -> Option<Vec<DomainPattern>> {
        self.set_of(node, |r, node| match DomainPattern::parse(r.string(node)?) {
            Ok(pattern) => Some(pattern),
            Err(message) => {
                r.invalid(node.span, message);
                None
            }
        })
    }

    /// A list of 1 to 25 strings, each once.
    fn set_of<'n, T>(&mut self, node: &'n Node<'n>, mut read: impl FnMut(&mut Reader, &'n Node<'n>) -> Option<T>) -> Option<Vec<T>> {
        let Value::List(items) = &node.value else {
            self.wrong_type(node, "a list");
            return None;
        };
        if items.is_empty() || items.len() > 25 {
            self.invalid(node.span, format!("{} entries, but the API takes 1 to 25", items.len()));
        }
        for (at, item) in items.iter().enumerate() {
            let twice = items.iter().take(at).any(|earlier| earlier.value == item.value);
            if twice {
                self.step(Step::Index(at), |r| r.invalid(item.span, "the same entry twice in a set"));
            }
        }
        items.iter().enumerate().map(|(at, item)| self.step(Step::Index(at), |r| read(r, item))).collect()
    }

    /// SPEC: semantics 2.4: an empty name is as good as none, so the entry is of no kind that is known.
    pub(crate) fn any_named_port<'n>(&mut self, node: &'n Node<'n>) -> Option<Entry<PortMatch>> {
        Some(match self.string(node)? {
            "" => {
                let message = "an empty name is no port; taken as something newer, so the rule fails closed";
                self.problem(Consequence::Untrusted, "empty-choice", node.span, message, None);
                Entry::Unknown(self.fail_closed("an empty name".to_owned()))
            }
            name => Entry::Known(PortMatch::Named { protocol: None, name: name.into() }),
        })
    }

    /// SPEC: semantics 2.1: the experimental CRD refuses a named port beside such peers; the standard one takes it, and then it only matches pods.
    pub(crate) fn named_port_needs_pods(&mut self, fields: &Fields<'_>, peers: &'static str, ports: NamedPorts) {
        let any = |name: &str, keys: &[&str]| {
            let Some(Node { value: Value::List(items), .. }) = fields.get(name) else { return None };
            items.iter().find(|item| keys.iter().any(|key| item.get(key).is_some())).map(|item| item.span)
        };
        let named = any(ports.list, &[ports.key]);
        let Some(span) = named else { return };
        let help = Some("write the number".to_owned());
        if any(peers, &["nodes", "domainNames"]).is_some() {
            let message = "a named port cannot stand beside nodes or domainNames: neither has ports with names";
            self.within(ports.list, |r| r.problem(Consequence::Refused, "named-port-without-pods", span, message, help));
        } else if any(peers, &["networks"]).is_some() {
            let message = "a named port beside networks only matches destinations that are pods; the experimental CRD refuses this";
            self.within(ports.list, |r| r.problem(Consequence::Narrowed, "named-port-without-pods", span, message, help));
        }
    }
}
