use super::*;

fn filled(cache: &mut KvCache, hashes: &[u64]) -> Table {
    let mut table = Table::default();
    let blocks = hashes.len() as u32;
    assert!(cache.share(hashes, blocks, &mut table).is_some());
    assert!(cache.grow(&mut table, blocks));
    cache.name(&mut table, hashes, blocks);
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
    cache.check_invariants([&second].into_iter());
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
    let mut unnamed = Table::default();
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
    let (mut a, mut b) = (Table::default(), Table::default());
    assert!(cache.grow(&mut a, 1) && cache.grow(&mut b, 1));
    cache.name(&mut a, &[7], 1);
    cache.name(&mut b, &[7], 1);
    cache.release(&mut b);
    assert_eq!((cache.indexed(), cache.matched(&[7])), (1, 1));
    cache.check_invariants([&a].into_iter());
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

// A very large cache costs nothing at first. Blocks that were never used are taken before cached
// ones.
#[test]
fn memory_follows_use() {
    let mut cache = KvCache::new(u32::MAX);
    let mut table = filled(&mut cache, &[1, 2, 3]);
    assert_eq!((table.len(), cache.total(), cache.referenced()), (3, u32::MAX, 3));
    cache.release(&mut table);
    assert!(cache.grow(&mut table, 2), "there are unused blocks");
    assert_eq!((table.len(), cache.matched(&[1, 2, 3])), (2, 3));
}

// Two prompts that part after a while share the blocks before that point, and the first one keeps
// all of its own, whichever ends first.
#[test]
fn a_run_is_split_where_prompts_part() {
    for first_ends in [true, false] {
        let mut cache = KvCache::new(9);
        let mut first = filled(&mut cache, &[1, 2, 3, 4]);
        if first_ends {
            cache.release(&mut first);
        }
        let mut second = filled(&mut cache, &[1, 2, 5]);
        cache.check_invariants([&first, &second].into_iter());
        assert_eq!(cache.referenced(), if first_ends { 3 } else { 5 });
        cache.release(&mut second);
        cache.release(&mut first);
        assert_eq!((cache.matched(&[1, 2, 3, 4]), cache.matched(&[1, 2, 5])), (4, 3));
    }
}

// A table can be cut anywhere: within a run, between two, and among blocks without a name.
#[test]
fn tables_are_cut() {
    for at in 0..=6 {
        let mut cache = KvCache::new(8);
        let hashes = [1, 2, 3, 4, 5];
        let other = filled(&mut cache, &hashes[..2]);
        let mut table = filled(&mut cache, &hashes);
        assert!(cache.grow(&mut table, 6));
        let mut rest = cache.split_off(&mut table, at, &hashes);
        assert_eq!((table.len(), rest.len()), (at, 6 - at));
        cache.check_invariants([&other, &table, &rest].into_iter());
        cache.release(&mut rest);
        assert_eq!(cache.referenced(), at.max(2));
        cache.release(&mut table);
        cache.check_invariants([&other].into_iter());
        assert_eq!((cache.referenced(), cache.matched(&hashes)), (2, 5));
    }
}
