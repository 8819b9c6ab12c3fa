//! The options of the prompts: a workload, and the caches to warm for it.

use meridian_protocol::policy::{Policy, Scalar};
use meridian_tools::load::{Options, Warm, Workload};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Prompts")]
pub(super) struct Contents {
    /// Workload: sessions, tree2, tree4, chat, mixed, documents
    #[arg(long, default_value = "sessions")]
    workload: String,
    /// Generator to use instead; `meridian workload list` lists them
    #[arg(long, value_name = "NAME", conflicts_with_all = ["workload", "turns", "system_bytes", "question_bytes", "depth", "max_tokens"])]
    generator: Option<String>,
    /// Parameter of the generator; repeat for more
    #[arg(long = "knob", value_name = "NAME=NUMBER", value_parser = knob, requires = "generator")]
    knobs: Vec<(String, f64)>,
    /// Turns in a session
    #[arg(long, default_value_t = 8)]
    turns: u32,
    /// Bytes in the system prompt that sessions share
    #[arg(long, default_value_t = 6144)]
    system_bytes: u32,
    /// Bytes in a question
    #[arg(long, default_value_t = 160)]
    question_bytes: u32,
    /// Levels of a tree
    #[arg(long, default_value_t = 4)]
    depth: u32,
    /// Most tokens in a reply
    #[arg(long, default_value_t = 64)]
    max_tokens: u32,
    /// Seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Region of the clients
    #[arg(long, default_value_t = 0)]
    region: u32,
    #[command(flatten)]
    warming: Warming,
}

#[derive(Debug, clap::Args)]
pub(super) struct Warming {
    /// Before the run, send up to this many of the prefixes that its prompts share
    #[arg(long, value_name = "PREFIXES", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    warm: Option<u32>,
    /// Replicas that all get these prefixes, instead of the endpoint
    #[arg(long, value_name = "URL", value_delimiter = ',', requires = "warm")]
    warm_at: Vec<String>,
}

impl Contents {
    /// Sets the options of the prompts.
    pub(super) fn set(self, options: &mut Options) {
        options.workload = Workload {
            name: self.generator.clone().unwrap_or(self.workload),
            generator: self.generator.map(|name| Policy {
                name,
                params: self.knobs.into_iter().map(|(k, v)| (k, Scalar::Number(v))).collect(),
            }),
            turns: self.turns,
            system_bytes: self.system_bytes,
            question_bytes: self.question_bytes,
            depth: self.depth,
            max_tokens: self.max_tokens,
        };
        options.seed = self.seed;
        options.region = self.region;
        self.warming.set(options);
    }
}

impl Warming {
    pub(super) fn set(self, options: &mut Options) {
        options.warm = self.warm.map(|prefixes| Warm { prefixes, at: self.warm_at });
    }
}

/// A parameter and its value: `share=0.5`.
fn knob(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is not a parameter; write NAME=NUMBER"))?;
    let number = value.parse().map_err(|_| format!("`{value}` is not a number"))?;
    Ok((name.to_owned(), number))
}
