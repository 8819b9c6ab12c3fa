//! The requests of a question: from a trace, as far as it is read, or from a generator.
//!
//! A trace is read once. Under each seed, its arrivals are spread over their grid and its sessions get
//! their regions. Replies are taken from later turns, so that replicas have them cached as the
//! recorded engine did ([`meridian_workload::trace::ProgramOptions`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use meridian_base::{Time, mix};
use meridian_tools::replay::{ANSWERS, tails};
use meridian_tools::trace_file;
use meridian_workload::Program;
use meridian_workload::trace::{
    Excerpt, Format, Outcome, ProgramOptions, ReadOptions, Shape, TraceError, TraceRequest, shape,
    to_programs,
};

use super::live::{self, Live};
use super::made::Made;
use super::places::Places;

/// Most requests of a question.
pub(super) const MOST: u64 = 1 << 20;
/// Tokens at the start of a prompt that different conversations share: a system prompt.
const OPENING: u32 = 1024;
/// Lines may be out of order by less than this.
const ORDER: Duration = Duration::from_secs(600);

/// Where requests come from.
pub enum Source {
    /// An excerpt that ships with the program.
    Excerpt(&'static Excerpt),
    /// A trace or a journal.
    File(TraceFile),
    /// A generator.
    Made(Made),
}

/// A trace in a file.
#[derive(Clone, Debug)]
pub struct TraceFile {
    /// The file; compressed if its name ends in .gz.
    pub path: PathBuf,
    /// Its format; otherwise its first line shows it.
    pub format: Option<Format>,
    /// Tokens of a block, if not the format's own.
    pub block_tokens: Option<u32>,
    /// Skips bad lines.
    pub lenient: bool,
}

/// The part of a trace to simulate, and how it is sent.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Drops requests that arrived earlier.
    pub after: Duration,
    /// Drops requests that arrived then or later.
    pub before: Option<Duration>,
    /// Speed, as a multiple of the recorded one.
    pub speed: f64,
    /// The grid of the arrivals, which are spread over its steps.
    pub spread: Duration,
    /// A request without a session that shares more leading blocks than this with an earlier one is
    /// a later turn of its session; `None` for those of 1,024 tokens.
    pub sessions_beyond: Option<usize>,
    /// Stops after this many requests.
    pub requests: u64,
    /// Sends a turn only after the answers that its session had before it.
    pub chained: bool,
}

/// Requests that can be simulated.
pub struct Traffic {
    /// What they are, in words.
    pub name: String,
    /// What the reader has to know about them.
    pub notes: Vec<String>,
    /// The decisions of a shadow policy, if the trace has them.
    pub shadow: Option<Live>,
    kind: TrafficKind,
}

enum TrafficKind {
    Recorded(Recorded),
    Made { made: Made, requests: u64 },
}

/// A trace, and how it is sent.
struct Recorded {
    requests: Vec<TraceRequest>,
    spread: Duration,
    speed: f64,
    chained: bool,
}

/// Programs that enter in one region and match the same residency rules.
pub(super) struct Stream {
    pub(super) region: usize,
    pub(super) rules: Vec<usize>,
    /// The regions that may serve them; `None` for all.
    pub(super) may: Option<Vec<usize>>,
    pub(super) programs: Arc<Vec<(Time, Program)>>,
}

/// The programs of a seed.
pub(super) struct Sent {
    pub(super) streams: Vec<Stream>,
    pub(super) requests: u64,
    /// When the last request was sent, as it was recorded.
    pub(super) last: Duration,
    /// Whether requests of a trace wait for answers, so that they may be sent later.
    pub(super) waits: bool,
}

