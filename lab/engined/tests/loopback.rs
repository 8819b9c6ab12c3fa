//! The served engine over real sockets: behaviour that paused time and pipes do not show.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Client, chat, events, options, read};
use http_body_util::BodyExt;
use meridian_engined::{Options, Service, Transfer, serve};
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;
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

// KV crosses a real socket, as often as it is asked for, and the held blocks are released.
#[tokio::test]
async fn kv_crosses_a_socket() {
    let start = || {
        let lease = Duration::from_secs(3600);
        let transfer = Some(Transfer { link_gbps: 1e6, lease, ..Transfer::default() });
        Service::start(Options { transfer, time_scale: 3.0, ..options() }).unwrap()
    };
    let (prefill, decode) = (start(), start());
    let mut to_prefill = Client::connect(&prefill).await;
    let mut to_decode = Client::connect(&decode).await;
    for round in 0..4 {
        let prompt = format!("{round} {}", "long ".repeat(2000));
        let params = json!({"do_remote_decode": true});
        let leg = |max: u32, params: &serde_json::Value| {
            json!({"prompt": prompt, "max_tokens": max, "kv_transfer_params": params}).to_string()
        };
        let (_, answer) = to_prefill.json("/v1/completions", &leg(1, &params)).await;
        let params = &answer["kv_transfer_params"];
        assert_eq!(params["remote_port"], prefill.side_channel().unwrap().port());
        let (status, _) = to_decode.json("/v1/completions", &leg(4, params)).await;
        assert_eq!(status, 200, "round {round}");
    }
    let received = to_decode.metric("meridian_engine_kv_received_bytes_total").await;
    assert_eq!(received, to_prefill.metric("meridian_engine_kv_sent_bytes_total").await);
    assert_eq!(received, 4.0 * 157.0 * 2048.0);
    // The last release arrives after the answer, so the test can only poll.
    while to_prefill.metric("vllm:kv_cache_usage_perc").await > 0.0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(to_prefill.metric("vllm:nixl_num_kv_expired_reqs_total").await, 0.0);
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
