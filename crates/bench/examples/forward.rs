//! What a forward costs beyond the round trip: the same requests to the gateway whose replica
//! answers, and to a peer of it that has none.
//!
//! `cargo build --release && cargo run --release -p meridian-bench --example forward` prints the
//! table of docs/benchmarks.md. Everything is on one machine, so the round trip is the kernel's own
//! over the loopback, and the difference of the medians is what two more passes through TLS and
//! HTTP/2 and one more gateway cost. The requests of the two columns alternate.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use meridian_lab::{Client, Fleet, Process};
use meridian_wire::admin::Status;
use tokio::net::TcpListener;

const WARM_UP: usize = 200;
const ROUNDS: usize = 2000;

fn main() -> anyhow::Result<()> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/meridian");
    let binary = std::env::args().nth(1).map_or(default, PathBuf::from);
    ensure!(binary.exists(), "{} is not there; build it, or name another", binary.display());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (replica, listener) = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        anyhow::Ok((listener.local_addr()?, listener))
    })?;
    runtime.spawn(meridian_bench::mock::serve(listener));
    let (_fleet, eu, us) = runtime.block_on(start(&binary, replica))?;
    let addresses = [address(&eu)?, address(&us)?];
    println!("| request | own region, p50 | forwarded, p50 | over |\n| --- | --- | --- | --- |");
    for (name, stream, bytes) in [
        ("plain, 100 B prompt", false, 100),
        ("SSE to the first piece, 100 B", true, 100),
        ("SSE to the first piece, 64 KB", true, 64 << 10),
        ("SSE to the first piece, 1 MB", true, 1 << 20),
    ] {
        let rounds = if bytes > 100_000 { ROUNDS / 10 } else { ROUNDS };
        let [own, forwarded] = measure(addresses, &request(stream, bytes), rounds)?;
        let us = |d: Duration| d.as_secs_f64() * 1e6;
        let over = us(forwarded) - us(own);
        println!("| {name} | {:.0} µs | {:.0} µs | {over:+.0} µs |", us(own), us(forwarded));
    }
    Ok(())
}

/// Two gateways that are each other's peers: `eu` with the replica, `us` without.
async fn start(binary: &Path, replica: SocketAddr) -> anyhow::Result<(Fleet, Process, Process)> {
    let fleet = Fleet::new(binary)?;
    let certs = fleet.dir().join("certs");
    run(binary, &certs, &["init", "--fleet", "bench"])?;
    for region in ["us", "eu"] {
        run(binary, &certs, &["issue", "--gateway", &format!("{region}-1"), "--region", region])?;
    }
    let replicas = format!("replicas:\n  - url: http://{replica}\n");
    let eu = gateway(&fleet, &certs, ("eu", 2), ("us", 1), &replicas).await?;
    let us = gateway(&fleet, &certs, ("us", 1), ("eu", 2), "").await?;
    let client = Client::new();
    let url = format!("{}/admin/status", us.said(1));
    loop {
        let status: Status = client.json(&url).await?;
        if status.peers.iter().any(|p| p.eligible == 1 && p.models.is_some()) {
            return Ok((fleet, eu, us));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn run(binary: &Path, certs: &Path, args: &[&str]) -> anyhow::Result<()> {
    let output =
        Command::new(binary).args(["certs", args[0]]).arg(certs).args(&args[1..]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

async fn gateway(
    fleet: &Fleet,
    certs: &Path,
    (region, part): (&str, u8),
    (other, other_part): (&str, u8),
    replicas: &str,
) -> anyhow::Result<Process> {
    let dir = certs.display();
    let [.., high, low] = std::process::id().to_be_bytes();
    let host = |part| Ipv4Addr::new(127, high.max(1), low, part);
    let yaml = format!(
        "version: 1\nregion: {region}\nsecret: shared\npolicy: round_robin\nadmission: blind\n\
         listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\npeers:\n  listen: {}:8082\n  ca: {dir}/ca.crt\n\
         \x20 certificate: {dir}/gateways/{region}-1.crt\n  key: {dir}/gateways/{region}-1.key\n\
         \x20 gateways:\n    - {{name: {other}-1, region: {other}, address: \"{}:8082\"}}\n{replicas}",
        host(part),
        host(other_part)
    );
    let path = fleet.dir().join(format!("{region}.yaml"));
    std::fs::write(&path, yaml)?;
    let args = ["gateway".into(), "-c".into(), path.into_os_string()];
    let ready = &["listening on ", "admin on ", "peers on "];
    Ok(fleet.meridian(region, args, ready).await?)
}

fn address(gateway: &Process) -> anyhow::Result<SocketAddr> {
    let url = gateway.said(0);
    url.trim_start_matches("http://").parse().with_context(|| format!("{url} is no address"))
}

/// A chat with a prompt of so many bytes, as it goes over the wire.
fn request(stream: bool, bytes: usize) -> Vec<u8> {
    let prompt = "word ".repeat(bytes / 5);
    let body = format!(
        r#"{{"model":"mock","stream":{stream},"messages":[{{"role":"user","content":"{prompt}"}}]}}"#
    );
    let length = body.len();
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// The medians at both addresses.
fn measure(
    addresses: [SocketAddr; 2],
    request: &[u8],
    rounds: usize,
) -> anyhow::Result<[Duration; 2]> {
    let mut lines = addresses.map(|a| TcpStream::connect(a).context("the gateway listens"));
    let mut took = [Vec::new(), Vec::new()];
    for round in 0..WARM_UP.min(rounds) + rounds {
        for (line, took) in lines.iter_mut().zip(&mut took) {
            let line = line.as_mut().map_err(|e| anyhow::anyhow!("{e}"))?;
            line.set_nodelay(true)?;
            let first = exchange(line, request)?;
            if round >= WARM_UP.min(rounds) {
                took.push(first);
            }
        }
    }
    Ok(took.map(|mut took| {
        took.sort();
        took[took.len() / 2]
    }))
}

/// One request; the time to the first byte behind the answer's head.
fn exchange(line: &mut TcpStream, request: &[u8]) -> anyhow::Result<Duration> {
    let began = Instant::now();
    line.write_all(request)?;
    let (mut answer, mut piece, mut first) = (Vec::new(), [0; 16 << 10], None);
    loop {
        let n = line.read(&mut piece)?;
        ensure!(n > 0, "the gateway closed: {}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&piece[..n]);
        let Some(head) = answer.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4) else {
            continue;
        };
        if answer.len() > head {
            first.get_or_insert_with(|| began.elapsed());
        }
        if is_whole(&answer, head)? {
            return first.context("an answer has a body");
        }
    }
}

fn is_whole(answer: &[u8], head: usize) -> anyhow::Result<bool> {
    let text = std::str::from_utf8(&answer[..head])?.to_ascii_lowercase();
    ensure!(text.starts_with("http/1.1 200"), "{}", String::from_utf8_lossy(answer));
    let length = text.lines().find_map(|l| l.strip_prefix("content-length: "));
    Ok(match length {
        Some(length) => answer.len() >= head + length.parse::<usize>()?,
        None => answer.ends_with(b"0\r\n\r\n"),
    })
}
