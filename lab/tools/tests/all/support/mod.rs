//! An in-process endpoint that follows a script, request by request.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

/// The endpoint's reaction to a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Act {
    /// A complete answer of three tokens, streamed if requested.
    Answer,
    /// This status, with a JSON error.
    Status(u16),
    /// One token, then the connection breaks.
    Break,
    /// One token, then the stream ends without its end mark.
    EndEarly,
    /// One token, then an error event and a proper end.
    ErrorEvent,
    /// A body that is not an answer.
    Nonsense,
    /// Headers, then nothing for ever.
    Silence,
}

/// The endpoint: its address, its script, and its records.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

struct State {
    script: VecDeque<Act>,
    otherwise: Act,
    bodies: Vec<Value>,
    sessions: Vec<String>,
    /// Complete answers that `/admin/status` will omit.
    to_lose: u64,
    answered: u64,
    done: u64,
}

impl Endpoint {
    /// An endpoint that follows `script` and then does `otherwise`.
    pub(crate) async fn start(script: &[Act], otherwise: Act) -> Endpoint {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let script = script.iter().copied().collect();
        let (bodies, sessions) = (Vec::new(), Vec::new());
        let state = State { script, otherwise, bodies, sessions, to_lose: 0, answered: 0, done: 0 };
        let endpoint = Endpoint { url, state: Arc::new(Mutex::new(state)) };
        let serving = endpoint.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let serving = serving.clone();
                let service = service_fn(move |request| {
                    let serving = serving.clone();
                    async move { Ok::<_, Infallible>(serving.serve(request).await) }
                });
                let http = hyper::server::conn::http1::Builder::new();
                tokio::spawn(async move {
                    http.serve_connection(TokioIo::new(socket), service).await.ok();
                });
            }
        });
        endpoint
    }

    /// Does this from now on, once its script has ended.
    pub(crate) fn then(&self, otherwise: Act) {
        self.state.lock().unwrap().otherwise = otherwise;
    }

    /// The bodies received, in order.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        self.state.lock().unwrap().bodies.clone()
    }

    /// The session headers received, in order.
    pub(crate) fn sessions(&self) -> Vec<String> {
        self.state.lock().unwrap().sessions.clone()
    }

    /// Omits the next `n` answers from the counts on the admin page.
    pub(crate) fn lose(&self, n: u64) {
        self.state.lock().unwrap().to_lose = n;
    }

    async fn serve(&self, request: Request<Incoming>) -> Response<Script> {
        match request.uri().path() {
            "/v1/models" => return whole(200, &json!({"data": [{"id": "first"}, {"id": "b"}]})),
            "/admin/status" => return whole(200, &self.status()),
            _ => {}
        }
        let session = request.headers().get("x-session-id").cloned();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let stream = body["stream"] == true;
        let mut state = self.state.lock().unwrap();
        let n = state.bodies.len();
        state.bodies.push(body);
        state.sessions.extend(session.map(|s| s.to_str().unwrap().to_owned()));
        let act = state.script.pop_front().unwrap_or(state.otherwise);
        if act == Act::Answer {
            state.answered += 1;
            match state.to_lose.checked_sub(1) {
                Some(rest) => state.to_lose = rest,
                None => state.done += 1,
            }
        }
        drop(state);
        let mut response = respond(act, stream, n);
        let replica = if n.is_multiple_of(2) { "even" } else { "odd" };
        response.headers_mut().insert("x-meridian-replica", replica.parse().unwrap());
        response
    }

    fn status(&self) -> Value {
        let state = self.state.lock().unwrap();
        let (all, done) = (state.bodies.len() as u64, state.done);
        json!({"requests": {"accepted": all, "done": done, "client_error": 0, "rejected": 0,
            "failed": all - state.answered, "cancelled": 0, "in_flight": 0}})
    }
}

fn respond(act: Act, stream: bool, n: usize) -> Response<Script> {
    let usage = json!({"prompt_tokens": 100, "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 40}});
    let token = |text: &str| event(&json!({"choices": [{"delta": {"content": text}}]}));
    let role = event(&json!({"choices": [{"delta": {"role": "assistant", "content": ""}}]}));
    let one = format!("{role}{}", token("one "));
    match act {
        Act::Status(code) => whole(code, &json!({"error": {"message": "scripted"}})),
        Act::Answer if !stream => {
            let text = format!("one two {n}");
            whole(200, &json!({"choices": [{"message": {"content": text}}], "usage": usage}))
        }
        Act::Answer => {
            let last = event(&json!({"choices": [], "usage": usage}));
            let rest = [one, token("two "), token(&n.to_string()), last, "data: [DONE]\n\n".into()];
            Response::new(Script { frames: rest.map(Step::Send).into(), silent: false })
        }
        Act::Break => {
            Response::new(Script { frames: [Step::Send(one), Step::Break].into(), silent: false })
        }
        Act::EndEarly => Response::new(Script { frames: [Step::Send(one)].into(), silent: false }),
        Act::ErrorEvent => {
            let error = event(&json!({"error": {"message": "scripted"}}));
            let all = [one, error, "data: [DONE]\n\n".into()];
            Response::new(Script { frames: all.map(Step::Send).into(), silent: false })
        }
        Act::Nonsense => {
            let frames = [Step::Send("data: {nonsense\n\n".into())].into();
            Response::new(Script { frames, silent: false })
        }
        Act::Silence => Response::new(Script { frames: VecDeque::new(), silent: true }),
    }
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

fn whole(status: u16, json: &Value) -> Response<Script> {
    let frames = [Step::Send(json.to_string())].into();
    let mut response = Response::new(Script { frames, silent: false });
    *response.status_mut() = status.try_into().unwrap();
    response
}

enum Step {
    Send(String),
    Break,
}

/// A body that plays its steps, a frame each.
pub(crate) struct Script {
    frames: VecDeque<Step>,
    silent: bool,
}

impl Body for Script {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.frames.pop_front() {
            Some(Step::Send(text)) => Poll::Ready(Some(Ok(Frame::data(text.into())))),
            Some(Step::Break) => Poll::Ready(Some(Err(std::io::Error::other("scripted")))),
            None if self.silent => Poll::Pending,
            None => Poll::Ready(None),
        }
    }
}
