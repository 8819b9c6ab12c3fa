//! Compares the default profiles with figures from two papers. The measured points are in
//! `meridian-tools`, which runs the same comparisons over all of the data.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use meridian_base::{RequestId, Rng, Time};
use meridian_engine::{
    Config, ConfigError, Engine, Input, Output, Profile, Software, Submission, TUNED, TokenOutputs,
};

fn config(model: &str, gpu: &str, tp: u32) -> Config {
    let mut config = Config::new(Profile::named(model, gpu, tp).unwrap());
    config.token_outputs = TokenOutputs::First;
    config.decode_stride = 1 << 16;
    config
}

fn ttft(config: Config, tokens: u32) -> f64 {
    let mut engine = Engine::new(config, 1).unwrap();
    let (id, blocks) = (RequestId(1), Vec::new());
    let request = Submission { id, prompt_tokens: tokens, reply_tokens: 1, max_tokens: 1, blocks };
    engine.handle(Time::ZERO, Input::Submit(request));
    engine.handle_timeout(Time::MAX);
    let end = |output| match output {
        Output::Finished { timings, .. } => Some(timings.e2e.as_secs_f64() * 1e3),
        _ => None,
    };
    std::iter::from_fn(|| engine.poll()).find_map(end).unwrap()
}

// GORGO's Table 1: 0.0938 ms a prompt token on an A100 with Mistral-7B, within 5 %.
#[test]
fn a100_prefill_has_gorgo_s_slope() {
    let points: Vec<(f64, f64)> = (1..=32)
        .map(|n| (f64::from(n * 256), ttft(config("mistral-7b", "a100", 1), n * 256)))
        .collect();
    let n = points.len() as f64;
    let mean = |f: fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let covariance: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let variance: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    let slope = covariance / variance;
    assert!((slope / 0.0938 - 1.0).abs() < 0.05, "{slope} ms a token");
}

// SkyWalker, section 2: 512 tokens take an L4 about 300 ms (Llama-3.1-8B).
#[test]
fn l4_prefill_takes_what_skywalker_says() {
    let ms = ttft(config("llama-3.1-8b", "l4", 1), 512);
    assert!((ms / 300.0 - 1.0).abs() < 0.1, "{ms} ms");
}

// SkyWalker, section 3.3: 20 to 50 chat requests of Llama-3.1-8B fit an L4, by their lengths. Here
// 80 clients offer multi-turn chat (prompts with history of 500 tokens in the mean, replies of 560)
// and the batch is sampled whenever a request is pending. The paper does not give the lengths, so
// this shows that the KV size is of the right order, no more.
#[test]
fn l4_holds_twenty_to_fifty_chats() {
    let mut engine = Engine::new(config("llama-3.1-8b", "l4", 1), 1).unwrap();
    let mut rng = Rng::new(3);
    let mut request = |id| {
        let reply_tokens = rng.lognormal(560.0, 0.7) as u32 + 1;
        let prompt_tokens = (rng.lognormal(500.0, 1.5) as u32 + 1).min(8000);
        let (id, max_tokens) = (RequestId(id), u32::MAX);
        Input::Submit(Submission {
            id,
            prompt_tokens,
            reply_tokens,
            max_tokens,
            blocks: Vec::new(),
        })
    };
    let mut sent = 80;
    (0..sent).for_each(|id| engine.handle(Time::ZERO, request(id)));
    let mut full = Vec::new();
    while sent < 1500 {
        let due = engine.poll_timeout().unwrap();
        engine.handle_timeout(due);
        let stats = engine.stats();
        if stats.pending > 0 {
            full.push(f64::from(stats.running));
        }
        while engine.stats().outstanding() < 80 {
            engine.handle(due, request(sent));
            sent += 1;
        }
        while engine.poll().is_some() {}
    }
    full.sort_by(f64::total_cmp);
    let at = |share: f64| full[(full.len() as f64 * share) as usize];
    assert!(at(0.05) >= 15.0 && at(0.95) <= 55.0, "{} to {}", at(0.05), at(0.95));
    assert!((20.0..=50.0).contains(&at(0.5)), "median {}", at(0.5));
}

// A model that does not fit gives an error with a tensor parallel degree that does; every other
// pair has KV.
#[test]
fn models_that_do_not_fit_say_so() {
    let error = Profile::named("qwen3-32b", "l4", 1).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, ConfigError::DoesNotFit { enough_tp: Some(4), .. }), "{text}");
    assert!(text.contains("65.5 GB") && text.contains("tp 4 is enough"), "{text}");
    assert!(Profile::named("qwen2.5-14b", "l4", 2).is_ok());
    assert!(Profile::named("qwen2.5-7b", "l4", 8).unwrap_err().to_string().contains("28 heads"));
}

// The pairs that the published experiments need exist, on one GPU each, with memory for KV.
#[test]
fn experiments_find_their_profiles() {
    let pairs = [
        ("mistral-7b", "a100"),
        ("qwen2.5-7b", "a100"),
        ("qwen2.5-14b", "a100"),
        ("llama-3.1-8b", "l4"),
        ("llama-3.1-8b", "l4-slow"),
        ("llama-3.1-8b", "l4-fast"),
        ("llama-3.1-8b", "a100"),
        ("llama-3.1-8b", "h100"),
        ("llama-3.1-8b", "h200"),
        ("llama-3.1-8b", "l40s"),
    ];
    for (model, gpu) in pairs {
        let profile = Profile::named(model, gpu, 1).unwrap();
        assert!(profile.kv_blocks > 1000, "{model} on {gpu}: {}", profile.kv_blocks);
    }
}

// The L4's error bar: its slow variant is slower in prompts and in decodes, its fast one faster.
#[test]
fn the_l4_s_variants_enclose_it() {
    let terms = |gpu| Profile::named("llama-3.1-8b", gpu, 1).unwrap().terms;
    let [slow, middle, fast] = ["l4-slow", "l4", "l4-fast"].map(terms);
    assert!(slow.token > middle.token && middle.token > fast.token);
    assert!(slow.weights > middle.weights && middle.weights > fast.weights);
    let enclosed = [slow, fast].map(|t| t.token / middle.token);
    assert!(enclosed[0] > 1.2 && enclosed[1] < 0.5, "{enclosed:?}");
}

// SGLang computes only prompts in a step: a decode waits while another request's prompt is
// computed, whereas vLLM gives it its token in the same step.
#[test]
fn schedules_differ_as_the_engines_do() {
    let gap = |software: Software| {
        let row = TUNED.iter().find(|row| row.software == software && row.gpu == "h100").unwrap();
        let mut config = row.config(2).unwrap();
        config.max_num_batched_tokens = 2048;
        let mut engine = Engine::new(config, 1).unwrap();
        let request = |id, prompt_tokens| {
            let (id, blocks) = (RequestId(id), Vec::new());
            let (reply_tokens, max_tokens) = (100, 100);
            Input::Submit(Submission { id, prompt_tokens, reply_tokens, max_tokens, blocks })
        };
        engine.handle(Time::ZERO, request(1, 100));
        engine.handle(Time::from_millis(500), request(2, 20_000));
        engine.handle_timeout(Time::MAX);
        let mut gap = 0.0;
        let mut last: Option<Time> = None;
        while let Some(output) = engine.poll() {
            if let Output::Tokens { id: RequestId(1), at, .. } = output {
                gap = last.map_or(gap, |last| f64::max(gap, at.since(last).as_secs_f64()));
                last = Some(at);
            }
        }
        gap
    };
    assert!(gap(Software::Sglang) > 5.0 * gap(Software::Vllm));
}
