//! Conditions on a pod that look at its namespace and at itself: both selectors must hold.

use rustc_hash::FxHashMap;

use crate::compile::intern::{Interned, index};
use crate::compile::selectors::Selectors;

/// Pairs of a namespace selector and a pod selector, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Join {
    pairs: Interned<(u32, u32)>,
    by_namespace: FxHashMap<u32, Vec<u32>>,
    by_pod: FxHashMap<u32, Vec<u32>>,
    defaults: Vec<bool>,
}

impl Join {
    pub(crate) fn add(&mut self, namespace: u32, pod: u32, namespaces: &Selectors, pods: &Selectors) -> u32 {
        let id = self.pairs.intern((namespace, pod));
        if index(id) == self.defaults.len() {
            self.defaults.push(namespaces.default_of(namespace) && pods.default_of(pod));
            self.by_namespace.entry(namespace).or_default().push(id);
            self.by_pod.entry(pod).or_default().push(id);
        }
        id
    }

    pub(crate) fn default_of(&self, id: u32) -> bool {
        self.defaults.get(index(id)).copied().unwrap_or(false)
    }

    /// The conditions that are so by default.
    pub(crate) fn so_by_default(&self) -> impl Iterator<Item = u32> + '_ {
        self.defaults.iter().zip(0..).filter(|(default, _)| **default).map(|(_, id)| id)
    }

    /// The conditions whose answer is not their default, given which selectors deviate for a namespace and for a pod.
    pub(crate) fn deviating(&self, of_namespace: &[u32], of_pod: &[u32], namespaces: &Selectors, pods: &Selectors) -> Vec<u32> {
        let holds = |id: u32| {
            let Some((namespace, pod)) = self.pairs.get(id) else { return false };
            let in_namespace = namespaces.default_of(*namespace) != of_namespace.binary_search(namespace).is_ok();
            in_namespace && pods.default_of(*pod) != of_pod.binary_search(pod).is_ok()
        };
        let by_namespace = of_namespace.iter().filter_map(|it| self.by_namespace.get(it)).flatten();
        let by_pod = of_pod.iter().filter_map(|it| self.by_pod.get(it)).flatten();
        let mut found: Vec<u32> = by_namespace.chain(by_pod).copied().filter(|it| holds(*it) != self.default_of(*it)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}
