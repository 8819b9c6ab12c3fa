//! Four measured vLLM runs, request by request.
//!
//! 300 ShareGPT requests at ten a second, more than the GPUs can serve, so that queueing makes most of
//! the TTFT (casys-kaist/LLMServingSim, MIT). Two coefficients are fitted on the first 100 requests of
//! each of three runs, which the other 200 judge: on an RTX PRO 6000 the share of the bandwidth and what
//! the engine spends beside the GPU; on two of them, over which a larger model is split, the way between
//! them; on an RTX 4090, where KV has room for some forty requests, the first two again. A mixture of
//! experts on two RTX PRO 6000 (data-parallel ranks that share them) is judged with what those gave.

use meridian_base::{RequestId, Time, mix};
use meridian_engine::{
    BLOCK_TOKENS, Config, Efficiency, Engine, Gpu, Input, Model, Output, Profile, Submission,
    TokenOutputs,
};

/// Requests of a run that its coefficients were fitted on.
pub const FITTED: usize = 100;

/// What vLLM takes of a request outside its steps, in seconds: the H100's row with Qwen3-32B in bf16,
/// from which all that is not fitted here comes.
const FRONT: f64 = 5.488e-3;

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
    /// What vLLM showed.
    pub measured: Vec<Timing>,
    gpu: Gpu,
    config: fn(Gpu) -> Config,
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
        settings(profile.expect("8 billion parameters fit 96 GB"), 1)
    };
    let csv = include_str!("../../data/calibration/vllm-llama-3.1-8b.csv");
    run(csv, gpu("rtx-pro-6000"), config)
}

/// Qwen3-32B, each layer split over two of them.
#[must_use]
pub fn split() -> Run {
    let config = |gpu| {
        let profile = Profile::new(model("qwen3-32b"), gpu, 2);
        settings(profile.expect("32 billion parameters fit twice 96 GB"), 1)
    };
    run(include_str!("../../data/calibration/vllm-qwen3-32b.csv"), gpu("rtx-pro-6000"), config)
}

/// Llama-3.1-8B on an RTX 4090, whose KV vLLM found to be 2,588 blocks: most requests wait for room,
/// and some that run lose theirs. 256 sequences a step.
#[must_use]
pub fn scarce() -> Run {
    let config = |gpu| {
        let profile = Profile::new(model("llama-3.1-8b"), gpu, 1);
        let profile = profile.expect("8 billion parameters fit 24 GB");
        Config { max_num_seqs: 256, ..settings(profile, 1).with_kv_blocks(2588) }
    };
    let csv = include_str!("../../data/calibration/vllm-llama-3.1-8b-rtx4090.csv");
    run(csv, gpu("rtx-4090"), config)
}

/// Qwen3-30B-A3B on two RTX PRO 6000, data parallel with expert parallel.
#[must_use]
pub fn experts() -> Run {
    let config = |gpu| {
        let profile = Profile::expert_parallel(model("qwen3-30b-a3b"), gpu, 2);
        settings(profile.expect("30 billion parameters fit 96 GB"), 2)
    };
    let csv = include_str!("../../data/calibration/vllm-qwen3-30b-a3b.csv");
    run(csv, gpu("rtx-pro-6000"), config)
}

/// The engine arguments of all runs: 128 sequences and 2,048 tokens a step, on each rank.
fn settings(profile: Profile, ranks: u32) -> Config {
    let mut config = Config::new(profile);
    config.max_num_seqs = 128 * ranks;
    config.max_num_batched_tokens = 2048 * ranks;
    config.token_outputs = TokenOutputs::First;
    config.decode_stride = 1 << 16;
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
    Run { requests, measured, gpu, config }
}

impl Run {
    /// The efficiency of the GPU's table row.
    #[must_use]
    pub fn efficiency(&self) -> Efficiency {
        self.gpu.efficiency
    }

    /// What the engine model shows for the same requests.
    ///
    /// # Panics
    /// When a request does not end.
    #[must_use]
    pub fn replay(&self, efficiency: Efficiency) -> Vec<Timing> {
        let config = (self.config)(self.gpu.with_efficiency(efficiency));
        let mut engine = Engine::new(config, 1).expect("the settings go together");
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
                    let ttft = (FRONT + (timings.queued + timings.prefill).as_secs_f64()) * 1e3;
                    let tpot = timings.decode.as_secs_f64() * 1e3 / gaps;
                    rows[id.0 as usize] = Timing { ttft, tpot };
                }
            }
        }
        rows
    }
}
