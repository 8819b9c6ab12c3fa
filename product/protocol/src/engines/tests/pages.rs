//! Recorded pages, one engine after the other: the values read from each page, and the engine
//! detected.

use super::super::{Answers, Engine, NONE, detect, find};
use super::{LLAMACPP, SGLANG, TGI, TRTLLM, VLLM, capacity, page, read};
use crate::signals::{AdaptersInUse, Load, SignalError, Transfers, orca};
use expect_test::{Expect, expect};

/// Formats a load in one line, known values only.
fn line(load: &Load) -> String {
    let text = format!("{load:?}");
    let fields = text.trim_start_matches("Load { ").trim_end_matches(" }").split(", ");
    let known = fields.filter_map(|field| field.strip_suffix(')')?.split_once(": Some("));
    known.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

fn check(result: Result<Load, SignalError>, expected: Expect) {
    match result {
        Ok(load) => expected.assert_eq(&line(&load)),
        Err(error) => expected.assert_eq(&error.to_string()),
    }
}

/// Compares the values that a probe reads from a page.
fn reads(engine: Engine, page: &[u8], expected: Expect) {
    check(read(engine, page), expected);
}

/// Checks the values read from a capacity page.
fn tells(engine: Engine, page: &[u8], expected: Expect) {
    check(capacity(engine, page), expected);
}

#[test]
fn vllm() {
    // vLLM 0.32.0 idle, and with four of seven requests in the batch; then a page with v0 names.
    reads(
        VLLM,
        page!("vllm/metrics-idle.prom"),
        expect![
            "pending=0 running=0 kv_used=0.0 kv_tokens=2097152 prompt_tokens_total=0 cached_tokens_total=0 finished_total=0"
        ],
    );
    reads(
        VLLM,
        page!("vllm/metrics-load.prom"),
        expect![
            "pending=3 running=4 kv_used=0.0026245518 kv_tokens=2097152 prompt_tokens_total=2089 cached_tokens_total=1120 finished_total=8"
        ],
    );
    reads(
        VLLM,
        page!("vllm/v0-datadog-head.prom"),
        expect![
            "pending=0 running=0 kv_used=0.0 kv_tokens=116496 prompt_tokens_total=5 finished_total=1"
        ],
    );
}

#[test]
fn vllm_without_log_stats() {
    // vLLM answers without any name of its own: no engine is detected, and the error names the
    // flag.
    let metrics = page!("vllm/metrics-log-stats-off.prom");
    let answers = Answers { metrics: Some(metrics), ..Answers::default() };
    assert_eq!(detect(&answers), None);
    reads(
        VLLM,
        metrics,
        expect![
            "the vllm page has no vllm:num_requests_waiting and no vllm:num_requests_running; start vLLM without --disable-log-stats, or set `engine: none`"
        ],
    );
}

#[test]
fn vllm_transfers() {
    // The counters of the NIXL connector of two ranks are summed; other names of it are not read.
    let counters = "vllm:nixl_bytes_transferred_sum{engine=\"0\"} 1572864.0\n\
        vllm:nixl_bytes_transferred_sum{engine=\"1\"} 131072.0\n\
        vllm:nixl_bytes_transferred_count{engine=\"0\"} 2.0\n\
        vllm:nixl_num_failed_transfers_total{engine=\"0\"} 1.0\n\
        vllm:nixl_num_kv_expired_reqs_total{engine=\"0\"} 4.0\n\
        vllm:nixl_num_notifications_after_expiry_total{engine=\"0\"} 0.0\n";
    let page = [page!("vllm/metrics-idle.prom"), counters.as_bytes()].concat();
    let found = read(VLLM, &page).expect("is a page").transfers;
    let expected =
        Transfers { bytes: Some(1_703_936), failed: Some(1), expired: Some(4), late: Some(0) };
    assert_eq!(found, expected);
    assert!(read(VLLM, page!("vllm/metrics-load.prom")).expect("is a page").transfers.is_empty());
}

#[test]
fn vllm_data_parallel() {
    // Two engines in one server with thirteen requests: four run in each, the rest waits, and the
    // capacity is the sum of both.
    reads(
        VLLM,
        page!("vllm/metrics-load-dp2.prom"),
        expect![
            "pending=5 running=8 kv_used=0.00074006256 kv_tokens=4194304 prompt_tokens_total=2809 cached_tokens_total=928 finished_total=8"
        ],
    );
    // The header's TEXT form repeats each name, JSON keeps one engine's.
    check(orca(page!("vllm/orca-load-dp2-text.txt")), expect!["pending=0 kv_used=0.0002822919"]);
    check(orca(page!("vllm/orca-load-dp2-json.txt")), expect!["pending=3 kv_used=0.0031128405"]);
}

#[test]
fn llamacpp() {
    // Two slots, idle and with four requests; the KV use comes from the slots, the rest from the
    // metrics page.
    let metrics = page!("llamacpp/metrics-load.prom");
    reads(
        LLAMACPP,
        page!("llamacpp/metrics-idle.prom"),
        expect!["pending=0 running=0 prompt_tokens_total=0 cached_tokens_total=0"],
    );
    reads(
        LLAMACPP,
        metrics,
        expect!["pending=2 running=2 prompt_tokens_total=1520 cached_tokens_total=773"],
    );
    tells(
        LLAMACPP,
        page!("llamacpp/slots-idle.json"),
        expect!["running=0 slots=2 context=2048 kv_used=0.0 kv_used_tokens=0 kv_tokens=4096"],
    );
    tells(
        LLAMACPP,
        page!("llamacpp/slots-load.json"),
        expect![
            "running=2 slots=2 context=2048 kv_used=0.56103516 kv_used_tokens=2298 kv_tokens=4096"
        ],
    );
    tells(LLAMACPP, page!("llamacpp/props.json"), expect!["slots=2 context=2048 kv_tokens=4096"]);
    let slots = capacity(LLAMACPP, page!("llamacpp/slots-load.json")).unwrap();
    check(
        read(LLAMACPP, metrics).map(|load| load.or(&slots)),
        expect![
            "pending=2 running=2 slots=2 context=2048 kv_used=0.56103516 kv_used_tokens=2298 kv_tokens=4096 prompt_tokens_total=1520 cached_tokens_total=773"
        ],
    );
}

#[test]
fn llamacpp_with_its_endpoints_off() {
    // Without --metrics and with --no-slots the server answers an error object: the error says
    // which flag is missing.
    reads(
        LLAMACPP,
        page!("llamacpp/off-metrics.json"),
        expect![
            "the llamacpp page has no llamacpp:requests_deferred and no llamacpp:requests_processing; start llama-server with --metrics, or set `engine: none`"
        ],
    );
    tells(
        LLAMACPP,
        page!("llamacpp/off-slots.json"),
        expect![
            "the llamacpp page at /slots is not an array of slots; start llama-server without --no-slots, or ask /props"
        ],
    );
}

#[test]
fn sglang() {
    // An early page without ranks under heavy load, and a page of 0.5.10 with its capacity gauge.
    reads(
        SGLANG,
        page!("sglang/docs-production-metrics.prom"),
        expect![
            "pending=2826 running=162 kv_used=0.28 kv_used_tokens=123859 prompt_tokens_total=8128902"
        ],
    );
    reads(
        SGLANG,
        page!("sglang/v0.5.10-after-one-request.prom"),
        expect![
            "pending=0 running=0 kv_used=0.25 kv_used_tokens=37 kv_tokens=430839 prompt_tokens_total=5 cached_tokens_total=1 finished_total=1"
        ],
    );
}

#[test]
fn sglang_capacity() {
    // From the page that exists without --enable-metrics; with ranks, each rank has the same
    // capacity.
    tells(SGLANG, page!("sglang/server-info.json"), expect!["kv_tokens=20480"]);
    let ranks = br#"{"max_total_num_tokens":1000,"dp_size":2,"internal_states":[
        {"effective_max_running_requests_per_dp":8},{"effective_max_running_requests_per_dp":8}]}"#;
    tells(SGLANG, ranks, expect!["slots=16 kv_tokens=2000"]);
}

