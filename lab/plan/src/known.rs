//! Built-in topologies: HeroServe's, and a pair of servers.

/// Name and file of each.
pub const TOPOLOGIES: [(&str, &str); 4] = [
    ("heroserve-testbed", include_str!("../topologies/heroserve-testbed.yaml")),
    ("heroserve-2track", include_str!("../topologies/heroserve-2track.yaml")),
    ("heroserve-8track", include_str!("../topologies/heroserve-8track.yaml")),
    ("two-h100", include_str!("../topologies/two-h100.yaml")),
];
