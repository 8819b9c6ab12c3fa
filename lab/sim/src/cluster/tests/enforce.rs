//! Machines on each server, a coordinator with delay and loss, and weaker ways to enforce an order.

use super::super::world::run_as;
use super::*;

/// The testbed of MFS with slow cards: two prefill replicas of 8 GPUs that share prefixes.
fn testbed(name: &str, enforce: Enforce) -> Setup {
    let fabric = Cluster {
        servers: 8,
        gpus: 4,
        cards: 2,
        card_rate: 25e9 / 8.0,
        nvlink_rate: 12e9,
        shape: Shape::SingleSwitch,
        uplinks: Uplinks::Pooled,
    };
    let mut one = pool("mixtral-8x7b", 1, 8, requests(60, Duration::from_millis(90), 2500, 20));
    (one.keep, one.kv_layers) = (false, 1);
    Setup { fabric, enforce, ..setup(name, vec![one]) }
}

fn exchange(report: &Report) -> f64 {
    report.exchanges[0].value().expect("ranks exchange")
}

fn ttft(report: &Report) -> f64 {
    let all = report.records.iter().map(|record| record.ttft().as_secs_f64());
    all.sum::<f64>() / report.records.len() as f64
}

// However the order is enforced, with and without permits, under every policy: every request ends,
// every byte is carried, and one setup gives one report.
#[test]
fn every_request_ends_however_order_is_enforced() {
    let prompts = || {
        let own = pool("mixtral-8x7b", 1, 8, requests(60, Duration::from_millis(90), 2500, 0));
        vec![Pool { skew: 0.0, ..own }]
    };
    let total = Setup { pools: prompts(), ..testbed("fair", Enforce::Total) };
    let bytes = run(&total).unwrap().carried;
    for name in POLICIES {
        for (enforce, exact) in
            [(Enforce::Host, true), (Enforce::Host, false), (Enforce::Classes, true)]
        {
            let setup = Setup { pools: prompts(), ..testbed(name, enforce) };
            let report = run_as(&setup, exact).unwrap();
            assert_eq!(report.records.len(), 60);
            assert!(report.records.iter().all(|record| record.first > record.at), "{name}");
            let off = report.carried / bytes;
            assert!((0.999..1.001).contains(&off), "{name} {enforce:?} {exact}: {off}");
            assert_eq!(report, run_as(&setup, exact).unwrap(), "{name} {enforce:?}");
        }
    }
}

// Senders in larger clusters are simulated without chunks: a flow waits for one chunk instead. On a
// busy cluster where both are possible, exchanges and first tokens are as long within 10 %.
#[test]
fn the_wait_for_a_chunk_stands_for_the_chunks() {
    for name in ["mfs", "two_class", "tent", "fair"] {
        let setup = testbed(name, Enforce::Host);
        assert!(setup.exact());
        let (chunks, wait) = (run_as(&setup, true).unwrap(), run_as(&setup, false).unwrap());
        let exchanges = exchange(&wait) / exchange(&chunks);
        let ttfts = ttft(&wait) / ttft(&chunks);
        assert!((0.9..1.1).contains(&exchanges), "{name}: exchange {exchanges}");
        assert!((0.9..1.1).contains(&ttfts), "{name}: TTFT {ttfts}");
    }
}

// Two static classes need no order within a class: traffic classes alone are the same, and permits
// change little.
#[test]
fn static_classes_need_no_order_within_a_class() {
    let of = |enforce| exchange(&run(&testbed("two_class", enforce)).unwrap());
    let total = of(Enforce::Total);
    assert_eq!(of(Enforce::Classes), total);
    let host = of(Enforce::Host) / total;
    assert!((0.95..1.05).contains(&host), "{host}");
}

// Whatever becomes of the coordinator's messages, the nodes go on by what they know: every request
// ends, and one setup gives one report.
#[test]
fn nodes_go_on_without_their_coordinator() {
    let with = |delay: u64, loss: f64| {
        let control = Control { delay: Duration::from_millis(delay), loss };
        let setup = Setup { coordinator: Some(control), ..testbed("mfs", Enforce::Total) };
        let report = run(&setup).unwrap();
        assert_eq!(report, run(&setup).unwrap());
        assert!(report.records.iter().all(|record| record.first > record.at));
        ttft(&report)
    };
    let known = ttft(&run(&testbed("mfs", Enforce::Total)).unwrap());
    for (delay, loss) in [(0, 0.0), (5, 0.0), (50, 0.0), (5, 0.1), (5, 1.0)] {
        let off = with(delay, loss) / known;
        assert!((0.9..1.1).contains(&off), "{delay} ms, loss {loss}: {off}");
    }
}
