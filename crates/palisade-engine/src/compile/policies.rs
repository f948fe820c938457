//! The policies themselves: whom each speaks about, and its rules by number.

use std::cmp::Ordering;

use palisade_model::{Direction, NamespaceSet, PerDirection, Policy, PolicyKind, PolicyRef, Subject, Tier};
use rustc_hash::FxHashMap;

use crate::compile::intern::{Lists, Symbols, Uses};
use crate::compile::join::Join;
use crate::compile::rules::{News, Parts, Unused};
use crate::compile::slab::Slab;

/// Policies by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies {
    pub(crate) stored: Slab<Stored>,
    by_key: FxHashMap<Key, u32>,
    /// Subjects in namespaces with some labels.
    pub(crate) subjects: Join,
    by_subject: FxHashMap<u32, Vec<u32>>,
}

/// Which object a policy is, by symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    kind: PolicyKind,
    namespace: Option<u32>,
    name: u32,
    /// Which part of it, if it has relative peers.
    part: Option<u32>,
}

impl Key {
    pub(crate) fn of(origin: &PolicyRef, symbols: &mut Symbols) -> Key {
        let namespace = origin.namespace.as_deref().map(|it| symbols.intern(it));
        Key { kind: origin.kind, namespace, name: symbols.intern(&origin.name), part: None }
    }

    /// The part of an object for subjects that have in common what `words` say.
    pub(crate) fn of_part(origin: &PolicyRef, words: &str, symbols: &mut Symbols) -> Key {
        Key { part: Some(symbols.intern(words)), ..Key::of(origin, symbols) }
    }
}

/// A policy.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) key: Key,
    pub(crate) tier: Tier,
    pub(crate) rank: i64,
    pub(crate) about: About,
    pub(crate) isolates: PerDirection<bool>,
    pub(crate) rules: PerDirection<Vec<u32>>,
}

/// Whom a policy speaks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// Its subject could not be read.
    Nobody,
    /// Pods of one namespace, by symbol, that a selector holds for.
    Own { namespace: u32, pods: u32 },
    /// Pods that a condition holds for.
    Matching(u32),
}

impl Stored {
    /// Notes every part of a policy.
    pub(crate) fn add(policy: &Policy, key: Key, parts: &mut Parts, subjects: &mut Join, news: &mut News) -> Stored {
        let (about, own) = match &policy.subject {
            Subject::Unknown => (About::Nobody, None),
            Subject::Pods { namespaces: NamespaceSet::Own(own), pods } => {
                let pods = parts.pods.add(pods, &mut parts.symbols, &mut news.pods);
                let named = policy.origin.namespace.as_ref() == Some(own);
                let namespace = key.namespace.filter(|_| named).unwrap_or_else(|| parts.symbols.intern(own));
                (About::Own { namespace, pods }, Some(own.as_ref()))
            }
            Subject::Pods { namespaces: NamespaceSet::Matching(namespaces), pods } => {
                let namespace = parts.namespaces.add(namespaces, &mut parts.symbols, &mut news.namespaces);
                let pods = parts.pods.add(pods, &mut parts.symbols, &mut news.pods);
                (About::Matching(subjects.add(namespace, pods, &parts.namespaces, &parts.pods).0), None)
            }
        };
        let mut rules = |direction| policy.rules.of(direction).iter().map(|it| parts.add_rule(it, own, news)).collect::<Vec<u32>>();
        let rules = PerDirection { egress: rules(Direction::Egress), ingress: rules(Direction::Ingress) };
        Stored { key, tier: policy.tier, rank: policy.rank, about, isolates: policy.isolates, rules }
    }

    /// Releases every part of a policy; the subject's condition, if nobody uses it any more.
    pub(crate) fn release(&self, parts: &mut Parts, subjects: &mut Join, news: &mut News, unused: &mut Unused) -> Option<u32> {
        for rule in self.rules.egress.iter().chain(&self.rules.ingress) {
            parts.release_rule(*rule, news, unused);
        }
        match self.about {
            About::Nobody => None,
            About::Own { pods, .. } => {
                unused.pods.extend((parts.pods.release(pods) == Uses::Only).then_some(pods));
                None
            }
            About::Matching(condition) => {
                let (namespace, pods) = subjects.selectors(condition)?;
                unused.namespaces.extend((parts.namespaces.release(namespace) == Uses::Only).then_some(namespace));
                unused.pods.extend((parts.pods.release(pods) == Uses::Only).then_some(pods));
                (subjects.release(condition) == Uses::Only).then_some(condition)
            }
        }
    }
}

impl Policies {
    /// Makes room for so many more.
    pub(crate) fn reserve(&mut self, policies: usize) {
        self.stored.reserve(policies);
        self.by_key.reserve(policies);
    }

    pub(crate) fn find(&self, key: Key) -> Option<u32> {
        self.by_key.get(&key).copied()
    }

