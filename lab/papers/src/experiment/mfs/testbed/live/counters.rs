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

    /// All ticks since `then`, of all processors.
    pub(super) fn all_since(self, then: Ticks) -> f64 {
        (self.all - then.all).max(1) as f64
    }

    /// Since `then`: the share in use, and the part of it by programs of low priority.
    pub(super) fn since(self, then: Ticks) -> (f64, f64) {
        let all = self.all_since(then);
        let idle = (self.idle - then.idle) as f64;
        ((all - idle) / all, (self.nice - then.nice) as f64 / all)
    }
}

/// Ticks that a process and its threads have used, in user and system mode.
///
/// # Errors
/// If the process has ended.
pub(super) fn process(id: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{id}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| format!("{path}: cannot be read"))?;
    used(&text).with_context(|| format!("{path}: has no times"))
}

/// The 14th and 15th column; the name, in brackets, may contain spaces.
fn used(text: &str) -> Option<u64> {
    let columns = text.rsplit_once(')')?.1.split_whitespace().skip(11).take(2);
    columns.map(|ticks| ticks.parse::<u64>().ok()).sum()
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
        assert_eq!(used("42 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 30 12 99 99 20 0"), Some(42));
    }
}
