//! Gateways of two regions, as processes, with certificates that `meridian certs` made.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use crate::common::{fleet, must, status_when};
use meridian_fleet::{Client, EngineSpec, Fleet, Gateway};
use meridian_protocol::admin::Status;

/// A loopback address that only this test uses, so a restarted gateway can have the same port.
fn host(part: u8) -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high.max(1), low, part)
}

fn certs(args: &[&str], dir: &Path) {
    let mut command = Command::new(crate::programs::MERIDIAN);
    let output = command.args(["certs", args[0]]).arg(dir).args(&args[1..]).output();
    let output = output.expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Starts a region's gateway, which follows the other region's.
async fn gateway(
    fleet: &Fleet,
    certs: &Path,
    (region, part): (&str, u8),
    (other, other_part): (&str, u8),
    replicas: &[&str],
) -> Gateway {
    let dir = certs.display();
    let mut yaml = format!(
        "version: 1\nregion: {region}\nsecret: shared\nlisten: 127.0.0.1:0\nadmin: 127.0.0.1:0\n\
         peers:\n  listen: {}:8082\n  ca: {dir}/ca.crt\n\
         \x20 certificate: {dir}/gateways/{region}-1.crt\n  key: {dir}/gateways/{region}-1.key\n\
         \x20 gateways:\n    - {{name: {other}-1, region: {other}, address: \"{}:8082\"}}\nreplicas:\n",
        host(part),
        host(other_part)
    );
    for url in replicas {
        yaml.push_str(&format!("  - url: {url}\n"));
    }
    let path = fleet.dir().join(format!("{region}.yaml"));
    std::fs::write(&path, yaml).expect("writes");
    let args = ["gateway".into(), "-c".into(), path.into_os_string()];
    let ready = &["listening on ", "admin on ", "peers on "];
    let process = must(fleet.meridian(region, args, ready).await);
    let (url, admin) = (process.said(0).to_owned(), process.said(1).to_owned());
    Gateway { process, url, admin, peers: None }
}

// Two gateways see each other's replicas and measure the round trip. A killed one is reported as
// lost, and followed again when it is back. A third one with another fleet's certificate learns
// nothing.
#[tokio::test]
async fn gateways_follow_each_other_through_a_kill() {
    let (fleet, client) = (fleet(), Client::new());
    let ours = fleet.dir().join("ours");
    certs(&["init", "--fleet", "prod"], &ours);
    certs(&["issue", "--gateway", "us-1", "--region", "us"], &ours);
    certs(&["issue", "--gateway", "eu-1", "--region", "eu"], &ours);
    let mut engines = Vec::new();
    for name in ["one", "two"] {
        engines.push(must(fleet.engine(name, &EngineSpec::default()).await));
    }
    let urls: Vec<_> = engines.iter().map(|engine| engine.said(0)).collect();
    let (us, eu) = (("us", 1), ("eu", 2));
    let mut first = gateway(&fleet, &ours, us, eu, &urls).await;
    let follower = gateway(&fleet, &ours, eu, us, &[]).await;
    let sees = |s: &Status| s.peers[0].state == "up" && s.peers[0].eligible == 2;
    let status = status_when(&client, &follower, "eu sees the replicas of us", sees).await;
    let peer = &status.peers[0];
    assert!(peer.prefixes && peer.rtt_ms > 0.0, "{peer:?}");
    status_when(&client, &first, "us follows eu", |s| s.peers[0].state == "up").await;

    must(first.process.kill().await);
    let gone = |s: &Status| s.peers[0].state == "gone" && s.peers[0].eligible == 0;
    let lost = status_when(&client, &follower, "us is gone", gone).await;
    let again = gateway(&fleet, &ours, us, eu, &urls).await;
    let status = status_when(&client, &follower, "us is followed again", sees).await;
    assert!(status.peers[0].digests > lost.peers[0].digests);

    let theirs = fleet.dir().join("theirs");
    certs(&["init", "--fleet", "prod"], &theirs);
    certs(&["issue", "--gateway", "asia-1", "--region", "asia"], &theirs);
    let stranger = gateway(&fleet, &theirs, ("asia", 3), us, &[]).await;
    let refused = |s: &Status| {
        let problem = s.peers[0].problem.as_deref().unwrap_or_default();
        problem.contains("certificate") && s.peers[0].digests == 0
    };
    status_when(&client, &stranger, "the stranger is refused", refused).await;
    drop(again);
}
