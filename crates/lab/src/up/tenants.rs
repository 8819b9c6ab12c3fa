//! The tenants of several regions: anybody's, and one whose requests stay in eu.
//!
//! Their keys are no secrets: they open a fleet that listens on this machine alone. Here they stand
//! with their SHA-256, as `meridian tenant-key` makes it.

use std::fmt::Write;

use super::{CENTRAL, Demand, Options};

/// Opens the gateways for everybody.
pub(super) const VISITORS: &str = "visitors-of-this-machine";
const VISITORS_HASH: &str =
    "sha256:dd31497288eed11c5328751aa826e94ac79e0cc74ab6b3d3c425de51fa71fcae";
/// Opens them for the tenant whose requests stay in eu.
pub(super) const EU_ONLY: &str = "eu-only-on-this-machine";
const EU_ONLY_HASH: &str =
    "sha256:361219a67412110872bea8783e13a8dd896d63c2c58a4ead9904b8735dad7660";
/// The region that the rule names.
pub(super) const REGION: &str = "eu";
/// How the section of the tenants begins.
pub(super) const HEAD: &str = "tenants:\n";

/// Whether a run has tenants: where there is another region than the one that the rule names, with a
/// gateway of its own. What breaks on purpose has none: it would have nowhere else to go.
pub(super) fn are_there(options: &Options) -> bool {
    let broken_on_purpose = options.demand == Demand::Steady;
    if broken_on_purpose || options.topology == CENTRAL {
        return false;
    }
    options.regions.len() > 1 && options.regions.iter().any(|region| region == REGION)
}

/// Lines of a gateway's configuration. After an odd number of edits there is one more tenant, with a
/// rule of its own.
pub(super) fn config(edits: u32) -> String {
    // The load counts by the headers which replica and which peer answered.
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

/// Arguments of a load: a quarter of its sessions are the tenant's that a rule keeps.
pub(super) fn load_args() -> Vec<String> {
    let keys = [VISITORS, VISITORS, VISITORS, EU_ONLY];
    keys.iter().flat_map(|key| ["--api-key".to_owned(), (*key).to_owned()]).collect()
}
