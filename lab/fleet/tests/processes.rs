//! A fleet and its processes, with the shell as the program.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use meridian_fleet::{Error, Fleet, Program};

/// A guard for operations that should take milliseconds.
const LIMIT: Duration = Duration::from_secs(60);
/// Set in the copy of this test program that plays the dying owner.
const OWNER: &str = "MERIDIAN_LAB_TEST_OWNER";

fn shell(script: &str) -> Program {
    Program::new("shell", "/bin/sh").args(["-c", script])
}

/// Whether the process still runs: an unreaped zombie does not.
fn runs(id: u32) -> bool {
    state(id).is_some_and(|state| state != 'Z' && state != 'X')
}

/// The process's state in the kernel: T is a suspended one.
fn state(id: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // It follows the command's name, which is in parentheses.
    stat.rsplit(") ").next().and_then(|rest| rest.chars().next())
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LIMIT, "{what}: not within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

// The texts after the ready prefixes are returned in order, whatever else is printed in between.
#[tokio::test]
async fn ready_lines_are_read_in_order() {
    let fleet = Fleet::new("/bin/sh").unwrap();
    let script = "echo hello; echo listening on a; echo admin on b; echo last; read -r line";
    let program = shell(script).ready(&["listening on ", "admin on "]);
    let process = fleet.start(program).await.unwrap();
    assert_eq!((process.said(0), process.said(1)), ("a", "b"));
    let mut line = process.line();
    line.wait_for(|line| line == "last").await.unwrap();
}

// A program that ends before it is ready is an error with its status and its last output.
#[tokio::test]
async fn an_early_end_is_reported_with_the_log() {
    let fleet = Fleet::new("/bin/sh").unwrap();
    let program = shell("echo no such model >&2; exit 3").ready(&["listening on "]);
    let error = fleet.start(program).await.unwrap_err();
    assert!(matches!(error, Error::EndedEarly { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("exit status: 3") && text.contains("no such model"), "{text}");
}

// A missing program is an error that names it.
#[tokio::test]
async fn a_missing_program_is_named() {
    let fleet = Fleet::new("/nowhere/meridian").unwrap();
    let error = fleet.meridian("engine", ["engine"], &[]).await.unwrap_err().to_string();
    assert!(error.contains("/nowhere/meridian"), "{error}");
}

// SIGTERM lets a program end in its own way; SIGKILL does not.
#[tokio::test]
async fn processes_end_as_they_are_asked() {
    let fleet = Fleet::new("/bin/sh").unwrap();
    let script = "trap 'exit 7' TERM; echo ready; while :; do read -r line || sleep 0.01; done";
    let mut polite = fleet.start(shell(script).ready(&["ready"])).await.unwrap();
    assert_eq!(polite.ended(), None);
    polite.terminate();
    assert_eq!(polite.wait(LIMIT).await.unwrap().code(), Some(7));

    let mut killed = fleet.start(shell(script).ready(&["ready"])).await.unwrap();
    killed.kill().await.unwrap();
    assert!(!killed.wait(LIMIT).await.unwrap().success());
}

// Dropping a fleet ends its processes and removes its directory.
#[tokio::test]
async fn a_dropped_fleet_leaves_nothing_behind() {
    let fleet = Fleet::new("/bin/sh").unwrap();
    let process = fleet.start(shell("echo ready; sleep 1000").ready(&["ready"])).await.unwrap();
    let (id, dir) = (process.id().unwrap(), fleet.dir().to_owned());
    assert!(runs(id) && dir.is_dir());
    // The process is leaked, so that only the fleet can end it.
    std::mem::forget(process);
    drop(fleet);
    until("the process ends", || !runs(id));
    assert!(!dir.exists());
}

// A suspended program does nothing until it is resumed; SIGTERM waits for that too.
#[tokio::test]
async fn a_suspended_program_continues_where_it_was() {
    let fleet = Fleet::new("/bin/sh").unwrap();
    let script = "trap 'exit 7' TERM; echo ready; while :; do read -r line || sleep 0.01; done";
    let mut process = fleet.start(shell(script).ready(&["ready"])).await.unwrap();
    let id = process.id().unwrap();
    process.stop();
    until("it is suspended", || state(id) == Some('T'));
    process.terminate();
    assert_eq!((process.is_stopped(), process.is_ending()), (true, true));
    assert_eq!((process.ended(), state(id)), (None, Some('T')));
    process.go_on();
    assert_eq!(process.wait(LIMIT).await.unwrap().code(), Some(7));
}

// Dropping a fleet ends suspended programs, too, including those that its owner has leaked.
#[tokio::test]
async fn a_dropped_fleet_leaves_no_suspended_program_behind() {
    let fleet = Fleet::new("/bin/sh").unwrap();
    let mut process = fleet.start(shell("echo ready; sleep 1000").ready(&["ready"])).await.unwrap();
    let id = process.id().unwrap();
    process.stop();
    until("it is suspended", || state(id) == Some('T'));
    std::mem::forget(process);
    drop(fleet);
    until("the process ends", || !runs(id));
}

// The owner dies of SIGKILL, without a destructor: the keeper still ends its processes, including a
// suspended one. The owner is this test program itself, with a variable set.
#[test]
fn processes_die_with_an_owner_that_is_killed() {
    if std::env::var_os(OWNER).is_some() {
        die_as_owner();
    }
    let name = "processes_die_with_an_owner_that_is_killed";
    let file = std::env::temp_dir().join(format!("meridian-owner-{}", std::process::id()));
    let owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(OWNER, &file)
        .output()
        .unwrap();
    assert!(!owner.status.success(), "the owner was to be killed");
    let noted = std::fs::read_to_string(&file).unwrap();
    let (id, dir) = noted.split_once(' ').unwrap();
    let id = id.parse().unwrap();
    until("the process ends", || !runs(id));
    until("its folder is removed", || !Path::new(dir).exists());
    std::fs::remove_file(file).unwrap();
}

fn die_as_owner() -> ! {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime can be made");
    runtime.block_on(async {
        let fleet = Fleet::new("/bin/sh").expect("a fleet can be made");
        let program = shell("echo ready; sleep 1000").ready(&["ready"]);
        let mut process = fleet.start(program).await.expect("the shell starts");
        let id = process.id().expect("it sleeps");
        process.stop();
        let note = format!("{id} {}", fleet.dir().display());
        let file = std::env::var_os(OWNER).expect("the owner has the path of the note");
        std::fs::write(file, note).expect("the note can be written");
        let own = std::process::id().to_string();
        Command::new("/bin/sh")
            .args(["-c", "kill -s KILL \"$0\"", &own])
            .status()
            .expect("a shell runs");
    });
    unreachable!("killed")
}
