use super::*;

fn filled(cache: &mut KvCache, hashes: &[u64]) -> Vec<u32> {
    let mut table = Vec::new();
    let blocks = hashes.len() as u32;
    assert!(cache.share(hashes, blocks, &mut table).is_some());
    assert!(cache.grow(&mut table, blocks));
    for (block, hash) in table.iter().zip(hashes) {
        cache.name(*block, *hash);
    }
    table
}

// The next sequence with the same prefix finds the blocks that an earlier one released, without
// taking new ones.
#[test]
fn released_blocks_are_found_again() {
    let mut cache = KvCache::new(8);
    let mut first = filled(&mut cache, &[1, 2, 3]);
    cache.release(&mut first);
    assert_eq!((cache.referenced(), cache.indexed()), (0, 3));
    let second = filled(&mut cache, &[1, 2, 9]);
    assert_eq!((cache.referenced(), cache.indexed()), (3, 4));
    cache.check_invariants(second.into_iter());
}

// Under pressure the oldest prefix is evicted first, its tail before its head, and empty blocks
// before any prefix.
#[test]
fn eviction_takes_the_oldest_tail_first() {
    let mut cache = KvCache::new(4);
    for hashes in [[1, 2], [3, 4]] {
        let mut table = filled(&mut cache, &hashes);
        cache.release(&mut table);
    }
    let mut unnamed = Vec::new();
    assert!(cache.grow(&mut unnamed, 1));
    assert_eq!((cache.matched(&[1, 2]), cache.matched(&[3, 4])), (1, 2));
    cache.release(&mut unnamed);
    assert!(cache.grow(&mut unnamed, 1), "the empty block is taken, not another prefix");
    assert_eq!((cache.matched(&[1, 2]), cache.evictions()), (1, 1));
}

// Of two copies of one block, the first is in the index, and the second is empty when released.
#[test]
fn a_second_copy_is_not_indexed() {
    let mut cache = KvCache::new(4);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    assert!(cache.grow(&mut a, 1) && cache.grow(&mut b, 1));
    cache.name(a[0], 7);
    cache.name(b[0], 7);
    cache.release(&mut b);
    assert_eq!((cache.indexed(), cache.matched(&[7])), (1, 1));
    cache.check_invariants(a.into_iter());
}

// A match without references still uses a free block; a sequence that does not fit takes nothing.
#[test]
fn idle_matches_count() {
    let mut cache = KvCache::new(4);
    let mut table = filled(&mut cache, &[1, 2]);
    cache.release(&mut table);
    assert_eq!((cache.share(&[1, 2], 5, &mut table), table.len()), (None, 0));
    assert_eq!((cache.share(&[1, 2], 4, &mut table), table.len()), (Some(2), 2));
}

// A cache takes memory for the blocks that were used, so a very large one costs nothing at first.
// Blocks that were never used come in order, before cached ones.
#[test]
fn memory_follows_use() {
    let mut cache = KvCache::new(u32::MAX);
    let mut table = filled(&mut cache, &[1, 2, 3]);
    assert_eq!((&table[..], cache.total(), cache.referenced()), (&[0, 1, 2][..], u32::MAX, 3));
    cache.release(&mut table);
    assert!(cache.grow(&mut table, 2), "there are unused blocks");
    assert_eq!((&table[..], cache.matched(&[1, 2, 3])), (&[3, 4][..], 3));
}
