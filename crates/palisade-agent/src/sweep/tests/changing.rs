//! A small cluster that goes on changing, by one pod, link, node or namespace at a time.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use palisade_model::{Endpoint, EndpointId, Model, NetworkId, NodeId, PodName, Readiness, Running};

use super::{model, name};

const PODS: usize = 24;

#[derive(Clone)]
pub(in crate::sweep) struct Changing {
    pub(in crate::sweep) model: Model,
    links: BTreeMap<PodName, String>,
    state: u64,
}

impl Default for Changing {
    fn default() -> Changing {
        let model = model("node n1 192.0.2.1\nnode n2 192.0.2.2\npod p00 n1 10.0.0.1 app=a\nnamespace team=t");
        Changing { model, links: BTreeMap::new(), state: 7 }
    }
}

impl Changing {
    /// All that somebody may have.
    pub(in crate::sweep) fn addresses() -> impl Iterator<Item = IpAddr> {
        (1..=60).map(|it| IpAddr::from([10, 0, 0, it])).chain((1..=4).map(|it| IpAddr::from([192, 0, 2, it])))
    }

    /// Numbers without a pattern, and the same each time.
    fn number(&mut self, below: usize) -> usize {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.state >> 33).unwrap() % below
    }

    fn address(&mut self) -> IpAddr {
        let all: Vec<IpAddr> = Changing::addresses().collect();
        all[self.number(all.len())]
    }

    /// A pod that comes, or is another from now on.
    fn come(&mut self) {
        let pod = self.number(PODS);
        // Most have an address of their own.
        let own = IpAddr::from([10, 0, 0, u8::try_from(1 + pod + PODS * self.number(2)).unwrap()]);
        let address = if self.number(12) == 0 { self.address() } else { own };
        let labels = [("app", ["a", "b"][self.number(2)])].into_iter().collect();
        let running = if self.number(8) == 0 { Running::NotSaid } else { Running::Yes };
        let pod = Endpoint {
            attachment: None,
            name: name(&format!("p{pod:02}")),
            labels,
            addresses: if self.number(8) == 0 { Vec::new() } else { vec![address] },
            node: Some(NodeId(self.number(2))),
            ports: Vec::new(),
            owners: Vec::new(),
            readiness: Readiness::Ready,
            running,
        };
        let pods = &mut self.model.endpoints;
        let known = pods.iter_ids().find(|(_, it)| it.name == pod.name).map(|(id, _)| id);
        let free = (0..=pods.slot_count()).map(EndpointId).find(|it| pods.get(*it).is_none());
        drop(pods.set(known.or(free).unwrap(), Some(Arc::new(pod))));
    }

    pub(in crate::sweep) fn step(&mut self) {
        let pods: Vec<EndpointId> = self.model.endpoints.ids().collect();
        let some = pods.len();
        match self.number(20) {
            0 => self.model.nodes[1].addresses = vec![self.address()],
            1 => {
                let team = ["t", "u"][self.number(2)];
                self.model.namespaces.values_mut().for_each(|it| it.labels.set("team", team));
            }
            2..=4 if some > 0 => {
                let pod = {
                    let at = self.number(some);
                    self.model.endpoint(pods[at]).unwrap().name.clone()
                };
                let link = format!("link{}", self.number(3));
                self.links.insert(pod, link);
            }
            5..=9 if some > 0 => {
                let pod = pods[self.number(some)];
                drop(self.model.endpoints.remove(pod));
            }
            _ => self.come(),
        }
    }

    /// The links of the first node's pods.
    pub(in crate::sweep) fn links(&self) -> BTreeMap<EndpointId, String> {
        let own = self.model.endpoints.iter_ids().filter(|(_, it)| it.node == Some(NodeId(0)));
        own.filter_map(|(id, it)| Some((id, self.links.get(&it.name)?.clone()))).collect()
    }

    /// The pod that has an address, and its link.
    pub(in crate::sweep) fn owner(&self, address: IpAddr) -> Option<(PodName, Option<String>)> {
        let palisade_model::Place::Pod(id) = self.model.place_of(NetworkId::DEFAULT, address) else { return None };
        let pod = self.model.endpoint(id)?;
        let link = self.links.get(&pod.name).filter(|_| pod.node == Some(NodeId(0)));
        Some((pod.name.clone(), link.cloned()))
    }
}
