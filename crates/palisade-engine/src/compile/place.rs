//! From the model to numbers: policies first, then every end in its place.

use std::net::IpAddr;

use palisade_model::{Direction, Endpoint, Labels, Model, NamespaceSet, PerDirection, Policy, Subject, Tier};
use rustc_hash::FxHashMap;

use crate::compile::intern::{Interned, Lists, number};
use crate::compile::join::Join;
use crate::compile::ports::base;
use crate::compile::regions::Regions;
use crate::compile::rules::Parts;
use crate::compile::{Compiled, Foreign, Kind, Placed, Program};

/// Policies as numbers, and whom each speaks about.
struct Policies {
    /// Of the ordered tiers, in their order.
    cluster: Vec<ClusterPolicy>,
    subjects: Join,
    /// Which cluster policies have a subject.
    by_subject: FxHashMap<u32, Vec<usize>>,
    /// Of the NetworkPolicy tier, by namespace.
    network: FxHashMap<Box<str>, Vec<NetworkPolicy>>,
}

struct ClusterPolicy {
    tier: Tier,
    rules: PerDirection<Vec<u32>>,
}

struct NetworkPolicy {
    pods: u32,
    isolates: PerDirection<bool>,
    rules: PerDirection<Vec<u32>>,
}

/// What policy makes of pods of one namespace with one set of labels.
#[derive(Clone, Copy)]
struct Cell {
    view: u32,
    admin: PerDirection<u32>,
    network: PerDirection<Option<u32>>,
    baseline: PerDirection<u32>,
}

/// What cluster policies make of a namespace's and a pod's labels: what others see, and the rules of both ordered tiers.
#[derive(Clone, Copy)]
struct Pair {
    view: u32,
    admin: PerDirection<u32>,
    baseline: PerDirection<u32>,
}

pub(crate) fn place(model: &Model) -> Compiled {
    let mut parts = Parts::default();
    let policies = policies(model, &mut parts);
    let regions = Regions::cut(parts.blocks.values());
    let mut placing = Placing {
        parts,
        regions,
        policies,
        views: Lists::default(),
        port_views: Lists::default(),
        foreign: Interned::default(),
        programs: PerDirection::default(),
        pairs: FxHashMap::default(),
    };
    // The first list of each is the empty one.
    placing.views.intern(&[]);
    placing.port_views.intern(&[]);
    let pods = placing.pods(model);
    let nodes = model.nodes.iter().map(|node| placing.node(&node.labels, &node.addresses)).collect();
    let ranges: Vec<(IpAddr, IpAddr, u32)> = placing.regions.all().collect();
    let outside = ranges.into_iter().map(|(first, last, blocks)| (first, last, placing.see(Kind::Outside, 0, blocks, 0))).collect();
    let no_blocks = placing.regions.lists.intern(&[]);
    let Placing { parts, regions, views, port_views, foreign, programs, .. } = placing;
    Compiled { parts, regions, views, port_views, foreign, programs, pods, nodes, outside, no_blocks }
}

fn policies(model: &Model, parts: &mut Parts) -> Policies {
    let mut policies =
        Policies { cluster: Vec::new(), subjects: Join::default(), by_subject: FxHashMap::default(), network: FxHashMap::default() };
    let (network, mut cluster): (Vec<&Policy>, Vec<&Policy>) = model.policies.iter().partition(|it| it.tier == Tier::NetworkPolicy);
    // SPEC: semantics 2.2: by rank, then name. NetworkPolicies have no order.
    cluster.sort_by(|a, b| (a.tier, a.rank, &a.origin.name, &a.origin).cmp(&(b.tier, b.rank, &b.origin.name, &b.origin)));
    for policy in network.into_iter().chain(cluster) {
        let Subject::Pods { namespaces, pods } = &policy.subject else { continue };
        let mut numbers = |direction| policy.rules.of(direction).iter().map(|it| parts.rule(it)).collect::<Vec<u32>>();
        let rules = PerDirection { egress: numbers(Direction::Egress), ingress: numbers(Direction::Ingress) };
        let pods = parts.pods.add(pods);
        match (policy.tier, namespaces) {
            (Tier::NetworkPolicy, NamespaceSet::Own(own)) => {
                let policy = NetworkPolicy { pods, isolates: policy.isolates, rules };
                match policies.network.get_mut(own) {
                    Some(of_namespace) => of_namespace.push(policy),
                    None => drop(policies.network.insert(own.clone(), vec![policy])),
                }
            }
            (Tier::Admin | Tier::Baseline, NamespaceSet::Matching(selector)) => {
                let namespace = parts.namespaces.add(selector);
                let subject = policies.subjects.add(namespace, pods, &parts.namespaces, &parts.pods);
                policies.by_subject.entry(subject).or_default().push(policies.cluster.len());
                policies.cluster.push(ClusterPolicy { tier: policy.tier, rules });
            }
            // No API has the other two.
            (Tier::NetworkPolicy, NamespaceSet::Matching(_)) | (Tier::Admin | Tier::Baseline, NamespaceSet::Own(_)) => {}
        }
    }
    policies
}

