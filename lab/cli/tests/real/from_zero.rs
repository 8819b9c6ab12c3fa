//! A model that is scaled to zero, with real processes: clients that wait for the first engine, and
//! streams that run while the last one leaves.

use std::path::Path;

use crate::common::{chat, fleet, must, status_when, up};
use meridian_fleet::{Client, EngineSpec, Gateway, Process, Stream};
use tokio::task::JoinSet;

const MODEL: &str = "llama-3.1-8b";
const CLIENTS: usize = 50;

/// The file that lists the replicas, replaced as a whole.
fn list(path: &Path, engines: &[&Process]) {
    let lines = engines.iter().map(|engine| format!("- url: {}\n", engine.said(0)));
    let text: String = lines.collect();
    let beside = path.with_extension("new");
    std::fs::write(&beside, if text.is_empty() { "[]\n" } else { &text }).expect("writes");
    std::fs::rename(&beside, path).expect("renames");
}

async fn open(url: &str, tokens: u32) -> Stream {
    let body = chat("hello", tokens, true).replace("meridian-tiny", MODEL);
    must(Client::new().open(&format!("{url}/v1/chat/completions"), body, &[]).await)
}

/// Reads a stream to its end; how many pieces came.
async fn ended(mut stream: Stream) -> u32 {
    assert_eq!(stream.status, 200);
    let (mut pieces, mut done) = (0, false);
    while let Some(event) = must(stream.next().await) {
        assert!(!event.is_error(), "{}", event.data);
        done |= event.is_done();
        pieces += 1;
    }
    assert!(done, "the stream breaks off after {pieces} pieces");
    pieces
}

// Fifty clients wait for a model without a replica. An engine starts, and each gets its answer once. Then
// the engine is taken from the list while streams run: all end whole, and the next request waits for an
// engine again.
#[tokio::test]
async fn fifty_clients_wait_for_the_first_engine() {
    let (fleet, client) = (fleet(), Client::new());
    let (file, replicas) = (fleet.dir().join("gateway.yaml"), fleet.dir().join("replicas.yaml"));
    list(&replicas, &[]);
    let yaml = format!(
        "version: 1\nlisten: 127.0.0.1:0\nadmin: 127.0.0.1:0\ndiscovery: [{{file: {}}}]\n\
         models: {{{MODEL}: {{scale_from_zero: 10m, stream_keep_alive: 1s}}}}\n",
        replicas.display()
    );
    std::fs::write(&file, yaml).expect("writes");
    let args = ["gateway".as_ref(), "-c".as_ref(), file.as_os_str()];
    let process = must(fleet.meridian("gateway", args, &["listening on ", "admin on "]).await);
    let (url, admin) = (process.said(0).to_owned(), process.said(1).to_owned());
    let gateway = Gateway { process, url, admin, peers: None };
    assert_eq!(must(client.get(&format!("{}/ready", gateway.url)).await).status, 200);

    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let url = gateway.url.clone();
        clients.spawn(async move { ended(open(&url, 8).await).await });
    }
    let all_wait =
        |held: usize| move |s: &meridian_protocol::admin::Status| s.held as usize == held;
    status_when(&client, &gateway, "all clients wait", all_wait(CLIENTS)).await;
    let spec = EngineSpec { time_scale: 4.0, ..EngineSpec::default() };
    let engine = must(fleet.engine("engine", &spec).await);
    list(&replicas, &[&engine]);
    let pieces = clients.join_all().await;
    assert!(pieces.len() == CLIENTS && pieces.iter().all(|pieces| *pieces >= 8), "{pieces:?}");
    let rest = |s: &meridian_protocol::admin::Status| s.requests.in_flight == 0;
    let status = status_when(&client, &gateway, "nothing is left", rest).await;
    let requests = status.requests;
    assert_eq!((requests.done, requests.failed, requests.rejected), (CLIENTS as u64, 0, 0));
    assert_eq!(status.replicas[0].done, CLIENTS as u64, "each was sent once");

    let mut running = JoinSet::new();
    for _ in 0..8 {
        let mut stream = open(&gateway.url, 400).await;
        assert!(must(stream.next().await).is_some());
        running.spawn(ended(stream));
    }
    list(&replicas, &[]);
    status_when(&client, &gateway, "no replica takes requests", up(0)).await;
    let next = gateway.url.clone();
    let next = tokio::spawn(async move { ended(open(&next, 8).await).await });
    status_when(&client, &gateway, "the next one waits", all_wait(1)).await;
    assert!(running.join_all().await.iter().all(|pieces| *pieces >= 399));
    status_when(&client, &gateway, "the engine has left", |s| s.replicas.is_empty()).await;
    list(&replicas, &[&engine]);
    assert!(next.await.expect("no panic") >= 8);
}
