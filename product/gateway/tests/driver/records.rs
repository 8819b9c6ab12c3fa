//! The access log and the journal: each request is recorded once, whichever way it ends.

use std::path::PathBuf;
use std::time::Duration;

use meridian_config::{AccessLog, AdmissionMode, Gateway as Config, Journal, LogFormat, Resume};
use meridian_gateway::Given;
use meridian_protocol::admin::Requests;
use serde_json::Value;

use crate::common::{
    Region, Replica, Script, call, chat, config, eventually, get, open, post, request, stream_chat,
};
use crate::forwards::{World, occupy};
use crate::tenants::{bearing, tenant};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const ANSWER: &str = r#"{"id":"c","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}}"#;
pub(crate) const WORD: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"w\"}}]}\n\n";
pub(crate) const USAGE: &str =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":2}}\n\n";
pub(crate) const DONE: &str = "data: [DONE]\n\n";

/// The files of one gateway, in a folder that is removed at the end of its test.
pub(crate) struct Files(PathBuf);

impl Files {
    pub(crate) fn new(name: &str) -> Files {
        let folder =
            std::env::temp_dir().join(format!("meridian-records-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Files(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn set(&self, config: &mut Config) {
        let format = LogFormat::Json;
        config.access_log = Some(AccessLog { to: self.path("access.log"), format, rotate: None });
        config.journal =
            Some(Journal { to: self.path("journal.jsonl"), rotate: None, block_tokens: 512 });
        config.probe.down_after = 1_000_000;
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn lines(&self, name: &str) -> Vec<Value> {
        self.text(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn log(&self) -> Vec<Value> {
        self.lines("access.log")
    }

    /// The journal without its header.
    pub(crate) fn journal(&self) -> Vec<Value> {
        let mut lines = self.lines("journal.jsonl");
        assert_eq!(lines[0], serde_json::json!({"meridian_journal": 1, "block_tokens": 512}));
        lines.remove(0);
        lines
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The counts of a gateway whose requests have all ended, after it has stopped.
pub(crate) async fn stopped(mut region: Region) -> Requests {
    let requests = region.settled().await.requests;
    region.shut_down();
    region.served.await.unwrap().unwrap();
    requests
}

/// Fields of a line, as text; absent ones are empty.
fn fields(line: &Value, names: &[&str]) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    names.iter().map(|name| line.get(name).map_or_else(String::new, text)).collect()
}

fn outcomes(lines: &[Value]) -> Requests {
    let count = |word: &str| lines.iter().filter(|line| line["outcome"] == word).count() as u64;
    Requests {
        accepted: lines.len() as u64,
        done: count("done"),
        client_error: count("client_error"),
        rejected: count("rejected"),
        failed: count("failed"),
        cancelled: count("cancelled"),
        ..Requests::default()
    }
}

// An answer as a whole and one as a stream, with all that is known of them. The journal has the
// same requests, and both have the counts of the status page.
#[tokio::test(start_paused = true)]
async fn answers() {
    let files = Files::new("answers");
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| files.set(c)).await;
    replica.then(Script::json(200, ANSWER));
    let mut whole = chat("hi");
    whole.headers_mut().insert("x-request-id", "mine".parse().unwrap());
    whole.headers_mut().insert("x-tenant-id", "acme".parse().unwrap());
    assert_eq!(call(region.listen, whole).await.status, 200);
    replica.then(Script::stream(&[WORD, WORD, USAGE, DONE], MS));
    assert_eq!(call(region.listen, stream_chat("hi")).await.status, 200);
    let counts = stopped(region).await;
    let (log, journal) = (files.log(), files.journal());
    let names = [
        "id", "tenant", "model", "endpoint", "stream", "priority", "status", "outcome", "reason",
        "replica", "region", "hops", "retries", "resumes",
    ];
    assert_eq!(
        fields(&log[0], &names),
        [
            "mine",
            "acme",
            "m",
            "chat_completions",
            "false",
            "normal",
            "200",
            "done",
            "turn",
            "r0",
            "local",
            "0",
            "0",
            "0"
        ]
    );
    assert_eq!(
        fields(&log[0], &["matched", "prompt_tokens", "completion_tokens", "cached_tokens"]),
        ["0", "12", "3", "8"]
    );
    assert!(log[0]["e2e_ms"].is_number() && log[0].get("ttft_ms").is_none(), "{}", log[0]);
    assert!(log[1]["id"].as_str().is_some_and(|id| id.starts_with("req-")), "{}", log[1]);
    assert!(log[1]["ttft_ms"].is_number() && log[1]["tpot_ms"].is_number(), "{}", log[1]);
    assert!(log[1]["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{}", log[1]);
    assert_eq!((log.len(), outcomes(&log), outcomes(&journal)), (2, counts, counts));
    assert_eq!(
        fields(&journal[0], &["input_length", "output_length", "region", "model", "policy"]),
        ["12", "3", "local", "m", "round_robin"]
    );
    assert!(journal[0]["tenant"].as_str().is_some_and(|hash| hash.len() == 16), "{}", journal[0]);
    assert_eq!((journal[1].get("tenant"), journal[1].get("session")), (None, None));
    assert!(journal[0]["timestamp"].as_f64() > Some(1.6e12), "{}", journal[0]);
}

// Refusals before a request is admitted, the gateway's own answers and a dry run have a line in the
// access log and none in the journal: they are not among the status page's requests either.
#[tokio::test(start_paused = true)]
async fn not_admitted() {
    let files = Files::new("refused");
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| {
        files.set(c);
        c.tenants = vec![tenant("acme", "mk-0123456789abcdefghij")];
        c.tell_clients = Some(meridian_config::TellClients::All);
    })
    .await;
    let with_key = |request| bearing(request, "mk-0123456789abcdefghij");
    let mut dry = with_key(chat("hi"));
    dry.headers_mut().insert("x-meridian-dry-run", "true".parse().unwrap());
    for (request, line) in [
        (chat("hi"), ["401", "client_error", "missing_api_key", "", "chat_completions"]),
        (
            with_key(request("POST", "/v1/completions", "{")),
            ["400", "client_error", "invalid_request", "acme", "completions"],
        ),
        (
            with_key(request("POST", "/v1/messages", r#"{"model":"x","messages":[]}"#)),
            ["404", "client_error", "model_not_found", "acme", "messages"],
        ),
        (
            with_key(request("GET", "/nowhere", "")),
            ["404", "client_error", "unknown_path", "acme", "other"],
        ),
        (with_key(request("GET", "/v1/models", "")), ["200", "done", "", "acme", "models"]),
        (dry, ["200", "done", "", "acme", "chat_completions"]),
    ] {
        call(region.listen, request).await;
        let seen = async || {
            std::thread::sleep(2 * MS);
            let log = files.text("access.log");
            let last = log.lines().last()?;
            let last: Value = serde_json::from_str(last).ok()?;
            let names = ["status", "outcome", "reason", "tenant", "endpoint"];
            (fields(&last, &names) == line).then_some(())
        };
        eventually(&format!("the log has {line:?}"), seen).await;
    }
    assert_eq!(stopped(region).await.accepted, 0);
    assert_eq!((files.log().len(), files.journal().len()), (6, 0));
}

// The machine's refusals, an engine's error for the client, and failures after retries.
#[tokio::test(start_paused = true)]
async fn failures() {
    let files = Files::new("failures");
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::with(&[&a, &b], |c| {
        files.set(c);
        c.held.max_wait = meridian_protocol::units::Span::millis(300);
    })
    .await;
    a.then(Script::json(422, "{}"));
    assert_eq!(call(region.listen, chat("1")).await.status, 422);
    a.always(Script::default().close());
    b.always(Script::json(500, "{}"));
    assert_eq!(call(region.listen, chat("2")).await.status, 502);
    a.always(Script::json(500, "{}"));
    assert_eq!(call(region.listen, chat("3")).await.status, 500);
    a.always(Script::json(503, "{}"));
    b.always(Script::json(503, "{}"));
    let refused = call(region.listen, chat("4")).await;
    let counts = stopped(region).await;
    let (log, journal) = (files.log(), files.journal());
    let of = |n: usize| fields(&log[n], &["status", "outcome", "retries"]);
    assert_eq!(of(0), ["422", "client_error", "0"]);
    assert_eq!((of(1)[0].as_str(), of(1)[1].as_str()), ("502", "failed"));
    assert!(log[1]["retries"].as_u64() >= Some(2), "{}", log[1]);
    assert_eq!(of(2), ["500", "client_error", "2"]);
    assert_eq!(of(3)[0], refused.status.to_string());
    assert_eq!(
        (&log[3]["reason"], &log[3]["outcome"]),
        (&refused.code().into(), &"rejected".into())
    );
    assert_eq!((log.len(), outcomes(&log), outcomes(&journal)), (4, counts, counts));
}

// A client that disconnects in the middle of a stream, and one that does so in the queue, whose
// time there is recorded.
#[tokio::test(start_paused = true)]
async fn clients_that_leave() {
    let files = Files::new("leave");
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| {
        files.set(c);
        c.admission = Some(AdmissionMode::Outstanding(1));
    })
    .await;
    replica.then(Script::sse().event(WORD).event(WORD).hang());
    let mut first = open(region.listen, stream_chat("hi")).await;
    first.read_to("choices").await;
    let listen = region.listen;
    let queued = tokio::spawn(async move { drop(open(listen, chat("hi")).await) });
    region.until("it is queued", |s| s.held == 1).await;
    std::thread::sleep(20 * MS);
    queued.abort();
    region.until("it has left the queue", |s| s.held == 0).await;
    drop(first);
    let counts = stopped(region).await;
    let (log, journal) = (files.log(), files.journal());
    assert_eq!((counts.cancelled, outcomes(&log), outcomes(&journal)), (2, counts, counts));
    assert_eq!(fields(&log[0], &["status", "replica"]), ["", ""]);
    assert!(log[0]["queue_ms"].as_f64() >= Some(20.0), "{}", log[0]);
    assert_eq!(fields(&log[1], &["status", "replica", "queue_ms"]), ["200", "r0", "0.0"]);
    assert!(log[1]["ttft_ms"].is_number(), "{}", log[1]);
    assert!(journal[1]["output_length"].as_u64() >= Some(1), "{}", journal[1]);
}

// A stream that breaks and resumes on another replica has one line, with the replica that finished
// it. One that does not resume has failed, after its status was sent.
#[tokio::test(start_paused = true)]
async fn broken_streams() {
    for (resumes, line) in
        [(true, ["200", "done", "r1", "1"]), (false, ["200", "failed", "r0", "0"])]
    {
        let files = Files::new(&format!("broken-{resumes}"));
        let (a, b) = (Replica::start().await, Replica::start().await);
        let region = Region::with(&[&a, &b], |c| {
            files.set(c);
            c.resume = resumes.then(Resume::default);
        })
        .await;
        a.then(Script::sse().event(WORD).wait(MS).close());
        b.always(Script::stream(&[WORD, USAGE, DONE], MS));
        call(region.listen, stream_chat("hi")).await;
        let counts = stopped(region).await;
        let (log, journal) = (files.log(), files.journal());
        assert_eq!(fields(&log[0], &["status", "outcome", "replica", "resumes"]), line);
        assert_eq!((log.len(), outcomes(&log), outcomes(&journal)), (1, counts, counts));
    }
}

// A forwarded request has a line in the access log of each gateway, and one in the journal of the
// first.
#[tokio::test(start_paused = true)]
async fn forwarded_requests() {
    let files = [Files::new("us"), Files::new("eu")];
    let (here, there) = (Replica::start().await, Replica::start().await);
    let mut world = World::of(&[&[&here], &[&there]]);
    for (config, files) in world.configs.iter_mut().zip(&files) {
        files.set(config);
    }
    let mut regions = world.start().await;
    let busy = occupy(&regions[0], &here).await;
    there.then(Script::json(200, ANSWER));
    assert_eq!(call(regions[0].listen, chat("hi")).await.status, 200);
    drop(busy);
    let eu = stopped(regions.remove(1)).await;
    let us = stopped(regions.remove(0)).await;
    assert_eq!((us.accepted, eu.accepted), (2, 1));
    let (first, second) = (files[0].log(), files[1].log());
    let forwarded = first.iter().find(|line| line["outcome"] == "done").unwrap();
    let names = ["peer", "replica", "region", "hops", "prompt_tokens", "reason"];
    assert_eq!(fields(forwarded, &names), ["eu/eu-1", "r0", "eu", "0", "12", "nearest-peer"]);
    assert_eq!(fields(&second[0], &["replica", "region", "hops"]), ["r0", "eu", "1"]);
    assert_eq!((&second[0]["id"], second.len()), (&forwarded["id"], 1));
    assert_eq!((files[0].journal().len(), files[1].journal().len()), (2, 0));
}

// Nothing that a client writes into a prompt, a model's name, a session or a tenant's key is in
// either file, and nothing of a reply. Sessions are hashes: the same for the same session.
#[tokio::test(start_paused = true)]
async fn nothing_of_a_prompt() {
    const SECRET: &str = "swordfish";
    let files = Files::new("privacy");
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| files.set(c)).await;
    let answer = ANSWER.replace("[]", r#"[{"message":{"content":"swordfish"}}]"#);
    for prompt in [SECRET.to_owned(), format!("{SECRET} ").repeat(2000)] {
        let answer = answer.replace("12", &(prompt.len() / 4).max(1).to_string());
        replica.then(Script::json(200, &answer));
        let mut chat = chat(&prompt);
        chat.headers_mut().insert("x-session-id", SECRET.parse().unwrap());
        chat.headers_mut().insert("authorization", SECRET.parse().unwrap());
        assert_eq!(call(region.listen, chat).await.status, 200);
    }
    replica.then(Script::json(200, &answer));
    let body = r#"{"model":"m","user":"swordfish-2","messages":[{"role":"swordfish","content":"swordfish"}]}"#;
    assert_eq!(post(region.listen, "/v1/chat/completions?swordfish", body).await.status, 200);
    let body = body.replace("\"m\"", "\"swordfish\"");
    assert_eq!(post(region.listen, "/v1/chat/completions", &body).await.status, 404);
    assert_eq!(get(region.listen, "/swordfish").await.status, 404);
    stopped(region).await;
    let (log, journal) = (files.log(), files.journal());
    assert_eq!((log.len(), journal.len()), (5, 3));
    for name in ["access.log", "journal.jsonl"] {
        assert!(!files.text(name).contains(SECRET), "{name}");
    }
    assert_eq!(journal[0]["session"], journal[1]["session"]);
    assert_ne!(journal[0]["session"], journal[2]["session"]);
    assert!(journal[0]["hash_ids"].as_array().is_some_and(Vec::is_empty), "{}", journal[0]);
    assert_eq!(journal[1]["hash_ids"].as_array().map(Vec::len), Some(9), "{}", journal[1]);
}

// The turns of a conversation share the ids of their common beginning.
#[tokio::test(start_paused = true)]
async fn turns_share_ids() {
    let files = Files::new("turns");
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| files.set(c)).await;
    let text: String = (0..2000).map(|n| format!("{n:04} ")).collect();
    for (prompt, tokens) in [(&text[..6000], 1500), (&text[..], 2500), (&text[5..], 2499)] {
        replica.then(Script::json(200, &ANSWER.replace("12", &tokens.to_string())));
        assert_eq!(call(region.listen, chat(prompt)).await.status, 200);
    }
    stopped(region).await;
    let journal = files.journal();
    let ids = |n: usize| journal[n]["hash_ids"].as_array().unwrap().clone();
    assert_eq!((ids(0).len(), ids(1).len(), ids(2).len()), (2, 4, 4));
    assert_eq!(ids(0), ids(1)[..2]);
    assert!(ids(2).iter().all(|id| !ids(1).contains(id)), "another beginning");
}

// With blocks of 16 tokens, a prompt has an id for each, and the line says so.
#[tokio::test(start_paused = true)]
async fn smaller_blocks() {
    let files = Files::new("blocks");
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |config| {
        files.set(config);
        config.journal.as_mut().unwrap().block_tokens = 16;
    })
    .await;
    let text: String = (0..600).map(|n| format!("{n:03} ")).collect();
    for (prompt, tokens) in [(&text[..2400], 600), (&text[..400], 100), (&text[..800], 200)] {
        replica.then(Script::json(200, &ANSWER.replace("12", &tokens.to_string())));
        assert_eq!(call(region.listen, chat(prompt)).await.status, 200);
    }
    stopped(region).await;
    let journal = files.journal();
    let ids = |n: usize| journal[n]["hash_ids"].as_array().unwrap().clone();
    assert!(journal.iter().all(|line| line["block_tokens"] == 16), "{}", journal[0]);
    assert_eq!((ids(0).len(), ids(1).len(), ids(2).len()), (37, 6, 12));
    assert_eq!((&ids(0)[..6], &ids(0)[..12]), (&ids(1)[..], &ids(2)[..]));
}

// After logrotate has renamed a file, a reload opens the new one; no line is lost.
#[tokio::test(start_paused = true)]
async fn reopened_on_reload() {
    let files = Files::new("reload");
    let replica = Replica::start().await;
    let mut config = config(&[&replica]);
    files.set(&mut config);
    let given = Given::from(config);
    let reload = given.reload.clone();
    let region = Region::start(given).await;
    region.until("the replica is up", |s| s.replicas[0].models == ["m"]).await;
    replica.always(Script::json(200, ANSWER));
    assert_eq!(call(region.listen, chat("1")).await.status, 200);
    for name in ["access.log", "journal.jsonl"] {
        std::fs::rename(files.path(name), files.path(&format!("{name}.old"))).unwrap();
    }
    reload.notify_one();
    let reopened = async || {
        std::thread::sleep(2 * MS);
        std::fs::exists(files.path("journal.jsonl")).unwrap().then_some(())
    };
    eventually("the files are there again", reopened).await;
    assert_eq!(call(region.listen, chat("2")).await.status, 200);
    stopped(region).await;
    assert_eq!((files.log().len(), files.journal().len()), (1, 1));
    assert_eq!(files.lines("access.log.old").len(), 1);
    assert_eq!(files.lines("journal.jsonl.old").len(), 2);
}

// A gateway that is killed in the middle of a write leaves half a line. The next one cuts it off,
// and appends to the same file without a second header.
#[tokio::test(start_paused = true)]
async fn after_a_crash() {
    let files = Files::new("crash");
    let whole = "{\"meridian_journal\":1,\"block_tokens\":512}\n{\"timestamp\":1,\"input_length\":1,\"output_length\":1}\n";
    std::fs::write(files.path("journal.jsonl"), format!("{whole}{{\"timest")).unwrap();
    std::fs::write(files.path("access.log"), "{\"time\":\"2026").unwrap();
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| files.set(c)).await;
    assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    stopped(region).await;
    assert!(files.text("journal.jsonl").starts_with(whole));
    assert_eq!((files.journal().len(), files.log().len()), (2, 1));
}

// A request that the end of the drain cuts off has its line too, before the gateway exits.
#[tokio::test(start_paused = true)]
async fn cut_off_by_the_drain() {
    let files = Files::new("drain");
    let replica = Replica::start().await;
    let mut region = Region::with(&[&replica], |c| {
        files.set(c);
        c.timeouts.drain = meridian_protocol::units::Span::millis(500);
    })
    .await;
    replica.then(Script::sse().event(WORD).hang());
    let mut running = open(region.listen, stream_chat("hi")).await;
    running.read_to("choices").await;
    region.shut_down();
    region.served.await.unwrap().unwrap();
    let (log, journal) = (files.log(), files.journal());
    assert_eq!(fields(&log[0], &["status", "outcome"]), ["200", "cancelled"]);
    assert_eq!((log.len(), journal.len()), (1, 1));
}

// A file that can't be opened keeps the gateway from starting, with its field and the remedy.
#[tokio::test(start_paused = true)]
async fn a_missing_folder() {
    let mut config = config(&[]);
    let to = "/nonexistent/access.log".to_owned();
    config.access_log = Some(AccessLog { to, format: LogFormat::Json, rotate: None });
    let served = meridian_gateway::serve(config, 0, |_| {}, std::future::pending()).await;
    let error = served.unwrap_err().to_string();
    let says = "access_log.to: `/nonexistent/access.log`: the folder `/nonexistent` does not exist; make it";
    assert!(error.starts_with(says), "{error}");
}