struct Placing {
    parts: Parts,
    regions: Regions,
    policies: Policies,
    views: Lists,
    port_views: Lists,
    foreign: Interned<Foreign>,
    programs: PerDirection<Interned<Program>>,
    /// What cluster policies make of a namespace's and a pod's labels.
    pairs: FxHashMap<(u32, u32), Pair>,
}

impl Placing {
    fn pods(&mut self, model: &Model) -> Vec<Placed> {
        let mut namespaces: FxHashMap<&str, (u32, u32)> = FxHashMap::default();
        let mut deviating_namespace: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        let mut deviating_pod: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        let mut cells: FxHashMap<(u32, u32), Cell> = FxHashMap::default();
        let mut placed = Vec::with_capacity(model.endpoints.len());
        for endpoint in &model.endpoints {
            let name: &str = &endpoint.name.namespace;
            let known = namespaces.len();
            let (namespace, namespace_labels) =
                *namespaces.entry(name).or_insert_with(|| (number(known), self.parts.namespaces.reduce(model.namespace_labels(name))));
            let labels = self.parts.pods.reduce(&endpoint.labels);
            let cell = match cells.get(&(namespace, labels)) {
                Some(cell) => *cell,
                None => {
                    let of_namespace =
                        deviating_namespace.entry(namespace_labels).or_insert_with(|| self.parts.namespaces.deviating(namespace_labels));
                    let of_pod = deviating_pod.entry(labels).or_insert_with(|| self.parts.pods.deviating(labels));
                    let cell = self.cell(name, (namespace_labels, labels), of_namespace, of_pod);
                    cells.insert((namespace, labels), cell);
                    cell
                }
            };
            placed.push(self.pod(endpoint, namespace, labels, cell));
        }
        placed
    }

    /// What policy makes of a namespace and labels in it.
    fn cell(&mut self, namespace: &str, labels: (u32, u32), of_namespace: &[u32], of_pod: &[u32]) -> Cell {
        let Pair { view, admin, baseline } = match self.pairs.get(&labels) {
            Some(known) => *known,
            None => {
                let pair = self.pair(of_namespace, of_pod);
                self.pairs.insert(labels, pair);
                pair
            }
        };
        let (parts, network) = (&mut self.parts, self.policies.network.get(namespace));
        let mut isolated = |direction: Direction| {
            let mut rules: Vec<u32> = Vec::new();
            let mut is = false;
            for policy in network.into_iter().flatten() {
                if *policy.isolates.of(direction) && parts.pods.holds(policy.pods, labels.1) {
                    is = true;
                    rules.extend(policy.rules.of(direction));
                }
            }
            rules.sort_unstable();
            rules.dedup();
            is.then(|| parts.lists.intern(&rules))
        };
        let network = PerDirection { egress: isolated(Direction::Egress), ingress: isolated(Direction::Ingress) };
        Cell { view, admin, network, baseline }
    }

