//! Mistakes that the simulation must find.

use palisade_model::Changes;

use crate::core::job::Stage;
use crate::core::state::{Input, State};

/// One mistake in the core or in its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// A pod is admitted before the frames of its interface are checked.
    LinksAreNotCovered,
    /// The chain of an interface goes before the ruleset that admits its pod.
    LinksAreUncoveredFirst,
    /// The connections of a reused address stay.
    ReusedAddressesKeepConnections,
    /// An unknown pod is opened before its programs are in force.
    UnknownPodsOpenFirst,
    /// An unknown pod is opened without a grace behind its programs.
    UnknownPodsOpenWithoutGrace,
    /// Blocked replies pass again without a grace.
    RepliesPassWithoutGrace,
    /// Connections are read while packets are on their way that met the ruleset before.
    SweepWithoutGrace,
    /// The lowering does not hear of changed policies.
    LoweringMissesPolicies,
    /// The lowering does not hear of pods of other nodes that go.
    LoweringMissesPods,
    /// Connections that a change touches are not judged again.
    TouchedConnectionsStay,
    /// A sweep that failed is not repeated.
    FailedSweepsAreDropped,
    /// Changes of tables by others are taken for own ones.
    StrangersAreTakenForUs,
    /// A table that was put back is not reported.
    RestorationsAreNotReported,
    /// A change that arrives during a job is lost.
    ChangesDuringJobsAreLost,
    /// A change that failed is not tried again.
    FailedChangesAreDropped,
    /// Routes are listed once.
    RoutesAreNotListedAgain,
    /// The host takes a lost answer for success.
    LostAnswersCountAsSuccess,
    /// The host gives a new interface the index of the old one.
    InterfaceIndexesAreReused,
    /// The host deletes no connection.
    NothingIsForgotten,
}

impl Mistake {
    pub(crate) const ALL: [Mistake; 19] = [
        Mistake::LinksAreNotCovered,
        Mistake::LinksAreUncoveredFirst,
        Mistake::ReusedAddressesKeepConnections,
        Mistake::UnknownPodsOpenFirst,
        Mistake::UnknownPodsOpenWithoutGrace,
        Mistake::RepliesPassWithoutGrace,
        Mistake::SweepWithoutGrace,
        Mistake::LoweringMissesPolicies,
        Mistake::LoweringMissesPods,
        Mistake::TouchedConnectionsStay,
        Mistake::FailedSweepsAreDropped,
        Mistake::StrangersAreTakenForUs,
        Mistake::RestorationsAreNotReported,
        Mistake::ChangesDuringJobsAreLost,
        Mistake::FailedChangesAreDropped,
        Mistake::RoutesAreNotListedAgain,
        Mistake::LostAnswersCountAsSuccess,
        Mistake::InterfaceIndexesAreReused,
        Mistake::NothingIsForgotten,
    ];

    /// The stages of a job with this mistake.
    pub(crate) fn stages(self, stages: &mut Vec<Stage>) {
        let without = match self {
            Mistake::LinksAreNotCovered => vec![Stage::CoverLinks],
            Mistake::LinksAreUncoveredFirst | Mistake::UnknownPodsOpenFirst => Vec::new(),
            Mistake::ReusedAddressesKeepConnections => vec![Stage::ReadReused],
            Mistake::UnknownPodsOpenWithoutGrace => vec![Stage::SettleUnknown],
            Mistake::RepliesPassWithoutGrace => vec![Stage::SettleReplies],
            // A job that has nothing else to do would never end.
            Mistake::SweepWithoutGrace if stages.len() > 1 => vec![Stage::Settle],
            _ => return,
        };
        stages.retain(|it| !without.contains(it));
        let first: &[Stage] = match self {
            Mistake::LinksAreUncoveredFirst => &[Stage::UncoverLinks],
            Mistake::UnknownPodsOpenFirst => &[Stage::ListRoutes, Stage::SettleUnknown, Stage::WriteUnknown],
            _ => return,
        };
        if let Some(rules) = stages.iter().position(|it| *it == Stage::Rules) {
            stages.retain(|it| !first.contains(it));
            let rules = rules.min(stages.len());
            stages.splice(rules..rules, first.iter().copied());
        }
    }

    /// The changes that the lowering hears of with this mistake.
    pub(crate) fn lowered(self, mut changes: Changes) -> Changes {
        match self {
            Mistake::LoweringMissesPolicies if changes.policies.iter().all(|it| it.old.is_some()) => changes.policies.clear(),
            Mistake::LoweringMissesPods => changes.endpoints.retain(|it| it.new.is_some()),
            _ => {}
        }
        changes
    }
}

/// The places where a state makes its mistake.
impl State {
    pub(crate) fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    pub(crate) fn make_mistake_in_stages(&mut self) {
        if let (Some(job), Some(mistake)) = (&mut self.job, self.mistake) {
            let mut stages = std::mem::take(&mut job.stages).into();
            mistake.stages(&mut stages);
            job.stages = stages.into();
        }
    }

    pub(crate) fn ignores_by_mistake(&self, input: &Input) -> bool {
        match input {
            Input::Changed(_) => self.job.is_some() && self.makes(Mistake::ChangesDuringJobsAreLost),
            Input::RoutesChanged => self.makes(Mistake::RoutesAreNotListedAgain),
            Input::Heard(_) => self.makes(Mistake::StrangersAreTakenForUs),
            _ => false,
        }
    }
}
