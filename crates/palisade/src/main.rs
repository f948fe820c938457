//! The binary: arguments to one of the other crates, and nothing else.

fn main() {}
