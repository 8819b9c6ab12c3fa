//! Two measured vLLM runs, request by request.
//!
//! 300 ShareGPT requests at ten a second on RTX PRO 6000 GPUs, more than they can serve, so that
//! queueing makes most of the TTFT (casys-kaist/LLMServingSim, MIT). Two coefficients, the share of
//! the bandwidth and what the engine spends beside the GPU, are fitted on the first 100 requests of
//! the dense run; the other 200 and the whole run of the mixture of experts (two data-parallel ranks
//! that share the experts) judge them.
//!
//! The mixture of experts fails that judgement: its steps are slower than its bytes and the ranks'
//! exchanges explain. It is shown a second time with the same two coefficients fitted on its own
//! first 100 requests.

use meridian_base::{RequestId, Time, mix};
use meridian_engine::{
    BLOCK_TOKENS, Config, Efficiency, Engine, Gpu, Input, Model, Output, Profile, Submission,
    TokenOutputs,
};

/// Requests of the dense run that the coefficients were fitted on.
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
    config: fn(Efficiency) -> Config,
}

/// The efficiency of the GPU's table row, fitted on the dense run.
#[must_use]
pub fn efficiency() -> Efficiency {
    gpu().efficiency
}

/// The share of the bandwidth and the host's factor, fitted on the experts' own first requests.
pub const EXPERTS_FITTED: [f64; 2] = [0.93, 2.6];

/// The H100's efficiency with this share of the bandwidth and this factor on what the engine spends
/// beside the GPU: the two coefficients of a run.
#[must_use]
pub fn with(memory: f64, host: f64) -> Efficiency {
    let base = Gpu::named("h100").expect("the table has it").efficiency;
    Efficiency {
        memory,
        step: host * base.step,
        sequence: host * base.sequence,
        launch: host * base.launch,
        ..base
    }
}

fn gpu() -> Gpu {
    Gpu::named("rtx-pro-6000").expect("the table has it")
}

/// Llama-3.1-8B on one GPU.
#[must_use]
pub fn dense() -> Run {
    let config = |efficiency| {
        let model = Model::named("llama-3.1-8b").expect("the table has it");
        let profile = Profile::new(model, gpu().with_efficiency(efficiency), 1);
        settings(profile.expect("8 billion parameters fit 96 GB"), 1)
    };
    run(include_str!("../../data/calibration/vllm-llama-3.1-8b.csv"), config)
}

/// Qwen3-30B-A3B on two GPUs, data parallel with expert parallel.
#[must_use]
pub fn experts() -> Run {
    let config = |efficiency| {
        let model = Model::named("qwen3-30b-a3b").expect("the table has it");
        let gpu = gpu().with_efficiency(efficiency);
        let profile = Profile::expert_parallel(model, gpu, 2);
        settings(profile.expect("30 billion parameters fit 96 GB"), 2)
    };
    run(include_str!("../../data/calibration/vllm-qwen3-30b-a3b.csv"), config)
}

/// The engine arguments of both runs: 128 sequences and 2,048 tokens a step, on each rank.
fn settings(profile: Profile, ranks: u32) -> Config {
    let mut config = Config::new(profile);
    config.max_num_seqs = 128 * ranks;
    config.max_num_batched_tokens = 2048 * ranks;
    config.token_outputs = TokenOutputs::First;
    config.decode_stride = 1 << 16;
    config
}

fn run(csv: &str, config: fn(Efficiency) -> Config) -> Run {
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
    Run { requests, measured, config }
}

impl Run {
    /// What the engine model shows for the same requests.
    ///
    /// # Panics
    /// When a request does not end.
    #[must_use]
    pub fn replay(&self, efficiency: Efficiency) -> Vec<Timing> {
        let config = (self.config)(efficiency);
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
