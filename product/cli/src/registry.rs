//! The commands of a control plane's operators: replicas, regions, gateways and policies.

mod ask;
mod gateways;
mod moved;
mod policy;
mod regions;
mod replicas;
pub(crate) mod table;

pub(crate) use gateways::Gateways;
pub(crate) use moved::{Export, Import};
pub(crate) use policy::Policies;
pub(crate) use regions::Regions;
pub(crate) use replicas::Replicas;

/// A path of the control plane that accepts unknown names if `force` is set.
fn forced(path: String, force: bool) -> String {
    if force { path + "?force=true" } else { path }
}

/// Splits `NAME=VALUE` at the first `=`.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` has no name and value: put `=` between them")),
    }
}
