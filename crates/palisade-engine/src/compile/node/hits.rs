//! Which rules match which classes, by what each rule picks out.

use palisade_model::{Action, ContainerPort, Direction, End, Family};
use rustc_hash::FxHashMap;

use crate::compile::intern::index;
use crate::compile::node::asked::{Asked, Asking};
use crate::compile::node::classes::{Class, ClassKind, Classes, Lying};
use crate::compile::rules::{Everyone, Names};

/// Whether the peers of a rule match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Hit {
    No,
    /// If a domain name resolves to the other end, or if that is a pod that nobody knows.
    Perhaps,
    Yes,
}

impl Hit {
    pub(super) fn word(self) -> &'static str {
        match self {
            Hit::No => "no",
            Hit::Perhaps => "perhaps",
            Hit::Yes => "yes",
        }
    }
}

/// Classes that fare alike unless a rule picks them out.
pub(super) type Group = (ClassKind, Family);

/// A class that a rule of a program picks out, the place of that rule, and whether it matches.
pub(super) type Picked = (u32, u32, Hit);

/// What is asked, and which classes it picks out: those that deviate from the rest of their group.
#[derive(Debug)]
pub(super) struct Matching<'a, 'm> {
    asked: &'a Asked<'m>,
    classes: &'a Classes,
    peers: FxHashMap<u32, Vec<u32>>,
    /// By namespace and selector.
    own: FxHashMap<(u32, u32), Vec<u32>>,
    /// Classes by number of the rule that names a block with them, or a block without them that holds the whole family.
    blocks: FxHashMap<u32, Vec<u32>>,
    nodes: FxHashMap<u32, Vec<u32>>,
    ports: FxHashMap<&'a str, Vec<u32>>,
    pub(super) groups: FxHashMap<Group, Vec<u32>>,
}

impl<'a, 'm> Matching<'a, 'm> {
    pub(super) fn of(asked: &'a Asked<'m>, classes: &'a Classes) -> Matching<'a, 'm> {
        let (peers, own, blocks, nodes) = (FxHashMap::default(), FxHashMap::default(), FxHashMap::default(), FxHashMap::default());
        let (ports, groups) = (FxHashMap::default(), FxHashMap::default());
        let mut matching = Matching { asked, classes, peers, own, blocks, nodes, ports, groups };
        for (class, id) in classes.classes.values().iter().zip(0..) {
            let list = |of| classes.lists.get(of).iter().copied();
            list(class.peers).for_each(|it| matching.peers.entry(it).or_default().push(id));
            let by_blocks = classes.holding.deviating_rules(class.blocks, class.family);
            by_blocks.into_iter().for_each(|it| matching.blocks.entry(it).or_default().push(id));
            list(class.nodes).for_each(|it| matching.nodes.entry(it).or_default().push(id));
            if let [namespace, holding @ ..] = classes.lists.get(class.own) {
                holding.iter().for_each(|it| matching.own.entry((*namespace, *it)).or_default().push(id));
            }
            for name in list(class.ports).filter_map(|it| classes.ports.get(it)?.name.as_deref()) {
                matching.ports.entry(name).or_default().push(id);
            }
            matching.groups.entry((class.kind, class.family)).or_default().push(id);
        }
        matching
    }

