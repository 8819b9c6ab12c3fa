use meridian_base::{Duration, Time};
use meridian_engine::{Gpu, Model};
use meridian_fabric::{Cluster, Shape, Uplinks};
use meridian_flow::{Config, policy};

use super::*;

mod enforce;

mod tensor;

/// Requests with a few unique blocks each, so far apart that each is alone; `shared` leading blocks
/// are the same in all.
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
    let parallel = if model.experts.is_some() { Parallel::Experts } else { Parallel::Sequence };
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
        slo: Tiers { of: Base::Own, tight: 3.0, loose: 10.0, tight_share: 0.8 },
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
        enforce: Enforce::Total,
        coordinator: None,
        shared: true,
        estimate_error: 0.2,
        watch: None,
    }
}

const POLICIES: [&str; 9] =
    ["mfs", "fair", "sjf", "edf", "karuna", "two_class", "two_class_floor", "tent", "edf_drop"];

// Correction 14: the objective is three times the request's own TTFT at low load, for its own
// length and matched prefix. Requests that are alone in the cluster have exactly that TTFT: long
// and short, with a prefix to fetch and without, with expert and with sequence parallelism, and in
// chunks.
#[test]
fn correction_14_the_objective_follows_length_and_prefix() {
    for (model, tensor, ranks) in [
        ("mixtral-8x22b", 4, 8),
        ("dbrx", 2, 16),
        ("qwen3-coder-480b", 1, 32),
        ("llama-3-8b-1m", 4, 4),
    ] {
        for (tokens, shared) in [(256, 0), (4096, 0), (4096, 40), (20_000, 100)] {
            let asked = requests(3, Duration::from_secs(60), tokens, shared);
            let mut one = pool(model, tensor, ranks, asked);
            (one.slo.tight_share, one.victims) = (1.0, 1);
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

/// A cluster under load: requests arrive a little faster than they are computed.
fn busy(name: &str) -> Setup {
    let one = pool("mixtral-8x22b", 4, 8, requests(48, Duration::from_millis(20), 3000, 20));
    setup(name, vec![one])
}

// Under every policy each request ends, after its arrival; the deadlines do not depend on the
// policy; and the same setup gives the same report.
#[test]
fn every_request_ends_and_one_setup_gives_one_report() {
    let due = |report: &Report| report.records.iter().map(|r| r.due).collect::<Vec<_>>();
    let first = due(&run(&busy("fair")).unwrap());
    for name in POLICIES {
        let report = run(&busy(name)).unwrap();
        assert_eq!(report.records.len(), 48);
        assert!(report.records.iter().all(|record| record.first > record.at), "{name}");
        assert_eq!(due(&report), first, "{name}");
        assert_eq!(report, run(&busy(name)).unwrap(), "{name}");
    }
}

// With sequence parallelism all ranks have every prompt: as many fit into a batch as its budget
// allows.
#[test]
fn sequence_parallel_batches_several_prompts() {
    let one = pool("llama-3-8b-1m", 4, 4, requests(40, Duration::from_millis(5), 6000, 40));
    let report = run(&setup("mfs", vec![one])).unwrap();
    assert!(report.batches < 40, "{}", report.batches);
    assert!(report.records.iter().all(|record| record.first > record.at));
    assert!(report.exchanges[0].count > 0);
}

// Every byte is carried in any order: without shared prefixes the cards carry the same under all
// policies, and the expected KV and exchanges for prompts of this length.
#[test]
fn bytes_are_those_of_the_prompts() {
    let carried = |name: &str| {
        let one = pool("mixtral-8x22b", 4, 8, requests(24, Duration::from_millis(20), 3000, 0));
        run(&setup(name, vec![Pool { skew: 0.0, ..one }])).unwrap().carried
    };
    // A lane's quarter of 56 layers of KV, and of 2 exchanges a layer of which 6 of 8 ranks are in
    // other servers and 2 of 8 ranks are wanted; each byte leaves by one card and enters by another.
    let kv = 56.0 * 2.0 * 2.0 * 2.0 * 128.0;
    let exchanges = 56.0 * 2.0 * (2.0 * 6.0 / 8.0) * 6144.0 * 2.0 / 4.0;
    let expected = 2.0 * 24.0 * 3000.0 * (kv + exchanges);
    for name in POLICIES {
        let off = carried(name) / expected;
        assert!((0.999..1.001).contains(&off), "{name}: {off}");
    }
}

// Contention makes exchanges longer: with a separate network they take less, and as little
// if they always go first. MFS is in between: urgent fetches go before them.
#[test]
fn exchanges_suffer_from_kv() {
    let cct = |name: &str, shared: bool| {
        let report = run(&Setup { shared, ..busy(name) }).unwrap();
        report.exchanges[0].value().unwrap()
    };
    let apart = cct("fair", false);
    assert!(cct("fair", true) > 1.05 * apart);
    assert!(cct("two_class", true) < 1.001 * apart);
    assert!(cct("mfs", true) < cct("fair", true));
}

// Two models share a fabric; the degree of one does not fold the lanes of the other.
#[test]
fn two_models_share_a_fabric() {
    let gap = Duration::from_millis(30);
    let small = pool("dbrx", 2, 16, requests(12, gap, 2000, 0));
    let large = pool("mixtral-8x22b", 4, 8, requests(12, gap, 2000, 0));
    let pools = vec![Pool { prefill: 1, ..small }, Pool { prefill: 1, decode: 1, ..large }];
    let setup =
        Setup { fabric: Cluster { servers: 20, ..busy("mfs").fabric }, ..setup("mfs", pools) };
    assert_eq!(fold(&setup.fabric, &setup.pools), 2);
    let report = run(&setup).unwrap();
    let of = |pool| report.records.iter().filter(|record| record.pool == pool).count();
    assert_eq!((of(0), of(1)), (12, 12));
    assert!(report.exchanges.iter().all(|mean| mean.count > 0));
}

// A popular prefix whose fetchers do not keep it is fetched from its first owner again and again.
#[test]
fn a_hot_prefix_makes_a_victim() {
    let busiest = |keep: bool| {
        let mut setup = busy("fair");
        setup.pools[0].keep = keep;
        run(&setup).unwrap().busiest[0].2
    };
    assert!(busiest(false) > busiest(true));
}

// The watched port is recorded without gaps in time order, never beyond its rate, and every flow
// has a reason.
#[test]
fn the_watched_port_is_never_overbooked() {
    let mut setup = busy("mfs");
    let port = run(&setup).unwrap().busiest[0].0;
    let (from, span) = (Time::from_millis(200), Duration::from_millis(50));
    setup.watch = Some(Watch { port, from, span });
    let slices = run(&setup).unwrap().slices;
    assert!(slices.len() > 10);
    assert!(slices.windows(2).all(|pair| pair[0].to <= pair[1].from));
    assert!(slices.iter().all(|slice| slice.from >= from && slice.to <= from + span));
    for slice in &slices {
        let rate: f64 = slice.holders.iter().map(|holding| holding.rate).sum();
        assert!(rate <= 25e9 * 1.000_001, "{rate}");
    }
}

// An impossible setup is refused with its field, its value and the remedy.
#[test]
fn impossible_setups_name_what_is_wrong() {
    let refused = |change: &dyn Fn(&mut Setup)| {
        let mut setup = busy("mfs");
        change(&mut setup);
        run(&setup).unwrap_err().to_string()
    };
    type Break<'a> = &'a dyn Fn(&mut Setup);
    let cases: [(Break<'_>, &str); 10] = [
        (&|s| s.pools[0].slo.tight = 0.5, "slo.tight is 0.5: a deadline before the first token"),
        (&|s| s.pools[0].ranks = 5, "ranks is 5: tensor times ranks is 20 GPUs"),
        (&|s| s.pools[0].prefill = u32::MAX, "prefill is 4294967295: use 1 to 4096 replicas"),
        (&|s| s.pools[0].ranks = u32::MAX, "ranks is 4294967295: use 1 to 1024"),
        (&|s| s.pools[0].tensor = u32::MAX, "tensor is 4294967295: use a divisor of the model's"),
        (&|s| s.pools[0].prefill = 99, "3232 GPUs are needed and there are 128: add servers"),
        (&|s| s.pools[0].requests[3].tokens = 0, "requests.tokens is 0: use 1 to"),
        (&|s| s.pools[0].requests.swap(0, 9), "requests.at is"),
        (&|s| s.cards = vec![(0, 0, 0.0)], "rate of a port 0 is out of range"),
        (&|s| s.pools[0].kv_layers = 0, "kv_layers is 0: use 1 to the model's 56 layers"),
    ];
    for (change, words) in cases {
        let message = refused(change);
        assert!(message.contains(words), "{message}");
    }
}
