//! What the policies of pods of other nodes say about connections with pods of this one.

use std::collections::HashMap;
use std::net::IpAddr;

use palisade_engine::{Selecting, decide_direction_among, selects};
use palisade_model::{
    ContainerPort, Direction, End, Endpoint, EndpointId, Flow, Labels, NamespaceSet, NetworkId, Path, Place, Policy, Reason, Subject,
    Verdict,
};

use crate::cluster::Cluster;
use crate::denial::{DeniedBy, protocol};
use crate::sweep::judge::Opening;

/// Pods of one number are alike to every policy, but for their addresses.
type Kind = usize;

/// Everything about a pod that its own policies can depend on.
type Traits<'a> = (&'a str, &'a Labels, &'a [ContainerPort]);

/// One verdict: of pods of a kind, about an address of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Case {
    kind: Kind,
    here: IpAddr,
    direction: Direction,
    protocol: u8,
    port: Option<u16>,
}

/// Judges for pods of other nodes. What was found out is kept.
#[derive(Debug)]
pub(crate) struct Elsewhere<'a> {
    cluster: &'a Cluster,
    /// Policies that select pods of one namespace, by its name.
    of_namespace: HashMap<&'a str, Vec<&'a Policy>>,
    /// Policies that select pods of many.
    of_many: Vec<&'a Policy>,
    of: HashMap<EndpointId, Kind>,
    kinds: HashMap<Traits<'a>, Kind>,
    selecting: HashMap<(Kind, Direction), Vec<Selecting<'a>>>,
    verdicts: HashMap<Case, Option<DeniedBy>>,
}

impl<'a> Elsewhere<'a> {
    pub(crate) fn of(cluster: &'a Cluster) -> Elsewhere<'a> {
        let (mut of_namespace, mut of_many) = (HashMap::<&str, Vec<&Policy>>::new(), Vec::new());
        for policy in &cluster.model().policies {
            match &policy.subject {
                Subject::Pods { namespaces: NamespaceSet::Own(own), .. } => of_namespace.entry(own).or_default().push(policy),
                Subject::Pods { namespaces: NamespaceSet::Matching(_), .. } | Subject::Unknown => of_many.push(policy),
            }
        }
        let (of, kinds, selecting, verdicts) = (HashMap::new(), HashMap::new(), HashMap::new(), HashMap::new());
        Elsewhere { cluster, of_namespace, of_many, of, kinds, selecting, verdicts }
    }

    /// What denies a connection at the end that is judged in a direction, if that is a pod and something does.
    pub(crate) fn denied(&mut self, opening: &Opening, direction: Direction) -> Option<DeniedBy> {
        let (there, here) = match direction {
            Direction::Ingress => (opening.destination, opening.source),
            Direction::Egress => (opening.source, opening.destination),
        };
        let Place::Pod(id) = self.cluster.place(there) else { return None };
        let pod = self.cluster.model().endpoint(id)?;
        let kind = self.kind(id, pod);
        if self.selecting(kind, direction, pod).is_empty() {
            return None;
        }
        let case = Case { kind, here, direction, protocol: opening.protocol, port: opening.port };
        if let Some(verdict) = self.verdicts.get(&case) {
            return verdict.clone();
        }
        let denied = self.judge(opening, direction, kind);
        self.verdicts.insert(case, denied.clone());
        denied
    }

    fn kind(&mut self, id: EndpointId, pod: &'a Endpoint) -> Kind {
        if let Some(kind) = self.of.get(&id) {
            return *kind;
        }
        let next = self.kinds.len();
        let kind = *self.kinds.entry((&pod.name.namespace, &pod.labels, &pod.ports)).or_insert(next);
        self.of.insert(id, kind);
        kind
    }

    /// The policies that have something to say about pods of a kind.
    fn selecting(&mut self, kind: Kind, direction: Direction, pod: &Endpoint) -> &[Selecting<'a>] {
        let (model, of_namespace, of_many) = (self.cluster.model(), &self.of_namespace, &self.of_many);
        self.selecting.entry((kind, direction)).or_insert_with(|| {
            let own = of_namespace.get(&*pod.name.namespace).map_or(&[][..], Vec::as_slice);
            let speaks = |it: &&Policy| *it.isolates.of(direction) || !it.rules.of(direction).is_empty();
            let policies = own.iter().chain(of_many).copied().filter(speaks).filter(|it| selects(model, it, pod));
            policies.map(|policy| Selecting { policy, rules: policy.rules.of(direction).iter().collect() }).collect()
        })
    }

    fn judge(&self, opening: &Opening, direction: Direction, kind: Kind) -> Option<DeniedBy> {
        let model = self.cluster.model();
        let among = self.selecting.get(&(kind, direction)).map_or(&[][..], Vec::as_slice);
        let [from, to] = opening.ends().map(|it| End { place: self.cluster.place(it), address: Some(it) });
        let flow =
            Flow { network: NetworkId::DEFAULT, from, to, protocol: protocol(opening.protocol), port: opening.port, path: Path::Direct };
        let walk = decide_direction_among(model, among, &flow, direction);
        match (walk.verdict, walk.reason) {
            (Verdict::Accept, _) => None,
            (Verdict::DependsOnDns, Reason::Rule(rule)) => Some(DeniedBy::UnresolvedName { direction, rule }),
            (Verdict::Deny | Verdict::DependsOnDns, reason) => Some(DeniedBy::Policy { direction, reason }),
        }
    }
}
