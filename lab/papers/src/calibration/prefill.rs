//! Published figures of two papers: one prompt on an idle engine, and the requests that fit an L4.

use meridian_base::{RequestId, Rng, Time};
use meridian_engine::{
    Config, Efficiency, Engine, Gpu, Input, Model, Output, Profile, Submission, TokenOutputs,
};
use meridian_tools::fit;

use super::statistics::quantile;

/// GORGO, Table 1: milliseconds a prompt token (Mistral-7B, A100).
pub const GORGO_SLOPE: f64 = 0.0938;

/// GORGO, Table 1: milliseconds at no token at all, network and proxy included.
pub const GORGO_INTERCEPT: f64 = 150.72;

/// SkyWalker, section 2: milliseconds of 512 prompt tokens (Llama-3.1-8B, L4).
pub const SKYWALKER_512: f64 = 300.0;

/// SkyWalker, section 3.3: requests that fit one L4.
pub const SKYWALKER_FIT: [f64; 2] = [20.0, 50.0];

/// The default engine, or one that reaches this share of the flops.
fn config(model: &str, gpu: &str, compute: Option<f64>) -> Config {
    let model = Model::named(model).expect("the table has it");
    let gpu = Gpu::named(gpu).expect("the table has it");
    let compute = compute.unwrap_or(gpu.efficiency.compute);
    let attention = compute * gpu.efficiency.attention / gpu.efficiency.compute;
    let efficiency = Efficiency { compute, attention, ..gpu.efficiency };
    let profile = Profile::new(model, gpu.with_efficiency(efficiency), 1);
    let profile = profile.expect("the model fits the GPU");
    let mut config = Config::new(profile);
    config.token_outputs = TokenOutputs::First;
    config.decode_stride = 1 << 16;
    config
}

fn submission(id: u64, prompt_tokens: u32, reply_tokens: u32) -> Input {
    let (id, blocks) = (RequestId(id), Vec::new());
    Input::Submit(Submission { id, prompt_tokens, reply_tokens, max_tokens: u32::MAX, blocks })
}

/// TTFT of one prompt on an idle engine, in ms.
///
/// # Panics
/// When there is no such model or GPU, or it does not fit.
#[must_use]
pub fn ttft(model: &str, gpu: &str, compute: Option<f64>, tokens: u32) -> f64 {
    let mut engine =
        Engine::new(config(model, gpu, compute), 1).expect("a profile's defaults hold");
    engine.handle(Time::ZERO, submission(1, tokens, 1));
    engine.handle_timeout(Time::MAX);
    let end = |output| match output {
        Output::Finished { timings, .. } => Some(timings.e2e.as_secs_f64() * 1e3),
        _ => None,
    };
    std::iter::from_fn(|| engine.poll()).find_map(end).expect("every request ends")
}

/// Intercept (ms) and slope (ms a token) of the TTFT over prompts of 256 to 8,192 tokens.
///
/// # Panics
/// Never: the lengths differ.
#[must_use]
pub fn gorgo(compute: Option<f64>) -> (f64, f64) {
    let points: Vec<(f64, f64)> = (1..=32)
        .map(|n| (f64::from(n * 256), ttft("mistral-7b", "a100", compute, n * 256)))
        .collect();
    let line = fit::line(&points).expect("the lengths differ");
    (line.intercept, line.slope)
}

/// Requests in the batch of an L4 whenever others wait: 5 %, 50 % and 95 % quantiles. 80 clients
/// offer chat with histories of 500 tokens in the mean and replies of 560; the paper does not give
/// its lengths, so this shows that the KV size is of the right order, no more.
#[must_use]
pub fn l4_batches(gpu: &str) -> [f64; 3] {
    let config = config("llama-3.1-8b", gpu, None);
    let mut engine = Engine::new(config, 1).expect("a profile's defaults hold");
    let mut rng = Rng::new(3);
    let mut request = |id| {
        let reply = rng.lognormal(560.0, 0.7) as u32 + 1;
        let prompt = (rng.lognormal(500.0, 1.5) as u32 + 1).min(8000);
        submission(id, prompt, reply)
    };
    let mut sent = 80;
    (0..sent).for_each(|id| engine.handle(Time::ZERO, request(id)));
    let mut full = Vec::new();
    while sent < 1500 {
        let due = engine.poll_timeout().expect("clients keep it busy");
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
    [0.05, 0.5, 0.95].map(|share| quantile(&full, share))
}
