//! The served engine under paused time: the API's forms, prefix hits, cancellation, limits.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod kv;

use common::{Client, chat, events, options, read};
use http_body_util::BodyExt;
use meridian_engined::Service;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const CHAT: &str = "/v1/chat/completions";
const RUNNING: &str = "vllm:num_requests_running";
const WAITING: &str = "vllm:num_requests_waiting";

// A stream has vLLM's form: the role first, then tokens, the reason on the last, usage, [DONE]. Its
// text equals the non-streamed answer to the same prompt.
#[tokio::test(start_paused = true)]
async fn a_stream_says_what_the_plain_answer_says() {
    let service = Service::start(options()).unwrap();
    let mut client = Client::connect(&service).await;
    let messages = [("system", "be brief"), ("user", "tell me of rivers")];
    let plain = chat(&messages, r#","max_tokens":9"#);
    let (status, plain) = client.json(CHAT, &plain).await;
    assert_eq!(status, 200);
    let text = plain["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(text.len(), 36);
    assert_eq!(plain["usage"]["completion_tokens"], 9);
    assert_eq!(
        plain["usage"]["prompt_tokens"],
        "system\nbe brief\nuser\ntell me of rivers\nassistant\n".len() / 4
    );

    let rest = r#","max_tokens":9,"stream":true,"stream_options":{"include_usage":true}"#;
    let response = client.post(CHAT, &chat(&messages, rest)).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
    let (_, stream) = read(response).await;
    let events = events(&stream);
    assert_eq!(events.last(), Some(&"[DONE]"));
    let parsed: Vec<Value> =
        events[..events.len() - 1].iter().map(|e| serde_json::from_str(e).unwrap()).collect();
    assert_eq!(parsed[0]["choices"][0]["delta"]["role"], "assistant");
    let delta = |e: &Value| e["choices"][0]["delta"]["content"].as_str().map(str::to_owned);
    assert_eq!(parsed.iter().filter_map(delta).collect::<String>(), text);
    let (usage, last) = (&parsed[parsed.len() - 1], &parsed[parsed.len() - 2]);
    assert_eq!(last["choices"][0]["finish_reason"], "length");
    assert_eq!(usage["usage"]["completion_tokens"], 9);
    assert_eq!(parsed.len(), 1 + 9 + 1, "the role, one event a token in real time, the usage");
}

// The client waits as long as the model says: prefill, then one step per token.
#[tokio::test(start_paused = true)]
async fn tokens_take_the_model_s_time() {
    let options = options();
    let terms = options.engine.profile.terms;
    let service = Service::start(options).unwrap();
    let mut client = Client::connect(&service).await;
    let body = chat(&[("user", &"x".repeat(4 * 1000))], r#","max_tokens":21,"stream":true"#);
    let start = Instant::now();
    let mut response = client.post(CHAT, &body).await;
    response.body_mut().frame().await.unwrap().unwrap();
    let ttft = start.elapsed().as_secs_f64();
    read(response).await;
    let e2e = start.elapsed().as_secs_f64();
    let mut prefill = meridian_engine::Work::default();
    prefill.prefill(0, 1004);
    let mut decode = meridian_engine::Work::default();
    decode.decode(1015);
    assert!((ttft - terms.seconds(&prefill)).abs() < 0.003, "{ttft}");
    assert!((e2e - ttft - 20.0 * terms.seconds(&decode)).abs() < 0.005, "{e2e}");
}

// A second turn hits the first turn's prompt and reply, except for the block that was not full.
#[tokio::test(start_paused = true)]
async fn a_second_turn_finds_prompt_and_reply() {
    let service = Service::start(options()).unwrap();
    let mut client = Client::connect(&service).await;
    let question = "why is the sky blue? ".repeat(30);
    let first = chat(&[("user", &question)], r#","max_tokens":100"#);
    let (_, first) = client.json(CHAT, &first).await;
    assert_eq!(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    let held = first["usage"]["prompt_tokens"].as_u64().unwrap() + 100 - 1;
    let reply = first["choices"][0]["message"]["content"].as_str().unwrap();
    let turns = [("user", &*question), ("assistant", reply), ("user", "and at night?")];
    let (_, second) = client.json(CHAT, &chat(&turns, r#","max_tokens":1"#)).await;
    assert_eq!(second["usage"]["prompt_tokens_details"]["cached_tokens"], held / 16 * 16);
    assert_eq!(client.metric("vllm:prefix_cache_hits_total").await, (held / 16 * 16) as f64);
    let salted = chat(&turns, r#","max_tokens":1,"cache_salt":"other""#);
    let (_, salted) = client.json(CHAT, &salted).await;
    assert_eq!(salted["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
}

// A client that disconnects, streaming or not, leaves no request running or pending.
#[tokio::test(start_paused = true)]
async fn a_lost_client_is_aborted() {
    let service = Service::start(options()).unwrap();
    let mut watcher = Client::connect(&service).await;
    let mut streaming = Client::connect(&service).await;
    let mut plain = Client::connect(&service).await;
    let body = chat(&[("user", "count to a million")], r#","max_tokens":5000,"stream":true"#);
    let mut response = streaming.post(CHAT, &body).await;
    for _ in 0..3 {
        response.body_mut().frame().await.unwrap().unwrap();
    }
    let task = tokio::spawn(async move {
        plain.post(CHAT, &chat(&[("user", "again")], r#","max_tokens":5000"#)).await;
    });
    sleep(Duration::from_secs(2)).await;
    assert_eq!(watcher.metric(RUNNING).await, 2.0);
    drop(response);
    drop(streaming);
    task.abort();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(watcher.metric(RUNNING).await + watcher.metric(WAITING).await, 0.0);
    assert_eq!(watcher.metric("vllm:kv_cache_usage_perc").await, 0.0);
    let aborted = "vllm:request_success_total{engine=\"0\",finished_reason=\"abort\"";
    assert_eq!(watcher.metric(aborted).await, 2.0);
}

// Requests beyond the batch are waiting on the metrics page, and in the load header on request.
#[tokio::test(start_paused = true)]
async fn pending_requests_show() {
    let mut options = options();
    options.engine.max_num_seqs = 2;
    let service = Service::start(options).unwrap();
    let mut tasks = Vec::new();
    for _ in 0..5 {
        let mut client = Client::connect(&service).await;
        tasks.push(tokio::spawn(async move {
            let body = chat(&[("user", "hello")], r#","max_tokens":50"#);
            client.json(CHAT, &body).await.0
        }));
    }
    sleep(Duration::from_secs(1)).await;
    let mut client = Client::connect(&service).await;
    assert_eq!((client.metric(RUNNING).await, client.metric(WAITING).await), (2.0, 3.0));
    let request = http::Request::get("/v1/models").header("endpoint-load-metrics-format", "TEXT");
    let response = client.send(request.body(Default::default()).unwrap()).await;
    let load = response.headers()["endpoint-load-metrics"].to_str().unwrap().to_owned();
    assert!(load.ends_with("named_metrics.num_requests_waiting=3.0"), "{load}");
    read(response).await;
    for task in tasks {
        assert_eq!(task.await.unwrap(), 200);
    }
    assert_eq!((client.metric(RUNNING).await, client.metric(WAITING).await), (0.0, 0.0));
}

// At a large time scale, tokens due at one instant come as one event, and none is lost.
#[tokio::test(start_paused = true)]
async fn a_fast_model_joins_tokens() {
    let mut options = options();
    options.time_scale = 1000.0;
    let service = Service::start(options).unwrap();
    let mut client = Client::connect(&service).await;
    let body = chat(&[("user", "go")], r#","max_tokens":400,"stream":true"#);
    let (_, stream) = read(client.post(CHAT, &body).await).await;
    let events = events(&stream);
    assert!(events.len() < 100, "{} events for 400 tokens", events.len());
    let text = |e: &&str| {
        let event: Value = serde_json::from_str(e).unwrap();
        event["choices"][0]["delta"]["content"].as_str().unwrap_or_default().len()
    };
    let bytes: usize = events[..events.len() - 1].iter().map(text).sum();
    assert_eq!(bytes, 1600);
}

// Invalid requests are refused in OpenAI's form, and no error repeats the prompt.
#[tokio::test(start_paused = true)]
async fn errors_have_openai_s_form_and_no_prompt() {
    let mut options = options();
    options.max_body = 4000;
    options.engine = options.engine.with_kv_blocks(20);
    let service = Service::start(options).unwrap();
    let mut client = Client::connect(&service).await;
    let long = format!("\"{}\"", "secret ".repeat(500));
    let cases = [
        (CHAT, "{\"messages\":\"secret".to_owned(), 400),
        (CHAT, r#"{"messages":"secret"}"#.to_owned(), 400),
        (CHAT, r#"{"model":"llama-3.1-8b"}"#.to_owned(), 400),
        (
            CHAT,
            r#"{"model":"secret","messages":[{"role":"user","content":"secret"}]}"#.to_owned(),
            404,
        ),
        (CHAT, chat(&[("user", "secret")], r#","n":2"#), 400),
        (CHAT, chat(&[("user", "secret")], r#","max_tokens":0"#), 400),
        ("/v1/completions", format!("{{\"prompt\":{long}}}"), 400),
        ("/v1/completions", r#"{"prompt":["secret","secret"]}"#.to_owned(), 400),
        ("/v1/completions", format!("{{\"prompt\":\"{}\"}}", "secret".repeat(1000)), 413),
        ("/v1/secret", "{}".to_owned(), 404),
    ];
    for (path, body, expected) in cases {
        let (status, answer) = client.json(path, &body).await;
        assert_eq!(status, expected, "{body}");
        assert_eq!(answer["error"]["code"], expected);
        assert!(answer["error"]["type"].is_string());
        assert!(!answer.to_string().contains("secret"), "{answer}");
        // After a body that was too large the server may close the connection.
        client = Client::connect(&service).await;
    }
    assert_eq!(client.get(CHAT).await.0, 405);
    assert_eq!(client.get("/health").await.0, 200);
}

// A full queue answers 503, on which a gateway retries elsewhere.
#[tokio::test(start_paused = true)]
async fn a_full_queue_answers_503() {
    let mut options = options();
    options.engine.max_num_seqs = 1;
    options.engine.max_pending = 1;
    let service = Service::start(options).unwrap();
    let mut statuses = Vec::new();
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let mut client = Client::connect(&service).await;
        tasks.push(tokio::spawn(async move {
            let body = chat(&[("user", "hello")], r#","max_tokens":20"#);
            client.json(CHAT, &body).await.0
        }));
        sleep(Duration::from_millis(300)).await;
    }
    for task in tasks {
        statuses.push(task.await.unwrap());
    }
    assert_eq!(statuses, [200, 200, 503, 503]);
}

// Without a limit a chat ends on its own, at a length determined by prompt and seed.
#[tokio::test(start_paused = true)]
async fn an_uncapped_reply_ends_by_itself() {
    let service = Service::start(options()).unwrap();
    let mut client = Client::connect(&service).await;
    let body = chat(&[("user", "speak")], "");
    let (_, first) = client.json(CHAT, &body).await;
    let (_, second) = client.json(CHAT, &body).await;
    assert_eq!(first["choices"], second["choices"]);
    assert_eq!(first["choices"][0]["finish_reason"], "stop");
    let (_, other) = client.json(CHAT, &chat(&[("user", "speak")], r#","seed":5"#)).await;
    assert_ne!(first["choices"], other["choices"]);
}

// Text completions accept strings and token ids; embeddings and the model list answer.
#[tokio::test(start_paused = true)]
async fn the_other_paths_answer() {
    let service = Service::start(options()).unwrap();
    let mut client = Client::connect(&service).await;
    let (_, text) = client.json("/v1/completions", r#"{"prompt":"abcdefgh"}"#).await;
    assert_eq!(text["usage"]["prompt_tokens"], 2);
    assert_eq!(text["usage"]["completion_tokens"], 16);
    let ids = r#"{"prompt":[1,2,3,4,5],"max_tokens":2}"#;
    let (_, ids) = client.json("/v1/completions", ids).await;
    assert_eq!(ids["usage"]["prompt_tokens"], 5);
    let (_, embedding) = client.json("/v1/embeddings", r#"{"input":"abcd"}"#).await;
    assert_eq!(embedding["data"][0]["embedding"].as_array().unwrap().len(), 4);
    let (_, models) = client.get("/v1/models").await;
    let models: Value = serde_json::from_str(&models).unwrap();
    assert_eq!(models["data"][0]["id"], "llama-3.1-8b");
}

// A partial reply is continued as in vLLM: with the rest of the reply that the prompt alone would
// get, and with the beginning counted as prompt. One that can't be continued is refused with the
// remedy.
#[tokio::test(start_paused = true)]
async fn a_partial_reply_is_continued() {
    let service = Service::start(options()).unwrap();
    let mut client = Client::connect(&service).await;
    let text =
        |answer: &Value| answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let (_, whole) = client.json(CHAT, &chat(&[("user", "tell me")], r#","max_tokens":20"#)).await;
    let whole_text = text(&whole);
    let go_on = r#","max_tokens":15,"continue_final_message":true,"add_generation_prompt":false"#;
    let partial = [("user", "tell me"), ("assistant", &whole_text[..20])];
    let (status, rest) = client.json(CHAT, &chat(&partial, go_on)).await;
    assert_eq!((status, text(&rest)), (200, whole_text[20..].to_owned()));
    let tokens = |answer: &Value, of: &str| answer["usage"][of].as_u64().unwrap();
    assert_eq!(tokens(&rest, "prompt_tokens"), tokens(&whole, "prompt_tokens") + 5);
    let natural = |rest: &Value| tokens(rest, "completion_tokens");
    let (_, to_its_end) = client.json(CHAT, &chat(&[("user", "tell me")], "")).await;
    let free = go_on.replace("\"max_tokens\":15,", "");
    let (_, from_there) = client.json(CHAT, &chat(&partial, &free)).await;
    assert_eq!(natural(&from_there) + 5, natural(&to_its_end));
    let other = [("user", "tell me")];
    for (messages, rest, wanted) in [
        (&partial[..], go_on.replace(",\"add_generation_prompt\":false", ""), "must be false"),
        (&other[..], go_on.to_owned(), "must be an assistant's text"),
    ] {
        let (status, error) = client.json(CHAT, &chat(messages, &rest)).await;
        let message = error["error"]["message"].as_str().unwrap();
        assert!(status == 400 && message.contains(wanted), "{message}");
    }
}

// On request, each event contains the usage so far, which adds up.
#[tokio::test(start_paused = true)]
async fn usage_so_far() {
    let service = Service::start(options()).unwrap();
    let mut client = Client::connect(&service).await;
    let rest = r#","max_tokens":3,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}"#;
    let (_, stream) = read(client.post(CHAT, &chat(&[("user", "hi")], rest)).await).await;
    let parsed = events(&stream).into_iter().filter_map(|e| serde_json::from_str::<Value>(e).ok());
    let counted: Vec<_> = parsed.map(|e| e["usage"]["completion_tokens"].as_u64()).collect();
    assert_eq!(counted, [Some(0), Some(1), Some(2), Some(3), Some(3)]);
}
