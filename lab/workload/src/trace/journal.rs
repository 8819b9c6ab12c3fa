//! Meridian's own format: Mooncake's fields, plus tenant, region and outcome. It has only hashes,
//! so that users can replay their own traffic without its prompts.
//!
//! The first line is a header, `{"meridian_journal": 1, "block_tokens": 16}`; it may repeat, so
//! that journals can be joined with `cat`. An unknown field is an error; extensions start with
//! `x_`.

use std::time::Duration;

use meridian_base::Time;

use super::fields::Fields;
use super::request::{Compared, Shadowed};
use super::rows::common;
use super::{Fault, Outcome, TraceRequest};

/// The field that makes a line a header; its value is the version.
pub(crate) const HEADER: &str = "meridian_journal";

/// The version that is read and written.
pub(crate) const VERSION: u32 = 1;

/// The fields of a shadow policy's decision.
pub(crate) const SHADOW: &str = "x_shadow";
pub(crate) const WOULD: &str = "x_shadow_would";
const PROMPT: &str = "x_prompt";
const MATCHED: &str = "x_matched";
const SHADOW_MATCHED: &str = "x_shadow_matched";
const FIRST: &str = "x_predicted_ttft_ms";
const SHADOW_FIRST: &str = "x_shadow_predicted_ttft_ms";

/// Prefix of extension fields, which are ignored.
const FOREIGN: &str = "x_";

/// Reads lines of a journal.
#[derive(Default)]
pub(crate) struct Journal {
    block_tokens: Option<u32>,
}

impl Journal {
    /// Parses a line; `None` for a header.
    pub(crate) fn line(&mut self, line: &str) -> Result<Option<TraceRequest>, Fault> {
        let mut fields = Fields::of(line)?;
        if fields.has(HEADER) {
            self.header(&mut fields)?;
            return nothing_left(&fields).map(|()| None);
        }
        let Some(default) = self.block_tokens else {
            let remedy = format!("begin with {{\"{HEADER}\": {VERSION}, \"block_tokens\": 16}}");
            return Err(Fault::new("the header", "missing", remedy));
        };
        let block_tokens = fields.block_tokens("block_tokens")?.unwrap_or(default);
        let request = common(&mut fields, 1e6, block_tokens)?;
        let request = TraceRequest {
            // Also of a prompt without ids: its end may still be known by its session.
            block_tokens,
            session: fields.hash("session")?,
            region: fields.word("region")?,
            tenant: fields.hash("tenant")?,
            outcome: outcome(&mut fields)?,
            ttft: millis(&mut fields, "ttft_ms")?,
            e2e: millis(&mut fields, "e2e_ms")?,
            model: fields.word("model")?,
            policy: fields.word("policy")?,
            shadow: shadowed(&mut fields)?,
            ..request
        };
        nothing_left(&fields).map(|()| Some(request))
    }

    fn header(&mut self, fields: &mut Fields<'_>) -> Result<(), Fault> {
        let version = fields.whole(HEADER)?;
        if version != Some(i64::from(VERSION)) {
            let is = version.map_or("null".to_owned(), |v| format!("version {v}"));
            let remedy = format!("this program reads version {VERSION}; write the trace again");
            return Err(Fault::new(HEADER, is, remedy));
        }
        let missing = || Fault::new("block_tokens", "missing", "give the tokens of a block");
        self.block_tokens = Some(fields.block_tokens("block_tokens")?.ok_or_else(missing)?);
        Ok(())
    }
}

/// The fields of a shadow's decision. Older readers skip them as extensions.
fn shadowed(fields: &mut Fields<'_>) -> Result<Option<Shadowed>, Fault> {
    let names = [SHADOW, WOULD];
    match [fields.word(SHADOW)?, fields.word(WOULD)?] {
        [Some(policy), Some(would)] => {
            let compared = compared(fields)?;
            Ok(Some(Shadowed { policy, would, compared }))
        }
        // Without a shadow, the other fields are a user's own.
        [None, None] => Ok(None),
        [policy, _] => {
            let missing = names[usize::from(policy.is_some())];
            Err(Fault::new(missing, "missing", "give both fields of a shadow, or neither"))
        }
    }
}

/// The figures of both picks: all, or none.
fn compared(fields: &mut Fields<'_>) -> Result<Option<Compared>, Fault> {
    let names = [PROMPT, MATCHED, SHADOW_MATCHED, FIRST, SHADOW_FIRST];
    if names.iter().all(|name| !fields.has(name)) {
        return Ok(None);
    }
    if let Some(missing) = names.into_iter().find(|name| !fields.has(name)) {
        return Err(Fault::new(missing, "missing", "give all figures of a shadow, or none"));
    }
    let mut time = |name| Ok(millis(fields, name)?.unwrap_or_default());
    let [first_token, shadow_first_token] = [time(FIRST)?, time(SHADOW_FIRST)?];
    Ok(Some(Compared {
        prompt_tokens: fields.tokens(PROMPT, 0)?,
        matched_tokens: fields.tokens(MATCHED, 0)?,
        shadow_matched_tokens: fields.tokens(SHADOW_MATCHED, 0)?,
        first_token,
        shadow_first_token,
    }))
}

fn millis(fields: &mut Fields<'_>, name: &str) -> Result<Option<Duration>, Fault> {
    Ok(fields.optional_time(name, 1e6)?.map(|time| time.since(Time::ZERO)))
}

fn outcome(fields: &mut Fields<'_>) -> Result<Option<Outcome>, Fault> {
    let Some(word) = fields.word("outcome")? else { return Ok(None) };
    let known = Outcome::ALL.into_iter().find(|outcome| outcome.name() == &*word);
    known.map(Some).ok_or_else(|| {
        let names = Outcome::ALL.map(Outcome::name).join(", ");
        Fault::new("outcome", "not an outcome", format!("write one of {names}"))
    })
}

fn nothing_left(fields: &Fields<'_>) -> Result<(), Fault> {
    match fields.other(FOREIGN) {
        None => Ok(()),
        // A name may be a user's text too; only a plain one is shown.
        Some(name) if super::fields::is_name(name) => {
            let is = "not a field of a journal";
            let remedy = format!("correct the name, or write {FOREIGN}{name} for one of your own");
            Err(Fault::new(name, is, remedy))
        }
        Some(_) => Err(Fault::new("a name", "not a field of a journal", "leave the field out")),
    }
}
