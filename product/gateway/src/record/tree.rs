//! The spans of a finished record: the request, its admission, its waits and its attempts, with the
//! legs and moments of each. Traces and `meridian explain --perfetto` have the same spans.
//!
//! ```text
//! POST /v1/chat/completions
//!   admission
//!     read body
//!   queue
//!   chat MODEL                 an attempt that failed
//!   chat MODEL                 the attempt that answered
//!     connect
//!     first token
//!     relay
//! ```
//!
//! A split attempt has the legs `prefill` and `decode` below it, and the decode leg has `kv wait` in
//! the place of `first token`. A span is never longer than its parent: the ends are cut, since the
//! moments come from different tasks.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use http::uri::Authority;
use http::{HeaderValue, StatusCode};
use meridian_protocol::openai::Endpoint;

use super::line::shown;
use crate::facts::Record;
use crate::facts::timeline::{AttemptTimes, Mark, Part, span_number};

/// Numbers of spans that no other process hears of.
const OWN: u64 = 1 << 32;

/// A span of a request.
pub(super) struct Span<'a> {
    /// From which its id is made.
    pub(super) number: u64,
    /// The index of its parent; none for the request.
    pub(super) parent: Option<usize>,
    pub(super) name: Cow<'a, str>,
    pub(super) kind: Kind,
    /// Since the request's arrival.
    pub(super) from: Duration,
    pub(super) to: Duration,
    /// The replica or the peer that works in it; none for the gateway itself.
    pub(super) place: Option<Cow<'a, str>>,
    /// What kind of failure it ended with.
    pub(super) error: Option<Cow<'a, str>>,
    pub(super) attributes: Vec<(&'static str, Value<'a>)>,
}

/// The part that a span has in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Server,
    Client,
    Internal,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Text(Cow<'a, str>),
    Count(u64),
    Seconds(f64),
    Flag(bool),
}

/// The spans of a record, parents first; `model` is the fleet's name of its model.
pub(super) fn spans<'a>(record: &'a Record, model: Option<&'a str>) -> Vec<Span<'a>> {
    let mut tree = Tree { record, model, spans: Vec::with_capacity(8) };
    tree.request();
    tree.admission();
    for wait in &record.times.waits {
        tree.own(0, "queue", Some(wait.0), Some(wait.1));
    }
    for (at, times) in record.times.attempts.iter().enumerate() {
        tree.attempt(at, times);
    }
    tree.spans
}

struct Tree<'a> {
    record: &'a Record,
    model: Option<&'a str>,
    spans: Vec<Span<'a>>,
}

impl<'a> Tree<'a> {
    /// Adds a span within its parent; returns its index.
    fn add(&mut self, span: Span<'a>) -> usize {
        let (least, most) = match span.parent {
            Some(parent) => (self.spans[parent].from, self.spans[parent].to),
            None => (span.from, span.to),
        };
        let from = span.from.clamp(least, most);
        self.spans.push(Span { from, to: span.to.clamp(from, most), ..span });
        self.spans.len() - 1
    }

    /// Adds a span of the gateway's own; none without a beginning. It ends with its parent if its
    /// end was not seen.
    fn own(
        &mut self,
        parent: usize,
        name: &'static str,
        from: Option<Instant>,
        to: Option<Instant>,
    ) {
        let Some(from) = from else { return };
        let to = to.map_or(self.spans[parent].to, |to| self.record.since(to));
        self.add(Span {
            number: OWN + self.spans.len() as u64,
            parent: Some(parent),
            name: name.into(),
            kind: Kind::Internal,
            from: self.record.since(from),
            to,
            place: None,
            error: None,
            attributes: Vec::new(),
        });
    }

