//! A program under measurement: its CPU time, its memory, and its end.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

/// A running program with its descendants; killed when dropped.
pub(super) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with both outputs in `log`.
    pub(super) fn start(mut command: Command, log: PathBuf) -> anyhow::Result<Process> {
        let out = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        Ok(Process { child, log })
    }

    /// The output of the program so far.
    pub(super) fn output(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until `ready` finds its result in the program's output.
    pub(super) fn wait<T>(
        &mut self,
        limit: Duration,
        mut ready: impl FnMut(&str) -> Option<T>,
    ) -> anyhow::Result<T> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(found) = ready(&self.output()) {
                return Ok(found);
            }
            if let Some(how) = self.ended() {
                anyhow::bail!("it exited: {how}");
            }
            if Instant::now() >= deadline {
                let (log, tail) = (self.log.display(), self.tail());
                anyhow::bail!("it is not ready in {limit:?}; its output ({log}) ends: {tail}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn tail(&self) -> String {
        let output = self.output();
        let lines: Vec<&str> = output.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }

    /// How the program ended, if it has.
    pub(super) fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        Some(format!("{status}; its output ({}) ends: {}", self.log.display(), self.tail()))
    }

    /// CPU time used by the program and its children.
    pub(super) fn cpu(&self) -> Duration {
        self.tree().into_iter().filter_map(cpu_of).sum()
    }

    /// Current and peak resident memory in bytes, of the program and its children.
    pub(super) fn memory(&self) -> (u64, u64) {
        self.tree().into_iter().map(memory_of).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    }

    /// How often the threads of the program and its children waited and were woken.
    pub(super) fn wake_ups(&self) -> u64 {
        self.tree().into_iter().map(wake_ups_of).sum()
    }

    /// The program and all its descendants.
    pub(super) fn tree(&self) -> Vec<u32> {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        for pid in pids.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok()) {
            if let Some(stat) = Stat::read(pid) {
                children.entry(stat.parent).or_default().push(pid);
            }
        }
        let mut tree = vec![self.child.id()];
        let mut at = 0;
        while let Some(pid) = tree.get(at) {
            tree.extend(children.remove(pid).unwrap_or_default());
            at += 1;
        }
        tree
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let tree = self.tree();
        let signal = |pid: u32, signal| {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            // A program that has exited needs no signal.
            pid.map(|pid| kill_process(pid, signal).ok());
        };
        signal(self.child.id(), Signal::TERM);
        let wait = |limit: Duration, over: &mut dyn FnMut() -> bool| {
            let deadline = Instant::now() + limit;
            while !over() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        wait(Duration::from_secs(3), &mut || !matches!(self.child.try_wait(), Ok(None)));
        let left: Vec<u32> = tree.into_iter().filter(|pid| Stat::alive(*pid)).collect();
        for pid in &left {
            signal(*pid, Signal::KILL);
        }
        wait(Duration::from_secs(3), &mut || !left.iter().any(|pid| Stat::alive(*pid)));
        self.child.wait().ok();
    }
}

/// CPU time used by one process; none if it has ended.
pub(crate) fn cpu_of(pid: u32) -> Option<Duration> {
    let ticks = Stat::read(pid)?.cpu as f64;
    Some(Duration::from_secs_f64(ticks / rustix::param::clock_ticks_per_second() as f64))
}

/// How often the threads of a process waited and were woken.
fn wake_ups_of(pid: u32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of = |thread: std::fs::DirEntry| {
        let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    };
    threads.filter_map(of).sum()
}

/// Current and peak resident memory of one process, in bytes.
pub(crate) fn memory_of(pid: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(name));
        let number = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
        number.unwrap_or(0) * 1024
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// The fields of `/proc/PID/stat` used here.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    /// Whether it is dead and waits to be reaped by its parent.
    zombie: bool,
    parent: u32,
    /// Clock ticks in user and system mode.
    cpu: u64,
}

impl Stat {
    fn alive(pid: u32) -> bool {
        Stat::read(pid).is_some_and(|stat| !stat.zombie)
    }

    fn read(pid: u32) -> Option<Stat> {
        Stat::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Fields are counted after the name, which may itself contain spaces and brackets.
    fn parse(stat: &str) -> Option<Stat> {
        let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
        let number = |i: usize| fields.get(i)?.parse::<u64>().ok();
        let zombie = matches!(*fields.first()?, "Z" | "X");
        Some(Stat { zombie, parent: number(1)? as u32, cpu: number(11)? + number(12)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A name with brackets and spaces shifts no field.
    #[test]
    fn stat_lines() {
        let line = "12 (a ) b) S 7 12 12 0 -1 4194304 1 0 0 0 30 5 9 9 20 0 1 0 100 1000 10";
        assert_eq!(Stat::parse(line), Some(Stat { zombie: false, parent: 7, cpu: 35 }));
        assert_eq!(Stat::parse("12 (a) S"), None);
    }

    // A tree holds the children of children, and ends with its root.
    #[test]
    fn trees_end_with_their_root() {
        let mut command = Command::new("sh");
        command.args(["-c", "sh -c 'sleep 60 & echo up; wait' & wait"]);
        let log = std::env::temp_dir().join(format!("meridian-race-{}", std::process::id()));
        let mut process = Process::start(command, log.clone()).expect("sh is there");
        let up = |output: &str| output.contains("up").then_some(());
        process.wait(Duration::from_secs(60), up).expect("sh echoes");
        let tree = process.tree();
        assert_eq!(tree.len(), 3, "{tree:?}");
        assert!(process.memory().0 > 0);
        drop(process);
        assert!(!tree.iter().any(|pid| Stat::alive(*pid)), "{tree:?}");
        std::fs::remove_file(log).expect("the log was written");
    }
}
