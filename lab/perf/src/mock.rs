//! A mock replica that answers at once, for races between gateways.
//!
//! It is written by hand on sockets, so that on a shared machine it takes little CPU from the
//! gateway under test. It supports just enough of HTTP/1.1: keep-alive, bodies with a length or in
//! chunks. A streamed answer has 8 tokens, or 200 if the body asks for them, each in a separate
//! event, HTTP chunk and write, as an engine would send them. The head goes with the first token and
//! the end with the last. If the prompt starts with `apart`, the head and every event are writes by
//! themselves, as of a server in Python; a gateway that lets the kernel collect small writes then
//! waits for delayed acknowledgements. Model list, health and metrics are in vLLM's form, since
//! routers query them before they send requests. Some streams stay open (`open.rs`).
//!
//! Do not expose it to untrusted clients: it limits only the size of a request.

mod open;

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use anyhow::Context;
use memchr::memmem;
use meridian_tls::Files;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

pub use self::open::{FAST, OPEN};

/// Largest request, head and body.
const MAX_REQUEST: usize = 16 << 20;

/// Tokens of an answer.
pub const TOKENS: usize = 8;
/// Tokens of a stream whose request asks for exactly this many.
pub const MANY_TOKENS: usize = 200;
/// The first word of a prompt whose stream has its head and events in writes by themselves. Fields of
/// the body would not do: routers drop some.
pub const APART: &str = "apart";

/// What the mock plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A whole or a decode replica: answers of [`TOKENS`] tokens.
    Answers,
    /// A prefill replica: one token, and the parameters of vLLM's NixlConnector if they are asked
    /// for.
    Prefill,
}

/// The files of a mock with https, as PEM.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Its certificate.
    pub certificate: PathBuf,
    /// The certificate's key.
    pub key: PathBuf,
}

impl Tls {
    fn acceptor(&self) -> anyhow::Result<TlsAcceptor> {
        let (section, certificate, key) =
            ("mock".into(), self.certificate.clone(), self.key.clone());
        let files = Files { section, ca: None, crl: None, certificate, key };
        let server = meridian_tls::server(&files, files.read()?, &[b"http/1.1"])?;
        Ok(TlsAcceptor::from(Arc::new(server)))
    }
}

/// Listens on `addr`, prints the address, and serves until the process ends.
pub fn run(addr: &str, role: Role, tls: Option<Tls>) -> anyhow::Result<()> {
    let tls = tls.map(|tls| tls.acceptor()).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener =
            TcpListener::bind(addr).await.with_context(|| format!("cannot listen on {addr}"))?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        println!("listening on {scheme}://{}", listener.local_addr()?);
        serve(listener, role, tls).await
    })
}

/// Serves every connection of `listener`.
async fn serve(listener: TcpListener, role: Role, tls: Option<TlsAcceptor>) -> anyhow::Result<()> {
    loop {
        let (socket, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            // The client disconnected while it waited; this must not affect the next one.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => continue,
            Err(error) => return Err(error).context("the mock cannot accept connections"),
        };
        // A client that disconnects at once or in the middle is not an error either.
        let tls = tls.clone();
        tokio::spawn(async move {
            socket.set_nodelay(true)?;
            match tls {
                None => connection(socket, role).await,
                Some(tls) => connection(tls.accept(socket).await?, role).await,
            }
        });
    }
}

async fn connection(
    mut socket: impl AsyncRead + AsyncWrite + Unpin,
    role: Role,
) -> std::io::Result<()> {
    let mut buffer = Vec::with_capacity(16 << 10);
    loop {
        let request = loop {
            if let Some(request) = parse(&buffer) {
                break request;
            }
            if buffer.len() > MAX_REQUEST || socket.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        match open::wanted(request.body) {
            Some(pace) => open::serve(&mut socket, pace).await?,
            None => {
                for write in answer(&request, role).iter() {
                    socket.write_all(write).await?;
                    // TLS may keep a record back.
                    socket.flush().await?;
                }
            }
        }
        let (end, close) = (request.end, request.close);
        if close {
            return socket.shutdown().await;
        }
        buffer.drain(..end);
    }
}

/// A whole request at the start of a buffer.
struct Request<'a> {
    path: &'a [u8],
    body: &'a [u8],
    /// Bytes that it takes.
    end: usize,
    close: bool,
}

