//! Every key of the gateway's file changes while a stream runs: those that reload take effect, the
//! others wait for a restart and are named.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use meridian_config::{Gateway as Config, keys};
use meridian_gateway::Given;
use meridian_protocol::admin::Status;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::common::{
    Fleet, Open, Region, Replica, Script, call, chat, eventually, get, open, stream_chat,
};

/// A changed value for each key that reloads.
fn reloading(folder: &str) -> Vec<(&'static str, Value)> {
    let file = |name: &str| format!("{folder}/{name}");
    vec![
        ("access_log.to", json!(file("access.log"))),
        ("access_log.format", json!("logfmt")),
        ("access_log.rotate.size", json!("2MiB")),
        ("access_log.rotate.keep", json!(9)),
        ("admin_access.hosts", json!(["gateway.example.org"])),
        ("admission", json!("saturation")),
        ("attempts", json!(2)),
        ("breaker.failures", json!(7)),
        ("breaker.open", json!("2s")),
        ("breaker.open_max", json!("1m")),
        ("breaker.share", json!(0.7)),
        ("breaker.window", json!("20s")),
        ("cors.origins", json!(["https://app.example.org"])),
        ("cors.max_age", json!("20m")),
        ("credentials", json!({"lab": {"engine_key": "a-key-of-the-lab"}})),
        ("discovery", json!([{"file": file("replicas.yaml")}])),
        ("engine_fields", json!("strict")),
        ("engine_key", json!("a-key-of-all-engines")),
        ("explain_keep", json!(7)),
        ("held.max", json!(17)),
        ("held.max_per_tenant", json!(5)),
        ("held.after_last_replica", json!("5m")),
        ("held.max_wait", json!("20s")),
        ("held.look_ahead", json!(9)),
        ("held.patience", json!("5s")),
        ("held.promise", json!("6s")),
        ("isolation", json!("tenant")),
        ("journal.to", json!(file("journal.jsonl"))),
        ("journal.rotate.size", json!("2MiB")),
        ("journal.rotate.keep", json!(9)),
        ("journal.block_tokens", json!(64)),
        ("keys.headers", json!(["x-other"])),
        ("keys.tenant_header", json!("x-other-tenant")),
        ("kv_lease", json!("1m")),
        ("limits.body", json!("1MiB")),
        ("limits.headers", json!("32KiB")),
        ("limits.connections", json!(80)),
        ("limits.requests", json!(90)),
        ("limits.bodies", json!("2GiB")),
        ("limits.replicas", json!(500)),
        ("models", json!({"gpt-4o": {"alias": "m"}})),
        ("ms_per_token", json!(0.2)),
        (
            "oidc",
            json!([{"issuer": "http://127.0.0.1:9", "audience": ["meridian"], "unknown_tenants": "allow"}]),
        ),
        ("paths", json!(["/generate"])),
        ("peers.accept", json!(["eu/*"])),
        ("peers.stale", json!("3s")),
        ("peers.tau", json!(9)),
        ("peers.tau_own", json!(false)),
        ("policy", json!({"name": "chwbl", "load_factor": 1.5})),
        ("probe.busy", json!("150ms")),
        ("probe.idle", json!("2s")),
        ("probe.down_after", json!(4)),
        ("probe.stale", json!("5s")),
        ("replicas", Value::Null), // A second one; made below.
        ("tenants", json!([{"name": "acme", "keys": [KEY]}])),
        ("residency.labels", json!({"us": {"zone": "a"}})),
        ("residency.rules", json!([{"name": "here", "tenants": ["acme"], "run_in": ["us"]}])),
        ("resume.text", json!("64KiB")),
        ("shadow", json!("p2c")),
        ("stream_keep_alive", json!("20s")),
        ("tell_clients", json!("all")),
        ("timeouts.connect", json!("2s")),
        ("timeouts.first_byte", json!("11m")),
        ("timeouts.idle", json!("3m")),
        ("timeouts.down", json!("4s")),
        ("timeouts.client", json!("31s")),
        ("timeouts.drain", json!("32s")),
        ("timeouts.probe", json!("3s")),
        ("topology", json!("region_local")),
        ("traces.endpoint", json!("http://127.0.0.1:4319")),
        ("traces.protocol", json!("http")),
        ("traces.sample", json!(0.5)),
        ("traces.service_name", json!("other")),
    ]
}

/// Of those, keys that need another world: the test that changes each.
const ELSEWHERE: [(&str, &str); 3] = [
    ("admin_access.tokens", "admin_access"),
    ("tls.certificate", "client_tls::other_files"),
    ("tls.key", "client_tls::other_files"),
];