    fn request(&mut self) {
        let record = self.record;
        let name = match (method(record), record.endpoint.route()) {
            (Some(method), Some(route)) => format!("{method} {route}").into(),
            (Some(method), None) => method.into(),
            (None, route) => route.map_or("HTTP".into(), |route| format!("HTTP {route}").into()),
        };
        let failed = record.status.filter(StatusCode::is_server_error);
        let error = match failed {
            Some(status) => Some(status.as_str().to_owned().into()),
            None => (record.outcome == "failed").then_some(record.outcome.into()),
        };
        let attributes = request_attributes(record, self.model);
        let (from, to) = (Duration::ZERO, record.e2e());
        let kind = Kind::Server;
        let (number, parent, place) = (0, None, None);
        self.add(Span { number, parent, name, kind, from, to, place, error, attributes });
    }

    fn admission(&mut self) {
        let (record, hops) = (self.record, &self.record.times);
        let at = self.spans.len();
        self.own(0, "admission", Some(record.began()), hops.admitted);
        self.own(at, "read body", hops.received.map(|_| record.began()), hops.received);
    }

    fn attempt(&mut self, at: usize, times: &'a AttemptTimes) {
        let to = &times.to;
        let mut attributes = vec![("meridian.reason", Value::Text(to.reason.into()))];
        attributes.push(("meridian.matched_tokens", Value::Count(to.matched.into())));
        for (name, value) in [
            ("meridian.replica", &to.replica),
            ("meridian.prefill_replica", &to.prefill),
            ("meridian.peer", &to.peer),
            ("meridian.region", &to.region),
        ] {
            attributes.extend(text(name, value.as_ref()));
        }
        if at > 0 {
            attributes.push(("http.request.resend_count", Value::Count(at as u64)));
        }
        if let Some(status) = times.status {
            attributes.push(("http.response.status_code", status_code(status)));
        }
        attributes.extend(asked(self.record, self.model));
        let is_split = times.at(Mark::PrefillSent).is_some();
        if !is_split {
            attributes.extend(server(to.address.as_ref()));
        }
        let works = to.peer.as_ref().or(to.replica.as_ref()).filter(|_| !is_split);
        let attempt = self.add(Span {
            number: span_number(at, Part::Whole as u64),
            parent: Some(0),
            name: called(self.record.endpoint, self.model),
            kind: Kind::Client,
            from: self.record.since(times.began),
            to: times.ended.map_or(self.spans[0].to, |ended| self.record.since(ended)),
            place: works.map(shown),
            error: times.failed.map(Cow::from),
            attributes,
        });
        match is_split {
            true => self.legs(at, attempt, times),
            false => self.answer(attempt, times, "first token", times.at(Mark::Connected)),
        }
    }

    /// The legs of a split attempt.
    fn legs(&mut self, at: usize, attempt: usize, times: &'a AttemptTimes) {
        let to = &times.to;
        let [prefill_sent, prefilled, sent] =
            [Mark::PrefillSent, Mark::Prefilled, Mark::Sent].map(|mark| times.at(mark));
        let Some(began) = prefill_sent else { return };
        // Where both start at once, the answer may come before the end of the prefill leg.
        let ended = prefilled.or_else(|| sent.and(times.at(Mark::Head)));
        let failed = times.failed.map(Cow::from);
        let in_prefill = failed.clone().filter(|_| ended.is_none());
        self.leg(
            attempt,
            ("prefill", span_number(at, Part::Prefill as u64)),
            (began, ended),
            in_prefill,
        )
        .of(to.prefill.as_ref(), to.prefill_address.as_ref());
        let Some(sent) = sent else { return };
        let decode = self.spans.len();
        self.leg(
            attempt,
            ("decode", span_number(at, Part::Decode as u64)),
            (sent, times.ended),
            failed,
        )
        .of(to.replica.as_ref(), to.address.as_ref());
        let (name, from) = match prefilled {
            Some(prefilled) => ("kv wait", times.at(Mark::Connected).map(|at| at.max(prefilled))),
            None => ("first token", times.at(Mark::Connected)),
        };
        self.answer(decode, times, name, from);
    }

    fn leg(
        &mut self,
        parent: usize,
        (name, number): (&'static str, u64),
        (from, to): (Instant, Option<Instant>),
        error: Option<Cow<'a, str>>,
    ) -> &mut Span<'a> {
        let end = self.spans[parent].to;
        let leg = self.add(Span {
            number,
            parent: Some(parent),
            name: name.into(),
            kind: Kind::Client,
            from: self.record.since(from),
            to: to.map_or(end, |to| self.record.since(to)),
            place: None,
            error,
            attributes: Vec::new(),
        });
        &mut self.spans[leg]
    }

