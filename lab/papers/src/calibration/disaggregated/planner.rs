//! The same points by the planner's judge: a fleet with the row's instances, and no simulation.
//!
//! The planner knows arrivals at a rate, and the clients of these runs keep a number of requests in
//! flight. The rate is the one at which the planner's requests in flight are as many as the clients:
//! by Little's law, the rate times a request's time. Replies that find no sequence slot wait, so the
//! rate stays below that of full slots; the clients that remain are then waiting, and their time is
//! part of the TTFT, as it is in the measurement. Two things belong to how the runs were made, as
//! in `procedure.rs`: all clients start at once, so the first tenth of the requests waits for the
//! prompts of all others; and with the engine's coefficients a request spends the engine's fixed time outside of it.
//!
//! Throughput is the tokens of replies a second that a closed loop must have, given TTFT and TPOT.
//! The list has none, so the measured one is computed in the same way.
//!
//! Nothing is fitted here. [`Coefficients::General`] are those of `meridian plan`, fitted on other
//! points; [`Coefficients::Engine`] are those of the engine model for the row's engine and model, so
//! that what remains is the error of the planner's queues.

use std::rc::Rc;

use meridian_engine::{Efficiency, Tuned};
use meridian_plan::{
    Fleet, GpuId, Instance, Lengths, Parallel, Phase, Rated, Slo, Subject, Task, Times, Topology,
    TopologySpec, Verdict, largest,
};

use super::deployment::{Deployment, Pool};
use super::pace;
use super::replica::with_kv_format;
use crate::calibration::points::{Campaign, Point};

/// GPUs of a server in all of these runs.
const SERVER: u32 = 8;

/// Whose shares of the GPU's datasheet apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coefficients {
    /// The planner's own, the same for every model.
    General,
    /// Those of the engine model for this engine and model, with its pace of decode steps.
    Engine,
}

/// A closed loop's figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Mean TTFT, in milliseconds.
    pub ttft: f64,
    /// Mean TPOT, in milliseconds.
    pub tpot: f64,
    /// Tokens of replies a second for each GPU.
    pub tokens: f64,
}

/// The measured figures of a deployment.
#[must_use]
pub fn measured(it: &Deployment) -> Figures {
    let Point { ttft, tpot, .. } = it.point;
    figures(it, ttft, tpot)
}

/// The throughput of these times, if the clients' number of requests is always in flight.
#[must_use]
pub fn figures(it: &Deployment, ttft: f64, tpot: f64) -> Figures {
    let gpus = |pool: &Pool| f64::from(pool.replicas * pool.gpus);
    let each = lengths(&it.point)[1].mean / (gpus(&it.prefill) + gpus(&it.decode));
    let figures = Figures { ttft, tpot, tokens: 0.0 };
    Figures { tokens: rate(it, &figures) * each, ..figures }
}

/// Requests a second with these times.
fn rate(it: &Deployment, of: &Figures) -> f64 {
    let reply = lengths(&it.point)[1].mean;
    f64::from(it.point.clients) / (1e-3 * (of.ttft + (reply - 1.0) * of.tpot))
}

/// The planner's prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Its figures.
    pub figures: Figures,
    /// The prompts of the measured rate, as a share of what the prefill instances compute one at a
    /// time. Above 1 the planner holds the measurement for impossible.
    pub load: f64,
}

