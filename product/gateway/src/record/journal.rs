//! Lines of the journal, in the format that `meridian workload` reads (docs/capacity.md).

use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};

use crate::facts::blocks::{SPAN_TOKENS, Spans};
use crate::facts::{DONE, Record};

/// Most tokens that the format allows for a prompt or a reply.
const MOST_TOKENS: u32 = 1 << 24;

/// The first line of each file. Lines with blocks of another size say so themselves, since the file may
/// be older than the configuration.
pub(super) fn header() -> String {
    format!("{{\"meridian_journal\":1,\"block_tokens\":{SPAN_TOKENS}}}\n")
}

#[derive(Serialize)]
struct JournalRow<'a> {
    #[serde(serialize_with = "millis")]
    timestamp: Duration,
    input_length: u32,
    output_length: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_tokens: Option<u32>,
    hash_ids: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_millis")]
    ttft_ms: Option<Duration>,
    #[serde(serialize_with = "millis")]
    e2e_ms: Duration,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
    #[serde(flatten)]
    shadow: Option<Shadow>,
}

/// The shadow policy's decision. Readers of the format skip fields that they do not know and that begin
/// with `x_`.
#[derive(Serialize)]
struct Shadow {
    x_shadow: &'static str,
    x_shadow_would: &'static str,
    #[serde(flatten)]
    compared: Option<Compared>,
}

#[derive(Serialize)]
struct Compared {
    x_prompt: u32,
    x_matched: u32,
    x_shadow_matched: u32,
    #[serde(serialize_with = "millis")]
    x_predicted_ttft_ms: Duration,
    #[serde(serialize_with = "millis")]
    x_shadow_predicted_ttft_ms: Duration,
}

impl Shadow {
    fn of(seen: &meridian_routing::Shadowed) -> Shadow {
        let ms = |ms: f32| Duration::from_secs_f32(ms.clamp(0.0, 1e9) / 1e3);
        let compared = seen.compared.map(|compared| Compared {
            x_prompt: compared.prompt_tokens,
            x_matched: compared.matched_tokens,
            x_shadow_matched: compared.shadow_matched_tokens,
            x_predicted_ttft_ms: ms(compared.first_token_ms),
            x_shadow_predicted_ttft_ms: ms(compared.shadow_first_token_ms),
        });
        Shadow { x_shadow: seen.policy, x_shadow_would: seen.would.word(), compared }
    }
}

/// Appends the line of a request that arrived in `region`, if it belongs in the journal; `model` is
/// the fleet's name of its model.
pub(super) fn write(
    record: &mut Record,
    spans: &Spans,
    region: &str,
    model: Option<&str>,
    out: &mut Vec<u8>,
) -> bool {
    let blocks = record.blocks.take();
    let (Some(asked), Some(blocks)) = (&record.asked, blocks) else { return false };
    let input = record.prompt_tokens().unwrap_or(asked.tokens).clamp(1, MOST_TOKENS);
    if record.outcome == DONE {
        spans.learn(asked.model, input, asked.bytes);
    }
    let output = record.usage.map_or(record.pieces, |usage| usage.completion_tokens);
    let hash = |hash: u64| format!("{hash:016x}");
    let row = JournalRow {
        timestamp: record.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
        input_length: input,
        output_length: output.min(MOST_TOKENS),
        block_tokens: Some(blocks.tokens).filter(|tokens| *tokens != SPAN_TOKENS),
        hash_ids: spans.ids(asked.model, blocks, input),
        region: Some(region).filter(|name| is_name(name)),
        tenant: Some(asked.tenant).filter(|tenant| *tenant != 0).map(hash),
        session: asked.session.map(hash),
        outcome: record.outcome,
        ttft_ms: record.ttft,
        e2e_ms: record.e2e(),
        model: model.filter(|name| is_name(name)),
        policy: record.policy.filter(|name| is_name(name)),
        shadow: record.shadow.as_ref().map(|shadow| Shadow::of(&shadow.seen)),
    };
    // Writing numbers and text to memory does not fail.
    let _ = serde_json::to_writer(&mut *out, &row);
    out.push(b'\n');
    true
}