    /// The connection, the wait for the first token (`wait`, from `since`) and the rest of the answer.
    fn answer(
        &mut self,
        parent: usize,
        times: &AttemptTimes,
        wait: &'static str,
        since: Option<Instant>,
    ) {
        let [sent, connected, first] =
            [Mark::Sent, Mark::Connected, Mark::First].map(|mark| times.at(mark));
        if connected.is_some() {
            self.own(parent, "connect", sent, connected);
        }
        if first.is_some() || times.failed.is_none() {
            self.own(parent, wait, since.or(sent), first);
        }
        self.own(parent, "relay", first, times.ended);
    }
}

impl<'a> Span<'a> {
    /// Names the replica of a leg.
    fn of(&mut self, replica: Option<&'a HeaderValue>, address: Option<&'a Authority>) {
        self.place = replica.map(shown);
        self.attributes.extend(text("meridian.replica", replica));
        self.attributes.extend(server(address));
    }
}

/// The request's method, if it is one of those that OpenTelemetry's conventions know: any word may be
/// sent as one.
fn method(record: &Record) -> Option<&str> {
    const KNOWN: [&str; 9] =
        ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
    Some(record.times.method.as_str()).filter(|method| KNOWN.contains(method))
}

fn request_attributes<'a>(
    record: &'a Record,
    model: Option<&'a str>,
) -> Vec<(&'static str, Value<'a>)> {
    let text_of = |text: &'a str| Value::Text(text.into());
    let mut all = vec![
        ("http.request.method", text_of(method(record).unwrap_or("_OTHER"))),
        ("meridian.outcome", text_of(record.outcome)),
    ];
    all.extend(record.endpoint.route().map(|route| ("http.route", text_of(route))));
    all.extend(record.status.map(|status| ("http.response.status_code", status_code(status))));
    all.extend(asked(record, model));
    for (name, value) in [
        ("meridian.request_id", &record.id),
        ("meridian.tenant", &record.tenant),
        ("meridian.fallback", &record.fallback),
        ("meridian.replica", &record.replica),
        ("meridian.prefill_replica", &record.prefill),
        ("meridian.peer", &record.peer),
        ("meridian.region", &record.region),
    ] {
        all.extend(text(name, value.as_ref()));
    }
    for (name, value) in [
        ("meridian.alias", record.alias.as_deref()),
        ("meridian.priority", record.priority.map(|priority| priority.word())),
        ("meridian.policy", record.policy),
        ("meridian.reason", record.reason),
    ] {
        all.extend(value.map(|value| (name, text_of(value))));
    }
    let usage = record.usage;
    for (name, value) in [
        ("meridian.matched_tokens", record.matched),
        ("gen_ai.usage.input_tokens", usage.map(|usage| usage.prompt_tokens)),
        ("gen_ai.usage.output_tokens", usage.map(|usage| usage.completion_tokens)),
        ("gen_ai.usage.cache_read.input_tokens", usage.and_then(|usage| usage.cached_tokens)),
    ] {
        all.extend(value.map(|value| (name, Value::Count(value.into()))));
    }
    if let Some(asked) = &record.asked {
        all.push(("meridian.stream", Value::Flag(asked.stream)));
        for (name, value) in [
            ("meridian.hops", u64::from(record.hops)),
            ("meridian.retries", record.retries.into()),
            ("meridian.resumes", record.resumes.into()),
        ] {
            all.push((name, Value::Count(value)));
        }
        let queued = Value::Seconds(record.queued().as_secs_f64());
        all.push(("gen_ai.latency.time_in_queue", queued));
    }
    let first = record.ttft.map(|ttft| Value::Seconds(ttft.as_secs_f64()));
    all.extend(first.map(|first| ("gen_ai.latency.time_to_first_token", first)));
    all
}

