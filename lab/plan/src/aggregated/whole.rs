//! The capacity of one engine that prefills and decodes.
//!
//! Its batch and its steps determine each other: n = R (O - 1) t requests decode at a rate R, where t
//! is the mean time between two tokens of a request with n others and the prompts of R in the steps.
//! The objectives are the same as those of separate instances. The share above the TTFT is that of
//! the steps' chain. A request's TPOT is the mean of its own steps: it varies with the batch, whose
//! standard deviation is that of a Poisson number, and with the prompts that it meets, the more the
//! shorter its reply is. For the share of the time that the objective requires, seats and KV suffice.

use super::chain::Chain;
use super::first::{Times, first_tokens};
use super::steps::Steps;
use crate::collective::Choice;
use crate::instance::{Instance, Parallel, Unfit};
use crate::loads::Loads;
use crate::queue::{largest, normal_quantile};
use crate::spread::Spread;
use crate::task::Task;
use crate::topology::GpuId;

/// What ends the rate of an aggregated instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// The objective of the TTFT.
    Ttft,
    /// The objective of the TPOT.
    Tpot,
    /// Memory for KV.
    Memory,
    /// Places in its batch.
    Seats,
    /// Links between servers.
    Links,
}

/// One engine for both phases, with its capacity.
#[derive(Clone, Debug)]
pub struct Whole {
    /// How it is split.
    pub parallel: Parallel,
    /// GPUs of each stage, by rank.
    pub stages: Vec<Vec<GpuId>>,
    /// The all-reduce algorithms of each stage.
    pub groups: Vec<Vec<Choice>>,
    /// Requests a second within both objectives.
    pub rate: f64,
    /// Requests that decode at that rate.
    pub batch: f64,
    /// Mean seconds between two tokens of a request at that rate.
    pub tpot: f64,
    /// Tokens that a step may compute.
    pub budget: f64,
    /// What ends the rate.
    pub bound: Bound,
    /// Bytes of a mean step's all-reduces.
    pub message: f64,
    /// Bytes that a request puts on each link.
    pub loads: Loads,
}

/// An instance at a rate.
pub(super) struct WholeState {
    batch: f64,
    chain: Chain,
    /// The share of requests that find the engine idle.
    idle: f64,
}

impl Whole {
    /// Computes an instance's capacity; its phase does not matter.
    pub(super) fn new(task: &Task<'_>, instance: Instance) -> Result<Whole, Unfit> {
        let steps = Steps::new(task, &instance)?;
        let judge = Judge { task, steps: &steps };
        let (rate, bound) = judge.rate();
        let state = judge.at(rate);
        let (batch, tpot) = state.map_or((0.0, f64::INFINITY), |one| (one.batch, one.chain.cycle));
        let each = batch / steps.lanes + rate * tpot.min(1e3) * steps.prompt / steps.lanes;
        let message = steps.pipeline.bytes(each.max(1.0));
        let loads = steps.pipeline.loads(steps.prompt + steps.further, message);
        let budget = steps.budget;
        let (groups, _) = steps.pipeline.into_parts();
        let Instance { parallel, stages, .. } = instance;
        Ok(Whole { parallel, stages, groups, rate, batch, tpot, budget, bound, message, loads })
    }

    /// All of its GPUs, stage by stage.
    pub fn gpus(&self) -> impl Iterator<Item = GpuId> + '_ {
        self.stages.iter().flatten().copied()
    }

    /// The instance, as if it had one phase.
    #[must_use]
    pub fn instance(&self) -> Instance {
        let phase = crate::instance::Phase::Decode;
        Instance { phase, parallel: self.parallel, stages: self.stages.clone() }
    }

    /// The same on other GPUs at equal places; `None` if they do not reach each other.
    pub(super) fn on(&self, task: &Task<'_>, stages: Vec<Vec<GpuId>>) -> Option<Whole> {
        let there = Whole { stages, ..self.clone() };
        let steps = Steps::new(task, &there.instance()).ok()?;
        let loads = steps.pipeline.loads(steps.prompt + steps.further, self.message);
        let (groups, _) = steps.pipeline.into_parts();
        Some(Whole { loads, groups, ..there })
    }

    /// Its TTFT and mean TPOT at a rate; `None` if it can't keep up.
    pub(super) fn times(&self, task: &Task<'_>, rate: f64) -> Option<(Times, f64)> {
        let steps = Steps::new(task, &self.instance()).ok()?;
        let judge = Judge { task, steps: &steps };
        let state = judge.at(rate)?;
        Some((judge.ttft(&state, rate), state.chain.cycle))
    }
}

/// Judges an instance.
struct Judge<'a> {
    task: &'a Task<'a>,
    steps: &'a Steps,
}

