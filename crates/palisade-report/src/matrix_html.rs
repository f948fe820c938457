//! A matrix as one page: a grid of namespaces first, then each namespace, folded, with its workloads as sources.
//!
//! A source is written when its last row has come in; nothing else is kept. The page needs nothing from elsewhere, and its script only filters.

use std::collections::BTreeMap;

use palisade_analysis::matrix::{Matrix, Name, Row};
use palisade_engine::{PortSetId, PortSets};

use crate::junit::escaped;
use crate::matrix::Words;
use crate::matrix_svg::Cell;
use crate::matrix_text::{Crowd, range, short};

/// How many namespaces a grid can have that someone can still read.
const NAMESPACES: usize = 60;
/// How many workloads of a namespace a grid can have that someone can still read.
const WORKLOADS: usize = 60;

const STYLE: &str = include_str!("matrix.css");
const SCRIPT: &str = include_str!("matrix.js");

/// What the rows of a page are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct About {
    /// Pairs that cannot talk, instead of those that can.
    pub(crate) denied: bool,
    /// Whether only some ends were asked about, so that a pair without a row may be of others.
    pub(crate) narrowed: bool,
}

/// So many namespaces are shown with their workloads; more are folded.
const UNFOLDED: usize = 8;

/// What is known of one pair so far.
#[derive(Debug)]
struct Pair {
    cell: Cell,
    words: String,
}

/// A grid between namespaces that is being gathered, and written at once.
#[derive(Debug)]
pub(crate) struct Overview<'m> {
    about: About,
    names: Vec<(&'m str, &'m str)>,
    words: Words,
    pairs: BTreeMap<(&'m str, &'m str), Pair>,
}

/// A page that is being written.
#[derive(Debug)]
pub(crate) struct Page<'m> {
    about: About,
    crowd: Crowd<'m>,
    /// Units of which nothing was written yet, the last first.
    rest: Vec<Name<'m>>,
    /// Units by namespace.
    units: BTreeMap<&'m str, Vec<&'m str>>,
    words: Words,
    open: Option<Section<'m>>,
    source: Option<Source<'m>>,
}

/// The namespace that is being written; the outside is the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section<'m> {
    Namespace(&'m str),
    Outside,
}

/// Rows of one source so far.
#[derive(Debug)]
struct Source<'m> {
    from: Name<'m>,
    near: BTreeMap<&'m str, Pair>,
    /// By what passes.
    lines: BTreeMap<String, Vec<Name<'m>>>,
}

/// How a page begins.
pub(crate) fn head(about: About) -> String {
    let title = if about.denied { "Who cannot reach whom" } else { "Who reaches whom" };
    let narrowed = if about.narrowed { " Only what was asked about is here; an empty cell may be of a pair that was not." } else { "" };
    let legend: &[(&str, &str)] = match about.denied {
        true => &[("d", "denied")],
        false => &[("a", "everything"), ("p", "some ports"), ("s", "only some pods, addresses or names")],
    };
    let legend: String = legend.iter().map(|(class, said)| format!("<span><i class=\"{class}\"></i>{said}</span>")).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n\
         <p class=\"legend\">Lines open connections to columns.{narrowed} {legend}</p>\n\
         <p id=\"filter\" hidden><label>Show only <input type=\"search\" placeholder=\"a name, an address, TCP 80\"></label> <output></output></p>\n"
    )
}

