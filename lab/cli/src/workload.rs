//! `meridian workload`: lists, describes, writes and converts workloads and traces.

pub(crate) mod files;
mod made;
mod report;
pub(crate) mod shaping;

use std::path::PathBuf;

use anyhow::{Context, bail};
use meridian_workload::trace::{
    Format, Shape, Stats, StatsOptions, TraceError, TraceRequest, Writer, shape,
};

use files::Source;
use made::Made;

/// Describe, write and convert workloads and traces
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List generators and formats
    List {
        /// Show the source and the parameters of each generator
        #[arg(short, long)]
        verbose: bool,
    },
    /// Show statistics of a trace or a generator
    Stats(StatsArgs),
    /// Write the requests of a generator to a trace
    Write(WriteArgs),
    /// Convert a trace to another format, and change its times and sessions
    Convert(ConvertArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    made: Made,
    #[command(flatten)]
    shaping: shaping::Shaping,
    /// Leading blocks that all requests may share without being turns of one conversation, if the
    /// trace has no sessions
    #[arg(long, default_value_t = 1)]
    opening_blocks: usize,
    /// Sizes of an LRU cache, in blocks
    #[arg(long, value_delimiter = ',', default_values_t = StatsOptions::default().cache_blocks)]
    cache_blocks: Vec<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct WriteArgs {
    #[command(flatten)]
    made: Made,
    /// Format: mooncake or journal
    #[arg(long, default_value = "journal", value_parser = files::format)]
    format: Format,
    /// Output file [default: standard output]; compressed if the name ends in .gz
    #[arg(short, long)]
    output: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    shaping: shaping::Shaping,
    /// Format: mooncake or journal
    #[arg(long, value_parser = files::format)]
    to: Format,
    /// Tokens in a block of the output [default: as in the trace]
    #[arg(long)]
    to_block_tokens: Option<u32>,
    /// Output file [default: standard output]; compressed if the name ends in .gz
    #[arg(short, long)]
    output: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::List { verbose } => list(verbose),
        Command::Stats(args) => stats(args),
        Command::Write(args) => write(args),
        Command::Convert(args) => convert(args),
    }
}

fn list(verbose: bool) -> anyhow::Result<()> {
    println!("generators:");
    made::list(verbose);
    println!("formats:");
    for format in Format::ALL {
        println!("  {:<12} {}", format.name(), format.summary());
    }
    Ok(())
}

fn stats(args: StatsArgs) -> anyhow::Result<()> {
    let StatsArgs { source, made, shaping, opening_blocks, cache_blocks, json } = args;
    let mut stats = Stats::new(StatsOptions { opening_blocks, cache_blocks });
    let mut add = |request: TraceRequest, _: u64| {
        stats.add(&request);
        Ok(())
    };
    match (source.given(), made.given()) {
        (true, false) => each(&source, &shaping.shape(), &mut add)?,
        (false, true) => {
            let generator = made.generator()?;
            for request in made.requests(&*generator, made.block_tokens.unwrap_or(16))? {
                add(request, 0)?;
            }
        }
        _ => bail!("FILE: give either a FILE or a --generator"),
    }
    let summary = stats.finish();
    match json {
        true => println!("{}", serde_json::to_string_pretty(&report::json(&summary))?),
        false => print!("{}", report::text(&summary)),
    }
    Ok(())
}

fn write(args: WriteArgs) -> anyhow::Result<()> {
    let generator = args.made.generator()?;
    let out = files::create(args.output.as_deref())?;
    let block = args.made.block_tokens_for(args.format);
    let mut writer = writer(out, args.format, block)?;
    for (number, request) in (0..).zip(args.made.requests(&*generator, block)?) {
        writer.write(request, number).context("cannot write the trace")?;
    }
    files::close(writer.finish()?)
}

fn convert(args: ConvertArgs) -> anyhow::Result<()> {
    let mut out = Some(files::create(args.output.as_deref())?);
    let mut to = None;
    each(&args.source, &args.shaping.shape(), &mut |request, number| {
        if let Some(out) = out.take() {
            let own = Some(request.block_tokens).filter(|&block| block > 0);
            let block = args.to_block_tokens.or(own).or(args.to.block_tokens()).unwrap_or(16);
            to = Some(writer(out, args.to, block)?);
        }
        let to = to.as_mut().expect("the first request makes it");
        to.write(request, number).context("cannot write the trace")
    })?;
    match (to, out) {
        (Some(to), _) => files::close(to.finish()?),
        (None, Some(out)) => files::close(out),
        (None, None) => Ok(()),
    }
}

fn writer(out: files::Out, format: Format, block: u32) -> anyhow::Result<Writer<files::Out>> {
    let refused = || format!("{} is an input format only; use mooncake or journal", format.name());
    Writer::new(out, format, block).with_context(refused)
}

/// Hands every request of a trace to `take`, with its number, and reports skipped lines.
pub(crate) fn each(
    source: &Source,
    to: &Shape,
    take: &mut dyn FnMut(TraceRequest, u64) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut reader = source.open()?;
    let name = source.name();
    let mut taken = 0;
    for request in shape(&mut reader, to)? {
        let remedy = match &request {
            Err(
                TraceError::Line { .. } | TraceError::TooLong { .. } | TraceError::CutShort { .. },
            ) => " (--lenient skips it)",
            _ => "",
        };
        take(request.with_context(|| format!("{name}{remedy}"))?, taken)?;
        taken += 1;
    }
    let skipped = reader.skipped();
    match &skipped.first {
        Some(first) if taken == 0 => bail!("{name}: every line is bad; the first: {first}"),
        Some(first) => {
            eprintln!("{name}: {} bad lines were skipped; the first: {first}", skipped.lines);
        }
        None => {}
    }
    Ok(())
}