impl Traffic {
    /// Reads the trace, or prepares the generator.
    ///
    /// # Errors
    /// When the trace can't be read or has no requests; the error names the field and the remedy.
    pub fn read(source: Source, cut: &Cut) -> anyhow::Result<Traffic> {
        let most = cut.requests;
        ensure!((1..=MOST).contains(&most), "requests: {most} is out of range; use 1 to {MOST}");
        let good = cut.speed > 0.0 && cut.speed.is_finite();
        ensure!(good, "speed: {} is not a speed; use a number above 0", cut.speed);
        match source {
            Source::Made(made) => Ok(Traffic::made(made, cut)),
            Source::Excerpt(excerpt) => {
                let requests = excerpt.requests().into_iter().map(Ok);
                let whole = shape(requests, &window(cut))?.collect::<Result<Vec<_>, _>>()?;
                Traffic::recorded(excerpt.name.to_owned(), whole, Vec::new(), cut)
            }
            Source::File(file) => {
                let named = || file.path.display().to_string();
                let (requests, notes) = from_file(&file, cut).with_context(named)?;
                Traffic::recorded(named(), requests, notes, cut).with_context(named)
            }
        }
    }

    fn made(made: Made, cut: &Cut) -> Traffic {
        let name = made.words();
        let kind = TrafficKind::Made { made, requests: cut.requests };
        Traffic { name, notes: Vec::new(), shadow: None, kind }
    }

    pub(super) fn recorded(
        name: String,
        mut requests: Vec<TraceRequest>,
        mut notes: Vec<String>,
        cut: &Cut,
    ) -> anyhow::Result<Traffic> {
        if requests.len() as u64 > cut.requests {
            requests.truncate(cut.requests as usize);
            let end = requests.last().map_or(0.0, |last| last.at.as_secs_f64());
            notes.push(format!(
                "The trace is cut: only its first {} requests, of {end:.0} s, are simulated; \
                 --requests takes more, --after and --before another part.",
                cut.requests
            ));
        }
        let read = requests.len();
        requests.retain(|request| request.outcome != Some(Outcome::ClientError));
        if requests.len() < read {
            notes.push(format!(
                "{} requests that the recorded gateway refused as client errors are left out.",
                read - requests.len()
            ));
        }
        let unanswered = |request: &&TraceRequest| {
            matches!(request.outcome, Some(Outcome::Failed | Outcome::Cancelled))
        };
        let unanswered = requests.iter().filter(unanswered).count();
        if unanswered > 0 {
            notes.push(format!(
                "{unanswered} of {} requests were cancelled or failed when they were recorded. They are \
                 simulated with the part of the reply that was delivered, at least one token.",
                requests.len()
            ));
        }
        ensure!(
            !requests.is_empty(),
            "there are no requests in it that can be simulated; choose another part with --after and \
             --before, or another trace"
        );
        let models: BTreeSet<&str> = requests.iter().filter_map(|r| r.model.as_deref()).collect();
        if models.len() > 1 {
            let models = models.into_iter().collect::<Vec<_>>().join(", ");
            notes.push(format!(
                "The trace has several models ({models}); all are simulated as one."
            ));
        }
        if requests.iter().all(|request| request.hash_ids.is_empty()) {
            notes.push(
                "The trace shows no shared prefixes, so replicas have nothing cached.".into(),
            );
        }
        let shadow = live::live(&requests);
        let mut requests = with_sessions(requests, cut)?;
        tails::name(&mut requests);
        let Cut { spread, speed, chained, .. } = *cut;
        let kind = TrafficKind::Recorded(Recorded { requests, spread, speed, chained });
        Ok(Traffic { name, notes, shadow, kind })
    }

    /// Seconds in which the requests arrive, about.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        match &self.kind {
            TrafficKind::Recorded(Recorded { requests, speed, .. }) => {
                requests.last().map_or(0.0, |last| last.at.as_secs_f64() / speed)
            }
            TrafficKind::Made { made, requests } => *requests as f64 / made.rate,
        }
    }

    /// The option that changes how fast the requests arrive.
    pub(super) fn pace(&self) -> &'static str {
        match &self.kind {
            TrafficKind::Recorded(_) => "--speed",
            TrafficKind::Made { .. } => "--rate",
        }
    }

    /// The programs under `seed`, by region and by the residency rules that they match.
    ///
    /// # Errors
    /// When the trace's regions are not those of the question.
    pub(super) fn sent(&self, places: &Places, seed: u64) -> anyhow::Result<Sent> {
        match &self.kind {
            TrafficKind::Recorded(recorded) => recorded.sent(places, seed),
            TrafficKind::Made { made, requests } => made.sent(places, seed, *requests),
        }
    }
}

