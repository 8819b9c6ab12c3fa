//! OpenAI's and Anthropic's API call by call, and the routes of engines: each works, or is refused
//! with what to do instead. The table is the one of notes/defects/keys.md.

use crate::common::{Region, Replica, Script, call, post, request};

/// What happens to a call.
enum Call {
    /// It reaches an engine of its model as it is.
    Passes,
    /// It is refused: 404 with these words.
    Refused(&'static str),
    /// Another method is needed.
    Method(&'static str),
}

use Call::{Method, Passes, Refused};

const OBJECTS: Call = Refused("keeps files or other objects");
const TALKS: Call = Refused("keeps conversations");
const BATCHES: Call = Refused("there are no batches");
const TRAINING: Call = Refused("nothing trains or judges models");
const SOCKETS: Call = Refused("no WebSockets");
const HOSTED: Call = Refused("runs at its provider");
const ENGINE: Call = Refused("administers one engine");
const LISTED: Call = Refused("list it under `paths`");

const CHAT: &str = r#"{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"x"}]}"#;
const PROMPT: &str = r#"{"model":"m","prompt":"x","input":"x"}"#;
const ANY: &str = r#"{"model":"m"}"#;

const TABLE: [(&str, &str, &str, Call); 104] = [
    ("POST", "/v1/chat/completions", CHAT, Passes),
    ("GET", "/v1/chat/completions", "", Method("POST")),
    ("GET", "/v1/chat/completions/c-1", "", Refused("do not store chat completions")),
    ("POST", "/v1/chat/completions/c-1", ANY, Refused("do not store chat completions")),
    ("DELETE", "/v1/chat/completions/c-1", "", Refused("do not store chat completions")),
    ("GET", "/v1/chat/completions/c-1/messages", "", Refused("do not store chat completions")),
    ("POST", "/v1/completions", PROMPT, Passes),
    ("POST", "/v1/embeddings", PROMPT, Passes),
    ("POST", "/v1/responses", PROMPT, Passes),
    ("POST", "/v1/responses/input_tokens", PROMPT, Passes),
    ("POST", "/v1/responses/compact", PROMPT, Passes),
    ("POST", "/v1/chat/completions/input_tokens", CHAT, Passes),
    ("POST", "/v1/chat/completions/render", CHAT, Passes),
    ("POST", "/v1/messages/render", CHAT, Passes),
    ("GET", "/v1/responses/resp_1", "", Passes),
    ("GET", "/v1/responses/resp_1?stream=true", "", Passes),
    ("DELETE", "/v1/responses/resp_1", "", Passes),
    ("POST", "/v1/responses/resp_1/cancel", "", Passes),
    ("GET", "/v1/responses/resp_1/input_items", "", Passes),
    ("POST", "/v1/responses/resp_1", ANY, Method("GET, DELETE")),
    ("GET", "/v1/responses/resp_1/cancel", "", Method("POST")),
    ("GET", "/v1/responses/resp_1/x", "", Refused("of a stored response")),
    ("POST", "/v1/moderations", PROMPT, Passes),
    ("POST", "/v1/audio/speech", PROMPT, Passes),
    ("POST", "/v1/audio/transcriptions", ANY, Passes),
    ("POST", "/v1/audio/translations", ANY, Passes),
    ("GET", "/v1/audio/speech", "", Method("POST")),
    ("POST", "/v1/images/generations", PROMPT, Passes),
    ("POST", "/v1/images/edits", ANY, Passes),
    ("POST", "/v1/images/variations", ANY, Passes),
    ("DELETE", "/v1/models/m", "", Method("GET, HEAD")),
    ("POST", "/v1/files", "", OBJECTS),
    ("GET", "/v1/files/file-1/content", "", OBJECTS),
    ("POST", "/v1/uploads", ANY, OBJECTS),
    ("POST", "/v1/uploads/u/parts", "", OBJECTS),
    ("POST", "/v1/vector_stores", ANY, OBJECTS),
    ("POST", "/v1/vector_stores/v/search", ANY, OBJECTS),
    ("POST", "/v1/containers", ANY, OBJECTS),
    ("POST", "/v1/skills", ANY, OBJECTS),
    ("POST", "/v1/videos", PROMPT, OBJECTS),
    ("GET", "/v1/videos/v/content", "", OBJECTS),
    ("POST", "/v1/batches", ANY, BATCHES),
    ("GET", "/v1/batches/b", "", BATCHES),
    ("POST", "/v1/batches/b/cancel", "", BATCHES),
    ("POST", "/v1/conversations", ANY, TALKS),
    ("GET", "/v1/conversations/c/items", "", TALKS),
    ("POST", "/v1/assistants", ANY, TALKS),
    ("POST", "/v1/threads/t/runs", ANY, TALKS),
    ("POST", "/v1/chatkit/sessions", ANY, TALKS),
    ("POST", "/v1/fine_tuning/jobs", ANY, TRAINING),
    ("POST", "/v1/evals", ANY, TRAINING),
    ("POST", "/v1/graders/run", ANY, TRAINING),
    ("GET", "/v1/realtime", "", SOCKETS),
    ("POST", "/v1/realtime/client_secrets", ANY, SOCKETS),
    ("POST", "/v1/messages", CHAT, Passes),
    ("POST", "/v1/messages/count_tokens", CHAT, Passes),
    ("POST", "/v1/messages/batches", ANY, BATCHES),
    ("GET", "/v1/messages/batches/b/results", "", BATCHES),
    ("GET", "/v1/skills/s/versions", "", OBJECTS),
    ("POST", "/v1/agents", ANY, HOSTED),
    ("GET", "/v1/sessions/s/events/stream", "", HOSTED),
    ("POST", "/rerank", ANY, Passes),
    ("POST", "/v1/rerank", ANY, Passes),
    ("POST", "/v2/rerank", ANY, Passes),
    ("POST", "/reranking", ANY, Passes),
    ("POST", "/v1/reranking", ANY, Passes),
    ("POST", "/score", ANY, Passes),
    ("POST", "/v1/score", ANY, Passes),
    ("POST", "/pooling", ANY, Passes),
    ("POST", "/classify", ANY, Passes),
    ("POST", "/v1/classify", ANY, Passes),
    ("POST", "/tokenize", ANY, Passes),
    ("POST", "/detokenize", ANY, Passes),
    ("POST", "/v2/embed", ANY, Passes),
    ("POST", "/invocations", CHAT, LISTED),
    ("POST", "/generate", PROMPT, LISTED),
    ("POST", "/infill", ANY, LISTED),
    ("POST", "/apply-template", CHAT, LISTED),
    ("POST", "/completion", PROMPT, LISTED),
    ("POST", "/inference/v1/generate", ANY, LISTED),
    ("POST", "/v1beta/models/m:generateContent", ANY, LISTED),
    ("POST", "/v1/complete", ANY, Refused("use /v1/messages")),
    ("POST", "/v1/edits", ANY, Refused("use /v1/messages")),
    ("POST", "/v1/engines/m/completions", ANY, Refused("name the model in the body")),
    ("GET", "/v1/organization/users", "", Refused("manages tenants, keys and limits")),
    ("POST", "/v1/tokenize", ANY, Passes),
    ("POST", "/v1/detokenize", ANY, Passes),
    ("POST", "/v1/load_lora_adapter", ANY, ENGINE),
    ("POST", "/v1/unload_lora_adapter", ANY, ENGINE),
    ("POST", "/lora-adapters", "[]", ENGINE),
    ("POST", "/sleep", "", ENGINE),
    ("POST", "/init_weight_transfer_engine", "", ENGINE),
    ("POST", "/flush_cache", "", ENGINE),
    ("GET", "/props", "", ENGINE),
    ("GET", "/slots", "", ENGINE),
    ("POST", "/slots/0", "", ENGINE),
    ("GET", "/get_server_info", "", ENGINE),
    ("GET", "/version", "", ENGINE),
    ("GET", "/metrics", "", Refused("admin port")),
    ("POST", "/api/chat", CHAT, Refused("Ollama")),
    ("POST", "/openai/deployments/m/chat/completions", CHAT, Refused("Azure")),
    ("POST", "/chat/completions", CHAT, Refused("served under /v1")),
    ("POST", "/v1/v1/messages", CHAT, Refused("/v1 twice")),
    ("POST", "//v1/Chat/completions", CHAT, Refused("single slashes")),
];

// Defect paths-call-by-call: each call of the SDKs and each route of an engine works, or its refusal says what to do, and none is called other than OpenAI's.
#[tokio::test(start_paused = true)]
async fn each_call() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    for (method, target, body, expected) in TABLE {
        let before = replica.count();
        let answer = call(region.listen, request(method, target, body)).await;
        let at = format!("{method} {target}: {}", answer.text());
        match expected {
            Passes => {
                assert_eq!((answer.status, replica.count() - before), (200, 1), "{at}");
                let seen = replica.last();
                assert_eq!((seen.method.as_str(), seen.target.as_str()), (method, target));
                assert_eq!(seen.text(), body, "{at}");
            }
            Refused(words) => {
                assert_eq!((answer.status, answer.code().as_str()), (404, "unknown_path"), "{at}");
                assert!(answer.text().contains(words), "{at}");
            }
            Method(allow) => {
                assert_eq!((answer.status, answer.header("allow")), (405, allow), "{at}");
            }
        }
        assert!(matches!(expected, Passes) || replica.count() == before, "{at}");
    }
    region.settled().await;
}

// Defect paths-call-by-call: a stored response is read, cancelled and deleted at the replica that has it.
#[tokio::test(start_paused = true)]
async fn stored_responses() {
    let (a, b) = (Replica::start().await, Replica::of(&["n"]).await);
    let region = Region::of(&[&a, &b]).await;
    for (replica, model) in [(&a, "m"), (&b, "n")] {
        replica.always(Script::json(200, &format!(r#"{{"id":"resp_{model}"}}"#)));
        let body = format!(r#"{{"model":"{model}","input":"x"}}"#);
        assert_eq!(post(region.listen, "/v1/responses", &body).await.status, 200);
    }
    for (method, call_below) in [
        ("GET", ""),
        ("GET", "/input_items"),
        ("POST", "/cancel"),
        ("GET", "?stream=true"),
        ("DELETE", ""),
    ] {
        for (id, name) in [("resp_m", "r0"), ("resp_n", "r1")] {
            let target = format!("/v1/responses/{id}{call_below}");
            let answer = call(region.listen, request(method, &target, "")).await;
            let seen = (answer.status, answer.header("x-meridian-replica"));
            assert_eq!(seen, (200, name), "{method} {target}: {}", answer.text());
        }
    }
    assert_eq!((a.count(), b.count()), (6, 6));
    assert_eq!(region.admin("DELETE", "/admin/replicas/0", "").await.status, 200);
    let gone = call(region.listen, request("GET", "/v1/responses/resp_m", "")).await;
    assert_eq!((gone.status, gone.code().as_str()), (404, "pinned_gone"));
    region.settled().await;
}

// Anthropic's clients read the id of a request from a header of their own, of answers and of refusals.
#[tokio::test(start_paused = true)]
async fn ids_for_anthropics_clients() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    for (target, body, status) in [
        ("/v1/messages", CHAT, 200),
        ("/v1/messages/count_tokens", CHAT, 200),
        ("/v1/messages", "{", 400),
        ("/v1/messages", r#"{"model":"none","messages":[]}"#, 404),
    ] {
        let answer = post(region.listen, target, body).await;
        assert_eq!(answer.status, status, "{target}: {}", answer.text());
        let id = answer.header("request-id");
        assert!(!id.is_empty() && id == answer.header("x-request-id"), "{target}: {id}");
    }
    let answer = post(region.listen, "/v1/chat/completions", CHAT).await;
    assert_eq!(answer.header("request-id"), "");
    region.settled().await;
}
