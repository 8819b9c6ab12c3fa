//! Whose fault an answer is, where its status or its path alone does not tell.

use std::time::Duration;

use meridian_protocol::units::Span;

use crate::common::{Region, Replica, Script, call, chat, get, post, request, stream_chat};
use crate::tenants::bearing;

const MS: Duration = Duration::from_millis(1);
const GOOD: &str = r#"{"id":"good","choices":[]}"#;
const DIED: &str =
    r#"{"error":{"message":"EngineCore died","type":"InternalServerError","code":500}}"#;

/// A replica that gives this answer, and a good one, which take turns.
async fn beside(script: &Script, key: Option<&str>) -> (Replica, Replica, Region) {
    let (bad, good) = (Replica::start().await, Replica::start().await);
    let region = Region::with(&[&bad, &good], |c| {
        c.engine_key = key.map(Into::into);
    })
    .await;
    bad.always(script.clone());
    good.always(Script::json(200, GOOD));
    (bad, good, region)
}

// Defect own-key: a replica that refuses the gateway's own key has failed, as its client can't mend that; one that refuses
// the client's key has not.
#[tokio::test(start_paused = true)]
async fn refused_keys() {
    for (status, key) in [(401, Some("k")), (403, Some("k")), (401, None), (403, None)] {
        let (_bad, _good, region) =
            beside(&Script::json(status, r#"{"error":"Unauthorized"}"#), key).await;
        for turn in 0..4 {
            let answer = call(region.listen, chat("hi")).await;
            let expected = if key.is_some() || turn % 2 == 1 { 200 } else { status };
            assert_eq!(answer.status, expected, "{status} {key:?}");
        }
        let failed = region.settled().await.replicas[0].failed;
        assert_eq!(failed > 0, key.is_some(), "{status} {key:?}");
    }
}

// Defect own-key: if all replicas refuse the gateway's key, the client does not get their words about a key of its own.
#[tokio::test(start_paused = true)]
async fn every_replica_refuses_the_key() {
    let refuses = Script::json(401, r#"{"error":"Unauthorized"}"#);
    let (_bad, good, region) = beside(&refuses, Some("k")).await;
    good.always(refuses);
    let answer = call(region.listen, chat("hi")).await;
    assert_eq!((answer.status, answer.code().as_str()), (502, "retries_exhausted"));
}

// Defect retry-after: a limit on one client's key, which the replica got from the client, holds back no other client.
#[tokio::test(start_paused = true)]
async fn a_limit_on_a_key() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| c.held.max_wait = Span::secs(10)).await;
    replica.always(Script::json(200, GOOD));
    replica.then(Script::answer(429, "retry-after: 60\r\n", "{}"));
    let listen = region.listen;
    let limited =
        bearing(request("POST", "/v1/chat/completions", r#"{"model":"m","messages":[]}"#), "a");
    let first = call(listen, limited).await;
    assert_eq!(first.status, 200, "it is tried again after the next check");
    assert_eq!(call(listen, chat("hi")).await.status, 200);
}

// Defect failed-generation: TGI's 424 is a failed generation, and Anthropic's 529 a full server.
#[tokio::test(start_paused = true)]
async fn statuses_of_engines() {
    let said = r#"{"error":"Request failed during generation","error_type":"generation"}"#;
    for status in [424, 529] {
        let (bad, _good, region) = beside(&Script::json(status, said), None).await;
        for _ in 0..4 {
            assert_eq!(call(region.listen, chat("hi")).await.text(), GOOD, "{status}");
        }
        assert!(bad.count() > 0, "{status}");
        assert_eq!(region.settled().await.replicas[0].failed > 0, status == 424, "{status}");
    }
}

// Defect error-in-200: on paths whose bodies the gateway does not read, an error inside a 200 and an answer that breaks off
// are failed attempts, too.
#[tokio::test(start_paused = true)]
async fn on_other_paths() {
    let stream = format!("data: {DIED}\n\ndata: [DONE]\n\n");
    for script in [
        Script::json(200, DIED),
        Script::json(
            200,
            r#"{"object":"error","message":"x","type":"InternalServerError","code":500}"#,
        ),
        Script::answer(200, "content-type: text/event-stream\r\n", &stream),
        Script::head(500).send("{\"text\":").wait(MS).close(),
    ] {
        for path in ["/v1/audio/transcriptions?model=m", "/v1/rerank", "/score", "/pooling"] {
            let (bad, _good, region) = beside(&script, None).await;
            for _ in 0..4 {
                let answer = post(region.listen, path, r#"{"model":"m","input":"x"}"#).await;
                assert_eq!(
                    (answer.status, answer.text(), answer.cut),
                    (200, GOOD, false),
                    "{path}"
                );
            }
            assert!(bad.count() > 0);
            assert!(region.settled().await.replicas[0].failed > 0, "{path}");
        }
    }
}

// Defect one-broken-model: a model that fails at a replica closes that replica for this model alone.
#[tokio::test(start_paused = true)]
async fn one_model_fails() {
    let (both, other) = (Replica::of(&["m", "vl"]).await, Replica::of(&["vl"]).await);
    let region = Region::of(&[&both, &other]).await;
    other.always(Script::json(200, GOOD));
    let ask = |model: &str| format!(r#"{{"model":"{model}","messages":[]}}"#);
    let path = "/v1/chat/completions";
    for turn in 0..40 {
        both.always(Script::json(500, &format!(r#"{{"error":"out of memory {turn}"}}"#)));
        let answer = post(region.listen, path, &ask("vl")).await;
        assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, "r1"));
        both.always(Script::json(200, GOOD));
        if turn % 4 == 0 {
            assert_eq!(post(region.listen, path, &ask("m")).await.status, 200, "{turn}");
        }
    }
    // Its breaker for the failing model lets tries through only.
    assert!((5..30).contains(&both.count()), "{} of 50", both.count());
    let row = region.settled().await.replicas[0].clone();
    assert!(row.failed >= 5 && row.breaker == "closed", "{} failed", row.failed);
    // Once it serves the model again, it gets requests for it.
    tokio::time::sleep(60_000 * MS).await;
    for _ in 0..8 {
        assert_eq!(post(region.listen, path, &ask("vl")).await.status, 200);
    }
    let before = both.count();
    for _ in 0..8 {
        post(region.listen, path, &ask("vl")).await;
    }
    assert_eq!(both.count() - before, 4);
}

// An answer without a body is complete, and no client has left.
#[tokio::test(start_paused = true)]
async fn no_body() {
    for script in [Script::answer(204, "", ""), Script::answer(200, "", "")] {
        let replica = Replica::start().await;
        let region = Region::of(&[&replica]).await;
        replica.always(script);
        post(region.listen, "/v1/rerank", r#"{"model":"m"}"#).await;
        let requests = region.settled().await.requests;
        assert_eq!((requests.done, requests.cancelled), (1, 0));
    }
}

// Defect closed-while-idle: a kept connection that ends long after the request was sent has lost its engine, not a race.
#[tokio::test(start_paused = true)]
async fn a_late_end_is_no_race() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::of(&[&a, &b]).await;
    for _ in 0..4 {
        call(region.listen, chat("hi")).await;
    }
    let before = a.count() + b.count();
    a.always(Script::default().wait(1500 * MS).close());
    b.always(Script::default().wait(1500 * MS).close());
    let answer = call(region.listen, stream_chat("kills")).await;
    assert_eq!((answer.status, answer.code().as_str()), (502, "engine_died"));
    assert_eq!(a.count() + b.count() - before, 2);
}

// Defect narrow-schema: clients encode the slash in a model's name.
#[tokio::test(start_paused = true)]
async fn encoded_names() {
    let replica = Replica::of(&["org/m"]).await;
    let region = Region::of(&[&replica]).await;
    for name in ["org/m", "org%2Fm", "org%2fm", "%6frg/m"] {
        assert_eq!(get(region.listen, &format!("/v1/models/{name}")).await.status, 200, "{name}");
    }
    assert_eq!(get(region.listen, "/v1/models/org%2Fn").await.status, 404);
}