/// The planner's prediction for a deployment.
///
/// # Errors
/// If an instance does not run, or the planner finds that the fleet serves nothing.
pub fn predict(it: &Deployment, tuned: &Tuned, of: Coefficients) -> anyhow::Result<Prediction> {
    let topology = topology(it, tuned, of)?;
    let shape = with_kv_format(it.point.model, tuned.software);
    let subject = Subject { name: shape.name.to_owned(), shape };
    let [prompt, output] = lengths(&it.point);
    // No objective, so that capacity is what limits.
    let slo = Slo { ttft: 1e4, tpot: 1e4, attainment: 0.5 };
    let task = Task::new(&topology, &subject, (prompt, output), slo);
    let fleet = fleet(it, &task)?;
    let verdict = fleet.judged(&task);
    let verdict = verdict.ok_or_else(|| anyhow::anyhow!("the fleet serves nothing"))?;
    let slots = f64::from(it.decode.replicas * it.decode.ranks * it.decode.slots);
    let able: f64 = fleet.prefill.iter().map(|one| 1.0 / one.queue.interval).sum();
    let front = if of == Coefficients::Engine { tuned.front } else { 0.0 };
    let run = Closed { task: &task, fleet: &fleet, verdict, slots, able, front };
    let (ttft, tpot) = run.times(f64::from(it.point.clients));
    let load = rate(it, &measured(it)) / able;
    Ok(Prediction { figures: figures(it, 1e3 * ttft, 1e3 * tpot), load })
}

/// Share of the requests that the clients send at the start: each sends ten.
const FIRST: f64 = 0.1;

/// A fleet in a closed loop.
struct Closed<'a> {
    task: &'a Task<'a>,
    fleet: &'a Fleet,
    verdict: Verdict,
    /// Sequence slots of all decode instances.
    slots: f64,
    /// Prompts a second that the prefill instances compute.
    able: f64,
    /// Seconds of a request outside the engines.
    front: f64,
}

impl Closed<'_> {
    /// TTFT and TPOT with so many requests in flight, in seconds.
    fn times(&self, clients: f64) -> (f64, f64) {
        let reply = self.task.output.mean;
        let at = |rate: f64| self.fleet.times(self.task, &self.verdict, rate);
        let rest = |tpot: f64| (reply - 1.0) * tpot;
        let most = self.verdict.goodput;
        let most = largest(most, |rate| rate * rest(at(rate).tpot) <= self.slots);
        let few = |rate: f64| {
            let times = at(rate);
            rate * (self.first(times) + rest(times.tpot)) <= clients
        };
        let rate = largest(most, few);
        let times = at(rate);
        let steady = clients / rate - rest(times.tpot);
        // All prompts at once: the middle one waits for half of them.
        let start = self.first(at(0.0)) + 0.5 * clients / self.able;
        (FIRST * start.max(steady) + (1.0 - FIRST) * steady, times.tpot)
    }

    /// The first token as the client sees it. The planner's TTFT ends with a step of the decode replica.
    fn first(&self, times: Times) -> f64 {
        self.front + times.ttft
    }
}

/// Lengths of prompts and replies, as the campaigns draw them.
fn lengths(point: &Point) -> [Lengths; 2] {
    let of = |tokens: u32| match point.campaign {
        Campaign::Nvidia => Lengths::equal(f64::from(tokens)),
        // Evenly between 80 and 100 %.
        Campaign::InferenceX => {
            Lengths { mean: 0.9 * f64::from(tokens), cv: 0.2 / (0.9 * libm::sqrt(12.0)) }
        }
    };
    [of(point.isl), of(point.osl)]
}

/// Servers of eight GPUs, as both systems have them; the prefill pool's first.
fn topology(it: &Deployment, tuned: &Tuned, of: Coefficients) -> anyhow::Result<Topology> {
    let (gpu, first) = (it.point.gpu, servers(&it.prefill));
    let count = first + servers(&it.decode);
    let yaml = format!(
        "version: 1\nname: measured\nunits:\n- servers:\n  - {{count: {count}, gpu: {gpu}, gpus: \
         {SERVER}, nvlink: 450GB/s, cards: {SERVER}, card_rate: 400Gb/s}}\n"
    );
    let plain = TopologySpec::read(&yaml)?.build()?;
    if of == Coefficients::General {
        return Ok(plain);
    }
    let (prefill, decode) = (tuned.efficiency, slower(tuned.efficiency, pace(gpu)));
    Ok(plain.with_efficiency(|server| Some(if server < first { prefill } else { decode })))
}

