//! policy.networking.k8s.io/v1alpha2 ClusterNetworkPolicy, standard and experimental channel.
//!
//! The API is expected to grow: a peer, protocol or field that nothing here resembles is kept as `Entry::Unknown`, so that the conversion can
//! fail closed. What resembles a known field is a slip and refuses the object.

use palisade_model::{Action, Direction, DomainPattern, FailClosed, IpBlock, LabelSelector, PerDirection, PortMatch, PortProtocol, Ports};

use crate::meta::Meta;
use crate::network_policy::Spelling;
use crate::problem::Consequence;
use crate::read::{Fields, NullLabels, Reader, Unknown, classify};
use crate::tree::{Node, Step, Value};

/// A ClusterNetworkPolicy.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterNetworkPolicy {
    pub meta: Meta,
    pub tier: CnpTier,
    pub priority: i64,
    pub subject: Entry<CnpPods>,
    pub rules: PerDirection<Vec<CnpRule>>,
}

/// `spec.tier`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CnpTier {
    Admin,
    Baseline,
}

/// Something the API may hold more kinds of than we know.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry<T> {
    Known(T),
    Unknown(FailClosed),
}

/// Pods by namespace and label.
#[derive(Clone, Debug, PartialEq)]
pub struct CnpPods {
    pub namespaces: LabelSelector,
    pub pods: LabelSelector,
}

/// One rule.
#[derive(Clone, Debug, PartialEq)]
pub struct CnpRule {
    pub name: Option<String>,
    pub action: Entry<Action>,
    pub peers: Vec<Entry<CnpPeer>>,
    /// None: any traffic.
    pub protocols: Option<Vec<Entry<PortMatch>>>,
    /// A field of the rule itself that we do not know.
    pub unknown: Option<FailClosed>,
}

/// One peer of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum CnpPeer {
    Pods(CnpPods),
    Networks(Vec<IpBlock>),
    Nodes(LabelSelector),
    Domains(Vec<DomainPattern>),
}

const SPEC: &[&str] = &["tier", "priority", "subject", "ingress", "egress"];
const SUBJECT: &[&str] = &["namespaces", "pods"];
const PODS: &[&str] = &["namespaceSelector", "podSelector"];
const INGRESS: &[&str] = &["name", "action", "from", "protocols"];
const EGRESS: &[&str] = &["name", "action", "to", "protocols"];
const INGRESS_PEER: &[&str] = &["namespaces", "pods"];
const EGRESS_PEER: &[&str] = &["namespaces", "pods", "networks", "nodes", "domainNames"];
const PROTOCOL: &[&str] = &["tcp", "udp", "sctp", "destinationNamedPort"];
const LAYER4: &[&str] = &["destinationPort"];
const DESTINATION: &[&str] = &["number", "range"];
const RANGE: &[&str] = &["start", "end"];

impl Reader {
    pub(crate) fn cluster_network_policy(&mut self, node: &Node<'_>) -> Option<ClusterNetworkPolicy> {
        let meta = self.meta(node);
        self.null_labels = NullLabels::Dropped;
        let fields = self.fields(node)?;
        self.only(&fields, &["apiVersion", "kind", "metadata", "spec", "status"]);
        self.required(&fields, "spec", |r, spec| {
            let fields = r.fields(spec)?;
            r.only(&fields, SPEC);
            let tier = r.required(&fields, "tier", Reader::cnp_tier);
            let priority = r.required(&fields, "priority", |r, node| r.bounded::<i64>(node, 0, 1000));
            let subject = r.required(&fields, "subject", Reader::cnp_subject);
            r.count(&fields, "ingress", 0, 25);
            r.count(&fields, "egress", 0, 25);
            let ingress = r.list(&fields, "ingress", |r, node| r.cnp_rule(node, Direction::Ingress));
            let egress = r.list(&fields, "egress", |r, node| r.cnp_rule(node, Direction::Egress));
            let domains = egress.iter().flat_map(|rule| &rule.peers).any(|peer| matches!(peer, Entry::Known(CnpPeer::Domains(_))));
            if domains && tier == Some(CnpTier::Baseline) {
                let message = "domainNames work in the Baseline tier here, but newer versions of the API refuse them";
                r.problem(Consequence::Narrowed, "domain-names-in-baseline", spec.span, message, None);
            }
            Some(ClusterNetworkPolicy {
                meta,
                tier: tier?,
                priority: priority?,
                subject: subject?,
                rules: PerDirection { ingress, egress },
            })
        })
    }

