//! TGI's metrics page.
//!
//! Its gauges appear when they are first set, at the first request, so on a page of TGI's an
//! absent gauge says zero; a server that has done nothing yet shows an empty page. The batch's
//! token budget in use stands for the KV cache: TGI reserves a request's worst case when it joins
//! the batch, so it is an upper bound.
//!
//! Names: huggingface/text-generation-inference@db931fcf `docs/source/reference/metrics.md`,
//! `backends/v3/src/{queue,backend}.rs`.

use super::load::Tally;
use super::page::{Line, verdict, walk};
use super::{Engine, Load, SignalError};

const QUEUE: &str = "tgi_queue_size";
const BATCH: &str = "tgi_batch_current_size";
const REMEDY: &str = "point the replica's url at the router's own port, or set `engine: none`";

#[derive(Default)]
struct Page {
    pending: Tally,
    running: Tally,
    reserved: Tally,
    prompt: Tally,
    succeeded: Tally,
    failed: Tally,
    any: bool,
}

pub(super) fn read(page: &[u8]) -> Result<Load, SignalError> {
    let mut seen = Page::default();
    let whole = walk(page, &[b"tgi_"], |line| seen.take(&line))?;
    let missing =
        if seen.any || page.is_empty() { [None, None] } else { [Some(QUEUE), Some(BATCH)] };
    verdict(Engine::Tgi, page, whole, missing, REMEDY)?;
    let finished = match (seen.succeeded.sum(), seen.failed.sum()) {
        (None, None) => None,
        (good, bad) => Some(good.unwrap_or(0).saturating_add(bad.unwrap_or(0))),
    };
    Ok(Load {
        pending: seen.pending.count().or(Some(0)),
        running: seen.running.count().or(Some(0)),
        kv_used_tokens: seen.reserved.sum(),
        prompt_tokens_total: seen.prompt.sum(),
        finished_total: finished,
        ..Load::default()
    })
}

impl Page {
    fn take(&mut self, line: &Line<'_>) -> Result<(), SignalError> {
        self.any = true;
        let (tally, name) = match line.name {
            b"queue_size" => (&mut self.pending, QUEUE),
            b"batch_current_size" => (&mut self.running, BATCH),
            b"batch_current_max_tokens" => (&mut self.reserved, "tgi_batch_current_max_tokens"),
            b"request_input_length_sum" => (&mut self.prompt, "tgi_request_input_length_sum"),
            b"request_success" => (&mut self.succeeded, "tgi_request_success"),
            b"request_failure" => (&mut self.failed, "tgi_request_failure"),
            _ => return Ok(()),
        };
        tally.add(line.value(name)?);
        Ok(())
    }
}
