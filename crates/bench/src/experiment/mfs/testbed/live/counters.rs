//! The use of the machine's processors, by the kernel's count.

use anyhow::Context as _;

/// Ticks so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ticks {
    all: u64,
    idle: u64,
    nice: u64,
}

impl Ticks {
    pub(super) fn now() -> anyhow::Result<Ticks> {
        let text = std::fs::read_to_string("/proc/stat").context("/proc/stat: cannot be read")?;
        Ticks::read(&text).context("/proc/stat: has no line of all processors")
    }

    /// From the first line: user, nice, system, idle, iowait, irq, softirq, steal.
    fn read(text: &str) -> Option<Ticks> {
        let columns = text.lines().next()?.split_whitespace().skip(1).take(8);
        let ticks: Vec<u64> = columns.map(str::parse).collect::<Result<_, _>>().ok()?;
        let [_, nice, _, idle, iowait, ..] = ticks[..] else { return None };
        Some(Ticks { all: ticks.iter().sum(), idle: idle + iowait, nice })
    }

    /// Since `then`: the share in use, and the part of it by programs of low priority.
    pub(super) fn since(self, then: Ticks) -> (f64, f64) {
        let all = (self.all - then.all).max(1) as f64;
        let idle = (self.idle - then.idle) as f64;
        ((all - idle) / all, (self.nice - then.nice) as f64 / all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Waiting for a disk counts as idle, and low priority is a part of the use.
    #[test]
    fn columns() {
        let then = Ticks::read("cpu  100 50 40 800 10 0 0 0 7 7\ncpu0 1 1").unwrap();
        let now = Ticks::read("cpu  130 70 60 880 60 0 0 0 7 7\n").unwrap();
        assert_eq!(then, Ticks { all: 1000, idle: 810, nice: 50 });
        assert_eq!(now.since(then), (0.35, 0.1));
        assert_eq!(Ticks::read("cpu  1 2\n"), None);
    }
}
