//! Single requests, and the line by which our programs tell their address.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Posts a chat completion and reads the whole answer, head and all.
pub(super) fn post(address: &str, body: &[u8]) -> anyhow::Result<String> {
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    exchange(address, &[head.as_bytes(), body].concat())
}

/// Gets a page, head and all.
pub(super) fn get(address: &str, path: &str) -> anyhow::Result<String> {
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    exchange(address, head.as_bytes())
}

fn exchange(address: &str, request: &[u8]) -> anyhow::Result<String> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    socket.write_all(request)?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The address in the line that our own programs print when they are ready.
pub(super) fn listening(output: &str) -> Option<String> {
    let line = output.lines().find_map(|l| l.strip_prefix("listening on http"))?;
    let (_, address) = line.split_once("://")?;
    output.contains('\n').then(|| address.trim().to_owned())
}
