//! Lines of the access log, in JSON or logfmt. Both have the same fields; absent ones are left out.
//!
//! Headers may have any bytes above 127, and as many as a client likes, so text from headers is cut
//! and reduced to printable ASCII.

use std::borrow::Cow;
use std::io::Write;
use std::time::{Duration, SystemTime};

use http::HeaderValue;
use meridian_config::LogFormat;

use crate::facts::{Record, Shadowed};

/// Most bytes of a text from a header.
const MOST: usize = 128;

/// A field's value.
enum Value<'a> {
    Text(Cow<'a, str>),
    Time(SystemTime),
    Count(u64),
    Millis(Duration),
    Flag(bool),
}

/// Appends a record's line; `model` is the fleet's name of its model.
pub(super) fn write(format: LogFormat, record: &Record, model: Option<&str>, out: &mut Vec<u8>) {
    match format {
        LogFormat::Json => {
            let mut separator = b'{';
            fields(record, model, &mut |name, value| {
                out.push(separator);
                separator = b',';
                let _ = write!(out, "\"{name}\":");
                json(value, out);
            });
            out.extend_from_slice(b"}\n");
        }
        LogFormat::Logfmt => {
            let mut is_first = true;
            fields(record, model, &mut |name, value| {
                if !std::mem::take(&mut is_first) {
                    out.push(b' ');
                }
                let _ = write!(out, "{name}=");
                logfmt(value, out);
            });
            out.push(b'\n');
        }
    }
}

/// Passes the fields that are present, in the order of a line. There is always one.
fn fields(record: &Record, model: Option<&str>, each: &mut dyn FnMut(&'static str, Value<'_>)) {
    let asked = record.asked.as_ref();
    each("time", Value::Time(record.at));
    let mut text = |name, value: Option<Cow<'_, str>>| {
        if let Some(value) = value {
            each(name, Value::Text(value));
        }
    };
    text("id", record.id.as_ref().map(shown));
    text("tenant", record.tenant.as_ref().map(shown));
    text("model", model.map(Cow::from));
    text("alias", record.alias.as_deref().map(Cow::from));
    text("fallback", record.fallback.as_ref().map(shown));
    text(
        "session",
        asked.and_then(|asked| asked.session).map(|hash| format!("{hash:016x}").into()),
    );
    text("endpoint", Some(record.endpoint.word().into()));
    if let Some(asked) = asked {
        each("stream", Value::Flag(asked.stream));
    }
    if let Some(priority) = record.priority {
        each("priority", Value::Text(priority.word().into()));
    }
    if let Some(status) = record.status {
        each("status", Value::Count(status.as_u16().into()));
    }
    let mut text = |name, value: Option<Cow<'_, str>>| {
        if let Some(value) = value {
            each(name, Value::Text(value));
        }
    };
    text("outcome", Some(record.outcome.into()));
    text("reason", record.reason.map(Cow::from));
    text("replica", record.replica.as_ref().map(shown));
    text("prefill", record.prefill.as_ref().map(shown));
    text("peer", record.peer.as_ref().map(shown));
    text("region", record.region.as_ref().map(shown));
    let mut count = |name, value: Option<u32>| {
        if let Some(value) = value {
            each(name, Value::Count(value.into()));
        }
    };
    count("hops", asked.map(|_| record.hops.into()));
    count("matched", record.matched);
    count("prompt_tokens", record.prompt_tokens());
    count("completion_tokens", record.usage.map(|usage| usage.completion_tokens));
    count("cached_tokens", record.usage.and_then(|usage| usage.cached_tokens));
    if record.is_estimated {
        each("tokens_estimated", Value::Flag(true));
    }
    if let Some(shadow) = &record.shadow {
        shadowed(shadow, each);
    }
    for (name, value) in [
        ("queue_ms", asked.map(|_| record.queued())),
        ("ttft_ms", record.ttft),
        ("tpot_ms", record.tpot()),
        ("e2e_ms", Some(record.e2e())),
    ] {
        if let Some(value) = value {
            each(name, Value::Millis(value));
        }
    }
    if asked.is_some() {
        each("retries", Value::Count(record.retries.into()));
        each("resumes", Value::Count(record.resumes.into()));
    }
}

/// The fields of the shadow policy's decision.
fn shadowed(shadow: &Shadowed, each: &mut dyn FnMut(&'static str, Value<'_>)) {
    let seen = &shadow.seen;
    each("shadow", Value::Text(seen.policy.into()));
    each("shadow_would", Value::Text(seen.would.word().into()));
    if let Some(replica) = &shadow.replica {
        each("shadow_replica", Value::Text(replica.to_string().into()));
    }
    if let Some(compared) = &seen.compared {
        let ms = |ms: f32| Value::Millis(Duration::from_secs_f32(ms.clamp(0.0, 1e9) / 1e3));
        each("shadow_matched", Value::Count(compared.shadow_matched_tokens.into()));
        each("predicted_ttft_ms", ms(compared.first_token_ms));
        each("shadow_predicted_ttft_ms", ms(compared.shadow_first_token_ms));
    }
}

/// A header's text: its first bytes, with `?` for those that are not printable.
pub(super) fn shown(value: &HeaderValue) -> Cow<'_, str> {
    let bytes = &value.as_bytes()[..value.len().min(MOST)];
    let is_plain = |b: &u8| matches!(b, b' '..=b'~');
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.iter().all(is_plain) => text.into(),
        _ => bytes.iter().map(|b| if is_plain(b) { char::from(*b) } else { '?' }).collect(),
    }
}

