//! Single requests, and the line by which our programs tell their address.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use memchr::memmem;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

/// A server.
#[derive(Clone, Debug)]
pub(super) struct Server {
    /// host:port
    pub(super) address: String,
    /// The certificate that it shows, if it speaks TLS.
    pub(super) certificate: Option<PathBuf>,
}

impl Server {
    /// One without TLS.
    pub(super) fn plain(address: impl Into<String>) -> Server {
        Server { address: address.into(), certificate: None }
    }

    /// The URL of `path`.
    pub(super) fn url(&self, path: &str) -> String {
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{path}", self.address)
    }

    /// Posts a chat completion and reads the whole answer, head and all.
    pub(super) fn post(&self, body: &[u8]) -> anyhow::Result<String> {
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        self.exchange(&[head.as_bytes(), body].concat())
    }

    /// Gets a page, head and all.
    pub(super) fn get(&self, path: &str) -> anyhow::Result<String> {
        let address = &self.address;
        let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        self.exchange(head.as_bytes())
    }

    fn exchange(&self, request: &[u8]) -> anyhow::Result<String> {
        let socket = TcpStream::connect(&self.address)?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        match &self.certificate {
            None => read_answer(socket, request),
            Some(certificate) => read_answer(secured(socket, certificate)?, request),
        }
    }
}

fn secured(
    socket: TcpStream,
    certificate: &Path,
) -> anyhow::Result<StreamOwned<ClientConnection, TcpStream>> {
    let config = meridian_tls::open_client("race", certificate, &[b"http/1.1"])?;
    let name = ServerName::try_from("localhost")?;
    Ok(StreamOwned::new(ClientConnection::new(Arc::new(config), name)?, socket))
}

fn read_answer(mut socket: impl Read + Write, request: &[u8]) -> anyhow::Result<String> {
    socket.write_all(request)?;
    let mut answer = Vec::new();
    match socket.read_to_end(&mut answer) {
        // Not every server says goodbye in TLS. Whether the answer is complete, its reader checks.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {}
        read => drop(read?),
    }
    let answer = unchunked(&answer).unwrap_or(answer);
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// An answer with its chunks joined: a proxy may cut them anywhere. `None` if it has none, or not all
/// of them.
fn unchunked(answer: &[u8]) -> Option<Vec<u8>> {
    let body = memmem::find(answer, b"\r\n\r\n")? + 4;
    let (head, mut rest) = answer.split_at(body);
    memmem::find(&head.to_ascii_lowercase(), b"\r\ntransfer-encoding: chunked\r\n")?;
    let mut joined = head.to_vec();
    loop {
        let line = memmem::find(rest, b"\r\n")?;
        let size =
            usize::from_str_radix(std::str::from_utf8(&rest[..line]).ok()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(joined);
        }
        let chunk = line + 2;
        joined.extend_from_slice(rest.get(chunk..chunk + size)?);
        rest = rest.get(chunk + size + 2..)?;
    }
}

/// The address in the line that our own programs print when they are ready.
pub(super) fn listening(output: &str) -> Option<String> {
    let line = output.lines().find_map(|l| l.strip_prefix("listening on http"))?;
    let (_, address) = line.split_once("://")?;
    output.contains('\n').then(|| address.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Chunks are joined wherever they were cut; other answers, and incomplete ones, are left alone.
    #[test]
    fn chunks_are_joined() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let answer = format!("{head}3\r\ndat\r\nA\r\na: token\n\n\r\n0\r\n\r\n");
        let joined = unchunked(answer.as_bytes()).expect("it is complete");
        assert_eq!(String::from_utf8_lossy(&joined), format!("{head}data: token\n\n"));
        assert_eq!(unchunked(&answer.as_bytes()[..answer.len() - 6]), None);
        assert_eq!(unchunked(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"), None);
    }
}
