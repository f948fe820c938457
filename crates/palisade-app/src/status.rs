//! `palisade status`: what was read.

use palisade_report::v1;

use crate::cluster::Cluster;

/// Counts pods and policies. Refused objects are missing from the counts.
pub fn status(cluster: &Cluster) -> v1::Status {
    palisade_report::status(&cluster.snapshot, cluster.controller.names(), cluster.unavailable.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outcome;
    use crate::testing::{BROKEN, SHOP, cluster};

    #[test]
    fn refused_objects_make_the_count_incomplete() {
        let whole = status(&cluster(SHOP));
        assert_eq!((whole.ends.pods, whole.outcome()), (3, Outcome::Yes));
        assert_eq!(status(&cluster(BROKEN)).outcome(), Outcome::CouldNotTell);
    }
}
