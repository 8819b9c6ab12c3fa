//! `vllm:lora_requests_info`: the adapters in use, in labels, with the time as value.
//!
//! As in vLLM, each combination of labels stays on the page with its time, so a reader has to take
//! the newest.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write;
use std::sync::Arc;

/// Combinations kept; vLLM keeps all.
const KEPT: usize = 16;

/// The adapters of the requests in the engine.
#[derive(Debug, Default)]
pub(crate) struct InUse {
    pub(crate) running: BTreeSet<Arc<str>>,
    pub(crate) waiting: BTreeSet<Arc<str>>,
}

#[derive(Debug)]
pub(crate) struct LoraInfo {
    slots: u32,
    /// Labels and times, the newest last.
    shown: VecDeque<(String, f64)>,
}

impl LoraInfo {
    pub(crate) fn new(slots: u32) -> LoraInfo {
        LoraInfo { slots, shown: VecDeque::new() }
    }

    /// Notes the adapters in use at `now`, seconds since 1970, and writes the samples.
    pub(crate) fn write(&mut self, in_use: &InUse, now: f64, page: &mut String) {
        let labels = format!(
            "max_lora=\"{}\",running_lora_adapters=\"{}\",waiting_lora_adapters=\"{}\"",
            self.slots,
            names(&in_use.running),
            names(&in_use.waiting)
        );
        self.shown.retain(|(shown, _)| *shown != labels);
        self.shown.push_back((labels, now));
        if self.shown.len() > KEPT {
            self.shown.pop_front();
        }
        page.push_str("# HELP vllm:lora_requests_info Running stats on lora requests.\n");
        page.push_str("# TYPE vllm:lora_requests_info gauge\n");
        for (labels, at) in &self.shown {
            // Writing to a string does not fail.
            let _ = writeln!(page, "vllm:lora_requests_info{{{labels}}} {at}");
        }
    }
}

fn names(adapters: &BTreeSet<Arc<str>>) -> String {
    let escaped =
        |name: &Arc<str>| name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    adapters.iter().map(escaped).collect::<Vec<_>>().join(",")
}
