//! A third judge, for raw objects. It reads JSON values as the API server would serve them and walks the
//! tiers once per direction, with no model in between.
//!
//! It is slow and knows one connection at a time. It does not check that objects are valid; what it cannot
//! understand it treats as closed. It must never use the crates it is there to contradict.

mod admin_network_policy;
mod cluster_network_policy;
mod kep_2091;
mod network_policy;
mod read;
mod relative;
mod service;
mod shapes;
mod tiers;
mod world;

use std::fmt;

use crate::objects::Objects;
use crate::scenario::{Expect, Party, RawProtocol};
use tiers::Tier;
use world::{Endpoint, Located, Pod, Side, World};

/// The verdict of one new connection. Errors say that the question makes no sense for these objects: a
/// party that is missing or completed, endpoints of a Service that disagree, or an object that no API
/// server would hold.
pub fn judge(objects: &Objects, from: &Party, to: &Party, protocol: RawProtocol, port: Option<u16>) -> Result<Expect, String> {
    RawCluster::read(objects)?.judge(from, to, protocol, port)
}

/// The objects, looked through once for many questions.
pub struct RawCluster<'a>(World<'a>);

/// A party that was found. It is no Service.
pub struct RawEnd<'a>(Located<'a>);

impl<'a> RawCluster<'a> {
    /// An error if an object is one that no API server would hold.
    pub fn read(objects: &'a Objects) -> Result<RawCluster<'a>, String> {
        objects.0.iter().try_for_each(read::check_text)?;
        Ok(RawCluster(World::read(objects)))
    }

    /// As [`judge`].
    pub fn judge(&self, from: &Party, to: &Party, protocol: RawProtocol, port: Option<u16>) -> Result<Expect, String> {
        let world = &self.0;
        let source = self.find(from)?;
        let Party::Service { namespace, name } = to else { return self.between(&source, &self.find(to)?, protocol, port) };
        let protocol = by_name(protocol);
        let picks = service::endpoints(world, namespace, name, protocol, port)?;
        let mut verdicts = Vec::new();
        for (pod, port) in picks {
            let destination = world.locate_pod(pod);
            let route = if service::is_headless_named(world, namespace, name) { Route::Direct } else { Route::Service };
            let flow = Flow::new(&source.0, &destination, protocol, Some(port), route);
            verdicts.push((pod, verdict(world, &flow)?));
        }
        agreed(&verdicts)
    }

    /// Finds a party that is not a Service.
    pub fn find(&self, party: &Party) -> Result<RawEnd<'_>, String> {
        self.0.locate(party).map(RawEnd)
    }

    /// The verdict of a connection between two parties that were found.
    pub fn between(&self, from: &RawEnd<'_>, to: &RawEnd<'_>, protocol: RawProtocol, port: Option<u16>) -> Result<Expect, String> {
        verdict(&self.0, &Flow::new(&from.0, &to.0, by_name(protocol), port, Route::Direct))
    }
}

impl fmt::Debug for RawCluster<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} raw objects", self.0.objects.len())
    }
}

impl fmt::Debug for RawEnd<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0.endpoint {
            Endpoint::Pod(pod) => pod.name,
            Endpoint::Node(node) => node.unwrap_or("a node"),
            Endpoint::Outside => "outside",
        })
    }
}

/// One connection, as the endpoints see it: after the Service's rewriting.
struct Flow<'a> {
    source: Side<'a>,
    destination: Side<'a>,
    protocol: RawProtocol,
    port: Option<u16>,
    route: Route,
}

#[derive(Clone, Copy, PartialEq)]
enum Route {
    Direct,
    Service,
}

#[derive(Clone, Copy)]
enum Direction {
    Ingress,
    Egress,
}

/// A flow seen from the pod whose direction is judged.
struct View<'a> {
    flow: &'a Flow<'a>,
    direction: Direction,
    subject: &'a Pod<'a>,
    peer: &'a Side<'a>,
}

/// What a tier says. Leaving it is not accepting.
#[derive(Clone, Copy)]
enum Finding {
    Accept,
    Deny,
    Leave,
}

