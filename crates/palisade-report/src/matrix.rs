//! A matrix in the forms that others read: csv, Markdown, Graphviz, JSON. Each row is written by itself, so that none has to be kept.

use std::collections::HashMap;

use palisade_analysis::matrix::{Name, Row};
use palisade_engine::{PortSetId, PortSets, Traffic};

use crate::v1::{Matrix, MatrixEnd, MatrixRow, MatrixTraffic};

/// Sets of traffic in words, each worked out once.
#[derive(Debug, Default)]
pub struct Words(HashMap<(PortSetId, PortSetId), String>);

/// What is written before the rows.
pub const CSV_HEAD: &str = "src,dst,conn\n";
/// What is written before the rows.
pub const MARKDOWN_HEAD: &str = "| from | to | connections |\n|---|---|---|\n";
/// What is written before the rows.
pub const DOT_HEAD: &str = "digraph connections {\n  rankdir=LR;\n  node [shape=box];\n";
/// What is written after the rows.
pub const DOT_END: &str = "}\n";

impl Words {
    /// `TCP 80,443,UDP 53`, `All Connections`, `No Connections`; what depends on a domain name is told apart.
    pub fn of(&mut self, sets: &PortSets, row: &Row<'_>) -> &str {
        self.0.entry((row.allowed, row.depends_on_dns)).or_insert_with(|| {
            let dns = sets.parts(row.depends_on_dns);
            let allowed = words(&sets.parts(row.allowed));
            match (row.allowed == PortSetId::NONE, dns.is_empty()) {
                (_, true) => allowed,
                (true, false) => format!("depends on DNS: {}", words(&dns)),
                (false, false) => format!("{allowed}; depends on DNS: {}", words(&dns)),
            }
        })
    }

    /// The same with its family, where the families differ.
    pub(crate) fn with_family(&mut self, sets: &PortSets, row: &Row<'_>) -> String {
        let words = self.of(sets, row);
        row.family.map_or_else(|| words.to_owned(), |family| format!("{words} ({family})"))
    }
}

/// `TCP 80,443,UDP 53`; `Other` is every protocol without ports.
pub(crate) fn words(parts: &[Traffic]) -> String {
    let whole = |it: &Traffic| matches!(it, Traffic::Rest | Traffic::Ports { first: 0..=1, last: u16::MAX, .. });
    if parts.is_empty() {
        return "No Connections".to_owned();
    }
    if parts.len() == 4 && parts.iter().all(whole) {
        return "All Connections".to_owned();
    }
    let mut out = String::new();
    let mut before = None;
    for part in parts {
        out.push_str(if out.is_empty() { "" } else { "," });
        match part {
            Traffic::Ports { protocol, first, last } => {
                if before != Some(protocol) {
                    out.push_str(&format!("{protocol} ").to_uppercase());
                }
                before = Some(protocol);
                out.push_str(&if first == last { first.to_string() } else { format!("{first}-{last}") });
            }
            Traffic::Rest => out.push_str("Other"),
        }
    }
    out
}

/// A line of csv, by RFC 4180.
pub fn csv(out: &mut String, words: &mut Words, sets: &PortSets, row: &Row<'_>) {
    name(out, row.from, csv_field);
    out.push(',');
    name(out, row.to, csv_field);
    out.push(',');
    match row.family {
        None => csv_field(out, words.of(sets, row)),
        Some(_) => csv_field(out, &words.with_family(sets, row)),
    }
    out.push('\n');
}

fn name(out: &mut String, name: Name<'_>, field: impl Fn(&mut String, &str)) {
    match name {
        Name::Unit { name, .. } => field(out, name),
        Name::Range { .. } => field(out, &name.to_string()),
    }
}

pub(crate) fn csv_field(out: &mut String, text: &str) {
    if !text.contains(['"', ',', '\n', '\r']) {
        out.push_str(text);
        return;
    }
    out.push('"');
    out.push_str(&text.replace('"', "\"\""));
    out.push('"');
}

/// A line of a Markdown table.
pub fn markdown(out: &mut String, words: &mut Words, sets: &PortSets, row: &Row<'_>) {
    let some = if row.only_some == PortSetId::NONE { "" } else { " (some pods)" };
    let cell = |text: &str| text.replace('|', "\\|");
    let words = words.with_family(sets, row);
    out.push_str(&format!("| {} | {} | {}{some} |\n", cell(&row.from.to_string()), cell(&row.to.to_string()), cell(&words)));
}

