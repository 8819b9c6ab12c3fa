//! A replica that follows a script and records the requests it receives.
//!
//! It implements HTTP/1.1 by hand, so it can stop in the middle of a head, and record exactly the
//! bytes on the wire. Its model list, health and metrics pages answer automatically.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use meridian_protocol::admin::AddReplica;
use meridian_protocol::engines::own_pages;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::script::{Script, Step};

/// One request as received.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

struct State {
    models: Vec<String>,
    /// The number of its lists of models, and whether each has another date, as vLLM's have.
    lists: usize,
    dates_lists: bool,
    pending: u32,
    running: u32,
    kv_used: f32,
    /// Whether the gateway's own requests are answered.
    answers_probes: bool,
    /// Scripts that replace the usual pages for the gateway's own requests, by path.
    pages: BTreeMap<String, Script>,
    next: VecDeque<Script>,
    otherwise: Script,
    seen: Vec<Seen>,
    probes: usize,
    hangups: usize,
}

#[derive(Clone)]
pub(crate) struct Replica {
    pub(crate) addr: SocketAddr,
    state: Arc<Mutex<State>>,
    serving: Arc<tokio::task::AbortHandle>,
}

impl Replica {
    /// A replica of model `m` that answers every request with a small JSON.
    pub(crate) async fn start() -> Replica {
        Replica::of(&["m"]).await
    }

    pub(crate) async fn of(models: &[&str]) -> Replica {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            models: models.iter().map(|m| (*m).to_owned()).collect(),
            lists: 0,
            dates_lists: false,
            pending: 0,
            running: 0,
            kv_used: 0.0,
            answers_probes: true,
            pages: BTreeMap::new(),
            next: VecDeque::new(),
            otherwise: Script::json(200, r#"{"id":"x","choices":[]}"#),
            seen: Vec::new(),
            probes: 0,
            hangups: 0,
        }));
        let serving = tokio::spawn(serve(listener, state.clone())).abort_handle();
        Replica { addr, state, serving: Arc::new(serving) }
    }

    /// Script for the next request; further calls queue up.
    pub(crate) fn then(&self, script: Script) -> &Replica {
        self.with(|s| s.next.push_back(script));
        self
    }

    /// Script for every request without a queued one.
    pub(crate) fn always(&self, script: Script) -> &Replica {
        self.with(|s| s.otherwise = script);
        self
    }

    pub(crate) fn load(&self, pending: u32, running: u32, kv_used: f32) {
        self.with(|s| (s.pending, s.running, s.kv_used) = (pending, running, kv_used));
    }

    /// Lists other models from now on.
    pub(crate) fn serves(&self, models: &[&str]) {
        self.with(|s| s.models = models.iter().map(|m| (*m).to_owned()).collect());
    }

    /// Gives each of its lists of models another date.
    pub(crate) fn dates_lists(&self) {
        self.with(|s| s.dates_lists = true);
    }

    /// Number of its lists of models that were read.
    pub(crate) fn lists(&self) -> usize {
        self.with(|s| s.lists)
    }

    pub(crate) fn answers_probes(&self, answers: bool) {
        self.with(|s| s.answers_probes = answers);
    }

    /// Script for the gateway's requests of a page.
    pub(crate) fn page(&self, path: &str, script: Script) {
        self.with(|s| drop(s.pages.insert(path.to_owned(), script)));
    }

    /// Restores the usual page.
    pub(crate) fn good_page(&self, path: &str) {
        self.with(|s| drop(s.pages.remove(path)));
    }

    /// Ends its process: its port refuses connections, open ones are reset.
    pub(crate) async fn stop(&self) {
        self.serving.abort();
        while !self.serving.is_finished() {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.with(|s| s.seen.clone())
    }

    pub(crate) fn last(&self) -> Seen {
        self.with(|s| s.seen.last().cloned()).expect("a request was sent here")
    }

    pub(crate) fn count(&self) -> usize {
        self.with(|s| s.seen.len())
    }

    pub(crate) fn probes(&self) -> usize {
        self.with(|s| s.probes)
    }

    /// Number of answers during which the client disconnected.
    pub(crate) fn hangups(&self) -> usize {
        self.with(|s| s.hangups)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub(crate) fn spec(&self) -> AddReplica {
        AddReplica::at(self.url())
    }

    fn with<T>(&self, see: impl FnOnce(&mut State) -> T) -> T {
        see(&mut self.state.lock().unwrap())
    }
}

async fn serve(listener: TcpListener, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        connections.spawn(converse(stream, state.clone()));
    }
}

