//! LoRA adapters that are loaded and unloaded while a replica runs: each is a model of its list.

use std::time::Duration;

use meridian_protocol::units::Span;

use crate::common::{Region, Replica, Script, call, chat, get, post};

const MS: Duration = Duration::from_millis(1);
/// vLLM's answer for a model that it does not serve.
const MISSING: &str = r#"{"error":{"message":"The model `a` does not exist.","type":"NotFoundError","param":"model","code":404}}"#;

/// Two replicas of the base model `m`.
async fn fleet() -> (Replica, Replica, Region) {
    let (one, two) = (Replica::start().await, Replica::start().await);
    one.dates_lists();
    let region = Region::with(&[&one, &two], |c| c.probe.down_after = 1_000_000).await;
    (one, two, region)
}

async fn ask(region: &Region, model: &str) -> crate::common::Answer {
    let body = format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hi"}}]}}"#);
    post(region.listen, "/v1/chat/completions", &body).await
}

async fn listed(region: &Region) -> Vec<String> {
    let list = get(region.listen, "/v1/models").await.json();
    let ids = list["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap().to_owned());
    ids.collect()
}

// An adapter that a replica loads is in the gateway's list and in the status page before the next
// regular discovery, and its requests go to that replica alone. Unloaded, it is refused.
#[tokio::test(start_paused = true)]
async fn a_change_is_noticed() {
    let (one, two, region) = fleet().await;
    let refused = ask(&region, "a").await;
    assert_eq!((refused.status, refused.code().as_str()), (404, "model_not_found"));
    one.serves(&["m", "a"]);
    let before = tokio::time::Instant::now();
    region.until("the adapter is listed", |s| s.replicas[0].models == ["m", "a"]).await;
    assert!(before.elapsed() < 30_000 * MS, "virtual time: not by the regular discovery");
    assert_eq!(listed(&region).await, ["m", "a"]);
    for _ in 0..6 {
        assert_eq!(ask(&region, "a").await.header("x-meridian-replica"), "r0");
    }
    assert_eq!((one.count(), two.count()), (6, 0));
    one.serves(&["m"]);
    region.until("the adapter is gone", |s| s.replicas[0].models == ["m"]).await;
    assert_eq!(ask(&region, "a").await.status, 404);
    assert_eq!(listed(&region).await, ["m"]);
    assert_eq!(one.count(), 6);
    assert_eq!(call(region.listen, chat("hi")).await.status, 200, "the base model is served");
}

// The list is read at most once in the idle interval, also when probes are frequent, although no two
// lists of vLLM have the same bytes. Discovery runs for a change only.
#[tokio::test(start_paused = true)]
async fn lists_are_read_rarely() {
    let (one, _two, region) = fleet().await;
    let (lists, probes) = (one.lists(), one.probes());
    for _ in 0..100 {
        tokio::time::sleep(100 * MS).await;
        assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    }
    let (lists, probes) = (one.lists() - lists, one.probes() - probes);
    assert!((8..=12).contains(&lists), "once in 1 s of virtual time: {lists}");
    assert!(probes > 50, "{probes}");
}

// No list is read for an engine that loads no adapters, or if the configuration names the models.
#[tokio::test(start_paused = true)]
async fn no_extra_requests() {
    let (llama, given) = (Replica::start().await, Replica::start().await);
    let region = Region::with(&[&llama, &given], |c| {
        c.replicas[0].engine = meridian_protocol::admin::EngineName::Is(
            meridian_protocol::engines::find("llamacpp").unwrap(),
        );
        c.replicas[1].models = vec!["m".to_owned()];
    })
    .await;
    let lists = (llama.lists(), given.lists());
    tokio::time::sleep(15_000 * MS).await;
    assert_eq!((llama.lists(), given.lists()), lists);
    given.serves(&["m", "a"]);
    llama.serves(&["m", "a"]);
    tokio::time::sleep(10_000 * MS).await;
    assert_eq!(region.status().await.replicas[1].models, ["m"]);
}

// A request for an adapter that was just unloaded goes to another replica that lists it. No breaker
// counts the refusal, and the list is read again before its time.
#[tokio::test(start_paused = true)]
async fn just_unloaded() {
    let (one, two) = (Replica::of(&["m", "a"]).await, Replica::of(&["m", "a"]).await);
    let region = Region::with(&[&one, &two], |c| c.probe.idle = Span::secs(20)).await;
    one.serves(&["m"]);
    one.always(Script::json(404, MISSING));
    let lists = one.lists();
    let mut tried = 0;
    for _ in 0..4 {
        let answer = ask(&region, "a").await;
        assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, "r1"));
        tried = one.count();
    }
    assert!(tried >= 1);
    let status = region.until("the list is read", |s| s.replicas[0].models == ["m"]).await;
    assert!(one.lists() > lists);
    let row = &status.replicas[0];
    assert_eq!((row.breaker.as_str(), row.failed), ("closed", 0));
    let page = get(region.admin, "/metrics").await;
    assert!(page.text().contains("meridian_retries_total{reason=\"model_not_served\"}"));
    for _ in 0..4 {
        assert_eq!(ask(&region, "a").await.status, 200);
    }
    assert_eq!(one.count(), tried, "it gets no more of them");
}

