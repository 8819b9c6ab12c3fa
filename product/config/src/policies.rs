//! The policies that configurations may name.
//!
//! They are the routing machine's own, unless the program knows more and installs its list when it
//! starts. A list is the same for the whole process, as are the words of a configuration.

use std::sync::OnceLock;

use meridian_routing::policy::{self, Spec};

static INSTALLED: OnceLock<&'static [&'static Spec]> = OnceLock::new();

/// Makes these the policies, for the rest of the process. Programs call it before they read a
/// configuration. The first call counts.
pub fn install(list: &'static [&'static Spec]) {
    assert!(!list.is_empty(), "a program has policies");
    INSTALLED.get_or_init(|| list);
}

/// The policies, in the order in which lists have them.
#[must_use]
pub fn all() -> &'static [&'static Spec] {
    INSTALLED.get().copied().unwrap_or(policy::ALL)
}

/// The policy called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Spec> {
    all().iter().find(|spec| spec.name == name).copied()
}

/// Whether the program installed more than the routing machine's own.
pub(crate) fn has_more() -> bool {
    all().len() > policy::ALL.len()
}