/// The requests, each with a session: its own, or else that of the one which it continues.
fn with_sessions(requests: Vec<TraceRequest>, cut: &Cut) -> anyhow::Result<Vec<TraceRequest>> {
    let block = requests.iter().map(|request| request.block_tokens).max().unwrap_or(0).max(1);
    let usual = (OPENING / block).saturating_sub(1).max(1) as usize;
    let sessions_beyond = Some(cut.sessions_beyond.unwrap_or(usual));
    let to = Shape { order_within: ORDER, sessions_beyond, ..Shape::default() };
    Ok(shape(requests.into_iter().map(Ok), &to)?.collect::<Result<_, _>>()?)
}

fn window(cut: &Cut) -> Shape {
    Shape {
        order_within: ORDER,
        from: Time::ZERO + cut.after,
        to: cut.before.map_or(Time::MAX, |before| Time::ZERO + before),
        // One more shows that there are more.
        limit: cut.requests + 1,
        ..Shape::default()
    }
}

fn from_file(file: &TraceFile, cut: &Cut) -> anyhow::Result<(Vec<TraceRequest>, Vec<String>)> {
    let options = ReadOptions {
        block_tokens: file.block_tokens,
        lenient: file.lenient,
        ..ReadOptions::default()
    };
    let input = trace_file::open(&file.path).context("cannot open it")?;
    let mut reader = trace_file::reader(input, file.format, &options)?;
    let requests = shape(&mut reader, &window(cut))?;
    let requests = requests.collect::<Result<Vec<_>, _>>();
    let requests = requests.map_err(|error| match error {
        TraceError::Line { .. } if !file.lenient => anyhow!("{error}; --lenient skips bad lines"),
        other => other.into(),
    })?;
    let skipped = reader.skipped();
    let note = |first| match skipped.lines {
        1 => format!("One bad line was skipped: {first}"),
        lines => format!("{lines} bad lines were skipped; the first: {first}"),
    };
    Ok((requests, skipped.first.as_ref().map(note).into_iter().collect()))
}

impl Recorded {
    fn sent(&self, places: &Places, seed: u64) -> anyhow::Result<Sent> {
        let names: Vec<Arc<str>> = places.regions.iter().map(|r| r.name.as_str().into()).collect();
        let shares = places.traffic();
        let regions =
            shares.into_iter().flat_map(|shares| names.iter().cloned().zip(shares)).collect();
        // Which requests of a session overlap shows at the recorded speed only.
        let rate = if self.chained { 1.0 } else { self.speed };
        let spread = self.spread;
        let to = Shape { seed, order_within: ORDER, spread, rate, regions, ..Shape::default() };
        let shaped = shape(self.requests.iter().cloned().map(Ok), &to)?;
        let shaped = shaped.collect::<Result<Vec<_>, _>>()?;
        let classes = shaped.iter().map(|request| class(request, &names, places));
        let mut classes: Vec<Class> = classes.collect::<Result<_, _>>()?;
        let last = shaped.last().map_or(Time::ZERO, |last| last.at);
        let mut shaped = shaped;
        if self.chained {
            classes = apart(&mut shaped, classes);
        }
        let chained = self.chained.then_some(ANSWERS);
        let options = ProgramOptions { seed, regions: names, chained, replies: true };
        let programs = to_programs(shaped.into_iter().map(Ok), &options);
        let starts = rate / self.speed;
        let programs =
            programs.map(|program| program.map(|(at, program)| (at.scaled(starts), program)));
        let programs = programs.collect::<Result<Vec<_>, _>>()?;
        let sent = Sent::of(places, classes.into_iter().zip(programs));
        let last = last.scaled(starts).since(Time::ZERO);
        Ok(Sent { last, waits: self.chained, ..sent })
    }
}

