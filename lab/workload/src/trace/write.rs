//! Writes traces: Mooncake's format for other tools, the journal for our own.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::journal::{HEADER, VERSION};
use super::request::Shadowed;
use super::{Format, Outcome, TraceRequest};

/// Writes requests, one per line.
pub struct Writer<W> {
    out: W,
    journal: bool,
    block_tokens: u32,
    started: bool,
}

impl<W: Write> Writer<W> {
    /// Writes `format` to `out`, in blocks of `block_tokens`; `None` for a read-only format.
    pub fn new(out: W, format: Format, block_tokens: u32) -> Option<Writer<W>> {
        let journal = match format {
            Format::Journal => true,
            Format::Mooncake => false,
            Format::Qwen | Format::Azure => return None,
        };
        Some(Writer { out, journal, block_tokens, started: false })
    }

    /// Writes one request. Its prompt is cut again if its blocks have another size; `number` is
    /// unique to the request, and names the unshared part of its prompt.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn write(&mut self, request: TraceRequest, number: u64) -> io::Result<()> {
        if self.journal && !std::mem::replace(&mut self.started, true) {
            writeln!(
                self.out,
                "{{\"{HEADER}\":{VERSION},\"block_tokens\":{}}}",
                self.block_tokens
            )?;
        }
        let request = request.in_blocks(self.block_tokens, number);
        let mut row = WriteRow::mooncake(&request);
        if self.journal {
            row = row.journal(&request);
        }
        serde_json::to_writer(&mut self.out, &row)?;
        self.out.write_all(b"\n")
    }

    /// Ends the file and returns the output.
    ///
    /// # Errors
    ///
    /// When the buffer cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// A line, in the order of its fields.
#[derive(Serialize)]
struct WriteRow<'a> {
    timestamp: Millis,
    input_length: u32,
    output_length: u32,
    hash_ids: &'a [u64],
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttft_ms: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    e2e_ms: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
    #[serde(flatten)]
    shadow: Option<Shadow<'a>>,
}

/// The fields of a shadow policy's decision.
#[derive(Serialize)]
struct Shadow<'a> {
    x_shadow: &'a str,
    x_shadow_would: &'a str,
    #[serde(flatten)]
    compared: Option<Figures>,
}

#[derive(Serialize)]
struct Figures {
    x_prompt: u32,
    x_matched: u32,
    x_shadow_matched: u32,
    x_predicted_ttft_ms: Millis,
    x_shadow_predicted_ttft_ms: Millis,
}

impl<'a> Shadow<'a> {
    fn of(shadow: &'a Shadowed) -> Shadow<'a> {
        let compared = shadow.compared.map(|compared| Figures {
            x_prompt: compared.prompt_tokens,
            x_matched: compared.matched_tokens,
            x_shadow_matched: compared.shadow_matched_tokens,
            x_predicted_ttft_ms: Millis::long(compared.first_token),
            x_shadow_predicted_ttft_ms: Millis::long(compared.shadow_first_token),
        });
        Shadow { x_shadow: &shadow.policy, x_shadow_would: &shadow.would, compared }
    }
}

/// Milliseconds: whole ones without a fraction.
#[derive(Serialize)]
#[serde(untagged)]
enum Millis {
    Whole(u64),
    Part(f64),
}

impl Millis {
    fn of(nanos: u64) -> Millis {
        match nanos % 1_000_000 {
            0 => Millis::Whole(nanos / 1_000_000),
            _ => Millis::Part(nanos as f64 / 1e6),
        }
    }

    fn long(time: Duration) -> Millis {
        Millis::of(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl<'a> WriteRow<'a> {
    fn mooncake(request: &'a TraceRequest) -> WriteRow<'a> {
        WriteRow {
            timestamp: Millis::of(request.at.as_nanos()),
            input_length: request.input_tokens,
            output_length: request.output_tokens,
            hash_ids: &request.hash_ids,
            region: None,
            tenant: None,
            session: None,
            outcome: None,
            ttft_ms: None,
            e2e_ms: None,
            model: None,
            policy: None,
            shadow: None,
        }
    }

    fn journal(self, request: &'a TraceRequest) -> WriteRow<'a> {
        let hash = |hash: u64| format!("{hash:016x}");
        WriteRow {
            region: request.region.as_deref(),
            tenant: request.tenant.map(hash),
            session: request.session.map(hash),
            outcome: request.outcome.map(Outcome::name),
            ttft_ms: request.ttft.map(Millis::long),
            e2e_ms: request.e2e.map(Millis::long),
            model: request.model.as_deref(),
            policy: request.policy.as_deref(),
            shadow: request.shadow.as_ref().map(Shadow::of),
            ..self
        }
    }
}
