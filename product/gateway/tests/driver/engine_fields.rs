//! Private engine fields are removed from client requests: on every path, to replicas and to peers,
//! in the first attempt and when a broken stream resumes on another replica.
//!
//! The bodies are those that crashed a vLLM 0.32 decode engine with `NixlConnector`, recorded on a
//! pair of our own engines (Apache-2.0, as this repository), and SGLang's with a reused room.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use meridian_config::{EngineFields, Gateway as Config, Resume};
use serde_json::Value;

use crate::common::{Region, Replica, Script, call, chat, get, post, request};
use crate::forwards::{World, occupy};

const MS: Duration = Duration::from_millis(1);

/// Bodies that crash an engine, each as members of a body.
const FATAL: [(&str, &str); 8] = [
    (
        "fewer blocks than the prompt needs",
        r#""kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[36]],"remote_engine_id":"1af57ba3-1427-41ee-b815-d6ad3e2bc748","remote_request_id":"cmpl-a4b90529bfd8a7ff-0-b94ac7e7","remote_host":"127.0.0.1","remote_port":15600,"tp_size":1,"remote_num_tokens":383}"#,
    ),
    (
        "a prefill that never was",
        r#""kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false}"#,
    ),
    (
        "no request id",
        r#""kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[1,2,3]],"remote_engine_id":"1af57ba3-1427-41ee-b815-d6ad3e2bc748","remote_host":"127.0.0.1","remote_port":15600}"#,
    ),
    ("null", r#""kv_transfer_params":null"#),
    (
        "not filled in",
        r#""kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}"#,
    ),
    (
        "an engine that is not there",
        r#""kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[1]],"remote_engine_id":"00000000-0000-0000-0000-000000000000","remote_request_id":"cmpl-x","remote_host":"10.0.0.9","remote_port":15600}"#,
    ),
    (
        "a bootstrap room in use",
        r#""bootstrap_host":"10.0.0.9","bootstrap_port":8998,"bootstrap_room":7,"bootstrap_room":7"#,
    ),
    (
        "inside fields merged into the sampling parameters",
        r#""vllm_xargs":{"kv_transfer_params":"x","\u0065c_transfer_params":{}},"disaggregated_params":{"request_type":"generation_only"},"routed_dp_rank":3"#,
    ),
];

/// Every path that has a body, with the members of a request there, including those of a batch.
const PATHS: [(&str, &str); 9] = [
    ("/v1/chat/completions", r#""model":"m","messages":[{"role":"user","content":"hi"}]"#),
    ("/v1/completions", r#""model":"m","prompt":"hi""#),
    ("/v1/completions", r#""model":"m","prompt":["hi","there"],"n":2"#),
    ("/v1/responses", r#""model":"m","input":"hi""#),
    ("/v1/messages", r#""model":"m","max_tokens":1,"messages":[{"role":"user","content":"hi"}]"#),
    ("/v1/embeddings", r#""model":"m","input":["hi","there"]"#),
    ("/generate", r#""text":["a","b"],"sampling_params":{"n":1}"#),
    ("/tokenize", r#""model":"m","prompt":"hi""#),
    ("/inference/v1/generate", r#""token_ids":[1,2],"sampling_params":{"extra_args":null}"#),
];

fn foreign(config: &mut Config) {
    config.paths = ["/generate", "/tokenize", "/inference/v1/generate"].map(str::to_owned).into();
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

async fn counted(region: &Region, field: &str) -> u64 {
    let page = get(region.admin, "/metrics").await;
    let name = format!("meridian_engine_fields_total{{field=\"{field}\"}} ");
    let line = page.text().lines().find_map(|l| l.strip_prefix(&name)).map(str::to_owned);
    line.map_or(0, |n| n.parse().unwrap())
}

// Each of the bodies that crashed an engine, on every path: the replica gets the request as if the
// field were absent, and it is counted under one of a few names.
#[tokio::test(start_paused = true)]
async fn no_fatal_body_reaches_an_engine() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], foreign).await;
    for (path, members) in PATHS {
        for (what, fatal) in FATAL {
            for body in [
                format!("{{{fatal},{members}}}"),
                format!("{{ {members}\n, {fatal} }}"),
                format!("{{{fatal},{members},{fatal}}}"),
            ] {
                let answer = post(region.listen, path, &body).await;
                assert_eq!(answer.status, 200, "{path}, {what}: {}", answer.text());
                let mut got = json(&replica.last().body);
                if let Some(args) = got.as_object_mut().unwrap().remove("vllm_xargs") {
                    assert_eq!(args, serde_json::json!({}), "{path}, {what}");
                }
                assert_eq!(got, json(format!("{{{members}}}").as_bytes()), "{path}, {what}");
                let length = replica.last().body.len().to_string();
                assert_eq!(replica.last().header("content-length"), Some(length.as_str()));
            }
        }
    }
    // Each kind was sent four times to each path, and seven kinds contain the field.
    let each = 4 * PATHS.len() as u64;
    assert_eq!(counted(&region, "kv_transfer_params").await, 7 * each);
    assert_eq!(counted(&region, "bootstrap_*").await, 4 * each);
    assert_eq!(counted(&region, "routed_dp_rank").await, each);
    region.settled().await;
}

// A batch whose root is an array, on an engine's own path.
#[tokio::test(start_paused = true)]
async fn a_batch_that_is_an_array() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], foreign).await;
    let body = r#"[{"text":"a","bootstrap_room":1},{"bootstrap_room":1,"text":"b"}]"#;
    assert_eq!(post(region.listen, "/generate", body).await.status, 200);
    assert_eq!(replica.last().text(), r#"[{"text":"a"},{"text":"b"}]"#);
}

// A body that an engine would read and the gateway cannot is refused on an engine's own path, and
// reaches no replica. A multipart form passes unchanged.
#[tokio::test(start_paused = true)]
async fn an_unread_body_reaches_no_engine() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], foreign).await;
    let text = r#"{"text":"a","kv_transfer_params":{"do_remote_prefill":true}}"#;
    let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let marked = format!("\u{FEFF}{text}").into_bytes();
    let nan = text.replace("true", "NaN").into_bytes();
    let cut = text.as_bytes()[..text.len() - 1].to_vec();
    for kind in ["application/json", "text/plain", "multipart/form-data; boundary=x", ""] {
        for body in [&wide, &nan, &cut] {
            let request = Request::post("/generate").header("host", "gateway");
            let request = match kind {
                "" => request,
                kind => request.header("content-type", kind),
            };
            let request = request.body(Full::new(Bytes::from(body.clone()))).unwrap();
            let answer = call(region.listen, request).await;
            assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"), "{kind}");
            assert!(!answer.text().contains("do_remote"), "{}", answer.text());
        }
    }
    assert_eq!(replica.count(), 0);
    // A byte order mark is no such obstacle: the body is read, and its private fields are removed.
    let json = Request::post("/generate").header("host", "gateway");
    let json = json.header("content-type", "application/json");
    let answer = call(region.listen, json.body(Full::new(Bytes::from(marked))).unwrap()).await;
    assert_eq!(answer.status, 200);
    assert!(!replica.last().text().contains("do_remote"), "{}", replica.last().text());
    let form = "--x\r\ncontent-disposition: form-data; name=\"file\"\r\n\r\n{\r\n--x--\r\n";
    let mut upload = request("POST", "/generate", form);
    upload.headers_mut().insert("content-type", "multipart/form-data; boundary=x".parse().unwrap());
    assert_eq!(call(region.listen, upload).await.status, 200);
    assert_eq!(replica.last().text(), form);
}

/// A chat with headers that routers and engines exchange.
fn with_headers() -> Request<Full<Bytes>> {
    let mut sent = chat("hi");
    for (name, value) in [
        ("X-Prefiller-Host-Port", "10.0.0.9:8000"),
        ("X-Prefiller-Host-Port", "10.0.0.8:8000"),
        ("x-prefiller-url", "http://10.0.0.9"),
        ("x-encoder-hosts-ports", "10.0.0.9:1"),
        ("x-data-parallel-host-port", "10.0.0.9:1"),
        ("x-kv-cache-source-host-port", "10.0.0.9:1"),
        ("x-data-parallel-rank", "1"),
        ("x-worker-instance-id", "1"),
        ("x-prefill-instance-id", "1"),
        ("x-dp-rank", "1"),
        ("x-prefill-dp-rank", "1"),
        ("x-request-id", "___prefill_addr_10.0.0.9:1___decode_addr_10.0.0.8:2_x"),
        ("x-custom", "kept"),
    ] {
        let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
        sent.headers_mut().append(name, value.parse().unwrap());
    }
    sent
}

// Headers by which a router names engines are removed, in any spelling and number. A request id in
// which an older connector reads addresses is replaced by one of the gateway's.
#[tokio::test(start_paused = true)]
async fn headers_that_name_engines_go() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let answer = call(region.listen, with_headers()).await;
    assert!(answer.header("x-request-id").starts_with("req-"));
    let seen = replica.last();
    assert_eq!(seen.header("x-request-id"), Some(answer.header("x-request-id")));
    assert_eq!(seen.header("x-custom"), Some("kept"));
    let named = |(name, _): &&(String, String)| {
        ["prefill", "encoder", "data-parallel", "kv-cache", "instance", "dp-rank"]
            .iter()
            .any(|part| name.contains(part))
    };
    assert_eq!(seen.headers.iter().find(named), None);
    assert_eq!(counted(&region, "x-prefiller-host-port").await, 1);
    assert_eq!(counted(&region, "x-request-id").await, 1);
}

fn strict(config: &mut Config) {
    foreign(config);
    config.engine_fields = EngineFields::Strict;
}

// With `strict`, the refusal names the field, and no replica receives the request. The client's own
// fields pass.
#[tokio::test(start_paused = true)]
async fn strict_refuses_by_name() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], strict).await;
    let body = r#"{"model":"m","prompt":"hi","vllm_xargs":{"bootstrap_new":1}}"#;
    let answer = post(region.listen, "/v1/completions", body).await;
    assert_eq!(answer.status, 400);
    assert_eq!(
        answer.json(),
        serde_json::json!({"error": {
            "message": "the field `bootstrap_*` is for engines only; remove it, or set `engine_fields: strip` in the gateway's configuration, which removes it",
            "type": "invalid_request_error",
            "param": "bootstrap_*",
            "code": "engine_field",
        }})
    );
    for (path, members) in PATHS {
        let body = format!(r#"{{{members},"kv_transfer_params":null}}"#);
        let answer = post(region.listen, path, &body).await;
        assert_eq!(answer.status, 400, "{path}");
        assert!(answer.text().contains("`kv_transfer_params`"), "{path}: {}", answer.text());
        assert_eq!(answer.header("x-meridian-refused"), "engine_field", "{path}");
    }
    let answer = call(region.listen, with_headers()).await;
    assert_eq!(answer.json()["error"]["param"], "x-prefiller-host-port");
    let mut addresses = chat("hi");
    addresses.headers_mut().insert("x-request-id", "___decode_addr_10.0.0.8:2_x".parse().unwrap());
    let answer = call(region.listen, addresses).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "engine_field"));
    assert!(answer.text().contains("`x-request-id` has addresses"), "{}", answer.text());
    assert_eq!(replica.count(), 0);
    assert_eq!(counted(&region, "kv_transfer_params").await, PATHS.len() as u64);
    let own = r#"{"model":"m","messages":[],"metadata":{"bootstrap_room":1},"tools":[{"bootstrap_host":1}]}"#;
    assert_eq!(post(region.listen, "/v1/chat/completions", own).await.status, 200);
    assert_eq!(replica.last().text(), own);
}

