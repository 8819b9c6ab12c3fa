//! The use of a card from readings of its counters.
//!
//! Two readings make a window. A window in which a counter went backwards is left out, unless a 32-bit
//! counter passed its end: then the distance around the end must be one that the card can carry.
//! While a card is absent there are no windows, and after its return the next two readings make one.
//!
//! Some drivers refresh their counters once a second or more seldom. The windows in between show
//! nothing and the next one more than the card can carry, so such a meter tells the mean only.

use meridian_base::{Duration, Time};

use super::{Card, Counts, Rate};

/// The end of a 32-bit counter.
const END: u64 = 1 << 32;
/// More of its rate than a card can carry in a window, which includes errors of timing.
const IMPOSSIBLE: f64 = 1.25;
/// A window above this share of the rate is busy.
const BUSY: f64 = 0.8;
/// The length of the busiest stretch that is looked for.
const STRETCH: Duration = Duration::from_secs(1);

/// Readings of one card.
#[derive(Clone, Debug)]
pub struct Meter {
    units: Vec<u64>,
    rate: Option<Rate>,
    last: Option<(Time, Counts)>,
    windows: Vec<Window>,
    resets: u32,
    absences: u32,
}

/// Bytes sent and received between two readings.
#[derive(Clone, Copy, Debug)]
struct Window {
    start: Time,
    end: Time,
    bytes: [u64; 2],
}

/// What a card carried.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Use {
    /// The time of all windows.
    pub measured: Duration,
    /// Bytes sent and received.
    pub bytes: [u64; 2],
    /// Shares of the rate, sent and received; `None` without a rate or a window.
    pub mean: Option<[f64; 2]>,
    /// The busiest second's share of the rate, in its busier direction.
    pub busiest_second: Option<f64>,
    /// The share of the time in windows above 80 % of the rate.
    pub above: Option<f64>,
    /// Whether a window had more bytes than the rate allows: the rate is too low, or the driver
    /// refreshes its counters too seldom.
    pub is_coarse: bool,
    /// Windows left out because a counter went backwards.
    pub resets: u32,
    /// Readings that failed because the card was absent.
    pub absences: u32,
}

impl Use {
    /// The mean share of the rate in the busier direction.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        self.mean.map(|[sent, received]| sent.max(received))
    }
}

impl Meter {
    /// A meter of a card without readings.
    #[must_use]
    pub fn new(card: &Card) -> Meter {
        Meter {
            units: card.units(),
            rate: card.rate,
            last: None,
            windows: Vec::new(),
            resets: 0,
            absences: 0,
        }
    }

    /// Takes a reading, `None` if the card is absent. Readings come in the order of time.
    pub fn read(&mut self, at: Time, counts: Option<Counts>) {
        let Some(counts) = counts else {
            self.absences += 1;
            self.last = None;
            return;
        };
        if let Some((start, before)) = &self.last
            && at > *start
        {
            match self.moved(before, &counts, at.since(*start)) {
                Some(bytes) => self.windows.push(Window { start: *start, end: at, bytes }),
                None => self.resets += 1,
            }
        }
        self.last = Some((at, counts));
    }

    /// Bytes between two readings; `None` if a counter was reset in between.
    fn moved(&self, before: &Counts, after: &Counts, took: Duration) -> Option<[u64; 2]> {
        assert!(before.0.len() == self.units.len(), "a reading has each source's counters");
        let mut bytes = [0_u64; 2];
        for ((unit, before), after) in self.units.iter().zip(&before.0).zip(&after.0) {
            for way in 0..2 {
                let units = match after[way].checked_sub(before[way]) {
                    Some(units) => units,
                    None => self.wrapped(before[way], after[way], *unit, took)?,
                };
                bytes[way] = bytes[way].saturating_add(units.saturating_mul(*unit));
            }
        }
        Some(bytes)
    }

    /// The distance around the end of a 32-bit counter, if the card can carry it. Without a rate, at
    /// most half of the way around.
    fn wrapped(&self, before: u64, after: u64, unit: u64, took: Duration) -> Option<u64> {
        let units = (before < END).then(|| after + END - before)?;
        let most = self.rate.map_or(END as f64 / 2.0, |rate| {
            IMPOSSIBLE * rate.bytes() * took.as_secs_f64() / unit as f64
        });
        (units as f64 <= most).then_some(units)
    }

    /// The use so far.
    #[must_use]
    pub fn used(&self) -> Use {
        let measured: Duration = self.windows.iter().map(Window::took).sum();
        let sum = |way: usize| self.windows.iter().map(|one| one.bytes[way]).sum::<u64>();
        let bytes = [sum(0), sum(1)];
        let usual =
            Use { measured, bytes, resets: self.resets, absences: self.absences, ..Use::default() };
        let Some(rate) = self.rate.filter(|_| !measured.is_zero()) else { return usual };
        let mean = bytes.map(|bytes| bytes as f64 / (rate.bytes() * measured.as_secs_f64()));
        if self.windows.iter().any(|one| one.share(rate) > IMPOSSIBLE) {
            return Use { mean: Some(mean), is_coarse: true, ..usual };
        }
        let busy = self.windows.iter().filter(|one| one.share(rate) > BUSY);
        let busy: Duration = busy.map(Window::took).sum();
        Use {
            mean: Some(mean),
            busiest_second: self.busiest(rate),
            above: Some(busy.as_secs_f64() / measured.as_secs_f64()),
            ..usual
        }
    }

    /// The share of the busiest stretch of adjacent windows; `None` if there is no such stretch.
    fn busiest(&self, rate: Rate) -> Option<f64> {
        let mut best: Option<f64> = None;
        let (mut first, mut bytes) = (0, [0_u64; 2]);
        for (nth, one) in self.windows.iter().enumerate() {
            if nth > 0 && self.windows[nth - 1].end != one.start {
                (first, bytes) = (nth, [0; 2]);
            }
            add(&mut bytes, one.bytes);
            while one.end.since(self.windows[first].start) >= STRETCH {
                let whole = Window { start: self.windows[first].start, end: one.end, bytes };
                best = Some(best.unwrap_or(0.0).max(whole.share(rate)));
                for (sum, gone) in bytes.iter_mut().zip(self.windows[first].bytes) {
                    *sum -= gone;
                }
                first += 1;
                if first > nth {
                    break;
                }
            }
        }
        best
    }
}

fn add(to: &mut [u64; 2], bytes: [u64; 2]) {
    for (sum, more) in to.iter_mut().zip(bytes) {
        *sum = sum.saturating_add(more);
    }
}

impl Window {
    fn took(&self) -> Duration {
        self.end.since(self.start)
    }

    /// The share of the rate in the busier direction.
    fn share(&self, rate: Rate) -> f64 {
        assert!(self.end > self.start, "a window has a length");
        let most = self.bytes[0].max(self.bytes[1]) as f64;
        most / (rate.bytes() * self.took().as_secs_f64())
    }
}
