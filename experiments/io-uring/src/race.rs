//! The relays in turn, in front of one mock replica, under the same load.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};

/// Bytes of a buffer in each direction.
pub const BUFFER: usize = 16 << 10;

const RUNTIMES: [&str; 3] = ["tokio", "epoll", "io_uring"];
/// Seconds of each measurement.
const EACH: u32 = 3;
/// Streamed answers of eight tokens, plain answers, and prompts of 64 KB, as in `./x bench gateway`.
const CASES: [(&str, usize, bool); 3] =
    [("plain", 64, false), ("sse", 64, true), ("64k", 65_536, true)];
const CONNECTIONS: [u32; 2] = [1, 32];

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Of one measurement: requests/s, and the relay's CPU per request in us.
#[derive(Clone, Copy)]
struct Measured {
    rate: f64,
    cpu_us: f64,
}

pub fn run(meridian: &str, rounds: usize) -> anyhow::Result<()> {
    ensure!(rounds > 0, "ROUNDS is 0: nothing would be measured, use 1 or more");
    let (_mock, server) = mock(meridian)?;
    println!("medians of {rounds} rounds; ratios to tokio's in brackets");
    println!("{:18} {:10} {:>16} {:>20}", "case", "runtime", "requests/s", "CPU a request, us");
    for (name, bytes, stream) in CASES {
        let script = script(name, bytes, stream)?;
        for connections in CONNECTIONS {
            let mut all = RUNTIMES.map(|_| Vec::new());
            // The first round warms up.
            for round in 0..=rounds {
                for (runtime, measured) in RUNTIMES.iter().zip(&mut all) {
                    let one = measure(runtime, &server, &script, connections)?;
                    if round > 0 {
                        measured.push(one);
                    }
                }
            }
            report(&format!("{name} c={connections}"), &all);
        }
    }
    Ok(())
}

fn report(case: &str, all: &[Vec<Measured>]) {
    for (runtime, measured) in RUNTIMES.iter().zip(all) {
        let rate = median(measured.iter().map(|m| m.rate));
        let cpu = median(measured.iter().map(|m| m.cpu_us));
        let ratio = |of: fn(&Measured) -> f64| {
            median(measured.iter().zip(&all[0]).map(|(one, tokio)| of(one) / of(tokio)))
        };
        let (rates, cpus) = (ratio(|m| m.rate), ratio(|m| m.cpu_us));
        println!("{case:18} {runtime:10} {rate:9.0} ({rates:.2}) {cpu:13.1} ({cpus:.2})");
    }
}

fn median(of: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = of.collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// `MERIDIAN bench mock`, and its address.
fn mock(meridian: &str) -> anyhow::Result<(Process, String)> {
    let mut child = Command::new(meridian)
        .args(["bench", "mock", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {meridian}"))?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("stdout is piped")?).read_line(&mut line)?;
    let address = line.trim().strip_prefix("listening on http://");
    let address = address.with_context(|| format!("the mock says {line:?}"))?.to_owned();
    Ok((Process(child), address))
}

/// A script of wrk that posts one body.
fn script(name: &str, bytes: usize, stream: bool) -> anyhow::Result<String> {
    let body = format!(
        r#"{{"model":"mock","max_tokens":8,"stream":{stream},"messages":[{{"role":"user","content":"{}"}}]}}"#,
        "a".repeat(bytes)
    );
    let script = format!(
        "wrk.method = 'POST'\nwrk.path = '/v1/chat/completions'\n\
         wrk.headers['content-type'] = 'application/json'\nwrk.body = '{body}'\n"
    );
    let path = std::env::temp_dir().join(format!("io-uring-relay-{name}.lua"));
    std::fs::write(&path, script)?;
    Ok(path.display().to_string())
}

/// A relay that just started, under load for some seconds.
fn measure(
    runtime: &str,
    server: &str,
    script: &str,
    connections: u32,
) -> anyhow::Result<Measured> {
    let listen = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let relay = Command::new(std::env::current_exe()?).args([runtime, &listen, server]).spawn()?;
    let relay = Process(relay);
    std::thread::sleep(Duration::from_millis(200));
    let before = cpu_us(&relay)?;
    let said = Command::new("wrk")
        .args(["-t", "1", "-c", &connections.to_string(), "-d", &EACH.to_string(), "-s", script])
        .arg(format!("http://{listen}"))
        .output()
        .context("cannot start wrk: install it with `apt-get install wrk`")?;
    let cpu = cpu_us(&relay)? - before;
    let text = String::from_utf8_lossy(&said.stdout);
    ensure!(said.status.success() && !text.contains("Non-2xx"), "wrk failed: {text}");
    let field = |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name));
    let rate: f64 = field("Requests/sec:").context("wrk gives no rate")?.trim().parse()?;
    let requests = text.lines().find_map(|line| line.split_once(" requests in"));
    let requests: f64 = requests.context("wrk counts no requests")?.0.trim().parse()?;
    Ok(Measured { rate, cpu_us: cpu / requests })
}

/// CPU time of a process so far, of the program and of the kernel for it. The kernel threads that
/// io_uring may start for blocking work are threads of the process, so they count.
fn cpu_us(process: &Process) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.0.id()))?;
    let after_name = stat.rsplit_once(") ").context("stat has a name")?.1;
    let mut fields = after_name.split(' ').skip(11).map(str::parse::<f64>);
    let mut ticks = || anyhow::Ok(fields.next().context("stat has times")??);
    let ticks = ticks()? + ticks()?;
    Ok(ticks * 1e6 / rustix::param::clock_ticks_per_second() as f64)
}
