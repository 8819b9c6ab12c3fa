//! How much a measurement needs the processor.
//!
//! The kernel counts, for each thread, the time on a processor and the time in its queue
//! (`schedstat`). A thread for which both together are almost all of the time would send more on a
//! faster or less busy machine. The kernel's own network work, in interrupts, runs on some core and
//! is in no thread's time, so the core with the largest share of it counts too.

use std::time::Instant;

/// A started measurement, of the thread that starts it.
#[derive(Debug)]
pub struct Busy {
    start: Instant,
    thread: f64,
    cores: Vec<(u64, u64)>,
}

/// Shares of the time of a measurement, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// In which the thread computed or waited for a processor.
    pub thread: f64,
    /// In which the core with the most interrupts served them.
    pub interrupts: f64,
}

impl Shares {
    /// Of a stream with these two ends. While one end computes, the other one may sleep until it is
    /// done, so that the sum of both is how long the stream was limited by a processor. Interrupts
    /// are not added, as both ends may be on one machine.
    #[must_use]
    pub fn of_stream(self, other: Shares) -> f64 {
        let threads = (self.thread + other.thread).min(1.0);
        threads.max(self.interrupts).max(other.interrupts)
    }
}

impl Busy {
    /// Starts.
    #[must_use]
    pub fn start() -> Busy {
        Busy { start: Instant::now(), thread: thread(), cores: cores() }
    }

    /// The shares of the time since the start.
    #[must_use]
    pub fn shares(&self) -> Shares {
        let elapsed = self.start.elapsed().as_secs_f64().max(1e-6);
        let thread = ((thread() - self.thread) / elapsed).clamp(0.0, 1.0);
        let interrupts = cores().into_iter().zip(&self.cores).map(|((all, network), then)| {
            network.saturating_sub(then.1) as f64 / all.saturating_sub(then.0).max(1) as f64
        });
        // A core's counters advance in steps of 10 ms; over less than a tenth of a second they say
        // nothing.
        let interrupts = interrupts.filter(|_| elapsed > 0.1).fold(0.0, f64::max);
        Shares { thread, interrupts: interrupts.min(1.0) }
    }
}

/// Seconds that this thread was on a processor or waited for one; 0 if the kernel doesn't count.
fn thread() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    waited(&text)
}

/// The first two columns, in nanoseconds.
fn waited(schedstat: &str) -> f64 {
    let columns = schedstat.split_whitespace().take(2);
    columns.filter_map(|column| column.parse::<u64>().ok()).sum::<u64>() as f64 * 1e-9
}

/// Ticks of each core: all of them, and those in interrupts.
fn cores() -> Vec<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    text.lines().filter_map(interrupts).collect()
}

/// A line `cpu0 user nice system idle iowait irq softirq ...`.
fn interrupts(line: &str) -> Option<(u64, u64)> {
    let rest = line.strip_prefix("cpu")?;
    // The first line is the sum of all cores.
    rest.starts_with(|c: char| c.is_ascii_digit()).then_some(())?;
    let ticks: Vec<u64> =
        rest.split_whitespace().skip(1).take(8).filter_map(|n| n.parse().ok()).collect();
    (ticks.len() >= 7).then(|| (ticks.iter().sum(), ticks[5] + ticks[6]))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The ends of a stream are added, and interrupts are not.
    #[test]
    fn a_stream_has_two_ends() {
        let shares = |thread, interrupts| Shares { thread, interrupts };
        assert_eq!(shares(0.25, 0.1).of_stream(shares(0.5, 0.1)), 0.75);
        assert_eq!(shares(0.7, 0.1).of_stream(shares(0.7, 0.1)), 1.0);
        assert_eq!(shares(0.1, 0.9).of_stream(shares(0.1, 0.0)), 0.9);
    }

    // The right columns of both pages.
    #[test]
    fn columns() {
        assert!((waited("1500000000 500000000 42\n") - 2.0).abs() < 1e-9);
        assert_eq!(waited(""), 0.0);
        assert_eq!(interrupts("cpu0 1 2 3 4 5 60 70 8 9 9"), Some((153, 130)));
        assert_eq!((interrupts("cpu  1 2 3 4 5 6 7 8"), interrupts("intr 1 2")), (None, None));
    }
}
