//! From the sets of a sentence to the ends in them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;

use palisade_model::{End, Model, NetworkId, Place, Protocol, Service, ServiceKind};

use super::ground::Ground;
use super::ports::{Wish, everything};
use super::{Group, Member, PortSpec, Ports};
use crate::party::Party;
use crate::resolve::{Candidate, PortAsked, candidate, destination, first_of_each_family, resolve_port, service_of, source};

/// One end of a sentence, that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// How to ask about it alone.
    pub(super) party: Party,
    /// What to call it.
    pub(super) name: String,
    pub(super) place: Place,
    /// One for each family it has; one without an address where none is known.
    pub(super) ends: Vec<End>,
    /// As a destination: what to ask.
    pub(super) wishes: Vec<Wish>,
}

/// Why a set cannot be tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Nothing(String),
    CannotTell(String),
}

/// Who opens connections.
pub(super) fn sources(ground: &mut Ground<'_>, outside: &[IpAddr], group: &Group) -> Result<Vec<Found>, Stop> {
    let no_wish = |_: &Model, _: &Candidate| Ok(Vec::new());
    match group {
        Group::Of(members) => {
            let mut found = Vec::new();
            for member in members {
                found.extend(member_ends(ground, outside, member)?);
            }
            wishing(ground, found, no_wish).map(merged)
        }
        Group::AllBut(members) => {
            let mut except = Vec::new();
            for member in members {
                except.extend(member_ends(ground, outside, member)?);
            }
            let without = merged(wishing(ground, except, no_wish)?);
            Ok(minus(wishing(ground, all(ground, outside), no_wish)?, &without))
        }
    }
}

/// Who is called, and on which ports.
pub(super) fn destinations(ground: &mut Ground<'_>, outside: &[IpAddr], group: &Group, ports: &Ports) -> Result<Vec<Found>, Stop> {
    match group {
        Group::Of(members) => {
            let mut found = Vec::new();
            for member in members {
                found.extend(called(ground, outside, member, ports)?);
            }
            Ok(merged(found))
        }
        Group::AllBut(members) => {
            let mut except = Vec::new();
            for member in members {
                // Whoever is behind a Service is excepted altogether, not on the port that leads there.
                except.extend(called(ground, outside, member, &Ports::NotSaid)?);
            }
            let everyone = all(ground, outside);
            let found = wishing(ground, everyone, |model, candidate| Ok(known_wishes(model, candidate, ports)))?;
            Ok(minus(found.into_iter().filter(|it| !it.wishes.is_empty()).collect(), &except))
        }
    }
}

fn called(ground: &mut Ground<'_>, outside: &[IpAddr], member: &Member, ports: &Ports) -> Result<Vec<Found>, Stop> {
    if let Member::Party(party) = member {
        if let Some(service) = service_of(&ground.stage, party).map_err(Stop::Nothing)? {
            return behind(ground, &service, ports);
        }
        let found = member_ends(ground, outside, member)?;
        return wishing(ground, found, |model, candidate| wishes(model, candidate, ports));
    }
    let found = member_ends(ground, outside, member)?;
    let found = wishing(ground, found, |model, candidate| Ok(known_wishes(model, candidate, ports)))?;
    let found: Vec<Found> = found.into_iter().filter(|it| !it.wishes.is_empty()).collect();
    if found.is_empty() {
        return Err(Stop::Nothing(format!("no pod of `{}` has a port of that name", spelt(member))));
    }
    Ok(found)
}

/// The pods behind a Service, each with its own port.
fn behind(ground: &mut Ground<'_>, service: &Service, ports: &Ports) -> Result<Vec<Found>, Stop> {
    let name = format!("svc/{}/{}", service.namespace, service.name);
    let party = Party::Service { namespace: service.namespace.to_string(), name: service.name.to_string() };
    let mut found = Vec::new();
    for (protocol, port) in service_ports(service, ports) {
        let behind = destination(&mut ground.stage, NetworkId::DEFAULT, &party, protocol, &port).map_err(|why| match service.kind {
            ServiceKind::Selector { .. } => Stop::Nothing(why),
            ServiceKind::NoSelector | ServiceKind::ExternalName(_) => Stop::CannotTell(why),
        })?;
        for destination in behind {
            let candidate = destination.candidate;
            let mut end = found_at(party_of(&ground.stage, &candidate), &candidate);
            end.name = format!("{} (behind {name})", candidate.name);
            end.wishes = vec![Wish::One((protocol, destination.port))];
            found.push(end);
        }
    }
    if found.is_empty() { Err(Stop::Nothing(format!("`{name}` has no endpoints there: nobody is behind it"))) } else { Ok(merged(found)) }
}

