//! The clients of a measured point: their requests, and the times that they measure.
//!
//! Both campaigns keep a fixed number of requests in flight and send ten for each client, all
//! clients starting at once after a warm-up that has ended. NVIDIA's runs (genai-perf;
//! `--request-count` ten times the concurrency, deviations 0) have equal lengths, InferenceX
//! (`benchmark_serving.py --random-range-ratio 0.8 --request-rate inf --ignore-eos`, ten prompts a
//! client) draws prompt and reply evenly between 80 and 100 % of the length asked for. Prompts are
//! random, so nothing is found in a prefix cache.

use meridian_base::{Duration, RequestId, Rng};
use meridian_engine::{Submission, Timings, Usage};

use super::points::{Campaign, Point};

/// Requests of each client.
const ROUNDS: u64 = 10;

/// Mean TTFT and TPOT in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// Time to the first token.
    pub ttft: f64,
    /// Time of each further token.
    pub tpot: f64,
}

/// The clients of a point.
pub(super) struct Clients {
    rng: Rng,
    /// Mean seconds between a client and its engine.
    front: f64,
    /// Shortest share of the lengths asked for.
    shortest: f64,
    lengths: [u32; 2],
    sent: u64,
    total: u64,
    ttft: Vec<f64>,
    tpot: Vec<f64>,
}

impl Clients {
    /// So many clients, of which none has sent a request.
    pub(super) fn new(point: &Point, clients: u32, front: f64) -> Clients {
        Clients {
            rng: Rng::new(1),
            front,
            shortest: if point.campaign == Campaign::InferenceX { 0.8 } else { 1.0 },
            lengths: [point.isl, point.osl],
            sent: 0,
            total: u64::from(clients) * ROUNDS,
            ttft: Vec::new(),
            tpot: Vec::new(),
        }
    }

    /// The number of the next request; `None` after the last.
    pub(super) fn send(&mut self) -> Option<u64> {
        let id = self.sent;
        self.sent += u64::from(id < self.total);
        (id < self.total).then_some(id)
    }

    /// The time of a request between its client and the engine.
    pub(super) fn way(&mut self) -> Duration {
        Duration::from_secs_f64(self.rng.exponential(self.front))
    }

    /// Tokens of a request's prompt and of its reply.
    pub(crate) fn lengths(&mut self) -> [u32; 2] {
        self.lengths.map(|length| {
            let least = (f64::from(length) * self.shortest) as u32;
            least + self.rng.below((length - least) as usize + 1) as u32
        })
    }

    /// A client waited this many seconds for its first token.
    pub(super) fn first_token(&mut self, seconds: f64) {
        self.ttft.push(seconds * 1e3);
    }

    /// A client has its whole answer.
    pub(super) fn answered(&mut self, usage: &Usage, timings: &Timings) {
        let gaps = f64::from(usage.reply_tokens.max(2) - 1);
        self.tpot.push(timings.decode.as_secs_f64() * 1e3 / gaps);
    }

    /// The means of all answers.
    pub(super) fn latency(&self) -> Latency {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        Latency { ttft: mean(&self.ttft), tpot: mean(&self.tpot) }
    }
}

/// A request with so many tokens of prompt and reply.
pub(super) fn submission(id: u64, [prompt_tokens, reply_tokens]: [u32; 2]) -> Submission {
    Submission {
        id: RequestId(id),
        prompt_tokens,
        reply_tokens,
        max_tokens: reply_tokens,
        blocks: Vec::new(),
    }
}
