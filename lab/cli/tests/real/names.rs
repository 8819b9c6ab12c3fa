//! One name for two regions: a control plane that is the zone's name server, gateways with one port on
//! addresses of their own, and clients that resolve the name and keep the answer for its TTL.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{LIMIT, chat, fleet, must, text};
use meridian_fleet::{Client, EngineSpec, Fleet, Gateway, Process};

const ZONE: &str = "llm.example.org";

/// A loopback address that only this test uses, with any port.
fn host(part: u8) -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high.max(1), low, part)
}

fn command(url: &str, args: &[&str]) -> String {
    let mut command = Command::new(crate::programs::MERIDIAN);
    let output = command.args(args).args(["--control", url]).output().expect("the binary runs");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    said
}

async fn control(fleet: &Fleet) -> Process {
    let yaml = format!(
        "version: 1\nstore: {}\nadmin: {}:8090\ndns:\n  listen: ['{}:5353']\n  zone: {ZONE}\n  \
         nameservers: {{ns1: [{}]}}\n  ttl: 1s\n  \
         clients: {{eu: [10.1.0.0/16], us: [10.2.0.0/16]}}\n",
        fleet.dir().join("control.redb").display(),
        host(31),
        host(31),
        host(31),
    );
    let path = fleet.dir().join("control.yaml");
    std::fs::write(&path, yaml).expect("writes");
    let args = ["control".into(), "-c".into(), path.into_os_string()];
    must(fleet.meridian("control", args, &["admin on "]).await)
}

async fn gateway(fleet: &Fleet, url: &str, region: &str, part: u8) -> Gateway {
    let at = host(part);
    let yaml = format!(
        "version: 1\nregion: {region}\nlisten: {at}:8080\nadmin: {at}:8081\n\
         control: {{url: '{url}', name: {region}-1, lease: 2s, public: [{at}]}}\n"
    );
    let path = fleet.dir().join(format!("{region}.yaml"));
    std::fs::write(&path, yaml).expect("writes");
    let args = ["gateway".into(), "-c".into(), path.into_os_string()];
    let process = must(fleet.meridian(region, args, &["listening on ", "admin on "]).await);
    let (url, admin) = (process.said(0).to_owned(), process.said(1).to_owned());
    Gateway { process, url, admin, peers: None }
}

/// The addresses for a client in this subnet, and how long they may be kept.
fn resolved(subnet: &str) -> (Vec<IpAddr>, Duration) {
    let mut dig = Command::new("dig");
    dig.args(["+noall", "+answer", "+norecurse", "-p", "5353", ZONE, "A"]);
    let out = dig.arg(format!("@{}", host(31))).arg(format!("+subnet={subnet}")).output();
    let out = out.expect("dig is missing: apt-get install dnsutils");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let mut ttl = Duration::ZERO;
    let mut addresses = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with(';')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, seconds, _, "A", address] = words[..] else { continue };
        ttl = Duration::from_secs(seconds.parse().expect("a TTL"));
        addresses.push(address.parse().expect("an address"));
    }
    (addresses, ttl)
}

/// The name's addresses, resolved again when their time is over.
struct Name {
    subnet: &'static str,
    addresses: Vec<IpAddr>,
    until: Instant,
}

impl Name {
    async fn first(&mut self) -> Option<IpAddr> {
        if Instant::now() >= self.until {
            let subnet = self.subnet;
            let (addresses, ttl) =
                tokio::task::spawn_blocking(move || resolved(subnet)).await.expect("dig ends");
            (self.addresses, self.until) = (addresses, Instant::now() + ttl);
        }
        self.addresses.first().copied()
    }
}

/// What the clients have seen so far.
#[derive(Default)]
struct Seen {
    answers: u64,
    /// Attempts that did not reach a gateway, broke or were refused.
    failed: u64,
    longest: Duration,
    /// Addresses that answered, in order, without repetition.
    servers: Vec<IpAddr>,
}

type AllSeen = Arc<Mutex<[Seen; 3]>>;