fn service_ports(service: &Service, ports: &Ports) -> Vec<(Protocol, PortAsked)> {
    let all = service.ports.iter().map(|it| (Protocol::Port(it.protocol), PortAsked::Number(it.port)));
    match ports {
        Ports::NotSaid => all.collect(),
        Ports::Of(specs) => {
            let of = |spec: &PortSpec| match spec {
                PortSpec::Every(protocol) => all.clone().filter(|(it, _)| *it == Protocol::Port(*protocol)).collect(),
                PortSpec::One { protocol, port } => vec![(*protocol, port.clone())],
            };
            specs.iter().flat_map(of).collect()
        }
    }
}

/// The ends of one member. The stage gains a pod for labels.
fn member_ends(ground: &mut Ground<'_>, outside: &[IpAddr], member: &Member) -> Result<Vec<(Party, Candidate)>, Stop> {
    let pods = |model: &Model, read: usize, wanted: &dyn Fn(&palisade_model::Endpoint) -> bool| {
        let matching = model.endpoints.iter_ids().take(read).filter(|(_, it)| wanted(it));
        let found = matching.filter_map(|(id, _)| candidate(model, id));
        found.map(|it| (party_of(model, &it), it)).collect::<Vec<_>>()
    };
    let found = match member {
        Member::External => outside.iter().copied().map(at_outside).collect(),
        Member::Network(network) => outside.iter().filter(|it| network.contains(*it)).copied().map(at_outside).collect(),
        Member::Pods { namespace, name } => pods(&ground.stage, ground.read, &|it| {
            let names = [Some(&it.name.name), it.workload().map(|owner| &owner.name)];
            glob(namespace, &it.name.namespace) && names.into_iter().flatten().any(|it| glob(name, it))
        }),
        Member::Party(party @ Party::Labels { namespace, labels }) => {
            let carries = |it: &palisade_model::Endpoint| labels.iter().all(|(key, value)| it.labels.get(key) == Some(value));
            // No labels at all are those of one pod, not of every one.
            let real = pods(&ground.stage, ground.read, &|it| {
                *it.name.namespace == **namespace && if labels.is_empty() { it.labels.is_empty() } else { carries(it) }
            });
            let assumed = source(&mut ground.stage, NetworkId::DEFAULT, party).map_err(Stop::Nothing)?;
            assumed.into_iter().map(|it| (party.clone(), it)).chain(real).collect()
        }
        Member::Party(party @ Party::Address(_)) => {
            source(&mut ground.stage, NetworkId::DEFAULT, party).map_err(Stop::Nothing)?.into_iter().map(|it| (party.clone(), it)).collect()
        }
        Member::Party(party @ (Party::Pod { .. } | Party::Workload { .. } | Party::Node(_) | Party::Service { .. })) => {
            let found = source(&mut ground.stage, NetworkId::DEFAULT, party).map_err(Stop::Nothing)?;
            found.into_iter().map(|it| (party_of(&ground.stage, &it), it)).collect()
        }
    };
    if found.is_empty() {
        return Err(Stop::Nothing(format!("`{}` matches nothing{}", spelt(member), why_nothing(&ground.stage, member))));
    }
    Ok(found)
}

fn why_nothing(model: &Model, member: &Member) -> &'static str {
    match member {
        Member::Pods { namespace, .. } if !model.endpoints.iter().any(|it| glob(namespace, &it.name.namespace)) => {
            ": no pod was read in such a namespace"
        }
        Member::Pods { .. } => ": no pod or workload of such a name was read",
        Member::Network(_) => ": all its addresses are those of pods, nodes and Services",
        Member::External | Member::Party(_) => "",
    }
}

/// All pods, and the world outside.
fn all(ground: &Ground<'_>, outside: &[IpAddr]) -> Vec<(Party, Candidate)> {
    let pods = ground
        .stage
        .endpoints
        .ids()
        .take(ground.read)
        .filter_map(|id| candidate(&ground.stage, id))
        .map(|it| (party_of(&ground.stage, &it), it));
    pods.chain(outside.iter().copied().map(at_outside)).collect()
}

fn at_outside(address: IpAddr) -> (Party, Candidate) {
    (Party::Address(address), Candidate { place: Place::Outside, addresses: vec![address], name: address.to_string() })
}

/// How to ask about one candidate alone.
fn party_of(model: &Model, candidate: &Candidate) -> Party {
    let pod = |id| model.endpoint(id).map(|it| &it.name);
    let address = candidate.addresses.first().copied();
    match candidate.place {
        Place::Pod(id) => pod(id).map(|it| Party::Pod { namespace: it.namespace.to_string(), name: it.name.to_string() }),
        Place::Node(id) => model.node(id).map(|it| Party::Node(it.name.to_string())),
        Place::Outside => None,
    }
    .or(address.map(Party::Address))
    .unwrap_or(Party::Node(candidate.name.clone()))
}

