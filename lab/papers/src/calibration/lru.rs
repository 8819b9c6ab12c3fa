//! The prefix cache under a real trace, against its known LRU curve.
//!
//! An hour of production chat (Mooncake, FAST'25, Apache-2.0) as a tree: each request shares its
//! first blocks with an earlier one and adds its own. A plain LRU over one pool of blocks, computed
//! independently of this code, finds the shares in [`CURVE`].

use meridian_base::mix;
use meridian_engine::{KvCache, Table};

/// Blocks of the cache, and the percentage of the trace's blocks that an LRU of that size finds.
pub const CURVE: [(u32, f64); 6] =
    [(1_000, 4.5), (3_000, 6.5), (10_000, 21.2), (30_000, 32.6), (50_000, 35.5), (100_000, 36.4)];

/// The trace: each request's block hashes.
#[must_use]
pub fn trace() -> Vec<Vec<u64>> {
    let csv = include_str!("../../data/calibration/mooncake-blocks.csv");
    let mut requests: Vec<Vec<u64>> = Vec::new();
    for (id, row) in csv.lines().skip(1).enumerate() {
        let cells: Vec<usize> =
            row.split(',').map(|cell| cell.parse().expect("the file holds counts")).collect();
        let mut own: Vec<u64> = match requests.get(cells[0]) {
            Some(parent) => parent[..cells[1]].to_vec(),
            None => Vec::new(),
        };
        own.extend((cells[1]..cells[2]).map(|block| mix(id as u64, block as u64)));
        requests.push(own);
    }
    requests
}

/// The percentage of the trace's blocks that the engine's cache of this size finds.
///
/// # Panics
/// When a request is larger than the cache.
#[must_use]
pub fn hit_percentage(trace: &[Vec<u64>], blocks: u32) -> f64 {
    let mut cache = KvCache::new(blocks);
    let (mut found, mut all, mut table) = (0, 0, Table::default());
    for hashes in trace {
        let blocks = hashes.len() as u32;
        let shared = cache.share(hashes, blocks, &mut table);
        found += u64::from(shared.expect("no request is larger than the cache"));
        all += u64::from(blocks);
        assert!(cache.grow(&mut table, blocks), "what fits can be grown");
        cache.name(&mut table, hashes, blocks);
        cache.release(&mut table);
    }
    100.0 * found as f64 / all as f64
}