#[test]
fn sglang_excerpts_without_all_names() {
    // Two excerpts that end before the needed gauges: SGLang is detected, and the error names the
    // missing ones.
    reads(
        SGLANG,
        page!("sglang/aibrix-1614-eight-ranks.prom"),
        expect![
            "the sglang page has no sglang:num_running_reqs; start SGLang with --enable-metrics (its gauges appear with the first batch), or set `engine: none`"
        ],
    );
    reads(
        SGLANG,
        page!("sglang/smg-813-underscore.prom"),
        expect![
            "the sglang page has no sglang:num_queue_reqs and no sglang:num_running_reqs; start SGLang with --enable-metrics (its gauges appear with the first batch), or set `engine: none`"
        ],
    );
}

#[test]
fn sglang_underscore_prefix() {
    // The same page under the other prefix yields the same load.
    let page = String::from_utf8(page!("sglang/docs-production-metrics.prom").to_vec()).unwrap();
    let renamed = page.replace("sglang:", "sglang_");
    assert_eq!(read(SGLANG, renamed.as_bytes()), read(SGLANG, page.as_bytes()));
}

#[test]
fn tgi() {
    // A real page; an empty one from a server without any request so far; another server's page.
    reads(
        TGI,
        page!("tgi/datadog-payload.prom"),
        expect!["pending=0 running=0 kv_used_tokens=0 prompt_tokens_total=662 finished_total=111"],
    );
    reads(TGI, b"", expect!["pending=0 running=0"]);
    reads(
        TGI,
        page!("llamacpp/metrics-idle.prom"),
        expect![
            "the tgi page has no tgi_queue_size and no tgi_batch_current_size; point the replica's url at the router's own port, or set `engine: none`"
        ],
    );
}