/// The operation and the model, in OpenTelemetry's words for generative AI.
fn asked<'a>(
    record: &Record,
    model: Option<&'a str>,
) -> impl Iterator<Item = (&'static str, Value<'a>)> {
    let operation = operation(record.endpoint).map(|word| Value::Text(word.into()));
    let model = model.map(|model| Value::Text(model.into()));
    let operation = operation.map(|operation| ("gen_ai.operation.name", operation));
    operation.into_iter().chain(model.map(|model| ("gen_ai.request.model", model)))
}

fn operation(endpoint: Endpoint) -> Option<&'static str> {
    match endpoint {
        Endpoint::ChatCompletions | Endpoint::Responses | Endpoint::Messages => Some("chat"),
        Endpoint::Completions => Some("text_completion"),
        Endpoint::Embeddings => Some("embeddings"),
        _ => None,
    }
}

/// The name of an attempt: the operation and the model.
fn called<'a>(endpoint: Endpoint, model: Option<&str>) -> Cow<'a, str> {
    match (operation(endpoint), model) {
        (Some(operation), Some(model)) => format!("{operation} {model}").into(),
        (operation, _) => operation.unwrap_or("attempt").into(),
    }
}

fn server<'a>(address: Option<&'a Authority>) -> impl Iterator<Item = (&'static str, Value<'a>)> {
    let host = address.map(|address| Value::Text(address.host().into()));
    let port = address.and_then(Authority::port_u16).map(|port| Value::Count(port.into()));
    let host = host.map(|host| ("server.address", host));
    host.into_iter().chain(port.map(|port| ("server.port", port)))
}

fn text<'a>(
    name: &'static str,
    value: Option<&'a HeaderValue>,
) -> Option<(&'static str, Value<'a>)> {
    value.map(|value| (name, Value::Text(shown(value))))
}

fn status_code<'a>(status: StatusCode) -> Value<'a> {
    Value::Count(status.as_u16().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::answered;
    use crate::facts::timeline::To;

    fn checked(record: &Record) -> Vec<String> {
        let spans = spans(record, Some("m"));
        for span in &spans[1..] {
            let parent = &spans[span.parent.unwrap()];
            assert!(parent.from <= span.from && span.from <= span.to && span.to <= parent.to);
        }
        spans.iter().map(|span| span.name.to_string()).collect()
    }

    // A client that disconnects leaves an attempt without an end, which ends with the request. Moments
    // after the end, or in another order, are cut: each span lies within its parent.
    #[test]
    fn cut() {
        let mut record = answered();
        record.times.begin(To::default());
        let now = Instant::now();
        record.times.mark(Mark::First, now + Duration::from_secs(5));
        record.times.mark(Mark::Sent, now + Duration::from_secs(9));
        record.times.mark(Mark::Connected, now);
        record.over();
        let request = "GET /v1/chat/completions";
        let whole = ["admission", "chat m", "connect", "first token", "relay"];
        assert_eq!(checked(&record)[1..], whole);
        assert_eq!(checked(&record)[0], request);
    }

    // A prefill leg that fails has the failure, and there is no decode leg. Where both legs start at
    // once, the answer may come before the end of the prefill leg.
    #[test]
    fn legs() {
        let mut record = answered();
        record.times.begin(To::default());
        record.times.mark(Mark::PrefillSent, Instant::now());
        record.times.current().unwrap().fail("died", None);
        record.times.begin(To::default());
        for mark in [Mark::PrefillSent, Mark::Sent, Mark::Connected, Mark::Head, Mark::First] {
            record.times.mark(mark, Instant::now());
        }
        record.over();
        let names = checked(&record);
        let decode = ["prefill", "decode", "connect", "first token", "relay"];
        assert_eq!(names[2..4], ["chat m", "prefill"]);
        assert_eq!((names[4].as_str(), &names[5..]), ("chat m", &decode.map(str::to_owned)[..]));
        let spans = spans(&record, Some("m"));
        let errors: Vec<_> = spans.iter().map(|span| span.error.as_deref()).collect();
        assert_eq!(errors[1..6], [None, Some("died"), Some("died"), None, None]);
    }
}
