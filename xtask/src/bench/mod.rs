//! Measurements, as ratios to a baseline that is measured in the same run: other machines and busy neighbours cancel out.
//!
//! CPU time is what is compared: elapsed time says more about the neighbours. Whatever is compared takes turns, so that what slows the
//! machine down slows all.

mod broken;
mod clock;
mod engine;
mod kernel;
mod parse;
mod readers;

use std::fmt::Write as _;

use anyhow::{Context as _, Result};

pub(crate) use engine::engine;
pub(crate) use kernel::{agent, kernel, sweep};
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

/// Where the middle lies, with what could as well be so: 95 of 100 such ranges hold the true median.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Middle {
    median: f64,
    low: f64,
    high: f64,
}

impl Middle {
    fn of(values: &[f64]) -> Result<Middle> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        // Each value is below the median or above it, like a coin: places that are further out than 1.96 deviations are left out.
        let count = f64::from(u32::try_from(sorted.len()).context("too many values")?);
        let left_out = ((count - 1.96 * count.sqrt()) / 2.0).max(1.0);
        let skip = (0..sorted.len()).zip(1_u32..).take_while(|(_, place)| f64::from(*place) < left_out).count();
        let low = sorted.get(skip).copied().context("nothing was measured")?;
        let high = sorted.get(sorted.len() - 1 - skip).copied().context("nothing was measured")?;
        Ok(Middle { median: Spread::of(values)?.median, low, high })
    }

    /// Whether it is at least that much.
    fn at_least(self, wanted: f64) -> Judged {
        match (self.low >= wanted, self.high >= wanted) {
            (true, _) => Judged::Met,
            (false, true) => Judged::Inconclusive,
            (false, false) => Judged::Missed,
        }
    }

    /// Whether it is at most that much.
    fn at_most(self, wanted: f64) -> Judged {
        Middle { median: -self.median, low: -self.high, high: -self.low }.at_least(-wanted)
    }
}

/// What a measurement says of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judged {
    Met,
    Missed,
    /// The range holds values on both sides.
    Inconclusive,
}

impl std::fmt::Display for Judged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Judged::Met => "met",
            Judged::Missed => "missed",
            Judged::Inconclusive => "inconclusive",
        })
    }
}

/// A line of what the kernel says of this process, in MiB.
fn resident(line: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("cannot read the status of this process")?;
    let found = status.lines().find_map(|it| it.strip_prefix(line)).context("no such line in the status of this process")?;
    let kib: u64 = found.trim().trim_end_matches(" kB").parse().context("not a number of kB")?;
    Ok(kib / 1024)
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
    fn a_target_is_met_missed_or_not_told_apart() {
        let middle = Middle { median: 0.97, low: 0.96, high: 0.98 };
        assert_eq!(
            [0.95, 0.96, 0.97, 0.98, 0.99].map(|it| middle.at_least(it).to_string()),
            ["met", "met", "inconclusive", "inconclusive", "missed"]
        );
        assert_eq!(
            [0.95, 0.96, 0.97, 0.98, 0.99].map(|it| middle.at_most(it).to_string()),
            ["missed", "inconclusive", "inconclusive", "met", "met"]
        );
        let values: Vec<f64> = (1..=21_u8).map(f64::from).collect();
        assert_eq!(Middle::of(&values).unwrap(), Middle { median: 11.0, low: 7.0, high: 15.0 });
        assert_eq!(Middle::of(&[3.0, 1.0, 2.0]).unwrap(), Middle { median: 2.0, low: 1.0, high: 3.0 });
        assert!(Middle::of(&[]).is_err());
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
