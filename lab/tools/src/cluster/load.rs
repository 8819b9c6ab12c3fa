//! A model's requests: from a generator at its published rate or from a trace, in order; if a rate
//! is given, with new arrival times.
//!
//! Experiments sweep the rate, like the paper, with Poisson arrivals. Requests keep their order,
//! and with it the distance between those that share a prefix; only their times are redrawn. A
//! larger cluster at the same rate per GPU therefore needs more users: otherwise the next turn of a
//! conversation would arrive before the last one is computed.

use anyhow::{Context, bail, ensure};
use meridian_base::{Duration, Time, mix};
use meridian_sim::cluster::Request;
use meridian_workload::trace::{
    Answers, Load as Clients, ReadOptions, RecordOptions, TraceRequest, find_excerpt, record,
};
use meridian_workload::{Generator, Poisson, PublishedLoad, find_generator};

use super::file::Load;
use crate::{generator, trace_file};

/// Tokens of a block of generated prompts.
const BLOCK: u32 = 64;

/// Requests before the run, and those of the run.
pub struct Asked {
    /// Before the run.
    pub known: Vec<Request>,
    /// In the run.
    pub requests: Vec<Request>,
}

/// Number and limits of requests.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Before the run.
    pub known: usize,
    /// In the run.
    pub requests: usize,
    /// Most tokens of a prompt: longer ones are not generated, and in a trace they are refused
    /// later.
    pub context: u32,
    /// GPUs that the rate is based on.
    pub gpus: u32,
    /// The seed.
    pub seed: u64,
}

/// The requests of a load, by time.
///
/// # Errors
/// If the load or the trace is invalid; the error names the remedy.
pub fn requests(load: &Load, wanted: Wanted) -> anyhow::Result<Asked> {
    let Wanted { known, requests: count, gpus, seed, .. } = wanted;
    ensure!(count > 0, "requests: 0 sends nothing; use 1 or more");
    let all = known + count;
    let users = load.users.unwrap_or(1.0);
    ensure!(users > 0.0 && users.is_finite(), "users is {users}: use a number above 0");
    let recorded: Vec<TraceRequest> = match (&load.generator, &load.excerpt, &load.trace) {
        (Some(named), None, None) => {
            let built = generator::build(named);
            let built = built.map_err(|errors| anyhow::anyhow!("{}", errors.join("\n")))?;
            let per_second = find_generator(&named.name).map_or(10.0, |spec| match spec.load {
                PublishedLoad::PerSecond(rate) => rate,
                _ => 10.0,
            });
            generated(built.as_ref(), all, wanted, per_second * users)
        }
        (None, Some(name), None) => {
            let excerpt = find_excerpt(name)
                .with_context(|| format!("excerpt: `{name}` is unknown; use mooncake"))?;
            excerpt.requests().into_iter().take(all).collect()
        }
        (None, None, Some(file)) => {
            let name = || format!("trace: {}", file.display());
            let input = trace_file::open(file).with_context(name)?;
            let reader = trace_file::reader(input, None, &ReadOptions::default());
            let reader = reader.with_context(name)?;
            reader.take(all).collect::<Result<_, _>>().with_context(name)?
        }
        (None, None, None) => bail!("give one of generator, excerpt and trace"),
        _ => bail!("give one of generator, excerpt and trace, not several"),
    };
    let mut found = match load.generator {
        Some(_) => recorded,
        None => copied(recorded, load, all)?,
    };
    let rest = found.split_off(known);
    let mut requests: Vec<Request> = rest.iter().map(asked).collect();
    match load.rate {
        Some(rate) => {
            ensure!(rate > 0.0 && rate.is_finite(), "rate is {rate}: use a number above 0");
            let times = Poisson::new(seed, rate * f64::from(gpus));
            for (request, at) in requests.iter_mut().zip(times) {
                request.at = Time::ZERO + at;
            }
        }
        None => {
            ensure!(
                load.generator.is_none(),
                "rate: a generator needs one, in requests a second a GPU"
            );
            let first = requests.iter().map(|request| request.at).min().unwrap_or(Time::ZERO);
            requests.iter_mut().for_each(|one| one.at = Time::ZERO + one.at.since(first));
            requests.sort_by_key(|request| request.at);
        }
    }
    Ok(Asked { known: found.iter().map(asked).collect(), requests })
}

fn generated(
    from: &dyn Generator,
    count: usize,
    wanted: Wanted,
    per_second: f64,
) -> Vec<TraceRequest> {
    let options = RecordOptions {
        seed: wanted.seed,
        load: Clients::Open { requests_per_second: per_second, clients: vec![64] },
        answers: Answers { ttft: Duration::from_millis(200), tpot: Duration::from_millis(30) },
        block_tokens: BLOCK,
        regions: Vec::new(),
    };
    let fits = |request: &TraceRequest| request.input_tokens <= wanted.context;
    record(from, &options).filter(fits).take(count).collect()
}

/// A trace with its users multiplied: copies that share no prefix, each starting at a different
/// place, alternate.
fn copied(trace: Vec<TraceRequest>, load: &Load, all: usize) -> anyhow::Result<Vec<TraceRequest>> {
    let (users, holds) = (load.users.unwrap_or(1.0), trace.len());
    ensure!(users.fract() == 0.0, "users is {users}: a trace is copied whole; use 1, 2, 3 ...");
    ensure!(
        users == 1.0 || load.rate.is_some(),
        "users is {users}: copies of a trace need a rate, in requests a second a GPU"
    );
    // With more copies than requests some would be empty.
    let copies = (users as usize).min(all);
    ensure!(
        holds * copies >= all,
        "the trace holds {holds} requests, and known and requests ask for {all} of it: lower them"
    );
    let one = |nth: usize| {
        let (turn, copy) = (nth / copies, nth % copies);
        let mut request = trace[(copy * holds / copies + turn) % holds].clone();
        if copy > 0 {
            request.hash_ids.iter_mut().for_each(|id| *id = mix(copy as u64, *id));
        }
        request
    };
    Ok((0..all).map(one).collect())
}

/// A recorded request as the cluster sees it: ids that name whole prefixes.
fn asked(request: &TraceRequest) -> Request {
    let mut chain = u64::from(request.block_tokens);
    let blocks = request.hash_ids.iter().map(|id| {
        chain = mix(chain, *id);
        chain
    });
    Request {
        at: request.at,
        tokens: request.input_tokens,
        block_tokens: request.block_tokens.max(1),
        blocks: blocks.collect(),
    }
}