/// The engine model's decode replica: steps take `pace` times as long, and launch no prompts.
fn slower(of: Efficiency, pace: f64) -> Efficiency {
    Efficiency {
        memory: of.memory / pace,
        compute: of.compute / pace,
        attention: of.attention / pace,
        link: of.link / pace,
        step: of.step * pace,
        sequence: of.sequence * pace,
        reduce: of.reduce * pace,
        launch: 0.0,
    }
}

/// Servers of a pool. A replica that fits into one does not span two.
fn servers(pool: &Pool) -> u32 {
    if pool.gpus > SERVER {
        pool.replicas * pool.gpus.div_ceil(SERVER)
    } else {
        pool.replicas.div_ceil(SERVER / pool.gpus)
    }
}

fn fleet(it: &Deployment, task: &Task<'_>) -> anyhow::Result<Fleet> {
    let first = servers(&it.prefill) * SERVER;
    let of = |phase, pool: &Pool, from: u32| -> anyhow::Result<Vec<Rc<Rated>>> {
        let parallel = Parallel { tp: pool.gpus, pp: 1, ep: pool.ranks > 1 };
        // Replicas of 8 and fewer GPUs fill servers, as all of these sizes divide one.
        let each = pool.gpus.next_multiple_of(if pool.gpus > SERVER { SERVER } else { 1 });
        let one = |nth: u32| {
            let start = from + nth * each;
            let stages = vec![(start..start + pool.gpus).map(GpuId).collect()];
            let rated = Rated::new(task, Instance { phase, parallel, stages });
            let rated = rated.map_err(|why| anyhow::anyhow!("{}: {why:?}", phase.name()))?;
            Ok(Rc::new(rated))
        };
        (0..pool.replicas).map(one).collect()
    };
    Ok(Fleet {
        prefill: of(Phase::Prefill, &it.prefill, 0)?,
        decode: of(Phase::Decode, &it.decode, first)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::disaggregated::deployment::numbered;
    use crate::calibration::silicon::tuned;

    /// A row of the list, with its engine's coefficients.
    fn row(number: usize) -> (Deployment, Tuned) {
        let row = numbered().into_iter().find(|row| row.number == number).unwrap();
        let it = row.known.unwrap();
        (it, tuned(&it.point).unwrap())
    }

    // Eleven clients have nine slots: the others wait for a reply, and the rate is that of full
    // slots. With enough slots the TTFT is that of a prompt.
    #[test]
    fn clients_without_a_slot_wait() {
        let (it, tuned) = row(675);
        let times = |it: &Deployment| predict(it, &tuned, Coefficients::Engine).unwrap().figures;
        let few = times(&it);
        let mut many = it;
        many.decode.slots = 256;
        let many = times(&many);
        let reply = few.tpot * f64::from(it.point.osl) * 0.9;
        assert!(few.ttft > reply / 9.0 && few.ttft > 4.0 * many.ttft, "{few:?} {many:?}");
        assert!(many.tokens > few.tokens);
    }

    // More clients wait longer and get more tokens together; the engine's own coefficients are the
    // slower ones for this model.
    #[test]
    fn clients_share_the_fleet() {
        let (it, tuned) = row(37);
        let times = |it: &Deployment, of| predict(it, &tuned, of).unwrap();
        let mut more = it;
        more.point.clients *= 4;
        let [few, many] = [it, more].map(|it| times(&it, Coefficients::Engine).figures);
        assert!(many.ttft > few.ttft && many.tpot > few.tpot && many.tokens > few.tokens);
        let general = times(&it, Coefficients::General);
        assert!(general.figures.tpot < few.tpot && general.load < 1.0);
    }

    // Replicas of 4, 8 and 16 GPUs: those that fit into a server do not span two.
    #[test]
    fn replicas_fill_servers() {
        let pool = |replicas, gpus| Pool { replicas, gpus, ranks: 1, slots: 1, tokens: None };
        assert_eq!([pool(3, 4), pool(3, 8), pool(3, 16)].map(|one| servers(&one)), [2, 3, 6]);
    }
}
