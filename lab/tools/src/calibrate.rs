//! The published fit for a live replica: TTFT over input tokens, with new prompts of growing
//! length, one at a time (GORGO, section 4.2, Table 1).
//!
//! The slope is the time per additional prompt token, with which a gateway starts (`ms_per_token`)
//! until it has its own measurements. The intercept is the fixed cost of a request, including the
//! network. The engine counts the tokens, minus those it reports as cached. Other traffic spoils a
//! fit, so the replica's own metrics are checked before every prompt, and doubts about the line are
//! reported.
//!
//! Deliberately not here: speeds under load, which the gateway measures while serving.

mod ask;
mod judge;

use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::fit::{self, Line};
use crate::load::http as client;
use ask::{Asked, Replica};

/// Options of a calibration.
#[derive(Clone, Debug)]
pub struct Options {
    /// The replica, without `/v1`.
    pub url: String,
    /// The model; the first of `/v1/models` when absent.
    pub model: Option<String>,
    /// Sent as a bearer token.
    pub api_key: Option<String>,
    /// Tokens of the shortest prompt and of the longest.
    pub from: u32,
    /// Tokens of the longest.
    pub to: u32,
    /// Number of lengths.
    pub lengths: u32,
    /// Prompts of each length.
    pub rounds: u32,
    /// Longest wait for a first token.
    pub timeout: Duration,
    /// Seed of the prompts; a different one gives different prompts.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            url: String::new(),
            model: None,
            api_key: None,
            from: 256,
            to: 8192,
            lengths: 12,
            rounds: 3,
            timeout: Duration::from_secs(120),
            seed: 0,
        }
    }
}

/// One prompt and its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Tokens of the prompt that were not cached, as the engine counted them.
    pub tokens: u64,
    /// Tokens that it found in its cache.
    pub cached: u64,
    /// From the request sent to the first token received.
    pub ttft_ms: f64,
    /// Whether the replica had other requests.
    pub busy: bool,
}

/// A fit, with warnings.
#[derive(Clone, Debug)]
pub struct Found {
    /// The model.
    pub model: String,
    /// The measured points.
    pub points: Vec<Point>,
    /// The line through it, ms over tokens.
    pub line: Line,
    /// Doubts about the fit; empty for a good one.
    pub warnings: Vec<String>,
}

impl Options {
    fn validate(&self) -> anyhow::Result<()> {
        let Options { from, to, lengths, rounds, .. } = *self;
        ensure!(!self.url.is_empty(), "url is empty: give the replica, as http://host:port");
        ensure!(from >= 16, "from is {from}: use 16 tokens or more, below is only noise");
        ensure!(to > from, "to is {to}: use more tokens than from, {from}");
        ensure!(to <= 1 << 20, "to is {to}: use at most 1048576 tokens");
        ensure!((3..=1000).contains(&lengths), "points is {lengths}: use 3 to 1000");
        ensure!((1..=1000).contains(&rounds), "rounds is {rounds}: use 1 to 1000");
        Ok(())
    }

    /// The lengths, evenly from the shortest to the longest.
    fn targets(&self, to: u32) -> Vec<u32> {
        let step = f64::from(to.saturating_sub(self.from)) / f64::from(self.lengths - 1);
        (0..self.lengths).map(|n| self.from + (step * f64::from(n)) as u32).collect()
    }
}

/// Measures a replica; calls `each` with every point.
///
/// # Errors
///
/// A replica that does not answer, reports no usage, or accepts fewer than two lengths.
pub async fn run(options: &Options, mut each: impl FnMut(&Point)) -> anyhow::Result<Found> {
    options.validate()?;
    let http = client::client(Duration::from_secs(10));
    let mut replica = Replica::meet(&http, options).await?;
    let mut warnings = Vec::new();
    let mut longest = options.to;
    if let Some(room) = replica.room.filter(|room| *room < longest) {
        warnings.push(format!("the model takes {room} tokens at most: no prompt is longer"));
        longest = room;
    }
    ensure!(longest > options.from, "the model takes {longest} tokens at most: use a smaller from");
    // Finds the bytes per token, and opens the connection before the first point.
    let first = replica.ask(&http, options, options.from).await?;
    let Asked::Answered(_) = first else {
        bail!("{} refuses a prompt of {} tokens: use a smaller from", options.url, options.from);
    };
    let (mut points, mut targets) = (Vec::new(), options.targets(longest));
    for _ in 0..options.rounds {
        for at in 0..targets.len() {
            match replica.ask(&http, options, targets[at]).await? {
                Asked::Answered(point) => {
                    each(&point);
                    points.push(point);
                }
                Asked::Refused => {
                    let tokens = targets[at];
                    warnings.push(format!("prompts of {tokens} tokens and more are refused"));
                    targets.truncate(at);
                    break;
                }
            }
        }
    }
    let measured: Vec<_> = points.iter().map(|p| (p.tokens as f64, p.ttft_ms)).collect();
    let line = fit::line(&measured)
        .context("all prompts have the same length, so no line fits them: widen from and to")?;
    judge::judge(&points, &line, &mut warnings);
    Ok(Found { model: replica.model, points, line, warnings })
}
