//! A real llama.cpp server is killed in mid-run: what was on it ends as promised, counted exactly.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{LIMIT, chat, fleet, llamacpp, must, status, status_when, text, up};
use meridian_lab::llamacpp::ServerSpec;
use meridian_lab::{Client, GatewaySpec};
use meridian_wire::admin::Replica;
use tokio::sync::watch;
use tokio::task::JoinSet;

const REPLICAS: usize = 3;
/// Requests that a server runs at once; more than that wait in it.
const SLOTS: u32 = 2;
/// Six to a replica: two streaming, four without a byte.
const REQUESTS: u64 = 18;
/// Enough that none ends while the test looks for a replica to kill.
const TOKENS: u32 = 500;

/// Streams that have begun, by replica.
type Begun = BTreeMap<String, u32>;

/// How a request ended at the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// A whole stream.
    Done,
    /// An error event within the stream, which then ended in good order.
    ErrorEvent,
    /// Anything else: a status, a broken connection, a stream that just stops.
    Wrong,
}

/// What the client saw of a request.
#[derive(Debug)]
struct Seen {
    /// Where the answer came from, by its header.
    replica: String,
    end: End,
    note: String,
}

/// Sends one request and reads it to its end; counts it in `began` when its first piece is here.
async fn ask(client: Client, url: String, n: u64, began: Arc<watch::Sender<Begun>>) -> Seen {
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
                    began.send_modify(|begun| *begun.entry(replica.clone()).or_default() += 1);
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

// Eighteen streams over three servers of two slots, so that on each some stream and some wait
// without a byte out. The first server whose slots all stream is killed. Its streams end with an error
// event, all others end well, wherever they then run, and the gateway's counts say the same to the
// last request.
#[tokio::test]
async fn a_killed_replica_costs_only_the_streams_that_had_begun() {
    let (fleet, client, installed) = (fleet(), Client::new(), llamacpp().await);
    let spec = ServerSpec { slots: SLOTS, context: 2048, port: 0 };
    let mut servers = Vec::new();
    for n in 0..REPLICAS {
        servers.push(must(fleet.llamacpp(&format!("server-{n}"), &installed, spec).await));
    }
    let spec = GatewaySpec {
        // Everything is pushed at once and evenly, so that requests wait in the servers.
        policy: "round_robin".into(),
        admission: Some("blind".into()),
        replicas: servers.iter().map(|server| server.said(0).to_owned()).collect(),
        ..GatewaySpec::default()
    };
    let gateway = must(fleet.gateway("gateway", &spec).await);
    status_when(&client, &gateway, "all replicas up", up(REPLICAS)).await;

    let (began, mut streaming) = watch::channel(Begun::new());
    let began = Arc::new(began);
    let mut requests = JoinSet::new();
    for n in 0..REQUESTS {
        requests.spawn(ask(client.clone(), gateway.url.clone(), n, began.clone()));
    }
    status_when(&client, &gateway, "all requests dispatched", |status| {
        status.replicas.iter().map(|replica| replica.dispatched).sum::<u64>() == REQUESTS
    })
    .await;
    let busy = |begun: &Begun| begun.iter().find(|(_, n)| **n >= SLOTS).map(|(id, _)| id.clone());
    let begun =
        streaming.wait_for(|begun| busy(begun).is_some()).await.expect("streams run").clone();
    let replica = busy(&begun).expect("it was waited for");
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

    // The gateway's account is the client's.
    let r = status.requests;
    assert_eq!((r.accepted, r.done, r.failed), (REQUESTS, done, broken), "{r:?}");
    assert_eq!((r.client_error, r.rejected, r.cancelled), (0, 0, 0), "{r:?}");
    // What was on the killed server and not done there failed there: streams that had begun, and
    // those without a byte, each of which was dispatched once more.
    let of_killed = status.replicas.iter().find(|replica| replica.url == killed).unwrap();
    let sum = |of: fn(&Replica) -> u64| status.replicas.iter().map(of).sum::<u64>();
    let again = sum(|replica| replica.dispatched) - REQUESTS;
    assert_eq!(sum(|replica| replica.failed), broken + again, "{status:#?}");
    assert!(of_killed.failed > broken, "nothing waited without a byte: {status:#?}");
    assert_eq!(of_killed.dispatched, of_killed.done + of_killed.failed, "{status:#?}");
    assert!(status.replicas.iter().all(|replica| replica.outstanding == 0), "{status:#?}");
}
