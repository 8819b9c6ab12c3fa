//! Four measured vLLM runs, request by request.
//!
//! 300 ShareGPT requests at ten a second, more than the GPUs can serve, so queueing is most of the
//! TTFT (casys-kaist/LLMServingSim, MIT). One or two coefficients are fitted on the first 100
//! requests of each run, and the other 200 judge them. On an RTX PRO 6000 these are the share of
//! the bandwidth and the engine's time outside the GPU; on two of them, with a larger model split
//! over both, the link between them; on an RTX 4090, whose KV fits some forty requests, the first
//! two again; with a mixture of experts on two RTX PRO 6000 (data-parallel ranks that share them),
//! the time to read context in steps with prompts.
//!
//! A request's TTFT is counted from its arrival at the front end: it includes the current step, and
//! the one that vLLM has already scheduled.

use meridian_base::{RequestId, Time, mix};
use meridian_engine::{
    BLOCK_TOKENS, Config, Efficiency, Gpu, Input, Model, Output, Profile, Ranks, Schedule,
    Submission, Together, TokenOutputs,
};

/// Requests of a run that its coefficients were fitted on.
pub const FITTED: usize = 100;

/// Replays whose mean is compared. The step that a request catches is random, since a replay's
/// steps do not start at the measured times, and that is a large part of the TTFT of a request that
/// does not wait long.
const REPLAYS: u64 = 16;

/// Random variation of step times, so that replays differ: about the error of a single step's time.
const JITTER: f64 = 0.05;

/// How many times as long the RTX PRO 6000 takes to read context in steps with prompts, with 32
/// query heads to 4 KV heads. The run's own coefficient; kernels measured by themselves have 3.75
/// (645 us a layer for 128 contexts of 1,024 tokens beside a prompt, where 0.87 of the bandwidth
/// would take 172).
const MIXED: f64 = 3.1;

/// TTFT and TPOT of a request, in ms.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timing {
    /// Time to the first token.
    pub ttft: f64,
    /// Time of each further token.
    pub tpot: f64,
}

/// A measured run.
#[derive(Clone, Debug)]
pub struct Run {
    requests: Vec<(Time, Submission)>,
    /// vLLM's measurements.
    pub measured: Vec<Timing>,
    gpu: Gpu,
    config: fn(Gpu) -> Config,
    ranks: u32,
    mixed: f64,
}

fn gpu(name: &str) -> Gpu {
    Gpu::named(name).expect("the table has it")
}

fn model(name: &str) -> Model {
    Model::named(name).expect("the table has it")
}

/// Llama-3.1-8B on one RTX PRO 6000.
#[must_use]
pub fn dense() -> Run {
    let config = |gpu| {
        let profile = Profile::new(model("llama-3.1-8b"), gpu, 1);
        settings(profile.expect("8 billion parameters fit 96 GB"))
    };
    let csv = include_str!("../../data/calibration/vllm-llama-3.1-8b.csv");
    run(csv, gpu("rtx-pro-6000"), config)
}

/// Qwen3-32B, each layer split over two of them.
#[must_use]
pub fn split() -> Run {
    let config = |gpu| {
        let profile = Profile::new(model("qwen3-32b"), gpu, 2);
        settings(profile.expect("32 billion parameters fit twice 96 GB"))
    };
    run(include_str!("../../data/calibration/vllm-qwen3-32b.csv"), gpu("rtx-pro-6000"), config)
}

/// Llama-3.1-8B on an RTX 4090, whose KV vLLM found to be 2,588 blocks: most requests wait for
/// memory, and some running ones are preempted. 256 sequences a step.
#[must_use]
pub fn scarce() -> Run {
    let config = |gpu| {
        let profile = Profile::new(model("llama-3.1-8b"), gpu, 1);
        let profile = profile.expect("8 billion parameters fit 24 GB");
        Config { max_num_seqs: 256, ..settings(profile).with_kv_blocks(2588) }
    };
    let csv = include_str!("../../data/calibration/vllm-llama-3.1-8b-rtx4090.csv");
    run(csv, gpu("rtx-4090"), config)
}

/// Qwen3-30B-A3B on two RTX PRO 6000, data parallel with expert parallel.
#[must_use]
pub fn experts() -> Run {
    experts_with(MIXED)
}

