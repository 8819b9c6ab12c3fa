//! Repeats the procedures of the measured points with the engine model.
//!
//! Both campaigns keep `clients` requests in flight and send ten for each client, all clients
//! starting at once after a warm-up that has ended. NVIDIA's runs (genai-perf; `--request-count`
//! ten times the concurrency, deviations 0) have equal lengths, InferenceX (`benchmark_serving.py
//! --random-range-ratio 0.8 --request-rate inf --ignore-eos`, ten prompts a client) draws prompt
//! and reply evenly between 80 and 100 % of the length asked for. Prompts are random, so nothing is
//! found in a prefix cache.
//!
//! The initial burst matters: a tenth of the requests wait behind all others' prompts, and with
//! equal lengths the clients stay synchronised for long.

use super::points::{Campaign, Point};
use meridian_base::{Duration, RequestId, Rng, Time};
use meridian_engine::{
    Config, ConfigError, Engine, Input, Output, Software, Submission, TokenOutputs, Tuned,
};
use std::collections::BTreeSet;

/// Requests of each client.
pub(super) const ROUNDS: u64 = 10;

/// Mean TTFT and TPOT in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// Time to the first token.
    pub ttft: f64,
    /// Time of each further token.
    pub tpot: f64,
}

/// Requests in flight beyond the clients, for which the batch has no slot. In NVIDIA's TensorRT-LLM
/// runs of Llama-3.1-8B the TTFT grows by a share `1 / clients` of the time of a whole reply, at
/// any number of clients and any length: the effect of one request more than there are slots.
fn spare(point: &Point) -> u32 {
    u32::from(point.software == Software::TensorRtLlm && point.model.name == "llama-3.1-8b")
}

/// The engine of a point.
///
/// # Errors
/// When the model does not fit.
pub fn config(point: &Point, tuned: &Tuned) -> Result<Config, ConfigError> {
    let mut config = tuned.config(point.tp)?;
    if spare(point) > 0 {
        config.max_num_seqs = point.clients;
    }
    config.token_outputs = TokenOutputs::First;
    config.decode_stride = 1 << 16;
    Ok(config)
}

/// Measures a point as its campaign did, with the engine model in its engine's place.
///
/// # Errors
/// When the model does not fit.
pub fn measure(point: &Point, tuned: &Tuned) -> Result<Latency, ConfigError> {
    let mut clients = ClosedLoop::new(point, tuned.front, config(point, tuned)?)?;
    clients.run();
    Ok(clients.latency())
}

struct ClosedLoop {
    engine: Engine,
    rng: Rng,
    front: f64,
    /// Shortest share of the lengths asked for.
    shortest: f64,
    lengths: [u32; 2],
    starts: BTreeSet<(Time, u64)>,
    sent: u64,
    total: u64,
    ttft: Vec<f64>,
    tpot: Vec<f64>,
}

impl ClosedLoop {
    fn new(point: &Point, front: f64, config: Config) -> Result<ClosedLoop, ConfigError> {
        let clients = u64::from(point.clients + spare(point));
        let mut rng = Rng::new(1);
        let starts = (0..clients)
            .map(|id| (Time::ZERO + Duration::from_secs_f64(rng.exponential(front)), id));
        Ok(ClosedLoop {
            starts: starts.collect(),
            engine: Engine::new(config, 1)?,
            rng,
            front,
            shortest: if point.campaign == Campaign::InferenceX { 0.8 } else { 1.0 },
            lengths: [point.isl, point.osl],
            sent: clients,
            total: clients * ROUNDS,
            ttft: Vec::new(),
            tpot: Vec::new(),
        })
    }

    fn run(&mut self) {
        loop {
            let due = self.engine.poll_timeout();
            if let Some(&(at, id)) = self.starts.first()
                && due.is_none_or(|due| at <= due)
            {
                self.starts.pop_first();
                let request = self.request(id);
                self.engine.handle(at, Input::Submit(request));
                continue;
            }
            let Some(due) = due else { break };
            self.engine.handle_timeout(due);
            while let Some(output) = self.engine.poll() {
                self.hear(&output);
            }
        }
    }

    fn request(&mut self, id: u64) -> Submission {
        let [prompt_tokens, reply_tokens] = self.lengths.map(|length| {
            let least = (f64::from(length) * self.shortest) as u32;
            least + self.rng.below((length - least) as usize + 1) as u32
        });
        Submission {
            id: RequestId(id),
            prompt_tokens,
            reply_tokens,
            max_tokens: reply_tokens,
            blocks: Vec::new(),
        }
    }

    fn hear(&mut self, output: &Output) {
        let Output::Finished { at, usage, timings, .. } = output else { return };
        self.ttft.push((self.front + (timings.queued + timings.prefill).as_secs_f64()) * 1e3);
        let gaps = f64::from(usage.reply_tokens.max(2) - 1);
        self.tpot.push(timings.decode.as_secs_f64() * 1e3 / gaps);
        if self.sent < self.total {
            let wait = Duration::from_secs_f64(self.rng.exponential(self.front));
            self.starts.insert((*at + wait, self.sent));
            self.sent += 1;
        }
    }

    fn latency(&self) -> Latency {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        Latency { ttft: mean(&self.ttft), tpot: mean(&self.tpot) }
    }
}
