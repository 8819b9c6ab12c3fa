//! Shapes a trace: sorts it, spreads arrivals, cuts a window, changes the rate, and adds sessions
//! and regions if it has none. The same seed gives the same requests.

use std::sync::Arc;
use std::time::Duration;

use meridian_base::{Rng, Time, mix};

use super::ancestry::Ancestry;
use super::order::Ordered;
use super::spread::Spread;
use super::{Fault, TraceError, TraceRequest, is_name};

/// Blocks whose owner is stored, at least, if sessions are inferred from prefixes.
const BLOCKS: usize = 1 << 22;
/// Later times than this count from 1970, as in the gateway's journal: no trace lasts ten years.
const CALENDAR: Time = Time::from_millis(10 * 365 * 86_400_000);

/// The start of a trace whose first request has the time `first`: that request, if times count from
/// 1970, and otherwise zero.
#[must_use]
pub fn start_of(first: Time) -> Time {
    if first < CALENDAR { Time::ZERO } else { first }
}

/// The changes to make to a trace.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Seed of all random draws here.
    pub seed: u64,
    /// Requests out of order in the file are sorted if they are less than this apart.
    pub order_within: Duration,
    /// The grid of the recorded arrivals, which are spread over its steps; zero leaves them
    /// unchanged.
    pub spread: Duration,
    /// Drops requests that arrive before this; the rest count from here. In a trace whose times
    /// count from 1970, this counts from its first request, or from 1970 too.
    pub from: Time,
    /// Drops requests that arrive at this time or later, in the terms of `from`.
    pub to: Time,
    /// Factor on the request rate.
    pub rate: f64,
    /// Stops after this many requests.
    pub limit: u64,
    /// Treats a request without a session as a later turn of an earlier one if they share more
    /// leading blocks than this.
    pub sessions_beyond: Option<usize>,
    /// Assigns each session one of these regions, by weight, replacing the recorded ones. A request
    /// without a session counts as its own session.
    pub regions: Vec<(Arc<str>, f64)>,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            seed: 1,
            order_within: Duration::from_secs(600),
            spread: Duration::ZERO,
            from: Time::ZERO,
            to: Time::MAX,
            rate: 1.0,
            limit: u64::MAX,
            sessions_beyond: None,
            regions: Vec::new(),
        }
    }
}

/// Shapes `requests` as `shape` defines.
///
/// # Errors
///
/// When the rate or a weight is not above 0, or a region's name is invalid.
pub fn shape<I>(requests: I, shape: &Shape) -> Result<Shaped<I>, Fault>
where
    I: Iterator<Item = Result<TraceRequest, TraceError>>,
{
    let good = |x: f64| x.is_finite() && x > 0.0;
    let above_0 = "give a number above 0";
    if !good(shape.rate) {
        return Err(Fault::new("the rate", shape.rate.to_string(), above_0));
    }
    if let Some((region, weight)) = shape.regions.iter().find(|(_, weight)| !good(*weight)) {
        return Err(Fault::new(format!("the weight of {region}"), weight.to_string(), above_0));
    }
    if shape.regions.iter().any(|(region, _)| !is_name(region)) {
        let remedy = "use 1 to 128 letters, digits and ._:/@+-, without spaces";
        return Err(Fault::new("a region", "not a name", remedy));
    }
    let ordered = Ordered::new(requests, shape.order_within);
    Ok(Shaped {
        source: Spread::new(ordered, shape.spread, shape.seed),
        ancestry: Ancestry::new(BLOCKS),
        seen: 0,
        left: shape.limit,
        window: None,
        shape: shape.clone(),
    })
}

/// The requests of a shaped trace, by time.
pub struct Shaped<I> {
    source: Spread<Ordered<I>>,
    shape: Shape,
    ancestry: Ancestry,
    seen: u64,
    left: u64,
    /// The ends of the window in the trace's own times, known from the first request on.
    window: Option<(Time, Time)>,
}

impl<I> Shaped<I> {
    /// The session of a request without one, inferred from its prefix.
    fn session(&mut self, request: &TraceRequest, number: u64) -> Option<u64> {
        let beyond = self.shape.sessions_beyond?;
        let found = self.ancestry.matched(request);
        let session = found.owner.filter(|_| found.blocks > beyond).unwrap_or(number);
        self.ancestry.own(request, session);
        Some(session)
    }

    fn region(&self, of: u64) -> Option<Arc<str>> {
        let regions = &self.shape.regions;
        let all: f64 = regions.iter().map(|(_, weight)| weight).sum();
        let mut u = Rng::new(mix(self.shape.seed, 0x5245_4749_4F4E)).fork(of).unit() * all;
        let chosen = regions.iter().find(|(_, weight)| {
            u -= weight;
            u < 0.0
        });
        chosen.or(regions.last()).map(|(name, _)| name.clone())
    }

    /// The window of a trace whose first request has the time `first`.
    fn window(&mut self, first: Time) -> (Time, Time) {
        let start = start_of(first);
        let place = |at: Time| if at < CALENDAR { start + at.since(Time::ZERO) } else { at };
        *self.window.get_or_insert((place(self.shape.from), place(self.shape.to)))
    }

    fn scaled(&self, at: Time, from: Time) -> Time {
        let nanos = at.since(from).as_nanos() as f64 / self.shape.rate;
        match self.shape.rate == 1.0 {
            true => Time::ZERO + at.since(from),
            false => Time::from_nanos(libm::round(nanos) as u64),
        }
    }
}

impl<I> Iterator for Shaped<I>
where
    I: Iterator<Item = Result<TraceRequest, TraceError>>,
{
    type Item = Result<TraceRequest, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.left == 0 {
                return None;
            }
            let mut request = match self.source.next()? {
                Ok(request) => request,
                Err(error) => {
                    self.left = 0;
                    return Some(Err(error));
                }
            };
            let number = self.seen;
            self.seen += 1;
            if request.session.is_none() {
                request.session = self.session(&request, number);
            }
            let (from, to) = self.window(request.at);
            if request.at >= to {
                self.left = 0;
            } else if request.at >= from {
                self.left -= 1;
                request.at = self.scaled(request.at, from);
                let whose = request.session.unwrap_or(mix(number, 1));
                request.region = self.region(whose).or(request.region);
                return Some(Ok(request));
            }
        }
    }
}