async fn converse(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let mut buffer = Vec::new();
    let early = || state.lock().unwrap().next.front().is_some_and(Script::is_early);
    while let Some(seen) = read(&mut stream, &mut buffer, early).await {
        let script = answer(&mut state.lock().unwrap(), seen);
        match perform(&mut stream, script).await {
            Ended::Whole => {}
            Ended::Closed => return,
            Ended::HungUp => {
                state.lock().unwrap().hangups += 1;
                return;
            }
        }
    }
}

fn answer(state: &mut State, seen: Seen) -> Script {
    let page = match (seen.method.as_str(), seen.target.as_str()) {
        ("GET", "/v1/models") => {
            state.lists += 1;
            Some(models_page(&state.models, state.dates_lists.then_some(state.lists)))
        }
        ("GET", "/health") => Some("ok".to_owned()),
        ("GET", "/metrics") => Some(metrics_page(state)),
        ("GET", path) if own_pages().any(|own| own.path == path) => None,
        _ if state.pages.contains_key(&seen.target) => None,
        _ => {
            state.seen.push(seen);
            return state.next.pop_front().unwrap_or_else(|| state.otherwise.clone());
        }
    };
    state.probes += 1;
    if let Some(script) = state.pages.get(&seen.target) {
        return script.clone();
    }
    match (state.answers_probes, page) {
        (false, _) => Script::silence(),
        (true, Some(page)) => Script::answer(200, "", &page),
        (true, None) => Script::answer(404, "", ""),
    }
}

fn models_page(models: &[String], created: Option<usize>) -> String {
    let date = created.map_or(String::new(), |date| format!(r#""created":{date},"#));
    let entry = |id| format!(r#"{{"id":"{id}","object":"model",{date}"owned_by":"vllm"}}"#);
    let entries: Vec<_> = models.iter().map(entry).collect();
    format!(r#"{{"object":"list","data":[{}]}}"#, entries.join(","))
}

fn metrics_page(s: &State) -> String {
    let (pending, running, kv) = (s.pending, s.running, s.kv_used);
    format!(
        "vllm:num_requests_waiting{{engine=\"0\"}} {pending}\n\
         vllm:num_requests_running{{engine=\"0\"}} {running}\n\
         vllm:kv_cache_usage_perc{{engine=\"0\"}} {kv}\n\
         vllm:cache_config_info{{block_size=\"16\",num_gpu_blocks=\"10000\"}} 1\n"
    )
}

enum Ended {
    Whole,
    Closed,
    HungUp,
}

async fn perform(stream: &mut TcpStream, script: Script) -> Ended {
    let (mut byte, mut early) = ([0], false);
    for step in script.0 {
        let time = match step {
            Step::Close => return Ended::Closed,
            Step::Reset => {
                stream.set_zero_linger().unwrap();
                return Ended::Closed;
            }
            Step::Early => {
                early = true;
                continue;
            }
            Step::Send(bytes) => match stream.write_all(&bytes).await {
                Ok(()) => continue,
                Err(_) => return Ended::HungUp,
            },
            Step::Jump(time) => {
                tokio::time::advance(time).await;
                continue;
            }
            Step::Wait(time) => time,
            Step::Hang => std::time::Duration::from_secs(1 << 30),
        };
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            // Requests do not overlap, so anything readable here is the end.
            _ = stream.read(&mut byte), if !early => return Ended::HungUp,
        }
    }
    Ended::Whole
}

/// The next request; none if the connection ends.
async fn read(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    early: impl Fn() -> bool,
) -> Option<Seen> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        more(stream, buffer).await?;
    };
    let head: Vec<u8> = buffer.drain(..end).collect();
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(n, v)| (n.to_ascii_lowercase(), v.trim().to_owned()))
        .collect();
    let mut seen = Seen { method, target, headers, body: Vec::new() };
    if seen.method == "POST" && early() {
        return Some(seen);
    }
    assert!(seen.header("transfer-encoding").is_none(), "bodies have a length");
    let length = seen.header("content-length").map_or(0, |n| n.parse().unwrap());
    while buffer.len() < length {
        more(stream, buffer).await?;
    }
    seen.body = buffer.drain(..length).collect();
    Some(seen)
}

async fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    let n = stream.read_buf(buffer).await.ok()?;
    (n > 0).then_some(())
}
