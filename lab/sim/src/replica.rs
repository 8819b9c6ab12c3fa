//! Replicas: engines with a location, a state and a timer.

use std::collections::VecDeque;

use meridian_base::{Duration, Time, mix};
use meridian_engine::{Config, ConfigError, Engine, TokenOutputs};
use meridian_routing::Load;

use crate::scenario::Hardware;
use crate::stopped::Stopped;

/// Decode steps combined into one event while nothing else is due. Each sequence takes at most one
/// KV block too early, which a probe in between sees.
const STRIDE: u32 = meridian_engine::BLOCK_TOKENS;

pub(crate) struct Replica {
    pub(crate) hardware: Hardware,
    pub(crate) engine: Engine,
    pub(crate) up: bool,
    /// Set while it is suspended.
    pub(crate) stopped: Option<Stopped>,
    /// Its total time suspended: its engine's clock is behind by this much.
    pub(crate) lag: Duration,
    /// When billing started; `None` while it is not billed.
    pub(crate) since: Option<Time>,
    pub(crate) leaving: bool,
    /// It has left, and no gateway knows it.
    pub(crate) gone: bool,
    /// The time of the newest timer event.
    pub(crate) timer: Option<Time>,
    /// The report to probes from each time on; the newest last.
    history: VecDeque<(Time, Option<Load>)>,
    /// When the report to probes last changed in a way that may open it to requests.
    pub(crate) opened: Time,
    settings: Config,
    seed: u64,
}

impl Replica {
    /// `exact`: every decode step is an event.
    pub(crate) fn new(
        hardware: Hardware,
        exact: bool,
        seed: u64,
        at: usize,
    ) -> Result<Replica, ConfigError> {
        let seed = mix(seed, 0x5245_504C + at as u64);
        let settings = settings(hardware.engine, exact);
        let engine = Engine::new(settings, seed)?;
        Ok(Replica {
            hardware,
            engine,
            up: true,
            stopped: None,
            lag: Duration::ZERO,
            since: Some(Time::ZERO),
            leaving: false,
            gone: false,
            timer: None,
            history: VecDeque::new(),
            opened: Time::ZERO,
            settings,
            seed,
        })
    }

    /// Discards all state, like a restarted process.
    pub(crate) fn restart(&mut self) {
        self.engine =
            Engine::new(self.settings, self.seed).expect("the same settings were good before");
        self.timer = None;
        self.stopped = None;
        self.lag = Duration::ZERO;
    }

    /// The engine's own time.
    pub(crate) fn clock(&self, now: Time) -> Time {
        now - self.lag
    }

    /// Converts an engine's time to the world's.
    pub(crate) fn wall(&self, at: Time) -> Time {
        at + self.lag
    }

    /// Whether it answers.
    pub(crate) fn answers(&self) -> bool {
        self.up && self.stopped.is_none()
    }

    /// Records the report to probes from `now` on. True if it may open the replica to requests.
    pub(crate) fn remember(&mut self, now: Time) -> bool {
        let load = self.answers().then(|| self.load());
        assert!(now >= self.changed(), "a report of {now:?}, after {:?}", self.changed());
        let before = self.history.back().map(|(_, newest)| *newest);
        if before == Some(load) {
            return false;
        }
        while self.history.len() > 1 && self.history[1].0 + KEPT < now {
            self.history.pop_front();
        }
        self.history.push_back((now, load));
        let opens = before.flatten().zip(load).is_none_or(|(before, load)| opens(before, load));
        if opens {
            self.opened = now;
        }
        opens
    }

    /// When the report to probes last changed.
    pub(crate) fn changed(&self) -> Time {
        self.history.back().map_or(Time::ZERO, |(from, _)| *from)
    }

    /// The report to a probe that arrived at `at`; `None` if the replica did not answer.
    pub(crate) fn load_at(&self, at: Time) -> Option<Load> {
        let known = self.history.iter().rev().find(|(from, _)| *from <= at);
        known.or(self.history.front()).map_or_else(|| Some(self.load()), |(_, load)| *load)
    }

    /// The report to a probe now. Events are handled in order, so the engine is up to date.
    pub(crate) fn load(&self) -> Load {
        let stats = self.engine.stats();
        Load {
            // Requests that wait for KV from another engine are pending, as vLLM counts them.
            pending: Some(stats.pending + stats.deferred),
            running: Some(stats.running),
            kv_used: Some(stats.kv_used() as f32),
            kv_tokens: Some(u64::from(stats.kv_blocks) * u64::from(meridian_engine::BLOCK_TOKENS)),
        }
    }
}

/// Whether a replica may accept more than before: after anything except growing KV. An arrival and
/// an admission count, since the sender assumed more than they take.
fn opens(before: Load, load: Load) -> bool {
    let (requests, were) = ((load.pending, load.running), (before.pending, before.running));
    requests != were || load.kv_used < before.kv_used
}

/// How long reports are kept for probes.
const KEPT: Duration = Duration::from_secs(3);

fn settings(engine: Config, exact: bool) -> Config {
    let decode_stride = if exact { 1 } else { STRIDE };
    Config { token_outputs: TokenOutputs::First, decode_stride, ..engine }
}
