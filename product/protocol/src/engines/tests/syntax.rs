//! Corners of the text format, on small pages: labels, values, ends of pages, ranks.

use super::{SGLANG, TGI, VLLM, read};
use crate::signals::{Load, SignalError};
use expect_test::{Expect, expect};

const RUNNING: &str = "vllm:num_requests_running 1\n";

fn vllm(lines: &str) -> Result<Load, SignalError> {
    read(VLLM, format!("{lines}{RUNNING}").as_bytes())
}

fn fails(result: Result<Load, SignalError>, expected: Expect) {
    expected.assert_eq(&result.expect_err("the page is wrong").to_string());
}

#[test]
fn labels_may_hold_anything() {
    // Braces, escaped quotes, backslashes, blanks and hashes in a label value end nothing.
    for labels in [
        r#"{model_name="a}b"}"#,
        r#"{model_name="a\"} 9 {\"",engine="0"}"#,
        r#"{model_name="ends in a backslash\\"}"#,
        r##"{model_name="# not a comment"}"##,
        r#"{ model_name = "x" , }"#,
        "{}",
        "",
        " ",
    ] {
        let load = vllm(&format!("vllm:num_requests_waiting{labels} 7\n")).unwrap();
        assert_eq!(load.pending, Some(7), "{labels}");
    }
}

#[test]
fn values_and_what_follows() {
    // Exponents, timestamps, exemplars and carriage returns.
    for value in [
        "12",
        "12.0",
        "1.2e+01",
        "1.2E1",
        "12 1700000000000",
        "12\t1700",
        "12 # {a=\"b\"} 1",
        "12\r",
        "+12",
    ] {
        let load = vllm(&format!("vllm:num_requests_waiting {value}\n")).unwrap();
        assert_eq!(load.pending, Some(12), "{value}");
    }
    let tabs = vllm("vllm:num_requests_waiting\t12\n").unwrap();
    assert_eq!(tabs.pending, Some(12));
    // A count too large for its type saturates.
    assert_eq!(vllm("vllm:num_requests_waiting 1e300\n").unwrap().pending, Some(u32::MAX));
}

#[test]
fn values_that_are_no_load() {
    // NaN means no value; anything else that is not a finite number of at least 0 is an error.
    fails(
        vllm("vllm:num_requests_waiting NaN\n"),
        expect![
            "the vllm page has no vllm:num_requests_waiting; start vLLM without --disable-log-stats, or set `engine: none`"
        ],
    );
    fails(
        vllm("vllm:num_requests_waiting +Inf\n"),
        expect![
            "vllm:num_requests_waiting has the value `+Inf`, expected a finite number of at least 0; check what rewrites the page between engine and gateway"
        ],
    );
    fails(
        vllm("vllm:num_requests_waiting -1\n"),
        expect![
            "vllm:num_requests_waiting has the value `-1`, expected a finite number of at least 0; check what rewrites the page between engine and gateway"
        ],
    );
    fails(
        vllm("vllm:num_requests_waiting \n"),
        expect![
            "vllm:num_requests_waiting has the value ``, expected a finite number of at least 0; check what rewrites the page between engine and gateway"
        ],
    );
    fails(
        vllm("vllm:num_requests_waiting{a=\"b 3\n"),
        expect![
            "vllm:num_requests_waiting has the value ``, expected a finite number of at least 0; check what rewrites the page between engine and gateway"
        ],
    );
}

#[test]
fn names_match_whole() {
    // A longer name with the same beginning is another metric.
    let page =
        "vllm:num_requests_waiting_by_reason{reason=\"capacity\"} 3\nvllm:num_requests_waiting 3\n";
    assert_eq!(vllm(page).unwrap().pending, Some(3));
}

#[test]
fn sums_over_engines_and_reasons() {
    // Data parallelism and splits by reason sum to the replica's; the KV share is the mean.
    let load = vllm(
        "vllm:num_requests_waiting{engine=\"0\"} 3\nvllm:num_requests_waiting{engine=\"1\"} 1\n\
         vllm:num_requests_waiting{engine=\"1\",reason=\"deferred\"} 1\n\
         vllm:kv_cache_usage_perc{engine=\"0\"} 0.9\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.1\n\
         vllm:cache_config_info{engine=\"0\",block_size=\"16\",num_gpu_blocks=\"100\"} 1\n\
         vllm:cache_config_info{engine=\"1\",block_size=\"16\",num_gpu_blocks=\"100\"} 1\n",
    )
    .unwrap();
    assert_eq!((load.pending, load.kv_used, load.kv_tokens), (Some(5), Some(0.5), Some(3200)));
}

#[test]
fn old_and_new_kv_names() {
    // A version that exports both counts once; an unresolved number of blocks is not a capacity.
    let both = "vllm:num_requests_waiting 0\nvllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.5\n";
    assert_eq!(vllm(both).unwrap().kv_used, Some(0.5));
    let old = "vllm:num_requests_waiting 0\nvllm:gpu_cache_usage_perc 0.25\n";
    assert_eq!(vllm(old).unwrap().kv_used, Some(0.25));
    let early = "vllm:num_requests_waiting 0\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"None\"} 1\n";
    assert_eq!(vllm(early).unwrap().kv_tokens, None);
}