/// The first request of `buffer`, once it is complete. A chunked body keeps its framing: it is only
/// searched for a few words.
fn parse(buffer: &[u8]) -> Option<Request<'_>> {
    let head = memmem::find(buffer, b"\r\n\r\n")? + 4;
    let mut lines = buffer[..head].split(|b| *b == b'\n');
    let path = lines.next()?.split(|b| *b == b' ').nth(1)?;
    let (mut length, mut chunked, mut close) = (0, false, false);
    for line in lines {
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            length = std::str::from_utf8(value).ok()?.parse().ok()?;
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            chunked = value.eq_ignore_ascii_case(b"chunked");
        } else if name.eq_ignore_ascii_case(b"connection") {
            close = value.eq_ignore_ascii_case(b"close");
        }
    }
    let end = match chunked {
        true => head + chunks_end(&buffer[head..])?,
        false => head.checked_add(length)?,
    };
    Some(Request { path, body: buffer.get(head..end)?, end, close })
}

/// The end of a chunked body.
fn chunks_end(body: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let line = memmem::find(body.get(at..)?, b"\r\n")?;
        let size = std::str::from_utf8(&body[at..at + line]).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        at = (at + line + 2).checked_add(size)?.checked_add(2)?;
        if at > body.len() {
            return None;
        }
        if size == 0 {
            return Some(at);
        }
    }
}

/// Completions that were asked for, which `/count` tells: a race between gateways in front of a
/// prefill and a decode replica is void if one of them leaves a leg out.
static COMPLETIONS: AtomicU64 = AtomicU64::new(0);

/// The writes that answer `request`.
fn answer(request: &Request<'_>, role: Role) -> Cow<'static, [Vec<u8>]> {
    let path = request.path.split(|b| *b == b'?').next().unwrap_or_default();
    let page: &'static [Vec<u8>] = match path {
        b"/count" => {
            let count = COMPLETIONS.load(Ordering::Relaxed).to_string();
            return Cow::Owned(page("200 OK", "text/plain", &count));
        }
        b"/open" => return Cow::Owned(page("200 OK", "text/plain", &open::counts())),
        b"/release" => {
            open::release();
            &PAGES.health
        }
        b"/v1/chat/completions" | b"/v1/completions" => {
            COMPLETIONS.fetch_add(1, Ordering::Relaxed);
            completion(request.body, role)
        }
        b"/v1/models" => &PAGES.models,
        b"/metrics" => &PAGES.metrics,
        b"/health" | b"/health_generate" | b"/liveness" | b"/readiness" => &PAGES.health,
        b"/version" | b"/get_server_info" | b"/server_info" | b"/get_model_info"
        | b"/model_info" => &PAGES.info,
        _ => &PAGES.not_found,
    };
    Cow::Borrowed(page)
}

fn completion(body: &[u8], role: Role) -> &'static [Vec<u8>] {
    match (asks(body, "\"stream\"", "true"), role) {
        (false, Role::Answers) => &PAGES.whole,
        (true, Role::Answers) => {
            let limits = ["\"max_tokens\"", "\"max_completion_tokens\""];
            let many = usize::from(limits.iter().any(|key| asks(body, key, "200")));
            let apart = usize::from(asks(body, "\"content\"", "\"apart"));
            let usage = usize::from(asks(body, "\"include_usage\"", "true"));
            &PAGES.streams[many][apart][usage]
        }
        (true, Role::Prefill) => &PAGES.first_token,
        (false, Role::Prefill) if asks(body, "\"do_remote_decode\"", "true") => &PAGES.prefilled,
        (false, Role::Prefill) => &PAGES.one_token,
    }
}

