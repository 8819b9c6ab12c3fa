//! Repeats the procedures of the measured points with the engine model.
//!
//! The clients are those of [`campaign`](super::campaign). Their initial burst matters: a tenth of
//! the requests wait behind all others' prompts, and with equal lengths the clients stay
//! synchronised for long.

use std::collections::BTreeSet;

use meridian_base::Time;
use meridian_engine::{Config, ConfigError, Engine, Input, Output, Software, TokenOutputs, Tuned};

use super::campaign::{Clients, Latency, submission};
use super::points::Point;

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
    let mut run = ClosedLoop::new(point, tuned.front, config(point, tuned)?)?;
    run.run();
    Ok(run.clients.latency())
}

struct ClosedLoop {
    engine: Engine,
    clients: Clients,
    front: f64,
    starts: BTreeSet<(Time, u64)>,
}

impl ClosedLoop {
    fn new(point: &Point, front: f64, config: Config) -> Result<ClosedLoop, ConfigError> {
        let count = point.clients + spare(point);
        let clients = Clients::new(point, count, front);
        let engine = Engine::new(config, 1)?;
        let mut run = ClosedLoop { engine, clients, front, starts: BTreeSet::new() };
        (0..count).for_each(|_| run.start(Time::ZERO));
        Ok(run)
    }

    /// A client sends its next request.
    fn start(&mut self, now: Time) {
        if let Some(id) = self.clients.send() {
            self.starts.insert((now + self.clients.way(), id));
        }
    }

    fn run(&mut self) {
        loop {
            let due = self.engine.poll_timeout();
            if let Some(&(at, id)) = self.starts.first()
                && due.is_none_or(|due| at <= due)
            {
                self.starts.pop_first();
                let request = submission(id, self.clients.lengths());
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

    fn hear(&mut self, output: &Output) {
        let Output::Finished { at, usage, timings, .. } = output else { return };
        self.clients.first_token(self.front + (timings.queued + timings.prefill).as_secs_f64());
        self.clients.answered(usage, timings);
        self.start(*at);
    }
}