#[test]
fn truncated_pages() {
    // A page that ends inside a line is refused, and the error names the metrics missing so far.
    // OpenMetrics may end after its mark.
    fails(
        read(VLLM, b"vllm:num_requests_waiting 1\nvllm:num_requests_run"),
        expect![
            "the vllm page ends in the middle of a line after 49 bytes, no vllm:num_requests_running; raise the probe's size limit, or let the exporter end its last line with a line feed"
        ],
    );
    fails(
        read(VLLM, b"vllm:num_requests_waiting 1\nvllm:num_requests_running 1\nvllm:kv_c"),
        expect![
            "the vllm page ends in the middle of a line after 65 bytes, no needed name missing; raise the probe's size limit, or let the exporter end its last line with a line feed"
        ],
    );
    fails(
        read(TGI, b"tgi_queue_size 1"),
        expect![
            "the tgi page ends in the middle of a line after 16 bytes, no tgi_queue_size and no tgi_batch_current_size; raise the probe's size limit, or let the exporter end its last line with a line feed"
        ],
    );
    let eof = b"vllm:num_requests_waiting 1\nvllm:num_requests_running 1\n# EOF";
    assert_eq!(read(VLLM, eof).unwrap().outstanding(), Some(2));
}

fn sglang(lines: &str) -> Load {
    read(SGLANG, lines.as_bytes()).unwrap()
}

#[test]
fn sglang_tensor_ranks_speak_once() {
    // Four tensor-parallel ranks report one scheduler's two requests, in any order.
    let mut page = String::new();
    for tp in [2, 0, 3, 1] {
        page += &format!("sglang:num_queue_reqs{{tp_rank=\"{tp}\",pp_rank=\"0\"}} 2\n");
    }
    for tp in [2, 0, 3, 1] {
        page += &format!("sglang:num_running_reqs{{tp_rank=\"{tp}\",pp_rank=\"0\"}} 5\n");
    }
    assert_eq!((sglang(&page).pending, sglang(&page).running), (Some(2), Some(5)));
}

#[test]
fn sglang_data_ranks_sum() {
    // Attention data parallelism: rank d of dp is at tensor rank d, as in aibrix issue 1614. Each
    // rank counts, also with two tensor ranks each, and a later pipeline stage is a repetition.
    let mut page = String::new();
    for name in ["num_queue_reqs", "num_running_reqs", "max_total_num_tokens"] {
        for tp in 0..8 {
            page += &format!(
                "sglang:{name}{{dp_rank=\"{}\",tp_rank=\"{tp}\",pp_rank=\"0\"}} 3\n",
                tp / 2
            );
            page += &format!(
                "sglang:{name}{{dp_rank=\"{}\",tp_rank=\"{tp}\",pp_rank=\"1\"}} 3\n",
                tp / 2
            );
        }
    }
    page += "sglang:token_usage{dp_rank=\"0\",tp_rank=\"0\"} 0.8\nsglang:token_usage{dp_rank=\"1\",tp_rank=\"2\"} 0.2\n";
    let load = sglang(&page);
    assert_eq!(
        (load.pending, load.running, load.kv_tokens, load.kv_used),
        (Some(12), Some(12), Some(12), Some(0.5))
    );
}

#[test]
fn sglang_many_ranks() {
    // More ranks than the table holds are still all counted.
    let mut page = String::from("sglang:num_running_reqs 0\n");
    for dp in 0..200 {
        page += &format!("sglang:num_queue_reqs{{dp_rank=\"{dp}\",tp_rank=\"{dp}\"}} 1\n");
    }
    assert_eq!(sglang(&page).pending, Some(200));
}

#[test]
fn sglang_priority_classes_are_in_the_total() {
    // The total has the empty class, and each class is a further series.
    let page = "sglang:num_running_reqs{tp_rank=\"0\",priority=\"\"} 3\nsglang:num_running_reqs{tp_rank=\"0\",priority=\"10\"} 2\n\
                sglang:num_running_reqs{tp_rank=\"0\",priority=\"20\"} 1\nsglang:num_queue_reqs{tp_rank=\"0\",priority=\"\"} 0\n";
    assert_eq!(sglang(page).running, Some(3));
}

#[test]
fn sglang_split_of_prefill_and_decode() {
    // Requests in queues before the batch are pending. A request whose KV is on its way to the
    // decode replica is running.
    let page = "sglang:num_running_reqs 1\nsglang:num_queue_reqs 2\nsglang:num_grammar_queue_reqs 4\n\
                sglang:num_prefill_bootstrap_queue_reqs 8\nsglang:num_prefill_inflight_queue_reqs 16\n\
                sglang:num_decode_prealloc_queue_reqs 32\nsglang:num_decode_transfer_queue_reqs 64\n";
    assert_eq!(
        (sglang(page).pending, sglang(page).running),
        (Some(2 + 4 + 8 + 32 + 64), Some(1 + 16))
    );
}

#[test]
fn sglang_counters_sum_over_splits() {
    // Splits by streaming or not, and by cache source.
    let page = "sglang:num_running_reqs 0\nsglang:num_queue_reqs 0\n\
                sglang:prompt_tokens_total{is_streaming=\"true\"} 100\nsglang:prompt_tokens_total{is_streaming=\"false\"} 50\n\
                sglang:cached_tokens_total{cache_source=\"device\"} 30\nsglang:cached_tokens_total{cache_source=\"host\"} 10\n\
                sglang:cache_config_info{page_size=\"16\",num_pages=\"100\",tp_rank=\"0\"} 1\n\
                sglang:cache_config_info{page_size=\"16\",num_pages=\"100\",tp_rank=\"1\"} 1\n";
    let load = sglang(page);
    assert_eq!(
        (load.prompt_tokens_total, load.cached_tokens_total, load.kv_tokens),
        (Some(150), Some(40), Some(1600))
    );
}
