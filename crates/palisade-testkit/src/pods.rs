//! The pods of a model, two by two, and what their workloads are called in answers.

use palisade_model::{End, Endpoint, EndpointId, Family, Model, Place};

/// `shop/web[Deployment]`, or the pod itself where nothing owns it.
pub fn workload(endpoint: &Endpoint) -> String {
    let namespace = &endpoint.name.namespace;
    endpoint.workload().map_or_else(|| format!("{}[Pod]", endpoint.name), |it| format!("{namespace}/{}[{}]", it.name, it.kind))
}

/// A pod as an end, with its first address of each family; without one if it has none.
pub fn ends(model: &Model, id: EndpointId) -> Vec<End> {
    let addresses = model.endpoint(id).map(|it| it.addresses.as_slice()).unwrap_or_default();
    let first = |family| addresses.iter().find(|it| Family::of(**it) == family).copied();
    let known = [Family::V4, Family::V6].into_iter().filter_map(first).map(Some);
    let unknown = addresses.is_empty().then_some(None);
    known.chain(unknown).map(|address| End { place: Place::Pod(id), address }).collect()
}

/// All pairs of different pods, in each family that they have in common.
pub fn pairs(model: &Model) -> Vec<(End, End)> {
    let all: Vec<End> = (0..model.endpoints.len()).flat_map(|at| ends(model, EndpointId(at))).collect();
    let meet = |from: &End, to: &End| {
        let families = from.address.map(Family::of).zip(to.address.map(Family::of));
        from.place != to.place && families.is_none_or(|(from, to)| from == to)
    };
    all.iter().flat_map(|from| all.iter().map(move |to| (*from, *to))).filter(|(from, to)| meet(from, to)).collect()
}

/// The pod at an end, if it is one.
pub fn pod<'m>(model: &'m Model, end: &End) -> Option<&'m Endpoint> {
    match end.place {
        Place::Pod(id) => model.endpoint(id),
        Place::Node(_) | Place::Outside => None,
    }
}
