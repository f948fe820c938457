//! Random clusters through every judge, for as long as wanted.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use palisade_testkit::differential::{Settings, Tally, run as judge};

use crate::workspace::optimized;

/// How long, where to start, and how many at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Options {
    minutes: u64,
    seed: u64,
    threads: usize,
}

/// Between two words about how far it is.
const ROUND: Duration = Duration::from_secs(60);
const MOST_MINUTES: u64 = 7 * 24 * 60;

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let options = Options::read(arguments)?;
    if cfg!(debug_assertions) {
        return optimized(&[&["differential"], arguments].concat());
    }
    let (start, time) = (Instant::now(), Duration::from_secs(options.minutes * 60));
    let mut total = Tally { next_seed: options.seed, ..Tally::default() };
    while let Some(left) = time.checked_sub(start.elapsed()).filter(|it| !it.is_zero()) {
        let settings = Settings { seed: total.next_seed, time: left.min(ROUND), threads: options.threads };
        match judge(settings) {
            Ok(tally) => total.add(&tally),
            Err(find) => {
                println!("{total}");
                bail!("the judges disagree about the cluster of seed {}:\\n{}", find.seed, find.scenario);
            }
        }
        println!("{total}");
    }
    Ok(())
}

impl Options {
    fn read(arguments: &[&str]) -> Result<Options> {
        let mut options = Options { minutes: 1, seed: 0, threads: 2 };
        let mut rest = arguments;
        while let [name, value, tail @ ..] = rest {
            let number: u64 = value.parse().with_context(|| format!("`{name} {value}`: not a number"))?;
            match *name {
                "--minutes" if (1..=MOST_MINUTES).contains(&number) => options.minutes = number,
                "--minutes" => bail!("`--minutes {value}`: from 1 to {MOST_MINUTES}"),
                "--seed" => options.seed = number,
                "--threads" if (1..=256).contains(&number) => options.threads = usize::try_from(number)?,
                "--threads" => bail!("`--threads {value}`: from 1 to 256"),
                other => bail!("`{other}` is no option of `differential`"),
            }
            rest = tail;
        }
        match rest {
            [] => Ok(options),
            rest => bail!("`{}` is no option of `differential`, or has no value", rest.join(" ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_bounded_and_known() {
        let read = Options::read(&["--minutes", "90", "--seed", "7", "--threads", "1"]).unwrap();
        assert_eq!(read, Options { minutes: 90, seed: 7, threads: 1 });
        for wrong in [&["--minutes", "0"][..], &["--minutes", "x"], &["--threads", "0"], &["--seed"], &["--fast", "1"]] {
            assert!(Options::read(wrong).is_err(), "{wrong:?}");
        }
    }
}
