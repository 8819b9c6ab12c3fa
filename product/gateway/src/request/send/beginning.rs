//! The beginning of an answer, up to the first piece that says something. Until then nothing has
//! been sent to the client, and the request can go to another replica.
//!
//! Engines send errors inside a 200: a stream's status goes out before its first token, and some
//! frameworks answer every request with 200. Such an error is judged by what it says
//! ([`openai::told_error`]). A stream commits to nothing before its first content
//! ([`openai::Opening`]). An answer in one piece commits to nothing before its end: no client can use part
//! of it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, StatusCode, header, response};
use http_body::Body as _;
use http_body_util::BodyExt;
use meridian_protocol::openai::{self, Answer, Endpoint, Opened, Opening, ToldError};
use tokio::time::timeout;

use crate::fault::{AttemptError, Fault};
use crate::http::headers;
use crate::replicas::http1::Broken;
use crate::replicas::upstream::Flow;
use crate::request::context::RequestContext;
use crate::request::send::transport::broke;

/// Most bytes of an answer in one piece that are kept back. A longer answer is no error.
const MAX_GATHERED: usize = openai::MAX_OPENING;

/// The first bytes of an answer.
pub(super) enum Beginning {
    /// Its first bytes; none if it is empty and may be.
    Answer(Option<Bytes>),
    /// The engine reports an error, in these words, that another replica may not have.
    Error(ToldError, Bytes),
}

/// Why there is no beginning.
pub(super) enum NoBeginning {
    Empty,
    /// Nothing more came within `timeouts.idle`.
    Silent,
    Broke(Broken),
}

impl NoBeginning {
    pub(super) fn at(self, whose: Fault) -> AttemptError {
        match (self, whose) {
            (NoBeginning::Empty, _) => AttemptError::of(whose, "the answer is empty"),
            (NoBeginning::Silent, _) => {
                AttemptError::of(whose, "the answer stopped in its middle (timeouts.idle)")
            }
            (NoBeginning::Broke(e), Fault::Replica) => broke(&e),
            (NoBeginning::Broke(e), _) => {
                AttemptError::of(whose, format!("the answer stopped early: {e}"))
            }
        }
    }
}

impl From<Broken> for NoBeginning {
    fn from(broken: Broken) -> NoBeginning {
        NoBeginning::Broke(broken)
    }
}

/// Whether an answer is a stream of events whose end is known. Other endpoints pass unread.
pub(crate) fn is_stream(context: &RequestContext, head: &response::Parts) -> bool {
    let events = context.call.endpoint.is_generation() && !headers::is_json(&head.headers);
    context.prompt.info.stream && events
}

/// Reads the beginning of an answer. Events that call themselves JSON get the content type of events.
pub(super) async fn beginning(
    context: &RequestContext,
    head: &mut response::Parts,
    body: &mut Flow,
) -> Result<Beginning, NoBeginning> {
    let endpoint = context.call.endpoint;
    // Every generating endpoint sends something.
    let speaks = endpoint.is_generation() && head.status.is_success();
    let Some(first) = piece(body).await? else {
        return if speaks { Err(NoBeginning::Empty) } else { Ok(Beginning::Answer(None)) };
    };
    if speaks && headers::is_json(&head.headers) && openai::begins_event(&first) {
        head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    }
    match head.status.is_success() {
        true if is_stream(context, head) || headers::is_events(&head.headers) => {
            stream(endpoint, first, body).await
        }
        true if is_gathered(head) => {
            whole(endpoint, head, first, context.settings.timeouts.idle.0, body).await
        }
        _ => Ok(Beginning::Answer(Some(first))),
    }
}

/// Whether an answer in one piece is short enough to be kept back until it is complete.
fn is_gathered(head: &response::Parts) -> bool {
    let length = head.headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let short = length.is_none_or(|length| length <= MAX_GATHERED);
    short && headers::is_json(&head.headers)
}

async fn stream(
    endpoint: Endpoint,
    first: Bytes,
    body: &mut Flow,
) -> Result<Beginning, NoBeginning> {
    let mut opening = Opening::new(endpoint);
    let mut next = Some(first);
    let opened = loop {
        let Some(bytes) = next else { break opening.end() };
        if let Some(opened) = opening.feed(bytes) {
            break opened;
        }
        next = piece(body).await?;
    };
    match opened {
        Opened::Content(bytes) => Ok(Beginning::Answer(Some(bytes))),
        Opened::Error { error, all, .. } if error.is_of_request() => {
            Ok(Beginning::Answer(Some(all)))
        }
        Opened::Error { error, json, .. } => Ok(Beginning::Error(error, json)),
        Opened::Empty => Err(NoBeginning::Empty),
    }
}

async fn whole(
    endpoint: Endpoint,
    head: &response::Parts,
    first: Bytes,
    idle: Duration,
    body: &mut Flow,
) -> Result<Beginning, NoBeginning> {
    let bytes = gather(first, idle, body).await?;
    let is_short = bytes.len() < MAX_GATHERED;
    let may_be_cut =
        is_short && !endpoint.passes_unread() && headers::is_until_close(&head.headers);
    if may_be_cut && !has_its_last_brace(endpoint, &bytes) {
        return Err(Broken::Closed.into());
    }
    match openai::told_by_answer(&bytes, is_short) {
        Some(error) if !error.is_of_request() => Ok(Beginning::Error(error, bytes)),
        _ => Ok(Beginning::Answer(Some(bytes))),
    }
}

/// Whether an answer is complete whose end is only that of its connection.
fn has_its_last_brace(endpoint: Endpoint, bytes: &Bytes) -> bool {
    let mut answer = Answer::new(endpoint, false, false, false);
    answer.feed(bytes.clone());
    answer.is_complete()
}

/// Reads on to the end of an answer, or to [`MAX_GATHERED`] bytes.
async fn gather(first: Bytes, idle: Duration, body: &mut Flow) -> Result<Bytes, NoBeginning> {
    // Most answers are complete in their first piece, which is not copied.
    let mut all = BytesMut::new();
    while !body.is_end_stream() && first.len().max(all.len()) < MAX_GATHERED {
        let next = timeout(idle, piece(body)).await.map_err(|_| NoBeginning::Silent)??;
        let Some(next) = next else { break };
        if all.is_empty() {
            all.extend_from_slice(&first);
        }
        all.extend_from_slice(&next);
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

/// The next piece that is not empty; none at the end.
async fn piece(body: &mut Flow) -> Result<Option<Bytes>, Broken> {
    while let Some(frame) = body.frame().await {
        match frame?.into_data() {
            Ok(data) if data.is_empty() => {}
            Ok(data) => return Ok(Some(data)),
            Err(_trailers) => return Ok(None),
        }
    }
    Ok(None)
}

/// The status that an error inside a success stands for.
pub(super) fn status(error: ToldError) -> StatusCode {
    StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
