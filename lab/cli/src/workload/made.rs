//! The options of commands that run a generator.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use meridian_workload::trace::{
    Answers, Format, Load, RecordOptions, TraceRequest, is_name, record,
};
use meridian_workload::{GENERATORS, Generator, find_generator};

/// A generator and its clients.
#[derive(Debug, clap::Args)]
pub(crate) struct Made {
    /// Generator; `meridian workload list` lists them
    #[arg(long)]
    generator: Option<String>,
    /// Parameter of the generator, as key=value; repeat for more
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Stop after this many requests
    #[arg(long, default_value_t = 10_000)]
    requests: usize,
    /// Seed of the generator
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Clients, as 40, or by region as us=40,eu=20
    #[arg(long, value_delimiter = ',', default_value = "16", value_parser = clients)]
    clients: Vec<(Option<Arc<str>>, u32)>,
    /// Open loop: programs arrive at random, with so many requests a second on average
    #[arg(long)]
    rate: Option<f64>,
    /// How long every answer takes to its first token
    #[arg(long, default_value = "200ms", value_parser = humantime::parse_duration)]
    ttft: Duration,
    /// How long every answer takes for each further token
    #[arg(long, default_value = "30ms", value_parser = humantime::parse_duration)]
    tpot: Duration,
    /// Tokens of a block [default: the format's own; 16 for a journal and for stats]
    #[arg(long)]
    pub(crate) block_tokens: Option<u32>,
}

/// Prints the generators, with the source and parameters of each if `verbose`.
pub(crate) fn list(verbose: bool) {
    for spec in GENERATORS {
        println!("  {:<12} {}", spec.name, spec.summary);
        if !verbose {
            continue;
        }
        println!("{:15}from: {}", "", spec.source);
        for knob in spec.knobs() {
            println!("{:15}{} = {}: {}", "", knob.name, knob.default, knob.doc);
        }
    }
}

impl Made {
    pub(crate) fn given(&self) -> bool {
        self.generator.is_some()
    }

    pub(crate) fn generator(&self) -> anyhow::Result<Box<dyn Generator>> {
        let name = self
            .generator
            .as_deref()
            .context("--generator: is missing; `meridian workload list` lists them")?;
        let unknown =
            || format!("--generator: `{name}` is unknown; `meridian workload list` lists them");
        let spec = find_generator(name).with_context(unknown)?;
        let params =
            self.set.iter().map(|set| parameter(set)).collect::<anyhow::Result<Vec<_>>>()?;
        spec.build(&params).map_err(|errors| {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            anyhow!("{}", errors.join("\n"))
        })
    }

    /// Tokens of a block in a file of `format`.
    pub(crate) fn block_tokens_for(&self, format: Format) -> u32 {
        self.block_tokens.or(format.block_tokens()).unwrap_or(16)
    }

    /// The requests of the run.
    pub(crate) fn requests<'a>(
        &self,
        generator: &'a dyn Generator,
        block_tokens: u32,
    ) -> anyhow::Result<impl Iterator<Item = TraceRequest> + 'a> {
        let counts: Vec<u32> = self.clients.iter().map(|(_, n)| *n).collect();
        let names: Vec<_> = self.clients.iter().filter_map(|(name, _)| name.clone()).collect();
        if !names.is_empty() && names.len() != counts.len() {
            bail!("--clients: some entries have a region and others do not; write us=40,eu=20");
        }
        if let Some(name) = names.iter().find(|name| !is_name(name)) {
            bail!("--clients: `{name}` is not a name of a region; use letters, digits and ._:/@+-");
        }
        if self.rate.is_some_and(|rate| !(rate > 0.0 && rate.is_finite())) {
            bail!(
                "--rate: {:?} is out of range; use a number above 0",
                self.rate.unwrap_or_default()
            );
        }
        let load = match self.rate {
            None => Load::Closed { clients: counts },
            Some(requests_per_second) => Load::Open { requests_per_second, clients: counts },
        };
        let options = RecordOptions {
            seed: self.seed,
            load,
            answers: Answers { ttft: self.ttft, tpot: self.tpot },
            block_tokens,
            regions: names,
        };
        Ok(record(generator, &options).take(self.requests))
    }
}

fn parameter(text: &str) -> anyhow::Result<(String, f64)> {
    let parts = text.split_once('=');
    let number = parts.and_then(|(_, value)| value.parse().ok());
    let wrong = || format!("--set: `{text}` is not a parameter; write key=number");
    let (key, value) = (parts.map(|(key, _)| key.to_owned()), number);
    key.zip(value).with_context(wrong)
}

fn clients(text: &str) -> Result<(Option<Arc<str>>, u32), String> {
    let (name, number) = match text.split_once('=') {
        Some((name, number)) => (Some(Arc::from(name)), number),
        None => (None, text),
    };
    let number = number.parse().ok().filter(|n| (1..=1_000_000).contains(n));
    let wrong =
        || format!("`{text}` is not a number of clients; use 1 to 1000000, as in 40 or us=40");
    Ok((name, number.ok_or_else(wrong)?))
}