/// Whether `body` has `key` with a value that starts with `value`. A prompt's text cannot match: its
/// quotes are escaped. A value that looks like the key is passed over.
fn asks(body: &[u8], key: &str, value: &str) -> bool {
    memmem::find_iter(body, key).any(|at| {
        let rest = body[at + key.len()..].trim_ascii_start();
        rest.strip_prefix(b":").is_some_and(|r| r.trim_ascii_start().starts_with(value.as_bytes()))
    })
}

struct Pages {
    whole: Vec<Vec<u8>>,
    /// By whether they have many tokens, are written apart, and report the usage.
    streams: [[[Vec<Vec<u8>>; 2]; 2]; 2],
    one_token: Vec<Vec<u8>>,
    first_token: Vec<Vec<u8>>,
    prefilled: Vec<Vec<u8>>,
    models: Vec<Vec<u8>>,
    metrics: Vec<Vec<u8>>,
    health: Vec<Vec<u8>>,
    info: Vec<Vec<u8>>,
    not_found: Vec<Vec<u8>>,
}

static PAGES: LazyLock<Pages> = LazyLock::new(|| Pages {
    whole: page("200 OK", "application/json", &whole(TOKENS, "")),
    streams: [TOKENS, MANY_TOKENS].map(|tokens| {
        [stream, stream_apart].map(|made| [false, true].map(|usage| made(tokens, usage)))
    }),
    one_token: page("200 OK", "application/json", &whole(1, "")),
    first_token: stream(1, false),
    prefilled: page("200 OK", "application/json", &whole(1, KV_PARAMS)),
    models: page("200 OK", "application/json", MODELS),
    metrics: page("200 OK", "text/plain; version=0.0.4", METRICS),
    health: page("200 OK", "text/plain", ""),
    info: page("200 OK", "application/json", INFO),
    not_found: page("404 Not Found", "application/json", NOT_FOUND),
});

const USAGE: &str = r#""usage":{"prompt_tokens":16,"completion_tokens":8,"total_tokens":24,"prompt_tokens_details":{"cached_tokens":0}}"#;
/// As recorded from vLLM 0.32, with one block.
const KV_PARAMS: &str = r#","kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[1]],"remote_engine_id":"1af57ba3","remote_request_id":"cmpl-mock-0-9c814bd2","remote_host":"127.0.0.1","remote_port":15600,"tp_size":1,"dcp_size":1,"pp_size":1,"remote_num_tokens":16,"remote_blocks_expiry_time":null,"transfer_mode":"pull","remote_prefill_cached_tokens":0}"#;
const MODELS: &str = r#"{"object":"list","data":[{"id":"mock","object":"model","created":1700000000,"owned_by":"vllm","root":"mock","max_model_len":131072}]}"#;
const INFO: &str = r#"{"model_path":"mock","tokenizer_path":"mock","served_model_name":"mock","is_generation":true,"dp_size":1,"tp_size":1,"version":"0.0.0"}"#;
const NOT_FOUND: &str =
    r#"{"error":{"message":"the mock has no such path","type":"not_found","code":404}}"#;
const METRICS: &str = "# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine=\"0\",model_name=\"mock\"} 0.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine=\"0\",model_name=\"mock\"} 0.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"mock\"} 0.0
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine=\"0\",model_name=\"mock\"} 0.0
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine=\"0\",model_name=\"mock\"} 0.0
";

fn page(status: &str, kind: &str, body: &str) -> Vec<Vec<u8>> {
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n");
    vec![format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()]
}

fn whole(tokens: usize, more: &str) -> String {
    let text = " token".repeat(tokens);
    format!(
        r#"{{"id":"chatcmpl-mock","object":"chat.completion","created":1700000000,"model":"mock","choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}"}},"finish_reason":"stop"}}],{USAGE}{more}}}"#
    )
}

