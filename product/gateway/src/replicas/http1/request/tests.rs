use http::header::{ACCEPT, CONTENT_TYPE};
use tokio::io::AsyncReadExt;

use super::*;
use crate::http::headers::{REQUEST_ID, TTFT_SLO};

fn parts(texts: &[&'static str]) -> Parts {
    Parts::new(texts.iter().map(|text| Bytes::from_static(text.as_bytes())).collect())
}

static CUT: AtomicBool = AtomicBool::new(false);
const HOST: Host<'_> = Host { authority: "replica:8000", key: None };

// Fields in `added` and the replica's key replace the client's, whichever it sent.
#[test]
fn heads() {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        (CONTENT_TYPE, "application/json"),
        (AUTHORIZATION, "Bearer client"),
        (API_KEY, "client"),
        (TTFT_SLO, "900"),
        (super::HOST, "elsewhere"),
        (CONTENT_LENGTH, "7"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.append(ACCEPT, HeaderValue::from_static("a"));
    headers.append(ACCEPT, HeaderValue::from_static("b"));
    let added = [(TTFT_SLO, HeaderValue::from(12)), (REQUEST_ID, HeaderValue::from(3))];
    let key = HeaderValue::from_static("Bearer own");
    let (method, path, body) = (&Method::POST, "/v1/x?a=b", &parts(&["ab", "", "cde"]));
    let request = Request { method, path, headers: &headers, added: &added, body, cut: &CUT };
    let head = request.head(Host { key: Some(&key), ..HOST });
    let mut lines: Vec<_> = std::str::from_utf8(&head).expect("ASCII").split("\r\n").collect();
    assert_eq!(lines[..2], ["POST /v1/x?a=b HTTP/1.1", "host: replica:8000"]);
    lines[2..9].sort_unstable();
    assert_eq!(
        lines[2..],
        [
            "accept: a",
            "accept: b",
            "authorization: Bearer own",
            "content-length: 5",
            "content-type: application/json",
            "x-request-id: 3",
            "x-slo-ttft-ms: 12",
            "",
            ""
        ]
    );
}

// A request without a body has a length only where its method could have one.
#[test]
fn lengths() {
    let (headers, body) = (&HeaderMap::new(), &Parts::default());
    for (method, length) in [(Method::GET, false), (Method::HEAD, false), (Method::POST, true)] {
        let request = Request { method: &method, path: "/", headers, added: &[], body, cut: &CUT };
        let head = request.head(HOST);
        let text = std::str::from_utf8(&head).expect("ASCII");
        assert_eq!(text.contains("content-length: 0"), length, "{method}");
    }
}

// The bytes arrive in order, however few the connection takes at a time.
#[tokio::test]
async fn any_pace() {
    let texts = ["one", "", "two", "three", "4", "5", "6", "7", "8", "9", "10"];
    for pace in [1, 2, 3, 7, 1000] {
        let (headers, body) = (&HeaderMap::new(), &parts(&texts));
        let request =
            Request { method: &Method::POST, path: "/", headers, added: &[], body, cut: &CUT };
        let expected = [&request.head(HOST)[..], texts.concat().as_bytes()].concat();
        let mut sending = Sending::new(request, HOST);
        assert!(sending.is_unsent() && sending.is_open());
        let (mut near, mut far) = tokio::io::duplex(pace);
        let sent = async {
            std::future::poll_fn(|cx| sending.poll(&mut near, cx)).await.expect("it is read");
            drop(near);
        };
        let mut got = Vec::new();
        let (read, ()) = tokio::join!(far.read_to_end(&mut got), sent);
        read.expect("it is sent");
        assert_eq!(got, expected, "{pace}");
        assert!(sending.is_done() && !sending.is_unsent());
    }
}

// Nothing was sent, so another connection may get the request.
#[tokio::test]
async fn a_closed_connection_gets_nothing() {
    let taken = Taken::default();
    let (headers, body) = (&HeaderMap::new(), &parts(&["body"]).noting(Some(taken.clone())));
    let request =
        Request { method: &Method::POST, path: "/", headers, added: &[], body, cut: &CUT };
    let mut sending = Sending::new(request, HOST);
    let (mut near, far) = tokio::io::duplex(64);
    drop(far);
    let sent = std::future::poll_fn(|cx| sending.poll(&mut near, cx)).await;
    sent.expect_err("it is closed");
    assert!(sending.is_unsent() && !sending.is_open() && !sending.is_done() && !taken.is_any());
    let mut sending = Sending::new(request, HOST);
    let (mut near, _far) = tokio::io::duplex(1);
    let sent = std::future::poll_fn(|cx| Poll::Ready(sending.poll(&mut near, cx))).await;
    assert!(sent.is_pending() && !sending.is_unsent() && taken.is_any());
}
