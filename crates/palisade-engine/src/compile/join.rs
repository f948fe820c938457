//! Conditions on a pod that look at its namespace and at itself: both selectors must hold.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::compile::intern::{Counted, Uses, index};
use crate::compile::selectors::Selectors;

/// Pairs of a namespace selector and a pod selector, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Join {
    pairs: Counted<(u32, u32)>,
    by_namespace: FxHashMap<u32, Filed>,
    by_pod: FxHashMap<u32, Filed>,
    kinds: Vec<Wants>,
    /// The conditions that are so by default.
    so_by_default: BTreeSet<u32>,
}

/// Conditions with one selector, by what they want.
#[derive(Clone, Debug, Default)]
struct Filed {
    nothing: Vec<u32>,
    this: Vec<u32>,
    both: Vec<u32>,
}

/// Which of its selectors do not hold by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    /// It is so by default.
    Nothing,
    Namespace,
    Pod,
    Both,
}

impl Join {
    /// One more who uses a condition.
    pub(crate) fn add(&mut self, namespace: u32, pod: u32, namespaces: &Selectors, pods: &Selectors) -> (u32, Uses) {
        let (id, uses) = self.pairs.add(&(namespace, pod));
        if uses == Uses::Only {
            let wants = match (namespaces.default_of(namespace), pods.default_of(pod)) {
                (true, true) => Wants::Nothing,
                (false, true) => Wants::Namespace,
                (true, false) => Wants::Pod,
                (false, false) => Wants::Both,
            };
            if self.kinds.len() <= index(id) {
                self.kinds.resize(index(id) + 1, Wants::Both);
            }
            if let Some(place) = self.kinds.get_mut(index(id)) {
                *place = wants;
            }
            if wants == Wants::Nothing {
                self.so_by_default.insert(id);
            }
            self.each_file((namespace, pod), wants, |list| list.push(id));
        }
        (id, uses)
    }

    /// One less.
    pub(crate) fn release(&mut self, id: u32) -> Uses {
        self.pairs.release(id)
    }

    /// Takes conditions that nobody uses out.
    pub(crate) fn bury(&mut self, ids: &[u32]) {
        for id in self.pairs.unused(ids) {
            if let (Some(pair), Some(wants)) = (self.pairs.get(id).copied(), self.wants(id)) {
                self.so_by_default.remove(&id);
                self.each_file(pair, wants, |list| list.retain(|it| *it != id));
            }
        }
        self.pairs.forget(ids);
    }

    fn each_file(&mut self, (namespace, pod): (u32, u32), wants: Wants, mut each: impl FnMut(&mut Vec<u32>)) {
        let (by_namespace, by_pod) = (self.by_namespace.entry(namespace).or_default(), self.by_pod.entry(pod).or_default());
        match wants {
            Wants::Nothing => {
                each(&mut by_namespace.nothing);
                each(&mut by_pod.nothing);
            }
            Wants::Namespace => each(&mut by_namespace.this),
            Wants::Pod => each(&mut by_pod.this),
            Wants::Both => {
                each(&mut by_namespace.both);
                each(&mut by_pod.both);
            }
        }
    }

    pub(crate) fn wants(&self, id: u32) -> Option<Wants> {
        self.kinds.get(index(id)).copied()
    }

    pub(crate) fn default_of(&self, id: u32) -> bool {
        self.wants(id) == Some(Wants::Nothing)
    }

    /// The namespace selector and the pod selector of a condition.
    pub(crate) fn selectors(&self, id: u32) -> Option<(u32, u32)> {
        self.pairs.get(id).copied()
    }

    pub(crate) fn is_used(&self, id: u32) -> bool {
        self.pairs.is_used(id)
    }

    /// The conditions that are so by default.
    pub(crate) fn so_by_default(&self) -> impl Iterator<Item = u32> + '_ {
        self.so_by_default.iter().copied()
    }

    /// The conditions whose answer is not their default, given which selectors deviate for a namespace and for a pod; in order.
    pub(crate) fn deviating(&self, of_namespace: &[u32], of_pod: &[u32]) -> Vec<u32> {
        let mut found: Vec<u32> = Vec::new();
        let by_namespace = || of_namespace.iter().filter_map(|it| self.by_namespace.get(it));
        let by_pod = || of_pod.iter().filter_map(|it| self.by_pod.get(it));
        let has_pod = |id: &&u32| self.selectors(**id).is_some_and(|(_, pod)| of_pod.binary_search(&pod).is_ok());
        let has_namespace = |id: &&u32| self.selectors(**id).is_some_and(|(namespace, _)| of_namespace.binary_search(&namespace).is_ok());
        for filed in by_namespace() {
            found.extend(&filed.nothing);
            found.extend(filed.this.iter().filter(|it| !has_pod(it)));
        }
        for filed in by_pod() {
            found.extend(&filed.nothing);
            found.extend(filed.this.iter().filter(|it| !has_namespace(it)));
        }
        // Where both must deviate, the shorter side is gone through.
        let (of_namespaces, of_pods): (usize, usize) =
            (by_namespace().map(|it| it.both.len()).sum(), by_pod().map(|it| it.both.len()).sum());
        match of_namespaces <= of_pods {
            true => found.extend(by_namespace().flat_map(|it| &it.both).filter(has_pod)),
            false => found.extend(by_pod().flat_map(|it| &it.both).filter(has_namespace)),
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}
