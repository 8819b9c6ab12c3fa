//! How legs end: KV that got too old, answers that cannot be used, refusals, and what is counted.

use std::time::Duration;

use meridian_protocol::units::Span;

use crate::common::{Script, eventually};
use crate::legs::{GOOD, MS, Pools, body, params, prefilled};

const S: Duration = Duration::from_secs(1);

// A gateway that is stopped finds the prefill's answer in its socket when it goes on. After half of
// the lease the KV may be released at any time, and another prompt's be read in its place.
#[tokio::test(start_paused = true)]
async fn kv_gets_too_old() {
    for (lease, stopped, is_used) in
        [(30, 14, true), (30, 16, false), (60, 16, true), (4, 3, false)]
    {
        let pools = Pools::with(1, 1, None, |config| config.kv_lease = Span::secs(lease)).await;
        pools.prefill[0].then(prefilled(&params("r")).jump(stopped * S));
        assert_eq!(pools.ask().await.text(), GOOD);
        let used = body(&pools.decode[0]).get("kv_transfer_params").is_some();
        assert_eq!(used, is_used, "{lease} s, {stopped} s");
        assert_eq!((pools.prefill[0].count(), pools.decode[0].count()), (1, 1));
        let fallbacks = "meridian_prefill_fallbacks_total{reason=\"lease\"} 1";
        assert_eq!(pools.metrics().await.contains(fallbacks), !is_used);
        pools.settled().await;
    }
}

// An answer that is too long to be read is no failure of an engine: the request stays whole.
#[tokio::test(start_paused = true)]
async fn a_long_prefill_answer() {
    let pools = Pools::of(2, 1).await;
    let long = format!("{{\"x\":\"{}\"}}", "x".repeat(5 << 20));
    for p in &pools.prefill {
        p.always(Script::json(200, &long));
    }
    assert_eq!(pools.ask().await.text(), GOOD);
    assert_eq!(pools.prefill.iter().map(|p| p.count()).sum::<usize>(), 1);
    assert!(body(&pools.decode[0]).get("kv_transfer_params").is_none());
    pools.metric("meridian_prefill_fallbacks_total{reason=\"too_large\"} 1").await;
    let status = pools.settled().await;
    assert!(status.replicas.iter().all(|r| r.failed == 0), "{:?}", status.replicas);
}

// A decode engine that refuses a request fetches no KV, so no transfer is counted. If the legs run
// at once, the refusal ends the prefill leg, which would go on for nothing.
#[tokio::test(start_paused = true)]
async fn a_refusal_ends_both_legs() {
    let refusal = || Script::json(400, "{\"error\":\"no tools\"}");
    let pools = Pools::of(1, 1).await;
    pools.decode[0].then(refusal());
    assert_eq!(pools.ask().await.status, 400);
    pools.metric("meridian_kv_transfer_seconds_count 0").await;

    let pools = Pools::by("sglang").await;
    pools.prefill[0].then(Script::silence());
    pools.decode[0].then(refusal());
    assert_eq!(pools.ask().await.status, 400);
    let ended = async || (pools.prefill[0].hangups() == 1).then_some(());
    eventually("the prefill leg is cancelled", ended).await;
    pools.metric("meridian_kv_transfer_seconds_count 0").await;
    pools.settled().await;
}

// Legs that run at once: the time of the transfer begins with the end of the prefill leg, and is not
// known if the answer starts before that. The prefill leg then goes on beside the answer.
#[tokio::test(start_paused = true)]
async fn the_time_of_a_transfer() {
    let pools = Pools::by("sglang").await;
    pools.prefill[0].then(Script::default().wait(5 * S).answers("{}"));
    pools.decode[0].then(Script::default().wait(7 * S).answers(GOOD));
    assert_eq!(pools.ask().await.text(), GOOD);
    pools.metric("meridian_kv_transfer_seconds_count 1").await;
    pools.metric("meridian_kv_transfer_seconds_sum 2.0").await;

    pools.prefill[0].then(Script::default().wait(5 * S).answers("{}"));
    pools.decode[0].then(Script::default().wait(MS).answers(GOOD));
    assert_eq!(pools.ask().await.text(), GOOD);
    tokio::time::sleep(6 * S).await;
    assert_eq!(pools.prefill[0].hangups(), 0);
    pools.metric("meridian_kv_transfer_seconds_count 1").await;
    pools.settled().await;
}

// The parameters name the tokens that the prefill engine had cached, also if its usage does not.
#[tokio::test(start_paused = true)]
async fn what_the_prefill_replica_had_cached() {
    let pools = Pools::of(1, 1).await;
    let mut params = params("r");
    params["remote_prefill_cached_tokens"] = 16.into();
    pools.prefill[0].then(prefilled(&params));
    assert_eq!(pools.ask().await.text(), GOOD);
    let status = pools.settled().await;
    assert_eq!((status.replicas[0].prompt_tokens, status.replicas[0].cached_tokens), (20, 16));
}

// A client may send prompts whose answers end with the first token, or by a tool call. Nothing is
// handed over then, and no replica is to blame.
#[tokio::test(start_paused = true)]
async fn an_answer_that_ends_at_once() {
    for (transfer, ends, reason) in
        [("mooncake", "stop", "finish"), ("nixl", "tool_calls", "unfinished")]
    {
        let pools = Pools::by(transfer).await;
        let answer = format!(r#"{{"choices":[{{"finish_reason":"{ends}"}}]}}"#);
        pools.prefill[0].always(Script::json(200, &answer));
        pools.decode[0].always(Script::default().wait(S).answers(GOOD));
        for _ in 0..6 {
            assert_eq!(pools.ask().await.text(), GOOD);
        }
        assert_eq!(pools.prefill[0].count(), 6);
        let count = format!("meridian_prefill_fallbacks_total{{reason=\"{reason}\"}} 6");
        pools.metric(&count).await;
        let status = pools.settled().await;
        assert!(status.replicas.iter().all(|r| r.failed == 0), "{:?}", status.replicas);
    }
}
