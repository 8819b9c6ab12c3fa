//! The options of the requests: a trace, or a generator with its rate.

use std::io::BufRead as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use meridian_papers::what_if::{Cut, Made, Source, TraceFile};
use meridian_protocol::policy::{Policy, Scalar};
use meridian_tools::load::seconds;
use meridian_tools::{generator, trace_file};
use meridian_workload::trace::{Format, find_excerpt};
use meridian_workload::{Generator, find_generator};

use crate::workload::files;

/// The first columns of ServeGen's files.
const SERVEGEN: &str = "client,window_start_s,";
/// Mooncake's traces have arrivals on this grid.
const GRID: Duration = Duration::from_secs(3);
/// Others are spread by as much as tells seeds apart.
const APART: Duration = Duration::from_millis(1);
/// Requests a second of a generator without a rate.
const RATE: f64 = 4.0;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Requests")]
pub(super) struct Requests {
    /// Journal or trace; an excerpt: mooncake, azure; a generator, as `meridian workload list` names
    /// it; or a file of ServeGen's rates
    #[arg(value_name = "TRACE")]
    pub(super) trace: String,
    /// Format of the trace [default: detected from its first line]
    #[arg(long, value_parser = files::format)]
    pub(super) from: Option<Format>,
    /// Tokens in a block of the trace, if not the format's default
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub(super) from_block_tokens: Option<u32>,
    /// Skip bad lines and report their number
    #[arg(long)]
    pub(super) lenient: bool,
    /// Simulate at most this many requests
    #[arg(long, default_value_t = 10_000)]
    pub(super) requests: u64,
    /// Drop requests of a trace that arrive earlier [default: 0s]
    #[arg(long, value_parser = seconds)]
    pub(super) after: Option<Duration>,
    /// Drop requests of a trace that arrive then or later
    #[arg(long, value_parser = seconds)]
    pub(super) before: Option<Duration>,
    /// Speed of a trace, as a multiple of the recorded one [default: 1]
    #[arg(long)]
    pub(super) speed: Option<f64>,
    /// Grid of a trace's arrivals, which are spread over its steps [default: 3s for Mooncake's, 1ms
    /// for others, so that seeds differ]
    #[arg(long, value_parser = seconds)]
    pub(super) spread: Option<Duration>,
    /// Send a turn of a trace only after the answers that its session had before it, and the recorded
    /// time to think
    #[arg(long)]
    pub(super) chained: bool,
    /// Treat a request without a session as a later turn if it shares more leading blocks than this
    /// with an earlier one [default: those of 1,024 tokens]
    #[arg(long)]
    pub(super) sessions_beyond: Option<usize>,
    /// Generator of the prompts, if TRACE has ServeGen's rates
    #[arg(long, value_name = "NAME")]
    pub(super) generator: Option<String>,
    /// Parameter of the generator, as key=value; repeat for more
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// Requests a second of a generator, in all regions [default: 4, or ServeGen's own]
    #[arg(long)]
    pub(super) rate: Option<f64>,
}

/// What TRACE is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Excerpt,
    Generator,
    Rates,
    File(Option<Format>),
}

impl Requests {
    /// Names go before files: `./mooncake` is a file.
    pub(super) fn kind(&self) -> anyhow::Result<Kind> {
        if find_excerpt(&self.trace).is_some() {
            return Ok(Kind::Excerpt);
        }
        if find_generator(&self.trace).is_some() {
            return Ok(Kind::Generator);
        }
        let other = std::fs::metadata(&self.trace).is_ok_and(|one| !one.is_file() && !one.is_dir());
        ensure!(
            self.trace != "-" && !other,
            "TRACE: a pipe or standard input can't be read again, and the report names a command that repeats \
             it; write the trace to a file"
        );
        let mut input = trace_file::open(&PathBuf::from(&self.trace)).with_context(|| {
            format!(
                "TRACE: cannot open {}; name a file, mooncake, azure, or a generator of `meridian \
                 workload list`",
                self.trace
            )
        })?;
        let head =
            input.fill_buf().with_context(|| format!("TRACE: cannot read {}", self.trace))?;
        let line =
            String::from_utf8_lossy(head.split(|byte| *byte == b'\n').next().unwrap_or(head));
        Ok(match line.starts_with(SERVEGEN) {
            true => Kind::Rates,
            false => Kind::File(self.from.or_else(|| Format::of_first_line(&line))),
        })
    }

