//! A matrix as one picture: sources down, destinations across, a cell for each pair that can talk.
//!
//! Cells are drawn as rows come in, and neighbours of one namespace with the same connections are one. Everything outside of the cluster is one line and one
//! column. The picture needs nothing from elsewhere.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use palisade_analysis::matrix::{Name, Row};
use palisade_engine::{PortSetId, PortSets};

use crate::junit::escaped;
use crate::matrix::Words;
use crate::matrix_text::{range, short};

/// How many lines or columns someone can still read.
pub(crate) const MOST: usize = 400;

/// What a cell says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    All,
    Ports,
    Partly,
    Denied,
}

impl Cell {
    pub(crate) fn of(row: &Row<'_>, words: &str) -> Cell {
        if row.allowed == PortSetId::NONE && row.depends_on_dns == PortSetId::NONE {
            return Cell::Denied;
        }
        let sure = row.only_some == PortSetId::NONE && row.depends_on_dns == PortSetId::NONE && row.family.is_none();
        match (sure, words) {
            (false, _) => Cell::Partly,
            (true, "All Connections") => Cell::All,
            (true, _) => Cell::Ports,
        }
    }

    pub(crate) fn class(self) -> &'static str {
        match self {
            Cell::All => "a",
            Cell::Ports => "p",
            Cell::Partly => "s",
            Cell::Denied => "d",
        }
    }
}

/// One side of the picture.
#[derive(Debug, Default)]
struct Axis<'m> {
    /// Units in order, with their namespaces; everything outside comes behind them.
    units: Vec<(&'m str, &'m str)>,
    places: HashMap<&'m str, usize>,
    outside: bool,
}

/// What is to be drawn.
#[derive(Debug)]
pub(crate) struct Ends<'m> {
    /// Units that are sources, by name, with their namespaces.
    pub(crate) sources: Vec<(&'m str, &'m str)>,
    /// Units that are destinations.
    pub(crate) destinations: Vec<(&'m str, &'m str)>,
    /// Whether the outside is a source, and whether it is a destination.
    pub(crate) outside: (bool, bool),
    /// Units on one side of every pair that was asked about; None if all pairs were.
    pub(crate) focus: Option<BTreeSet<&'m str>>,
}

/// A picture that is being drawn.
#[derive(Debug)]
pub(crate) struct Picture<'m> {
    down: Axis<'m>,
    across: Axis<'m>,
    words: Words,
    left: usize,
    top: usize,
    run: Option<Run<'m>>,
    /// What the source before may open towards the outside.
    outward: Option<(usize, Outside)>,
    /// What the outside may open, by column.
    inward: BTreeMap<usize, Outside>,
}

/// Cells side by side that say the same.
#[derive(Debug)]
struct Run<'m> {
    line: usize,
    columns: (usize, usize),
    cell: Cell,
    words: String,
    from: &'m str,
    to: (&'m str, &'m str),
    namespace: &'m str,
}

/// One cell for all ranges of addresses.
#[derive(Debug, Default)]
struct Outside {
    name: String,
    said: Vec<String>,
    more: usize,
    cells: Vec<(Cell, bool)>,
}

const SIZE: usize = 11;
/// How wide the line with all colours is.
const LEGEND: usize = 600;
/// How many ranges are told of one cell; the other forms have all.
const RANGES: usize = 12;

const STYLE: &str = "text{font:9px sans-serif;fill:#222}.t{font-size:14px;font-weight:bold}.b{font-weight:bold}.l{stroke:#e4e4e4}.g{stroke:#888}\
.a{fill:#17507f}.p{fill:#6cb2e4}.s{fill:#f0a431}.d{fill:#c0392b}.i{fill:#d0d0d0}.o{fill:#f1f1f1}";

impl<'m> Picture<'m> {
    /// The picture and how it begins.
    pub(crate) fn new(ends: Ends<'m>, denied: bool) -> (Picture<'m>, String) {
        let down = Axis::new(ends.sources, ends.outside.0);
        let across = Axis::new(ends.destinations, ends.outside.1);
        let (left, top) = (down.depth(), across.depth() + 44);
        let picture = Picture { words: Words::default(), run: None, outward: None, inward: BTreeMap::new(), left, top, down, across };
        let head = picture.head(denied, ends.focus.as_ref());
        (picture, head)
    }

