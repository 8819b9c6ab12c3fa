//! The served engine over real sockets: behaviour that paused time and pipes do not show.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Client, chat, events, options, read};
use http_body_util::BodyExt;
use meridian_engined::serve;
use std::net::SocketAddr;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

// After the shutdown signal new connections are refused, a running stream continues to its last
// event, and serve returns.
#[tokio::test]
async fn shutdown_finishes_what_runs() {
    let mut options = options();
    options.time_scale = 200.0;
    let (ready, address) = oneshot::channel::<SocketAddr>();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(serve(options, |at| ready.send(at).unwrap(), stopped));
    let address = address.await.unwrap();
    let mut client = Client::over(TcpStream::connect(address).await.unwrap()).await;
    let body = chat(&[("user", "hello")], r#","max_tokens":500,"stream":true"#);
    let mut response = client.post("/v1/chat/completions", &body).await;
    response.body_mut().frame().await.unwrap().unwrap();
    stop.send(()).unwrap();
    let (_, rest) = read(response).await;
    assert_eq!(events(&rest).last(), Some(&"[DONE]"));
    server.await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

// A connection cut in mid-stream aborts its request: running and pending return to 0.
#[tokio::test]
async fn a_cut_connection_is_aborted() {
    let (ready, address) = oneshot::channel::<SocketAddr>();
    let (_stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(serve(options(), |at| ready.send(at).unwrap(), stopped));
    let address = address.await.unwrap();
    let mut client = Client::over(TcpStream::connect(address).await.unwrap()).await;
    let body = chat(&[("user", "hello")], r#","max_tokens":10000,"stream":true"#);
    let mut response = client.post("/v1/chat/completions", &body).await;
    response.body_mut().frame().await.unwrap().unwrap();
    drop(response);
    drop(client);
    let mut watcher = Client::over(TcpStream::connect(address).await.unwrap()).await;
    let aborted = "vllm:request_success_total{engine=\"0\",finished_reason=\"abort\"";
    // The system notifies the server of the cut at some point, so the test can only poll.
    while watcher.metric(aborted).await < 1.0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(watcher.metric("vllm:num_requests_running").await, 0.0);
    assert_eq!(watcher.metric("vllm:num_requests_waiting").await, 0.0);
}

// Inconsistent options are reported before anything is served.
#[tokio::test]
async fn bad_options_are_refused() {
    let refused = |change: fn(&mut meridian_engined::Options)| async move {
        let mut options = options();
        change(&mut options);
        serve(options, |_| (), std::future::ready(())).await.unwrap_err().to_string()
    };
    assert!(refused(|o| o.time_scale = 0.0).await.contains("time scale 0"));
    assert!(refused(|o| o.name = "a\nb".to_owned()).await.contains("name"));
    assert!(refused(|o| o.engine.max_num_seqs = 0).await.contains("max_num_seqs 0"));
    assert!(refused(|o| o.listen = ([192, 0, 2, 1], 1).into()).await.contains("192.0.2.1:1"));
}