#[test]
fn tgi_capacity_and_use_from_two_pages() {
    // The used budget and the whole budget are on two pages: the share needs both.
    let info = br#"{"model_id":"m","max_concurrent_requests":128,"max_batch_total_tokens":16000}"#;
    let load = read(TGI, b"tgi_queue_size 3\ntgi_batch_current_max_tokens 4000\n").unwrap();
    let load = load.with_capacity(&capacity(TGI, info).unwrap());
    assert_eq!((load.pending, load.kv_used, load.kv_tokens), (Some(3), Some(0.25), Some(16000)));
}

// The names are those of its collector, with the labels that it gives them; its own pages need a GPU.
#[test]
fn trtllm() {
    const LABELS: &str = "{engine_type=\"undefined\",model_name=\"undefined\"}";
    let page = |names: &[(&str, &str)]| -> Vec<u8> {
        let line = |(name, value): &(&str, &str)| format!("trtllm_{name}{LABELS} {value}\n");
        names.iter().map(line).collect::<String>().into_bytes()
    };
    let busy = page(&[
        ("num_requests_running", "6.0"),
        ("num_requests_waiting", "2.0"),
        ("kv_cache_utilization", "0.25"),
        ("kv_cache_max_blocks", "1000.0"),
        ("kv_cache_tokens_per_block", "32.0"),
        ("prompt_tokens_total", "9000.0"),
        ("prompt_cached_tokens_total", "4000.0"),
        ("request_success_total", "17.0"),
    ]);
    reads(
        TRTLLM,
        &busy,
        expect![
            "pending=2 running=6 kv_used=0.25 kv_tokens=32000 prompt_tokens_total=9000 cached_tokens_total=4000 finished_total=17"
        ],
    );
    let fresh = page(&[("prompt_cached_tokens_total", "0.0")]);
    reads(TRTLLM, &fresh, expect!["pending=0 running=0 cached_tokens_total=0"]);
    reads(
        TRTLLM,
        page!("llamacpp/metrics-idle.prom"),
        expect![
            "the trtllm page has no trtllm_num_requests_waiting and no trtllm_num_requests_running; start trtllm-serve with `return_perf_metrics: true` in its options file, or set `engine: none`"
        ],
    );
    let clock: &[u8] = br#"{"receive_ts":12.5,"transmit_ts":12.7}"#;
    let own = Some(("/steady_clock_offset", clock));
    assert_eq!(detect(&Answers { own, ..Answers::default() }), Some(TRTLLM));
}

