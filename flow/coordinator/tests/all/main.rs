//! The coordinator with real nodes: gates that connect over TCP.

mod common;
mod connections;
mod orders;