    /// What cluster policies make of a namespace's and a pod's labels.
    fn pair(&mut self, of_namespace: &[u32], of_pod: &[u32]) -> Pair {
        let Placing { parts, policies, views, .. } = self;
        let view = views.intern(&parts.peers.deviating(of_namespace, of_pod, &parts.namespaces, &parts.pods));
        let deviating = policies.subjects.deviating(of_namespace, of_pod, &parts.namespaces, &parts.pods);
        let subjects = &policies.subjects;
        let by_default = subjects.so_by_default().filter(|it| deviating.binary_search(it).is_err());
        let besides = deviating.iter().copied().filter(|it| !subjects.default_of(*it));
        let mut selecting: Vec<usize> =
            by_default.chain(besides).filter_map(|it| policies.by_subject.get(&it)).flatten().copied().collect();
        selecting.sort_unstable();
        let mut listed = |tier: Tier, direction: Direction| {
            let of_tier = selecting.iter().filter_map(|at| policies.cluster.get(*at)).filter(|it| it.tier == tier);
            let rules: Vec<u32> = of_tier.flat_map(|it| it.rules.of(direction).iter().copied()).collect();
            parts.lists.intern(&rules)
        };
        let mut both = |tier| PerDirection { egress: listed(tier, Direction::Egress), ingress: listed(tier, Direction::Ingress) };
        Pair { view, admin: both(Tier::Admin), baseline: both(Tier::Baseline) }
    }

    fn pod(&mut self, endpoint: &Endpoint, namespace: u32, labels: u32, cell: Cell) -> Placed {
        let ports = self.port_view(endpoint);
        let addresses: Vec<Option<IpAddr>> = match endpoint.addresses.is_empty() {
            true => vec![None],
            false => endpoint.addresses.iter().copied().map(Some).collect(),
        };
        let none = self.regions.lists.intern(&[]);
        let seen = addresses
            .into_iter()
            .map(|address| {
                let blocks = address.map_or(none, |it| self.regions.holding(it));
                (address, self.see(Kind::Pod, cell.view, blocks, ports))
            })
            .collect();
        let mut program = |direction: Direction| {
            let (admin, network, baseline) = (*cell.admin.of(direction), *cell.network.of(direction), *cell.baseline.of(direction));
            // Its own port names matter to what comes in, and only if a rule asks for one.
            let asks = direction == Direction::Ingress && ports != 0 && self.asks_names(&[Some(admin), network, Some(baseline)]);
            let ports = if asks { ports } else { 0 };
            self.programs.of_mut(direction).intern(Program { admin, network, baseline, ports })
        };
        let programs = PerDirection { egress: program(Direction::Egress), ingress: program(Direction::Ingress) };
        Placed { namespace, labels, node: endpoint.node, seen, programs }
    }

    fn asks_names(&self, lists: &[Option<u32>]) -> bool {
        let rules = lists.iter().flatten().flat_map(|it| self.parts.lists.get(*it));
        rules.filter_map(|it| self.parts.rules.get(*it)).any(|it| !it.named.is_empty())
    }

    /// The ports of a pod whose names some rule asks for.
    fn port_view(&mut self, endpoint: &Endpoint) -> u32 {
        let asked = endpoint.ports.iter().filter_map(|it| {
            let name = self.parts.port_names.id_of(it.name.as_deref()?)?;
            Some([name, base(it.protocol) + u32::from(it.port)])
        });
        let mut ports: Vec<[u32; 2]> = asked.collect();
        ports.sort_unstable();
        ports.dedup();
        self.port_views.intern(&ports.concat())
    }

    fn node(&mut self, labels: &Labels, addresses: &[IpAddr]) -> Vec<(IpAddr, u32)> {
        let set = self.parts.nodes.reduce(labels);
        let holding: Vec<u32> = (0..self.parts.nodes.count()).filter(|it| self.parts.nodes.holds(*it, set)).collect();
        let view = self.views.intern(&holding);
        addresses.iter().map(|it| (*it, self.see(Kind::Node, view, self.regions.holding(*it), 0))).collect()
    }

    fn see(&mut self, kind: Kind, view: u32, blocks: u32, ports: u32) -> u32 {
        self.foreign.intern(Foreign { kind, view, blocks, ports })
    }
}