#[test]
fn a_page_of_another_engine_names_names_and_remedy() {
    // Each engine's error on a foreign page names the metrics it looked for and the remedy.
    reads(
        VLLM,
        page!("llamacpp/metrics-idle.prom"),
        expect![
            "the vllm page has no vllm:num_requests_waiting and no vllm:num_requests_running; start vLLM without --disable-log-stats, or set `engine: none`"
        ],
    );
    reads(
        SGLANG,
        page!("llamacpp/metrics-idle.prom"),
        expect![
            "the sglang page has no sglang:num_queue_reqs and no sglang:num_running_reqs; start SGLang with --enable-metrics (its gauges appear with the first batch), or set `engine: none`"
        ],
    );
    reads(
        LLAMACPP,
        page!("tgi/datadog-payload.prom"),
        expect![
            "the llamacpp page has no llamacpp:requests_deferred and no llamacpp:requests_processing; start llama-server with --metrics, or set `engine: none`"
        ],
    );
    tells(
        SGLANG,
        page!("llamacpp/props.json"),
        expect![
            "the sglang page at /server_info is not an object with max_total_num_tokens; check that no proxy answers in the engine's place"
        ],
    );
    tells(
        TGI,
        page!("llamacpp/props.json"),
        expect![
            "the tgi page at /info is not an object with max_concurrent_requests; check that no proxy answers in the engine's place"
        ],
    );
    assert_eq!(read(NONE, b"anything"), Ok(Load::default()));
}

#[test]
fn detection_by_metrics() {
    // A metrics page is enough to detect the engine.
    let by = |page| detect(&Answers { metrics: Some(page), ..Answers::default() });
    assert_eq!(by(page!("vllm/metrics-idle.prom")), Some(VLLM));
    assert_eq!(by(page!("vllm/v0-datadog-head.prom")), Some(VLLM));
    assert_eq!(by(page!("sglang/docs-production-metrics.prom")), Some(SGLANG));
    assert_eq!(by(page!("sglang/smg-813-underscore.prom")), Some(SGLANG));
    assert_eq!(by(page!("llamacpp/metrics-idle.prom")), Some(LLAMACPP));
    assert_eq!(by(page!("tgi/datadog-payload.prom")), Some(TGI));
    assert_eq!(by(b"# HELP up\nup 1\n"), None);
}

#[test]
fn detection_without_metrics() {
    // With metrics off, the engine's own page identifies it; error pages do not.
    let off = Answers { metrics: Some(page!("llamacpp/off-metrics.json")), ..Answers::default() };
    assert_eq!(detect(&off), None);
    let by = |path, page| detect(&Answers { own: Some((path, page)), ..off });
    assert_eq!(by("/props", page!("llamacpp/props.json")), Some(LLAMACPP));
    let info: &[u8] = br#"{"model_id":"m","max_concurrent_requests":128}"#;
    assert_eq!(by("/info", info), Some(TGI));
    assert_eq!(by("/info", page!("llamacpp/props.json")), None);
}

#[test]
fn orca_recorded() {
    // Both forms of the header as vLLM 0.32.0 sent them, with one request waiting and with none.
    check(orca(page!("vllm/orca-idle-text.txt")), expect!["pending=0 kv_used=0.0"]);
    check(orca(page!("vllm/orca-load-text.txt")), expect!["pending=1 kv_used=0.0002746624"]);
    check(orca(page!("vllm/orca-load-json.txt")), expect!["pending=0 kv_used=0.0002746624"]);
}

