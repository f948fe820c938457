//! A table as the kernel has it, compared with the ruleset that it should be: every difference by name, with a packet that shows it where one does.
//!
//! What is compared is the whole table: its flags, chains and how they stand, rules in their order, maps element by element. What a difference does is found by
//! walking packets through both: one for each two ends that either table tells apart, and for each port at which a rule begins or ends.

mod compare;
mod effect;
mod packets;
#[cfg(test)]
mod tests;

use crate::netlink::examine::Examined;
use crate::object::Object;
use crate::ruleset::Ruleset;
use crate::trace::Packet;
use crate::transaction::Table;

/// Something in the table that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub table: Table,
    pub kind: DifferenceKind,
    pub object: Object,
    /// Which element of a map.
    pub element: Option<String>,
    /// What should be there.
    pub wanted: Option<String>,
    /// What is there.
    pub found: Option<String>,
    pub effect: Effect,
}

/// What kind of difference it is. The names are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DifferenceKind {
    TableMissing,
    /// There should be none.
    TableAdded,
    TableDormant,
    /// It is of another layout, or says none.
    TableLayout,
    ChainMissing,
    ChainAdded,
    /// Hook, priority, policy, type or devices.
    ChainMoved,
    RuleMissing,
    RuleAdded,
    RuleChanged,
    MapMissing,
    MapAdded,
    /// It is from or to something else.
    MapKind,
    ElementMissing,
    ElementAdded,
    ElementChanged,
    /// Something that Palisade never writes.
    Foreign,
}

/// What a difference does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// This packet fares otherwise than it should, and meets the difference.
    Shown(Box<CounterExample>),
    /// No packet fares otherwise for it.
    NoVerdict,
    /// No packet was found that does, for the reason given.
    NotShown(String),
}

/// A packet that fares otherwise than it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterExample {
    pub packet: Packet,
    pub wanted: Fared,
    pub found: Fared,
}

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fared {
    pub accepted: bool,
    /// Comments of the rules that decided, in order.
    pub comments: Vec<String>,
}

/// What came of holding a table against a ruleset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    pub differences: Vec<Difference>,
    /// What was compared.
    pub compared: Compared,
}

/// How much a ruleset has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    pub chains: usize,
    pub rules: usize,
    pub maps: usize,
    pub elements: usize,
    /// Programs of local pods, of both directions.
    pub programs: usize,
    /// Classes of peers that these tell apart.
    pub classes: usize,
}

/// Compares a table as the kernel has it with the ruleset that it should be. None is no table.
pub fn verify(table: Table, found: Option<&Examined>, wanted: Option<&Ruleset>) -> Verified {
    let nothing = (Examined::default(), Ruleset::default());
    let mut differences = match (found, wanted) {
        (Some(found), Some(wanted)) => compare::compare(table, found, wanted),
        (None, Some(_)) => vec![Difference::of(table, DifferenceKind::TableMissing, Object::Table)],
        (Some(found), None) => {
            let mut differences = vec![Difference::of(table, DifferenceKind::TableAdded, Object::Table)];
            // A table that should not be there has no layout that it should have.
            let wanted = Ruleset { layout: found.ruleset.layout, ..Ruleset::default() };
            differences.extend(compare::compare(table, found, &wanted));
            differences
        }
        (None, None) => Vec::new(),
    };
    effect::find_effects(found.unwrap_or(&nothing.0), wanted.unwrap_or(&nothing.1), &mut differences);
    Verified { differences, compared: wanted.map(Compared::of).unwrap_or_default() }
}

/// What a packet comes to in a table that others may have changed. An error says why that cannot be known.
pub fn fare(found: &Examined, packet: &Packet) -> Result<Fared, String> {
    packets::Table::of(found).fare(packet).map(|it| it.fared())
}

