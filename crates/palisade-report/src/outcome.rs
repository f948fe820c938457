//! Exit status of each answer, decided from the answer itself.

use crate::v1;

/// Exit status of a command: yes (0), no (1) or undecided (2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Allowed, clean, as expected.
    Yes,
    /// Denied, or something was found.
    No,
    /// The input does not allow an answer.
    CouldNotTell,
}

impl Outcome {
    /// `No` if something was found, else `Yes`.
    pub fn found(found: bool) -> Outcome {
        if found { Outcome::No } else { Outcome::Yes }
    }

    /// The exit code of a process.
    pub fn code(self) -> u8 {
        match self {
            Outcome::Yes => 0,
            Outcome::No => 1,
            Outcome::CouldNotTell => 2,
        }
    }

    /// The outcome of an exit code. Codes that no outcome has count as undecided.
    pub fn of_code(code: u8) -> Outcome {
        match code {
            0 => Outcome::Yes,
            1 => Outcome::No,
            2.. => Outcome::CouldNotTell,
        }
    }
}

impl v1::Explanation {
    /// Whether the connection is allowed.
    pub fn outcome(&self) -> Outcome {
        use v1::Verdict;
        match (self.trusted, self.verdict) {
            (true, Verdict::Allowed) => Outcome::Yes,
            (true, Verdict::Denied) => Outcome::No,
            (true, Verdict::DependsOnDns | Verdict::Mixed | Verdict::NoEndpoints | Verdict::Unknown) | (false, _) => Outcome::CouldNotTell,
        }
    }
}

impl v1::TestReport {
    /// Whether every expectation holds.
    pub fn outcome(&self) -> Outcome {
        match (self.trusted, self.unknown, self.failed) {
            (false, _, _) => Outcome::CouldNotTell,
            (true, _, 1..) => Outcome::No,
            (true, 1.., 0) => Outcome::CouldNotTell,
            (true, 0, 0) => Outcome::Yes,
        }
    }
}

impl v1::Allowance {
    /// Whether the connection is allowed, or a NetworkPolicy can allow it.
    pub fn outcome(&self) -> Outcome {
        match self.outcome {
            v1::AllowOutcome::AllowedAlready | v1::AllowOutcome::Proposed => Outcome::Yes,
            v1::AllowOutcome::Useless => Outcome::No,
        }
    }
}

impl v1::Conversion {
    /// Whether reach is the same before and after.
    pub fn outcome(&self) -> Outcome {
        let lost = self.losses.iter().any(|it| it.weight != v1::ConversionWeight::Form);
        match self.reach {
            v1::ConversionReach::Same => Outcome::Yes,
            v1::ConversionReach::Changed => Outcome::No,
            v1::ConversionReach::NotCompared if lost => Outcome::CouldNotTell,
            v1::ConversionReach::NotCompared => Outcome::Yes,
        }
    }
}

impl v1::OverrideReport {
    /// Whether nothing is overridden and no equal priority matters.
    pub fn outcome(&self) -> Outcome {
        let conflict = |it: &v1::OverrideTie| it.kind == v1::OverrideTieKind::Conflict;
        let cluster = self.cluster_policies.iter().any(|it| !it.overrides.is_empty() || it.ties.iter().any(conflict));
        let mut parts = self.network_policies.iter().flat_map(|it| &it.parts);
        Outcome::found(cluster || parts.any(|it| it.overridden != v1::OverriddenExtent::Nothing))
    }
}

impl v1::Status {
    /// Whether every object was counted: refused objects are missing.
    pub fn outcome(&self) -> Outcome {
        let refused = self.diagnostics.iter().any(|it| it.severity == "error");
        if refused { Outcome::CouldNotTell } else { Outcome::Yes }
    }
}

impl v1::Verification {
    /// Whether the kernel does what policy says, after the repair if there was one.
    pub fn outcome(&self) -> Outcome {
        Outcome::found(!self.repaired.as_ref().map_or(self.holds, |it| it.left.is_empty()))
    }

    /// Names of all findings that are more than a note, with their objects.
    pub fn unresolved(&self) -> Vec<String> {
        let findings = self.findings.iter().filter(|it| it.weight != v1::VerifyWeight::Note);
        let mut names: Vec<String> = findings.map(|it| format!("{} ({})", it.name, it.object)).collect();
        names.dedup();
        names
    }
}

impl v1::AuditReport {
    /// Whether no connection that was seen would change.
    pub fn outcome(&self) -> Outcome {
        Outcome::found(self.sets.iter().any(|it| !it.breaks.is_empty() || !it.opens.is_empty()))
    }
}
