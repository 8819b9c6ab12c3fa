//! Spans in OTLP's messages.

use std::time::{Duration, SystemTime};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as Message, Status};

use super::tree::{Kind, Span, Value, spans};
use crate::facts::Record;
use crate::facts::trace::Trace;

/// The name of the software that made the spans.
const SCOPE: &str = "meridian";

/// The spans of a record that belongs to a trace.
pub(super) fn messages(record: &Record, trace: &Trace, model: Option<&str>) -> Vec<Message> {
    let spans = spans(record, model);
    let began = record.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let state = trace.state.as_ref().and_then(|state| state.to_str().ok()).unwrap_or_default();
    let message = |span: &Span<'_>| {
        let parent = match span.parent {
            Some(parent) => Some(trace.span(spans[parent].number)),
            None => trace.parent,
        };
        Message {
            trace_id: trace.id.to_be_bytes().to_vec(),
            span_id: trace.span(span.number).to_be_bytes().to_vec(),
            parent_span_id: parent.map_or_else(Vec::new, |parent| parent.to_be_bytes().to_vec()),
            trace_state: state.to_owned(),
            flags: u32::from(trace.flags()),
            name: span.name.to_string(),
            kind: match span.kind {
                Kind::Server => SpanKind::Server,
                Kind::Client => SpanKind::Client,
                Kind::Internal => SpanKind::Internal,
            } as i32,
            start_time_unix_nano: nanos(began + span.from),
            end_time_unix_nano: nanos(began + span.to),
            attributes: attributes(span),
            status: span
                .error
                .as_ref()
                .map(|_| Status { message: String::new(), code: StatusCode::Error as i32 }),
            ..Message::default()
        }
    };
    spans.iter().map(message).collect()
}

/// A request to the collector, from the service that these attributes describe.
pub(super) fn request(
    resource: &[(&'static str, String)],
    spans: Vec<Message>,
) -> ExportTraceServiceRequest {
    let text = |(key, value): &(&str, String)| pair(key, Any::StringValue(value.clone()));
    let scope = InstrumentationScope {
        name: SCOPE.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let resource =
        Resource { attributes: resource.iter().map(text).collect(), ..Resource::default() };
    let scope_spans = ScopeSpans { scope: Some(scope), spans, schema_url: String::new() };
    let resource_spans = ResourceSpans {
        resource: Some(resource),
        scope_spans: vec![scope_spans],
        schema_url: String::new(),
    };
    ExportTraceServiceRequest { resource_spans: vec![resource_spans] }
}

fn attributes(span: &Span<'_>) -> Vec<KeyValue> {
    let error =
        span.error.as_ref().map(|error| pair("error.type", Any::StringValue(error.to_string())));
    let value = |value: &Value<'_>| match value {
        Value::Text(text) => Any::StringValue(text.to_string()),
        Value::Count(count) => Any::IntValue(i64::try_from(*count).unwrap_or(i64::MAX)),
        Value::Seconds(seconds) => Any::DoubleValue(*seconds),
        Value::Flag(flag) => Any::BoolValue(*flag),
    };
    let all = span.attributes.iter().map(|(name, one)| pair(name, value(one)));
    all.chain(error).collect()
}

fn pair(key: &str, value: Any) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn nanos(since: Duration) -> u64 {
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
