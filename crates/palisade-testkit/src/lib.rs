//! Scenario reader, the third judge, generators, check functions.
