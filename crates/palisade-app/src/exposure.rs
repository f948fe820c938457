//! `palisade exposure`: to whom each workload is exposed.

use palisade_analysis::exposure::{Exposures, Protection, expose};
use palisade_analysis::matrix::Selection;
use palisade_model::Direction;
use palisade_report::exposure::{Only, exposed};
use palisade_report::{Outcome, v1};

use crate::cluster::Cluster;
use crate::error::AppError;

/// Why one namespace is not enough.
pub const WHOLE_CLUSTER: &str =
    "exposure is about the whole cluster, and pods of other namespaces would not be read; `--focus` shows one namespace";

/// Which workloads are wanted, and which of them are a failure.
#[derive(Clone, Debug)]
pub struct ExposureOptions {
    /// Only workloads of this end.
    pub focus: Option<String>,
    /// Only this direction.
    pub direction: Option<Direction>,
    /// Only the worst.
    pub only: Only,
    /// What makes the outcome `No`.
    pub fail_on: FailOn,
}

/// What makes the outcome `No`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailOn {
    /// A workload that no policy of any tier selects, or not all of its pods.
    Unprotected,
    /// A workload that is open to addresses outside of the cluster.
    Outside,
    /// Nothing.
    None,
}

/// Exposure of workloads.
#[derive(Debug)]
pub struct Exposed {
    /// The report.
    pub report: v1::Exposure,
    /// All workloads, which the text form needs to shorten lists of them.
    pub exposures: Exposures,
    /// Whether nothing of `FailOn` was found.
    pub outcome: Outcome,
}

/// Finds out to whom workloads are exposed.
pub fn exposure(cluster: &Cluster, options: &ExposureOptions) -> Result<Exposed, AppError> {
    cluster.whole(WHOLE_CLUSTER)?;
    cluster.complete("no exposure can be trusted")?;
    cluster.with_pods()?;
    let model = &cluster.snapshot.model;
    let parse = |text: &String| Selection::parse(model, text).map_err(|error| AppError::option(format!("`--focus`: {error}")));
    let focus = options.focus.as_ref().map(parse).transpose()?;
    if let Some(Selection::Outside(address)) = focus {
        return Err(AppError::option(format!(
            "`--focus {address}`: exposure is told of workloads; `palisade matrix --from {address}` shows what an address may open"
        )));
    }
    let exposures = expose(model, focus.as_ref());
    // The order of the report, which is not that of a packet.
    let directions = [Direction::Ingress, Direction::Egress].into_iter().filter(|it| options.direction.is_none_or(|only| only == *it));
    let directions: Vec<Direction> = directions.collect();
    let mut report = exposed(&exposures, &directions, options.only, &cluster.limits());
    report.diagnostics = cluster.diagnostics();
    let outcome = Outcome::found(is_found(&exposures, &directions, options.fail_on));
    Ok(Exposed { report, exposures, outcome })
}

fn is_found(exposures: &Exposures, directions: &[Direction], fail_on: FailOn) -> bool {
    let mut sides = exposures.workloads.iter().flat_map(|it| directions.iter().map(|direction| it.sides.of(*direction)));
    match fail_on {
        FailOn::Unprotected => sides.any(|it| it.protection != Protection::Policy),
        FailOn::Outside => sides.any(|it| it.is_open_outside()),
        FailOn::None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SHOP, cluster};

    fn options(focus: &str) -> ExposureOptions {
        ExposureOptions {
            focus: Some(focus.to_owned()),
            direction: Some(Direction::Ingress),
            only: Only::Everything,
            fail_on: FailOn::Unprotected,
        }
    }

    #[test]
    fn a_workload_without_a_policy_is_unprotected() {
        for (focus, protected_by, outcome) in [("shop/db", "policy", Outcome::Yes), ("shop/web", "nothing", Outcome::No)] {
            let found = exposure(&cluster(SHOP), &options(focus)).unwrap();
            let rows: Vec<&str> = found.report.rows.iter().map(|it| it.exposed.protected_by.as_str()).collect();
            assert_eq!((rows.as_slice(), found.outcome), (&[protected_by][..], outcome));
        }
    }

    #[test]
    fn an_address_has_no_exposure() {
        let error = exposure(&cluster(SHOP), &options("192.0.2.1")).unwrap_err().to_string();
        assert!(error.starts_with("`--focus 192.0.2.1`: exposure is told of workloads"), "{error}");
    }
}
