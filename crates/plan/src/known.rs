//! Built-in topologies: HeroServe's.

/// Name and file of each.
pub const TOPOLOGIES: [(&str, &str); 3] = [
    ("heroserve-testbed", include_str!("../topologies/heroserve-testbed.yaml")),
    ("heroserve-2track", include_str!("../topologies/heroserve-2track.yaml")),
    ("heroserve-8track", include_str!("../topologies/heroserve-8track.yaml")),
];
