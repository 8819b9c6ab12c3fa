//! Clients that disconnect: the replica is notified, and no state is left.

use std::time::Duration;

use meridian_config::AdmissionMode;
use meridian_protocol::admin::Status;

use crate::common::{Region, Replica, Script, chat, eventually, open, stream_chat};

const MS: Duration = Duration::from_millis(1);

/// Starts a request and disconnects once `when` holds.
async fn hang_up(region: &Region, when: impl Fn(&Status) -> bool) {
    let listen = region.listen;
    let client = tokio::spawn(async move {
        let answer = open(listen, chat("hi")).await;
        std::future::pending::<()>().await;
        drop(answer);
    });
    region.until("the moment to disconnect", when).await;
    client.abort();
    assert!(client.await.is_err_and(|e| e.is_cancelled()));
}

async fn sees_hangup(replica: &Replica, count: usize) {
    eventually("the replica sees a disconnect", async || {
        (replica.hangups() == count).then_some(())
    })
    .await;
}

// A client that disconnects while its request is queued leaves the queue; the request was never
// sent.
#[tokio::test(start_paused = true)]
async fn while_held() {
    let replica = Replica::start().await;
    let region =
        Region::with(&[&replica], |c| c.admission = Some(AdmissionMode::Outstanding(1))).await;
    replica.then(Script::unfinished().wait(5000 * MS).send("}"));
    let mut first = open(region.listen, chat("first")).await;
    first.read_to("{").await;
    hang_up(&region, |s| s.held == 1).await;
    let status = region.until("it is out of the queue", |s| s.held == 0).await;
    assert_eq!((status.requests.cancelled, status.requests.in_flight), (1, 1));
    assert_eq!(first.rest().await.text().trim(), "}");
    let status = region.settled().await;
    assert_eq!((status.requests.done, replica.count(), replica.hangups()), (1, 1, 0));
}

// If it disconnects before the first byte, the gateway closes the connection to the replica.
#[tokio::test(start_paused = true)]
async fn before_the_first_byte() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    for (n, script) in [Script::silence(), Script::head(2).hang()].into_iter().enumerate() {
        replica.then(script);
        hang_up(&region, |_| replica.count() == n + 1).await;
        sees_hangup(&replica, n + 1).await;
        let status = region.settled().await;
        assert_eq!(status.requests.cancelled, n as u64 + 1);
        assert_eq!((status.replicas[0].failed, status.replicas[0].breaker.as_str()), (0, "closed"));
    }
}

// The same in mid-stream, or in the middle of a non-streamed answer.
#[tokio::test(start_paused = true)]
async fn in_mid_answer() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    for (n, (script, sent, piece)) in [
        (Script::sse().event(event).hang(), stream_chat("hi"), "choices"),
        (Script::sse().event(event).event(event).hang(), stream_chat("hi"), "choices"),
        (Script::unfinished().hang(), chat("hi"), "{"),
    ]
    .into_iter()
    .enumerate()
    {
        replica.then(script);
        let mut answer = open(region.listen, sent).await;
        answer.read_to(piece).await;
        drop(answer);
        sees_hangup(&replica, n + 1).await;
        let status = region.settled().await;
        assert_eq!(status.requests.cancelled, n as u64 + 1);
        assert_eq!(status.replicas[0].failed, 0);
    }
}

// During a long, busy stream a disconnect is noticed although the replica never pauses.
#[tokio::test(start_paused = true)]
async fn in_a_busy_stream() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let mut script = Script::sse();
    for _ in 0..10_000 {
        script =
            script.event("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n").wait(10 * MS);
    }
    replica.then(script);
    let mut answer = open(region.listen, stream_chat("hi")).await;
    answer.read_to("choices").await;
    drop(answer);
    sees_hangup(&replica, 1).await;
    assert_eq!(region.settled().await.requests.cancelled, 1);
}

// A client that disconnects right after `[DONE]` has its answer: the request is done, though the
// transfer's own end never arrived.
#[tokio::test(start_paused = true)]
async fn after_done() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    replica.then(
        Script::sse()
            .event("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n")
            .event("data: [DONE]\n\n")
            .hang(),
    );
    let mut answer = open(region.listen, stream_chat("hi")).await;
    answer.read_to("[DONE]").await;
    let status = region.settled().await;
    assert_eq!((status.requests.done, status.replicas[0].outstanding), (1, 0));
    drop(answer);
    sees_hangup(&replica, 1).await;
    let status = region.settled().await;
    assert_eq!((status.requests.done, status.requests.cancelled), (1, 0));
}

// A client that disconnects during a retry cancels the retry.
#[tokio::test(start_paused = true)]
async fn during_a_retry() {
    let (bad, slow) = (Replica::start().await, Replica::start().await);
    let region = Region::of(&[&bad, &slow]).await;
    bad.always(Script::json(500, "{}"));
    slow.always(Script::silence());
    hang_up(&region, |_| bad.count() == 1 && slow.count() == 1).await;
    sees_hangup(&slow, 1).await;
    let status = region.settled().await;
    assert_eq!((status.requests.cancelled, status.requests.failed), (1, 0));
}

// Many disconnects at once leave no state: all permits are returned, and the next request is
// served.
#[tokio::test(start_paused = true)]
async fn a_crowd_leaves() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| c.limits.requests = 20).await;
    replica.always(Script::silence());
    let listen = region.listen;
    let crowd: Vec<_> = (0..20)
        .map(|_| tokio::spawn(async move { drop(open(listen, chat("hi")).await) }))
        .collect();
    region.until("all are there", |s| s.requests.in_flight == 20).await;
    crowd.iter().for_each(tokio::task::JoinHandle::abort);
    let status = region.settled().await;
    assert_eq!(status.requests.cancelled, 20);
    sees_hangup(&replica, 20).await;
    replica.always(Script::json(200, "{}"));
    assert_eq!(crate::common::call(listen, chat("hi")).await.status, 200);
}
