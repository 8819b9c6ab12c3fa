//! The prefix cache under a trace, for `fit/lru.py`: the first argument is the number of blocks,
//! each line of stdin one request's block hashes in order; prints the share of blocks found.
#![allow(clippy::unwrap_used, reason = "a tool for developers may panic")]

use meridian_engine::KvCache;
use std::io::BufRead;

fn main() {
    let blocks: u32 = std::env::args().nth(1).unwrap().parse().unwrap();
    let mut cache = KvCache::new(blocks);
    let (mut found, mut all, mut table) = (0, 0, Vec::new());
    for line in std::io::stdin().lock().lines() {
        let hashes: Vec<u64> =
            line.unwrap().split_whitespace().map(|word| word.parse().unwrap()).collect();
        let shared = cache.matched(&hashes);
        found += u64::from(shared);
        all += hashes.len() as u64;
        cache.share(&hashes[..shared as usize], &mut table);
        assert!(cache.grow(&mut table, hashes.len() as u32), "no request is larger than the cache");
        for (block, hash) in table.iter().zip(&hashes) {
            cache.name(*block, *hash);
        }
        cache.release(&mut table);
    }
    println!("{:.2}", 100.0 * found as f64 / all as f64);
}