// Without another replica the client gets a 404, as for any unknown model. A 404 for another reason
// passes unchanged, and the list is not read for it.
#[tokio::test(start_paused = true)]
async fn nowhere_else() {
    let one = Replica::of(&["m", "a"]).await;
    let region = Region::with(&[&one], |c| c.probe.idle = Span::secs(20)).await;
    let other = r#"{"error":{"message":"no such response","type":"NotFoundError","param":"id"}}"#;
    one.then(Script::json(404, other));
    let answer = ask(&region, "a").await;
    assert_eq!((answer.status, answer.text()), (404, other));
    one.serves(&["m"]);
    one.then(Script::json(404, MISSING));
    let answer = ask(&region, "a").await;
    assert_eq!((answer.status, answer.code().as_str()), (404, "model_not_found"));
    region.until("the list is read", |s| s.replicas[0].models == ["m"]).await;
    assert_eq!(one.count(), 2);
}

/// A long prompt, so that its blocks count as a match.
fn long(model: &str) -> String {
    let text = "the same words for each model ".repeat(40);
    format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"{text}"}}]}}"#)
}

// Of two replicas that list an adapter, the policy `meridian` prefers the one whose metrics name it
// among those in use. A prompt that the base model has in its cache is no match for the adapter.
#[tokio::test(start_paused = true)]
async fn in_use() {
    let (one, two) = (Replica::start().await, Replica::start().await);
    let list = r#"{"data":[{"id":"m","parent":null},{"id":"a","parent":"m"}]}"#;
    for replica in [&one, &two] {
        replica.page("/v1/models", Script::json(200, list));
    }
    let region = Region::with(&[&one, &two], |c| c.policy.name = "meridian".into()).await;
    // One replica gets the prompt for the base model, and has it cached from then on.
    let first = post(region.listen, "/v1/chat/completions", &long("m")).await;
    let again = post(region.listen, "/v1/chat/completions", &long("m")).await;
    assert_eq!(again.header("x-meridian-replica"), first.header("x-meridian-replica"));
    assert_ne!(again.header("x-meridian-prefix-match"), "0.00");
    let (other, name) = match first.header("x-meridian-replica") {
        "r0" => (&two, "r1"),
        _ => (&one, "r0"),
    };
    let gauges =
        "vllm:num_requests_waiting 0\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0.25\n";
    let in_use = "vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"a\",waiting_lora_adapters=\"\"} 1.7e9\n";
    other.page("/metrics", Script::answer(200, "", &format!("{gauges}{in_use}")));
    region.until("it is reported", |s| s.replicas.iter().any(|r| r.kv_used == 0.25)).await;
    for n in 0..6 {
        let answer = post(region.listen, "/v1/chat/completions", &long("a")).await;
        assert_eq!(answer.header("x-meridian-replica"), name);
        assert_eq!(answer.header("x-meridian-prefix-match") == "0.00", n == 0, "{n}");
    }
}