impl<'m> Overview<'m> {
    /// Ready for the rows of a matrix by namespace.
    pub(crate) fn new(matrix: &'m Matrix, about: About) -> Overview<'m> {
        Overview { about, names: matrix.names().collect(), words: Words::default(), pairs: BTreeMap::new() }
    }

    /// Whether a grid of them can be read.
    pub(crate) fn is_readable(&self) -> bool {
        self.names.len() <= NAMESPACES
    }

    /// Takes a row; those with the outside are told below.
    pub(crate) fn add(&mut self, sets: &PortSets, row: &Row<'m>) {
        if let (Name::Unit { namespace: from, .. }, Name::Unit { namespace: to, .. }) = (row.from, row.to) {
            note(&mut self.pairs, (from, to), pair(&mut self.words, sets, row));
        }
    }

    /// The grid.
    pub(crate) fn finish(self) -> String {
        if !self.is_readable() {
            return format!("<p>{} namespaces are too many for a grid between them.</p>\n", self.names.len());
        }
        let mut out = String::from("<h2>Between namespaces</h2>\n<div class=\"wide\"><table class=\"grid\">\n<tr><td></td>");
        for (_, namespace) in &self.names {
            out.push_str(&format!("<th class=\"v\"><span>{}</span></th>", escaped(namespace)));
        }
        out.push_str("</tr>\n");
        for (_, from) in &self.names {
            // Of others there may be no section.
            out.push_str(&match self.about.narrowed {
                true => format!("<tr><th>{}</th>", escaped(from)),
                false => format!("<tr><th><a href=\"#ns-{0}\">{0}</a></th>", escaped(from)),
            });
            for (_, to) in &self.names {
                out.push_str(&cell(self.pairs.get(&(*from, *to)), from, to));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</table></div>\n");
        out
    }
}

impl<'m> Page<'m> {
    /// Ready for the rows of a matrix, ordered by source.
    pub(crate) fn new(matrix: &'m Matrix, about: About) -> Page<'m> {
        let mut units: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, namespace) in matrix.names() {
            units.entry(namespace).or_default().push(name);
        }
        let mut rest: Vec<Name<'m>> = matrix.names().map(|(name, namespace)| Name::Unit { name, namespace }).collect();
        rest.reverse();
        Page { about, rest, crowd: Crowd::of(matrix.names()), units, words: Words::default(), open: None, source: None }
    }

    /// Takes a row.
    pub(crate) fn add(&mut self, out: &mut String, sets: &PortSets, row: &Row<'m>) {
        if self.source.as_ref().is_none_or(|it| it.from != row.from) {
            self.end_source(out);
            self.without_rows(out, Some(row.from));
            self.source = Some(Source { from: row.from, near: BTreeMap::new(), lines: BTreeMap::new() });
        }
        let said = pair(&mut self.words, sets, row);
        let Some(source) = &mut self.source else { return };
        source.lines.entry(said.words.clone()).or_default().push(row.to);
        if let (Name::Unit { namespace: from, .. }, Name::Unit { namespace: to, name }) = (row.from, row.to)
            && from == to
        {
            note(&mut source.near, name, said);
        }
    }

    /// Writes the sources before another that have no row; all that are left if there is no other.
    fn without_rows(&mut self, out: &mut String, until: Option<Name<'m>>) {
        while let Some(from) = self.rest.pop() {
            if Some(from) == until {
                return;
            }
            if !self.about.narrowed {
                self.source = Some(Source { from, near: BTreeMap::new(), lines: BTreeMap::new() });
                self.end_source(out);
            }
        }
    }

    fn end_source(&mut self, out: &mut String) {
        let Some(source) = self.source.take() else { return };
        let section = match source.from {
            Name::Unit { namespace, .. } => Section::Namespace(namespace),
            Name::Range { .. } => Section::Outside,
        };
        if self.open != Some(section) {
            self.end_section(out);
            self.begin_section(out, section);
        }
        let name = match source.from {
            Name::Unit { name, .. } => name.to_owned(),
            Name::Range { first, last } => range(first, last),
        };
        out.push_str(&format!("<tr><th>{}</th>", escaped(&name)));
        if let Section::Namespace(namespace) = section {
            for unit in self.columns(namespace) {
                let itself = matches!(source.from, Name::Unit { name, .. } if name == *unit) && !source.near.contains_key(unit);
                out.push_str(&if itself { "<td class=\"i\"></td>".to_owned() } else { cell(source.near.get(unit), &name, unit) });
            }
        }
        out.push_str(if source.lines.is_empty() { "<td><ul><li>nothing</li>" } else { "<td><ul>" });
        for (words, peers) in &source.lines {
            let peers = self.crowd.said(peers, source.from).join(", ");
            out.push_str(&format!("<li><b>{}</b> to {}</li>", escaped(words), escaped(&peers)));
        }
        out.push_str("</ul></td></tr>\n");
    }

    /// The workloads of a namespace, if a grid of them can be read.
    fn columns(&self, namespace: &str) -> &[&'m str] {
        self.units.get(namespace).map(Vec::as_slice).filter(|it| it.len() <= WORKLOADS).unwrap_or_default()
    }

    fn begin_section(&mut self, out: &mut String, section: Section<'m>) {
        self.open = Some(section);
        let (id, title, units) = match section {
            Section::Namespace(namespace) => (format!("ns-{namespace}"), format!("from {namespace}"), self.columns(namespace)),
            Section::Outside => ("outside".to_owned(), "from outside of the cluster".to_owned(), &[][..]),
        };
        let fold = if self.units.len() <= UNFOLDED { " open" } else { "" };
        out.push_str(&format!("<details id=\"{}\"{fold}>\n<summary>{}</summary>\n", escaped(&id), escaped(&title)));
        if let Section::Namespace(namespace) = section {
            let count = self.units.get(namespace).map_or(0, Vec::len);
            if count > WORKLOADS {
                out.push_str(&format!("<p>{count} workloads are too many for a grid between them.</p>\n"));
            }
        }
        out.push_str("<div class=\"wide\"><table class=\"grid\">\n<tr><td></td>");
        for unit in units {
            let own = unit.split_once('/').map_or(*unit, |it| it.1);
            out.push_str(&format!("<th class=\"v\"><span>{}</span></th>", escaped(short(own))));
        }
        out.push_str(if self.about.denied { "<th>may not open</th></tr>\n" } else { "<th>may open</th></tr>\n" });
    }

    fn end_section(&mut self, out: &mut String) {
        if self.open.take().is_some() {
            out.push_str("</table></div>\n</details>\n");
        }
    }

    /// How the page ends.
    pub(crate) fn finish(&mut self, out: &mut String) {
        self.end_source(out);
        self.without_rows(out, None);
        self.end_section(out);
        out.push_str(&format!("<script>\n{SCRIPT}</script>\n</body>\n</html>\n"));
    }
}

fn pair(words: &mut Words, sets: &PortSets, row: &Row<'_>) -> Pair {
    let mut said = words.with_family(sets, row);
    let cell = Cell::of(row, &said);
    if row.only_some != PortSetId::NONE {
        said.push_str(" (some pods)");
    }
    Pair { cell, words: said }
}

/// Each family has a row of its own, and both are one cell.
fn note<K: Ord>(pairs: &mut BTreeMap<K, Pair>, key: K, pair: Pair) {
    match pairs.get_mut(&key) {
        Some(known) => known.words = format!("{}; {}", known.words, pair.words),
        None => drop(pairs.insert(key, pair)),
    }
}

fn cell(pair: Option<&Pair>, from: &str, to: &str) -> String {
    match pair {
        None => "<td></td>".to_owned(),
        Some(it) => {
            let title = escaped(&format!("{from} → {to}: {}", it.words));
            format!("<td class=\"{}\" title=\"{title}\"></td>", it.cell.class())
        }
    }
}
