//! ci, tidy, codegen, bench.

fn main() {}
