//! Shares of greedy connections: the floor holds, and the order below it.

use meridian_cards::queues::{COLLECTIVE, Classes, EIGHT, KV};

use crate::load::Greedy;
use crate::pair::Pair;

const MIB: u64 = 1 << 20;

// Beside greedy collectives, KV gets about its floor of 10 %, and unmarked traffic its 5 %.
#[test]
fn the_floor_holds() {
    let pair = Pair::new();
    pair.shape(Classes::Two);
    let classes = [Some(COLLECTIVE), Some(COLLECTIVE), Some(KV), None];
    let greedy = Greedy::start(&pair, &classes);
    greedy.after(32 * MIB);
    let shares = greedy.shares(96 * MIB);
    println!("\nbeside two greedy collectives: KV {:.3}, unmarked {:.3}", shares[2], shares[3]);
    assert!((0.07..0.2).contains(&shares[2]), "KV's floor is 0.10: {shares:?}");
    assert!((0.03..0.15).contains(&shares[3]), "unmarked traffic's share is 0.05: {shares:?}");
}

// Without collectives, KV and unmarked traffic share the leftovers: neither pushes the other down
// to its guarantee.
#[test]
fn kv_and_downloads_share_the_leftovers() {
    let pair = Pair::new();
    pair.shape(Classes::Two);
    let greedy = Greedy::start(&pair, &[Some(KV), None]);
    greedy.after(32 * MIB);
    let shares = greedy.shares(96 * MIB);
    println!("\nwithout collectives: KV {:.3}, unmarked {:.3}", shares[0], shares[1]);
    assert!(shares.iter().all(|share| *share > 0.3), "{shares:?}");
}

// Eight classes: KV as a whole has the floor, and within it a fetch that is needed sooner goes
// first. Once collectives are done, the same order has the whole link.
#[test]
fn eight_classes_are_in_order() {
    let pair = Pair::new();
    pair.shape(Classes::Eight);
    let [near, far, waits] = [EIGHT[2], EIGHT[5], EIGHT[7]].map(Some);
    let kv = Greedy::start(&pair, &[near, far, waits]);
    let collectives = Greedy::start(&pair, &[Some(COLLECTIVE), Some(COLLECTIVE)]);
    collectives.after(32 * MIB);
    let before = kv.bytes();
    let upper = collectives.after(96 * MIB).iter().sum::<u64>() as f64;
    let lower: Vec<f64> = kv.bytes().iter().zip(&before).map(|(a, b)| (a - b) as f64).collect();
    let all = upper + lower.iter().sum::<f64>();
    let shares: Vec<f64> = lower.iter().map(|bytes| bytes / all).collect();
    println!("\nKV of three classes beside greedy collectives: {shares:.3?}");
    assert!((0.07..0.2).contains(&shares.iter().sum::<f64>()), "{shares:?}");
    assert!(shares[0] > 2.0 * (shares[1] + shares[2]), "{shares:?}");
    drop(collectives);
    kv.after(32 * MIB);
    let shares = kv.shares(96 * MIB);
    println!("the same by themselves: {shares:.3?}");
    assert!(shares[0] > 0.7, "{shares:?}");
}