    fn head(&self, denied: bool, focus: Option<&BTreeSet<&str>>) -> String {
        let (width, height) = (self.left + self.across.len() * SIZE, self.top + self.down.len() * SIZE);
        let (page, foot) = ((width + 12).max(LEGEND), height + 12);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{page}\" height=\"{foot}\" viewBox=\"0 0 {page} {foot}\">\n\
             <style>{STYLE}</style>\n<rect width=\"{page}\" height=\"{foot}\" fill=\"#fff\"/>\n\
             <text class=\"t\" x=\"8\" y=\"18\">{}</text>\n",
            if denied { "Who cannot reach whom" } else { "Who reaches whom" }
        );
        let legend: &[(&str, &str)] = match denied {
            true => &[("d", "denied"), ("i", "itself")],
            false => &[("a", "everything"), ("p", "some ports"), ("s", "only some pods, addresses or names"), ("i", "itself")],
        };
        let mut x = 8;
        out.push_str(&format!("<text x=\"{x}\" y=\"35\">lines open connections to columns</text>\n"));
        x += 160;
        for (class, said) in legend {
            out.push_str(&format!(
                "<rect class=\"{class}\" x=\"{x}\" y=\"27\" width=\"9\" height=\"9\"/><text x=\"{}\" y=\"35\">{said}</text>\n",
                x + 13
            ));
            x += 24 + wide(said);
        }
        self.not_asked(&mut out, focus);
        self.labels(&mut out, width, height);
        out
    }

    /// Names on both sides, and the lines between them.
    fn labels(&self, out: &mut String, width: usize, height: usize) {
        for (at, (name, begins)) in self.down.labels().enumerate() {
            let y = self.top + at * SIZE;
            let class = if begins.is_some() { "g" } else { "l" };
            out.push_str(&format!("<path class=\"{class}\" d=\"M{} {y}H{width}\"/>", if begins.is_some() { 4 } else { self.left }));
            out.push_str(&format!("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", self.left - 4, y + 9, escaped(name)));
            if let Some(namespace) = begins.filter(|it| !it.is_empty()) {
                out.push_str(&format!("<text class=\"b\" x=\"4\" y=\"{}\">{}</text>", y + 9, escaped(namespace)));
            }
            out.push('\n');
        }
        for (at, (name, begins)) in self.across.labels().enumerate() {
            let x = self.left + at * SIZE;
            let class = if begins.is_some() { "g" } else { "l" };
            out.push_str(&format!("<path class=\"{class}\" d=\"M{x} {}V{height}\"/>", if begins.is_some() { 44 } else { self.top }));
            let turned = |x: usize, y: usize| format!("transform=\"translate({x} {y}) rotate(-90)\"");
            out.push_str(&format!("<text {}>{}</text>", turned(x + 9, self.top - 4), escaped(name)));
            if let Some(namespace) = begins.filter(|it| !it.is_empty()) {
                out.push_str(&format!("<text class=\"b\" text-anchor=\"end\" {}>{}</text>", turned(x + 9, 46), escaped(namespace)));
            }
            out.push('\n');
        }
        out.push_str(&format!("<path class=\"g\" d=\"M{} {}H{width}V{height}H{}Z\" fill=\"none\"/>\n", self.left, self.top, self.left));
        for (line, (name, _)) in self.down.units.iter().enumerate() {
            if let Some(column) = self.across.places.get(name) {
                self.rect(out, "i", line, (*column, *column), "");
                out.push('\n');
            }
        }
    }

    /// Greys out what nobody asked about.
    fn not_asked(&self, out: &mut String, focus: Option<&BTreeSet<&str>>) {
        let Some(focus) = focus else { return };
        let other = |(name, _): &(&'m str, &'m str)| !focus.contains(name);
        let mut columns: Vec<(usize, usize)> = Vec::new();
        for (at, _) in self.across.units.iter().enumerate().filter(|(_, it)| other(it)) {
            match columns.last_mut() {
                Some(last) if last.1 + 1 == at => last.1 = at,
                Some(_) | None => columns.push((at, at)),
            }
        }
        for (line, _) in self.down.units.iter().enumerate().filter(|(_, it)| other(it)) {
            columns.iter().for_each(|it| self.rect(out, "o", line, *it, ""));
            out.push('\n');
        }
    }

    fn rect(&self, out: &mut String, class: &str, line: usize, (first, last): (usize, usize), title: &str) {
        let (x, y, width) = (self.left + first * SIZE + 1, self.top + line * SIZE + 1, (last + 1 - first) * SIZE - 1);
        out.push_str(&format!("<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{}\"", SIZE - 1));
        match title {
            "" => out.push_str("/>"),
            title => out.push_str(&format!("><title>{}</title></rect>", escaped(title))),
        }
    }

    /// Takes a row; rows come by source.
    pub(crate) fn add(&mut self, out: &mut String, sets: &PortSets, row: &Row<'m>) {
        let mut words = self.words.with_family(sets, row);
        let cell = Cell::of(row, &words);
        if row.only_some != PortSetId::NONE {
            words.push_str(" (some pods)");
        }
        match (row.from, row.to) {
            (Name::Unit { name: from, .. }, Name::Unit { name: to, namespace }) => {
                if let (Some(line), Some(column)) = (self.down.places.get(from), self.across.places.get(to)) {
                    self.pair(out, Run { line: *line, columns: (*column, *column), cell, words, from, to: (to, to), namespace });
                }
            }
            (Name::Unit { name, .. }, Name::Range { first, last }) => {
                let Some(line) = self.down.places.get(name).copied() else { return };
                if self.outward.as_ref().is_some_and(|it| it.0 != line) {
                    self.end_line(out);
                }
                let (_, outside) = self.outward.get_or_insert_with(|| (line, Outside { name: name.to_owned(), ..Outside::default() }));
                outside.add(cell, &range(first, last), &words);
            }
            (Name::Range { first, last }, Name::Unit { name, .. }) => {
                let Some(column) = self.across.places.get(name).copied() else { return };
                let outside = self.inward.entry(column).or_insert_with(|| Outside { name: name.to_owned(), ..Outside::default() });
                outside.add(cell, &range(first, last), &words);
            }
            (Name::Range { .. }, Name::Range { .. }) => {}
        }
    }

    /// Joins a cell to the one before, or draws that.
    fn pair(&mut self, out: &mut String, next: Run<'m>) {
        if let Some(run) = &mut self.run {
            // Each family has a row of its own.
            if run.line == next.line && run.columns == next.columns {
                run.words = format!("{}; {}", run.words, next.words);
                return;
            }
            let follows = run.line == next.line && run.columns.1 + 1 == next.columns.0 && run.namespace == next.namespace;
            if follows && run.cell == next.cell && run.words == next.words && next.cell != Cell::Partly {
                run.columns.1 = next.columns.1;
                run.to.1 = next.to.1;
                return;
            }
        }
        self.end_run(out);
        if self.outward.as_ref().is_some_and(|it| it.0 != next.line) {
            self.end_line(out);
        }
        self.run = Some(next);
    }

    fn end_run(&mut self, out: &mut String) {
        let Some(run) = self.run.take() else { return };
        let to = match run.columns.1 - run.columns.0 {
            0 => run.to.0.to_owned(),
            more => format!("{} to {} ({})", run.to.0, run.to.1, more + 1),
        };
        self.rect(out, run.cell.class(), run.line, run.columns, &format!("{} → {to}: {}", run.from, run.words));
        out.push('\n');
    }

    fn end_line(&mut self, out: &mut String) {
        self.end_run(out);
        let Some((line, outside)) = self.outward.take() else { return };
        let column = self.across.units.len();
        self.rect(out, outside.cell().class(), line, (column, column), &format!("{} → {}", outside.name, outside.told()));
        out.push('\n');
    }

    /// How the picture ends.
    pub(crate) fn finish(&mut self, out: &mut String) {
        self.end_line(out);
        let line = self.down.units.len();
        for (column, outside) in std::mem::take(&mut self.inward) {
            self.rect(out, outside.cell().class(), line, (column, column), &format!("{} ← {}", outside.name, outside.told()));
            out.push('\n');
        }
        out.push_str("</svg>\n");
    }
}

