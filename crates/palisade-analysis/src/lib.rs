//! Questions over decided policy: explain, expectations.
