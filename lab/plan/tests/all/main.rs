//! Plans beside an exhaustive search, a linear program and a published testbed.
//!
//! One test program, so that the libraries are linked once.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod testbed;