// A forwarded request: the region where it entered removes the fields, so a peer that would refuse
// them sees none.
#[tokio::test(start_paused = true)]
async fn none_goes_to_a_peer() {
    let (near, far) = (Replica::start().await, Replica::start().await);
    let mut world = World::of(&[&[&near], &[&far]]);
    world.configs[1].engine_fields = EngineFields::Strict;
    let regions = world.start().await;
    let _busy = occupy(&regions[0], &near).await;
    let (_, fatal) = FATAL[1];
    let members = r#""model":"m","messages":[{"role":"user","content":"hi"}]"#;
    let mut sent = request("POST", "/v1/chat/completions", &format!("{{{fatal},{members}}}"));
    sent.headers_mut().insert("x-prefiller-url", "http://10.0.0.9".parse().unwrap());
    let answer = call(regions[0].listen, sent).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("x-meridian-peer"), "eu/eu-1");
    assert_eq!(far.last().text(), format!("{{{members}}}"));
    assert_eq!(far.last().header("x-prefiller-url"), None);
    assert_eq!(counted(&regions[1], "kv_transfer_params").await, 0);
}

// A stream that breaks is resumed without the fields, before its first token and after.
#[tokio::test(start_paused = true)]
async fn none_comes_back_when_a_stream_goes_on() {
    let event = |delta: &str| {
        format!(
            "data: {{\"id\":\"a\",\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}]}}\n\n"
        )
    };
    let role = event(r#"{"role":"assistant","content":""}"#);
    let word = event(r#"{"content":"Once"}"#);
    let end = "data: [DONE]\n\n";
    for said in [vec![role.as_str()], vec![role.as_str(), word.as_str()]] {
        let (a, b) = (Replica::start().await, Replica::start().await);
        let region = Region::with(&[&a, &b], |c| {
            c.resume = Some(Resume::default());
            c.probe.down_after = 1_000_000;
        })
        .await;
        let script = said.iter().fold(Script::sse(), |script, event| script.event(event));
        a.then(script.event("data: {\"id\":\"ha").wait(MS).close());
        b.always(Script::stream(&[&role, &word, end], MS));
        let (_, fatal) = FATAL[0];
        let body = format!(
            r#"{{"model":"m","stream":true,{fatal},"max_tokens":9,"messages":[{{"role":"user","content":"tell"}}]}}"#
        );
        let answer = post(region.listen, "/v1/chat/completions", &body).await;
        let text = answer.text();
        assert!(text.contains("[DONE]") && !text.contains("error"), "{text}");
        for replica in [&a, &b] {
            assert!(!replica.last().text().contains("kv_transfer_params"), "{said:?}");
        }
        let goes_on = json(&b.last().body).get("continue_final_message").is_some();
        assert_eq!(goes_on, said.len() > 1);
    }
}
