//! What an agent has done and met since it started, in numbers that only grow.

use std::collections::BTreeMap;

use palisade_kernel::KernelError;

/// The numbers of one agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions that came into force.
    pub commits: u64,
    /// What the kernel was asked and did not do, attempt by attempt, by the number or kind of the error.
    pub failures: BTreeMap<String, u64>,
    /// Attempts after one that failed for a passing reason.
    pub retries: u64,
    /// Changes and checks that did not come true; what was in force stays so.
    pub unfulfilled: u64,
    /// Tables that were written whole in place of another.
    pub replacements: u64,
    /// Those among them that were of another layout.
    pub takeovers: u64,
    /// How often the whole was looked at because notifications of changes were lost.
    pub resyncs: u64,
    /// Tables that were put back after somebody else had changed them.
    pub restorations: u64,
    /// Logged packets that were never read.
    pub events_lost: u64,
    /// Packets that were dropped because they could not be tracked.
    pub untracked: u64,
    /// Tracked connections that made room for others.
    pub evictions: u64,
    /// Times that the rulesets were lowered from scratch and compared with those kept up to date.
    pub recomputations: u64,
    /// Those among them that gave another ruleset, which was applied.
    pub mismatches: u64,
}

/// One number with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Stable, and of the letters that Prometheus takes; without what all have in front and at the end.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// What tells it apart from others of the name, and its value.
    pub label: Option<(&'static str, String)>,
    pub value: u64,
}

impl Counts {
    pub(crate) fn failed(&mut self, error: &KernelError) {
        *self.failures.entry(error.reason()).or_default() += 1;
    }

    /// Every number, in a fixed order; failures by their reasons.
    pub fn counters(&self) -> Vec<Counter> {
        let Counts { commits, failures, retries, unfulfilled, replacements, takeovers, resyncs, restorations, .. } = self;
        let Counts { events_lost, untracked, evictions, recomputations, mismatches, .. } = self;
        let one = |name, help, value: &u64| Counter { name, help, label: None, value: *value };
        let mut counters = vec![one("commits", "transactions that came into force", commits)];
        counters.extend(failures.iter().map(|(reason, value)| Counter {
            name: "kernel_failures",
            help: "what the kernel was asked and did not do, by reason",
            label: Some(("reason", reason.clone())),
            value: *value,
        }));
        counters.extend([
            one("retries", "attempts after one that failed for a passing reason", retries),
            one("unfulfilled", "changes and checks that did not come true; what was in force stayed so", unfulfilled),
            one("replacements", "tables that were written whole in place of another", replacements),
            one("takeovers", "tables of another layout that were replaced", takeovers),
            one("resyncs", "times that the whole was looked at because notifications were lost", resyncs),
            one("restorations", "tables that were put back after somebody else had changed them", restorations),
            one("events_lost", "logged packets that were never read", events_lost),
            one("untracked_packets", "packets that were dropped because their connection could not be tracked", untracked),
            one("evicted_connections", "tracked connections that made room for others", evictions),
            one("recomputations", "times that the rulesets were lowered from scratch and compared", recomputations),
            one("recomputation_mismatches", "recomputations that gave another ruleset, which was applied", mismatches),
        ]);
        counters
    }

    /// Both together.
    #[must_use]
    pub fn and(mut self, other: &Counts) -> Counts {
        other.failures.iter().for_each(|(reason, count)| *self.failures.entry(reason.clone()).or_default() += count);
        self.commits += other.commits;
        self.retries += other.retries;
        self.unfulfilled += other.unfulfilled;
        self.replacements += other.replacements;
        self.takeovers += other.takeovers;
        self.resyncs += other.resyncs;
        self.restorations += other.restorations;
        self.events_lost += other.events_lost;
        self.untracked += other.untracked;
        self.evictions += other.evictions;
        self.recomputations += other.recomputations;
        self.mismatches += other.mismatches;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(number: u64) -> Counts {
        Counts {
            commits: number,
            failures: BTreeMap::from([("ENOMEM".to_owned(), number), (format!("E{number}"), 1)]),
            retries: number + 1,
            unfulfilled: number + 2,
            replacements: number + 3,
            takeovers: number + 4,
            resyncs: number + 5,
            restorations: number + 6,
            events_lost: number + 7,
            untracked: number + 8,
            evictions: number + 9,
            recomputations: number + 10,
            mismatches: number + 11,
        }
    }

    #[test]
    fn no_number_is_left_out_or_taken_for_another() {
        let values = |counts: &Counts| counts.counters().iter().map(|it| it.value).collect::<Vec<_>>();
        assert_eq!(values(&all(10)), [10, 1, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21]);
        let sum = all(10).and(&all(20));
        assert_eq!(values(&sum), [30, 1, 1, 30, 32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52]);
        let names: std::collections::BTreeSet<&str> = sum.counters().iter().map(|it| it.name).collect();
        assert_eq!(names.len(), 13);
    }
}
