//! `meridian engine`: serves a model of an inference engine over vLLM's API.

mod planned;
mod transfer;

use anyhow::Context;
use meridian_engined::engine::{Config, GPUS, MODELS, Profile};
use meridian_engined::{Options, Service, serve_service};
use std::io::Write;
use std::net::SocketAddr;
use tokio::signal::unix::{SignalKind, signal};

use meridian_cli::{hangup, logs};

/// Run a model of an inference engine behind vLLM's API, without a GPU
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long, required_unless_present = "plan", help = one_of("Model", MODELS.map(|m| m.name)))]
    model: Option<String>,
    #[arg(
        long,
        required_unless_present = "plan",
        conflicts_with = "plan",
        help = one_of("GPU", GPUS.map(|gpu| gpu.name))
    )]
    gpu: Option<String>,
    /// Tensor parallel degree: GPUs of the replica.
    #[arg(long, default_value_t = 1, conflicts_with = "plan")]
    tp: u32,
    #[command(flatten)]
    planned: planned::Planned,
    /// Address to listen on; port 0 is any free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Name of the replica, sent in the `server` header.
    #[arg(long, default_value = "meridian-engine", conflicts_with = "plan")]
    name: String,
    /// Name of the model in the API [default: its own name].
    #[arg(long)]
    served_model_name: Option<String>,
    /// Speed of the model, as a multiple of real time.
    #[arg(long, default_value_t = 1.0)]
    time_scale: f64,
    /// KV blocks of 16 tokens [default: the memory that the weights leave free].
    #[arg(long)]
    kv_blocks: Option<u32>,
    /// Most sequences in a batch [default: vLLM's for the GPU].
    #[arg(long)]
    max_num_seqs: Option<u32>,
    /// Most tokens computed in a step [default: vLLM's for the GPU].
    #[arg(long, alias = "max-num-batched-tokens")]
    max_batched_tokens: Option<u32>,
    /// Longest sequence, reply included [default: the context window, or the size of the KV cache].
    #[arg(long)]
    max_model_len: Option<u32>,
    /// Coefficient of variation of step times.
    #[arg(long, default_value_t = 0.0)]
    jitter: f64,
    /// Seed of reply texts, reply lengths and jitter.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Log the x-request-id of each request to stderr, as vLLM does with --enable-log-requests.
    #[arg(long)]
    log_requests: bool,
    /// LoRA adapters in one batch, as the metrics report it; with it, clients load and unload
    /// adapters at /v1/load_lora_adapter and /v1/unload_lora_adapter.
    #[arg(long)]
    max_loras: Option<u32>,
    #[command(flatten)]
    transfer: transfer::TransferArgs,
}

/// The help of an option with these values.
fn one_of<const N: usize>(what: &str, names: [&str; N]) -> String {
    format!("{what}: {}", names.join(", "))
}

impl Args {
    fn options(self) -> anyhow::Result<Options> {
        let mut options = self.planned.options(self.model.as_deref())?.map_or_else(
            || self.whole(),
            |mut options| {
                options.transfer = Some(self.transfer.of(options.transfer.unwrap_or_default()));
                Ok(options)
            },
        )?;
        let mut config = options.engine;
        if let Some(blocks) = self.kv_blocks {
            config = config.with_kv_blocks(blocks);
        }
        config.max_num_seqs = self.max_num_seqs.unwrap_or(config.max_num_seqs);
        config.max_num_batched_tokens =
            self.max_batched_tokens.unwrap_or(config.max_num_batched_tokens);
        config.max_model_len = self.max_model_len.unwrap_or(config.max_model_len);
        config.jitter = self.jitter;
        config.validate()?;
        options.engine = config;
        options.listen = self.listen;
        options.time_scale = self.time_scale;
        options.seed = self.seed;
        options.max_loras = self.max_loras;
        options.log_requests = self.log_requests;
        options.served_model = self.served_model_name.unwrap_or(options.served_model);
        Ok(options)
    }

    /// One model on GPUs of one kind.
    fn whole(&self) -> anyhow::Result<Options> {
        let (model, gpu) = (self.model.as_deref(), self.gpu.as_deref());
        let (model, gpu, tp) = (model.unwrap_or_default(), gpu.unwrap_or_default(), self.tp);
        let profile = Profile::named(model, gpu, tp)
            .map_err(|error| anyhow::anyhow!("--model {model} --gpu {gpu} --tp {tp}: {error}"))?;
        let mut options = Options::new(Config::new(profile));
        options.name.clone_from(&self.name);
        options.transfer = Some(self.transfer.transfer());
        Ok(options)
    }
}

/// Serves until SIGTERM or SIGINT, then lets running requests finish.
///
/// # Errors
/// If the settings contradict each other, or the address is in use.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let options = args.options()?;
    logs::start(logs::Format::Text);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        hangup::survive("a model engine")?;
        let mut terminate = signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot watch for SIGINT")?;
        let shutdown = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        let service = Service::start(options)?;
        let side_channel = service.side_channel();
        serve_service(service, |address| announce(address, side_channel), shutdown).await?;
        Ok(())
    })
}

/// Prints the addresses. The engine serves on if stdout is closed.
fn announce(address: SocketAddr, side_channel: Option<SocketAddr>) {
    let mut lines = format!("listening on http://{address}\n");
    if let Some(address) = side_channel {
        lines.push_str(&format!("side channel on {address}\n"));
    }
    let mut out = std::io::stdout();
    let _ = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
}