    /// SPEC: semantics 2.4: a policy of an unknown tier is ignored, loudly.
    fn cnp_tier<'n>(&mut self, node: &'n Node<'n>) -> Option<CnpTier> {
        match self.string(node)? {
            "Admin" => Some(CnpTier::Admin),
            "Baseline" => Some(CnpTier::Baseline),
            other => {
                self.invalid(node.span, format!("`{other}` is not a tier: Admin or Baseline"));
                None
            }
        }
    }

    fn cnp_subject<'n>(&mut self, node: &'n Node<'n>) -> Option<Entry<CnpPods>> {
        let subject = self.one_of(node, SUBJECT, |r, key, node| match key {
            "namespaces" => r.selector(node).map(all_pods_of),
            _ => r.cnp_pods(node),
        })?;
        if let Entry::Unknown(_) = &subject {
            // SPEC: semantics 2.4: its reach is unknown, so it selects nothing, loudly.
            let message = "the subject cannot be read, so the policy selects nothing";
            self.problem(Consequence::Untrusted, "unknown-subject", node.span, message, None);
        }
        Some(subject)
    }

    fn cnp_pods<'n>(&mut self, node: &'n Node<'n>) -> Option<CnpPods> {
        let fields = self.fields(node)?;
        self.only(&fields, PODS);
        let namespaces = self.optional(&fields, "namespaceSelector", Reader::selector).unwrap_or_default();
        let pods = self.required(&fields, "podSelector", Reader::selector)?;
        Some(CnpPods { namespaces, pods })
    }

    fn cnp_rule<'n>(&mut self, node: &'n Node<'n>, direction: Direction) -> Option<CnpRule> {
        let fields = self.fields(node)?;
        let (known, list) = match direction {
            Direction::Ingress => (INGRESS, "from"),
            Direction::Egress => (EGRESS, "to"),
        };
        let unknown = self.newer_fields(&fields, known);
        let name = self.optional(&fields, "name", |r, node| {
            let name = r.string(node)?;
            if name.chars().count() > 100 {
                r.invalid(node.span, "a rule name has at most 100 characters");
            }
            Some(name.to_owned())
        });
        let action = self.required(&fields, "action", Reader::action)?;
        self.required(&fields, list, |_, _| Some(()));
        self.count(&fields, list, 1, 25);
        let peers = self.list(&fields, list, |r, node| r.cnp_peer(node, direction));
        self.count(&fields, "protocols", 1, 25);
        let protocols = fields.get("protocols").map(|_| self.list(&fields, "protocols", Reader::cnp_protocol));
        self.named_port_needs_pods(&fields, list);
        let unknown = unknown.or_else(|| self.domains_only_accept(node, &action, &peers));
        Some(CnpRule { name, action, peers, protocols, unknown })
    }

    /// SPEC: semantics 2.1: a name that resolves to more than was looked up makes Deny and Pass unsafe, so such a rule fails closed.
    fn domains_only_accept(&mut self, node: &Node<'_>, action: &Entry<Action>, peers: &[Entry<CnpPeer>]) -> Option<FailClosed> {
        let domains = peers.iter().any(|peer| matches!(peer, Entry::Known(CnpPeer::Domains(_))));
        let Entry::Known(action @ (Action::Deny | Action::Pass)) = action else { return None };
        if !domains {
            return None;
        }
        let message = format!("domainNames only work with Accept; this {action} fails closed and denies everything");
        let help = Some("name the addresses in `networks`, or turn the rule round into an Accept".to_owned());
        self.problem(Consequence::Narrowed, "domain-names-only-accept", node.span, message, help);
        Some(self.fail_closed(format!("domainNames with {action}")))
    }

    /// SPEC: semantics 2.4 and 2.7: an action of another API, or of a newer one. The rule then fails closed.
    fn action<'n>(&mut self, node: &'n Node<'n>) -> Option<Entry<Action>> {
        Some(match self.string(node)? {
            "Accept" => Entry::Known(Action::Accept),
            "Deny" => Entry::Known(Action::Deny),
            "Pass" => Entry::Known(Action::Pass),
            other => {
                let help = (other.eq_ignore_ascii_case("allow")).then(|| "this API says `Accept`".to_owned());
                let message = format!("`{other}` is not an action: Accept, Deny or Pass; the rule fails closed and denies everything");
                self.problem(Consequence::Untrusted, "unknown-action", node.span, message, help);
                Entry::Unknown(self.fail_closed(format!("action `{other}`")))
            }
        })
    }

    fn cnp_peer<'n>(&mut self, node: &'n Node<'n>, direction: Direction) -> Option<Entry<CnpPeer>> {
        let known = match direction {
            Direction::Ingress => INGRESS_PEER,
            Direction::Egress => EGRESS_PEER,
        };
        self.one_of(node, known, |r, key, node| match key {
            "namespaces" => r.selector(node).map(all_pods_of).map(CnpPeer::Pods),
            "pods" => r.cnp_pods(node).map(CnpPeer::Pods),
            "networks" => r.networks(node).map(CnpPeer::Networks),
            "nodes" => r.selector(node).map(CnpPeer::Nodes),
            _ => r.domains(node).map(CnpPeer::Domains),
        })
    }

    fn networks<'n>(&mut self, node: &'n Node<'n>) -> Option<Vec<IpBlock>> {
        self.set_of(node, |r, node| {
            if node.as_str().is_some_and(|it| it.len() > 43) {
                r.invalid(node.span, "a CIDR has at most 43 characters here");
            }
            r.cidr(node, Spelling::Strict).map(IpBlock::whole)
        })
    }

    fn domains<'n>(&mut self, node: &'n Node<'n>) -> Option<Vec<DomainPattern>> {
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
            self.problem(
                Consequence::Refused,
                "wrong-type",
                node.span,
                format!("this is {}, but the API wants a list", node.value.what()),
                None,
            );
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

    fn cnp_protocol<'n>(&mut self, node: &'n Node<'n>) -> Option<Entry<PortMatch>> {
        let entry = self.one_of(node, PROTOCOL, |r, key, node| match key {
            "tcp" => r.layer4(node, PortProtocol::Tcp),
            "udp" => r.layer4(node, PortProtocol::Udp),
            "sctp" => r.layer4(node, PortProtocol::Sctp),
            _ => r.destination_named_port(node),
        })?;
        Some(match entry {
            Entry::Known(inner) => inner,
            Entry::Unknown(reason) => Entry::Unknown(reason),
        })
    }

    /// SPEC: semantics 2.4: an empty name is as good as none, so the entry is of no kind that is known.
    fn destination_named_port<'n>(&mut self, node: &'n Node<'n>) -> Option<Entry<PortMatch>> {
        Some(match self.string(node)? {
            "" => {
                let message = "an empty name is no port; taken as something newer, so the rule fails closed";
                self.problem(Consequence::Untrusted, "empty-choice", node.span, message, None);
                Entry::Unknown(self.fail_closed("an empty name".to_owned()))
            }
            name => Entry::Known(PortMatch::Named { protocol: None, name: name.into() }),
        })
    }

    fn layer4<'n>(&mut self, node: &'n Node<'n>, protocol: PortProtocol) -> Option<Entry<PortMatch>> {
        let entry = self.one_of(node, LAYER4, |r, _, node| {
            r.one_of(node, DESTINATION, |r, key, node| match key {
                "number" => r.port(node).map(Ports::one),
                _ => r.cnp_range(node),
            })
        })?;
        Some(match entry {
            Entry::Known(Entry::Known(ports)) => Entry::Known(PortMatch::Numbers { protocol, ports }),
            Entry::Known(Entry::Unknown(reason)) | Entry::Unknown(reason) => Entry::Unknown(reason),
        })
    }

    fn cnp_range<'n>(&mut self, node: &'n Node<'n>) -> Option<Ports> {
        let fields = self.fields(node)?;
        self.only(&fields, RANGE);
        let start = self.required(&fields, "start", |r, node| r.port(node))?;
        let end = self.required(&fields, "end", |r, node| r.port(node))?;
        if start >= end {
            let help = "write `number` for a single port";
            self.invalid_with_help(node.span, format!("start `{start}` must be below end `{end}`"), help);
            return None;
        }
        Ports::range(start, end)
    }

    /// SPEC: semantics 2.1: the experimental CRD refuses a named port beside such peers; the standard one takes it, and then it only matches pods.
    fn named_port_needs_pods(&mut self, fields: &Fields<'_>, list: &'static str) {
        let any = |name: &str, keys: &[&str]| {
            let Some(Node { value: Value::List(items), .. }) = fields.get(name) else { return None };
            items.iter().find(|item| keys.iter().any(|key| item.get(key).is_some())).map(|item| item.span)
        };
        let named = any("protocols", &["destinationNamedPort"]);
        let Some(span) = named else { return };
        let help = Some("write the number".to_owned());
        if any(list, &["nodes", "domainNames"]).is_some() {
            let message = "a named port cannot stand beside nodes or domainNames: neither has ports with names";
            self.within("protocols", |r| r.problem(Consequence::Refused, "named-port-without-pods", span, message, help));
        } else if any(list, &["networks"]).is_some() {
            let message = "a named port beside networks only matches destinations that are pods; the experimental CRD refuses this";
            self.within("protocols", |r| r.problem(Consequence::Narrowed, "named-port-without-pods", span, message, help));
        }
    }

    /// A union: exactly one of `known`. No known key at all is something newer, and fails closed; a slip refuses the object.
    fn one_of<'n, T>(
        &mut self,
        node: &'n Node<'n>,
        known: &'static [&'static str],
        read: impl FnOnce(&mut Reader, &'n str, &'n Node<'n>) -> Option<T>,
    ) -> Option<Entry<T>> {
        let fields = self.fields(node)?;
        let before = self.problems.len();
        let newer = self.newer_fields(&fields, known);
        let slipped = self.problems.len() > before && newer.is_none();
        let set: Vec<_> = fields.entries().iter().filter(|it| known.contains(&it.key.as_ref()) && it.value.value != Value::Null).collect();
        match (set.as_slice(), newer) {
            (_, Some(reason)) => Some(Entry::Unknown(reason)),
            // The slip says it all, and refuses the object.
            ([], None) if slipped => None,
            ([], None) => {
                let message = format!("none of {} is set; taken as something newer, so the rule fails closed", known.join(", "));
                self.problem(Consequence::Untrusted, "empty-choice", node.span, message, Some("an API server refuses this".to_owned()));
                Some(Entry::Unknown(self.fail_closed("an empty object".to_owned())))
            }
            ([only], None) => {
                let key: &'n str = only.key.as_ref();
                self.within(key.to_owned(), |r| read(r, key, &only.value)).map(Entry::Known)
            }
            ([first, second, ..], None) => {
                self.invalid(second.key_span, format!("`{}` and `{}` exclude each other", first.key, second.key));
                None
            }
        }
    }

    /// Notes the fields we do not know. Slips refuse the object; the first that looks newer is returned, so that the rule fails closed.
    fn newer_fields(&mut self, fields: &Fields<'_>, known: &'static [&'static str]) -> Option<FailClosed> {
        let mut newer = None;
        for entry in fields.unknown(known) {
            match classify(&entry.key, known) {
                Unknown::Slip(_) => self.refuse_field(entry, known),
                Unknown::Newer => {
                    let key = entry.key.to_string();
                    let help = Some(format!("known here: {}", known.join(", ")));
                    let reason = self.within(key.clone(), |r| {
                        let message =
                            "not known to this version; the rule fails closed: Accept matches nothing by it, Deny and Pass deny everything";
                        r.problem(Consequence::Narrowed, "unknown-kind", entry.key_span, message, help);
                        r.fail_closed(format!("`{key}`"))
                    });
                    newer = newer.or(Some(reason));
                }
            }
        }
        newer
    }

    fn fail_closed(&self, found: String) -> FailClosed {
        FailClosed { path: self.path().to_string().into(), found: found.into() }
    }
}

fn all_pods_of(namespaces: LabelSelector) -> CnpPods {
    CnpPods { namespaces, pods: LabelSelector::default() }
}
