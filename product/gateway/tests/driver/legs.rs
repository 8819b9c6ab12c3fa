//! Requests with two legs, by every protocol: what each replica gets, and what follows when a leg
//! fails. The prefill answers are those of a real vLLM, cut to what is needed.

use std::time::Duration;

use meridian_config::Gateway as Config;
use meridian_protocol::admin::{RoleName, Status, TransferName};
use meridian_routing::Role;
use serde_json::{Value, json};

use crate::common::{
    Answer, Region, Replica, Script, call, chat, eventually, get, open, post, stream_chat,
};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const GOOD: &str = r#"{"id":"good","choices":[],"kv_transfer_params":null}"#;

/// Prefill and decode replicas of one version, behind a gateway that splits whatever it can.
pub(crate) struct Pools {
    pub(crate) prefill: Vec<Replica>,
    pub(crate) decode: Vec<Replica>,
    pub(crate) region: Region,
}

pub(crate) async fn replica() -> Replica {
    let replica = Replica::start().await;
    replica.page("/version", Script::json(200, r#"{"version":"0.32.0"}"#));
    replica.page("/query", Script::json(200, r#"{"0":{"engine_id":"e-1"}}"#));
    replica
}

impl Pools {
    pub(crate) async fn of(prefill: usize, decode: usize) -> Pools {
        Pools::with(prefill, decode, None, |_| {}).await
    }

    pub(crate) async fn by(transfer: &str) -> Pools {
        Pools::with(1, 1, Some(transfer.parse().unwrap()), |_| {}).await
    }

    pub(crate) async fn with(
        prefill: usize,
        decode: usize,
        transfer: Option<TransferName>,
        change: impl FnOnce(&mut Config),
    ) -> Pools {
        let mut pools = [Vec::new(), Vec::new()];
        for (pool, n) in pools.iter_mut().zip([prefill, decode]) {
            for _ in 0..n {
                pool.push(replica().await);
            }
        }
        let [p, d] = pools;
        for p in &p {
            p.always(prefilled(&params("r")));
        }
        for d in &d {
            d.always(Script::json(200, GOOD));
        }
        let all: Vec<&Replica> = p.iter().chain(&d).collect();
        let region = Region::with(&all, |config| {
            config.probe.down_after = 1_000_000;
            for (at, replica) in config.replicas.iter_mut().enumerate() {
                let role = if at < prefill { Role::Prefill } else { Role::Decode };
                (replica.role, replica.transfer) = (RoleName(role), transfer);
                if role == Role::Prefill && transfer.is_some_and(|t| t.0.names_engine) {
                    replica.bootstrap = Some(p[at].addr.to_string());
                }
            }
            change(config);
        })
        .await;
        Pools { prefill: p, decode: d, region }
    }

    pub(crate) async fn ask(&self) -> Answer {
        call(self.region.listen, chat("hi")).await
    }

    pub(crate) async fn metrics(&self) -> String {
        get(self.region.admin, "/metrics").await.text().to_owned()
    }

    pub(crate) async fn metric(&self, line: &str) {
        let page = self.metrics().await;
        assert!(page.contains(line), "{line} in {page}");
    }

    /// Nothing is left at any replica.
    pub(crate) async fn settled(&self) -> Status {
        self.region.settled().await
    }
}

pub(crate) fn params(request: &str) -> Value {
    json!({
        "do_remote_prefill": true, "do_remote_decode": false, "remote_block_ids": [[1, 2]],
        "remote_engine_id": "1af57ba3", "remote_request_id": request, "remote_host": "127.0.0.1",
        "remote_port": 15600, "tp_size": 1, "remote_num_tokens": 20,
    })
}

/// A prefill's answer with these parameters.
pub(crate) fn prefilled(params: &Value) -> Script {
    let body = json!({
        "choices": [{"index": 0, "finish_reason": "length", "message": {"content": "x"}}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 1, "total_tokens": 21},
        "kv_transfer_params": params,
    });
    Script::json(200, &body.to_string())
}

pub(crate) fn body(replica: &Replica) -> Value {
    serde_json::from_slice(&replica.last().body).unwrap()
}

// Each leg has the rest of the client's TTFT objective when it is sent: in the params, which
// connectors read, and in the client's own header, which engines read. A request without an objective
// has neither.
#[tokio::test(start_paused = true)]
async fn the_rest_of_the_objective_travels_with_each_leg() {
    let pools = Pools::of(1, 1).await;
    let mut slow = Script::default().wait(300 * MS);
    slow.0.extend(prefilled(&params("r")).0);
    pools.prefill[0].then(slow);
    let mut request = chat("hi");
    request.headers_mut().insert("x-slo-ttft-ms", "900".parse().unwrap());
    assert_eq!(call(pools.region.listen, request).await.status, 200);
    let left = |replica: &Replica| {
        let said = replica.last();
        let header = said.headers.iter().find(|(name, _)| name == "x-slo-ttft-ms").unwrap();
        let header: u64 = header.1.parse().unwrap();
        assert_eq!(body(replica)["kv_transfer_params"]["slo_ttft_ms"], header);
        header
    };
    let (first, second) = (left(&pools.prefill[0]), left(&pools.decode[0]));
    assert!((801..=900).contains(&first), "{first}");
    assert!((501..=600).contains(&second), "{second}");

    assert_eq!(pools.ask().await.status, 200);
    for replica in [&pools.prefill[0], &pools.decode[0]] {
        let said = replica.last();
        assert!(said.headers.iter().all(|(name, _)| name != "x-slo-ttft-ms"));
        assert_eq!(body(replica)["kv_transfer_params"].get("slo_ttft_ms"), None);
    }
}

// The prefill leg asks for one token and its blocks; the decode leg has the client's own limits and
// the answer's parameters. The client sees one answer.
#[tokio::test(start_paused = true)]
async fn prefill_then_decode() {
    let pools = Pools::of(1, 1).await;
    for stream in [false, true] {
        let (request, answer) = match stream {
            false => (chat("hi"), Script::json(200, GOOD)),
            true => {
                let events = [
                    "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n",
                    "data: [DONE]\n\n",
                ];
                (stream_chat("hi"), Script::stream(&events, MS))
            }
        };
        pools.decode[0].then(answer);
        // KV has a name of its own, and is used once.
        let kv = if stream { "s" } else { "r" };
        pools.prefill[0].then(prefilled(&params(kv)));
        let answer = call(pools.region.listen, request).await;
        assert_eq!((answer.status, answer.cut), (200, false));
        assert_eq!(answer.header("x-meridian-replica"), "r1");
        let (p, d) = (body(&pools.prefill[0]), body(&pools.decode[0]));
        assert_eq!(p["kv_transfer_params"]["do_remote_decode"], true);
        assert_eq!((&p["max_tokens"], p["stream"].as_bool().unwrap_or(false)), (&json!(1), false));
        assert_eq!(d["kv_transfer_params"], params(kv));
        assert_eq!(
            (&d["max_tokens"], d["stream"].as_bool().unwrap_or(false)),
            (&Value::Null, stream)
        );
        assert_eq!(p["messages"], d["messages"]);
    }
    let status = pools.settled().await;
    assert_eq!(status.requests.done, 2);
    pools.metric("meridian_kv_transfer_seconds_count 2").await;
}

// All four endpoints have a prefill leg.
#[tokio::test(start_paused = true)]
async fn endpoints() {
    let pools = Pools::of(1, 1).await;
    let ends = [
        (
            "/v1/completions",
            r#"{"model":"m","prompt":"hi"}"#,
            r#"{"choices":[{"finish_reason":"length"}],"#,
        ),
        (
            "/v1/chat/completions",
            r#"{"model":"m","messages":[]}"#,
            r#"{"choices":[{"finish_reason":"stop"}],"#,
        ),
        (
            "/v1/responses",
            r#"{"model":"m","input":"hi"}"#,
            r#"{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"#,
        ),
        (
            "/v1/messages",
            r#"{"model":"m","max_tokens":9,"messages":[]}"#,
            r#"{"stop_reason":"max_tokens","#,
        ),
    ];
    for (path, request, head) in ends {
        let answer = format!("{head}\"kv_transfer_params\":{}}}", params(path));
        pools.prefill[0].then(Script::json(200, &answer));
        let answer = post(pools.region.listen, path, request).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(pools.prefill[0].last().target, path);
        assert_eq!(body(&pools.decode[0])["kv_transfer_params"], params(path), "{path}");
    }
}

// Several answers or prompts, and requests that generate nothing, go whole to a decode replica.
#[tokio::test(start_paused = true)]
async fn what_is_never_split() {
    let pools = Pools::of(1, 1).await;
    for (path, request) in [
        ("/v1/completions", r#"{"model":"m","prompt":["a","b"]}"#),
        ("/v1/completions", r#"{"model":"m","prompt":"a","n":2}"#),
        ("/v1/completions", r#"{"model":"m","prompt":"a","echo":true}"#),
        ("/v1/embeddings", r#"{"model":"m","input":"a"}"#),
    ] {
        assert_eq!(post(pools.region.listen, path, request).await.status, 200, "{request}");
        assert_eq!(body(&pools.decode[0]), serde_json::from_str::<Value>(request).unwrap());
    }
    assert_eq!((pools.prefill[0].count(), pools.decode[0].count()), (0, 4));
    pools.metric("meridian_unsplit_total{reason=\"prompts\"} 1").await;
    pools.metric("meridian_unsplit_total{reason=\"answers\"} 1").await;
}

// A failed prefill goes to another prefill replica, and then to the decode replica, whole and
// without parameters.
#[tokio::test(start_paused = true)]
async fn prefill_fails() {
    for (what, script) in [
        ("500", Script::json(500, "{}")),
        ("closed", Script::head(10).wait(MS).close()),
        ("silent", Script::silence()),
        ("garbled", Script::sse().send("no chunk\r\n")),
    ] {
        let pools = Pools::with(2, 1, None, |config| config.attempts = 1).await;
        for p in &pools.prefill {
            p.always(script.clone());
        }
        assert_eq!(pools.ask().await.text(), GOOD, "{what}");
        let died = what == "closed";
        assert_eq!(pools.prefill.iter().map(Replica::count).sum::<usize>(), 2 - usize::from(died));
        assert_eq!(pools.decode[0].count(), 1, "{what}");
        assert!(body(&pools.decode[0]).get("kv_transfer_params").is_none(), "{what}");
        assert_eq!(pools.settled().await.requests.done, 1, "{what}");
    }
    // Refused connections count as well.
    let pools = Pools::of(2, 1).await;
    for p in &pools.prefill {
        p.stop().await;
    }
    assert_eq!(pools.ask().await.text(), GOOD);
    pools.settled().await;
}

// A prefill engine that refuses the request as the client's mistake does not decide: the decode
// replica answers.
#[tokio::test(start_paused = true)]
async fn prefill_refuses() {
    let pools = Pools::of(2, 1).await;
    for p in &pools.prefill {
        p.always(Script::json(400, "{}"));
    }
    pools.decode[0].then(Script::json(400, "{\"error\":\"no tools\"}"));
    let answer = pools.ask().await;
    assert_eq!((answer.status, answer.text()), (400, "{\"error\":\"no tools\"}"));
    assert_eq!(pools.settled().await.requests.client_error, 1);
    // A full one neither: the other takes the prompt.
    for p in &pools.prefill {
        p.always(prefilled(&params("r")));
    }
    pools.prefill[0].then(Script::json(503, "{}"));
    pools.prefill[1].then(Script::json(503, "{}")).then(prefilled(&params("r")));
    assert_eq!(pools.ask().await.text(), GOOD);
    pools.settled().await;
}

// Half of the parameters can end an engine, so the decode replica gets none.
#[tokio::test(start_paused = true)]
async fn odd_parameters_are_not_passed_on() {
    let pools = Pools::of(1, 1).await;
    let without = |name: &str| {
        let mut params = params("r");
        params.as_object_mut().unwrap().remove(name);
        params
    };
    for params in [
        Value::Null,
        json!({"do_remote_prefill": true, "do_remote_decode": false}),
        without("remote_request_id"),
        without("remote_block_ids"),
        without("remote_host"),
    ] {
        pools.prefill[0].then(prefilled(&params));
        assert_eq!(pools.ask().await.text(), GOOD, "{params}");
        assert!(body(&pools.decode[0]).get("kv_transfer_params").is_none(), "{params}");
    }
    pools.metric("meridian_prefill_fallbacks_total{reason=\"absent\"} 1").await;
    pools.settled().await;
}

// A client cannot name KV itself, with or without pools.
#[tokio::test(start_paused = true)]
async fn a_clients_own_parameters() {
    let pools = Pools::of(1, 1).await;
    let own = json!({"model": "m", "prompt": ["a"], "n": 2, "kv_transfer_params": params("own")});
    post(pools.region.listen, "/v1/completions", &own.to_string()).await;
    assert!(body(&pools.decode[0]).get("kv_transfer_params").is_none());
    let own = json!({"model": "m", "messages": [], "kv_transfer_params": params("own")});
    post(pools.region.listen, "/v1/chat/completions", &own.to_string()).await;
    assert_eq!(body(&pools.decode[0])["kv_transfer_params"], params("r"));
}

// A decode replica that fails with the parameters gets the request again without them, or another
// one does; no parameters are used twice.
#[tokio::test(start_paused = true)]
async fn decode_fails() {
    let pools = Pools::of(1, 1).await;
    pools.decode[0].then(Script::json(500, r#"{"error":{"message":"Internal server error"}}"#));
    assert_eq!(pools.ask().await.text(), GOOD);
    let all = pools.decode.iter().flat_map(Replica::seen);
    let with = all.filter(|seen| seen.text().contains("kv_transfer_params")).count();
    assert_eq!((with, pools.prefill[0].count()), (1, 1));
    let status = pools.settled().await;
    assert_eq!(status.requests.done, 1);
    assert!(status.replicas.iter().all(|r| r.failed == 0), "no replica is to blame");
}

// An engine that dies may have died of the request: one more gets it, whole; after two, none.
#[tokio::test(start_paused = true)]
async fn engines_die() {
    let pools = Pools::of(2, 3).await;
    let dies = || Script::default().reset();
    for d in &pools.decode {
        d.always(dies());
    }
    let answer = pools.ask().await;
    assert_eq!(answer.status, 502);
    let seen: Vec<_> = pools.decode.iter().flat_map(Replica::seen).collect();
    let with = seen.iter().filter(|seen| seen.text().contains("kv_transfer_params")).count();
    assert_eq!((seen.len(), with), (2, 1));
    assert_eq!(pools.prefill.iter().map(Replica::count).sum::<usize>(), 1);
    // The prefill engine counts, too.
    for p in &pools.prefill {
        p.always(dies());
    }
    assert_eq!(pools.ask().await.status, 502);
    let seen: usize = pools.prefill.iter().chain(&pools.decode).map(Replica::count).sum();
    assert_eq!(seen, 3 + 2);
    pools.settled().await;
}

// A client that leaves ends the leg that is under way, and the other never starts.
#[tokio::test(start_paused = true)]
async fn the_client_leaves() {
    let pools = Pools::of(1, 1).await;
    let hung = async |replica: &Replica| {
        let before = (replica.count(), replica.hangups());
        let listen = pools.region.listen;
        let client = tokio::spawn(async move {
            let answer = open(listen, chat("hi")).await;
            std::future::pending::<()>().await;
            drop(answer);
        });
        eventually("the leg is there", async || (replica.count() > before.0).then_some(())).await;
        client.abort();
        eventually("it is cancelled", async || (replica.hangups() > before.1).then_some(())).await;
        pools.settled().await
    };
    pools.prefill[0].then(Script::silence());
    let status = hung(&pools.prefill[0]).await;
    assert_eq!((status.requests.cancelled, pools.decode[0].count()), (1, 0));
    pools.decode[0].then(Script::silence());
    let status = hung(&pools.decode[0]).await;
    assert_eq!((status.requests.cancelled, pools.decode[0].count()), (2, 1));
}

// Engines of unequal versions form no pair.
#[tokio::test(start_paused = true)]
async fn unequal_versions() {
    let (p, d) = (replica().await, replica().await);
    p.page("/version", Script::json(200, r#"{"version":"0.31.0"}"#));
    d.always(Script::json(200, GOOD));
    let region = Region::with(&[&p, &d], |config| {
        config.replicas[0].role = RoleName(Role::Prefill);
        config.replicas[1].role = RoleName(Role::Decode);
    })
    .await;
    assert_eq!(call(region.listen, chat("hi")).await.text(), GOOD);
    assert_eq!((p.count(), d.count()), (0, 1));
}

// Both legs at once, with the same bootstrap room; each attempt has its own room.
#[tokio::test(start_paused = true)]
async fn sglang() {
    let pools = Pools::by("sglang").await;
    let mut rooms = Vec::new();
    for _ in 0..2 {
        assert_eq!(pools.ask().await.text(), GOOD);
        let (p, d) = (body(&pools.prefill[0]), body(&pools.decode[0]));
        assert_eq!(p, d);
        assert_eq!(p["bootstrap_host"], "127.0.0.1");
        assert!(p["max_tokens"].is_null() && p["bootstrap_port"] == 8998);
        rooms.push(p["bootstrap_room"].as_u64().unwrap());
    }
    assert_ne!(rooms[0], rooms[1]);
    // A prefill that fails ends the decode leg, which would wait for it; the request goes whole.
    pools.prefill[0].then(Script::json(500, "{}"));
    pools.decode[0].then(Script::silence());
    assert_eq!(pools.ask().await.text(), GOOD);
    assert_eq!(pools.decode[0].hangups(), 1);
    assert!(body(&pools.decode[0]).get("bootstrap_room").is_none());
    // And the other way round.
    let (p, d) = (pools.prefill[0].hangups(), pools.decode[0].count());
    pools.prefill[0].then(Script::silence());
    pools.decode[0].then(Script::json(500, "{}"));
    assert_eq!(pools.ask().await.text(), GOOD);
    eventually("cancelled", async || (pools.prefill[0].hangups() == p + 1).then_some(())).await;
    assert_eq!(pools.decode[0].count(), d + 2);
    pools.settled().await;
}

// The decode leg names the prefill engine, whose id its bootstrap server tells.
#[tokio::test(start_paused = true)]
async fn mooncake() {
    let pools = Pools::by("mooncake").await;
    assert_eq!(pools.ask().await.text(), GOOD);
    let (p, d) = (body(&pools.prefill[0]), body(&pools.decode[0]));
    let (p, d) = (&p["kv_transfer_params"], &d["kv_transfer_params"]);
    assert_eq!(p["transfer_id"], d["transfer_id"]);
    assert_eq!((&d["remote_engine_id"], &d["do_remote_prefill"]), (&json!("e-1"), &json!(true)));
    pools.settled().await;
}

// Two plain requests one after the other, for engines with a shared store.
#[tokio::test(start_paused = true)]
async fn ordered() {
    let pools = Pools::by("ordered").await;
    assert_eq!(pools.ask().await.text(), GOOD);
    assert_eq!(body(&pools.prefill[0])["max_tokens"], 1);
    let d = body(&pools.decode[0]);
    assert!(d.get("max_tokens").is_none() && d.get("kv_transfer_params").is_none());
    pools.settled().await;
}

// A proxy beside the decode engine drives the prefill itself, and learns from a header where.
#[tokio::test(start_paused = true)]
async fn header() {
    let pools = Pools::by("header").await;
    assert_eq!(pools.ask().await.text(), GOOD);
    let to = pools.prefill[0].addr.to_string();
    assert_eq!(pools.decode[0].last().header("x-prefiller-host-port"), Some(&*to));
    assert_eq!(pools.prefill[0].count(), 0);
    pools.settled().await;
}
