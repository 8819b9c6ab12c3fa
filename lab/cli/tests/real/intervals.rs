//! Up and down intervals of real processes: one that is killed, one that is suspended, and one whose
//! port nothing listens on.

use std::process::Command;

use crate::common::{fleet, must, status_when, up};
use meridian_fleet::{Client, EngineSpec, Gateway, GatewaySpec, Process, free_port};
use meridian_protocol::intervals::{History, Intervals};

/// The output of `meridian intervals`.
fn printed(gateway: &Gateway, args: &[&str]) -> String {
    let mut command = Command::new(crate::programs::MERIDIAN);
    command.args(["intervals", "--admin", &gateway.admin]).args(args);
    let output = command.output().expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("is text")
}

/// The intervals of a replica, oldest first.
fn said(read: &Intervals, url: &str) -> Vec<String> {
    let is_it = |one: &&History| one.name == url;
    let history = read.replicas.iter().find(is_it).unwrap_or_else(|| panic!("{url}: {read:?}"));
    history.intervals.iter().map(|one| format!("{} {}", one.state, one.cause)).collect()
}

fn is_down(url: &str) -> impl Fn(&meridian_protocol::admin::Status) -> bool {
    let url = url.to_owned();
    move |status| status.replicas.iter().any(|one| one.url == url && one.state == "down")
}

// The cause of a replica that is killed, of one that is suspended and goes on, and of one that never
// ran, as the API and the command show them.
#[tokio::test]
async fn causes_of_real_processes() {
    let (fleet, client) = (fleet(), Client::new());
    let mut engines: Vec<Process> = Vec::new();
    for name in ["killed", "suspended"] {
        engines.push(must(fleet.engine(name, &EngineSpec::default()).await));
    }
    let mut urls: Vec<String> = engines.iter().map(|one| one.said(0).to_owned()).collect();
    // Nothing listens there.
    urls.push(format!("http://127.0.0.1:{}", must(free_port())));
    let spec = GatewaySpec { replicas: urls.clone(), ..GatewaySpec::default() };
    let gateway = must(fleet.gateway("gateway", &spec).await);
    status_when(&client, &gateway, "both engines are up", up(2)).await;
    status_when(&client, &gateway, "the third is down", is_down(&urls[2])).await;
    must(engines[0].kill().await);
    status_when(&client, &gateway, "the killed one is down", is_down(&urls[0])).await;
    engines[1].stop();
    status_when(&client, &gateway, "the suspended one is down", is_down(&urls[1])).await;
    engines[1].go_on();
    status_when(&client, &gateway, "it is back", up(1)).await;
    let read: Intervals = must(client.json(&format!("{}/admin/intervals", gateway.admin)).await);
    assert_eq!(said(&read, &urls[0]), ["unproven added", "up answered", "down refused"]);
    let suspended = ["unproven added", "up answered", "down timeout", "up answered"];
    assert_eq!(said(&read, &urls[1]), suspended);
    assert_eq!(said(&read, &urls[2]), ["unproven added", "down refused"]);
    let text = printed(&gateway, &[]);
    let shown = |url: &str, cause: &str| {
        text.lines().any(|line| line.starts_with(url) && line.contains(cause))
    };
    assert!(shown(&urls[0], "refused") && shown(&urls[1], "timeout"), "{text}");
    assert!(text.lines().filter(|line| line.ends_with(" so far")).count() == 3, "{text}");
    let again: Intervals = serde_json::from_str(&printed(&gateway, &["--json"])).expect("is JSON");
    assert_eq!(said(&again, &urls[1]), suspended);
}
