//! Test cases of HTTP/1: bytes sent to a socket, and the answers.
//!
//! `raw` sends its lines unchanged, each ended by CRLF unless a backslash ends it. `cut` then
//! closes its sending side. The other commands send a body with a valid head to an endpoint.

use datadriven::TestCase;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{FOREVER, QUIET, bytes};
use crate::common::Region;

/// The result of a client's read.
enum Read {
    Answer(String),
    Nothing,
    Closed,
}

struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    /// More bytes within `patience`; false if there are none.
    async fn more(&mut self, patience: std::time::Duration) -> Option<bool> {
        match timeout(patience, self.stream.read_buf(&mut self.buffer)).await {
            Err(_) => None,
            Ok(read) => Some(read.is_ok_and(|n| n > 0)),
        }
    }

    /// The next complete answer.
    async fn next(&mut self, patience: std::time::Duration, to_head: bool) -> Read {
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            match self.more(patience).await {
                None => return Read::Nothing,
                Some(true) => {}
                Some(false) if self.buffer.is_empty() => return Read::Closed,
                Some(false) => panic!("cut in a head: {:?}", String::from_utf8_lossy(&self.buffer)),
            }
        };
        let head: Vec<u8> = self.buffer.drain(..end).collect();
        let head = String::from_utf8(head).unwrap();
        let header = |name: &str| {
            let found = |line: &str| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned);
            head.lines().find_map(found)
        };
        let status = head.split(' ').nth(1).unwrap();
        let length: usize = header("content-length").map_or(0, |n| n.parse().unwrap());
        let length = if to_head || status == "204" { 0 } else { length };
        while self.buffer.len() < length {
            assert_eq!(self.more(FOREVER).await, Some(true), "cut in a body: {head}");
        }
        let body: Vec<u8> = self.buffer.drain(..length).collect();
        let mut said = status.to_owned();
        for name in ["allow", "accept-encoding", "retry-after"] {
            if let Some(value) = header(name) {
                said += &format!(" {name}: {value}");
            }
        }
        let body = String::from_utf8(body).unwrap();
        Read::Answer(if body.is_empty() { said + "\n" } else { format!("{said}\n{body}\n") })
    }
}

fn request(case: &TestCase) -> Vec<u8> {
    let path = match case.directive.as_str() {
        "raw" | "cut" => {
            let lines = case.input.lines().map(|line| match line.strip_suffix('\\') {
                Some(line) => bytes(line),
                None => [&bytes(line)[..], b"\r\n"].concat(),
            });
            return lines.collect::<Vec<_>>().concat();
        }
        "chat" => "/v1/chat/completions",
        "completions" => "/v1/completions",
        "embeddings" => "/v1/embeddings",
        "responses" => "/v1/responses",
        "messages" => "/v1/messages",
        "tokenize" => "/tokenize",
        other => panic!("not a command: {other}"),
    };
    let body = bytes(case.input.trim_end_matches('\n'));
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), &body].concat()
}

/// Sends a case, and returns all output and how the connection ended.
pub(super) async fn one(region: &Region, case: &TestCase) -> String {
    let stream = TcpStream::connect(region.listen).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut client = Client { stream, buffer: Vec::new() };
    let sent = request(case);
    // The gateway may refuse before it has read everything.
    let _ = client.stream.write_all(&sent).await;
    if case.directive == "cut" {
        client.stream.shutdown().await.unwrap();
    }
    let (mut said, mut patience) = (String::new(), FOREVER);
    let is_open = loop {
        match client.next(patience, sent.starts_with(b"HEAD")).await {
            Read::Answer(answer) => said += &answer,
            Read::Nothing => break true,
            Read::Closed => break false,
        }
        patience = QUIET;
    };
    let again = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n";
    if !is_open || client.stream.write_all(again).await.is_err() {
        return said + "closed\n";
    }
    match client.next(FOREVER, false).await {
        Read::Answer(good) if good == "200\nok\n" => said + "kept\n",
        Read::Answer(answer) => format!("{said}after which a good request gets {answer}"),
        Read::Nothing | Read::Closed => said + "closed\n",
    }
}
