//! What differences do: packets are walked through both tables until each difference has one that fares otherwise and meets it.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use crate::netlink::examine::Examined;
use crate::object::Object;
use crate::render;
use crate::ruleset::{CtState, Ruleset, Tuple};
use crate::trace::{At, Packet};
use crate::verify::packets::{Key, Met, Table, Universe, of_tuple, packet, traffic};
use crate::verify::{CounterExample, Difference, Effect};

/// How many packets are walked at most.
const WALKS: usize = 4_000_000;
/// How many elements of one map are tried for themselves; those after them share what the tables tell apart.
const ELEMENTS: usize = 64;
/// How many pairs of ends are also tried as what is not the beginning of a connection.
const VARIED: usize = 64;

pub(super) fn find_effects(found: &Examined, wanted: &Ruleset, differences: &mut [Difference]) {
    if differences.is_empty() {
        return;
    }
    let (found, wanted) = (Table::of(found), Table::wanted(wanted));
    let targets: Vec<Target> = differences.iter().map(Target::of).collect();
    let universe = Universe::of([&found, &wanted], &besides(&targets));
    let mut search = Search { found, wanted, shown: vec![None; targets.len()], targets, walks: 0, scanned: BTreeSet::new(), unknown: None };
    search.all(&universe);
    let Search { shown, walks, unknown, .. } = search;
    for (difference, shown) in differences.iter_mut().zip(shown) {
        difference.effect = match shown {
            Some(example) => Effect::Shown(Box::new(example)),
            None => match (&unknown, walks >= WALKS) {
                (Some(why), _) => Effect::NotShown(why.clone()),
                (None, true) => Effect::NotShown(format!("none of the first {WALKS} packets that the tables tell apart shows it")),
                (None, false) => if_none(difference),
            },
        };
    }
}

/// What it means that no packet shows a difference.
fn if_none(difference: &Difference) -> Effect {
    let texts = [&difference.wanted, &difference.found];
    let says = |what: &str| texts.into_iter().flatten().any(|it| it.contains(what));
    if says("icmpv6 type") || says("tcp flags") {
        return Effect::NotShown("it is about packets that do not begin a connection".to_owned());
    }
    Effect::NoVerdict
}

/// What a packet must meet to show a difference.
#[derive(Clone, Debug)]
enum Target {
    Anything,
    Chain(String),
    Map(String),
    Element { map: String, key: Element },
}

/// An element of a map, by what is looked up.
#[derive(Clone, Debug)]
enum Element {
    Address(IpAddr),
    Range(IpAddr, IpAddr),
    Number(u32),
    Source(IpAddr),
    Tuple(Tuple),
    Any,
}

impl Target {
    fn of(difference: &Difference) -> Target {
        match (&difference.object, &difference.element) {
            (Object::Batch | Object::Generation | Object::Table, _) => Target::Anything,
            (Object::Chain(name) | Object::Rule { chain: name, .. }, _) => Target::Chain(name.clone()),
            (Object::Map(name) | Object::Elements(name), None) => Target::Map(name.clone()),
            (Object::Map(name) | Object::Elements(name), Some(element)) => {
                Target::Element { map: name.clone(), key: Element::read(element) }
            }
        }
    }

    fn is_met(&self, packet: &Packet, met: &Met) -> bool {
        match self {
            Target::Anything => true,
            Target::Chain(name) => met.chains.contains(name),
            Target::Map(name) => met.lookups.iter().any(|(map, _)| map == name),
            Target::Element { map: name, key } => met.lookups.iter().any(|(map, looked)| map == name && key.is(packet, *looked)),
        }
    }
}

impl Element {
    /// From the words that name it.
    fn read(text: &str) -> Element {
        if let Ok(address) = text.parse() {
            return Element::Address(address);
        }
        if let Some((first, last)) = text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?))) {
            return Element::Range(first, last);
        }
        if let Some(tuple) = read_tuple(text) {
            return Element::Tuple(tuple);
        }
        if let Some((first, second)) = text.split_once(" . ") {
            return first.parse().or_else(|_| second.parse()).map_or(Element::Any, Element::Source);
        }
        render::read_number(text).map_or(Element::Any, Element::Number)
    }

    fn is(&self, packet: &Packet, looked: Key) -> bool {
        match (self, looked) {
            (Element::Any, _) => true,
            (Element::Address(it), Key::Address(looked)) => *it == looked,
            (Element::Range(first, last), Key::Address(looked)) => (*first..=*last).contains(&looked),
            (Element::Number(it), Key::Number(looked)) => *it == looked,
            (Element::Source(it), Key::Source) => *it == packet.source,
            (Element::Tuple(it), Key::Tuple(looked)) => *it == looked,
            (Element::Address(_) | Element::Range(..) | Element::Number(_) | Element::Source(_) | Element::Tuple(_), _) => false,
        }
    }
}

/// A packet from the words that name it in a map.
fn read_tuple(text: &str) -> Option<Tuple> {
    let parts: Vec<&str> = text.split(" . ").collect();
    let (from, to, protocol, ports) = match parts.as_slice() {
        [from, to, protocol] => (from, to, protocol, (0, 0)),
        [from, to, protocol, source, destination] => (from, to, protocol, (source.parse().ok()?, destination.parse().ok()?)),
        _ => return None,
    };
    let end = |it: &str, port| Some(SocketAddr::new(it.parse().ok()?, port));
    Some(Tuple::new(end(from, ports.0)?, end(to, ports.1)?, protocol.parse().ok()?))
}

