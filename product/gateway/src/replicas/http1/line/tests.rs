use std::sync::atomic::AtomicBool;

use http::HeaderMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::http::parts::Parts;

/// A connection, and its other end.
async fn pair() -> (Line, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
    let (far, _) = far.expect("it connects");
    far.set_nodelay(true).expect("it is open");
    (Line::new(Socket::Plain(near.expect("it connects"))), far)
}

async fn ask(line: &mut Line, body: &Parts) -> Result<response::Parts, Unanswered> {
    let headers = &HeaderMap::new();
    let cut = &AtomicBool::new(false);
    let request = Request { method: &Method::POST, path: "/", headers, added: &[], body, cut };
    line.ask(request, Host { authority: "replica", key: None }).await
}

async fn piece(line: &mut Line) -> Option<Result<Bytes, Broken>> {
    poll_fn(|cx| line.poll_piece(cx)).await
}

/// The rest of a body, and why it ended if that was too early.
async fn rest(line: &mut Line) -> (Vec<u8>, Option<Broken>) {
    let mut all = Vec::new();
    loop {
        match piece(line).await {
            None => return (all, None),
            Some(Ok(piece)) => all.extend_from_slice(&piece),
            Some(Err(error)) => return (all, Some(error)),
        }
    }
}

async fn silent(line: &mut Line) -> bool {
    poll_fn(|cx| Poll::Ready(line.is_silent(cx))).await
}

/// Lets the other end write `text` in two pieces, the first of `at` bytes.
async fn answer(far: &mut TcpStream, text: &[u8], at: usize) {
    let mut asked = [0; 4096];
    assert!(far.read(&mut asked).await.expect("it is open") > 0);
    far.write_all(&text[..at]).await.expect("it is open");
    tokio::task::yield_now().await;
    far.write_all(&text[at..]).await.expect("it is open");
}

// Wherever the answer is cut, it is the same, and the connection carries the next one. The interim
// answers before it are skipped.
#[tokio::test]
async fn an_answer_in_two_reads() {
    let text = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n\
        HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    let (mut line, mut far) = pair().await;
    for at in 1..text.len() {
        let body = Parts::single(Bytes::from_static(b"ask"));
        let (head, ()) = tokio::join!(ask(&mut line, &body), answer(&mut far, text, at));
        let head = head.ok().expect("it is answered");
        assert_eq!(head.status, StatusCode::CREATED, "{at}");
        let (body, broken) = rest(&mut line).await;
        assert_eq!((&body[..], broken.is_none()), (&b"abcde"[..], true), "{at}");
        assert!(line.is_reusable() && silent(&mut line).await, "{at}");
    }
}

// Chunks that arrive together are one piece.
#[tokio::test]
async fn chunks_are_joined() {
    let text = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n";
    let (mut line, mut far) = pair().await;
    let body = Parts::default();
    let (head, ()) = tokio::join!(ask(&mut line, &body), answer(&mut far, text, 47));
    assert!(head.is_ok() && !line.is_over());
    assert_eq!(piece(&mut line).await.expect("more").expect("well-formed"), "ab");
    far.write_all(b"1\r\nc\r\n1\r\nd\r\n0\r\n\r\n").await.expect("it is open");
    assert_eq!(piece(&mut line).await.expect("more").expect("well-formed"), "cd");
    // The end came with the last piece, so no further poll is needed to see it.
    assert!(line.is_reusable());
}

// None of these connections carries another request.
#[tokio::test]
async fn connections_that_end_with_their_answer() {
    for (text, expected) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n", "ok"),
        ("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok", "ok"),
        ("HTTP/1.1 200 OK\r\n\r\nuntil closed", "until closed"),
        ("HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", "ok"),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", ""),
    ] {
        let (mut line, mut far) = pair().await;
        let body = Parts::default();
        let (head, ()) = tokio::join!(ask(&mut line, &body), answer(&mut far, text.as_bytes(), 9));
        assert!(head.is_ok(), "{text:?}");
        drop(far);
        let (got, broken) = rest(&mut line).await;
        assert_eq!((&got[..], broken.is_none()), (expected.as_bytes(), true), "{text:?}");
        assert!(!line.is_reusable(), "{text:?}");
    }
}

