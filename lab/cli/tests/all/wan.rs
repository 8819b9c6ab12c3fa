//! `meridian wan` as a process: it prints its address, relays, follows its admin port, and ends.

use std::time::Duration;

use meridian_fleet::{Client, Error, Fleet, Process};
use meridian_wan::config::{LinkState, State};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A limit for steps that should take milliseconds.
const LIMIT: Duration = Duration::from_secs(60);

/// Three regions, each with a route from both others. All routes have the same target.
const REGIONS: [&str; 3] = ["us", "eu", "asia"];

fn fleet() -> Fleet {
    Fleet::new(crate::programs::MERIDIAN).expect("a directory can be made")
}

async fn start(fleet: &Fleet, yaml: &str) -> meridian_fleet::Result<Process> {
    let config = fleet.dir().join("wan.yaml");
    std::fs::write(&config, yaml).expect("the directory can be written");
    let args = ["wan".as_ref(), "-c".as_ref(), config.as_os_str()];
    fleet.meridian("wan", args, &["admin on "]).await
}

// Three regions in one process: each directed pair has its route, both of its links carry its
// bytes, a link is cut and restored over HTTP, and SIGTERM ends the process with success although
// connections are open.
#[tokio::test]
async fn three_regions_in_one_process() {
    let target = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = target.local_addr().expect("it is bound");
    let pairs = REGIONS.iter().flat_map(|a| REGIONS.iter().map(move |b| (a, b)));
    let pairs: Vec<_> = pairs.filter(|(a, b)| a != b).collect();
    let mut yaml = "version: 1\nroutes:\n".to_owned();
    for (from, to) in &pairs {
        yaml += &format!("  - {{from: {from}, to: {to}, target: '{address}'}}\n");
    }
    let fleet = fleet();
    let mut process = start(&fleet, &yaml).await.expect("it starts");
    let (client, admin) = (Client::new(), process.said(0).to_owned());
    let ask =
        async || -> State { client.json(&format!("{admin}/admin/wan")).await.expect("it answers") };
    let state = ask().await;
    assert_eq!((state.routes.len(), state.links.len()), (6, 6));

    let mut open = Vec::new();
    for route in &state.routes {
        let mut near = TcpStream::connect(route.listen).await.expect("it listens");
        near.write_all(b"hi").await.expect("is open");
        let (mut far, _) = target.accept().await.expect("it dials");
        let mut bytes = [0; 2];
        far.read_exact(&mut bytes).await.expect("it relays");
        open.push((near, far));
    }
    let cut = format!("{admin}/admin/links/us/eu");
    let answer = client.post(&cut, r#"{"state":"cut"}"#).await.expect("it answers");
    assert_eq!(answer.status, 200);
    for link in ask().await.links {
        let is_cut = (link.from.as_str(), link.to.as_str()) == ("us", "eu");
        assert_eq!(link.state, if is_cut { LinkState::Cut } else { LinkState::Up });
        assert_eq!((link.opened, link.open, link.bytes_in, link.bytes_out), (1, 2, 2, 2));
    }
    process.terminate();
    assert!(process.wait(LIMIT).await.expect("it ends").success());
    assert_eq!(open[0].0.read(&mut [0; 1]).await.map_err(|e| e.kind()).ok(), None);
}

// An invalid configuration ends the process before it listens, with all problems in one error.
#[tokio::test]
async fn all_problems_of_a_configuration_are_reported() {
    let yaml = "version: 2\nroutes:\n  - {from: us, to: us}\n";
    let error = start(&fleet(), yaml).await.expect_err("it cannot work");
    assert!(matches!(error, Error::EndedEarly { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("version: 2") && text.contains("routes[0].to: us"), "{text}");
}
