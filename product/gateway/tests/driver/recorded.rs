//! The gateway in front of recorded vLLM engines (`product/mock`): each leg that it sends is one that
//! real engines have seen, and each answer is a real engine's.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use meridian_mock::Fleet;
use meridian_protocol::admin::{AddReplica, RoleName};
use meridian_routing::Role;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::common::{Answer, Region, config, eventually, get, post};

const S: Duration = Duration::from_secs(1);

/// A recording: its path, the client's body, and the decode engine's answer.
struct Recording {
    path: String,
    body: Value,
    answer: Value,
}

impl Recording {
    fn of(name: &str) -> Recording {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let read = |path: &str| -> Value {
            serde_json::from_str(&std::fs::read_to_string(crates.join(path)).unwrap()).unwrap()
        };
        let file = read(&format!("protocol/src/legs/tests/recorded/{name}.json"));
        let mut answers = read("mock/recordings/answers.json");
        let rest = answers.as_array_mut().unwrap().iter_mut().find(|one| one["name"] == name);
        let rest = rest.unwrap();
        let request = file.get("decode_request").unwrap_or(&rest["decode_request"]);
        let mut body = request["body"].clone();
        body.as_object_mut().unwrap().remove("kv_transfer_params");
        let path = request["path"].as_str().unwrap().to_owned();
        Recording { path, body, answer: rest["decode"].take() }
    }

    async fn ask(&self, region: &Region) -> Answer {
        post(region.listen, &self.path, &self.body.to_string()).await
    }

    /// Status and body of an answer are the recorded ones.
    fn is_answered(&self, answer: &Answer) {
        assert_eq!(answer.status, self.answer["status"], "{}", answer.text());
        assert_eq!(answer.text(), self.answer["body"]);
    }
}

/// A gateway in front of a pair, whose decode engine it reaches at this address.
async fn region(fleet: &Fleet, decode: SocketAddr) -> Region {
    let mut config = config(&[]);
    let urls = [fleet.prefill[0].url(), format!("http://{decode}")];
    config.replicas = urls.into_iter().map(AddReplica::at).collect();
    config.replicas[0].role = RoleName(Role::Prefill);
    config.replicas[1].role = RoleName(Role::Decode);
    let region = Region::start(config).await;
    let ready = |s: &meridian_protocol::admin::Status| {
        s.replicas.iter().all(|r| r.state == "up" && r.version.is_some())
    };
    region.until("both are up", ready).await;
    region
}

/// An address that passes requests for tokens on after a while, as an engine's queue does.
async fn slow(to: SocketAddr, time: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(pass_on(client, to, time));
        }
    });
    addr
}

async fn pass_on(client: TcpStream, to: SocketAddr, time: Duration) -> std::io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_engine, mut to_engine) = TcpStream::connect(to).await?.into_split();
    let answers =
        tokio::spawn(async move { tokio::io::copy(&mut from_engine, &mut to_client).await });
    let mut buffer = vec![0; 1 << 16];
    loop {
        let n = from_client.read(&mut buffer).await?;
        if n == 0 {
            break;
        }
        if buffer.starts_with(b"POST") {
            tokio::time::sleep(time).await;
        }
        to_engine.write_all(&buffer[..n]).await?;
    }
    drop(to_engine);
    let _ = answers.await;
    Ok(())
}

// Every recording: all four endpoints, one of them streamed. Batches and several answers go whole.
#[tokio::test(start_paused = true)]
async fn each_leg_was_recorded() {
    let fleet = Fleet::pair().await.unwrap();
    let region = region(&fleet, fleet.decode[0].addr()).await;
    let names = [
        "completions",
        "completions-again",
        "chat-stream",
        "chat-logprobs",
        "responses",
        "messages",
    ];
    for name in names {
        let recording = Recording::of(name);
        let answer = recording.ask(&region).await;
        recording.is_answered(&answer);
        assert_eq!(answer.header("x-meridian-prefill-replica"), "r0", "{name}");
    }
    for name in ["completions-batch", "completions-n2"] {
        let recording = Recording::of(name);
        let answer = recording.ask(&region).await;
        recording.is_answered(&answer);
        assert_eq!(answer.header("x-meridian-prefill-replica"), "", "{name}");
    }
    region.settled().await;
    let (p, d) = (fleet.prefill[0].counts(), fleet.decode[0].counts());
    assert_eq!((p.prefills, d.decodes, d.alone), (6, 6, 2));
    assert_eq!((p.held_blocks, p.expired, p.late, d.failed_transfers), (0, 0, 0, 0));
    assert_eq!(fleet.uncovered(), [""; 0]);
}