fn json(value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Text(text) => {
            let _ = serde_json::to_writer(&mut *out, &text);
        }
        Value::Time(time) => {
            let _ = write!(out, "\"{}\"", humantime::format_rfc3339_millis(time));
        }
        other => plain(&other, out),
    }
}

fn logfmt(value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Text(text) => quoted(&text, out),
        Value::Time(time) => {
            let _ = write!(out, "{}", humantime::format_rfc3339_millis(time));
        }
        other => plain(&other, out),
    }
}

/// Numbers and flags, which are the same in both forms.
fn plain(value: &Value<'_>, out: &mut Vec<u8>) {
    let _ = match value {
        Value::Count(count) => write!(out, "{count}"),
        Value::Millis(time) => write!(out, "{:.3}", time.as_secs_f64() * 1e3),
        Value::Flag(flag) => write!(out, "{flag}"),
        Value::Text(_) | Value::Time(_) => Ok(()),
    };
}

/// A text in logfmt, with quotes if a reader would otherwise end it too early or too late.
fn quoted(text: &str, out: &mut Vec<u8>) {
    let is_safe = |c: char| !c.is_control() && !c.is_whitespace() && !matches!(c, '"' | '=' | '\\');
    if !text.is_empty() && text.chars().all(is_safe) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    out.push(b'"');
    for c in text.chars() {
        let _ = match c {
            '"' | '\\' => write!(out, "\\{c}"),
            '\n' => write!(out, "\\n"),
            '\r' => write!(out, "\\r"),
            '\t' => write!(out, "\\t"),
            c if c.is_control() => write!(out, "\\u{:04x}", u32::from(c)),
            c => write!(out, "{c}"),
        };
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use meridian_protocol::openai::Endpoint;

    use super::*;
    use crate::facts::tests::answered;

    fn line(format: LogFormat, record: &Record, model: Option<&str>) -> String {
        let mut out = Vec::new();
        write(format, record, model, &mut out);
        String::from_utf8(out).unwrap()
    }

    // An answered stream, in both forms.
    #[test]
    fn forms() {
        let record = answered();
        assert_eq!(
            line(LogFormat::Json, &record, Some("m")),
            "{\"time\":\"2023-11-14T22:13:20.250Z\",\"id\":\"req-1\",\"model\":\"m\",\"endpoint\":\"chat_completions\",\"stream\":true,\"status\":200,\"outcome\":\"done\",\"reason\":\"turn\",\"hops\":0,\"prompt_tokens\":100,\"completion_tokens\":5,\"cached_tokens\":64,\"queue_ms\":0.000,\"ttft_ms\":200.000,\"tpot_ms\":200.000,\"e2e_ms\":1000.000,\"retries\":0,\"resumes\":0}\n"
        );
        assert_eq!(
            line(LogFormat::Logfmt, &record, Some("a b")),
            "time=2023-11-14T22:13:20.250Z id=req-1 model=\"a b\" endpoint=chat_completions stream=true status=200 outcome=done reason=turn hops=0 prompt_tokens=100 completion_tokens=5 cached_tokens=64 queue_ms=0.000 ttft_ms=200.000 tpot_ms=200.000 e2e_ms=1000.000 retries=0 resumes=0\n"
        );
    }

    // The decision of a shadow policy is behind the counts of tokens.
    #[test]
    fn a_shadow() {
        use meridian_base::ReplicaId;
        use meridian_routing::{Compared, Shadowed as Seen, Would};
        let mut record = answered();
        let compared = Compared {
            prompt_tokens: 100,
            matched_tokens: 64,
            shadow_matched_tokens: 16,
            first_token_ms: 3.6,
            shadow_first_token_ms: 8.4,
        };
        let seen = Seen {
            policy: "p2c",
            would: Would::OtherReplica,
            pick: None,
            prefill: None,
            compared: Some(compared),
        };
        let replica = Some(crate::facts::name::ReplicaName::new(ReplicaId(2), 0));
        record.shadow = Some(Shadowed { seen, replica });
        let text = line(LogFormat::Logfmt, &record, None);
        let fields = "cached_tokens=64 shadow=p2c shadow_would=other_replica shadow_replica=r2 shadow_matched=16 predicted_ttft_ms=3.600 shadow_predicted_ttft_ms=8.400 queue_ms";
        assert!(text.contains(fields), "{text}");
    }

    // Nothing that a client puts into a header ends a line or a value, and long texts are cut.
    #[test]
    fn hostile_headers() {
        let mut record = Record::new(Endpoint::Other, true);
        record.id = Some(HeaderValue::from_bytes(b"a\" b\\=\t\xff\xc3\xa9").unwrap());
        record.tenant = Some(HeaderValue::from_str(&"t".repeat(4000)).unwrap());
        let json: serde_json::Value =
            serde_json::from_str(&line(LogFormat::Json, &record, None)).unwrap();
        assert_eq!(json["id"], "a\" b\\=????");
        assert_eq!(json["tenant"], "t".repeat(MOST));
        assert_eq!((&json["outcome"], json.get("status")), (&"cancelled".into(), None));
        let logfmt = line(LogFormat::Logfmt, &record, None);
        assert!(logfmt.contains("id=\"a\\\" b\\\\=????\" tenant=ttt"), "{logfmt}");
        assert_eq!(logfmt.lines().count(), 1);
    }

    // Control characters, which a model's name may have, are escaped.
    #[test]
    fn quotes() {
        for (text, shown) in [
            ("plain/name-1.0", "plain/name-1.0"),
            ("", "\"\""),
            ("a=b", "\"a=b\""),
            ("a\nb\u{1}", "\"a\\nb\\u0001\""),
            ("\u{e9}", "\u{e9}"),
        ] {
            let mut out = Vec::new();
            quoted(text, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), shown);
        }
    }
}
