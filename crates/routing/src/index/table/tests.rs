//! The table alone, with keys chosen to collide.

use super::*;
use meridian_base::Rng;

/// Adds and removes `count` keys in a random order and compares every step with a list.
fn churn(seed: u64, count: usize, key: impl Fn(u64) -> u64) {
    let mut rng = Rng::new(seed);
    let mut table = Table::new(count);
    let mut keys: Vec<Option<u64>> = vec![None; count];
    for step in 0..20 * count {
        let place = rng.below(count) as u32;
        let known = keys.clone();
        let key_of = |p: u32| known[p as usize].expect("a listed place has a key");
        match keys[place as usize].take() {
            Some(old) => table.remove(old, place, key_of),
            None => {
                let new = key(rng.next_u64());
                table.insert(new, place, key_of);
                keys[place as usize] = Some(new);
            }
        }
        if step % 16 == 0 {
            let taken = table.check(|p| keys[p as usize].expect("a listed place has a key"));
            assert_eq!(taken, keys.iter().flatten().count());
        }
        let probe = rng.below(count) as u32;
        let found = keys[probe as usize].and_then(|k| table.find(k, |p| p == probe));
        assert_eq!(found, keys[probe as usize].map(|_| probe));
    }
}

// Ordinary keys, table full to its limit: every key is found, absent ones are not.
#[test]
fn finds_what_was_added() {
    for seed in 0..8 {
        churn(seed, 200, |r| r);
    }
}

// All keys share one home or two, so that distances pass 31 and wrap around the end: the slots
// no longer tell the distance, and the entries' keys do.
#[test]
fn survives_keys_that_collide() {
    churn(1, 120, |r| r & 0xFF);
    churn(2, 120, |r| r | 0xFFFF_FFFF_0000_0000);
    churn(3, 120, |r| ((r & 1) * 0xF000_0000_0000_0000) | (r & 0xFF));
}

// A key that nobody added is not found, also when its home is taken.
#[test]
fn does_not_find_the_absent() {
    let mut table = Table::new(4);
    table.insert(7, 0, |_| 7);
    assert_eq!(table.find(7, |_| true), Some(0));
    assert_eq!(table.find(8, |_| true), None);
    table.remove(7, 0, |_| 7);
    assert_eq!(table.find(7, |_| true), None);
}