    pub(crate) fn insert(&mut self, policy: Stored) -> u32 {
        let (key, about) = (policy.key, policy.about);
        let id = self.stored.insert(policy);
        self.by_key.insert(key, id);
        if let About::Matching(condition) = about {
            self.by_subject.entry(condition).or_default().push(id);
        }
        id
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<Stored> {
        let policy = self.stored.remove(id)?;
        self.by_key.remove(&policy.key);
        if let About::Matching(condition) = policy.about
            && let Some(of_subject) = self.by_subject.get_mut(&condition)
        {
            of_subject.retain(|it| *it != id);
        }
        Some(policy)
    }

    /// Policies about namespaces and pods for which these selectors deviate, in the order of their numbers.
    pub(crate) fn selecting(&self, of_namespace: &[u32], of_pod: &[u32]) -> Vec<u32> {
        let deviating = self.subjects.deviating(of_namespace, of_pod);
        let by_default = self.subjects.so_by_default().filter(|it| deviating.binary_search(it).is_err());
        let besides = deviating.iter().copied().filter(|it| !self.subjects.default_of(*it));
        let mut found: Vec<u32> = by_default.chain(besides).filter_map(|it| self.by_subject.get(&it)).flatten().copied().collect();
        found.sort_unstable();
        found
    }

    /// SPEC: semantics 2.2: by rank, then name.
    fn compare(&self, a: u32, b: u32, symbols: &Symbols) -> Ordering {
        let (Some(a), Some(b)) = (self.stored.get(a), self.stored.get(b)) else { return Ordering::Equal };
        let key = |it: &Stored| (it.rank, symbols.get(it.key.name), it.key.kind, it.key.namespace.map(|it| symbols.get(it)));
        key(a).cmp(&key(b))
    }

    /// The rules of an ordered tier, of those of some policies that belong to it.
    pub(crate) fn ordered(&self, policies: &[u32], tier: Tier, direction: Direction, symbols: &Symbols) -> Vec<u32> {
        let of_tier = |id: &&u32| self.stored.get(**id).is_some_and(|it| it.tier == tier && !it.rules.of(direction).is_empty());
        let mut ids: Vec<u32> = policies.iter().filter(of_tier).copied().collect();
        ids.sort_by(|a, b| self.compare(*a, *b, symbols));
        ids.iter().filter_map(|it| self.stored.get(*it)).flat_map(|it| it.rules.of(direction).iter().copied()).collect()
    }

    /// The rules of the NetworkPolicy tier, which have no order; None for pods that no policy isolates.
    pub(crate) fn network(&self, policies: [&[u32]; 2], direction: Direction) -> Option<Vec<u32>> {
        let stored = policies.into_iter().flatten().filter_map(|it| self.stored.get(*it));
        let isolating = stored.filter(|it| it.tier == Tier::NetworkPolicy && *it.isolates.of(direction));
        let mut rules: Option<Vec<u32>> = None;
        for policy in isolating {
            rules.get_or_insert_default().extend(policy.rules.of(direction));
        }
        if let Some(rules) = &mut rules {
            rules.sort_unstable();
            rules.dedup();
        }
        rules
    }

    pub(crate) fn is_ordered(&self, id: u32) -> bool {
        self.stored.get(id).is_some_and(|it| it.tier != Tier::NetworkPolicy)
    }
}

/// The lists of rules that pods meet, by tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tiers {
    pub(crate) admin: PerDirection<u32>,
    pub(crate) network: PerDirection<Option<u32>>,
    pub(crate) baseline: PerDirection<u32>,
    /// Whether a rule for what comes in asks for a named port.
    pub(crate) asks_names: bool,
}

/// Lists of the ordered tiers that were worked out for lists of policies, until a policy changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memo {
    ordered: FxHashMap<u32, [u32; 4]>,
    asks: FxHashMap<u32, bool>,
}

impl Policies {
    /// What pods meet that are selected by the policies of two lists: by labels of their namespace, and by their namespace itself.
    pub(crate) fn tiers(&self, by_labels: u32, own: u32, slots: &Lists, parts: &mut Parts, memo: &mut Memo) -> Tiers {
        let lists = [slots.get(by_labels), slots.get(own)];
        let apart = slots.get(own).iter().any(|it| self.is_ordered(*it));
        let [admin_egress, admin_ingress, baseline_egress, baseline_ingress] = match memo.ordered.get(&by_labels) {
            _ if apart => self.all_ordered(&lists.concat(), parts),
            Some(known) => *known,
            None => {
                let worked_out = self.all_ordered(slots.get(by_labels), parts);
                memo.ordered.insert(by_labels, worked_out);
                worked_out
            }
        };
        let mut network = |direction| self.network(lists, direction).map(|it| parts.lists.intern(&it));
        let network = PerDirection { egress: network(Direction::Egress), ingress: network(Direction::Ingress) };
        let comes_in = [Some(admin_ingress), network.ingress, Some(baseline_ingress)];
        let mut asks = |list: u32| {
            *memo.asks.entry(list).or_insert_with(|| {
                let mut rules = parts.lists.get(list).iter().filter_map(|it| parts.rules.get(*it));
                rules.any(|it| !it.named.is_empty())
            })
        };
        let asks_names = comes_in.into_iter().flatten().any(&mut asks);
        Tiers {
            admin: PerDirection { egress: admin_egress, ingress: admin_ingress },
            network,
            baseline: PerDirection { egress: baseline_egress, ingress: baseline_ingress },
            asks_names,
        }
    }

    fn all_ordered(&self, policies: &[u32], parts: &mut Parts) -> [u32; 4] {
        let both = [Tier::Admin, Tier::Baseline];
        let each = both.map(|tier| Direction::BOTH.map(|direction| self.ordered(policies, tier, direction, &parts.symbols)));
        let [admin, baseline] = each.map(|it| it.map(|rules| parts.lists.intern(&rules)));
        let ([a, b], [c, d]) = (admin, baseline);
        [a, b, c, d]
    }
}
