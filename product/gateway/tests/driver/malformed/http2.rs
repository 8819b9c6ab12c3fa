//! Test cases of HTTP/2: frames sent to a socket after preface and settings, and the frames
//! returned.
//!
//! `headers N` opens stream N with the fields that follow, one per line, with `=` between name and
//! value; `headers-end N` also ends it. `data N` and `data-end N` send the next line. `frame` sends
//! the next line unchanged. Fields are sent as literals, so they can be invalid.

use datadriven::TestCase;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{FOREVER, QUIET, bytes};
use crate::common::Region;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A field without an index and without Huffman's code.
fn field(line: &str) -> Vec<u8> {
    let at = line[1..].find('=').unwrap() + 1;
    let string = |text: &str| {
        let text = bytes(text);
        let mut coded = Vec::new();
        match text.len() {
            n if n < 127 => coded.push(n as u8),
            mut n => {
                coded.push(127);
                n -= 127;
                while n >= 128 {
                    coded.push((n % 128) as u8 | 128);
                    n /= 128;
                }
                coded.push(n as u8);
            }
        }
        [coded, text].concat()
    };
    [vec![0], string(&line[..at]), string(&line[at + 1..])].concat()
}

fn sent(input: &str) -> Vec<u8> {
    let mut all = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    all.extend(frame(4, 0, 0, &[]));
    let mut lines = input.lines().peekable();
    while let Some(line) = lines.next() {
        let (command, stream) = line.split_once(' ').unwrap_or((line, "0"));
        let stream: u32 = stream.parse().unwrap();
        let end = if command.ends_with("-end") { END_STREAM } else { 0 };
        match command {
            "headers" | "headers-end" => {
                let mut block = Vec::new();
                while let Some(line) = lines.next_if(|line| line.contains('=')) {
                    block.extend(field(line));
                }
                // Data beyond one frame continues in others.
                let mut pieces = block.chunks(16_384).peekable();
                let mut kind = 1;
                while let Some(piece) = pieces.next() {
                    let last = if pieces.peek().is_none() { END_HEADERS } else { 0 };
                    let end = if kind == 1 { end } else { 0 };
                    all.extend(frame(kind, last | end, stream, piece));
                    kind = 9;
                }
            }
            "data" | "data-end" => {
                all.extend(frame(0, end, stream, &bytes(lines.next().unwrap())));
            }
            "frame" => all.extend(bytes(lines.next().unwrap())),
            other => panic!("not a command: {other}"),
        }
    }
    all
}

/// RFC 9113 section 7.
const CODES: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

/// A frame's contents in one line; none for frames that every connection has.
fn described(head: &[u8], payload: &[u8]) -> Option<String> {
    let end = if head[4] & END_STREAM == 0 { "" } else { ", end" };
    let stream = head[8];
    let code = |at: usize| CODES[usize::from(payload[at + 3])];
    Some(match head[3] {
        0 if payload.is_empty() => return None,
        0 => format!("{stream}: {}\n", String::from_utf8_lossy(payload)),
        1 => format!("{stream}: headers{end}\n"),
        3 => format!("{stream}: reset, {}\n", code(0)),
        7 => format!("go away, {}\n", code(4)),
        _ => return None,
    })
}

/// Sends a case, and returns the received frames and how the connection ended.
pub(super) async fn one(region: &Region, case: &TestCase) -> String {
    let mut stream = TcpStream::connect(region.listen).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let _ = stream.write_all(&sent(&case.input)).await;
    let (mut buffer, mut said, mut patience) = (Vec::new(), String::new(), FOREVER);
    loop {
        let whole = buffer.get(..9).map(|head: &[u8]| {
            9 + usize::from(head[0]) * 65_536 + usize::from(head[1]) * 256 + usize::from(head[2])
        });
        if let Some(length) = whole.filter(|length| *length <= buffer.len()) {
            let frame: Vec<u8> = buffer.drain(..length).collect();
            if let Some(line) = described(&frame[..9], &frame[9..]) {
                said += &line;
                patience = QUIET;
            }
            continue;
        }
        match timeout(patience, stream.read_buf(&mut buffer)).await {
            Err(_) => return said + "kept\n",
            Ok(Ok(n)) if n > 0 => {}
            Ok(_) => return said + "closed\n",
        }
    }
}
