//! The semantics, naive and short: the judge of all others.