impl Judge<'_> {
    /// The largest rate within the objectives, and what ends it.
    fn rate(&self) -> (f64, Bound) {
        let steps = self.steps;
        let room = steps.room(0.0);
        let most = room * steps.lanes / (steps.prompt * steps.time(0.0, room, steps.ranks));
        let good = |rate: f64| self.fails(rate).is_none();
        if let Some(bound) = self.fails(1e-9 * most) {
            return (0.0, bound);
        }
        // The TTFT takes long to compute, so the other objectives come first.
        let rate = largest(most, good);
        if self.ttft_is_met(rate) {
            return (rate, self.fails(1.001 * rate).unwrap_or(Bound::Ttft));
        }
        (largest(rate, |rate| self.ttft_is_met(rate)), Bound::Ttft)
    }

    /// The objective that is missed at a rate, except for the TTFT.
    fn fails(&self, rate: f64) -> Option<Bound> {
        let z = normal_quantile(self.task.slo.attainment);
        let Some(WholeState { batch, chain, .. }) = self.at(rate) else { return Some(Bound::Ttft) };
        let crowd = batch + z * libm::sqrt(batch);
        if crowd > self.steps.seats {
            return Some(Bound::Seats);
        }
        if crowd + rate * chain.cycle > self.steps.kv_seats {
            return Some(Bound::Memory);
        }
        let more = self.chain(rate, batch + libm::sqrt(batch));
        let slow = (more.cycle - chain.cycle).max(0.0);
        let late = 1.0 - self.task.slo.attainment;
        (self.late(&chain, slow) > late).then_some(Bound::Tpot)
    }

    /// The share of requests above the TPOT, over the lengths of replies.
    fn late(&self, chain: &Chain, slow: f64) -> f64 {
        let room = self.task.slo.tpot - chain.cycle;
        let share = |tokens: f64| {
            let deviation = libm::sqrt(slow * slow + chain.variance / (tokens - 1.0).max(1.0));
            0.5 * libm::erfc(room / deviation.max(1e-9) * core::f64::consts::FRAC_1_SQRT_2)
        };
        let context = f64::from(self.task.subject.shape.context);
        Spread::new(self.task.output, context, |tokens| tokens).mean_of(share)
    }

    fn ttft_is_met(&self, rate: f64) -> bool {
        let late = 1.0 - self.task.slo.attainment;
        self.at(rate).is_some_and(|state| self.ttft(&state, rate).later(self.task.slo.ttft) <= late)
    }

    fn ttft(&self, state: &WholeState, rate: f64) -> Times {
        let longest = f64::from(self.task.subject.shape.context) - self.task.output.mean;
        let met = (&state.chain, state.idle);
        first_tokens(self.steps, self.task.prompt, longest, rate, met)
    }

    fn chain(&self, rate: f64, batch: f64) -> Chain {
        Chain::new(self.steps, self.task.prompt, rate, self.steps.lane(batch))
    }

    /// The least fixed point of the batch at a rate; `None` if there is none. Secants approach it from
    /// below; once they are beyond it, it is between two known batches.
    fn at(&self, rate: f64) -> Option<WholeState> {
        let further = rate * self.steps.further;
        let most = 4.0 * self.steps.seats.min(self.steps.kv_seats) + 16.0;
        let lacks = |batch: f64| {
            let chain = self.chain(rate, batch);
            let lacks =
                if chain.overloaded { f64::INFINITY } else { further * chain.cycle - batch };
            (lacks, chain)
        };
        let (mut batch, (mut lack, mut chain)) = (0.0, lacks(0.0));
        let mut low: (f64, f64) = (batch, lack);
        let mut high: Option<(f64, f64)> = None;
        let mut step = lack;
        for _ in 0..ROUNDS {
            if !lack.is_finite() || lack.abs() <= NEAR * (batch + 0.01) {
                break;
            }
            batch = match high {
                Some((at, over)) => low.0 + (at - low.0) * (low.1 / (low.1 + over)).clamp(0.1, 0.9),
                None if low.0 >= most => return None,
                None => (low.0 + step).min(most),
            };
            (lack, chain) = lacks(batch);
            if lack < 0.0 {
                high = Some((batch, -lack));
                continue;
            }
            // A larger batch makes steps longer, which makes it larger still, but by less.
            let slope = (low.1 - lack) / (batch - low.0);
            step = lack / slope.clamp(0.05, 1.0);
            low = (batch, lack);
        }
        if chain.overloaded || batch >= most {
            return None;
        }
        // Requests in the engine, prompts included, are nearly a Poisson number.
        let own = self.steps.prompt.min(chain.room);
        let prompt = rate * self.steps.time(0.0, own, 1.0);
        let idle = libm::exp(-(batch + prompt));
        Some(WholeState { batch, chain, idle })
    }
}

/// Rounds of the fixed point at most, and the error that ends them.
const ROUNDS: usize = 12;
const NEAR: f64 = 2e-3;
