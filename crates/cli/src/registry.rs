//! The commands that ask a control plane: replicas, regions, gateways, policies.

mod ask;
mod gateways;
mod policy;
mod regions;
mod replicas;
mod table;

pub(crate) use gateways::Gateways;
pub(crate) use policy::Policies;
pub(crate) use regions::Regions;
pub(crate) use replicas::Replicas;

/// A path of the control plane that goes ahead with names that are not known yet, where `force` is set.
fn forced(path: String, force: bool) -> String {
    if force { path + "?force=true" } else { path }
}

/// Splits a name from what it is given, at the first `=`.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` has no name and value: put `=` between them")),
    }
}
