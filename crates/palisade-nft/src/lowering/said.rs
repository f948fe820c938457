//! What a ruleset says of the addresses of pods.

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_model::{Direction, PerDirection};

use crate::naming::{class_map, range_map, selves, subject_map};
use crate::ruleset::{Address, Ruleset};
use crate::shared_map::SharedMap;

/// What is said of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) class: u32,
    /// If its pod is one of the node.
    pub(super) programs: Option<PerDirection<u32>>,
}

/// The maps that say it.
#[derive(Debug)]
pub(super) struct Saying<'r> {
    four: OfFamily<'r>,
    six: OfFamily<'r>,
}

#[derive(Debug)]
struct OfFamily<'r> {
    classes: &'r SharedMap<IpAddr, u32>,
    programs: PerDirection<&'r SharedMap<IpAddr, u32>>,
    strangers: &'r BTreeMap<IpAddr, (IpAddr, u32)>,
}

impl<'r> OfFamily<'r> {
    fn of(ruleset: &'r Ruleset, family: Address) -> Option<OfFamily<'r>> {
        let map = |name: String| ruleset.data.get(&name).map(|it| &it.elements);
        Some(OfFamily {
            classes: map(class_map(family))?,
            programs: PerDirection {
                egress: map(subject_map(Direction::Egress, family))?,
                ingress: map(subject_map(Direction::Ingress, family))?,
            },
            strangers: &ruleset.intervals.get(&range_map(family))?.elements,
        })
    }
}

impl<'r> Saying<'r> {
    /// None of a ruleset that has not all of them: it was not lowered.
    pub(super) fn of(ruleset: &'r Ruleset) -> Option<Saying<'r>> {
        Some(Saying { four: OfFamily::of(ruleset, Address::V4)?, six: OfFamily::of(ruleset, Address::V6)? })
    }

    fn family(&self, address: IpAddr) -> &OfFamily<'r> {
        match Address::of(address) {
            Address::V4 => &self.four,
            Address::V6 => &self.six,
        }
    }

    /// How many addresses somebody has.
    pub(super) fn known(&self) -> usize {
        self.four.classes.len() + self.six.classes.len()
    }

    /// The class of an address that somebody has.
    pub(super) fn class(&self, address: IpAddr) -> Option<u32> {
        self.family(address).classes.get(&address).copied()
    }

    /// Everything about an address that somebody has.
    pub(super) fn said(&self, address: IpAddr) -> Option<Said> {
        let PerDirection { egress, ingress } = self.family(address).programs;
        let programs = egress.get(&address).zip(ingress.get(&address));
        let programs = programs.map(|(egress, ingress)| PerDirection { egress: *egress, ingress: *ingress });
        Some(Said { class: self.class(address)?, programs })
    }

    /// The class of somebody at an address whom nobody knows.
    pub(super) fn of_stranger(&self, address: IpAddr) -> Option<u32> {
        let (_, (last, class)) = self.family(address).strangers.range(..=address).next_back()?;
        (address <= *last).then_some(*class)
    }
}

/// Addresses of which something else is to be said.
#[derive(Debug, Default)]
pub(super) struct Moves(BTreeMap<IpAddr, Option<Said>>);

impl Moves {
    /// Those of some that are not as they were.
    pub(super) fn from(saying: &Saying<'_>, mut moves: BTreeMap<IpAddr, Option<Said>>) -> Moves {
        moves.retain(|address, now| saying.said(*address) != *now);
        Moves(moves)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn make(self, ruleset: &mut Ruleset) {
        for (address, said) in self.0 {
            let family = Address::of(address);
            let mut put = |map: &str, number: Option<u32>| {
                let Some(map) = ruleset.data.get_mut(map) else { return };
                match number {
                    Some(number) => map.elements.insert(address, number),
                    None => map.elements.remove(&address),
                };
            };
            put(&class_map(family), said.map(|it| it.class));
            let programs = said.and_then(|it| it.programs);
            for direction in Direction::BOTH {
                put(&subject_map(direction, family), programs.map(|it| *it.of(direction)));
            }
            let Some(selves) = ruleset.pairs.get_mut(&selves(family)) else { continue };
            match programs {
                Some(_) => selves.elements.insert((address, address)),
                None => selves.elements.remove(&(address, address)),
            };
        }
    }
}
