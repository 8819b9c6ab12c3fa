//! `meridian`: the one binary.

fn main() {}
