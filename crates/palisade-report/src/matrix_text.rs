//! A matrix for people: under each destination one line for each sort of connection, with all who have it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_analysis::matrix::{Matrix, Name, Row};
use palisade_engine::{PortSetId, PortSets};

use crate::matrix::Words;
use crate::text::{BOLD, DIM, painted};

/// What is known of all names, so that many can be said in few words.
#[derive(Debug)]
pub struct Crowd<'m> {
    /// How many units each namespace has.
    namespaces: BTreeMap<&'m str, usize>,
    units: usize,
    /// Names without their kinds that two units have.
    shared: BTreeSet<&'m str>,
}

/// Rows of one destination so far.
#[derive(Debug)]
pub struct Group<'m> {
    crowd: Crowd<'m>,
    words: Words,
    to: Option<Name<'m>>,
    /// By what passes.
    lines: BTreeMap<String, Vec<Name<'m>>>,
}

impl<'m> Group<'m> {
    /// Ready for the rows of a matrix, ordered by destination.
    pub fn new(matrix: &'m Matrix) -> Group<'m> {
        Group { crowd: Crowd::of(matrix), words: Words::default(), to: None, lines: BTreeMap::new() }
    }

    /// Takes a row; the text of the destination before it, if that is complete.
    pub fn add(&mut self, sets: &PortSets, row: &Row<'m>) -> Option<String> {
        let text = if self.to == Some(row.to) { None } else { self.finish() };
        self.to = Some(row.to);
        let mut line = self.words.of(sets, row).to_owned();
        line.extend(row.family.map(|it| format!(" ({it})")));
        if row.only_some != PortSetId::NONE {
            line.push_str(" (some pods)");
        }
        self.lines.entry(line).or_default().push(row.from);
        text
    }

    /// The text of the last destination.
    pub fn finish(&mut self) -> Option<String> {
        let to = self.to.take()?;
        let heading = match to {
            Name::Unit { name, .. } => name.to_owned(),
            Name::Range { first, last } => range(first, last),
        };
        let mut out = format!("{}\n", painted(BOLD, &format!("to {heading}")));
        let lines = std::mem::take(&mut self.lines);
        let width = lines.keys().map(|it| it.chars().count()).max().unwrap_or(0).min(40);
        for (words, peers) in lines {
            let from = self.crowd.said(&peers, to);
            out.push_str(&format!("  {words:<width$}  {} {}\n", painted(DIM, "from"), from.join(", ")));
        }
        Some(out)
    }
}

impl<'m> Crowd<'m> {
    pub(crate) fn of(matrix: &'m Matrix) -> Crowd<'m> {
        let mut crowd = Crowd { namespaces: BTreeMap::new(), units: 0, shared: BTreeSet::new() };
        let mut met = BTreeSet::new();
        for (name, namespace) in matrix.names() {
            *crowd.namespaces.entry(namespace).or_default() += 1;
            crowd.units += 1;
            if !met.insert(short(name)) {
                crowd.shared.insert(short(name));
            }
        }
        crowd
    }

    /// Whole namespaces as one, the rest by name.
    pub(crate) fn said(&self, peers: &[Name<'m>], to: Name<'m>) -> Vec<String> {
        let mut said = Vec::new();
        let mut by_namespace: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut ranges = Vec::new();
        for peer in peers {
            match peer {
                Name::Unit { name, namespace } => by_namespace.entry(namespace).or_default().push(name),
                Name::Range { first, last } => ranges.push((*first, *last)),
            }
        }
        let others = |count: usize, here: bool| if here && !peers.contains(&to) { count.saturating_sub(1) } else { count };
        let units: usize = by_namespace.values().map(Vec::len).sum();
        let inside = matches!(to, Name::Unit { .. });
        if units > 1 && units == others(self.units, inside) {
            said.push(format!("everyone ({units})"));
        } else {
            for (namespace, names) in by_namespace {
                let here = matches!(to, Name::Unit { namespace: own, .. } if own == namespace);
                let all = others(self.namespaces.get(namespace).copied().unwrap_or(0), here);
                if names.len() > 1 && names.len() == all {
                    said.push(format!("{namespace}/* ({all})"));
                } else {
                    said.extend(names.into_iter().map(|it| self.name(it).to_owned()));
                }
            }
        }
        said.extend(self::ranges(&ranges));
        said
    }

    fn name<'a>(&self, name: &'a str) -> &'a str {
        let without = short(name);
        if self.shared.contains(without) { name } else { without }
    }
}

/// `shop/web` of `shop/web[Deployment]`. Only a kind is at the end, so a class keeps its number of others.
pub(crate) fn short(name: &str) -> &str {
    name.strip_suffix(']').and_then(|it| it.rsplit_once('[')).map_or(name, |it| it.0)
}

fn ranges(all: &[(IpAddr, IpAddr)]) -> Vec<String> {
    let said: Vec<String> = all.iter().map(|(first, last)| range(*first, *last)).collect();
    if said == ["any IPv4 address", "any IPv6 address"] { vec!["any address".to_owned()] } else { said }
}

pub(crate) fn range(first: IpAddr, last: IpAddr) -> String {
    let whole = match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => first.to_bits() == 0 && last.to_bits() == u32::MAX,
        (IpAddr::V6(first), IpAddr::V6(last)) => first.to_bits() == 0 && last.to_bits() == u128::MAX,
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    };
    match (whole, first.is_ipv4(), first == last) {
        (true, true, _) => "any IPv4 address".to_owned(),
        (true, false, _) => "any IPv6 address".to_owned(),
        (false, _, true) => first.to_string(),
        (false, _, false) => format!("{first}-{last}"),
    }
}
