//! The tenants of a run with several regions: an open one, and one whose requests stay in eu.
//!
//! Their keys are not secret: they belong to a fleet that listens on loopback only. They are listed
//! here with their SHA-256 in the form of `meridian tenant-key`.

use std::fmt::Write;

use super::{CENTRAL, Demand, Options};

/// Key of the open tenant.
pub(super) const VISITORS: &str = "visitors-of-this-machine";
const VISITORS_HASH: &str =
    "sha256:dd31497288eed11c5328751aa826e94ac79e0cc74ab6b3d3c425de51fa71fcae";
/// Key of the tenant whose requests stay in eu.
pub(super) const EU_ONLY: &str = "eu-only-on-this-machine";
const EU_ONLY_HASH: &str =
    "sha256:361219a67412110872bea8783e13a8dd896d63c2c58a4ead9904b8735dad7660";
/// The region in the rule.
pub(super) const REGION: &str = "eu";
/// First line of the tenants' section.
pub(super) const HEAD: &str = "tenants:\n";

/// Whether a run has tenants: if a region other than the rule's has its own gateway. Runs with
/// faults have none: the restricted requests could not be retried elsewhere.
pub(super) fn are_there(options: &Options) -> bool {
    let broken_on_purpose = matches!(options.demand, Demand::Steady | Demand::Demo);
    if broken_on_purpose || options.topology == CENTRAL {
        return false;
    }
    options.regions.len() > 1 && options.regions.iter().any(|region| region == REGION)
}

/// Lines of a gateway's configuration. After an odd number of edits there is one more tenant, with
/// its own rule.
pub(super) fn config(edits: u32) -> String {
    // The load uses headers to count which replica and which peer answered.
    let mut yaml = format!("tell_clients: all\n{HEAD}");
    for (name, hash) in [("visitors", VISITORS_HASH), ("eu-only", EU_ONLY_HASH)] {
        let _ = writeln!(yaml, "  - {{name: {name}, keys: [\"{hash}\"]}}");
    }
    let passing = (edits % 2 == 1).then_some("passing");
    if let Some(name) = passing {
        let _ = writeln!(yaml, "  - {{name: {name}, keys: [\"sha256:{edits:064x}\"]}}");
    }
    yaml.push_str("residency:\n  rules:\n");
    for tenant in ["eu-only"].into_iter().chain(passing) {
        let _ = writeln!(yaml, "    - {{name: {tenant}, tenants: [{tenant}], run_in: [{REGION}]}}");
    }
    yaml
}

/// The keys of a load's sessions, each for the same share of them.
const KEYS: [&str; 4] = [VISITORS, VISITORS, VISITORS, EU_ONLY];

/// Arguments of a load: a quarter of its sessions belong to the tenant with the rule.
pub(super) fn load_args() -> Vec<String> {
    KEYS.iter().flat_map(|key| ["--api-key".to_owned(), (*key).to_owned()]).collect()
}

impl Options {
    /// How many of this many clients send requests that a rule binds to a region, and its index; none
    /// if the run has no rule.
    #[must_use]
    pub fn bound(&self, clients: u32) -> Option<(u32, usize)> {
        let region = self.regions.iter().position(|region| region == REGION)?;
        let keys = KEYS.iter().filter(|key| **key == EU_ONLY).count() as u32;
        are_there(self).then_some((clients * keys / KEYS.len() as u32, region))
    }
}
