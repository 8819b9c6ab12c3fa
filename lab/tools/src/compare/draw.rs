//! Samples of a side: its requests and the slices of its time, as they were or drawn again.
//!
//! Requests that follow each other share a queue and a batch, so their times are not independent.
//! They are therefore drawn in blocks of consecutive requests, n^(1/3) long (Künsch's block
//! bootstrap). A set of runs is drawn in two steps: runs, then requests in each.

use meridian_base::Rng;

use crate::load::{Record, Report, Slo};
use crate::stats;

/// Slices of a run's window, for the rates.
const SLICES: usize = 30;

/// The runs of one side.
#[derive(Clone, Debug)]
pub(super) struct Side {
    runs: Vec<Run>,
}

/// The measured requests of a run, by the time of sending, and its slices.
#[derive(Clone, Debug)]
struct Run {
    requests: Vec<Request>,
    slices: Vec<Slice>,
}

/// One request; times in ms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) ttft: Option<f64>,
    pub(super) tpot: Option<f64>,
    pub(super) e2e: Option<f64>,
    pub(super) failed: bool,
    /// Tokens of the prompt and cached ones, if the engine reports them.
    pub(super) cached: Option<(f64, f64)>,
}

/// Rates a second within a slice of the window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slice {
    pub(super) answers: f64,
    pub(super) tokens: f64,
    /// Answers within the objective; `None` without one.
    pub(super) good: Option<f64>,
}

/// A sample of a side.
#[derive(Debug, Default)]
pub(super) struct Sample {
    pub(super) requests: Vec<Request>,
    pub(super) slices: Vec<Slice>,
}

impl Side {
    pub(super) fn of(runs: &[Report], slo: Option<Slo>) -> Side {
        let run = |report: &Report| Run {
            requests: report.requests.iter().map(Request::of).collect(),
            slices: slices(report, slo),
        };
        Side { runs: runs.iter().map(run).collect() }
    }

    pub(super) fn requests(&self) -> usize {
        self.runs.iter().map(|run| run.requests.len()).sum()
    }

    /// All of it.
    pub(super) fn whole(&self) -> Sample {
        let mut sample = Sample::default();
        for run in &self.runs {
            sample.requests.extend(&run.requests);
            sample.slices.extend(&run.slices);
        }
        sample
    }

    /// A sample of the same size.
    pub(super) fn draw(&self, rng: &mut Rng) -> Sample {
        let mut sample = Sample::default();
        for at in 0..self.runs.len() {
            let drawn = if self.runs.len() > 1 { rng.below(self.runs.len()) } else { at };
            let run = &self.runs[drawn];
            blocks(&run.requests, &mut sample.requests, rng);
            blocks(&run.slices, &mut sample.slices, rng);
        }
        sample
    }
}

/// Draws as many of `of` as there are, in blocks that continue at the start after the end.
fn blocks<T: Copy>(of: &[T], out: &mut Vec<T>, rng: &mut Rng) {
    let n = of.len();
    let length = (libm::cbrt(n as f64).round() as usize).max(1);
    let mut left = n;
    while left > 0 {
        let start = rng.below(n);
        let take = left.min(length);
        out.extend((start..start + take).map(|at| of[at % n]));
        left -= take;
    }
}

impl Request {
    fn of(record: &Record) -> Request {
        let failed = record.error.is_some();
        let whole = |time: Option<f64>| time.filter(|_| !failed);
        Request {
            ttft: whole(record.ttft_ms),
            tpot: whole(record.tpot_ms()),
            e2e: whole(Some(record.e2e_ms)),
            failed,
            cached: record.cached_tokens.map(|c| (record.prompt_tokens as f64, c as f64)),
        }
    }
}

/// The window in equal slices, none shorter than a second or than a median request: the clients of
/// a closed loop tend to end together. If the report has a sample of the requests, each stands for
/// several.
fn slices(report: &Report, slo: Option<Slo>) -> Vec<Slice> {
    let start = report.options.warmup.as_secs_f64() * 1e3;
    let window = report.window_s.max(1e-3);
    let times: Vec<f64> = report.requests.iter().map(|record| record.e2e_ms / 1e3).collect();
    let least = stats::median(&times).unwrap_or(0.0).max(1.0);
    let count = SLICES.min((window / least) as usize).max(1);
    let seconds = window / count as f64;
    let empty = Slice { good: slo.map(|_| 0.0), ..Slice::default() };
    let mut slices = vec![empty; count];
    let mut seen = 0.0;
    for record in report.requests.iter().filter(|record| record.error.is_none()) {
        let end = (record.sent_ms + record.e2e_ms - start) / 1e3;
        let Some(slice) = slices.get_mut((end.max(0.0) / seconds) as usize) else { continue };
        seen += 1.0;
        slice.answers += 1.0 / seconds;
        slice.tokens += record.reply_tokens as f64 / seconds;
        if let (Some(good), Some(slo)) = (&mut slice.good, slo) {
            *good += f64::from(u8::from(slo.is_met_by(record))) / seconds;
        }
    }
    let answered = report.rows.first().and_then(|row| row.throughput_rps).map(|rps| rps * window);
    let scale = answered.filter(|_| seen > 0.0).map_or(1.0, |answered| answered / seen);
    for slice in &mut slices {
        slice.answers *= scale;
        slice.tokens *= scale;
        slice.good = slice.good.map(|good| good * scale);
    }
    slices
}