/// One write per token; the first includes the head, the last the end of the stream.
fn stream(tokens: usize, usage: bool) -> Vec<Vec<u8>> {
    let parts = stream_apart(tokens, usage);
    let (head, rest) = parts.split_first().expect("a stream has a head");
    let (events, end) = rest.split_at(tokens);
    let mut writes = events.to_vec();
    writes[0].splice(..0, head.iter().copied());
    writes[tokens - 1].extend(end.concat());
    writes
}

/// The head and every event in a write by itself, as a server in Python sends them.
fn stream_apart(tokens: usize, usage: bool) -> Vec<Vec<u8>> {
    let event = |choices: &str, more: &str| {
        let data = format!(
            r#"data: {{"id":"chatcmpl-mock","object":"chat.completion.chunk","created":1700000000,"model":"mock","choices":[{choices}]{more}}}"#
        );
        chunk(&format!("{data}\n\n"))
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
    let token = r#"{"index":0,"delta":{"content":" token"},"finish_reason":null}"#;
    let mut writes = vec![head.to_owned()];
    writes.extend(std::iter::repeat_n(event(token, ""), tokens));
    writes.push(event(r#"{"index":0,"delta":{},"finish_reason":"stop"}"#, ""));
    if usage {
        writes.push(event("", &format!(",{USAGE}")));
    }
    writes.push(chunk("data: [DONE]\n\n"));
    writes.push("0\r\n\r\n".to_owned());
    writes.into_iter().map(String::into_bytes).collect()
}

fn chunk(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    // A request is parsed as a whole or not at all, wherever the bytes are cut, and the next one
    // starts at its end: with a length and in chunks.
    #[test]
    fn requests_are_whole() {
        let plain = b"POST /v1/completions HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello";
        let chunks =
            b"POST /x?y HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        for request in [&plain[..], &chunks[..]] {
            for cut in 0..request.len() {
                assert!(parse(&request[..cut]).is_none(), "cut at {cut}");
            }
            let twice = [request, request].concat();
            assert_eq!(parse(&twice).map(|r| r.end), Some(request.len()));
        }
    }

    // A body can request a stream with any spacing, and a prompt that mentions one does not, nor does
    // the word as a value.
    #[test]
    fn streams_are_asked_for() {
        let streams = |body: &[u8]| asks(body, "\"stream\"", "true");
        assert!(streams(br#"{"stream":true}"#));
        assert!(streams(br#"{"stream" : true}"#));
        assert!(!streams(br#"{"stream":false}"#));
        assert!(!streams(br#"{"content":"say \"stream\":true"}"#));
        assert!(streams(br#"{"x":"stream","stream":true}"#));
    }

    // A prompt's first word and the limit of tokens, under both of its names, choose the stream.
    #[test]
    fn streams_are_chosen() {
        let writes = |word: &str, limit: &str, tokens: usize| {
            let messages = format!(r#"[{{"role":"user","content":"{word} more"}}]"#);
            let body = format!(r#"{{"messages":{messages},"{limit}":{tokens},"stream":true}}"#);
            completion(body.as_bytes(), Role::Answers).len()
        };
        assert_eq!(writes("hello", "max_tokens", TOKENS), TOKENS);
        assert_eq!(writes(APART, "max_tokens", TOKENS), TOKENS + 4);
        assert_eq!(writes(APART, "max_tokens", MANY_TOKENS), MANY_TOKENS + 4);
        assert_eq!(writes("hello", "max_completion_tokens", MANY_TOKENS), MANY_TOKENS);
    }

    // Both ways to write a stream send the same bytes, and each token is a write of its own.
    #[test]
    fn writes_are_cut_in_two_ways() {
        for (tokens, usage) in [(1, false), (TOKENS, true), (MANY_TOKENS, false)] {
            let (whole, apart) = (stream(tokens, usage), stream_apart(tokens, usage));
            assert_eq!(whole.concat(), apart.concat());
            assert_eq!((whole.len(), apart.len()), (tokens, tokens + 4 + usize::from(usage)));
            let count =
                whole.iter().filter(|write| asks(write, "\"content\"", "\" token\"")).count();
            assert_eq!(count, tokens);
        }
    }
}
