//! Who has which address, from one model to the next.
//!
//! Most models are the last one with some pods more or fewer. All addresses are read once; what follows keeps that, and says what is not so any more.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use palisade_model::{EndpointId, Model, NodeId, Place};

/// With more than this to say besides, all addresses are read again.
const MOST: usize = if cfg!(test) { 14 } else { 1_000 };

/// Who has each address that somebody of the cluster has, as `Model::place_of` says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// In the model that was read.
    read: Arc<HashMap<IpAddr, Place>>,
    /// Which pods of that are still there, in order.
    kept: Vec<Kept>,
    /// Pods that came since.
    come: HashMap<IpAddr, EndpointId>,
    claims: Claims,
}

/// Pods that stand together, in the model that was read and now.
#[derive(Clone, Debug)]
struct Kept {
    then: Range<usize>,
    /// Where the first of them stands.
    now: usize,
}

/// Whether some address is claimed by two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Claims {
    #[default]
    Once,
    Twice,
}

impl Places {
    pub(crate) fn of(model: &Model) -> Places {
        let mut read: HashMap<IpAddr, Place> = HashMap::with_capacity(model.endpoints.len());
        let rank = |place: Place| match place {
            Place::Pod(id) => (0, model.endpoint(id).map(|it| (it.running, it.readiness)), id.0),
            Place::Node(id) => (1, None, id.0),
            Place::Outside => (2, None, 0),
        };
        let pods = (0..).zip(&model.endpoints).flat_map(|(at, pod)| pod.addresses.iter().map(move |it| (*it, Place::Pod(EndpointId(at)))));
        let nodes = (0..).zip(&model.nodes).flat_map(|(at, node)| node.addresses.iter().map(move |it| (*it, Place::Node(NodeId(at)))));
        let mut claimed = 0;
        for (address, place) in pods.chain(nodes) {
            claimed += 1;
            let owner = read.entry(address).or_insert(place);
            if rank(place) < rank(*owner) {
                *owner = place;
            }
        }
        let claims = if read.len() == claimed { Claims::Once } else { Claims::Twice };
        let kept = vec![Kept { then: 0..model.endpoints.len(), now: 0 }];
        Places { read: Arc::new(read), kept, come: HashMap::new(), claims }
    }

    /// Those of the model after a change of pods. None if they are better read: much has changed, or two claim an address.
    pub(crate) fn after(&self, old: &Model, new: &Model, splice: &Splice) -> Option<Places> {
        let said = self.come.len() + self.kept.len() + splice.gone.len() + splice.come.len();
        let same_nodes = old.nodes.len() == new.nodes.len() && old.nodes.iter().zip(&new.nodes).all(|(a, b)| a.addresses == b.addresses);
        if self.claims == Claims::Twice || !same_nodes || said > MOST {
            return None;
        }
        let mut after = Places {
            read: Arc::clone(&self.read),
            kept: self.kept.iter().flat_map(|it| it.after(splice)).filter(|it| !it.then.is_empty()).collect(),
            come: self.come.iter().filter_map(|(address, id)| Some((*address, EndpointId(splice.now(id.0)?)))).collect(),
            claims: Claims::Once,
        };
        for (at, pod) in splice.come.clone().zip(new.endpoints.iter().skip(splice.come.start)) {
            for address in &pod.addresses {
                if after.of_address(*address) != Place::Outside {
                    return None;
                }
                after.come.insert(*address, EndpointId(at));
            }
        }
        Some(after)
    }

    pub(crate) fn claims(&self) -> Claims {
        self.claims
    }

    pub(crate) fn of_address(&self, address: IpAddr) -> Place {
        if let Some(id) = self.come.get(&address) {
            return Place::Pod(*id);
        }
        match self.read.get(&address) {
            Some(Place::Pod(EndpointId(then))) => self.now(*then).map_or(Place::Outside, |it| Place::Pod(EndpointId(it))),
            Some(place @ (Place::Node(_) | Place::Outside)) => *place,
            None => Place::Outside,
        }
    }

