//! Precision and cost of the emulated WAN: measured against configured delays, throughput, and the
//! CPU time of idle connections.
//!
//! `cargo run --release -p meridian-fleet --example wan` prints the table of lab/results/wan.md. The relay
//! runs on one thread, both ends on another.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use meridian_wan::Relay;
use meridian_wan::config::Wan;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};

const ROUNDS: usize = 200;
const IDLE: usize = 100;
const IDLE_FOR: Duration = Duration::from_secs(20);
const BULK: usize = 1 << 30;

/// A relay on its own thread; ends when dropped.
struct Far {
    door: SocketAddr,
    /// Requests the thread's CPU time so far.
    ask: mpsc::UnboundedSender<oneshot::Sender<Duration>>,
    thread: Option<thread::JoinHandle<()>>,
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime can be made")
}

impl Far {
    fn start(delay: &str, target: SocketAddr) -> Far {
        let yaml = format!(
            "version: 1\nlinks:\n  - {{from: a, to: b, delay: {delay}}}\n  - {{from: b, to: a, \
             delay: {delay}}}\nroutes:\n  - {{from: a, to: b, target: '{target}'}}\n"
        );
        let config = Wan::read(&yaml).expect("is valid");
        let (ask, mut asked) = mpsc::unbounded_channel::<oneshot::Sender<Duration>>();
        let (send, door) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            runtime().block_on(async move {
                let relay = Relay::start(&config).await.expect("ports are free");
                let door = relay.listen("a-b").expect("the route is there");
                send.send(door).expect("the starter waits");
                while let Some(answer) = asked.recv().await {
                    // The receiver may have ended meanwhile.
                    let _ = answer.send(cpu_of_this_thread());
                }
                relay.stop().await;
            });
        });
        let door = door.recv().expect("the relay starts");
        Far { door, ask, thread: Some(thread) }
    }

    async fn cpu(&self) -> Duration {
        let (send, answer) = oneshot::channel();
        self.ask.send(send).expect("the relay runs");
        answer.await.expect("it answers")
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.ask = mpsc::unbounded_channel().0;
        let thread = self.thread.take().expect("it ends once");
        thread.join().expect("the relay does not panic");
    }
}

fn cpu_of_this_thread() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let nanos = text.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanos.expect("its first word is a number"))
}

async fn connect(target: &TcpListener, far: &Far) -> (TcpStream, TcpStream) {
    let near = TcpStream::connect(far.door).await.expect("the relay listens");
    let (far, _) = target.accept().await.expect("the relay dials");
    for stream in [&near, &far] {
        stream.set_nodelay(true).expect("a socket takes options");
    }
    (near, far)
}

fn quantiles(name: &str, due: Duration, measured: &[Duration]) {
    let measured: Vec<f64> = measured.iter().map(Duration::as_secs_f64).collect();
    let over = |share| {
        let at = meridian_base::quantile(&measured, share).expect("something is measured");
        (at - due.as_secs_f64()) * 1e3
    };
    println!(
        "| {name} | {:.0} | +{:.3} | +{:.3} | +{:.3} |",
        due.as_secs_f64() * 1e3,
        over(0.5),
        over(0.9),
        over(0.99)
    );
}

async fn delays(ms: u64) {
    let target = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let relay = Far::start(&format!("{ms}ms"), target.local_addr().expect("it is bound"));
    let start = Instant::now();
    let mut near = TcpStream::connect(relay.door).await.expect("the relay listens");
    near.set_nodelay(true).expect("a socket takes options");
    near.write_all(b"x").await.expect("is open");
    let (mut far, _) = target.accept().await.expect("the relay dials");
    far.set_nodelay(true).expect("a socket takes options");
    let mut byte = [0];
    far.read_exact(&mut byte).await.expect("is open");
    let delay = Duration::from_millis(ms);
    quantiles("connect and first byte", 3 * delay, &[start.elapsed()]);

    let (mut ways, mut trips) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        near.write_all(&byte).await.expect("is open");
        far.read_exact(&mut byte).await.expect("is open");
        ways.push(start.elapsed());
        far.write_all(&byte).await.expect("is open");
        near.read_exact(&mut byte).await.expect("is open");
        trips.push(start.elapsed());
    }
    quantiles("one way", delay, &ways);
    quantiles("round trip", 2 * delay, &trips);
}

async fn bulk(delay: &str) {
    let target = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let relay = Far::start(delay, target.local_addr().expect("it is bound"));
    let (mut near, mut far) = connect(&target, &relay).await;
    let before = relay.cpu().await;
    let start = Instant::now();
    let writing = tokio::spawn(async move {
        let piece = vec![7; 1 << 20];
        for _ in 0..BULK / piece.len() {
            near.write_all(&piece).await.expect("is open");
        }
    });
    let mut piece = vec![0; 1 << 20];
    let mut read = 0;
    while read < BULK {
        read += far.read(&mut piece).await.expect("is open");
    }
    let seconds = start.elapsed().as_secs_f64();
    writing.await.expect("all is written");
    let cpu = (relay.cpu().await - before).as_secs_f64();
    let rate = BULK as f64 / 1e6 / seconds;
    println!("delay {delay}: {rate:.0} MB/s through one connection, {cpu:.2} s of CPU a GiB");
}

async fn idle() {
    let target = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let relay = Far::start("40ms", target.local_addr().expect("it is bound"));
    let mut open = Vec::new();
    for _ in 0..IDLE {
        open.push(connect(&target, &relay).await);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = relay.cpu().await;
    tokio::time::sleep(IDLE_FOR).await;
    let used = relay.cpu().await - before;
    println!("{IDLE} idle connections: {used:?} of CPU in {IDLE_FOR:?}");
}

fn main() {
    runtime().block_on(async {
        println!("| measured | configured, ms | p50 over, ms | p90 | p99 |");
        println!("| --- | --- | --- | --- | --- |");
        for ms in [5, 40, 80] {
            delays(ms).await;
        }
        bulk("0s").await;
        bulk("10ms").await;
        idle().await;
    });
}
