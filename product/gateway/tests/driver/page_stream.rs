//! The stream of the page's state: what its events have, when it ends, and readers that do not read.

use std::time::Duration;

use http::Request;
use http_body_util::Full;
use meridian_config::KeyHash;
use meridian_protocol::admin::Snapshot;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::admin_browser::raw;
use crate::common::{Open, Region, Replica, config, open};

const TOKEN: &str = "mk-0123456789abcdefghij";

async fn stream(region: &Region, headers: &[(&str, &str)]) -> Open {
    let host = region.admin.to_string();
    let mut request = Request::builder().uri("/admin/page/stream").header("host", host);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    open(region.admin, request.body(Full::new(bytes::Bytes::new())).unwrap()).await
}

async fn next(stream: &mut Open) -> Snapshot {
    let text = stream.read_to("\n\n").await;
    let json = text.strip_prefix("data: ").unwrap_or_else(|| panic!("{text}"));
    serde_json::from_str(json.trim_end()).unwrap()
}

// The first event has all points, later ones the newest, and there is about one a second.
#[tokio::test(start_paused = true)]
async fn events_bring_the_newest_points() {
    let region = Region::of(&[&Replica::start().await]).await;
    tokio::time::sleep(Duration::from_secs(65)).await;
    let mut events = stream(&region, &[]).await;
    let first = next(&mut events).await;
    assert!((6..=8).contains(&first.points.len()), "{:?}", first.points);
    let mut last = first.clone();
    for _ in 0..30 {
        let event = next(&mut events).await;
        assert!((1..=2).contains(&event.points.len()), "{:?}", event.points);
        assert!(event.points.last().unwrap().at_s >= last.points.last().unwrap().at_s);
        last = event;
    }
    assert!(last.state.status.uptime_s > first.state.status.uptime_s + 28.0);
}

// A stream ends with its session.
#[tokio::test(start_paused = true)]
async fn a_log_out_ends_the_stream() {
    let replica = Replica::start().await;
    let mut config = config(&[&replica]);
    config.admin_access.tokens = vec![KeyHash::of(TOKEN.as_bytes())];
    let region = Region::start(config).await;
    let host = region.admin.to_string();
    let (host, json) = (("host", host.as_str()), ("content-type", "application/json"));
    let body = format!(r#"{{"token":"{TOKEN}"}}"#);
    let session = raw(&region, "POST", "/login", &body, &[host, json]).await;
    let cookie = ("cookie", session.header("set-cookie").split(';').next().unwrap());
    let mut events = stream(&region, &[cookie]).await;
    next(&mut events).await;
    assert_eq!(raw(&region, "POST", "/logout", "", &[host, cookie]).await.status, 200);
    let mut pieces = 0;
    while events.piece().await.is_some() {
        pieces += 1;
        assert!(pieces < 3, "the stream goes on after the log-out");
    }
}

// Readers that take nothing leave the others their events, and there are at most 32 pages. A closed one gives its
// place back.
#[tokio::test(start_paused = true)]
async fn readers_are_bounded_and_apart() {
    let region = Region::of(&[&Replica::start().await]).await;
    let mut idle = Vec::new();
    for _ in 0..31 {
        let mut one = TcpStream::connect(region.admin).await.unwrap();
        let request = format!("GET /admin/page/stream HTTP/1.1\r\nhost: {}\r\n\r\n", region.admin);
        one.write_all(request.as_bytes()).await.unwrap();
        // The head of the answer; the rest is not read.
        one.read_exact(&mut [0; 12]).await.unwrap();
        idle.push(one);
    }
    let mut events = stream(&region, &[]).await;
    let before = next(&mut events).await.state.status.uptime_s;
    for _ in 0..20 {
        next(&mut events).await;
    }
    assert!(next(&mut events).await.state.status.uptime_s > before + 19.0);
    let refused = region.admin("GET", "/admin/page/stream", "").await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "too_many_pages"));
    drop(idle);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut again = stream(&region, &[]).await;
    next(&mut again).await;
}