/// Sends requests one after the other. Each is tried again until it is answered, at the address that the
/// name has then.
async fn client(at: usize, subnet: &'static str, seen: AllSeen, over: Arc<AtomicBool>) {
    let mut name = Name { subnet, addresses: Vec::new(), until: Instant::now() };
    let http = Client::new();
    while !over.load(Ordering::Relaxed) {
        let (start, mut failed) = (Instant::now(), 0);
        let server = loop {
            assert!(start.elapsed() < LIMIT, "a request was lost");
            if let Some(address) = name.first().await {
                let url = format!("http://{address}:8080/v1/chat/completions");
                let body = chat(&text(7, 20), 2, false).replace("meridian-tiny", "llama-3.1-8b");
                if http.post(&url, body).await.is_ok_and(|answer| answer.status == 200) {
                    break address;
                }
                failed += 1;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        let seen = &mut seen.lock().expect("no panic while held")[at];
        seen.answers += 1;
        seen.failed += failed;
        seen.longest = seen.longest.max(start.elapsed());
        seen.servers.push(server);
        seen.servers.dedup();
    }
}

/// Waits until all of these clients were last answered at an address.
async fn all_at(seen: &AllSeen, clients: &[usize], server: Ipv4Addr) {
    let start = Instant::now();
    let is_there = |at: &usize| {
        seen.lock().expect("no panic while held")[*at].servers.last() == Some(&server.into())
    };
    while !clients.iter().all(is_there) {
        assert!(start.elapsed() < LIMIT, "not all clients are at {server}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

// Clients of two regions resolve one name. One region is lost with its gateway and its engine: its
// clients go to the other one, and no request is lost. It returns, and so do they. The view says who
// answers and why, before and after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_honour_ttls_lose_no_request() {
    let fleet = fleet();
    let plane = control(&fleet).await;
    let url = plane.said(0).to_owned();
    let mut engines = Vec::new();
    for region in ["eu", "us"] {
        let engine = must(fleet.engine(&format!("{region}-a"), &EngineSpec::default()).await);
        let name = format!("{region}-a");
        let args =
            ["replicas", "add", &name, "--force", "--region", region, "--url", engine.said(0)];
        command(&url, &args);
        engines.push(engine);
    }
    command(&url, &["regions", "set", "us", "--rtt", "eu=92", "--adopters", "none"]);
    command(&url, &["regions", "set", "eu", "--adopters", "none"]);
    let mut eu = gateway(&fleet, &url, "eu", 32).await;
    let _us = gateway(&fleet, &url, "us", 33).await;
    let (seen, over) = (AllSeen::default(), Arc::new(AtomicBool::new(false)));
    let subnets = ["10.1.1.0/24", "10.1.2.0/24", "10.2.1.0/24"];
    let client = |(at, subnet)| tokio::spawn(client(at, subnet, seen.clone(), over.clone()));
    let clients: Vec<_> = subnets.into_iter().enumerate().map(client).collect();
    all_at(&seen, &[0, 1], host(32)).await;
    all_at(&seen, &[2], host(33)).await;
    let names = command(&url, &["regions", "names", "--client", "10.1.1.9"]);
    assert!(names.contains(&host(32).to_string()) && names.contains("their own region"), "{names}");

    must(engines[0].kill().await);
    must(eu.process.kill().await);
    let start = Instant::now();
    while !command(&url, &["regions", "names", "--client", "10.1.1.9"]).contains("92 ms away") {
        assert!(start.elapsed() < LIMIT, "the name still leads to eu");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    all_at(&seen, &[0, 1, 2], host(33)).await;
    let port = engines[0].said(0).rsplit(':').next().expect("a port").to_owned();
    let again = EngineSpec { listen: format!("127.0.0.1:{port}"), ..EngineSpec::default() };
    let _engine = must(fleet.engine("eu-a-again", &again).await);
    let _eu = gateway(&fleet, &url, "eu", 32).await;
    all_at(&seen, &[0, 1], host(32)).await;

    over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("no request was lost");
    }
    let (own, other) = (IpAddr::V4(host(32)), IpAddr::V4(host(33)));
    for (at, seen) in seen.lock().expect("no panic while held").iter().enumerate() {
        let Seen { answers, failed, longest, servers } = seen;
        println!(
            "client {at}: {answers} requests, none lost; {failed} attempts failed; longest {longest:?}"
        );
        let expected = if at < 2 { vec![own, other, own] } else { vec![other] };
        // While eu returns, a client may go back and forth.
        assert!(servers.starts_with(&expected[..1]) && servers.ends_with(&expected[..1]));
        assert_eq!(servers.contains(&own), at < 2);
        assert!(servers.contains(&other));
    }
}