impl<'a> Flow<'a> {
    fn new(source: &Located<'a>, destination: &Located<'a>, protocol: RawProtocol, port: Option<u16>, route: Route) -> Flow<'a> {
        let destination = destination.as_destination_of(source);
        Flow { source: source.as_source_to(&destination), destination, protocol, port, route }
    }

    fn view(&'a self, direction: Direction) -> Option<View<'a>> {
        let (subject, peer) = match direction {
            Direction::Ingress => (&self.destination, &self.source),
            Direction::Egress => (&self.source, &self.destination),
        };
        match subject.endpoint {
            Endpoint::Pod(subject) => Some(View { flow: self, direction, subject, peer }),
            Endpoint::Node(_) | Endpoint::Outside => None,
        }
    }
}

impl View<'_> {
    /// A workload that calls itself is two of its pods.
    fn is_itself(&self) -> bool {
        matches!(self.peer.endpoint, Endpoint::Pod(peer) if std::ptr::eq(peer, self.subject) && !peer.is_workload())
    }

    fn is_from_own_node(&self) -> bool {
        match (self.direction, self.peer.endpoint) {
            (Direction::Ingress, Endpoint::Node(Some(node))) => self.subject.node() == Some(node),
            (Direction::Ingress, Endpoint::Node(None) | Endpoint::Pod(_) | Endpoint::Outside) | (Direction::Egress, _) => false,
        }
    }

    /// Whether the port is the one that the destination pod calls by this name, for the flow's protocol.
    /// Only pods name their ports, so anything else never matches.
    fn named_port_is(&self, name: &str, port: u16) -> bool {
        match self.flow.destination.endpoint {
            Endpoint::Pod(pod) => pod.ports_named(name).contains(&(port, self.flow.protocol)),
            Endpoint::Node(_) | Endpoint::Outside => false,
        }
    }
}

/// Both directions must accept; a direction whose subject is not a pod has nothing to say.
fn verdict(world: &World<'_>, flow: &Flow<'_>) -> Result<Expect, String> {
    let mut verdict = Expect::Accept;
    for direction in [Direction::Egress, Direction::Ingress] {
        let Some(view) = flow.view(direction) else {
            continue;
        };
        verdict = match (verdict, judge_direction(world, &view)?) {
            (Expect::Deny, _) | (_, Expect::Deny) => Expect::Deny,
            (Expect::DependsOnDns, _) | (_, Expect::DependsOnDns) => Expect::DependsOnDns,
            (Expect::Accept | Expect::None, Expect::Accept | Expect::None) => Expect::Accept,
        };
    }
    Ok(verdict)
}

/// The tiers in their order. An Accept by domain name counts only where everything else denies.
fn judge_direction(world: &World<'_>, view: &View<'_>) -> Result<Expect, String> {
    if view.is_itself() && view.flow.route == Route::Direct {
        return Ok(Expect::Accept);
    }
    let admin = tiers::judge(world, Tier::Admin, view)?;
    let mut may_accept = admin.may_accept;
    let mut finding = admin.finding;
    if let Finding::Leave = finding {
        finding = network_policy::judge(world, view);
    }
    if let Finding::Leave = finding {
        let baseline = tiers::judge(world, Tier::Baseline, view)?;
        may_accept |= baseline.may_accept;
        finding = baseline.finding;
    }
    Ok(match (finding, may_accept) {
        (Finding::Accept | Finding::Leave, _) => Expect::Accept,
        (Finding::Deny, true) => Expect::DependsOnDns,
        (Finding::Deny, false) => Expect::Deny,
    })
}

/// The one verdict of all endpoints.
fn agreed(verdicts: &[(&Pod<'_>, Expect)]) -> Result<Expect, String> {
    let Some((_, first)) = verdicts.first() else {
        return Ok(Expect::None);
    };
    if verdicts.iter().all(|(_, verdict)| verdict == first) {
        return Ok(*first);
    }
    let each: Vec<String> = verdicts.iter().map(|(pod, verdict)| format!("{}/{} {verdict:?}", pod.namespace, pod.name)).collect();
    Err(format!("the endpoints disagree: {}", each.join(", ")))
}

/// Protocols that rules know by name, also when they are asked for by number.
fn by_name(protocol: RawProtocol) -> RawProtocol {
    match protocol {
        RawProtocol::Other(6) => RawProtocol::Tcp,
        RawProtocol::Other(17) => RawProtocol::Udp,
        RawProtocol::Other(132) => RawProtocol::Sctp,
        RawProtocol::Tcp | RawProtocol::Udp | RawProtocol::Sctp | RawProtocol::Icmp | RawProtocol::Other(_) => protocol,
    }
}