    fn now(&self, then: usize) -> Option<usize> {
        let at = self.kept.partition_point(|it| it.then.end <= then);
        let kept = self.kept.get(at).filter(|it| it.then.contains(&then))?;
        Some(kept.now + (then - kept.then.start))
    }
}

impl Kept {
    /// Those of them before and after a change.
    fn after(&self, splice: &Splice) -> [Kept; 2] {
        let Range { start, end } = self.then;
        // Where the change begins and ends, among these.
        let place = |at: usize| (start + at.saturating_sub(self.now)).min(end);
        let (first, rest) = (place(splice.gone.start), place(splice.gone.end));
        let moved = (self.now + (rest - start)).max(splice.gone.end) - splice.gone.end + splice.come.end;
        [Kept { then: start..first, now: self.now }, Kept { then: rest..end, now: moved }]
    }
}

/// What is not the same in two lists: all before it is, and all after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Splice {
    pub(crate) gone: Range<usize>,
    /// Begins where `gone` does.
    pub(crate) come: Range<usize>,
}

impl Splice {
    pub(crate) fn between<'t, T: PartialEq + 't, I>(old: I, new: I) -> Splice
    where
        I: IntoIterator<Item = &'t T, IntoIter: DoubleEndedIterator + ExactSizeIterator + Clone>,
    {
        let (old, new) = (old.into_iter(), new.into_iter());
        let same = |(one, other): &(&T, &T)| std::ptr::eq(*one, *other) || one == other;
        let start = old.clone().zip(new.clone()).take_while(same).count();
        let (was, is) = (old.len(), new.len());
        let end = old.rev().zip(new.rev()).take(was.min(is) - start).take_while(same).count();
        Splice { gone: start..was - end, come: start..is - end }
    }

    /// Where something stands in the new list that is in both.
    pub(crate) fn now(&self, then: usize) -> Option<usize> {
        moved(then, &self.gone, &self.come)
    }

    /// Where something stood in the old list that is in both.
    pub(crate) fn then(&self, now: usize) -> Option<usize> {
        moved(now, &self.come, &self.gone)
    }
}

fn moved(at: usize, here: &Range<usize>, there: &Range<usize>) -> Option<usize> {
    match at.checked_sub(here.end) {
        Some(beyond) => Some(there.end + beyond),
        None => (at < here.start).then_some(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::tests::changing::Changing;

    #[test]
    fn places_that_follow_are_those_of_the_model() {
        let mut changing = Changing::default();
        let mut old = changing.model.clone();
        let mut places = Places::of(&old);
        let (mut followed, mut read) = (0, 0);
        for _ in 0..3000 {
            changing.step();
            let new = changing.model.clone();
            let splice = Splice::between(&old.endpoints, &new.endpoints);
            match places.after(&old, &new, &splice) {
                Some(after) => {
                    places = after;
                    followed += 1;
                }
                None => {
                    places = Places::of(&new);
                    read += 1;
                }
            }
            for address in Changing::addresses() {
                assert_eq!(places.of_address(address), new.place_of(address), "{address} in {new:?}");
            }
            old = new;
        }
        assert!(followed > 1000 && read > 300, "{followed} {read}");
    }

    #[test]
    fn two_lists_differ_between_what_they_have_in_common() {
        for (old, new, gone, come) in [
            ("", "", 0..0, 0..0),
            ("abc", "abc", 3..3, 3..3),
            ("abc", "abxc", 2..2, 2..3),
            ("abc", "ac", 1..2, 1..1),
            ("aaa", "aa", 2..3, 2..2),
            ("aa", "aaa", 2..2, 2..3),
            ("abcde", "axcye", 1..4, 1..4),
            ("", "ab", 0..0, 0..2),
        ] {
            let splice = Splice::between(old.as_bytes(), new.as_bytes());
            assert_eq!(splice, Splice { gone, come }, "{old} {new}");
            for then in 0..old.len() {
                let now = splice.now(then);
                assert_eq!(now.is_none(), splice.gone.contains(&then));
                assert!(now.is_none_or(|it| new.as_bytes()[it] == old.as_bytes()[then] && splice.then(it) == Some(then)), "{old} {new}");
            }
        }
    }
}
