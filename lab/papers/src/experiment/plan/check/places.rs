//! Problems with what a workload says of regions: outages and residency.

use super::known;
use crate::experiment::spec::{Regions, Workload};

/// Problems with the outages of a workload, and with the regions that may serve its requests.
pub(super) fn problems(name: &str, workload: &Workload, regions: &Regions) -> Vec<String> {
    let names = || regions.regions.iter().map(|place| &place.name);
    let mut found = Vec::new();
    for (at, outage) in workload.faults.iter().enumerate() {
        let field = format!("{name}.faults[{at}]");
        found.extend(known(&format!("{field}.lost"), outage.lost.region(), names()));
        let (from, until) = (outage.from, outage.until);
        if !(0.0 <= from && from < until && until <= 1.0) {
            found.push(format!(
                "{field}: from {from} until {until} is not a part of the window; use shares of it, 0 \
                 to 1, the smaller one first"
            ));
        }
    }
    for (at, load) in workload.loads.iter().enumerate() {
        for (region, served) in &load.may_run_in {
            let field = format!("{name}.loads[{at}].may_run_in");
            found.extend(known(&field, region, names()));
            found.extend(served.iter().filter_map(|one| known(&field, one, names())));
            if served.is_empty() {
                found.push(format!("{field}.{region}: empty; name the regions that may serve"));
            }
        }
    }
    found
}
