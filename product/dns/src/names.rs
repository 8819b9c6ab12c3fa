//! What a name is in the zone.

use hickory_proto::rr::Name;

use crate::fleet::{Fleet, Region};
use crate::zone::{Server, Zone};

/// What a name is.
pub(crate) enum What<'a> {
    /// Not in the zone.
    Outside,
    /// The zone's own name: the nearest region.
    Apex,
    /// `REGION.ZONE`: that region and no other.
    Region(&'a str, &'a Region),
    /// A name server.
    Server(&'a Server),
    /// A name without records above one that has some (RFC 8020: it exists).
    Between,
    /// In the zone, and not there.
    Missing,
}

/// Finds a name, whatever its case. A name server goes before a region of the same name.
pub(crate) fn find<'a>(zone: &'a Zone, fleet: &'a Fleet, name: &Name) -> What<'a> {
    if !zone.name.zone_of(name) {
        return What::Outside;
    }
    // All labels are counted: `num_labels` of hickory leaves out a first label `*`.
    let deeper = name.iter().count() - zone.name.iter().count();
    if deeper == 0 {
        return What::Apex;
    }
    if let Some(server) = zone.servers.iter().find(|server| server.name == *name) {
        return What::Server(server);
    }
    if deeper == 1
        && let Some((name, region)) = region_of(fleet, name)
    {
        return What::Region(name, region);
    }
    if zone.servers.iter().any(|server| name.zone_of(&server.name)) {
        return What::Between;
    }
    What::Missing
}

/// The region that the first label names.
fn region_of<'a>(fleet: &'a Fleet, name: &Name) -> Option<(&'a str, &'a Region)> {
    let label = std::str::from_utf8(name.iter().next()?).ok()?.to_ascii_lowercase();
    fleet.regions.get_key_value(&label).map(|(name, region)| (name.as_str(), region))
}