// A connection that ends within an answer has been cut; bytes that are not HTTP are another matter.
#[tokio::test]
async fn broken_answers() {
    for (text, body, cut) in [
        ("", None, true),
        ("HTTP/1.1 200 OK\r\ncontent-le", None, true),
        ("garbage\r\n\r\n", None, false),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc", Some("abc"), true),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n", Some("abc"), true),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nx", Some("abc"), false),
    ] {
        let (mut line, mut far) = pair().await;
        let nothing = Parts::default();
        // The other end closes after it has written, or the reader would wait for more.
        let end = async {
            answer(
                &mut far,
                text.as_bytes(),
                text.rfind("abc").map_or(0, |at| at + 5).min(text.len()),
            )
            .await;
            drop(far);
        };
        let (head, ()) = tokio::join!(ask(&mut line, &nothing), end);
        let error = match (head, body) {
            (Err(unanswered), None) => {
                assert!(!unanswered.unsent, "{text:?}");
                unanswered.error
            }
            (Ok(_), Some(expected)) => {
                let (got, broken) = rest(&mut line).await;
                assert_eq!(got, expected.as_bytes(), "{text:?}");
                broken.expect("it is broken")
            }
            (head, _) => panic!("{text:?}: answered {}", head.is_ok()),
        };
        assert_eq!(error.is_cut(), cut, "{text:?}: {error}");
        assert!(!line.is_reusable(), "{text:?}");
    }
}

// What cannot become a head is refused before its line or the connection ends.
#[tokio::test]
async fn a_head_that_is_none() {
    for (text, at) in [("Hello", 1), ("HTTP/9.9 200 OK", 5), ("HTTP/1.1 200 OK\r\nab\x01cd ", 19)] {
        let (mut line, mut far) = pair().await;
        let nothing = Parts::default();
        let (head, ()) =
            tokio::join!(ask(&mut line, &nothing), answer(&mut far, text.as_bytes(), at));
        let error = head.expect_err("it is no head").error;
        assert!(!error.is_cut(), "{text:?}: {error}");
    }
}

// A long head that arrives byte by byte is read.
#[tokio::test]
async fn a_head_in_single_bytes() {
    let text = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(1000));
    let (mut partial, mut begun) = (Partial::default(), None);
    for (at, byte) in text.bytes().enumerate() {
        assert!(begun.is_none(), "complete after {at} bytes");
        begun = partial.take(&[byte], &Method::GET).expect("it is a head");
    }
    assert_eq!(begun.expect("it is complete").parts.headers["x"].len(), 1000);
}

// A replica may refuse a body that it has not read. The connection is not used again.
#[tokio::test]
async fn an_answer_before_the_body_is_sent() {
    let (mut line, mut far) = pair().await;
    let body = Parts::single(Bytes::from(vec![b'x'; 64 << 20]));
    let text = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 2\r\n\r\nno";
    let (head, ()) = tokio::join!(ask(&mut line, &body), answer(&mut far, text, 0));
    assert_eq!(head.ok().expect("it is answered").status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(rest(&mut line).await.0, b"no");
    assert!(line.is_over() && !line.is_reusable());
}

// Bytes and the end of a connection are seen between two answers, also before the runtime notices
// them.
#[tokio::test]
async fn a_connection_that_is_not_silent() {
    let (mut line, mut far) = pair().await;
    assert!(silent(&mut line).await);
    far.write_all(b"x").await.expect("it is open");
    assert!(!silent(&mut line).await);
    let (mut line, far) = pair().await;
    drop(far);
    assert!(!silent(&mut line).await);
}
