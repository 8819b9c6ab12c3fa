//! A real gateway, whose file changes as a kubelet changes a mounted ConfigMap.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use meridian_fleet::{Fleet, Process, Program};

use super::{Chart, document};

/// Far longer than two polls of the file.
const LIMIT: Duration = Duration::from_secs(60);

// The folder of a new version takes the place of the old one in a single step, by a link.
#[tokio::test]
async fn a_mounted_file_reloads() {
    let chart = Chart::ours().await;
    let fleet = Fleet::new(crate::programs::MERIDIAN).expect("a folder");
    let folder = fleet.dir().join("mounted");
    std::fs::create_dir(&folder).expect("makes the folder");
    mount(&folder, "..1", &file(&chart, &fleet, "config.explain_keep=1000"));
    symlink("..data/gateway.yaml", folder.join("gateway.yaml")).expect("links");

    let path = folder.join("gateway.yaml").display().to_string();
    let gateway = Program::new("gateway", crate::programs::MERIDIAN);
    let gateway = gateway.args(["gateway", "-c", &path]).ready(&["listening on ", "admin on "]);
    let gateway = fleet.start(gateway).await.unwrap_or_else(|error| panic!("{error}"));

    mount(&folder, "..2", &file(&chart, &fleet, "config.explain_keep=2000"));
    std::fs::remove_dir_all(folder.join("..1")).expect("removes the old folder");
    logs(&gateway, "changed=\"explain_keep\"").await;
    mount(&folder, "..3", &file(&chart, &fleet, "config.threads=3"));
    logs(&gateway, "keys=\"threads\"").await;
}

/// Makes a folder of the mount, and the link `..data` to it.
fn mount(folder: &Path, version: &str, text: &str) {
    std::fs::create_dir(folder.join(version)).expect("makes the folder");
    std::fs::write(folder.join(version).join("gateway.yaml"), text).expect("writes");
    symlink(version, folder.join("..tmp")).expect("links");
    std::fs::rename(folder.join("..tmp"), folder.join("..data")).expect("renames");
}

/// The chart's file for gateways, on free ports of this machine.
fn file(chart: &Chart, fleet: &Fleet, values: &str) -> String {
    let rendered = chart.render(&["--set", values]).unwrap_or_else(|error| panic!("{error}"));
    let documents = chart.documents(&rendered);
    let text = &document(&documents, "ConfigMap", "meridian")["data"]["gateway.yaml"];
    let secrets = fleet.dir().join("own");
    std::fs::create_dir_all(&secrets).expect("makes the folder");
    let hash = format!("sha256:{}", "d3c4b5a69781e2f0".repeat(4));
    for (name, text) in [("peers-secret", "e7Wq0vXrL2mZ9cTb5KdY"), ("admin-token-hash", &hash)] {
        std::fs::write(secrets.join(name), text).expect("writes");
    }
    let text = text.as_str().expect("it is text");
    let text = text.replace("/etc/meridian-secrets/own", &secrets.display().to_string());
    let mut text = text.replace("dns: meridian-peers.llm.svc:8082", "dns: localhost:9");
    for port in ["8080", "8081", "8082"] {
        text = text.replace(&format!("0.0.0.0:{port}"), "127.0.0.1:0");
    }
    text
}

/// Waits until the gateway's log has a text.
async fn logs(gateway: &Process, text: &str) {
    let start = Instant::now();
    let log = || std::fs::read_to_string(gateway.log()).expect("there is a log");
    while !log().contains(text) {
        assert!(start.elapsed() < LIMIT, "{text:?} is not there: {}", log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
