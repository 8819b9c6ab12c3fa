//! The embedded store in a process that is killed.
//!
//! A child writes and reports acknowledged operations through a pipe. It is killed at a random
//! point with SIGKILL, often in the middle of a write, sometimes while it opens the file. Both
//! sides draw the same operations from the same seed, so the parent needs only their number to know
//! the expected contents. The child is this test program itself.
//!
//! `MERIDIAN_KILLS` is the number of kills; without it there are 40.
use std::hint;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration as Wall, Instant};

use crate::twin::{LIMITS, Op, State, Twin, draw, on_core, plain, state};
use meridian_base::{Duration, Rng, Time};
use meridian_control::embedded::Core;

const SEED: u64 = 0x4B49_4C4C;
/// Path of the child's file.
const FILE: &str = "MERIDIAN_KILL_FILE";
/// Number of the run, which determines the child's operations.
const RUN: &str = "MERIDIAN_KILL_RUN";

/// The operations of one run: the same in parent and child.
struct Script {
    rng: Rng,
    now: Time,
}

impl Script {
    fn new(run: u64) -> Script {
        Script { rng: Rng::new(SEED).fork(run), now: Time::ZERO }
    }

    fn next(&mut self, twin: &Twin) -> (Time, Op) {
        self.now = self.now + Duration::from_millis(self.rng.below(300) as u64);
        (self.now, draw(&mut self.rng, twin))
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}; give a number")))
}

/// Writes `operations` times, or forever, and reports each completed operation.
fn write_on(path: &Path, run: u64, operations: usize) {
    let mut core = Core::open(path, LIMITS, Time::ZERO).unwrap();
    let found = state(&mut core, Time::ZERO);
    let mut twin = Twin::default();
    twin.restart(&found, Time::ZERO);
    twin.restart_numbers(core.last_lease().map_or(0, |id| id.0));
    let mut out = std::io::stdout().lock();
    let last = core.last_lease().map_or(0, |id| id.0);
    let shown = format!("{found:?}").replace('\n', " ");
    writeln!(out, "\nopened {last} {shown}").and_then(|()| out.flush()).unwrap();
    let mut script = Script::new(run);
    for _ in 0..operations {
        let (now, op) = script.next(&twin);
        let expected = twin.apply(now, &op);
        assert_eq!(plain(on_core(&mut core, now, &op)), expected, "{op:?}");
        writeln!(out, "done").and_then(|()| out.flush()).unwrap();
    }
}

// The next process finds what a process wrote. If the parent sets a file, this is the child that
// `killed_at_random_points_it_loses_nothing` kills, and it writes forever.
#[test]
fn a_process_finds_what_it_wrote() {
    if let Some(path) = std::env::var_os(FILE) {
        write_on(Path::new(&path), number(RUN).unwrap(), usize::MAX);
        return;
    }
    let folder = Folder::new("once");
    let path = folder.0.join("registry.redb");
    write_on(&path, 1, 30);
    let (mut twin, mut script) = (Twin::default(), Script::new(1));
    for _ in 0..30 {
        let (now, op) = script.next(&twin);
        let _ = twin.apply(now, &op);
    }
    let mut core = Core::open(&path, LIMITS, Time::ZERO).unwrap();
    assert_eq!(state(&mut core, Time::ZERO), twin.state());
    assert!(twin.state().head > 10);
    let second = Core::open(&path, LIMITS, Time::ZERO).map(|_| ());
    assert!(matches!(second, Err(meridian_control::Error::Locked(_))), "{second:?}");
}

/// A temporary folder, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let place = format!("meridian-control-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(place);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn child(path: &Path, run: u64) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::a_process_finds_what_it_wrote", "--nocapture", "--test-threads=1"])
        .env(FILE, path)
        .env(RUN, run.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

/// A child's report until it was killed.
struct Said {
    opened: Option<(u64, String)>,
    done: usize,
}

fn listen(out: &mut impl BufRead, said: &mut Said, enough: impl Fn(&Said) -> bool) {
    let mut line = String::new();
    while !enough(said) {
        line.clear();
        // A line without its end was cut off by the kill, and does not count.
        if out.read_line(&mut line).unwrap() == 0 || !line.ends_with('\n') {
            return;
        }
        if let Some(rest) = line.strip_prefix("opened ") {
            let (last, shown) = rest.trim_end().split_once(' ').unwrap();
            said.opened = Some((last.parse().unwrap(), shown.to_owned()));
        }
        said.done += usize::from(line == "done\n");
    }
}

/// Runs a child until a random point.
fn killed(path: &Path, run: u64, rng: &mut Rng) -> Said {
    let (mut child, mut out) = child(path, run);
    let mut said = Said { opened: None, done: 0 };
    // One in eight dies while it starts and opens the file, the others during their work.
    let spin = if rng.below(8) == 0 {
        rng.below(40_000)
    } else {
        let after = rng.below(12);
        listen(&mut out, &mut said, |said| said.opened.is_some() && said.done >= after);
        rng.below(3_000)
    };
    let from = Instant::now();
    while from.elapsed() < Wall::from_micros(spin as u64) {
        hint::spin_loop();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    listen(&mut out, &mut said, |_| false);
    said
}

/// The possible states of the file after a child reported `done` operations.
fn allowed(twin: &mut Twin, run: u64, done: usize) -> Vec<State> {
    let mut script = Script::new(run);
    for _ in 0..done {
        let (now, op) = script.next(twin);
        let _ = twin.apply(now, &op);
    }
    let sure = twin.state();
    twin.trail.clear();
    let (now, op) = script.next(twin);
    let _ = twin.apply(now, &op);
    let mut states = std::mem::take(&mut twin.trail);
    states.insert(0, sure);
    states
}

// Whatever the point of the kill, the next process finds all acknowledged operations, and the one
// in progress either completely or not at all: entries, revisions, leases with their owners,
// history.
#[test]
fn killed_at_random_points_it_loses_nothing() {
    let kills = number("MERIDIAN_KILLS").unwrap_or(40);
    let folder = Folder::new("kill");
    let path = folder.0.join("registry.redb");
    let mut rng = Rng::new(SEED);
    let mut possible = vec![Twin::default().state()];
    let (mut acknowledged, mut unopened, mut under_way) = (0, 0, 0);
    for run in 0..kills {
        let said = killed(&path, run, &mut rng);
        let Some((last, shown)) = said.opened else {
            unopened += 1;
            continue;
        };
        let at = possible.iter().position(|state| format!("{state:?}") == shown);
        let at = at.unwrap_or_else(|| panic!("run {run} found {shown}, not one of {possible:#?}"));
        under_way += usize::from(at > 0 && possible[at] != possible[0]);
        let mut twin = Twin::default();
        twin.restart(&possible[at], Time::ZERO);
        twin.restart_numbers(last);
        acknowledged += said.done;
        possible = allowed(&mut twin, run, said.done);
    }
    println!(
        "{kills} kills, {unopened} of them before the file was open; {acknowledged} calls \
         acknowledged, none lost; {under_way} calls under way were found done"
    );
    assert!(acknowledged as u64 > kills, "only {acknowledged} calls were acknowledged");
}