/// The same with a different value of its own coefficient.
#[must_use]
pub fn experts_with(mixed: f64) -> Run {
    let config = |gpu| {
        let profile = Profile::expert_parallel(model("qwen3-30b-a3b"), gpu, 2);
        settings(profile.expect("30 billion parameters fit 96 GB"))
    };
    let csv = include_str!("../../data/calibration/vllm-qwen3-30b-a3b.csv");
    Run { ranks: 2, mixed, ..run(csv, gpu("rtx-pro-6000"), config) }
}

/// The engine arguments of all runs: 128 sequences and 2,048 tokens a step, on each rank.
fn settings(profile: Profile) -> Config {
    let mut config = Config::new(profile);
    config.max_num_seqs = 128;
    config.max_num_batched_tokens = 2048;
    config.token_outputs = TokenOutputs::First;
    config.schedule = Schedule::Ahead;
    config.jitter = JITTER;
    config
}

fn run(csv: &str, gpu: Gpu, config: fn(Gpu) -> Config) -> Run {
    let (mut requests, mut measured) = (Vec::new(), Vec::new());
    let mut blocks: Vec<Vec<u64>> = Vec::new();
    for (id, row) in csv.lines().skip(1).enumerate() {
        let cells: Vec<f64> =
            row.split(',').map(|cell| cell.parse().expect("the file holds numbers")).collect();
        let (prompt, reply) = (cells[1] as u32, cells[2] as u32);
        let shared = cells[6] as usize;
        let mut own: Vec<u64> = match blocks.get(cells[5] as usize) {
            Some(parent) => parent[..shared].to_vec(),
            None => Vec::new(),
        };
        let whole = ((prompt + reply) / BLOCK_TOKENS) as usize;
        own.extend((own.len()..whole.max(shared)).map(|block| mix(id as u64, block as u64)));
        let submission = Submission {
            id: RequestId(id as u64),
            prompt_tokens: prompt,
            reply_tokens: reply,
            max_tokens: reply,
            blocks: own.clone(),
        };
        blocks.push(own);
        requests.push((Time::from_nanos((cells[0] * 1e9) as u64), submission));
        measured.push(Timing { ttft: cells[3], tpot: cells[4] });
    }
    // Client threads recorded a few arrivals out of order.
    requests.sort_by_key(|(at, _): &(Time, Submission)| *at);
    Run { requests, measured, gpu, config, ranks: 1, mixed: 1.0 }
}

impl Run {
    /// The efficiency of the GPU's table row.
    #[must_use]
    pub fn efficiency(&self) -> Efficiency {
        self.gpu.efficiency
    }

    /// The engine model's results for the same requests: the mean of several replays for each.
    #[must_use]
    pub fn replay(&self, efficiency: Efficiency) -> Vec<Timing> {
        let mut means = vec![Timing::default(); self.requests.len()];
        for seed in 1..=REPLAYS {
            for (mean, one) in means.iter_mut().zip(self.once(efficiency, seed)) {
                mean.ttft += one.ttft / REPLAYS as f64;
                mean.tpot += one.tpot / REPLAYS as f64;
            }
        }
        means
    }

    /// One replay that is not part of the mean: its distance from the mean shows the random
    /// variation.
    #[must_use]
    pub fn another(&self, efficiency: Efficiency) -> Vec<Timing> {
        self.once(efficiency, REPLAYS + 1)
    }

    fn once(&self, efficiency: Efficiency, seed: u64) -> Vec<Timing> {
        let config = (self.config)(self.gpu.with_efficiency(efficiency));
        let together = Together::new(&config.profile, self.ranks, self.mixed);
        let mut engine = Ranks::new(config, together, seed).expect("the settings go together");
        let mut rows = vec![Timing::default(); self.requests.len()];
        let mut requests = self.requests.iter().peekable();
        loop {
            let due = engine.poll_timeout();
            let next = requests.next_if(|(at, _)| due.is_none_or(|due| *at <= due));
            if let Some((at, submission)) = next {
                engine.handle(*at, Input::Submit(submission.clone()));
                continue;
            }
            let Some(due) = due else { break };
            engine.handle_timeout(due);
            while let Some(output) = engine.poll() {
                if let Output::Finished { id, usage, timings, .. } = output {
                    let gaps = f64::from(usage.reply_tokens.max(2) - 1);
                    let ttft = (timings.queued + timings.prefill).as_secs_f64() * 1e3;
                    let tpot = timings.decode.as_secs_f64() * 1e3 / gaps;
                    rows[id.0 as usize] = Timing { ttft, tpot };
                }
            }
        }
        rows
    }
}
