//! Answers that don't end by themselves: streams that stay open until `GET /release`.
//!
//! The first word of the prompt chooses the pace: `open` gets an event a second, `fast` as many events
//! of 1 KB as its reader takes. `GET /open` counts the streams and the bytes of their events.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

use super::{asks, chunk};

/// The prompt of a request for a stream with an event a second.
pub const OPEN: &str = "open";
/// The prompt of a request for a stream as fast as its reader.
pub const FAST: &str = "fast";

/// Between two events of an open stream.
const EVERY: Duration = Duration::from_secs(1);
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
const DONE: &str = "data: [DONE]\n\n";

struct StreamState {
    released: watch::Sender<bool>,
    open: AtomicU64,
    ended: AtomicU64,
    /// Bytes of the events that were written.
    bytes: AtomicU64,
}

static STATE: LazyLock<StreamState> = LazyLock::new(|| StreamState {
    released: watch::Sender::new(false),
    open: AtomicU64::new(0),
    ended: AtomicU64::new(0),
    bytes: AtomicU64::new(0),
});

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    EachSecond,
    Fast,
}

/// The pace of the stream that the body asks for; `None` if it asks for another answer.
pub(super) fn wanted(body: &[u8]) -> Option<Pace> {
    let prompt = |word| asks(body, "\"content\"", word);
    match asks(body, "\"stream\"", "true") {
        true if prompt("\"open\"") => Some(Pace::EachSecond),
        true if prompt("\"fast\"") => Some(Pace::Fast),
        _ => None,
    }
}

/// Ends all open streams, and every later one at once.
pub(super) fn release() {
    STATE.released.send_replace(true);
}

/// Open streams, streams that ended as they should, and bytes of all events.
pub(super) fn counts() -> String {
    let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
    format!("{} {} {}", of(&STATE.open), of(&STATE.ended), of(&STATE.bytes))
}

/// Counts an open stream, also if its reader leaves.
struct Opened;

impl Opened {
    fn new() -> Opened {
        STATE.open.fetch_add(1, Ordering::Relaxed);
        Opened
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        STATE.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Writes a stream until the release.
pub(super) async fn serve(
    socket: &mut (impl AsyncWrite + Unpin),
    pace: Pace,
) -> std::io::Result<()> {
    let _opened = Opened::new();
    let mut released = STATE.released.subscribe();
    let event = event(if pace == Pace::Fast { " token".repeat(150) } else { " token".into() });
    let write = chunk(&event);
    let mut every = tokio::time::interval(EVERY);
    socket.write_all(HEAD).await?;
    while !*released.borrow_and_update() {
        if pace == Pace::EachSecond {
            tokio::select! {
                _ = every.tick() => {}
                _ = released.changed() => continue,
            }
        }
        send(socket, write.as_bytes(), event.len()).await?;
    }
    let last = format!("{}0\r\n\r\n", chunk(DONE));
    send(socket, last.as_bytes(), DONE.len()).await?;
    STATE.ended.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

async fn send(
    socket: &mut (impl AsyncWrite + Unpin),
    write: &[u8],
    bytes: usize,
) -> std::io::Result<()> {
    socket.write_all(write).await?;
    socket.flush().await?;
    STATE.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    Ok(())
}

fn event(text: String) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-mock\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"mock\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n"
    )
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    // A stream sends an event a second, ends when it is released, and its bytes are counted.
    #[tokio::test(start_paused = true)]
    async fn streams_end_when_released() {
        let body = br#"{"stream":true,"content":"open"}"#;
        assert_eq!(wanted(body), Some(Pace::EachSecond));
        assert_eq!(wanted(br#"{"stream":true,"content":"fast"}"#), Some(Pace::Fast));
        assert_eq!(wanted(br#"{"stream":false,"content":"open"}"#), None);
        let (mut reader, mut writer) = tokio::io::duplex(1 << 20);
        let served = tokio::spawn(async move { serve(&mut writer, Pace::EachSecond).await });
        tokio::time::sleep(EVERY * 5 / 2).await;
        assert!(counts().starts_with("1 0 "), "{}", counts());
        release();
        served.await.unwrap().unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).await.unwrap();
        assert_eq!(text.matches("token").count(), 3, "{text}");
        assert!(text.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"), "{text}");
        let bytes = 3 * event(" token".into()).len() + DONE.len();
        assert_eq!(counts(), format!("0 1 {bytes}"));
    }
}