    /// The requests.
    pub(super) fn source(&self) -> anyhow::Result<Source> {
        let kind = self.kind()?;
        self.check(kind)?;
        let path = PathBuf::from(&self.trace);
        Ok(match kind {
            Kind::Excerpt => Source::Excerpt(find_excerpt(&self.trace).context("TRACE: unknown")?),
            Kind::File(_) => Source::File(TraceFile {
                path,
                format: self.from,
                block_tokens: self.from_block_tokens,
                lenient: self.lenient,
            }),
            Kind::Generator => {
                let rate = self.shown_rate(kind).unwrap_or(RATE);
                Source::Made(Made::poisson(self.made(&self.trace)?, &self.trace, rate)?)
            }
            Kind::Rates => {
                let name = self.generator.as_deref().context(
                    "--generator: is missing, and ServeGen's file has rates only; name the generator \
                     of the prompts, as in --generator qwen_a",
                )?;
                let part = (self.after.unwrap_or_default(), self.before);
                Source::Made(Made::servegen(self.made(name)?, name, self.rate, &path, part)?)
            }
        })
    }

    /// The rate as it is given, or the default; ServeGen's file has its own.
    pub(super) fn shown_rate(&self, kind: Kind) -> Option<f64> {
        self.rate.or((kind == Kind::Generator).then_some(RATE))
    }

    /// The part of the trace, with its defaults.
    pub(super) fn cut(&self) -> anyhow::Result<Cut> {
        Ok(Cut {
            after: self.after.unwrap_or_default(),
            before: self.before,
            speed: self.speed.unwrap_or(1.0),
            spread: self.spread.unwrap_or(match self.kind()? {
                Kind::File(Some(Format::Mooncake)) => GRID,
                Kind::Excerpt if self.trace == Format::Mooncake.name() => GRID,
                _ => APART,
            }),
            sessions_beyond: self.sessions_beyond,
            requests: self.requests,
            chained: self.chained,
        })
    }

    /// Refuses options that would have no effect.
    fn check(&self, kind: Kind) -> anyhow::Result<()> {
        let made = matches!(kind, Kind::Generator | Kind::Rates);
        let of_traces = [
            ("--speed", self.speed.is_some(), "use --rate"),
            ("--spread", self.spread.is_some(), "leave it out"),
            ("--chained", self.chained, "leave it out: its turns always wait"),
            ("--sessions-beyond", self.sessions_beyond.is_some(), "leave it out"),
            ("--from", self.from.is_some(), "leave it out"),
            ("--from-block-tokens", self.from_block_tokens.is_some(), "leave it out"),
            ("--lenient", self.lenient, "leave it out"),
        ];
        if let Some((flag, _, remedy)) = of_traces.iter().find(|(_, given, _)| made && *given) {
            bail!("{flag}: a generator has none; {remedy}");
        }
        let of_files = [
            ("--from", self.from.is_some()),
            ("--from-block-tokens", self.from_block_tokens.is_some()),
            ("--lenient", self.lenient),
        ];
        if let Some((flag, _)) = of_files.iter().find(|(_, given)| kind == Kind::Excerpt && *given)
        {
            bail!("{flag}: is for files, and {} ships with the program; leave it out", self.trace);
        }
        let window = self.after.is_some() || self.before.is_some();
        if kind == Kind::Generator && window {
            bail!("--after, --before: a generator has no times of its own; use --requests");
        }
        let of_generators = [
            ("--rate", self.rate.is_some() && !made, "a trace has its own; use --speed"),
            ("--set", !self.set.is_empty() && !made, "only a generator has parameters"),
            (
                "--generator",
                self.generator.is_some() && kind != Kind::Rates,
                "only ServeGen's rates need one; leave it out",
            ),
        ];
        if let Some((flag, _, remedy)) = of_generators.iter().find(|(_, wrong, _)| *wrong) {
            bail!("{flag}: {remedy}");
        }
        Ok(())
    }

    fn made(&self, name: &str) -> anyhow::Result<Arc<dyn Generator>> {
        let parameter = |text: &String| {
            let parts = text.split_once('=');
            let number = parts.and_then(|(key, value)| Some((key, value.parse().ok()?)));
            let wrong = || format!("--set: `{text}` is not a parameter; write key=number");
            let (key, number) = number.with_context(wrong)?;
            anyhow::Ok((key.to_owned(), Scalar::Number(number)))
        };
        let params: Vec<(String, Scalar)> =
            self.set.iter().map(parameter).collect::<Result<_, _>>()?;
        for (at, (key, _)) in params.iter().enumerate() {
            let twice = params[..at].iter().any(|(other, _)| other == key);
            ensure!(!twice, "--set: `{key}` is there twice; give it once");
        }
        let params = params.into_iter().collect();
        generator::build(&Policy { name: name.to_owned(), params })
            .map_err(|errors| anyhow!("{}", errors.join("; ")))
    }
}
