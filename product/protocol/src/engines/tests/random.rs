//! Arbitrary bytes and damaged real pages: the result is an answer or an error, never a panic.

use super::super::{ALL, Answers, detect, own_pages};
use super::{capacity, page, read};
use crate::signals::{orca, usage};
use proptest::prelude::*;

/// Runs every reader on the same bytes and checks invariants of the results.
fn read_all(bytes: &[u8]) {
    for engine in ALL {
        for load in [read(engine, bytes), capacity(engine, bytes)].into_iter().flatten() {
            assert!(load.kv_used.is_none_or(|share| (0.0..=1.0).contains(&share)));
        }
    }
    let some = Some(bytes);
    let own = own_pages().map(|page| (page.path, bytes));
    let own = own.map(|own| Answers { own: Some(own), ..Answers::default() });
    for answers in own.chain([Answers { metrics: some, ..Answers::default() }]) {
        let _ = detect(&answers);
    }
    let _ = orca(bytes);
    let _ = usage(bytes);
}

const PAGES: [&[u8]; 15] = [
    page!("vllm/metrics-load.prom"),
    page!("sglang/v0.5.10-after-one-request.prom"),
    page!("sglang/server-info.json"),
    page!("vllm/v0-datadog-head.prom"),
    page!("sglang/docs-production-metrics.prom"),
    page!("sglang/aibrix-1614-eight-ranks.prom"),
    page!("llamacpp/metrics-load.prom"),
    page!("llamacpp/slots-load.json"),
    page!("llamacpp/props.json"),
    page!("llamacpp/chat.json"),
    page!("tgi/datadog-payload.prom"),
    page!("vllm/orca-load-text.txt"),
    page!("vllm/orca-load-json.txt"),
    page!("vllm/responses.json"),
    page!("vllm/messages.json"),
];

/// Bytes that are significant to a parser.
fn telling() -> impl Strategy<Value = u8> {
    prop_oneof![any::<u8>(), prop::sample::select(b"{}\"\\=, \n\r#:_-+.e0129NaInf".to_vec())]
}

proptest! {
    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(telling(), 0..300)) {
        read_all(&bytes);
    }

    #[test]
    fn arbitrary_lines(
        lines in prop::collection::vec((0..9_usize, prop::collection::vec(telling(), 0..40)), 0..30),
    ) {
        // Valid names followed by anything.
        let names: [&[u8]; 9] = [
            b"vllm:num_requests_waiting", b"vllm:cache_config_info{", b"vllm:num_requests_running ",
            b"sglang:num_queue_reqs{dp_rank=\"", b"sglang_num_running_reqs", b"sglang:token_usage{tp_rank=\"1\"",
            b"llamacpp:requests_deferred ", b"tgi_queue_size", b"TEXT named_metrics.num_requests_waiting=",
        ];
        let page: Vec<u8> = lines.iter().flat_map(|(name, tail)| [names[*name], tail.as_slice(), b"\n"].concat()).collect();
        read_all(&page);
    }

    #[test]
    fn damaged_pages(
        page in 0..PAGES.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), telling()), 0..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = PAGES[page].to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        read_all(&bytes);
        bytes.truncate(cut.index(bytes.len() + 1));
        read_all(&bytes);
    }
}
