//! llama.cpp's metrics page.
//!
//! A slot takes one request at a time; what finds no free slot is deferred. `prompt_tokens_total`
//! leaves out what came from the cache, unlike every other engine's, so the cached ones are added;
//! a build without that counter gives no prompt total. KV use is on `/slots`, not here; builds
//! before it was removed say `kv_cache_usage_ratio`.

use super::load::Tally;
use super::page::{Line, verdict, walk};
use super::{Engine, Load, SignalError};

const DEFERRED: &str = "llamacpp:requests_deferred";
const PROCESSING: &str = "llamacpp:requests_processing";
const REMEDY: &str = "start llama-server with --metrics, or set `engine: none`";

#[derive(Default)]
struct Page {
    pending: Tally,
    running: Tally,
    kv: Tally,
    computed: Tally,
    cached: Tally,
}

pub(super) fn read(page: &[u8]) -> Result<Load, SignalError> {
    let mut seen = Page::default();
    let whole = walk(page, &[b"llamacpp:"], |line| seen.take(&line))?;
    let missing = [
        seen.pending.sum().is_none().then_some(DEFERRED),
        seen.running.sum().is_none().then_some(PROCESSING),
    ];
    verdict(Engine::LlamaCpp, page, whole, missing, REMEDY)?;
    let cached = seen.cached.sum();
    Ok(Load {
        pending: seen.pending.count(),
        running: seen.running.count(),
        kv_used: seen.kv.share(),
        prompt_tokens_total: cached
            .and_then(|cached| Some(seen.computed.sum()?.saturating_add(cached))),
        cached_tokens_total: cached,
        ..Load::default()
    })
}

impl Page {
    fn take(&mut self, line: &Line<'_>) -> Result<(), SignalError> {
        let (tally, name) = match line.name {
            b"requests_deferred" => (&mut self.pending, DEFERRED),
            b"requests_processing" => (&mut self.running, PROCESSING),
            b"kv_cache_usage_ratio" => (&mut self.kv, "llamacpp:kv_cache_usage_ratio"),
            b"prompt_tokens_total" => (&mut self.computed, "llamacpp:prompt_tokens_total"),
            b"prompt_tokens_cached_total" => {
                (&mut self.cached, "llamacpp:prompt_tokens_cached_total")
            }
            _ => return Ok(()),
        };
        tally.add(line.value(name)?);
        Ok(())
    }
}
