//! A burst of a collective beside greedy KV, without control and with two classes.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use meridian_cards::queues::{COLLECTIVE, Classes, KV};

use crate::load::Greedy;
use crate::pair::Pair;

const BURST: usize = 4 << 20;
const MIB: u64 = 1 << 20;
const ROUNDS: usize = 9;

/// One burst: its time, and the part of the bytes that arrived meanwhile and were KV.
struct Round {
    time: Duration,
    kv: f64,
}

fn burst(greedy: Option<&Greedy>, sender: &mut TcpStream, receiver: &mut TcpStream) -> Round {
    let total = || greedy.map_or(0, Greedy::total);
    let (start, before) = (Instant::now(), total());
    std::thread::scope(|scope| {
        scope.spawn(|| sender.write_all(&vec![1; BURST]).expect("it is open"));
        receiver.read_exact(&mut vec![0; BURST]).expect("it is open");
    });
    let (time, kv) = (start.elapsed(), (total() - before) as f64);
    Round { time, kv: kv / (kv + BURST as f64) }
}

/// Bursts over one connection, each after the greedy ones have filled the link again.
fn rounds(pair: &Pair, kv: usize) -> Vec<Round> {
    let greedy = (kv > 0).then(|| Greedy::start(pair, &vec![Some(KV); kv]));
    let (mut sender, mut receiver) = pair.connect(Some(COLLECTIVE));
    let once = |_| {
        if let Some(greedy) = &greedy {
            greedy.after(8 * MIB);
        }
        burst(greedy.as_ref(), &mut sender, &mut receiver)
    };
    (0..ROUNDS).map(once).collect()
}

fn median(of: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = of.collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn report(name: &str, rounds: &[Round]) -> f64 {
    let times = || rounds.iter().map(|round| round.time.as_secs_f64() * 1e3);
    let kv = median(rounds.iter().map(|round| round.kv));
    let (least, most) = (times().fold(f64::MAX, f64::min), times().fold(0.0, f64::max));
    println!("| {name} | {:.1} ({least:.1} to {most:.1}) | {:.0} |", median(times()), kv * 100.0);
    kv
}

// With one queue, two greedy KV connections take more than half of the link while a burst of
// 4 MiB passes. With two classes they get little more than their floor of a tenth.
#[test]
fn a_burst_passes_greedy_kv() {
    let pair = Pair::new();
    println!("\n4 MiB of a collective over 1 Gb/s; the ideal is 33.5 ms");
    println!("| | burst, ms | KV bytes meanwhile, % |\n| --- | --- | --- |");
    pair.plain();
    report("alone", &rounds(&pair, 0));
    let without = report("one queue, beside two greedy KV connections", &rounds(&pair, 2));
    pair.shape(Classes::Two);
    report("two classes, alone", &rounds(&pair, 0));
    let with = report("two classes, beside the same", &rounds(&pair, 2));
    assert!(without > 0.5, "one queue shares evenly: KV got {without:.2}");
    assert!(with < 0.3, "the floor is a tenth: KV got {with:.2}");
}
