//! The meaning of an error of the kernel: for the next attempt, and for whether the kernel holds a ruleset.

use nix::errno::Errno;
use palisade_kernel::KernelError;
use palisade_nft::Ruleset;

/// Whether the same work may go well at once. Nothing of it is in force.
pub(super) fn is_passing(error: &KernelError) -> bool {
    let passing = |errno: &Errno| [Errno::EBUSY, Errno::EINTR, Errno::EAGAIN, Errno::ENOBUFS].contains(errno);
    matches!(error, KernelError::Unsteady(_))
        || matches!(error, KernelError::Socket { errno, .. } if passing(errno))
        || matches!(error, KernelError::Refused(refusals) if refusals.iter().all(|it| passing(&it.errno)))
}

/// Whether a transaction may be in force all the same.
pub(super) fn is_lost(error: &KernelError) -> bool {
    matches!(error, KernelError::Overrun | KernelError::Timeout(_) | KernelError::Truncated(_))
}

/// Whether an object was missing, or existed already, when a step came to it: the table is not what it was when the steps were planned.
pub(super) fn is_stale(error: &KernelError) -> bool {
    let stale = |errno: &Errno| [Errno::ENOENT, Errno::EEXIST, Errno::EBUSY].contains(errno);
    matches!(error, KernelError::Refused(refusals) if refusals.iter().any(|it| stale(&it.errno)))
}

/// Whether a map has no room for more.
pub(super) fn is_full(error: &KernelError) -> bool {
    matches!(error, KernelError::Refused(refusals) if refusals.iter().any(|it| it.errno == Errno::ENFILE))
}

/// Whether the cause may be that the table is not what it was left as.
pub(super) fn is_about_the_table(error: &KernelError) -> bool {
    is_lost(error) || matches!(error, KernelError::Refused(_))
}

/// Whether the kernel would keep the same for both rulesets: everything but the origins.
pub(crate) fn same(found: &Ruleset, wanted: &Ruleset) -> bool {
    let Ruleset { layout, chains, data, intervals, verdicts, sets, pairs, addresses, tuples, origins: _ } = found;
    *layout == wanted.layout
        && *chains == wanted.chains
        && *data == wanted.data
        && *intervals == wanted.intervals
        && *verdicts == wanted.verdicts
        && *sets == wanted.sets
        && *pairs == wanted.pairs
        && *addresses == wanted.addresses
        && *tuples == wanted.tuples
}