/// Whether the format allows a name: its readers refuse a file with any other.
fn is_name(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._:/@+-".contains(&b);
    (1..=128).contains(&text.len()) && text.bytes().all(fits)
}

/// Milliseconds, to the microsecond.
fn millis<S: Serializer>(time: &Duration, s: S) -> Result<S::Ok, S::Error> {
    match time.as_micros() {
        whole if whole % 1000 == 0 => {
            s.serialize_u64(u64::try_from(whole / 1000).unwrap_or(u64::MAX))
        }
        part => s.serialize_f64(part as f64 / 1e3),
    }
}

fn some_millis<S: Serializer>(time: &Option<Duration>, s: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => millis(time, s),
        None => s.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use meridian_base::{Fingerprinter, ModelId};

    use super::*;
    use crate::facts::Asked;
    use crate::facts::tests::answered;

    fn line(record: &mut Record, spans: &Spans, model: &str) -> String {
        let mut out = Vec::new();
        assert!(write(record, spans, "eu-west", Some(model), &mut out));
        String::from_utf8(out).unwrap()
    }

    fn prompt(bytes: usize) -> Fingerprinter {
        let mut prompt = Fingerprinter::new(1, 0, 64);
        prompt.push(&vec![b'a'; bytes]);
        prompt
    }

    // All fields; ids are absent in a prompt of less than a block.
    #[test]
    fn a_line() {
        let spans = Spans::new();
        let mut record = answered();
        record.blocks = Some(spans.take(ModelId(0), &prompt(360)));
        record.policy = Some("meridian");
        let asked = record.asked.take().unwrap();
        record.asked = Some(Asked { tenant: 255, session: Some(7), ..asked });
        assert_eq!(
            line(&mut record, &spans, "org/m-1"),
            "{\"timestamp\":1700000000250,\"input_length\":100,\"output_length\":5,\"hash_ids\":[],\"region\":\"eu-west\",\"tenant\":\"00000000000000ff\",\"session\":\"0000000000000007\",\"outcome\":\"done\",\"ttft_ms\":200,\"e2e_ms\":1000,\"model\":\"org/m-1\",\"policy\":\"meridian\"}\n"
        );
        assert!(!write(&mut record, &spans, "eu-west", None, &mut Vec::new()));
    }

    // The fields of a shadow policy are extensions of the format, and `meridian workload` reads them.
    #[test]
    fn a_shadow() {
        use meridian_routing::{Shadowed as Seen, Would};
        let spans = Spans::new();
        let mut record = answered();
        record.blocks = Some(spans.take(ModelId(0), &prompt(360)));
        let seen = Seen {
            policy: "p2c",
            would: Would::OtherReplica,
            pick: None,
            prefill: None,
            compared: Some(meridian_routing::Compared {
                prompt_tokens: 100,
                matched_tokens: 64,
                shadow_matched_tokens: 16,
                first_token_ms: 3.6,
                shadow_first_token_ms: 8.0,
            }),
        };
        record.shadow = Some(crate::facts::Shadowed { seen, replica: None });
        let line = line(&mut record, &spans, "m");
        let fields = ",\"x_shadow\":\"p2c\",\"x_shadow_would\":\"other_replica\",\"x_prompt\":100,\"x_matched\":64,\"x_shadow_matched\":16,\"x_predicted_ttft_ms\":3.6,\"x_shadow_predicted_ttft_ms\":8}\n";
        assert!(line.ends_with(fields), "{line}");
    }

    // A long prompt has an id for each 512 tokens that the engine counted. A name that the format
    // does not allow is left out.
    #[test]
    fn a_long_prompt() {
        let spans = Spans::new();
        let mut record = answered();
        record.blocks = Some(spans.take(ModelId(0), &prompt(5000)));
        record.asked.as_mut().unwrap().bytes = 5000;
        record.usage.as_mut().unwrap().prompt_tokens = 1250;
        let line: serde_json::Value =
            serde_json::from_str(&line(&mut record, &spans, "a model")).unwrap();
        assert_eq!(line["hash_ids"].as_array().map(Vec::len), Some(2));
        assert_eq!((&line["input_length"], line.get("model")), (&1250.into(), None));
    }
}
