//! A real llama.cpp server is killed under load: its requests end as documented, counted exactly.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{LIMIT, chat, fleet, llamacpp, must, status, status_when, text, up};
use meridian_fleet::llamacpp::ServerSpec;
use meridian_fleet::{Client, GatewaySpec};
use meridian_protocol::admin::Replica;
use tokio::sync::watch;
use tokio::task::JoinSet;

const REPLICAS: usize = 3;
/// Requests that a server runs at once; further ones wait in its queue.
const SLOTS: u32 = 2;
/// Six for each replica: two streaming, four without a byte.
const REQUESTS: u64 = 18;
/// Enough that no request ends before the test has found a replica to kill.
const TOKENS: u32 = 500;

/// Streams that have started, by replica.
type Started = BTreeMap<String, u32>;

/// How a request ended at the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// A whole stream.
    Done,
    /// An error event within the stream, which then ended properly.
    ErrorEvent,
    /// Anything else: a status, a broken connection, a stream that just stops.
    Wrong,
}

/// The client's view of a request.
#[derive(Debug)]
struct Seen {
    /// The replica that answered, from the header of the answer.
    replica: String,
    end: End,
    note: String,
}

/// Sends one request and reads its answer; counts it in `started` when the first piece arrives.
async fn ask(client: Client, url: String, n: u64, started: Arc<watch::Sender<Started>>) -> Seen {
    let body = chat(&text(n, 40), TOKENS, true);
    let mut stream = match client.open(&format!("{url}/v1/chat/completions"), body, &[]).await {
        Ok(stream) => stream,
        Err(error) => return seen("", End::Wrong, error),
    };
    let replica = stream.header("x-meridian-replica").unwrap_or_default().to_owned();
    if stream.status != 200 {
        return seen(&replica, End::Wrong, stream.status);
    }
    let (mut first, mut done, mut error) = (true, false, None);
    loop {
        match stream.next().await {
            Ok(Some(event)) if event.is_error() => error = Some(event.data),
            Ok(Some(event)) => {
                done |= event.is_done();
                if std::mem::take(&mut first) {
                    started.send_modify(|all| *all.entry(replica.clone()).or_default() += 1);
                }
            }
            Ok(None) => break,
            Err(error) => return seen(&replica, End::Wrong, error),
        }
    }
    match error {
        None if done => seen(&replica, End::Done, ""),
        None => seen(&replica, End::Wrong, "no end mark"),
        Some(error) => seen(&replica, End::ErrorEvent, error),
    }
}

fn seen(replica: &str, end: End, note: impl ToString) -> Seen {
    Seen { replica: replica.to_owned(), end, note: note.to_string() }
}

// Eighteen streams run on three servers with two slots, so that on each server some stream and some
// wait without a byte sent. The first server whose slots all stream is killed. Its streams end with
// an error event, and all other requests succeed, on any server. The gateway's counts agree
// exactly.
#[tokio::test]
async fn a_killed_replica_costs_only_the_streams_that_had_started() {
    let (fleet, client, installed) = (fleet(), Client::new(), llamacpp().await);
    let spec = ServerSpec { slots: SLOTS, context: 2048, port: 0 };
    let mut servers = Vec::new();
    for n in 0..REPLICAS {
        servers.push(must(fleet.llamacpp(&format!("server-{n}"), &installed, spec).await));
    }
    let spec = GatewaySpec {
        // All requests are dispatched at once and evenly, so that some wait in the servers.
        policy: "round_robin".into(),
        admission: Some("blind".into()),
        replicas: servers.iter().map(|server| server.said(0).to_owned()).collect(),
        ..GatewaySpec::default()
    };
    let gateway = must(fleet.gateway("gateway", &spec).await);
    status_when(&client, &gateway, "all replicas up", up(REPLICAS)).await;

    let (started, mut streaming) = watch::channel(Started::new());
    let started = Arc::new(started);
    let mut requests = JoinSet::new();
    for n in 0..REQUESTS {
        requests.spawn(ask(client.clone(), gateway.url.clone(), n, started.clone()));
    }
    status_when(&client, &gateway, "all requests dispatched", |status| {
        status.replicas.iter().map(|replica| replica.dispatched).sum::<u64>() == REQUESTS
    })
    .await;
    let busy = |all: &Started| all.iter().find(|(_, n)| **n >= SLOTS).map(|(id, _)| id.clone());
    let all = streaming.wait_for(|all| busy(all).is_some()).await.expect("streams run").clone();
    let replica = busy(&all).expect("it was waited for");
    let before = status(&client, &gateway).await;
    let killed = before.replicas.iter().find(|row| replica == format!("r{}", row.id));
    let killed = killed.unwrap_or_else(|| panic!("{replica} names no replica")).url.clone();
    let victim = servers.iter_mut().find(|server| server.said(0) == killed).unwrap();
    must(victim.kill().await);

    let all = tokio::time::timeout(2 * LIMIT, requests.join_all()).await.expect("all end");
    let mut ends = BTreeMap::new();
    for seen in &all {
        assert_ne!(seen.end, End::Wrong, "{}: {}", seen.replica, seen.note);
        if seen.end == End::ErrorEvent {
            assert_eq!(
                seen.replica, replica,
                "only the killed replica's streams may fail: {seen:?}"
            );
        }
        *ends.entry(seen.end).or_insert(0_u64) += 1;
    }
    let idle = status_when(&client, &gateway, "nothing in flight", |s| s.requests.in_flight == 0);
    let status = idle.await;
    let (done, broken) = (ends[&End::Done], ends.get(&End::ErrorEvent).copied().unwrap_or(0));
    println!("{done} done, {broken} ended with an error event");
    assert!(broken > 0 && broken <= u64::from(SLOTS), "the killed server streamed: {ends:?}");
    assert_eq!(done + broken, REQUESTS);

    // The gateway's counts are the client's.
    let r = status.requests;
    assert_eq!((r.accepted, r.done, r.failed), (REQUESTS, done, broken), "{r:?}");
    assert_eq!((r.client_error, r.rejected, r.cancelled), (0, 0, 0), "{r:?}");
    // All requests that were running or waiting on the killed server failed there: streams that had
    // started, and requests without a byte, each of which was dispatched once more.
    let of_killed = status.replicas.iter().find(|replica| replica.url == killed).unwrap();
    let sum = |of: fn(&Replica) -> u64| status.replicas.iter().map(of).sum::<u64>();
    let again = sum(|replica| replica.dispatched) - REQUESTS;
    assert_eq!(sum(|replica| replica.failed), broken + again, "{status:#?}");
    assert!(of_killed.failed > broken, "nothing waited without a byte: {status:#?}");
    assert_eq!(of_killed.dispatched, of_killed.done + of_killed.failed, "{status:#?}");
    assert!(status.replicas.iter().all(|replica| replica.outstanding == 0), "{status:#?}");
}
