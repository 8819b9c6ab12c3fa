//! Replicas of one model whose engines were started with contexts of different lengths.

use serde_json::Value;

use crate::common::{Region, Replica, Script, call, chat, get, post};

/// A replica whose list of models names this context.
async fn replica(context: u32) -> Replica {
    let replica = Replica::start().await;
    let list = format!(r#"{{"data":[{{"id":"m","max_model_len":{context}}}]}}"#);
    replica.page("/v1/models", Script::answer(200, "", &list));
    replica
}

// Defect context-lengths: a long prompt goes to the replica whose context it fits into, and not to one that refuses it.
// The list of models names the longest context, in whatever order the replicas are.
#[tokio::test(start_paused = true)]
async fn long_prompts_go_where_they_fit() {
    for contexts in [[2048, 131_072], [131_072, 2048]] {
        let (a, b) = (replica(contexts[0]).await, replica(contexts[1]).await);
        let region = Region::of(&[&a, &b]).await;
        let long = if contexts[0] > contexts[1] { "r0" } else { "r1" };
        let prompt = "Four score and seven years ago. ".repeat(1250);
        for _ in 0..20 {
            let answer = call(region.listen, chat(&prompt)).await;
            assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, long));
        }
        // The reply counts, too.
        let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":3000}"#;
        for _ in 0..4 {
            let answer = post(region.listen, "/v1/chat/completions", body).await;
            assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, long));
        }
        let mut short = 0;
        for _ in 0..4 {
            let answer = call(region.listen, chat("hi")).await;
            short += usize::from(answer.header("x-meridian-replica") != long);
        }
        assert_eq!(short, 2, "short prompts go to both");
        let list = get(region.listen, "/v1/models").await;
        let list: Value = serde_json::from_slice(&list.body).expect("is JSON");
        assert_eq!(list["data"][0]["max_model_len"], 131_072, "{list}");
    }
}

// With short contexts only, a prompt that fits nowhere goes to the longest, whose engine decides.
#[tokio::test(start_paused = true)]
async fn the_engine_decides() {
    let (a, b) = (replica(1024).await, replica(2048).await);
    let region = Region::of(&[&a, &b]).await;
    b.always(Script::json(400, r#"{"error":{"message":"too long"}}"#));
    let answer = call(region.listen, chat(&"Four score and seven. ".repeat(2000))).await;
    assert_eq!((answer.status, answer.text().contains("too long")), (400, true));
    assert_eq!((a.count(), b.count()), (0, 1));
}
