//! CPU use of the machine, and the fleet's share of it.
//!
//! On a busy machine, times show waits for the CPU instead of the programs' own work. Results with
//! times therefore report how much of the machine was idle.

use crate::{Error, Result};

/// Shares of all cores together over some time, 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Busy {
    /// Idle.
    pub idle: f64,
    /// Used by the fleet.
    pub fleet: f64,
}

impl Busy {
    /// Used by the rest of the machine.
    #[must_use]
    pub fn others(self) -> f64 {
        (1.0 - self.idle - self.fleet).max(0.0)
    }
}

/// Ticks counted so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticks {
    all: u64,
    idle: u64,
    fleet: u64,
}

impl Ticks {
    /// Reads the kernel's counters: of the machine, and of these processes.
    pub(crate) fn now(processes: impl IntoIterator<Item = u32>) -> Result<Ticks> {
        let path = "/proc/stat";
        let text = std::fs::read_to_string(path).map_err(Error::file("reading", path))?;
        let (all, idle) = machine(&text);
        let one = |id: u32| std::fs::read_to_string(format!("/proc/{id}/stat")).ok();
        // A process that has ended meanwhile is no longer counted.
        let fleet = processes.into_iter().filter_map(one).map(|line| process(&line)).sum();
        Ok(Ticks { all, idle, fleet })
    }

    /// The shares between `then` and this reading.
    pub(crate) fn since(self, then: Ticks) -> Busy {
        let all = self.all.saturating_sub(then.all).max(1) as f64;
        let share = |now: u64, then: u64| now.saturating_sub(then) as f64 / all;
        Busy { idle: share(self.idle, then.idle), fleet: share(self.fleet, then.fleet) }
    }
}

/// All ticks and idle ones, from the first line of the machine's page: user, nice, system, idle,
/// iowait and so on. The last two, of guests, are included in the first.
fn machine(text: &str) -> (u64, u64) {
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<u64> =
        line.split_whitespace().skip(1).take(8).filter_map(|n| n.parse().ok()).collect();
    let idle = ticks.iter().skip(3).take(2).sum();
    (ticks.iter().sum(), idle)
}

/// A process's own ticks, in user and system mode. Its name, in brackets, may contain anything.
fn process(line: &str) -> u64 {
    let rest = line.rfind(')').map_or("", |at| &line[at + 1..]);
    rest.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    // The right columns of both pages; ticks that are neither idle nor the fleet's belong to
    // others.
    #[test]
    fn columns() {
        let page = "cpu  100 10 40 800 50 0 0 0 7 7\ncpu0 1 1 1 1\n";
        assert_eq!(machine(page), (1000, 850));
        let line = "42 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 30 12 99 99 20 0";
        assert_eq!(process(line), 42);
        let then = Ticks { all: 1000, idle: 500, fleet: 0 };
        let now = Ticks { all: 2000, idle: 1100, fleet: 250 };
        let busy = now.since(then);
        assert_eq!((busy.idle, busy.fleet), (0.6, 0.25));
        assert!((busy.others() - 0.15).abs() < 1e-9);
    }
}