/// An edge of a graph; dashed where not every pod has it, or it depends on a domain name.
pub fn dot(out: &mut String, words: &mut Words, sets: &PortSets, row: &Row<'_>) {
    let sure = row.only_some == PortSetId::NONE && row.depends_on_dns == PortSetId::NONE;
    let style = if sure { "" } else { ", style=dashed" };
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let words = words.with_family(sets, row);
    let (from, to) = (quoted(&row.from.to_string()), quoted(&row.to.to_string()));
    out.push_str(&format!("  \"{from}\" -> \"{to}\" [label=\"{}\"{style}];\n", quoted(&words)));
}

/// A row for programs.
pub fn json(words: &mut Words, sets: &PortSets, row: &Row<'_>) -> MatrixRow {
    let parts = |set| sets.parts(set).iter().map(traffic).collect();
    MatrixRow {
        from: end(row.from),
        to: end(row.to),
        family: row.family.map(|it| it.to_string()),
        connections: words.of(sets, row).to_owned(),
        allowed: parts(row.allowed),
        only_some_pods: parts(row.only_some),
        depends_on_dns: parts(row.depends_on_dns),
    }
}

/// What is written before the rows and after them: a document that has none yet, cut open.
pub fn json_frame(without_rows: &Matrix) -> serde_json::Result<(String, String)> {
    let whole = serde_json::to_string_pretty(without_rows)?;
    // No string in JSON has a line break, so this is the field itself.
    let (head, end) = whole.split_once("\n  \"rows\": []").unwrap_or((&whole, ""));
    Ok((format!("{head}\n  \"rows\": ["), format!("]{end}\n")))
}

/// A row inside of such a document.
pub fn json_line(out: &mut String, row: &MatrixRow, is_first: bool) -> serde_json::Result<()> {
    out.push_str(if is_first { "\n" } else { ",\n" });
    let text = serde_json::to_string_pretty(row)?;
    for (at, line) in text.lines().enumerate() {
        out.push_str(if at == 0 { "    " } else { "\n    " });
        out.push_str(line);
    }
    Ok(())
}

fn end(it: Name<'_>) -> MatrixEnd {
    let (namespace, addresses) = match it {
        Name::Unit { namespace, .. } => (Some(namespace.to_owned()), None),
        Name::Range { first, last } => (None, Some([first.to_string(), last.to_string()])),
    };
    MatrixEnd { name: it.to_string(), namespace, addresses }
}

pub(crate) fn traffic(it: &Traffic) -> MatrixTraffic {
    match it {
        Traffic::Ports { protocol, first, last } => {
            MatrixTraffic { protocol: protocol.to_string(), first: Some(*first), last: Some(*last) }
        }
        Traffic::Rest => MatrixTraffic { protocol: "other".to_owned(), first: None, last: None },
    }
}

#[cfg(test)]
mod tests {
    use palisade_model::PortProtocol;

    use super::*;

    fn ports(protocol: PortProtocol, first: u16, last: u16) -> Traffic {
        Traffic::Ports { protocol, first, last }
    }

    #[test]
    fn traffic_is_said_by_protocol() {
        use PortProtocol::{Sctp, Tcp, Udp};
        assert_eq!(words(&[ports(Tcp, 80, 80), ports(Tcp, 443, 443), ports(Udp, 53, 53)]), "TCP 80,443,UDP 53");
        assert_eq!(words(&[ports(Tcp, 1, 1023), Traffic::Rest]), "TCP 1-1023,Other");
        let all = [Tcp, Udp, Sctp].map(|it| ports(it, 1, u16::MAX));
        assert_eq!(words(&[&all[..], &[Traffic::Rest]].concat()), "All Connections");
        assert_eq!(words(&all), "TCP 1-65535,UDP 1-65535,SCTP 1-65535");
        assert_eq!(words(&[]), "No Connections");
    }

    #[test]
    fn fields_of_csv_are_quoted_where_they_must_be() {
        let quoted = |text: &str| {
            let mut out = String::new();
            csv_field(&mut out, text);
            out
        };
        assert_eq!(quoted("TCP 80"), "TCP 80");
        assert_eq!(quoted("TCP 80,443"), "\"TCP 80,443\"");
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
    }
}
