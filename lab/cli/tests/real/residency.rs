//! Two regions as processes: clients over TLS with keys that `meridian tenant-key` made, a tenant
//! whose requests stay in one region, and certificates that are replaced under load.

use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{LIMIT, chat, fleet, must, status, status_when};
use http::HeaderMap;
use meridian_fleet::{Client, EngineSpec, Fleet, Gateway, Process};
use meridian_protocol::admin::Status;

/// A loopback address that only this test uses.
fn host(part: u8) -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high.max(1), low, part)
}

fn meridian(args: &[&str], input: &str) -> String {
    let mut command = Command::new(crate::programs::MERIDIAN);
    let command = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    child.stdin.take().expect("is piped").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).expect("is text").trim().to_owned()
}

/// Issues the certificates of both gateways, with the name that clients use.
fn certificates(dir: &Path, force: &[&str]) {
    let dir = dir.to_str().expect("is text");
    for region in ["us", "eu"] {
        let name = format!("{region}-1");
        let who = ["certs", "issue", dir, "--gateway", &name, "--region", region];
        meridian(&[&who[..], &["--dns", "localhost"], force].concat(), "");
    }
}

/// Starts a control plane that requires certificates; returns the arguments of operators' commands.
async fn control(fleet: &Fleet, certs: &Path) -> (Process, Vec<String>) {
    let (dir, at) = (certs.display(), fleet.dir().display());
    let yaml = format!(
        "version: 1\nstore: {at}/control.redb\nadmin: 127.0.0.1:0\ntls: {{ca: {dir}/ca.crt, \
         certificate: {dir}/control/c-1.crt, key: {dir}/control/c-1.key}}\n"
    );
    let path = fleet.dir().join("control.yaml");
    std::fs::write(&path, yaml).expect("writes");
    let args = ["control".into(), "-c".into(), path.into_os_string()];
    let process = must(fleet.meridian("control", args, &["admin on https://"]).await);
    let url = format!("https://{}", process.said(0));
    let files = ["ca.crt", "operators/alice.crt", "operators/alice.key"];
    let [ca, crt, key] = files.map(|file| certs.join(file).display().to_string());
    let named = ["--control", &url, "--ca", &ca, "--certificate", &crt, "--key", &key];
    (process, named.map(ToOwned::to_owned).into())
}

/// Starts a region's gateway, which follows the other region's and has both tenants.
async fn gateway(
    fleet: &Fleet,
    certs: &Path,
    (control, hashes): (&str, &[String]),
    at: u8,
    engine: &str,
) -> Gateway {
    let (region, other) = if at == 1 { ("us", "eu") } else { ("eu", "us") };
    let dir = certs.display();
    let pair =
        format!("certificate: {dir}/gateways/{region}-1.crt, key: {dir}/gateways/{region}-1.key");
    let yaml = format!(
        "version: 1\nregion: {region}\nsecret: shared\nlisten: 127.0.0.1:0\nadmin: 127.0.0.1:0\n\
         tls: {{{pair}}}\n\
         peers:\n  {{listen: \"{}:8082\", ca: {dir}/ca.crt, {pair}, gateways: [{{name: {other}-1, \
         region: {other}, address: \"{}:8082\"}}]}}\n\
         tenants:\n  - {{name: acme, keys: [\"{}\"]}}\n  - {{name: other, keys: [\"{}\"]}}\n\
         residency:\n  rules: [{{name: eu-only, tenants: [acme], run_in: [eu]}}]\n\
         control: {{url: \"{control}\"}}\nreplicas:\n  - url: {engine}\n",
        host(at),
        host(3 - at),
        hashes[0],
        hashes[1]
    );
    let path = fleet.dir().join(format!("{region}.yaml"));
    std::fs::write(&path, yaml).expect("writes");
    let args = ["gateway".into(), "-c".into(), path.into_os_string()];
    let ready = &["listening on https://", "admin on ", "peers on "];
    let process = must(fleet.meridian(region, args, ready).await);
    let url =
        format!("https://localhost:{}", process.said(0).rsplit(':').next().unwrap_or_default());
    let admin = process.said(1).to_owned();
    Gateway { process, url, admin, peers: None }
}

/// Sends a request as a client that trusts the fleet's authority, over a connection of its own;
/// returns status, headers and body.
async fn ask(gateway: &Gateway, ca: &Path, key: Option<&str>) -> (u16, HeaderMap, String) {
    let bearer = key.map(|key| format!("Bearer {key}"));
    let headers: Vec<_> = bearer.iter().map(|bearer| ("authorization", &**bearer)).collect();
    let url = format!("{}/v1/chat/completions", gateway.url);
    let body = chat("hello", 2, false).replace("meridian-tiny", "llama-3.1-8b");
    let answer = must(must(Client::trusting(ca)).open(&url, body, &headers).await);
    let answer = must(answer.whole().await);
    (answer.status, answer.headers, String::from_utf8_lossy(&answer.body).into_owned())
}

