//! Other ways to look at the objects of an index: one by one, and as a controller sees them that does not know the label.

use std::sync::Arc;

use palisade_api::Body;
use palisade_api::names::CONTROLLER_LABEL;

use crate::Text;
use crate::index::{Index, Snapshot};
use crate::sources::{ObjectKey, Place, Sources};

impl Index {
    /// The objects as they were read, by name.
    pub fn objects(&self) -> impl Iterator<Item = (&ObjectKey, &Body)> {
        self.objects.iter()
    }

    /// Where each object stands.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The same input with other texts in place of those that have their names, read again by the same controller. An object of a live cluster has
    /// the name of its own text; where none is given, the object counts as it was read, and its diagnostics are not repeated.
    pub fn with_texts(&self, changed: &[Text]) -> Index {
        let mut again = Index::of(self.controller().clone());
        let has_changed = |file: &Arc<str>| changed.iter().any(|it| it.file == *file);
        for (key, live) in self.sources.live().filter(|(_, it)| !has_changed(it.file())) {
            again.objects.extend(self.objects.get(key).map(|body| (key.clone(), body.clone())));
            again.sources.place(key.clone(), Place::Live(live.clone()));
        }
        let of_live = |it: &&Text| self.sources.live().any(|(_, live)| *live.file() == it.file);
        changed.iter().filter(of_live).for_each(|text| again.read(text.clone()));
        for text in self.sources.texts() {
            let new = changed.iter().find(|it| it.file == text.file);
            again.read(new.unwrap_or(text).clone());
        }
        again
    }

    /// What the objects mean to a controller that takes every policy for its own, whatever its label says.
    pub fn label_blind(&self) -> Snapshot {
        let mut blind = self.clone();
        for body in blind.objects.values_mut() {
            match body {
                Body::NetworkPolicy(it) => it.meta.labels.remove(CONTROLLER_LABEL),
                Body::ClusterNetworkPolicy(it) => it.meta.labels.remove(CONTROLLER_LABEL),
                Body::AdminNetworkPolicy(it) => it.meta.labels.remove(CONTROLLER_LABEL),
                Body::BaselineAdminNetworkPolicy(it) => it.meta.labels.remove(CONTROLLER_LABEL),
                Body::Kep2091(it) => it.meta.labels.remove(CONTROLLER_LABEL),
                Body::Pod(_) | Body::Workload(_) | Body::Namespace(_) | Body::Node(_) | Body::Service(_) | Body::Nothing(_) => {}
            }
        }
        blind.snapshot()
    }
}
