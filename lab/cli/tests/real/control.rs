//! A control plane, gateways and engines as processes, and the commands of their operators.

use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{LIMIT, chat, fleet, must, status_when, text, up};
use meridian_fleet::{Client, EngineSpec, Fleet, Gateway, Process};
use meridian_protocol::admin::Status;
use meridian_protocol::registry::Kept;

/// A loopback address that only this test uses, so a restarted process can have the same port.
fn host(part: u8) -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high.max(1), low, part)
}

/// Runs a command; returns whether it succeeded, and its output.
fn meridian(url: &str, args: &[&str]) -> (bool, String) {
    let mut command = Command::new(crate::programs::MERIDIAN);
    let output = command.args(args).args(["--control", url]).output().expect("the binary runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

fn done(url: &str, args: &[&str]) -> String {
    let (well, said) = meridian(url, args);
    assert!(well, "{args:?}: {said}");
    said
}

/// Starts the control plane, with its earlier store if there is one.
async fn control(fleet: &Fleet, part: u8) -> Process {
    let yaml = format!(
        "version: 1\nstore: {}\nadmin: {}:8090\ntarget: 0.5\n",
        fleet.dir().join("control.redb").display(),
        host(part)
    );
    let path = fleet.dir().join("control.yaml");
    std::fs::write(&path, yaml).expect("writes");
    let args = ["control".into(), "-c".into(), path.into_os_string()];
    must(fleet.meridian("control", args, &["admin on "]).await)
}

/// Starts a region's gateway, which gets its replicas from the control plane or from its saved
/// view.
async fn gateway(fleet: &Fleet, url: &str, region: &str) -> Gateway {
    let view = fleet.dir().join(format!("{region}.view"));
    let yaml = format!(
        "version: 1\nregion: {region}\nlisten: 127.0.0.1:0\nadmin: 127.0.0.1:0\n\
         control: {{url: '{url}', name: {region}-1, lease: 2s, view: {}}}\n",
        view.display()
    );
    let path = fleet.dir().join(format!("{region}.yaml"));
    std::fs::write(&path, yaml).expect("writes");
    let args = ["gateway".into(), "-c".into(), path.into_os_string()];
    let process = must(fleet.meridian(region, args, &["listening on ", "admin on "]).await);
    let (url, admin) = (process.said(0).to_owned(), process.said(1).to_owned());
    Gateway { process, url, admin, peers: None }
}

fn word(status: &Status) -> &str {
    &status.control.as_ref().expect("is configured").state
}

/// Sends a request, which must succeed.
async fn served(client: &Client, gateway: &Gateway) {
    let url = format!("{}/v1/chat/completions", gateway.url);
    let body = chat(&text(7, 40), 4, false).replace("meridian-tiny", "llama-3.1-8b");
    let answer = must(client.post(&url, body).await);
    assert_eq!(answer.status, 200, "{}", answer.value());
}

// Operators add replicas by command, and gateways serve them. The control plane is killed: gateways
// continue to serve and report the loss. It restarts from its store with the same replicas. A
// region's gateway is killed: the other one adopts its replica and returns it when that gateway is
// back.
#[tokio::test]
async fn a_fleet_lives_through_kills() {
    let (fleet, client) = (fleet(), Client::new());
    let mut plane = control(&fleet, 11).await;
    let url = plane.said(0).to_owned();
    let mut engines = Vec::new();
    for (name, region) in [("eu-a", "eu"), ("us-a", "us")] {
        let engine = must(fleet.engine(name, &EngineSpec::default()).await);
        let url_of = engine.said(0);
        done(&url, &["replicas", "add", name, "--force", "--region", region, "--url", url_of]);
        engines.push(engine);
    }
    done(&url, &["regions", "set", "us", "--rtt", "eu=92"]);
    let us = gateway(&fleet, &url, "us").await;
    let mut eu = gateway(&fleet, &url, "eu").await;
    for gateway in [&us, &eu] {
        status_when(&client, gateway, "it serves its replica", up(1)).await;
        served(&client, gateway).await;
    }
    let listed = done(&url, &["replicas", "list"]);
    let line = |name: &str| listed.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    assert!(line("eu-a").contains("eu-1") && line("us-a").contains("us-1"), "{listed}");
    let gateways = done(&url, &["gateways", "list"]);
    assert!(gateways.contains("eu-1") && gateways.contains("us-1"), "{gateways}");

    must(plane.kill().await);
    let lost = |s: &Status| word(s) == "lost" && up(1)(s);
    for gateway in [&us, &eu] {
        status_when(&client, gateway, "it serves without the control plane", lost).await;
        served(&client, gateway).await;
    }
    let plane = control(&fleet, 11).await;
    assert_eq!(plane.said(0), url);
    status_when(&client, &us, "us follows again", |s| word(s) == "up").await;
    status_when(&client, &eu, "eu follows again", |s| word(s) == "up").await;
    assert_eq!(done(&url, &["replicas", "list"]).lines().count(), 3);

    must(eu.process.kill().await);
    let adopted = |s: &Status| up(2)(s) && s.control.as_ref().is_some_and(|c| c.adopted == ["eu"]);
    status_when(&client, &us, "us adopts the replica of eu", adopted).await;
    let listed = done(&url, &["replicas", "list"]);
    assert!(listed.contains("us-1 (adopted)"), "{listed}");
    served(&client, &us).await;
    let intervals = done(&url, &["gateways", "intervals"]);
    let has =
        |words: [&str; 3]| intervals.lines().any(|line| line.split_whitespace().take(3).eq(words));
    assert!(has(["eu-1", "up", "found"]) && has(["eu-1", "down", "lease_expired"]), "{intervals}");
    let eu = gateway(&fleet, &url, "eu").await;
    status_when(&client, &eu, "eu serves its own again", up(1)).await;
    let back = |s: &Status| s.replicas.len() == 1;
    status_when(&client, &us, "us has handed it back", back).await;
    served(&client, &eu).await;
    let intervals = done(&url, &["gateways", "intervals"]);
    let last = intervals.lines().rfind(|line| line.starts_with("eu-1"));
    assert!(last.is_some_and(|line| line.contains("registered")), "{intervals}");
    let intervals = done(&url, &["replicas", "intervals"]);
    let mut eu_a = intervals.lines().filter(|line| line.starts_with("eu-a"));
    assert!(eu_a.any(|line| line.contains(" answered ")), "{intervals}");

    done(&url, &["regions", "drain", "eu"]);
    let drains = |s: &Status| s.replicas.iter().all(|one| one.state == "draining");
    status_when(&client, &eu, "eu drains", drains).await;
    assert!(done(&url, &["regions", "list"]).contains("draining"));
}

/// Waits until a region's gateway has saved a view with `replicas` replicas; returns the file's
/// mode.
async fn kept(fleet: &Fleet, region: &str, replicas: usize) -> u32 {
    let file = fleet.dir().join(format!("{region}.view"));
    let start = Instant::now();
    loop {
        let read = std::fs::read(&file).ok().and_then(|bytes| Kept::read(&bytes, region).ok());
        if read.is_some_and(|kept| kept.view.replicas.len() == replicas) {
            return std::fs::metadata(&file).expect("it is there").permissions().mode() & 0o777;
        }
        assert!(start.elapsed() < LIMIT, "no view of {replicas} replicas within {LIMIT:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

// The control plane and a gateway are killed. Only the gateway is restarted: it serves by its saved
// view and reports that. The control plane comes back: the gateway follows it again and saves its
// new view. Then the file is truncated: the gateway reports that, starts, and follows the control
// plane.
#[tokio::test]
async fn a_gateway_starts_without_the_control_plane() {
    let (fleet, client) = (fleet(), Client::new());
    let mut plane = control(&fleet, 14).await;
    let url = plane.said(0).to_owned();
    let engine = must(fleet.engine("eu-a", &EngineSpec::default()).await);
    done(&url, &["regions", "set", "eu"]);
    done(&url, &["replicas", "add", "eu-a", "--region", "eu", "--url", engine.said(0)]);
    let mut eu = gateway(&fleet, &url, "eu").await;
    status_when(&client, &eu, "it serves its replica", up(1)).await;
    assert_eq!(kept(&fleet, "eu", 1).await, 0o600);
    must(plane.kill().await);
    must(eu.process.kill().await);

    let mut eu = gateway(&fleet, &url, "eu").await;
    served(&client, &eu).await;
    let alone = |s: &Status| word(s) == "kept" && up(1)(s);
    let status = status_when(&client, &eu, "it serves by its saved view", alone).await;
    let control_plane = status.control.expect("is configured");
    assert!(control_plane.view_age_s.is_some() && !control_plane.leased, "{control_plane:?}");
    let log = std::fs::read_to_string(eu.process.log()).expect("there is a log");
    assert!(log.contains("starts with its saved view"), "{log}");

    let mut plane = control(&fleet, 14).await;
    let second = must(fleet.engine("eu-b", &EngineSpec::default()).await);
    done(&url, &["replicas", "add", "eu-b", "--region", "eu", "--url", second.said(0)]);
    let follows = |s: &Status| word(s) == "up" && up(2)(s);
    status_when(&client, &eu, "it follows again", follows).await;
    kept(&fleet, "eu", 2).await;
    must(plane.kill().await);
    must(eu.process.kill().await);

    let file = fleet.dir().join("eu.view");
    let whole = std::fs::read(&file).expect("it is there");
    std::fs::write(&file, &whole[..whole.len() / 2]).expect("writes");
    let eu = gateway(&fleet, &url, "eu").await;
    let damaged = |s: &Status| {
        let problems = &s.control.as_ref().expect("is configured").problems;
        word(s) == "unseen" && problems.iter().any(|p| p.contains("incomplete or damaged"))
    };
    status_when(&client, &eu, "it starts and reports the file", damaged).await;
    let _plane = control(&fleet, 14).await;
    status_when(&client, &eu, "it follows again", follows).await;
    served(&client, &eu).await;
}

// Commands that can't be done fail with the reason and the remedy.
#[tokio::test]
async fn commands_say_what_is_wrong() {
    let fleet = fleet();
    let plane = control(&fleet, 12).await;
    let url = plane.said(0);
    done(url, &["regions", "set", "eu"]);
    done(url, &["replicas", "add", "a", "--region", "eu", "--url", "http://10.0.0.1:8000"]);
    done(url, &["policy", "set", "eu", "gorgo", "running_weight=0.25"]);
    let shown = done(url, &["policy", "show"]);
    assert!(shown.contains("gorgo running_weight=0.25"), "{shown}");
    let add = |name, region, url| ["replicas", "add", name, "--region", region, "--url", url];
    let other = "http://10.0.0.2:8000";
    let cases: &[(&[&str], &str)] = &[
        (&add("a", "eu", other), "replica `a` exists already"),
        (&add("B", "eu", other), "is not a name; use 1 to 63"),
        (&add("b", "eu", "10.0.0.2"), "has no scheme; write `http://10.0.0.2`"),
        (&["replicas", "drain", "c"], "there is no replica `c`; list them"),
        (&["regions", "drain", "mars"], "there is no region `mars`; known: eu."),
        (&add("b", "euu", other), "region: there is no region `euu`; did you mean `eu`?"),
        (&["regions", "set", "eu", "--adopters", "us"], "adopters: there is no region `us`"),
        (&["policy", "set", "eux", "gorgo"], "did you mean `eu`?"),
        (&["regions", "set", "eu", "--rtt", "us=far"], "--rtt: `us=far` has no number"),
        (&["policy", "set", "eu", "fastest"], "`fastest` is unknown; use one of"),
        (
            &["policy", "set", "eu", "gorgo", "weight=1"],
            "`gorgo` has no such parameter; use one of",
        ),
    ];
    for (args, part) in cases {
        let (well, said) = meridian(url, args);
        assert!(!well && said.contains(part), "{args:?}: {part:?} is not in {said:?}");
    }
    let closed = format!("http://{}:1", host(13));
    let (well, said) = meridian(&closed, &["replicas", "list"]);
    assert!(!well && said.contains("start `meridian control`, or name another"), "{said}");
    let file = fleet.dir().join("bad.yaml");
    std::fs::write(&file, "version: 1\nstore: a\nadmin: 0.0.0.0:1\n").expect("writes");
    let file = file.to_str().expect("is UTF-8").to_owned();
    let output = Command::new(crate::programs::MERIDIAN).args(["control", "-c", &file]).output();
    let said = String::from_utf8_lossy(&output.expect("runs").stderr).into_owned();
    assert!(said.contains("admin: 0.0.0.0:1"), "{said}");
}

// Operators move a registry by command. Without `--replace` a record that differs stays as it is.
#[tokio::test]
async fn a_registry_is_exported_and_imported() {
    let (one, other) = (fleet(), fleet());
    let (from, to) = (control(&one, 24).await, control(&other, 25).await);
    let (from, to) = (from.said(0).to_owned(), to.said(0).to_owned());
    done(&from, &["regions", "set", "eu", "--rtt", "us=92"]);
    done(&from, &["replicas", "add", "a", "--region", "eu", "--url", "http://10.0.0.1:8000"]);
    let file = one.dir().join("fleet.json").display().to_string();
    done(&from, &["control", "export", "-o", &file]);
    assert!(done(&to, &["control", "import", &file]).contains("2 records added, 0 changed"));
    assert_eq!(done(&to, &["replicas", "list"]), done(&from, &["replicas", "list"]));
    done(&to, &["replicas", "drain", "a"]);
    let (well, said) = meridian(&to, &["control", "import", &file]);
    assert!(!well && said.contains("replace them with --replace"), "{said}");
    assert!(done(&to, &["control", "import", &file, "--replace"]).contains("1 changed"));
    let (well, said) = meridian(&to, &["control", "import", "no-such-file"]);
    assert!(!well && said.contains("no-such-file: cannot be read"), "{said}");
}