fn said(headers: &HeaderMap, name: &str) -> String {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

fn log(gateway: &Gateway) -> String {
    std::fs::read_to_string(gateway.process.log()).expect("there is a log")
}

/// Waits until a gateway has logged this many reloads of certificates.
async fn exchanged(gateway: &Gateway, times: usize) {
    let start = Instant::now();
    while log(gateway).matches("reloaded part=\"certificate").count() < times {
        assert!(start.elapsed() < LIMIT, "not exchanged {times} times: {}", log(gateway));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

// A tenant's requests are served only in eu, whichever gateway receives them. Requests without a
// key are refused. Without eu, the tenant's requests wait and are refused with a retryable error,
// although us has free capacity. No log has the keys. Certificates are replaced while the gateways
// run, and later clients and peers get the new ones.
#[tokio::test]
async fn a_tenant_stays_in_its_region() {
    let (fleet, client) = (fleet(), Client::new());
    let certs: PathBuf = fleet.dir().join("fleet");
    meridian(&["certs", "init", certs.to_str().expect("is text"), "--fleet", "prod"], "");
    certificates(&certs, &[]);
    let dir = certs.to_str().expect("is text");
    meridian(&["certs", "issue", dir, "--control", "c-1"], "");
    meridian(&["certs", "issue", dir, "--operator", "alice"], "");
    let made = meridian(&["tenant-key", "--new"], "");
    let part = |name: &str| {
        let line = made.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name} is missing")).trim().to_owned()
    };
    let (acme, other) = (part("key "), "another-key-0123456789".to_owned());
    assert_eq!(meridian(&["tenant-key"], &format!("{acme}\n")), part("hash "));
    let hashes = [part("hash "), meridian(&["tenant-key"], &other)];

    let mut engines = Vec::new();
    for name in ["engine-us", "engine-eu"] {
        engines.push(must(fleet.engine(name, &EngineSpec::default()).await));
    }
    let (_control, asked) = control(&fleet, &certs).await;
    let url = asked[1].as_str();
    let us = gateway(&fleet, &certs, (url, &hashes), 1, engines[0].said(0)).await;
    let mut eu = gateway(&fleet, &certs, (url, &hashes), 2, engines[1].said(0)).await;
    let knows = |s: &Status| s.peers[0].eligible == 1 && s.replicas[0].state == "up";
    status_when(&client, &us, "us knows eu", knows).await;
    status_when(&client, &eu, "eu knows us", knows).await;

    let follows = |s: &Status| s.control.as_ref().is_some_and(|c| c.state == "up" && c.leased);
    status_when(&client, &us, "us follows the control plane", follows).await;
    let mut list = vec!["gateways", "list"];
    list.extend(asked.iter().map(String::as_str));
    let listed = meridian(&list, "");
    assert!(listed.contains("us-1") && listed.contains("eu-1"), "{listed}");

    let ca = certs.join("ca.crt");
    assert_eq!(ask(&us, &ca, None).await.0, 401);
    let (code, _, body) = ask(&us, &ca, Some("a-key-of-no-such-tenant")).await;
    assert!(code == 401 && body.contains("invalid_api_key"), "{body}");
    for gateway in [&us, &eu] {
        let (code, headers, body) = ask(gateway, &ca, Some(&acme)).await;
        assert_eq!((code, said(&headers, "x-meridian-region").as_str()), (200, "eu"), "{body}");
        assert_eq!(said(&headers, "x-meridian-residency"), "eu-only");
    }
    let (code, headers, body) = ask(&us, &ca, Some(&other)).await;
    assert_eq!((code, said(&headers, "x-meridian-region").as_str()), (200, "us"), "{body}");

    certificates(&certs, &["--force", "--days", "9"]);
    for gateway in [&us, &eu] {
        // Once for the clients' port, once for the peers', and once for the control plane.
        exchanged(gateway, 3).await;
    }
    let (code, headers, body) = ask(&us, &ca, Some(&acme)).await;
    assert_eq!((code, said(&headers, "x-meridian-region").as_str()), (200, "eu"), "{body}");

    must(eu.process.kill().await);
    status_when(&client, &us, "eu is gone", |s| s.peers[0].state == "gone").await;
    let (code, _, body) = ask(&us, &ca, Some(&acme)).await;
    assert!(code == 503 && body.contains("rule `eu-only` (in eu)"), "{code}: {body}");
    let eu = gateway(&fleet, &certs, (url, &hashes), 2, engines[1].said(0)).await;
    status_when(&client, &us, "eu is back, with its new certificate", knows).await;
    assert_eq!(ask(&us, &ca, Some(&acme)).await.0, 200);

    let status = status(&client, &us).await;
    let residency = status.residency.expect("there is a rule");
    let row = &residency.rules[0];
    assert_eq!((row.served, row.sent, row.refused, residency.breaches), (0, 3, 0, 0));
    assert_eq!(status.replicas[0].dispatched, 1);
    for gateway in [&us, &eu] {
        assert!(!log(gateway).contains(&acme) && !log(gateway).contains(&other));
    }
}