fn wishing(
    ground: &Ground<'_>,
    candidates: Vec<(Party, Candidate)>,
    wishes: impl Fn(&Model, &Candidate) -> Result<Vec<Wish>, String>,
) -> Result<Vec<Found>, Stop> {
    let with = |(party, candidate): (Party, Candidate)| {
        let wishes = wishes(&ground.stage, &candidate).map_err(Stop::Nothing)?;
        Ok(Found { wishes, ..found_at(party, &candidate) })
    };
    candidates.into_iter().map(with).collect()
}

fn found_at(party: Party, candidate: &Candidate) -> Found {
    let place = candidate.place;
    let addresses = first_of_each_family(&candidate.addresses);
    let none = addresses.is_empty().then_some(None);
    let ends = none.into_iter().chain(addresses.into_iter().map(Some)).map(|address| End { place, address }).collect();
    Found { party, name: candidate.name.clone(), place, ends, wishes: Vec::new() }
}

fn wishes(model: &Model, candidate: &Candidate, ports: &Ports) -> Result<Vec<Wish>, String> {
    let Ports::Of(specs) = ports else { return Ok(everything()) };
    specs.iter().map(|spec| wish(model, candidate, spec)).collect()
}

/// Those that can be asked: who has no port of a name is not called by it.
fn known_wishes(model: &Model, candidate: &Candidate, ports: &Ports) -> Vec<Wish> {
    let Ports::Of(specs) = ports else { return everything() };
    specs.iter().flat_map(|spec| wish(model, candidate, spec)).collect()
}

fn wish(model: &Model, candidate: &Candidate, spec: &PortSpec) -> Result<Wish, String> {
    match spec {
        PortSpec::Every(protocol) => Ok(Wish::Every(*protocol)),
        PortSpec::One { protocol, port } => resolve_port(model, candidate, *protocol, port).map(|port| Wish::One((*protocol, port))),
    }
}

type Key = (Place, Option<IpAddr>);

/// A pod or a node is one end, whatever its address; outside each address is one.
fn key(found: &Found) -> Key {
    let address = found.ends.first().and_then(|end| end.address);
    (found.place, if found.place == Place::Outside { address } else { None })
}

/// Each end once, with everything that is asked of it, in the order in which they were found.
fn merged(found: Vec<Found>) -> Vec<Found> {
    let mut at: BTreeMap<Key, usize> = BTreeMap::new();
    let mut once: Vec<Found> = Vec::new();
    for end in found {
        match at.entry(key(&end)) {
            Entry::Vacant(new) => {
                new.insert(once.len());
                once.push(end);
            }
            Entry::Occupied(known) => {
                let Some(first) = once.get_mut(*known.get()) else { continue };
                let new: Vec<End> = end.ends.into_iter().filter(|it| !first.ends.contains(it)).collect();
                first.ends.extend(new);
                let new: Vec<Wish> = end.wishes.into_iter().filter(|it| !first.wishes.contains(it)).collect();
                first.wishes.extend(new);
            }
        }
    }
    once
}

fn minus(found: Vec<Found>, without: &[Found]) -> Vec<Found> {
    let without: std::collections::BTreeSet<Key> = without.iter().map(key).collect();
    found.into_iter().filter(|it| !without.contains(&key(it))).collect()
}

fn spelt(member: &Member) -> String {
    match member {
        Member::Pods { namespace, name } => format!("{namespace}/{name}"),
        Member::Network(network) => network.to_string(),
        Member::External => "external".to_owned(),
        Member::Party(_) => "this name".to_owned(),
    }
}

/// Whether `pattern`, in which `*` stands for any text, is all of `text`.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(text) = text.strip_prefix(first).and_then(|it| it.strip_suffix(last)) else { return false };
    // The first place where a part fits leaves the most text for the parts behind it, so no other place is tried.
    middle.split('*').try_fold(text, |text, part| text.split_once(part).map(|it| it.1)).is_some()
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, fits) in [
            ("web", "web", true),
            ("web", "webs", false),
            ("*", "", true),
            ("web-*", "web-", true),
            ("*-1", "web-1", true),
            ("a*a", "a", false),
            ("a*b*c", "axbxbxc", true),
            ("a*b*c", "axcxb", false),
            ("*ab*ab*", "xabyab", true),
            ("*ab*ab*", "xaby", false),
        ] {
            assert_eq!(glob(pattern, text), fits, "{pattern} {text}");
        }
        // As long as a name can be. The time must not grow with the number of ways to place the stars.
        assert!(!glob(&format!("{}b", "*a".repeat(60)), &"a".repeat(253)));
    }
}
