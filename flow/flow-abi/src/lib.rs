//! The flow gate behind a C ABI, for connectors in engines of other languages.
//!
//! `include/meridian_flow.h` is made from this crate by `./x docs`. Gates and transfers are numbers
//! that are looked up, so a call with a gate that was closed, or with a number that never was one, gets
//! an error. Only strings, buffers and lists of ports are real pointers. No call panics into the
//! caller: a defect in here is the error [`MERIDIAN_FAILED`], and the caller
//! sends without a permit.

mod calls;
mod codes;
mod exports;
mod gates;
mod memory;

pub use codes::*;
pub use exports::*;