/// A changed value for each key that needs a restart and that this world has.
fn waiting() -> [(&'static str, Value); 10] {
    [
        ("region", json!("eu")),
        ("listen", json!("127.0.0.1:9")),
        ("admin", json!("127.0.0.1:10")),
        ("secret", json!("another secret of a test")),
        ("threads", json!(7)),
        ("control", json!({"url": "http://127.0.0.1:9"})),
        ("tls", json!({"certificate": "a.crt", "key": "a.key"})),
        ("peers.listen", json!("127.0.0.1:11")),
        ("peers.push", json!("30ms")),
        ("peers.ca", json!("/another/ca.crt")),
    ]
}

/// SHA-256 of "abc".
const KEY: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

struct World {
    folder: PathBuf,
    /// The file, as JSON, which is YAML.
    file: Value,
    region: Region,
    reload: Arc<Notify>,
    stream: Open,
    replicas: [Replica; 2],
    _fleet: Fleet,
}

impl World {
    async fn new(name: &'static str, events: usize) -> World {
        let replicas = [Replica::start().await, Replica::start().await];
        let fleet = Fleet::new(name);
        let folder = std::env::temp_dir().join(format!("meridian-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("replicas.yaml"), "[]").unwrap();
        let config = fleet.gateway("us", 8082, &[&replicas[0]]);
        let mut file = serde_json::to_value(&config).unwrap();
        if let Some(secret) = &config.secret {
            file["secret"] = json!(secret.expose());
        }
        let path = folder.join("gateway.yaml");
        std::fs::write(&path, file.to_string()).unwrap();
        let given = Given { file: Some(path), ..config.into() };
        let reload = given.reload.clone();
        let region = Region::start(given).await;
        region.until("the replica is up", |s| s.replicas.iter().all(|r| r.state == "up")).await;
        let events: Vec<String> = (0..events).map(|n| format!("data: <{n}>\n\n")).collect();
        let mut events: Vec<&str> = events.iter().map(String::as_str).collect();
        events.push("data: [DONE]\n\n");
        replicas[0].then(Script::stream(&events, Duration::from_secs(1)));
        let stream = open(region.listen, stream_chat("hi")).await;
        World { folder, file, region, reload, stream, replicas, _fleet: fleet }
    }

    /// Changes a key of the file, and has the file read again.
    async fn change(&mut self, key: &str, value: Value) {
        let mut at = &mut self.file;
        let names: Vec<&str> = key.split('.').collect();
        let (last, sections) = names.split_last().unwrap();
        for name in sections {
            if at[*name].is_null() {
                at[*name] = json!({});
            }
            at = &mut at[*name];
        }
        at[*last] = value;
        self.adopt().await;
    }

    async fn adopt(&self) {
        std::fs::write(self.folder.join("gateway.yaml"), self.file.to_string()).unwrap();
        self.reload.notify_one();
        // Lets the gateway's task run; the next poll is far away.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    async fn in_force(&self, key: &str) -> Value {
        let page = self.region.admin("GET", "/admin/config", "").await.json();
        at(&page, key).clone()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn at<'a>(file: &'a Value, key: &str) -> &'a Value {
    key.split('.').fold(file, |value, name| &value[name])
}

// A running stream gets each of its events, whatever changes; each key that reloads is in force
// afterwards, and each other one waits and is named. All keys of the schema are among them.
#[tokio::test(start_paused = true)]
async fn every_key_changes_under_a_stream() {
    let mut world = World::new("reload-keys", 200).await;
    let folder = world.folder.to_str().unwrap().to_owned();
    let all = reloading(&folder);
    let known =
        |key: &str| all.iter().any(|(k, _)| *k == key) || ELSEWHERE.iter().any(|(k, _)| *k == key);
    for key in keys().iter().filter(|key| key.at_start.is_none() && key.path != "version") {
        assert!(known(&key.path), "{} reloads, and this test has no value for it", key.path);
    }
    let mut seen = 0;
    for (key, value) in all {
        let value = match key {
            "replicas" => {
                serde_json::to_value(world.replicas.each_ref().map(|r| r.spec())).unwrap()
            }
            _ => value,
        };
        world.change(key, value).await;
        let written =
            Config::read(&world.file.to_string()).unwrap_or_else(|e| panic!("{key}: {e}"));
        let written = serde_json::to_value(&written).unwrap();
        let expected = match key {
            // Shown without its secret.
            "engine_key" => &json!("(set)"),
            "credentials" => &json!({"lab": {"engine_key": "(set)"}}),
            _ => at(&written, key),
        };
        assert_eq!(world.in_force(key).await, *expected, "{key}");
        world.stream.read_to(&format!("<{seen}>")).await;
        seen += 1;
    }
    assert_eq!(world.region.status().await.restart_needed, Vec::<String>::new());
    let before = world.file.clone();
    for (key, value) in waiting() {
        let now = world.in_force(key).await;
        world.change(key, value).await;
        assert_eq!(world.in_force(key).await, now, "{key}");
        assert_eq!(world.region.status().await.restart_needed, [key]);
        world.file = before.clone();
        world.stream.read_to(&format!("<{seen}>")).await;
        seen += 1;
    }
    world.adopt().await;
    assert_eq!(world.region.status().await.restart_needed, Vec::<String>::new());
    world.stream.read_to("[DONE]").await;
    takes_effect(&world).await;
}

/// The values of some keys, by their effects.
async fn takes_effect(world: &World) {
    let status = world.region.status().await;
    assert_eq!((status.policy.as_str(), status.admission.as_str()), ("chwbl", "saturation"));
    assert_eq!(status.shadow.map(|shadow| shadow.policy).as_deref(), Some("p2c"));
    world
        .region
        .until("both replicas are up", |s| {
            s.replicas.iter().filter(|r| r.state == "up").count() == 2
        })
        .await;
    let plain = call(world.region.listen, chat("hi")).await;
    assert_eq!((plain.status, plain.code().as_str()), (401, "missing_api_key"));
    let mut request = chat("hi");
    request.headers_mut().insert("authorization", "Bearer abc".parse().unwrap());
    let answer = call(world.region.listen, request).await;
    assert_eq!((answer.status, answer.header("x-meridian-residency")), (200, "here"));
    let key = world
        .replicas
        .each_ref()
        .map(|r| r.seen().last().and_then(|s| s.header("authorization").map(str::to_owned)));
    assert!(key.iter().flatten().any(|key| key == "Bearer a-key-of-all-engines"), "{key:?}");
    let mut large = chat(&"x".repeat(2 << 20));
    large.headers_mut().insert("authorization", "Bearer abc".parse().unwrap());
    assert_eq!(call(world.region.listen, large).await.status, 413);
    // Another thread writes it.
    eventually("the log has both requests", async || {
        let log = std::fs::read_to_string(world.folder.join("access.log")).unwrap();
        (log.contains(" status=401 ") && log.contains(" tenant=acme ")).then_some(())
    })
    .await;
    assert!(world.folder.join("journal.jsonl").exists());
}

// A file that cannot be adopted as a whole changes nothing, whichever part is wrong: neither a log
// that cannot be opened, nor a certificate that is not there, nor a value. The stream goes on.
#[tokio::test(start_paused = true)]
async fn all_or_nothing() {
    let mut world = World::new("reload-whole", 20).await;
    let good = world.file.clone();
    for (n, (key, value)) in [
        ("access_log", json!({"to": "/not/a/folder/log"})),
        ("journal", json!({"to": "/not/a/folder/journal"})),
        ("credentials", json!({"lab": {"ca": "/not/a/file.crt"}})),
        ("attempts", json!(0)),
        ("limits", json!({"connections": 1u64 << 40})),
        ("replicas", json!([])),
    ]
    .into_iter()
    .enumerate()
    {
        world.file["paths"] = json!(["/generate"]);
        world.file["policy"] = json!("random");
        world.change(key, value).await;
        assert_eq!(world.in_force("paths").await, json!([]), "{key}");
        assert_eq!(world.region.status().await.policy, "round_robin", "{key}");
        world.file = good.clone();
        world.stream.read_to(&format!("<{n}>")).await;
    }
    world.change("paths", json!(["/generate"])).await;
    assert_eq!(world.in_force("paths").await, json!(["/generate"]));
}

// A replica that leaves the file finishes its stream before it is removed; one that is added gets
// requests; a source that leaves the file takes its replicas with it.
#[tokio::test(start_paused = true)]
async fn replicas_come_and_go() {
    let mut world = World::new("reload-replicas", 3).await;
    let [first, second] =
        world.replicas.each_ref().map(|r| serde_json::to_value(r.spec()).unwrap());
    world.change("replicas", json!([second])).await;
    let up =
        |url: String| move |s: &Status| s.replicas.iter().any(|r| r.url == url && r.state == "up");
    let urls = world.replicas.each_ref().map(|r| r.url());
    world.region.until("the second is up", up(urls[1].clone())).await;
    let states: Vec<_> =
        world.region.status().await.replicas.into_iter().map(|r| r.state).collect();
    assert_eq!(states, ["draining", "up"]);
    world.stream.read_to("[DONE]").await;
    world.region.until("the first has left", |s| s.replicas.len() == 1).await;
    assert_eq!(call(world.region.listen, chat("hi")).await.status, 200);
    std::fs::write(world.folder.join("replicas.yaml"), json!([first]).to_string()).unwrap();
    let file = format!("{}/replicas.yaml", world.folder.display());
    world.change("discovery", json!([{"file": file}])).await;
    world.region.until("the source is read", up(urls[0].clone())).await;
    assert!(get(world.region.admin, "/metrics").await.text().contains("replicas.yaml"));
    world.change("discovery", json!([])).await;
    world
        .region
        .until("the source has left", |s| s.replicas.len() == 1 && s.discovery.is_empty())
        .await;
    let is_shown = get(world.region.admin, "/metrics").await.text().contains("replicas.yaml");
    assert!(!is_shown, "a source that is gone has metrics");
}

// A replica that moves from a source to the file's own list and back keeps its stream, and serves
// again within a poll. A listed one for which there is no room joins when there is.
#[tokio::test(start_paused = true)]
async fn replicas_move() {
    let mut world = World::new("reload-moves", 30).await;
    let url = world.replicas[0].url();
    let [first, second] =
        world.replicas.each_ref().map(|r| serde_json::to_value(r.spec()).unwrap());
    let file = format!("{}/replicas.yaml", world.folder.display());
    std::fs::write(&file, json!([first]).to_string()).unwrap();
    let source = json!([{"file": file}]);
    // Listed by both; then by the source alone, whose next poll takes it over.
    world.change("discovery", source.clone()).await;
    world.change("replicas", json!([second])).await;
    world.region.until("the source has it", |s| is_up(s, &url)).await;
    // Back in one step.
    world.file["replicas"] = json!([first]);
    world.change("discovery", json!([])).await;
    assert!(is_up(&world.region.status().await, &url));
    world.stream.read_to("<3>").await;
    assert!(is_up(&world.region.status().await, &url));
    // The source has all the room: the list waits until the source and its replica are gone.
    world.file["replicas"] = json!([]);
    world.change("discovery", source).await;
    world.region.until("the source has it again", |s| is_up(s, &url)).await;
    world.file["limits"]["replicas"] = json!(1);
    world.change("replicas", json!([second])).await;
    let waits = |s: &Status| {
        s.discovery.iter().any(|source| (source.name.as_str(), source.left_out) == ("replicas", 1))
    };
    world.region.until("the status says that the list waits", waits).await;
    world.change("discovery", json!([])).await;
    world.stream.read_to("[DONE]").await;
    let other = world.replicas[1].url();
    world.region.until("the other is up", |s| is_up(s, &other)).await;
    assert_eq!(world.region.status().await.replicas.len(), 1);
}

fn is_up(status: &Status, url: &str) -> bool {
    status.replicas.iter().any(|r| r.url == url && r.state == "up")
}

/// The hash of a key that no client here has.
const OTHER: &str = "sha256:0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b";

// Defect stuck-reload: a reload that names a pipe or a device is refused and reported, and the next
// one takes effect: a tenant's key that is removed no longer opens.
#[tokio::test(start_paused = true)]
async fn a_pipe_stops_no_later_reload() {
    let mut world = World::new("reload-pipe", 1).await;
    let pipe = world.folder.join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    world
        .change(
            "tenants",
            json!([{"name": "acme", "keys": [KEY]}, {"name": "other", "keys": [OTHER]}]),
        )
        .await;
    let with_key = || {
        let mut request = chat("hi");
        request.headers_mut().insert("authorization", "Bearer abc".parse().unwrap());
        call(world.region.listen, request)
    };
    assert_eq!(with_key().await.status, 200);
    let mut before = world.file.clone();
    for special in [pipe.to_str().unwrap(), "/dev/zero"] {
        let issuer = json!([{"issuer": "https://127.0.0.1:9", "audience": ["meridian"],
            "ca": special, "unknown_tenants": "allow"}]);
        for (key, value) in [("credentials", json!({"lab": {"ca": special}})), ("oidc", issuer)] {
            world.change(key, value).await;
            let problems = world.region.status().await.reload_problems;
            let [problem] = &problems[..] else { panic!("{key}: {problems:?}") };
            assert!(
                problem.contains(special) && problem.contains("not a regular file"),
                "{problem}"
            );
            world.file = before.clone();
        }
    }
    before["discovery"] = json!([{"file": pipe}]);
    before["tenants"] = json!([{"name": "other", "keys": [OTHER]}]);
    world.file = before;
    world.adopt().await;
    let status = world.region.status().await;
    assert_eq!(status.reload_problems, Vec::<String>::new());
    let trouble = status.discovery[0].trouble.clone().unwrap_or_default();
    assert!(trouble.contains("is not a regular file"), "{trouble}");
    let mut request = chat("hi");
    request.headers_mut().insert("authorization", "Bearer abc".parse().unwrap());
    assert_eq!(call(world.region.listen, request).await.status, 401);
}