// The usage that the gateway asks for in a stream is that of the recorded legs.
#[tokio::test(start_paused = true)]
async fn a_stream_without_usage() {
    let fleet = Fleet::pair().await.unwrap();
    let region = region(&fleet, fleet.decode[0].addr()).await;
    let mut recording = Recording::of("chat-stream");
    recording.body.as_object_mut().unwrap().remove("stream_options");
    let answer = recording.ask(&region).await;
    assert_eq!((answer.status, answer.text().contains("\"usage\":{")), (200, false));
    assert_eq!(fleet.decode[0].counts().decodes, 1);
    assert_eq!(fleet.uncovered(), [""; 0]);
}

// The bodies that end a decode engine, from a client: the fields are removed, in requests of two legs
// and in whole ones, and both engines live.
#[tokio::test(start_paused = true)]
async fn fatal_bodies_from_clients() {
    let fleet = Fleet::pair().await.unwrap();
    let region = region(&fleet, fleet.decode[0].addr()).await;
    for fatal in [
        json!({"do_remote_prefill": true, "do_remote_decode": false}),
        json!({
            "do_remote_prefill": true, "do_remote_decode": false, "remote_block_ids": [[1]],
            "remote_engine_id": "e", "remote_host": "127.0.0.1", "remote_port": 15600,
        }),
    ] {
        for name in ["completions", "chat-stream", "responses", "messages", "completions-n2"] {
            let mut recording = Recording::of(name);
            recording.body["kv_transfer_params"] = fatal.clone();
            recording.body["bootstrap_room"] = 7.into();
            recording.body["data_parallel_rank"] = 1.into();
            assert_eq!(recording.ask(&region).await.status, 200, "{name}");
        }
    }
    for engine in fleet.prefill.iter().chain(&fleet.decode) {
        assert_eq!(engine.death(), None);
    }
    assert_eq!((fleet.prefill[0].counts().held_blocks, fleet.decode[0].counts().decodes), (0, 8));
    assert_eq!(fleet.uncovered(), [""; 0]);
}

// Without the prefill engine the decode engine answers alone.
#[tokio::test(start_paused = true)]
async fn a_killed_prefill_engine() {
    let fleet = Fleet::pair().await.unwrap();
    let region = region(&fleet, fleet.decode[0].addr()).await;
    fleet.prefill[0].kill().await;
    for name in ["completions", "chat-stream"] {
        let recording = Recording::of(name);
        recording.is_answered(&recording.ask(&region).await);
    }
    assert_eq!((fleet.decode[0].counts().alone, fleet.decode[0].counts().decodes), (2, 0));
    assert_eq!(fleet.uncovered(), [""; 0]);
}

// KV that does not arrive, as its engine died after its answer: the decode engine fails the request
// after its handshake timeout, and gets it once more, without parameters.
#[tokio::test(start_paused = true)]
async fn a_load_that_fails() {
    let fleet = Fleet::pair().await.unwrap();
    let region = region(&fleet, slow(fleet.decode[0].addr(), 2 * S).await).await;
    let recording = Recording::of("completions");
    let killed = async {
        let prefilled = async || (fleet.prefill[0].counts().prefills == 1).then_some(());
        eventually("the prefill ended", prefilled).await;
        tokio::time::sleep(S).await;
        fleet.prefill[0].kill().await;
    };
    let (answer, ()) = tokio::join!(recording.ask(&region), killed);
    recording.is_answered(&answer);
    let d = fleet.decode[0].counts();
    assert_eq!((d.failed_transfers, d.failures, d.alone, d.decodes), (1, 1, 1, 0));
    assert_eq!(region.settled().await.requests.done, 1);
    assert_eq!(fleet.uncovered(), [""; 0]);
}

// A decode engine that comes to the request after the lease reads what is there and answers 200. The
// prefill engine's counts show it, and the gateway raises both alarms.
#[tokio::test(start_paused = true)]
async fn an_expired_lease() {
    let fleet = Fleet::pair().await.unwrap();
    let region = region(&fleet, slow(fleet.decode[0].addr(), 40 * S).await).await;
    let recording = Recording::of("completions");
    recording.is_answered(&recording.ask(&region).await);
    let p = fleet.prefill[0].counts();
    assert_eq!((p.prefills, p.expired, p.late), (1, 1, 1));
    for kind in ["expired", "late"] {
        let line = format!("meridian_kv_alarms_total{{kind=\"{kind}\"}} 1");
        let raised = async || {
            let page = get(region.admin, "/metrics").await;
            page.text().contains(&line).then_some(())
        };
        eventually(&line, raised).await;
    }
    assert_eq!(fleet.uncovered(), [""; 0]);
}