impl DifferenceKind {
    pub const ALL: [DifferenceKind; 17] = [
        DifferenceKind::TableMissing,
        DifferenceKind::TableAdded,
        DifferenceKind::TableDormant,
        DifferenceKind::TableLayout,
        DifferenceKind::ChainMissing,
        DifferenceKind::ChainAdded,
        DifferenceKind::ChainMoved,
        DifferenceKind::RuleMissing,
        DifferenceKind::RuleAdded,
        DifferenceKind::RuleChanged,
        DifferenceKind::MapMissing,
        DifferenceKind::MapAdded,
        DifferenceKind::MapKind,
        DifferenceKind::ElementMissing,
        DifferenceKind::ElementAdded,
        DifferenceKind::ElementChanged,
        DifferenceKind::Foreign,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            DifferenceKind::TableMissing => "table-missing",
            DifferenceKind::TableAdded => "table-added",
            DifferenceKind::TableDormant => "table-dormant",
            DifferenceKind::TableLayout => "table-layout",
            DifferenceKind::ChainMissing => "chain-missing",
            DifferenceKind::ChainAdded => "chain-added",
            DifferenceKind::ChainMoved => "chain-moved",
            DifferenceKind::RuleMissing => "rule-missing",
            DifferenceKind::RuleAdded => "rule-added",
            DifferenceKind::RuleChanged => "rule-changed",
            DifferenceKind::MapMissing => "map-missing",
            DifferenceKind::MapAdded => "map-added",
            DifferenceKind::MapKind => "map-kind",
            DifferenceKind::ElementMissing => "element-missing",
            DifferenceKind::ElementAdded => "element-added",
            DifferenceKind::ElementChanged => "element-changed",
            DifferenceKind::Foreign => "foreign",
        }
    }
}

impl Difference {
    fn of(table: Table, kind: DifferenceKind, object: Object) -> Difference {
        Difference { table, kind, object, element: None, wanted: None, found: None, effect: Effect::NoVerdict }
    }

    /// The object that it is about: a table, a chain or a map. Objects of other tables than the own one are named with their table.
    pub fn place(&self) -> String {
        let object = match &self.object {
            Object::Table => return format!("table `{}`", self.table),
            Object::Elements(map) => Object::Map(map.clone()).to_string(),
            Object::Rule { chain, .. } => Object::Chain(chain.clone()).to_string(),
            object @ (Object::Batch | Object::Generation | Object::Chain(_) | Object::Map(_)) => object.to_string(),
        };
        self.of_table(object)
    }

    fn of_table(&self, object: String) -> String {
        if self.table == Table::Own { object } else { format!("{object} of table `{}`", self.table) }
    }

    /// In words: the object that is not as it should be, and what should be there.
    pub fn sentence(&self) -> String {
        let object = match (&self.element, &self.object) {
            (Some(element), _) => format!("{}: element {element}", self.place()),
            (None, Object::Rule { .. } | Object::Elements(_)) => self.of_table(self.object.to_string()),
            (None, Object::Batch | Object::Generation | Object::Table | Object::Chain(_) | Object::Map(_)) => self.place(),
        };
        let in_words = matches!(self.kind, DifferenceKind::MapMissing | DifferenceKind::MapAdded | DifferenceKind::MapKind);
        let quoted = |it: &String| if in_words || it.starts_with('`') { it.clone() } else { format!("`{it}`") };
        match (self.kind, &self.wanted, &self.found) {
            (DifferenceKind::TableDormant, ..) => format!("{object} is dormant: its chains are switched off"),
            (DifferenceKind::TableLayout, Some(wanted), Some(found)) => format!("{object} is of {found}, and this is {wanted}"),
            (DifferenceKind::Foreign, _, Some(found)) => format!("{object} is not of Palisade's making: {found}"),
            (_, Some(wanted), Some(found)) => format!("{object} should be {} and is {}", quoted(wanted), quoted(found)),
            (_, Some(wanted), None) => format!("{object} is missing; it should be {}", quoted(wanted)),
            (_, None, Some(found)) => format!("{object} should not be there: {}", quoted(found)),
            (DifferenceKind::TableAdded | DifferenceKind::ChainAdded | DifferenceKind::MapAdded, None, None) => {
                format!("{object} should not be there")
            }
            (_, None, None) => format!("{object} is missing"),
        }
    }
}

impl Compared {
    fn of(wanted: &Ruleset) -> Compared {
        let programs = |it: &(&String, &crate::ruleset::VerdictMap)| it.0.ends_with("-programs");
        let numbers = |map: &crate::ruleset::DataMap| map.elements.values().copied().collect::<Vec<u32>>();
        let known = wanted.data.iter().filter(|(name, _)| name.starts_with("class")).flat_map(|(_, map)| numbers(map));
        let ranges = wanted.intervals.values().flat_map(|map| map.elements.values().map(|(_, number)| *number));
        let classes: std::collections::BTreeSet<u32> = known.chain(ranges).collect();
        Compared {
            chains: wanted.chains.len(),
            rules: wanted.chains.values().map(|it| it.rules.len()).sum(),
            maps: wanted.maps().count(),
            elements: wanted.maps().map(|(_, map)| map.len()).sum(),
            programs: wanted.verdicts.iter().filter(programs).map(|(_, map)| map.elements.len()).sum(),
            classes: classes.len(),
        }
    }
}
