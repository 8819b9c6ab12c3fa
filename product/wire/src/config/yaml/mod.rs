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
mod syntax;
mod tree;

pub(crate) use diagnose::diagnose;
pub use foreign::Format;
pub(crate) use tree::Document;

/// The known name that a misspelt one resembles most.
#[must_use]
pub fn closest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    /// Below this the names have little in common.
    const SIMILAR: f64 = 0.8;
    let plain = |name: &str| name.to_ascii_lowercase().replace('-', "_");
    let name = plain(name);
    let scored = known.iter().map(|one| (strsim::jaro_winkler(&name, &plain(one)), *one));
    let best = scored.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (best.0 >= SIMILAR).then_some(best.1)
}

/// A remedy that suggests the closest name, if any, and lists the known ones.
#[must_use]
pub fn suggest(name: &str, known: &[&str]) -> String {
    let list = known.join(", ");
    match closest(name, known) {
        Some(one) if known.len() > 1 => format!("did you mean `{one}`? Use one of {list}"),
        _ => format!("use one of {list}"),
    }
}

#[cfg(test)]
mod tests;
