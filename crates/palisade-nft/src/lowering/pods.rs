//! The pods of the last model, and what its ruleset says of each.
//!
//! A pod is known by those like it: which class an address has depends on the kind of its pod and on the blocks that hold it, and addresses of one
//! class of strangers are held by the same blocks. Which programs it has depends on its kind and its class.
//!
//! A program is worked out for every class that one of its pods can meet in another. So a class must have a pod elsewhere before and after a
//! change, or two pods of the node with the same program, for that not to change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use palisade_model::{Endpoint, Model, NodeId, PerDirection, SharedVec};

use crate::lowering::kinds::{Kinds, Stands};
use crate::lowering::said::{Moves, Said, Saying};
use crate::ruleset::{Address, Ruleset};

#[derive(Debug)]
pub(super) struct Pods {
    kinds: Kinds,
    /// Those of the last model, shared with it.
    last: SharedVec<Endpoint>,
    /// The class of an address, by what its pod is alike with and the class that strangers have there.
    classes: HashMap<(usize, u32), u32>,
    /// The programs of an address of the node, by what its pod is alike with and its class.
    programs: HashMap<(usize, u32), PerDirection<u32>>,
    members: HashMap<Members, usize>,
    /// Addresses of the node's pods, by family.
    local: [usize; 2],
    claims: Claims,
    /// How many kinds there were at first.
    born: usize,
}

#[derive(Clone, Copy, Debug)]
struct Pod<'m> {
    kind: usize,
    addresses: &'m [IpAddr],
}

/// Pods that are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Members {
    /// Those of a class, on other nodes.
    Elsewhere { class: u32 },
    /// Those of the node that are alike and of a class.
    Here { alike: usize, class: u32 },
}

impl Members {
    fn of(alike: usize, stands: Stands, class: u32) -> Members {
        match stands {
            Stands::Here => Members::Here { alike, class },
            Stands::Elsewhere => Members::Elsewhere { class },
        }
    }

    /// With this many nothing changes if one more comes or goes, as long as this many are left.
    fn enough(self) -> usize {
        match self {
            Members::Elsewhere { .. } => 1,
            Members::Here { .. } => 2,
        }
    }
}

/// Whether some address is claimed by two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claims {
    Once,
    Twice,
}

/// This many kinds may be left over by pods that are gone.
const LEFT_OVER: usize = 10_000;

/// What a change of pods comes to.
#[derive(Debug, Default)]
struct Following {
    /// What becomes of addresses.
    moves: BTreeMap<IpAddr, Option<Said>>,
    /// Who leaves and who joins.
    counts: BTreeMap<Members, (usize, usize)>,
}

impl Pods {
    pub(super) fn of(model: &Model, node: NodeId, ruleset: &Ruleset) -> Pods {
        let mut pods = Pods {
            kinds: Kinds::asked_by(&model.policies),
            last: SharedVec::new(),
            classes: HashMap::new(),
            programs: HashMap::new(),
            members: HashMap::new(),
            local: [0; 2],
            claims: Claims::Twice,
            born: 0,
        };
        let claims = model.endpoints.iter().map(|it| it.addresses.len()).chain(model.nodes.iter().map(|it| it.addresses.len()));
        let Some(saying) = Saying::of(ruleset).filter(|it| it.known() == claims.sum::<usize>()) else { return pods };
        pods.claims = Claims::Once;
        pods.last = model.endpoints.clone();
        for endpoint in &model.endpoints {
            let stands = Stands::of(endpoint, node);
            let kind = pods.kinds.of(endpoint, stands);
            pods.learn(&saying, kind, &endpoint.addresses);
            let counted = pods.counted(&saying, kind, &endpoint.addresses);
            counted.into_iter().flatten().for_each(|it| *pods.members.entry(it).or_default() += 1);
            pods.count_local(stands, &endpoint.addresses, |count| *count += 1);
        }
        pods.born = pods.kinds.len();
        pods
    }

    /// Notes what a ruleset says of a pod, for those like it.
    fn learn(&mut self, saying: &Saying<'_>, kind: usize, addresses: &[IpAddr]) {
        let Some((alike, _)) = self.kinds.alike(kind) else { return };
        for address in addresses {
            let (Some(said), Some(there)) = (saying.said(*address), saying.of_stranger(*address)) else { continue };
            self.classes.insert((alike, there), said.class);
            if let Some(programs) = said.programs {
                self.programs.insert((alike, said.class), programs);
            }
        }
    }

