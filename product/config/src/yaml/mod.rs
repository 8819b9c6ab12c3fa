//! The reader of configuration files for people: it finds every mistake of a file at once, each with
//! its line, field, value and remedy.
//!
//! `serde_saphyr` decides whether a file is valid and gives the values. It stops at the first
//! mistake and describes it in terms of the parser. If it fails, [`diagnose()`] reads the file again:
//! as a tree of [`node::Node`]s with lines, then as the configuration, repeatedly. Each round that
//! fails reports one mistake and takes the wrong part out of the tree.
//!
//! No message quotes a line of the file, since a line may contain a secret.

mod diagnose;
mod fault;
mod foreign;
mod node;
mod path;
mod read;
mod shape;
mod stray;
mod syntax;
mod tree;

pub(crate) use diagnose::diagnose;
pub use foreign::Format;
pub(crate) use stray::stray;
pub(crate) use tree::Document;

#[cfg(test)]
mod tests;