impl<'m> Axis<'m> {
    fn new(units: Vec<(&'m str, &'m str)>, outside: bool) -> Axis<'m> {
        let places = units.iter().enumerate().map(|(at, (name, _))| (*name, at)).collect();
        Axis { units, places, outside }
    }

    fn len(&self) -> usize {
        self.units.len() + usize::from(self.outside)
    }

    /// A name without its namespace, and the namespace where it begins.
    fn labels(&self) -> impl Iterator<Item = (&'m str, Option<&'m str>)> + '_ {
        let units = self.units.iter().enumerate().map(|(at, (name, namespace))| {
            let before = at.checked_sub(1).and_then(|it| self.units.get(it)).map(|it| it.1);
            let own = name.strip_prefix(namespace).and_then(|it| it.strip_prefix('/')).unwrap_or("all pods");
            (short(own), (before != Some(*namespace)).then_some(*namespace))
        });
        units.chain(self.outside.then_some(("outside", Some(""))))
    }

    /// How much room the names need.
    fn depth(&self) -> usize {
        let longest = |pick: fn(&(&str, Option<&str>)) -> usize| self.labels().map(|it| pick(&it)).max().unwrap_or(0);
        longest(|it| wide(it.0)) + longest(|it| it.1.map_or(0, wide)) + 20
    }
}

/// How wide a text is, or a little less.
fn wide(text: &str) -> usize {
    text.chars().count() * 11 / 2
}

impl Outside {
    fn add(&mut self, cell: Cell, range: &str, words: &str) {
        let whole = matches!(range, "any IPv4 address" | "any IPv6 address");
        self.cells.push((cell, whole));
        if self.said.len() < RANGES {
            self.said.push(format!("{range}: {words}"));
        } else {
            self.more += 1;
        }
    }

    /// Sure only if it holds for every address.
    fn cell(&self) -> Cell {
        match self.cells.as_slice() {
            [(cell, true), (other, true)] if cell == other => *cell,
            cells if cells.iter().all(|it| it.0 == Cell::Denied) => Cell::Denied,
            _ => Cell::Partly,
        }
    }

    fn told(&self) -> String {
        let more = if self.more > 0 { format!("; and {} more ranges", self.more) } else { String::new() };
        format!("outside: {}{more}", self.said.join("; "))
    }
}
