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
const EU_ONLY: &str = "eu-only-on-this-machine";
const EU_ONLY_HASH: &str =
    "sha256:361219a67412110872bea8783e13a8dd896d63c2c58a4ead9904b8735dad7660";
/// The region that the rule names.
const REGION: &str = "eu";

/// Whether a run has tenants: where there is another region than the one that the rule names, with a
/// gateway of its own. What breaks on purpose has none: it would have nowhere else to go.
pub(super) fn are_there(options: &Options) -> bool {
    let broken_on_purpose = options.demand == Demand::Steady;
    if broken_on_purpose || options.topology == CENTRAL {
        return false;
    }
    options.regions.len() > 1 && options.regions.iter().any(|region| region == REGION)
}

/// Lines of a gateway's configuration.
pub(super) fn config() -> String {
    // The load counts by the headers which replica and which peer answered.
    let mut yaml = String::from("tell_clients: all\ntenants:\n");
    for (name, hash) in [("visitors", VISITORS_HASH), ("eu-only", EU_ONLY_HASH)] {
        let _ = writeln!(yaml, "  - {{name: {name}, keys: [\"{hash}\"]}}");
    }
    let rule = format!("{{name: eu-only, tenants: [eu-only], run_in: [{REGION}]}}");
    let _ = writeln!(yaml, "residency:\n  rules:\n    - {rule}");
    yaml
}

/// Arguments of a load: a quarter of its sessions are the tenant's that a rule keeps.
pub(super) fn load_args() -> Vec<String> {
    let keys = [VISITORS, VISITORS, VISITORS, EU_ONLY];
    keys.iter().flat_map(|key| ["--api-key".to_owned(), (*key).to_owned()]).collect()
}
