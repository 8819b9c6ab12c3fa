//! Experts with tensor-parallel attention, and the single objective.

use std::collections::BTreeMap;

use super::*;
use crate::cluster::compute::Shares;
use crate::cluster::exchange::{Routing, Ways};
use crate::cluster::geometry::Geometry;
use crate::cluster::patterns::Pattern;

fn tensor(model: &str, degree: u32, ranks: u32, requests: Vec<Request>) -> Pool {
    Pool { parallel: Parallel::Tensor, ..pool(model, degree, ranks, requests) }
}

// An all-reduce of 1000 tokens of 6144 bf16 numbers among 4 servers of 8 GPUs: 2 x 3/4 of 12.288 MB
// pass between servers, an eighth of it over each GPU's card; 2 x 7/8 of it pass over NVLink. Each
// card receives what it sends, in one flow each. The cards of a server carry the same, so one of
// them is simulated.
#[test]
fn an_all_reduce_passes_around_the_servers() {
    let one = tensor("dbrx", 2, 16, requests(1, Duration::ZERO, 1000, 0));
    let setup = setup("mfs", vec![one]);
    let (geometry, pool) = (Geometry::new(&setup).unwrap(), &setup.pools[0]);
    assert_eq!(geometry.fold, 8);
    let latency = Duration::from_micros(9);
    let ways = Ways::new(&geometry, geometry.prefill[0][0], pool, latency);
    let mut shares = Shares::new(pool);
    shares.add(pool, 0, (0, 1000));
    let found = ways.exchange(&Routing::new(pool, 1), Pattern::AllReduce, 0, &shares);
    assert_eq!(found.flows.len(), 4);
    let mut ports: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (path, bytes) in &found.flows {
        for port in path.ports() {
            ports.entry(port.0).or_default().push(*bytes);
        }
    }
    assert_eq!(ports.len(), 2 * 4, "both directions of the card of each server");
    assert!(ports.values().all(|bytes| bytes == &[2_304_000.0]), "{ports:?}");
    let nvlink = (found.floor - latency).as_secs_f64() * 450e9;
    assert!((nvlink - 21_504_000.0).abs() < 500.0, "{nvlink}");
}

// Inside one server nothing crosses a card.
#[test]
fn an_all_reduce_inside_a_server_stays_on_nvlink() {
    let one = tensor("mixtral-8x7b", 1, 8, requests(2, Duration::from_secs(9), 1000, 0));
    let report = run(&setup("mfs", vec![Pool { decode: 1, ..one }])).unwrap();
    assert!(report.exchanges[0].value().unwrap() > 9e-6);
    let kv = 2.0 * 2.0 * 1000.0 * Model::named("mixtral-8x7b").unwrap().kv_bytes(1) / 8.0;
    assert!((report.carried / kv - 1.0).abs() < 1e-3, "{}", report.carried / kv);
}

// Alone in the cluster each request has exactly its TTFT at low load, as with the other readings.
#[test]
fn low_load_covers_tensor_attention() {
    for (model, degree, ranks) in
        [("mixtral-8x22b", 4, 8), ("dbrx", 2, 16), ("qwen3-coder-480b", 1, 32)]
    {
        for (tokens, shared) in [(256, 0), (4096, 40), (20_000, 100)] {
            let asked = requests(3, Duration::from_secs(60), tokens, shared);
            let report = run(&setup("mfs", vec![tensor(model, degree, ranks, asked)])).unwrap();
            let hits: Vec<u32> = report.records.iter().map(|r| r.matched).collect();
            assert_eq!(hits, [0, shared as u32 * 64, shared as u32 * 64]);
            for record in &report.records {
                let off = record.ttft().as_secs_f64() / record.alone.as_secs_f64();
                assert!((0.97..1.03).contains(&off), "{model} {tokens} {shared}: {off}");
            }
        }
    }
}

// Under every policy the cards carry the prompts' KV once, and two all-reduces a layer: a token's
// activation crosses 2 x 3 cards in each. One of 8 cards of a server is simulated.
#[test]
fn bytes_are_those_of_two_all_reduces_a_layer() {
    let kv = 56.0 * 2.0 * 2.0 * 8.0 * 128.0;
    let exchanges = 56.0 * 2.0 * (2.0 * 3.0) * 6144.0 * 2.0;
    let expected = 2.0 * 24.0 * 3000.0 * (kv + exchanges) / 8.0;
    for name in POLICIES {
        let asked = requests(24, Duration::from_millis(20), 3000, 0);
        let report = run(&setup(name, vec![tensor("mixtral-8x22b", 4, 8, asked)])).unwrap();
        let off = report.carried / expected;
        assert!((0.999..1.001).contains(&off), "{name}: {off}");
        assert!(report.batches < 24, "all ranks have every prompt: {}", report.batches);
    }
}

// With the mean as base, every request of a tier has the same objective, whatever its length.
#[test]
fn the_single_objective_is_a_multiple_of_the_mean() {
    let mut asked = requests(8, Duration::from_millis(50), 1000, 0);
    asked[3].tokens = 9000;
    let mut one = pool("mixtral-8x22b", 4, 8, asked);
    one.slo = Tiers { of: Base::Mean, tight_share: 1.0, ..one.slo };
    let report = run(&setup("mfs", vec![one])).unwrap();
    let mean = report.records.iter().map(|r| r.alone).sum::<Duration>() / 8;
    assert!(report.records[3].alone > mean.mul_f64(2.0));
    for record in &report.records {
        assert_eq!(record.due.since(record.at), mean.mul_f64(3.0));
    }
}

// Without experts there is nothing that tensor-parallel attention could stand beside.
#[test]
fn tensor_attention_needs_experts() {
    let one = tensor("llama-3-8b-1m", 4, 4, requests(1, Duration::ZERO, 1000, 0));
    let message = run(&setup("mfs", vec![one])).unwrap_err().to_string();
    assert!(message.contains("ranks is 4: the model has no experts: use sequence"), "{message}");
}
