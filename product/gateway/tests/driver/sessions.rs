//! Sessions as today's agents name them, and the class that a service tier asks for.

use meridian_config::AdmissionMode;
use serde_json::{Value, json};

use crate::common::{Region, Replica, Script, call, request};
use crate::forwards::occupy_with;
use crate::records::{ANSWER, Files, stopped};
use crate::tenants::{bearing, tenant};

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";
const KEY: &str = "mk-0123456789abcdefghij";

/// What a client sends: a path, headers, and members of the body.
type Sent<'a> = (&'a str, &'a [(&'static str, &'static str)], Value);

fn built((path, headers, more): &Sent<'_>) -> http::Request<http_body_util::Full<bytes::Bytes>> {
    let mut body =
        json!({"model": "m", "input": "hi", "messages": [{"role": "user", "content": "hi"}]});
    let more = more.as_object().expect("members").clone();
    body.as_object_mut().expect("an object").extend(more);
    let mut request = request("POST", path, &body.to_string());
    for (name, value) in *headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    request
}

/// The session that the access log has for each.
async fn sessions(name: &str, sent: &[Sent<'_>]) -> Vec<String> {
    let files = Files::new(name);
    let replica = Replica::start().await;
    replica.always(Script::json(200, ANSWER));
    let region = Region::with(&[&replica], |config| files.set(config)).await;
    for sent in sent {
        assert_eq!(call(region.listen, built(sent)).await.status, 200);
    }
    stopped(region).await;
    let session = |line: &Value| line["session"].as_str().unwrap_or_default().to_owned();
    files.log().iter().map(session).collect()
}

// The headers were seen on the wire of each agent: main agent and sub-agents are one session, another task is another.
#[tokio::test(start_paused = true)]
async fn agents_and_their_sub_agents() {
    let agents: [[Sent<'_>; 3]; 3] = [
        // Claude Code 2.1.
        [
            (CHAT, &[("x-claude-code-session-id", "a")], json!({"metadata": {"user_id": "u"}})),
            (
                CHAT,
                &[("x-claude-code-session-id", "a"), ("x-claude-code-agent-id", "1")],
                json!({}),
            ),
            (CHAT, &[("x-claude-code-session-id", "b")], json!({"metadata": {"user_id": "u"}})),
        ],
        // Codex 0.171.
        [
            (
                RESPONSES,
                &[("session-id", "a"), ("thread-id", "a")],
                json!({"prompt_cache_key": "a"}),
            ),
            (
                RESPONSES,
                &[("session-id", "a"), ("thread-id", "1")],
                json!({"prompt_cache_key": "a"}),
            ),
            (
                RESPONSES,
                &[("session-id", "b"), ("thread-id", "b")],
                json!({"prompt_cache_key": "b"}),
            ),
        ],
        // OpenCode 1.18.
        [
            (CHAT, &[("x-session-affinity", "a"), ("x-session-id", "a")], json!({})),
            (CHAT, &[("x-session-id", "1"), ("x-parent-session-id", "a")], json!({})),
            (CHAT, &[("x-session-affinity", "b"), ("x-session-id", "b")], json!({})),
        ],
    ];
    for (n, sent) in agents.iter().enumerate() {
        let seen = sessions(&format!("agents-{n}"), sent).await;
        assert!(!seen[0].is_empty() && seen[0] == seen[1] && seen[0] != seen[2], "{n}: {seen:?}");
    }
}

// In the body, the narrowest name counts; a header goes before it, and AIPerf's after it.
#[tokio::test(start_paused = true)]
async fn names_in_the_body() {
    let same = json!({"session_id": "a"});
    let sent: [Sent<'_>; 8] = [
        (CHAT, &[], same.clone()),
        (CHAT, &[], json!({"session_params": {"id": "a"}, "user": "u"})),
        (RESPONSES, &[], json!({"conversation": "a", "prompt_cache_key": "u"})),
        (RESPONSES, &[], json!({"conversation": {"id": "a"}})),
        (CHAT, &[], json!({"prompt_cache_key": "a", "user": "u"})),
        (CHAT, &[("x-correlation-id", "r1")], json!({"user": "a"})),
        (CHAT, &[("x-correlation-id", "a")], json!({})),
        (CHAT, &[("x-session-id", "a")], json!({"session_id": "u"})),
    ];
    let seen = sessions("body", &sent).await;
    assert!(!seen[0].is_empty() && seen.iter().all(|session| *session == seen[0]), "{seen:?}");
}

// A chain of responses is one session, named by its first response.
#[tokio::test(start_paused = true)]
async fn a_chain_of_responses() {
    let files = Files::new("chain");
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |config| files.set(config)).await;
    for (id, previous) in [("1", None), ("2", Some("1")), ("3", Some("2"))] {
        replica.then(Script::json(200, &json!({"id": id, "object": "response"}).to_string()));
        let more = previous.map_or(json!({}), |previous| json!({"previous_response_id": previous}));
        assert_eq!(call(region.listen, built(&(RESPONSES, &[], more))).await.status, 200);
    }
    stopped(region).await;
    let log = files.log();
    assert!(log[1]["session"].is_string());
    assert_eq!(log[1]["session"], log[2]["session"]);
}

// A tier asks for a class, at most the tenant's own, and reaches the engine as it was sent. One that leaves the choice
// to the server, or is none of a known provider's, changes nothing.
#[tokio::test(start_paused = true)]
async fn service_tiers_are_classes() {
    let files = Files::new("tiers");
    let replica = Replica::start().await;
    replica.always(Script::json(200, ANSWER));
    let region = Region::with(&[&replica], |config| {
        files.set(config);
        config.tenants = vec![tenant("chat", KEY)];
    })
    .await;
    let tiers = ["flex", "auto", "default", "standard_only", "priority", "fast", "scale"];
    for tier in tiers {
        let sent = (CHAT, &[][..], json!({"service_tier": tier}));
        assert_eq!(call(region.listen, bearing(built(&sent), KEY)).await.status, 200);
    }
    assert!(replica.seen()[0].text().contains(r#""service_tier":"flex""#));
    stopped(region).await;
    let classes: Vec<String> =
        files.log().iter().map(|line| line["priority"].as_str().unwrap().to_owned()).collect();
    assert_eq!(classes, ["low", "normal", "normal", "normal", "normal", "normal", "normal"]);
}

// One slot: the fourth request of a large session waits until a small one has had its turn.
#[tokio::test(start_paused = true)]
async fn sessions_take_turns() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |config| {
        config.tenants = vec![tenant("chat", KEY)];
        config.admission = Some(AdmissionMode::Outstanding(1));
    })
    .await;
    let busy = occupy_with(&region, &replica, KEY).await;
    let mut sent = Vec::new();
    for (n, session) in ["large", "large", "large", "small"].into_iter().enumerate() {
        let request = bearing(built(&(CHAT, &[], json!({"session_id": session}))), KEY);
        let listen = region.listen;
        sent.push(tokio::spawn(async move { call(listen, request).await }));
        region.until("it is held", |s| s.held == n as u32 + 1).await;
    }
    drop(busy);
    for answer in sent {
        assert_eq!(answer.await.unwrap().status, 200);
    }
    let large: Vec<bool> =
        replica.seen()[1..].iter().map(|seen| seen.text().contains("large")).collect();
    assert_eq!(large, [true, false, true, true]);
    let status = region.settled().await;
    assert_eq!(status.sessions.known, 2);
    assert!(status.sessions.largest_share > 0.5 && status.sessions.largest_share < 1.0);
}
