//! Differences of tables as they leave the house.

use std::collections::BTreeMap;

use palisade_nft::{At, Compared, CounterExample, CtState, Difference, DifferenceKind, Effect, Fared, Table};
use palisade_report::v1;

use crate::denial::protocol;
use crate::names::Names;

/// A difference with names for the ends of its packet.
pub(super) fn difference(it: &Difference, names: &Names) -> v1::VerifyFinding {
    let (effect, counter_example, not_shown) = match &it.effect {
        Effect::Shown(example) if example.found.accepted => (v1::VerifyEffect::Opens, Some(packet(example, names)), None),
        Effect::Shown(example) => (v1::VerifyEffect::Closes, Some(packet(example, names)), None),
        Effect::NoVerdict => (v1::VerifyEffect::NoVerdict, None, None),
        Effect::NotShown(why) => (v1::VerifyEffect::Unknown, None, Some(why.clone())),
    };
    v1::VerifyFinding {
        name: it.kind.name().to_owned(),
        weight: v1::VerifyWeight::Difference,
        object: it.place(),
        sentence: it.sentence(),
        effect,
        not_shown,
        counter_example,
        help: help(it.kind).to_owned(),
    }
}

fn help(kind: DifferenceKind) -> &'static str {
    match kind {
        DifferenceKind::TableMissing => "an agent puts it back at once; without one, `palisade verify --repair` does",
        DifferenceKind::TableAdded => "an agent takes it out at once; without one, `palisade verify --repair` does",
        DifferenceKind::TableDormant => "`palisade verify --repair` switches it on again; find out who set the flag",
        DifferenceKind::TableLayout => {
            "an agent of this version replaces it whole, and so does `palisade verify --repair`; nothing opens meanwhile"
        }
        DifferenceKind::ChainMissing
        | DifferenceKind::ChainMoved
        | DifferenceKind::RuleMissing
        | DifferenceKind::RuleChanged
        | DifferenceKind::MapMissing
        | DifferenceKind::MapKind
        | DifferenceKind::ElementMissing
        | DifferenceKind::ElementChanged => "`palisade verify --repair` puts it back; nobody but Palisade should write to this table",
        DifferenceKind::ChainAdded
        | DifferenceKind::RuleAdded
        | DifferenceKind::MapAdded
        | DifferenceKind::ElementAdded
        | DifferenceKind::Foreign => "`palisade verify --repair` takes it out; rules of your own belong in a table of your own",
    }
}

fn packet(it: &CounterExample, names: &Names) -> v1::VerifyPacket {
    let (hook, link) = match &it.packet.at {
        At::Forward => ("forward".to_owned(), None),
        At::Input => ("input".to_owned(), None),
        At::Output => ("output".to_owned(), None),
        At::Ingress { link } => ("ingress".to_owned(), Some(link.clone())),
        At::Frame { link, kind } => (format!("ingress in a frame of type {kind:#06x}"), Some(link.clone())),
    };
    let state = match it.packet.state {
        CtState::New => "new",
        CtState::Established => "established",
        CtState::Related => "related",
        CtState::Invalid => "invalid",
    };
    v1::VerifyPacket {
        from: names.side(it.packet.source).report(),
        to: names.side(it.packet.destination).report(),
        protocol: protocol(it.packet.protocol).to_string(),
        port: it.packet.port,
        hook,
        link,
        state: state.to_owned(),
        wanted: fate(&it.wanted),
        found: fate(&it.found),
    }
}

fn fate(it: &Fared) -> v1::VerifyFate {
    v1::VerifyFate { accepted: it.accepted, origins: it.comments.clone() }
}

/// What opens comes first.
pub(super) fn rank(effect: v1::VerifyEffect) -> u8 {
    match effect {
        v1::VerifyEffect::Opens => 0,
        v1::VerifyEffect::Unknown => 1,
        v1::VerifyEffect::Closes => 2,
        v1::VerifyEffect::NoVerdict => 3,
    }
}

/// What was compared in all tables; programs and classes are those of the own table.
pub(super) fn compared(all: &BTreeMap<Table, Compared>, pods: usize) -> v1::VerifyCompared {
    let sum = |of: fn(&Compared) -> usize| all.values().map(of).sum();
    let own = all.get(&Table::Own).copied().unwrap_or_default();
    v1::VerifyCompared {
        chains: sum(|it| it.chains),
        rules: sum(|it| it.rules),
        maps: sum(|it| it.maps),
        elements: sum(|it| it.elements),
        programs: own.programs,
        classes: own.classes,
        pods,
    }
}
