//! Hung processes: their connections stay open, new ones are accepted, and nothing is answered. A
//! stopped process (SIGSTOP) behaves like this.

use std::time::Duration;

use meridian_protocol::units::Span;
use tokio::time::Instant;

use crate::common::{Region, Replica, Script, call, chat, events, open, stream_chat};

const MS: Duration = Duration::from_millis(1);
const EVENT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";

async fn region(replicas: &[&Replica]) -> Region {
    Region::with(replicas, |c| {
        c.timeouts.probe = Span::millis(200);
        c.timeouts.down = Span::secs(2);
    })
    .await
}

fn hang(replica: &Replica) {
    replica.always(Script::silence());
    replica.answers_probes(false);
}

// A request that a hung replica has not started to answer is retried elsewhere as soon as the
// replica is down, long before timeouts.first_byte; its connection is closed.
#[tokio::test(start_paused = true)]
async fn not_begun_goes_elsewhere() {
    for said in [Script::silence(), Script::head(9).hang(), Script::sse().hang()] {
        let (hung, good) = (Replica::start().await, Replica::start().await);
        let region = region(&[&hung, &good]).await;
        hang(&hung);
        hung.always(said);
        let began = Instant::now();
        let answer = call(region.listen, chat("hi")).await;
        assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, "r1"));
        assert!(began.elapsed() < 3000 * MS, "{:?}", began.elapsed());
        let status = region.settled().await;
        assert_eq!(status.replicas[0].state, "down");
        assert!(hung.hangups() > 0, "the request's connection is closed, as those of probes are");
        assert_eq!(status.replicas[0].breaker, "closed", "the probes judge it, not this request");
        assert_eq!((status.requests.done, status.requests.failed), (1, 0));
    }
}

// If no other replica is left, the client gets 502 at once, with the reason.
#[tokio::test(start_paused = true)]
async fn nowhere_else() {
    let hung = Replica::start().await;
    let region = region(&[&hung]).await;
    hang(&hung);
    let began = Instant::now();
    let answer = call(region.listen, chat("hi")).await;
    assert_eq!((answer.status, answer.code().as_str()), (502, "retries_exhausted"));
    assert!(answer.text().contains("stopped answering its probes"), "{}", answer.text());
    assert!(began.elapsed() < 3000 * MS, "{:?}", began.elapsed());
    region.settled().await;
}

// An answer that has started is broken off when its replica is down and silent for timeouts.down: a
// stream with an error event, a non-streamed answer with a cut, an engine's refusal too.
#[tokio::test(start_paused = true)]
async fn begun_is_broken_off() {
    let half = "HTTP/1.1 400 Bad\r\ncontent-length: 99\r\n\r\n{";
    let ways = [
        (Script::sse().event(EVENT).hang(), true),
        (Script::unfinished().hang(), false),
        (Script::default().send(half).hang(), false),
    ];
    for (said, streams) in ways {
        let (hung, good) = (Replica::start().await, Replica::start().await);
        let region = region(&[&hung, &good]).await;
        hung.then(said);
        hung.answers_probes(false);
        let began = Instant::now();
        let request = if streams { stream_chat("hi") } else { chat("hi") };
        let answer = call(region.listen, request).await;
        let took = began.elapsed();
        assert!(took >= 2000 * MS && took < 5000 * MS, "{took:?}");
        assert_eq!(answer.cut, !streams);
        if streams {
            let last = events(answer.text()).last().unwrap().to_string();
            assert!(last.contains("replica_failed") && last.contains("timeouts.down"), "{last}");
        }
        region.settled().await;
    }
}