/// A region, and the residency rules that a request matches.
type Class = (usize, Vec<usize>);

/// Parts the sessions whose requests have several classes, since a program has one. Returns the class of
/// each program, in the order of their first requests.
fn apart(requests: &mut [TraceRequest], classes: Vec<Class>) -> Vec<Class> {
    let mut seen: HashMap<u64, Vec<Class>> = HashMap::new();
    let mut of_programs = Vec::new();
    for (request, class) in requests.iter_mut().zip(classes) {
        let Some(session) = request.session else {
            of_programs.push(class);
            continue;
        };
        let parts = seen.entry(session).or_default();
        let part = parts.iter().position(|known| *known == class).unwrap_or_else(|| {
            of_programs.push(class.clone());
            parts.push(class);
            parts.len() - 1
        });
        if part > 0 {
            request.session = Some(mix(session, part as u64));
        }
    }
    of_programs
}

/// The region of a request and the residency rules that it matches.
fn class(request: &TraceRequest, names: &[Arc<str>], places: &Places) -> anyhow::Result<Class> {
    let name = request.region.as_deref();
    let found = names.iter().position(|known| Some(&**known) == name);
    let region = found.with_context(|| {
        let known = names.iter().map(|name| &**name).collect::<Vec<_>>().join(", ");
        let remedy = "give each region its share with `traffic`";
        match name {
            Some(name) => format!(
                "regions: the trace has requests of `{name}`, and the file has {known}; add it, or \
                 {remedy}"
            ),
            None => format!("regions: the trace does not name the regions of requests; {remedy}"),
        }
    })?;
    let tenant = request.tenant.unwrap_or(0);
    Ok((region, places.rules.matching(region, tenant, request.model.as_deref())))
}

impl Stream {
    fn requests(&self) -> u64 {
        self.programs.iter().map(|(_, program)| program.nodes.len() as u64).sum()
    }
}

impl Sent {
    /// Programs by time, each with its region and the residency rules that it matches.
    pub(super) fn of(
        places: &Places,
        all: impl Iterator<Item = ((usize, Vec<usize>), (Time, Program))>,
    ) -> Sent {
        let mut streams: BTreeMap<_, Vec<(Time, Program)>> = BTreeMap::new();
        let (mut requests, mut last) = (0, Duration::ZERO);
        for (class, (at, program)) in all {
            requests += program.nodes.len() as u64;
            last = last.max(at.since(Time::ZERO));
            streams.entry(class).or_default().push((at, program));
        }
        let stream = |((region, rules), programs): ((usize, Vec<usize>), _)| Stream {
            region,
            may: places.may(&rules),
            rules,
            programs: Arc::new(programs),
        };
        let streams = streams.into_iter().map(stream).collect();
        Sent { streams, requests, last, waits: false }
    }

    /// Without the streams of regions that have no clients.
    pub(super) fn kept(mut self, places: &Places) -> Sent {
        self.streams.retain(|stream| places.serves(stream.region));
        self.requests = self.streams.iter().map(Stream::requests).sum();
        self
    }

    /// Fails if some of the requests can be served nowhere: no fleet is large enough for them.
    pub(super) fn check(&self, places: &Places) -> anyhow::Result<()> {
        let nowhere = |stream: &Stream| places.nowhere(stream.region, &stream.rules);
        let stuck: Vec<_> =
            self.streams.iter().filter_map(|stream| Some((stream, nowhere(stream)?))).collect();
        let Some((_, why)) = stuck.first() else { return Ok(()) };
        let count: u64 = stuck.iter().map(|(stream, _)| stream.requests()).sum();
        let share = count as f64 / self.requests as f64;
        bail!("residency: no region may serve {:.1} % of the requests: {why}", share * 100.0)
    }
}
