//! The requests of one gateway, as one place shows them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use meridian_protocol::admin::{Point, Status};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{ClientCounts, Error, Result, Scrape};

/// The quantities.
pub(super) const NAMES: [&str; 7] = [
    "for a model",
    "of clients",
    "of them done",
    "others",
    "prompt tokens",
    "cached tokens",
    "output tokens",
];

/// Counts of the quantities, in the same order; none where a place does not show one. Requests for a
/// model are those of clients and those that peers forwarded; the others are the lists of models.
/// Tokens are those of the clients' requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally(pub(super) [Option<u64>; 7]);

impl Tally {
    pub(super) fn of_client(counts: &ClientCounts) -> Tally {
        let ClientCounts { sent, ok, prompt_tokens, cached_tokens, output_tokens, .. } = *counts;
        let tokens = [prompt_tokens, cached_tokens, output_tokens].map(Some);
        Tally([None, Some(sent), Some(ok), None, tokens[0], tokens[1], tokens[2]])
    }

    pub(super) fn of_status(status: &Status) -> Tally {
        let requests = &status.requests;
        let taken = || status.peers.iter().map(|peer| &peer.taken);
        let own = requests.accepted.saturating_sub(taken().map(|taken| taken.begun).sum());
        let done = requests.done.saturating_sub(taken().map(|taken| taken.done).sum());
        Tally([Some(requests.accepted), Some(own), Some(done), None, None, None, None])
    }

    pub(super) fn of_metrics(page: &Scrape) -> Tally {
        let requests =
            |labels: &[&str]| page.count_with("meridian_http_requests_total", labels).unwrap_or(0);
        let (no_model, client) = ("model=\"\"", "from=\"client\"");
        let without = |labels: &[&str]| requests(&[labels, &[no_model]].concat());
        let of_model = |labels: &[&str]| Some(requests(labels) - without(labels));
        let tokens = |kind: &str| {
            let kind = format!("kind=\"{kind}\"");
            Some(page.count_with("meridian_tokens_total", &[&kind]).unwrap_or(0))
        };
        Tally([
            of_model(&[]),
            of_model(&[client]),
            of_model(&[client, "outcome=\"done\""]),
            Some(without(&[])),
            tokens("prompt"),
            tokens("cached"),
            tokens("completion"),
        ])
    }

    /// Points are rates.
    pub(super) fn of_page(points: &[Point]) -> Tally {
        let requests = points.iter().map(|p| f64::from(p.requests_per_s) * f64::from(p.seconds));
        let requests = requests.sum::<f64>().round() as u64;
        Tally([Some(requests), None, None, None, None, None, None])
    }

    /// Whether each count is the other's, as far as both have it.
    pub(super) fn is_within(&self, other: &Tally) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a.is_none() || b.is_none() || a == b)
    }

    /// A row of nothing but zeros, for a place that shows all quantities.
    fn all() -> Tally {
        Tally([Some(0); 7])
    }

    fn add(&mut self, request: &Request) {
        let Some(hops) = request.hops else { return self.count(3, 1) };
        self.count(0, 1);
        if hops > 0 {
            return;
        }
        self.count(1, 1);
        self.count(2, u64::from(request.is_done));
        for (at, tokens) in (4..).zip(request.tokens) {
            self.count(at, tokens.unwrap_or(0));
        }
    }

    fn count(&mut self, at: usize, more: u64) {
        self.0[at] = self.0[at].map(|sum| sum + more);
    }
}

/// One request.
struct Request {
    /// Forwards before it arrived; none if it was not for a model.
    hops: Option<u64>,
    is_done: bool,
    /// Prompt, cached, output; none without the engine's count.
    tokens: [Option<u64>; 3],
}

#[derive(Deserialize)]
struct Logged {
    hops: Option<u64>,
    outcome: String,
    prompt_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

/// Counts the lines of an access log.
pub(super) fn access_log(file: &Path) -> Result<Tally> {
    let mut sum = Tally::all();
    for line in lines::<Logged>(file)? {
        let line = line?;
        // Without the engine's count, the prompt's is an estimate.
        let prompt = line.prompt_tokens.filter(|_| line.completion_tokens.is_some());
        sum.add(&Request {
            hops: line.hops,
            is_done: line.outcome == "done",
            tokens: [prompt, line.cached_tokens, line.completion_tokens],
        });
    }
    Ok(sum)
}

#[derive(Deserialize)]
struct Journaled {
    outcome: Option<String>,
    input_length: Option<u64>,
    output_length: Option<u64>,
}

/// Counts the lines of a journal. It has the requests of clients only, and no cached tokens.
pub(super) fn journal(file: &Path) -> Result<Tally> {
    let mut sum = Tally([None, Some(0), Some(0), None, Some(0), None, Some(0)]);
    for line in lines::<Journaled>(file)? {
        let line = line?;
        // The first line is the header.
        let Some(outcome) = line.outcome else { continue };
        sum.add(&Request {
            hops: Some(0),
            is_done: outcome == "done",
            tokens: [line.input_length, None, line.output_length],
        });
    }
    Ok(sum)
}

/// Counts the spans of whole requests, by their gateway.
pub(super) fn traces(file: &Path) -> Result<BTreeMap<String, Tally>> {
    let mut sums = BTreeMap::new();
    for message in lines::<ExportTraceServiceRequest>(file)? {
        for resource in message?.resource_spans {
            let of = resource.resource.unwrap_or_default();
            let gateway = of.attributes.iter().find(|pair| pair.key == "service.name");
            let gateway = gateway.and_then(|pair| text(pair.value.as_ref()?.value.as_ref()?));
            let sum = sums.entry(gateway.unwrap_or_default()).or_insert_with(Tally::all);
            let spans = resource.scope_spans.iter().flat_map(|scope| &scope.spans);
            spans.filter(|span| span.kind() == SpanKind::Server).for_each(|s| sum.add(&of_span(s)));
        }
    }
    Ok(sums)
}

fn of_span(span: &Span) -> Request {
    let find = |name: &str| {
        let pair = span.attributes.iter().find(|pair| pair.key == name)?;
        pair.value.as_ref()?.value.as_ref()
    };
    let number = |name: &str| match find(name) {
        Some(Value::IntValue(number)) => u64::try_from(*number).ok(),
        _ => None,
    };
    Request {
        hops: number("meridian.hops"),
        is_done: find("meridian.outcome").and_then(text).as_deref() == Some("done"),
        tokens: ["input_tokens", "cache_read.input_tokens", "output_tokens"]
            .map(|kind| number(&format!("gen_ai.usage.{kind}"))),
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::StringValue(text) => Some(text.clone()),
        _ => None,
    }
}

/// The lines of a file of JSON.
fn lines<T: DeserializeOwned>(file: &Path) -> Result<impl Iterator<Item = Result<T>>> {
    let open = File::open(file).map_err(Error::file("reading", file))?;
    Ok(BufReader::new(open).lines().enumerate().map(move |(n, line)| {
        let line = line.map_err(Error::file("reading", file))?;
        let bad =
            |why| io::Error::new(io::ErrorKind::InvalidData, format!("line {}: {why}", n + 1));
        serde_json::from_str(&line).map_err(bad).map_err(Error::file("reading", file))
    }))
}
