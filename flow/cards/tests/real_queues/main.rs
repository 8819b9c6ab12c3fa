//! Traffic classes on a real kernel: two network namespaces, joined by a pair of devices that our
//! rules shape to 1 Gb/s.
//!
//! Needs root, `ip` and `tc`, and a kernel with network namespaces, veth, HTB, TBF and u32; it fails
//! where one is missing. It asserts where bytes go and prints times.

mod burst;
mod classes;
mod floor;
mod load;
mod pair;
mod rules;
