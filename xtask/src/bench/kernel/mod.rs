//! What Palisade's ruleset costs in the kernel, next to what conntrack alone costs and to other ways to write the same policies.
//!
//! Every design has three network namespaces of its own, client → router → server, and all are there at the same time. They are measured
//! in turns, by the CPU time of one thread that stays on one CPU and owns both ends of everything. A ruleset is measured only after it was
//! seen to let through what it should, and nothing else.

mod agent;
mod changes;
mod cluster;
mod ground;
mod report;
mod rows;
mod rulesets;
mod sweep;
mod targets;
mod traffic;

pub(crate) use self::agent::agent;
pub(crate) use self::sweep::sweep;
use anyhow::{Context as _, Result, bail};
use palisade_nft::Ruleset;
use std::sync::Arc;

use self::changes::{Lowered, Pod, logging, lowered};
use self::cluster::{PolicyTypes, Size, Stack};
use self::rows::Rows;
use crate::bench::{clock, optimized};

const ROUNDS: usize = 21;
const MOST_ROUNDS: usize = 99;
/// How often a ruleset is loaded, and a pod added.
const LOADS: usize = 5;
const PODS: usize = 51;

/// How much to measure.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    rounds: usize,
    extent: Extent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Whole,
    /// Smaller clusters, shorter turns: to see that it works, not to quote.
    Quick,
}

pub(crate) fn kernel(arguments: &[&str]) -> Result<()> {
    let options = Options::read(arguments)?;
    if cfg!(debug_assertions) {
        return optimized("kernel", arguments);
    }
    eprintln!("lowering");
    let clusters = Clusters::lower(options.extent)?;
    // A thread of its own: it is pinned, and moves between namespaces.
    let measured = std::thread::scope(|scope| scope.spawn(|| measure(&options, &clusters)).join());
    measured.map_err(|_| anyhow::anyhow!("the measuring thread has panicked"))?
}

fn measure(options: &Options, clusters: &Clusters) -> Result<()> {
    clock::pin()?;
    eprintln!("setting up");
    let mut rows = Rows::set_up(clusters, options.extent)?;
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        rows.round()?;
    }
    report::traffic(&rows)?;
    let changes = report::changes(&rows, clusters)?;
    targets::print(&rows, clusters, &changes)?;
    report::conditions(options, clusters, &rows)
}

/// The clusters that are measured.
#[derive(Debug)]
struct Clusters {
    /// Ingress only, one family, by their number of policies.
    by_size: Vec<Lowered>,
    /// Both directions and both families.
    dual: Lowered,
    /// The second of `by_size` again, in which every policy wants to have logged what it accepts.
    logging: Arc<Ruleset>,
}

impl Clusters {
    fn lower(extent: Extent) -> Result<Clusters> {
        let size = |policies, remote, groups| Size { policies, remote, groups, types: PolicyTypes::Ingress, stack: Stack::V4 };
        let (small, medium, large) = match extent {
            Extent::Whole => (size(100, 100_000, 50), size(1_000, 100_000, 100), Some(size(10_000, 100_000, 160))),
            Extent::Quick => (size(100, 2_000, 50), size(1_000, 2_000, 100), None),
        };
        let dual = Size { types: PolicyTypes::IngressAndEgress, stack: Stack::Dual, ..size(1_000, 2_000, 100) };
        std::thread::scope(|scope| {
            let large = large.map(|size| scope.spawn(move || lowered(size, &[Pod::Remote, Pod::Local])));
            let mut by_size = vec![lowered(small, &[]), lowered(medium, &[Pod::Remote, Pod::Local])];
            let dual = lowered(dual, &[]);
            let logging = logging(medium);
            if let Some(large) = large {
                by_size.push(large.join().map_err(|_| anyhow::anyhow!("lowering has panicked"))?);
            }
            Ok(Clusters { by_size, dual, logging })
        })
    }
}

impl Options {
    fn read(arguments: &[&str]) -> Result<Options> {
        let mut options = Options { rounds: ROUNDS, extent: Extent::Whole };
        let mut rest = arguments;
        loop {
            rest = match rest {
                [] => return Ok(options),
                ["--quick", tail @ ..] => {
                    options.extent = Extent::Quick;
                    tail
                }
                ["--rounds", value, tail @ ..] => {
                    options.rounds = value.parse().with_context(|| format!("`--rounds {value}`: not a number"))?;
                    if !(1..=MOST_ROUNDS).contains(&options.rounds) {
                        bail!("`--rounds {value}`: from 1 to {MOST_ROUNDS}");
                    }
                    tail
                }
                other => bail!("`{}` is no option of `bench kernel`, or has no value", other.join(" ")),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_bounded_and_known() {
        assert_eq!(Options::read(&[]).unwrap(), Options { rounds: 21, extent: Extent::Whole });
        assert_eq!(Options::read(&["--quick", "--rounds", "3"]).unwrap(), Options { rounds: 3, extent: Extent::Quick });
        for wrong in [&["--rounds", "0"][..], &["--rounds", "1000"], &["--rounds"], &["--quick", "yes"]] {
            assert!(Options::read(wrong).is_err(), "{wrong:?}");
        }
    }
}