#[test]
fn orca_variants() {
    // Triton's names, ORCA's other fields, repeated names of data parallelism, and invalid reports.
    check(orca(b"JSON {\"cpu_utilization\":0.3,\"named_metrics\":{\"kv_cache_utilization\":0.5,\"max_token_capacity\":8192}}"), expect!["kv_used=0.5 kv_tokens=8192"]);
    check(orca(b"text cpu_utilization=0.3,named_metrics.kv_cache_usage_perc=0.2,named_metrics.kv_cache_usage_perc=0.4, named_metrics.num_requests_waiting=1,named_metrics.num_requests_waiting=2"), expect!["pending=3 kv_used=0.3"]);
    check(
        orca(b"TEXT cpu_utilization=0.3"),
        expect![
            "the endpoint-load-metrics header is without num_requests_waiting and kv_cache_usage_perc; ask for TEXT or JSON with endpoint-load-metrics-format"
        ],
    );
    check(
        orca(b"TEXT named_metrics.num_requests_waiting=many"),
        expect![
            "num_requests_waiting has the value `many`, expected a finite number of at least 0; check what rewrites the page between engine and gateway"
        ],
    );
    check(
        orca(b"JSON {\"named_metrics\":"),
        expect![
            "the endpoint-load-metrics header is JSON that does not parse; ask for TEXT or JSON with endpoint-load-metrics-format"
        ],
    );
    check(
        orca(b"BIN CgA="),
        expect![
            "the endpoint-load-metrics header is neither TEXT nor JSON; ask for TEXT or JSON with endpoint-load-metrics-format"
        ],
    );
    check(
        orca(b""),
        expect![
            "the endpoint-load-metrics header is neither TEXT nor JSON; ask for TEXT or JSON with endpoint-load-metrics-format"
        ],
    );
}

#[test]
fn engine_names() {
    // Each engine has one configured name, and pages if it reports signals.
    for engine in [VLLM, SGLANG, LLAMACPP, TGI, NONE] {
        assert_eq!(find(engine.name), Some(engine));
        assert_eq!(engine.load.is_none(), engine == NONE);
        assert_eq!(engine.capacity.is_none(), engine == NONE);
    }
    assert_eq!(find("auto"), None);
}

/// The adapters that vLLM's page names.
fn adapters(page: &str) -> Option<AdaptersInUse> {
    VLLM.adapters_in_use.expect("it reports adapters")(page.as_bytes())
}

fn in_use(slots: u32, running: &[&str], waiting: &[&str]) -> AdaptersInUse {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    AdaptersInUse { slots, running: owned(running), waiting: owned(waiting) }
}

// A page of vLLM 0.32.0 whose two slots are in use while a request of a third adapter waits. It has the
// adapters that have answered something, in both lists, and not the third one.
#[test]
fn adapters_recorded() {
    let page = page!("vllm/metrics-lora.prom");
    let load = read(VLLM, page).expect("is a page");
    assert_eq!((load.running, load.pending), (Some(2), Some(1)));
    let page = std::str::from_utf8(page).expect("is text");
    assert_eq!(adapters(page), Some(in_use(2, &["a2", "sql"], &["a2", "sql"])));
}

// vLLM's adapters: the newest of the combinations on the page counts, whatever its place. A page
// without the line, and other engines', name none.
#[test]
fn adapters_in_use() {
    let page = "# HELP vllm:lora_requests_info Running stats on lora requests.\n\
        # TYPE vllm:lora_requests_info gauge\n\
        vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"\",waiting_lora_adapters=\"\"} 1.7643936e+09\n\
        vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"sql,chat\",waiting_lora_adapters=\"org/law-v2\"} 1.764393612531e+09\n\
        vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"sql\",waiting_lora_adapters=\"\"} 1.764393612406e+09\n\
        vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3.0\n";
    assert_eq!(adapters(page), Some(in_use(4, &["sql", "chat"], &["org/law-v2"])));
    // The endpoint picker's documentation has blanks after the commas.
    let blanks = "vllm:lora_requests_info{running_lora_adapters=\"adapter1, adapter2\",waiting_lora_adapters=\"\",max_lora=\"8\"} 1\n";
    assert_eq!(adapters(blanks), Some(in_use(8, &["adapter1", "adapter2"], &[])));
    let names = "vllm:lora_requests_info{max_lora=\"1\",running_lora_adapters=\"a\\\"}b\",waiting_lora_adapters=\"\"} 1\n";
    assert_eq!(adapters(names), Some(in_use(1, &["a\"}b"], &[])));
    assert_eq!(adapters("vllm:num_requests_running 3.0\n"), None);
    let bad = "vllm:lora_requests_info{max_lora=\"many\",running_lora_adapters=\"a\"} 1\n";
    assert_eq!(adapters(bad), None);
    assert_eq!(adapters("vllm:lora_requests_info{max_lora=\"4\"} x\n"), None);
    assert!(SGLANG.adapters_in_use.is_none() && NONE.adapters_in_use.is_none());
}
