//! Measurements, as ratios to a baseline that is measured in the same run: other machines and busy neighbours cancel out.
//!
//! CPU time is what is compared: elapsed time says more about the neighbours. Whatever is compared takes turns, so that what slows the
//! machine down slows all.

mod broken;
mod clock;
mod engine;
mod kernel;
mod parse;

use std::fmt::Write as _;

use anyhow::{Context as _, Result};

pub(crate) use engine::engine;
pub(crate) use kernel::{kernel, sweep};
pub(crate) use parse::parse;

/// Of several measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Result<Spread> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().context("nothing was measured");
        let median = (at(sorted.len().saturating_sub(1) / 2)? + at(sorted.len() / 2)?) / 2.0;
        Ok(Spread { median, least: at(0)?, most: at(sorted.len() - 1)? })
    }
}

/// A measurement of a program that is not optimised is worth nothing: runs the one that is.
fn optimized(what: &str, arguments: &[&str]) -> Result<()> {
    crate::workspace::optimized(&[&["bench", what], arguments].concat())
}

/// What is printed: one line for each thing measured.
#[derive(Debug)]
struct Table<'a> {
    title: &'a str,
    unit: &'a str,
    /// Printed numbers are measured ones times this.
    scale: f64,
    /// Digits after the point.
    digits: usize,
}

/// One line: its name, what was measured, and how that compares with the baseline.
type Line<'a> = (&'a str, Spread, Option<f64>);

impl Table<'_> {
    fn text(&self, lines: &[Line<'_>]) -> String {
        let Table { title, unit, scale, digits } = self;
        let names = lines.iter().map(|(name, ..)| name.chars().count());
        let width = names.chain([title.chars().count()]).max().unwrap_or_default();
        let last = if lines.iter().any(|(.., ratio)| ratio.is_some()) { "ratio" } else { "" };
        let mut text = format!("\n{}\n", format!("{title:<width$} {:>12} {:>24} {last:>8}", "median", "least .. most").trim_end());
        for (name, spread, ratio) in lines {
            let between = format!("{:.digits$} .. {:.digits$}", spread.least * scale, spread.most * scale);
            let median = format!("{:.digits$} {unit}", spread.median * scale);
            let ratio = ratio.map_or_else(String::new, |it| format!("{it:.2}"));
            let line = format!("{name:<width$} {median:>12} {between:>24} {ratio:>8}");
            let written = writeln!(text, "{}", line.trim_end());
            debug_assert!(written.is_ok());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one_or_between_two() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]).unwrap(), Spread { median: 2.0, least: 1.0, most: 3.0 });
        assert_eq!(Spread::of(&[4.0, 1.0]).unwrap(), Spread { median: 2.5, least: 1.0, most: 4.0 });
        assert!(Spread::of(&[]).is_err());
    }

    #[test]
    fn a_line_of_the_table_has_a_ratio_where_there_is_one() {
        let spread = |median| Spread { median, least: median, most: median };
        let table = Table { title: "time", unit: "ms", scale: 1e3, digits: 1 };
        let text = table.text(&[("plain", spread(0.01), Some(1.0)), ("own", spread(0.025), Some(2.5)), ("other", spread(1.0), None)]);
        let lines: Vec<Vec<&str>> = text.lines().skip(2).map(|it| it.split_whitespace().collect()).collect();
        let expected = [
            vec!["plain", "10.0", "ms", "10.0", "..", "10.0", "1.00"],
            vec!["own", "25.0", "ms", "25.0", "..", "25.0", "2.50"],
            vec!["other", "1000.0", "ms", "1000.0", "..", "1000.0"],
        ];
        assert_eq!(lines, expected);
    }
}