/// Addresses that differences name.
fn besides(targets: &[Target]) -> BTreeSet<IpAddr> {
    let mut tried: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
    let mut addresses = BTreeSet::new();
    for target in targets {
        let Target::Element { map, key } = target else { continue };
        let count = tried.entry(map).or_default();
        *count += 1;
        if *count <= ELEMENTS {
            match key {
                Element::Address(it) | Element::Source(it) => drop(addresses.insert(*it)),
                Element::Range(first, last) => addresses.extend([*first, *last]),
                Element::Number(_) | Element::Tuple(_) | Element::Any => {}
            }
        }
    }
    addresses
}

struct Search<'a> {
    found: Table<'a>,
    wanted: Table<'a>,
    targets: Vec<Target>,
    shown: Vec<Option<CounterExample>>,
    walks: usize,
    /// Ways through both tables whose ports were tried.
    scanned: BTreeSet<String>,
    /// The first rule that nobody can tell the effect of.
    unknown: Option<String>,
}

impl Search<'_> {
    fn all(&mut self, universe: &Universe) {
        for tuple in &universe.tuples {
            for at in [At::Forward, At::Output] {
                if self.is_over() {
                    return;
                }
                self.one(&of_tuple(at, tuple));
            }
        }
        self.between_ends(universe);
        for (link, sources) in &universe.links {
            for source in sources {
                if self.is_over() {
                    return;
                }
                let towards = universe.anybody.iter().find(|it| it.is_ipv4() == source.is_ipv4()).unwrap_or(source);
                self.ports(&packet(At::Ingress { link: link.clone() }, *source, *towards));
                for kind in &universe.frame_types {
                    self.ports(&packet(At::Frame { link: link.clone(), kind: *kind }, *source, *towards));
                }
            }
        }
    }

    fn between_ends(&mut self, universe: &Universe) {
        let mut varied = 0;
        for local in &universe.local {
            let others = universe.anybody.iter().filter(|it| it.is_ipv4() == local.is_ipv4() && *it != local);
            for other in others.chain([local]) {
                if self.is_over() {
                    return;
                }
                let mut ways = vec![(At::Forward, local, other), (At::Forward, other, local), (At::Input, local, other)];
                if universe.sent_by_node {
                    ways.push((At::Output, other, local));
                }
                for (at, source, destination) in ways {
                    let mut first = packet(at, *source, *destination);
                    first.from_link = universe.link_of.get(source).cloned();
                    first.to_link = universe.link_of.get(destination).filter(|_| first.at == At::Forward).cloned();
                    self.ports(&first);
                    if varied < VARIED {
                        varied += 1;
                        self.variations(&first, &universe.priorities);
                        self.by_links_of_others(&first, universe);
                    }
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        let opens = |it: &Option<CounterExample>| it.as_ref().is_some_and(|it| it.found.accepted);
        self.walks >= WALKS || self.shown.iter().all(opens)
    }

    /// The same ends by links that lead to other pods, as if they were new.
    fn by_links_of_others(&mut self, first: &Packet, universe: &Universe) {
        for link in universe.link_of.values().take(2) {
            self.one(&Packet { from_link: Some(link.clone()), ..first.clone() });
            if first.at == At::Forward {
                self.one(&Packet { to_link: Some(link.clone()), ..first.clone() });
            }
        }
    }

    /// The same ends with what does not begin a connection, with a source that is the node's, and with what a sender may write.
    fn variations(&mut self, first: &Packet, priorities: &[u32]) {
        for state in [CtState::Established, CtState::Related, CtState::Invalid] {
            for protocol in [first.protocol, 6] {
                self.one(&Packet { state, protocol, port: (protocol == 6).then_some(1), ..first.clone() });
            }
        }
        self.one(&Packet { source_is_local: true, ..first.clone() });
        for priority in priorities {
            self.one(&Packet { priority: *priority, ..first.clone() });
        }
    }

    /// One way through both tables, with every port that matters on it.
    fn ports(&mut self, first: &Packet) {
        let Some((chains, way)) = self.one(first) else { return };
        // A rule of somebody else's may ask for anything: one way through it says nothing about another.
        let strange = chains.iter().any(|it| self.found.strange.contains_key(it));
        if !self.scanned.insert(way) && !strange {
            return;
        }
        let chains: BTreeSet<&str> = chains.iter().map(String::as_str).collect();
        for (protocol, port) in traffic([&self.found, &self.wanted], &chains, first.source.is_ipv4()) {
            self.one(&Packet { protocol, port, ..first.clone() });
        }
    }

    /// Walks a packet through both tables. Gives the chains that it met, and its way in words.
    fn one(&mut self, packet: &Packet) -> Option<(Vec<String>, String)> {
        self.walks += 1;
        let wanted = self.wanted.fare(packet).ok()?;
        let found = match self.found.fare(packet) {
            Ok(found) => found,
            Err(why) => {
                self.unknown.get_or_insert(why);
                return None;
            }
        };
        if wanted.accepted != found.accepted {
            for (target, shown) in self.targets.iter().zip(&mut self.shown) {
                // What is open that should be closed is worse than the other way round.
                let better = shown.as_ref().is_none_or(|it| !it.found.accepted && found.accepted);
                if better && (target.is_met(packet, &wanted.met) || target.is_met(packet, &found.met)) {
                    *shown = Some(CounterExample { packet: packet.clone(), wanted: wanted.clone().fared(), found: found.clone().fared() });
                }
            }
        }
        let way = format!("{:?} {} | {}", packet.at, wanted.met.chains.join(" "), found.met.chains.join(" "));
        let mut chains = wanted.met.chains;
        chains.extend(found.met.chains);
        Some((chains, way))
    }
}
