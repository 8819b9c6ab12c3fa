use meridian_base::{Duration, Time};
use meridian_engine::{Gpu, Model};
use meridian_fabric::{Cluster, Shape, Uplinks};
use meridian_flow::{Config, policy};

use super::*;

/// Requests of a few blocks of their own, so far apart that each is alone; `shared` leading blocks are
/// the same in all.
fn requests(count: u64, gap: Duration, tokens: u32, shared: u64) -> Vec<Request> {
    let one = |nth: u64| {
        let block = |at: u64| if at < shared { at + 1 } else { (nth + 1) << 32 | at };
        Request {
            at: Time::ZERO + gap * nth as u32,
            tokens,
            block_tokens: 64,
            blocks: (0..u64::from(tokens / 64)).map(block).collect(),
        }
    };
    (0..count).map(one).collect()
}

fn pool(model: &str, tensor: u32, ranks: u32, requests: Vec<Request>) -> Pool {
    let model = Model::named(model).unwrap();
    let parallel =
        if model.experts.is_some() { Parallel::Experts } else { Parallel::Sequence };
    Pool {
        name: model.name.to_owned(),
        model,
        gpu: Gpu::named("a100").unwrap(),
        tensor,
        ranks,
        parallel,
        prefill: 2,
        decode: 2,
        batch_tokens: 8192,
        skew: 0.2,
        kv_layers: 1,
        victims: 1,
        keep: true,
        tiers: Tiers { tight: 3.0, loose: 10.0, tight_share: 0.8 },
        known: Vec::new(),
        requests,
    }
}

fn setup(name: &str, pools: Vec<Pool>) -> Setup {
    Setup {
        seed: 1,
        fabric: Cluster {
            servers: 16,
            shape: Shape::SingleSwitch,
            uplinks: Uplinks::Pooled,
            ..Cluster::mfs()
        },
        cards: Vec::new(),
        pools,
        flow: Config::new(policy::find(name).unwrap()),
        shared: true,
        estimate_error: 0.2,
        watch: None,
    }
}

const POLICIES: [&str; 7] = ["mfs", "fair", "sjf", "edf", "karuna", "two_class", "edf_drop"];

// Correction 14: the objective is three times what the request itself takes at low load, by its own
// length and its own matched prefix. Requests that are alone in the cluster take just that, long and
// short, with a prefix to fetch and without, of experts and of sequence parallel; in chunks too.
#[test]
fn correction_14_the_objective_follows_length_and_prefix() {
    for (model, tensor, ranks) in
        [("mixtral-8x22b", 4, 8), ("dbrx", 2, 16), ("qwen3-coder-480b", 1, 32), ("llama-3-8b-1m", 4, 4)]
    {
        for (tokens, shared) in [(256, 0), (4096, 0), (4096, 40), (20_000, 100)] {
            let asked = requests(3, Duration::from_secs(60), tokens, shared);
            let mut one = pool(model, tensor, ranks, asked);
            (one.tiers.tight_share, one.victims) = (1.0, 1);
            let report = run(&setup("mfs", vec![one])).unwrap();
            let hits: Vec<u32> = report.records.iter().map(|r| r.matched).collect();
            assert_eq!(hits, [0, shared as u32 * 64, shared as u32 * 64]);
            for record in &report.records {
                assert_eq!(record.due, record.at + record.alone.mul_f64(3.0));
                let off = record.ttft().as_secs_f64() / record.alone.as_secs_f64();
                assert!((0.97..1.03).contains(&off), "{model} {tokens} {shared}: {off}");
            }
            let alone: Vec<_> = report.records.iter().map(|r| r.alone).collect();
            assert!(shared == 0 || alone[1] < alone[0], "a matched prefix leaves less time");
        }
    }
}