    pub(super) fn class(&self, id: u32) -> Option<&'a Class> {
        self.classes.classes.get(id)
    }

    pub(super) fn port(&self, id: u32) -> Option<&'a ContainerPort> {
        self.classes.ports.get(id)
    }

    /// Whether a rule matches those of a group that nothing it asks about picks out.
    pub(super) fn unless_picked(&self, rule: &Asking<'_>, (kind, family): Group) -> Hit {
        let pods = || kind == ClassKind::Pod && rule.pods.iter().any(|it| self.asked.peers.default_of(*it));
        let blocks = || rule.is_whole(family);
        if rule.everyone == Everyone::No && kind == ClassKind::UnknownPod {
            return hit_unknown(rule, blocks());
        }
        if rule.everyone != Everyone::No || pods() || blocks() { Hit::Yes } else { by_name(rule, kind) }
    }

    /// Whether a rule matches a class.
    pub(super) fn hit(&self, rule: &Asking<'_>, class: &Class, direction: Direction) -> Hit {
        self.hit_if(rule, class, direction, || self.classes.holding.is_named(class.blocks, rule.id))
    }

    /// The same for a caller that knows whether one of the rule's blocks holds the class.
    fn hit_if(&self, rule: &Asking<'_>, class: &Class, direction: Direction, in_blocks: impl Fn() -> bool) -> Hit {
        match rule.everyone {
            Everyone::Yes => return Hit::Yes,
            Everyone::ButOwnNode if direction == Direction::Ingress && class.kind == ClassKind::OwnNode => return Hit::No,
            Everyone::ButOwnNode => return Hit::Yes,
            Everyone::No => {}
        }
        let among = |list: u32, it: &u32| self.classes.lists.get(list).binary_search(it).is_ok();
        let pods = || rule.pods.iter().any(|it| self.asked.peers.default_of(*it) != among(class.peers, it));
        let own = || match self.classes.lists.get(class.own) {
            [namespace, holding @ ..] => rule.own.iter().any(|(of, it)| of == namespace && holding.binary_search(it).is_ok()),
            [] => false,
        };
        let of_kind = match class.kind {
            ClassKind::Pod => pods() || own(),
            ClassKind::Node | ClassKind::OwnNode => rule.nodes.iter().any(|it| among(class.nodes, it)),
            ClassKind::UnknownPod => return hit_unknown(rule, in_blocks()),
            ClassKind::Outside => false,
        };
        if of_kind || in_blocks() { Hit::Yes } else { by_name(rule, class.kind) }
    }

    /// Named ports of a class that a rule asks for.
    pub(super) fn ports<'s>(&'s self, rule: &'s Asking<'_>, class: &Class) -> impl Iterator<Item = u32> + 's {
        let asks = |it: &u32| {
            let name = self.classes.ports.get(*it).and_then(|it| it.name.as_deref());
            name.is_some_and(|it| rule.ports.binary_search(&it).is_ok())
        };
        self.classes.lists.get(class.ports).iter().copied().filter(asks)
    }

    /// The classes that a rule picks out: it does not do with them what it does with the rest of their group.
    pub(super) fn pick_out(&self, rule: &Asking<'_>, at: u32, direction: Direction, picked: &mut Vec<Picked>) {
        if rule.everyone == Everyone::No {
            let plain = rule.pods.iter().filter(|it| !self.asked.peers.default_of(**it)).filter_map(|it| self.peers.get(it));
            let own = rule.own.iter().filter_map(|it| self.own.get(it));
            let nodes = rule.nodes.iter().filter_map(|it| self.nodes.get(it));
            for class in plain.chain(own).chain(nodes).flatten() {
                picked.push((*class, at, Hit::Yes));
            }
            // A class that a default leaves out may be in by something else.
            let inverted = rule.pods.iter().filter(|it| self.asked.peers.default_of(**it)).filter_map(|it| self.peers.get(it));
            let inverted = inverted.flatten().filter_map(|id| self.class(*id).map(|it| (*id, it, self.hit(rule, it, direction))));
            let blocks = self.blocks.get(&rule.id).into_iter().flatten();
            let blocks = blocks.filter_map(|id| {
                let class = self.class(*id)?;
                Some((*id, class, self.hit_if(rule, class, direction, || !rule.is_whole(class.family))))
            });
            let deviates = |it: &(u32, &Class, Hit)| it.2 != self.unless_picked(rule, (it.1.kind, it.1.family));
            picked.extend(inverted.chain(blocks).filter(deviates).map(|(id, _, hit)| (id, at, hit)));
        }
        // Where it matches unless something picks out, ports pick out, too.
        if direction == Direction::Egress {
            for id in rule.ports.iter().filter_map(|it| self.ports.get(it)).flatten() {
                let Some(class) = self.class(*id) else { continue };
                if self.unless_picked(rule, (class.kind, class.family)) != Hit::No {
                    picked.push((*id, at, self.hit(rule, class, direction)));
                }
            }
        }
    }

    pub(super) fn lying(&self, class: u32) -> Option<&'a Lying> {
        self.classes.lying.get(&class)
    }

    pub(super) fn members(&self, class: u32) -> &'a [End] {
        self.classes.members.get(index(class)).map_or(&[], Vec::as_slice)
    }
}

/// Whether a rule that is not for everybody matches an unknown pod: certainly, or if that is a pod that it selects. None accepts one by its address.
fn hit_unknown(rule: &Asking<'_>, in_blocks: bool) -> Hit {
    let accepts = rule.rule.action == Action::Accept;
    match rule.all_pods || (in_blocks && !accepts) {
        true => Hit::Yes,
        false if accepts || (rule.pods.is_empty() && rule.own.is_empty()) => Hit::No,
        false => Hit::Perhaps,
    }
}

/// SPEC: semantics 7.4: names of pods are the cluster's own.
fn by_name(rule: &Asking<'_>, kind: ClassKind) -> Hit {
    match (rule.names, kind) {
        (Names::None, _) | (Names::Outside, ClassKind::Pod) | (_, ClassKind::UnknownPod) => Hit::No,
        (Names::Anywhere, _) | (Names::Outside, ClassKind::Node | ClassKind::OwnNode | ClassKind::Outside) => Hit::Perhaps,
    }
}
