use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::Arc;

use meridian_base::{ModelId, RequestId};
use meridian_routing::{Config, Request, Routing, policy};
use tokio::sync::mpsc;

use super::*;
use crate::machine::driver::Driver;
use crate::record::Recording;
use crate::replicas::fleet::Fleet;

/// Marks a process as the test's child; its value selects the case.
const CHILD: &str = "MERIDIAN_TEST_PANIC";
/// This test's name, for a process that runs only this test.
const TEST: &str = "lock::tests::a_panic_while_held_ends_the_process";

fn driver() -> Arc<Driver> {
    let spec = policy::ALL.iter().find(|spec| spec.name == "round_robin").unwrap();
    let (probes, _) = mpsc::unbounded_channel();
    let fleet: Arc<Fleet> = Arc::default();
    let routing = Routing::new(Config::new(spec), 1);
    Arc::new(Driver::new(routing, probes, (fleet.clock, fleet), None))
}

fn request(id: u64) -> Request {
    Request {
        prompt_tokens: 1,
        streams: false,
        peers: 0,
        ..Request::plain(RequestId(id), ModelId(0))
    }
}

/// The child's part: a thread panics while it holds a lock, and the process reports if it survives.
fn misbehave(held: &str) {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let held = held.to_owned();
    let thread = std::thread::spawn(move || match held.as_str() {
        "machine" => {
            let driver = driver();
            let _inner = driver.lock();
            panic!("in the machine");
        }
        "mutex" => {
            let mutex = Mutex::new(7);
            let _held = mutex.lock();
            panic!("in a mutex");
        }
        "write" => {
            let table = RwLock::new(7);
            let _held = table.write();
            panic!("in a table");
        }
        "read" => {
            let table = RwLock::new(7);
            let _held = table.read();
            panic!("while reading");
        }
        "task" => {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let mut background = JoinSet::new();
                background.spawn(async {});
                background.spawn(async { panic!("in a task") });
                abort_on_panic(&mut background).await;
            });
        }
        _ => {
            let mutex = Mutex::new(7);
            drop(mutex.lock());
            panic!("with nothing held");
        }
    });
    assert!(thread.join().is_err());
    println!("the process lives on");
}

fn child(held: &str) -> Output {
    let program = std::env::current_exe().expect("a test has a file");
    let args = ["--exact", TEST, "--nocapture"];
    Command::new(program).args(args).env(CHILD, held).output().expect("a child starts")
}

// A panic while the routing machine is locked ends the process at once, with the reason in the last
// line of its log. The same holds for every other lock of shared state, and for a panic in a
// background task. Without a lock, or with a read guard, a panic ends only its own thread. Each
// case runs in its own process, which executes this very test.
#[test]
fn a_panic_while_held_ends_the_process() {
    if let Ok(held) = std::env::var(CHILD) {
        return misbehave(&held);
    }
    const ABORTED: Option<i32> = Some(6);
    for (held, signal) in [
        ("machine", ABORTED),
        ("mutex", ABORTED),
        ("write", ABORTED),
        ("task", ABORTED),
        ("read", None),
        ("", None),
    ] {
        let ended = child(held);
        let log = String::from_utf8_lossy(&ended.stderr);
        let lives = String::from_utf8_lossy(&ended.stdout).contains("the process lives on");
        assert_eq!((ended.status.signal(), lives), (signal, signal.is_none()), "{held}: {log}");
        let last = log.lines().last().unwrap_or_default();
        let says = last.contains("ERROR") && last.contains("the process exits");
        assert_eq!(says, signal.is_some(), "{held}: {log}");
    }
}

// A panic in the task of one request ends only that request: it counts as cancelled, and the next
// request is decided as usual.
#[tokio::test]
async fn a_panic_in_a_request_ends_that_request() {
    let driver = driver();
    let one = driver.clone();
    let panicked = tokio::spawn(async move {
        let (_ticket, _verdict) = one.arrive(request(1), Recording::default());
        panic!("in a handler");
    });
    assert!(panicked.await.is_err_and(|e| e.is_panic()));
    let counts = driver.lock().requests;
    assert_eq!((counts.accepted, counts.cancelled, counts.in_flight), (1, 1, 0));
    let (ticket, _verdict) = driver.arrive(request(2), Recording::default());
    assert_eq!(driver.lock().requests.in_flight, 1);
    drop(ticket);
    assert_eq!(driver.lock().requests.in_flight, 0);
}
