//! The routing machine: one region's decisions.
#![no_std]