// If resume is set, the stream is resumed on another replica after the same grace period.
#[tokio::test(start_paused = true)]
async fn begun_goes_on_elsewhere() {
    let (hung, good) = (Replica::start().await, Replica::start().await);
    let region = Region::with(&[&hung, &good], |c| {
        c.timeouts.probe = Span::millis(200);
        c.timeouts.down = Span::secs(2);
        c.resume = Some(meridian_config::Resume::default());
    })
    .await;
    hung.then(Script::sse().event(EVENT).hang());
    hung.answers_probes(false);
    good.always(Script::stream(&[EVENT, "data: [DONE]\n\n"], MS));
    let began = Instant::now();
    let answer = call(region.listen, stream_chat("hi")).await;
    assert!(began.elapsed() < 5000 * MS, "{:?}", began.elapsed());
    assert_eq!(events(answer.text()).last(), Some(&"[DONE]"), "{}", answer.text());
    assert_eq!(region.settled().await.requests.done, 1);
}

// A replica that is down but keeps sending its answer may finish: only silence is broken off. Once
// it is up, its later answers have the full timeouts.idle again.
#[tokio::test(start_paused = true)]
async fn answers_that_flow_are_left_alone() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| {
        c.timeouts.probe = Span::millis(200);
        c.timeouts.down = Span::secs(2);
        c.probe.down_after = 1;
    })
    .await;
    let mut script = Script::sse().event(EVENT).wait(1500 * MS);
    for _ in 0..6 {
        script = script.event(EVENT).wait(1500 * MS);
    }
    replica.then(script.event(EVENT).wait(9000 * MS).event("data: [DONE]\n\n").send("0\r\n\r\n"));
    let mut answer = open(region.listen, stream_chat("hi")).await;
    replica.answers_probes(false);
    region.until("it is down", |s| s.replicas[0].state == "down").await;
    tokio::time::sleep(8000 * MS).await;
    replica.answers_probes(true);
    region.until("it is up", |s| s.replicas[0].state == "up").await;
    answer.read_to("[DONE]").await;
    drop(answer);
    assert_eq!(region.settled().await.requests.done, 1);
}

// A replica that hung and recovered takes requests as before.
#[tokio::test(start_paused = true)]
async fn back_again() {
    let (hung, good) = (Replica::start().await, Replica::start().await);
    let region = region(&[&hung, &good]).await;
    hang(&hung);
    assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    region.until("it is down", |s| s.replicas[0].state == "down").await;
    hung.always(Script::json(200, "{}"));
    hung.answers_probes(true);
    region.until("it is up", |s| s.replicas[0].state == "up").await;
    let mut picks = Vec::new();
    for _ in 0..2 {
        let answer = call(region.listen, chat("hi")).await;
        assert_eq!(answer.status, 200);
        picks.push(answer.header("x-meridian-replica").to_owned());
    }
    picks.sort();
    assert_eq!(picks, ["r0", "r1"]);
}

// A draining replica that hangs keeps its last requests no longer than any other.
#[tokio::test(start_paused = true)]
async fn draining_and_hung() {
    let (hung, good) = (Replica::start().await, Replica::start().await);
    let region = region(&[&hung, &good]).await;
    hung.always(Script::silence());
    let listen = region.listen;
    let asked = tokio::spawn(async move { call(listen, chat("hi")).await });
    region.until("it has the request", |s| s.replicas[0].outstanding == 1).await;
    assert_eq!(region.admin("DELETE", "/admin/replicas/r0?drain=true", "").await.status, 202);
    hung.answers_probes(false);
    let answer = asked.await.unwrap();
    assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, "r1"));
    region.until("it left", |s| s.replicas.len() == 1).await;
}

// Answers from before a replica hung do not excuse its first missed probe.
#[tokio::test(start_paused = true)]
async fn old_answers_are_no_sign_of_life() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| {
        c.timeouts.probe = Span::millis(200);
        c.probe.down_after = 1;
        c.probe.idle = Span::secs(10);
        c.probe.busy = Span::secs(10);
        c.probe.stale = Span::secs(20);
    })
    .await;
    tokio::time::sleep(15_000 * MS).await;
    for _ in 0..3 {
        assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    }
    hang(&replica);
    // Long enough for one probe, but not for a second.
    tokio::time::sleep(11_000 * MS).await;
    assert_eq!(region.status().await.replicas[0].state, "down");
}