    /// Takes in the pods that there are now: what becomes of addresses. None if those that were there do not tell; then this is of no more use.
    pub(super) fn follow(&mut self, model: &Model, node: NodeId, ruleset: &Ruleset) -> Option<Moves> {
        if self.claims == Claims::Twice || self.kinds.len() > self.born * 2 + LEFT_OVER {
            return None;
        }
        let last = std::mem::replace(&mut self.last, model.endpoints.clone());
        let (gone, new) = self.last.changed_since(&last, |old, new| is_same(old, new, node));
        if gone.is_empty() && new.is_empty() {
            return Some(Moves::default());
        }
        let (gone, new) = (last.range(gone), model.endpoints.range(new));
        let saying = Saying::of(ruleset)?;
        let (was_six, mut following) = (self.is_mostly_six(), Following::default());
        for endpoint in gone.clone() {
            let pod = Pod { kind: self.kinds.of(endpoint, Stands::of(endpoint, node)), addresses: &endpoint.addresses };
            following.leave(self, &saying, pod)?;
        }
        for endpoint in new.clone() {
            let pod = Pod { kind: self.kinds.of(endpoint, Stands::of(endpoint, node)), addresses: &endpoint.addresses };
            following.enter(self, &saying, pod)?;
        }
        gone.for_each(|it| self.count_local(Stands::of(it, node), &it.addresses, |count| *count -= 1));
        new.for_each(|it| self.count_local(Stands::of(it, node), &it.addresses, |count| *count += 1));
        following.counts.iter().try_for_each(|(members, (gone, come))| self.count(*members, *gone, *come))?;
        (self.is_mostly_six() == was_six).then(|| Moves::from(&saying, following.moves))
    }

    /// Counts who left and who joined. None if there were or are too few to say what becomes of others.
    fn count(&mut self, members: Members, gone: usize, come: usize) -> Option<()> {
        let count = self.members.entry(members).or_default();
        let before = *count;
        *count = (before + come).checked_sub(gone)?;
        (before.min(*count) >= members.enough()).then_some(())
    }

    /// What becomes of an address of a pod, by those like it.
    fn like(&self, saying: &Saying<'_>, kind: usize, address: IpAddr) -> Option<Said> {
        let (alike, stands) = self.kinds.alike(kind)?;
        let class = *self.classes.get(&(alike, saying.of_stranger(address)?))?;
        let programs = match stands {
            Stands::Here => Some(*self.programs.get(&(alike, class))?),
            Stands::Elsewhere => None,
        };
        Some(Said { class, programs })
    }

    /// Where a pod of the last ruleset counts, each once.
    fn counted(&self, saying: &Saying<'_>, kind: usize, addresses: &[IpAddr]) -> Option<BTreeSet<Members>> {
        let (alike, stands) = self.kinds.alike(kind)?;
        addresses.iter().map(|it| Some(Members::of(alike, stands, saying.class(*it)?))).collect()
    }

    fn count_local(&mut self, stands: Stands, addresses: &[IpAddr], mut each: impl FnMut(&mut usize)) {
        let [four, six] = &mut self.local;
        for address in addresses.iter().filter(|_| stands == Stands::Here) {
            match Address::of(*address) {
                Address::V4 => each(four),
                Address::V6 => each(six),
            }
        }
    }

    /// Whether most addresses of the node's pods are of IPv6: a program lists whoever does not fare as most do.
    fn is_mostly_six(&self) -> bool {
        let [four, six] = self.local;
        six > four
    }
}

impl Following {
    fn leave(&mut self, pods: &Pods, saying: &Saying<'_>, pod: Pod<'_>) -> Option<()> {
        pods.counted(saying, pod.kind, pod.addresses)?.into_iter().for_each(|it| self.counts.entry(it).or_default().0 += 1);
        self.moves.extend(pod.addresses.iter().map(|it| (*it, None)));
        Some(())
    }

    /// None if nobody is like it, or if somebody has its address.
    fn enter(&mut self, pods: &Pods, saying: &Saying<'_>, pod: Pod<'_>) -> Option<()> {
        let (alike, stands) = pods.kinds.alike(pod.kind)?;
        let mut counted = BTreeSet::new();
        for address in pod.addresses {
            let said = pods.like(saying, pod.kind, *address)?;
            counted.insert(Members::of(alike, stands, said.class));
            let is_free = match self.moves.insert(*address, Some(said)) {
                Some(None) => true,
                Some(Some(_)) => false,
                None => saying.class(*address).is_none(),
            };
            is_free.then_some(())?;
        }
        counted.into_iter().for_each(|it| self.counts.entry(it).or_default().1 += 1);
        Some(())
    }
}

/// Whether two pods are of one kind, at the same addresses.
fn is_same(one: &Endpoint, other: &Endpoint, node: NodeId) -> bool {
    let of = |it: &Endpoint| Stands::of(it, node);
    of(one) == of(other)
        && (&one.name.namespace, &one.labels, &one.ports, &one.addresses)
            == (&other.name.namespace, &other.labels, &other.ports, &other.addresses)
}
