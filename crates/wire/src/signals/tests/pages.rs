//! Real pages, one engine after the other: what is read from each, and what each is taken for.

use super::super::{Answers, Engine, Load, SignalError, capacity, detect, orca, read};
use super::page;
use expect_test::{Expect, expect};

/// One line for a load: only what is known.
fn line(load: &Load) -> String {
    let text = format!("{load:?}");
    let inner = text.trim_start_matches("Load { ").trim_end_matches(" }");
    inner.split(", ").filter(|field| !field.ends_with("None")).collect::<Vec<_>>().join(", ")
}

fn check(result: Result<Load, SignalError>, expected: Expect) {
    match result {
        Ok(load) => expected.assert_eq(&line(&load)),
        Err(error) => expected.assert_eq(&error.to_string()),
    }
}

#[test]
fn vllm() {
    // vLLM 0.32.0 idle, and with four of seven requests in the batch; then a page of v0 names.
    check(read(Engine::Vllm, page!("vllm/metrics-idle.prom")), expect!["pending: Some(0), running: Some(0), kv_used: Some(0.0), kv_tokens: Some(2097152), prompt_tokens_total: Some(0), cached_tokens_total: Some(0), finished_total: Some(0)"]);
    check(read(Engine::Vllm, page!("vllm/metrics-load.prom")), expect!["pending: Some(3), running: Some(4), kv_used: Some(0.0026245518), kv_tokens: Some(2097152), prompt_tokens_total: Some(2089), cached_tokens_total: Some(1120), finished_total: Some(8)"]);
    check(read(Engine::Vllm, page!("vllm/v0-datadog-head.prom")), expect!["pending: Some(0), running: Some(0), kv_used: Some(0.0), kv_tokens: Some(116496), prompt_tokens_total: Some(5), finished_total: Some(1)"]);
}

#[test]
fn vllm_data_parallel() {
    // Two engines in one server with thirteen requests: four run in each, the rest waits, and the
    // capacity is that of both.
    check(read(Engine::Vllm, page!("vllm/metrics-load-dp2.prom")), expect!["pending: Some(5), running: Some(8), kv_used: Some(0.00074006256), kv_tokens: Some(4194304), prompt_tokens_total: Some(2809), cached_tokens_total: Some(928), finished_total: Some(8)"]);
    // The header's TEXT form repeats each name, JSON keeps one engine's.
    check(orca(page!("vllm/orca-load-dp2-text.txt")), expect!["pending: Some(0), kv_used: Some(0.0002822919)"]);
    check(orca(page!("vllm/orca-load-dp2-json.txt")), expect!["pending: Some(3), kv_used: Some(0.0031128405)"]);
}

#[test]
fn llamacpp() {
    // Two slots, idle and with four requests; the KV use comes from the slots, the rest from the
    // metrics page.
    let metrics = page!("llamacpp/metrics-load.prom");
    check(read(Engine::LlamaCpp, page!("llamacpp/metrics-idle.prom")), expect!["pending: Some(0), running: Some(0), prompt_tokens_total: Some(0), cached_tokens_total: Some(0)"]);
    check(read(Engine::LlamaCpp, metrics), expect!["pending: Some(2), running: Some(2), prompt_tokens_total: Some(1520), cached_tokens_total: Some(773)"]);
    check(capacity(Engine::LlamaCpp, page!("llamacpp/slots-idle.json")), expect!["running: Some(0), slots: Some(2), kv_used: Some(0.0), kv_used_tokens: Some(0), kv_tokens: Some(4096)"]);
    check(capacity(Engine::LlamaCpp, page!("llamacpp/slots-load.json")), expect!["running: Some(2), slots: Some(2), kv_used: Some(0.56103516), kv_used_tokens: Some(2298), kv_tokens: Some(4096)"]);
    check(capacity(Engine::LlamaCpp, page!("llamacpp/props.json")), expect!["slots: Some(2), kv_tokens: Some(4096)"]);
    let slots = capacity(Engine::LlamaCpp, page!("llamacpp/slots-load.json")).unwrap();
    check(read(Engine::LlamaCpp, metrics).map(|load| load.or(&slots)), expect!["pending: Some(2), running: Some(2), slots: Some(2), kv_used: Some(0.56103516), kv_used_tokens: Some(2298), kv_tokens: Some(4096), prompt_tokens_total: Some(1520), cached_tokens_total: Some(773)"]);
}

#[test]
fn llamacpp_with_its_endpoints_off() {
    // Without --metrics and with --no-slots the server answers an error object: the error says
    // which flag is missing.
    check(read(Engine::LlamaCpp, page!("llamacpp/off-metrics.json")), expect!["the llamacpp page ends in the middle of a line after 136 bytes, no llamacpp:requests_deferred and no llamacpp:requests_processing; raise the probe's size limit, or let the exporter end its last line with a line feed"]);
    check(capacity(Engine::LlamaCpp, page!("llamacpp/off-slots.json")), expect!["the llamacpp capacity page is not an array of slots (is --no-slots set?) nor an object with total_slots; check that /slots or /props is not answered by a proxy"]);
}

#[test]
fn sglang() {
    // An early page without ranks under heavy load, and a page of 0.5.10 with its capacity gauge.
    check(read(Engine::Sglang, page!("sglang/docs-production-metrics.prom")), expect!["pending: Some(2826), running: Some(162), kv_used: Some(0.28), kv_used_tokens: Some(123859), prompt_tokens_total: Some(8128902)"]);
    check(read(Engine::Sglang, page!("sglang/v0.5.10-after-one-request.prom")), expect!["pending: Some(0), running: Some(0), kv_used: Some(0.25), kv_used_tokens: Some(37), kv_tokens: Some(430839), prompt_tokens_total: Some(5), cached_tokens_total: Some(1), finished_total: Some(1)"]);
}

#[test]
fn sglang_excerpts_without_all_names() {
    // Two excerpts that end before the needed gauges: recognized, and the error names what lacks.
    check(read(Engine::Sglang, page!("sglang/aibrix-1614-eight-ranks.prom")), expect!["the sglang page has no sglang:num_running_reqs; start SGLang with --enable-metrics, or set `engine: none`"]);
    check(read(Engine::Sglang, page!("sglang/smg-813-underscore.prom")), expect!["the sglang page has no sglang:num_queue_reqs and no sglang:num_running_reqs; start SGLang with --enable-metrics, or set `engine: none`"]);
}

#[test]
fn sglang_underscore_prefix() {
    // The same page under the other prefix reads the same.
    let page = String::from_utf8(page!("sglang/docs-production-metrics.prom").to_vec()).unwrap();
    let renamed = page.replace("sglang:", "sglang_");
    assert_eq!(read(Engine::Sglang, renamed.as_bytes()), read(Engine::Sglang, page.as_bytes()));
}

#[test]
fn tgi() {
    // A real page; one that has served nothing, which is empty; another server's page.
    check(read(Engine::Tgi, page!("tgi/datadog-payload.prom")), expect!["pending: Some(0), running: Some(0), kv_used_tokens: Some(0), prompt_tokens_total: Some(662), finished_total: Some(111)"]);
    check(read(Engine::Tgi, b""), expect!["pending: Some(0), running: Some(0)"]);
    check(read(Engine::Tgi, page!("llamacpp/metrics-idle.prom")), expect!["the tgi page has no tgi_queue_size and no tgi_batch_current_size; point the replica's url at the router's own port, or set `engine: none`"]);
}

#[test]
fn tgi_capacity_and_use_from_two_pages() {
    // The budget in use is on one page and the whole on another: the share needs both.
    let info = br#"{"model_id":"m","max_concurrent_requests":128,"max_batch_total_tokens":16000}"#;
    let load = read(Engine::Tgi, b"tgi_queue_size 3\ntgi_batch_current_max_tokens 4000\n").unwrap();
    let load = load.with_capacity(&capacity(Engine::Tgi, info).unwrap());
    assert_eq!((load.pending, load.kv_used, load.kv_tokens), (Some(3), Some(0.25), Some(16000)));
}

#[test]
fn a_page_of_another_engine_names_names_and_remedy() {
    // Each engine's error on a page that is not its own says what was looked for and what to do.
    check(read(Engine::Vllm, page!("llamacpp/metrics-idle.prom")), expect!["the vllm page has no vllm:num_requests_waiting and no vllm:num_requests_running; start vLLM without --disable-log-stats, or set `engine: none`"]);
    check(read(Engine::Sglang, page!("llamacpp/metrics-idle.prom")), expect!["the sglang page has no sglang:num_queue_reqs and no sglang:num_running_reqs; start SGLang with --enable-metrics, or set `engine: none`"]);
    check(read(Engine::LlamaCpp, page!("tgi/datadog-payload.prom")), expect!["the llamacpp page has no llamacpp:requests_deferred and no llamacpp:requests_processing; start llama-server with --metrics, or set `engine: none`"]);
    check(capacity(Engine::Sglang, page!("llamacpp/props.json")), expect!["the sglang capacity page is not an object with max_total_num_tokens; check that /server_info is not answered by a proxy"]);
    check(capacity(Engine::Tgi, page!("llamacpp/props.json")), expect!["the tgi capacity page is not an object with max_concurrent_requests; check that /info is not answered by a proxy"]);
    assert_eq!(read(Engine::None, b"anything"), Ok(Load::default()));
}

#[test]
fn detection_by_metrics() {
    // A metrics page alone tells the engine.
    let by = |page| detect(&Answers { metrics: Some(page), ..Answers::default() });
    assert_eq!(by(page!("vllm/metrics-idle.prom")), Engine::Vllm);
    assert_eq!(by(page!("vllm/v0-datadog-head.prom")), Engine::Vllm);
    assert_eq!(by(page!("sglang/docs-production-metrics.prom")), Engine::Sglang);
    assert_eq!(by(page!("sglang/smg-813-underscore.prom")), Engine::Sglang);
    assert_eq!(by(page!("llamacpp/metrics-idle.prom")), Engine::LlamaCpp);
    assert_eq!(by(page!("tgi/datadog-payload.prom")), Engine::Tgi);
    assert_eq!(by(b"# HELP up\nup 1\n"), Engine::None);
}

#[test]
fn detection_without_metrics() {
    // With metrics off, the list of models, then the engine's own page tells; error pages do not.
    let off = Answers { metrics: Some(page!("llamacpp/off-metrics.json")), ..Answers::default() };
    assert_eq!(detect(&off), Engine::None);
    assert_eq!(
        detect(&Answers { models: Some(page!("llamacpp/models.json")), ..off }),
        Engine::LlamaCpp
    );
    assert_eq!(detect(&Answers { models: Some(page!("vllm/models.json")), ..off }), Engine::Vllm);
    assert_eq!(
        detect(&Answers { props: Some(page!("llamacpp/props.json")), ..off }),
        Engine::LlamaCpp
    );
    let info: &[u8] = br#"{"max_total_num_tokens":1000,"dp_size":2}"#;
    assert_eq!(detect(&Answers { server_info: Some(info), ..off }), Engine::Sglang);
    assert_eq!(capacity(Engine::Sglang, info).unwrap().kv_tokens, Some(2000));
    let info: &[u8] = br#"{"model_id":"m","max_concurrent_requests":128}"#;
    assert_eq!(detect(&Answers { info: Some(info), ..off }), Engine::Tgi);
    assert_eq!(detect(&Answers { info: Some(page!("llamacpp/props.json")), ..off }), Engine::None);
}

#[test]
fn orca_recorded() {
    // Both forms of the header as vLLM 0.32.0 sent them, with one request waiting and with none.
    check(orca(page!("vllm/orca-idle-text.txt")), expect!["pending: Some(0), kv_used: Some(0.0)"]);
    check(orca(page!("vllm/orca-load-text.txt")), expect!["pending: Some(1), kv_used: Some(0.0002746624)"]);
    check(orca(page!("vllm/orca-load-json.txt")), expect!["pending: Some(0), kv_used: Some(0.0002746624)"]);
}

#[test]
fn orca_variants() {
    // Triton's names, ORCA's other fields, repeated names of data parallelism, and what is no report.
    check(orca(b"JSON {\"cpu_utilization\":0.3,\"named_metrics\":{\"kv_cache_utilization\":0.5,\"max_token_capacity\":8192}}"), expect!["kv_used: Some(0.5), kv_tokens: Some(8192)"]);
    check(orca(b"text cpu_utilization=0.3,named_metrics.kv_cache_usage_perc=0.2,named_metrics.kv_cache_usage_perc=0.4, named_metrics.num_requests_waiting=1,named_metrics.num_requests_waiting=2"), expect!["pending: Some(3), kv_used: Some(0.3)"]);
    check(orca(b"TEXT cpu_utilization=0.3"), expect!["the endpoint-load-metrics header is without num_requests_waiting and kv_cache_usage_perc; ask for TEXT or JSON with endpoint-load-metrics-format"]);
    check(orca(b"TEXT named_metrics.num_requests_waiting=many"), expect!["num_requests_waiting has the value `many`, expected a finite number of at least 0; check what rewrites the page between engine and gateway"]);
    check(orca(b"JSON {\"named_metrics\":"), expect!["the endpoint-load-metrics header is JSON that does not parse; ask for TEXT or JSON with endpoint-load-metrics-format"]);
    check(orca(b"BIN CgA="), expect!["the endpoint-load-metrics header is neither TEXT nor JSON; ask for TEXT or JSON with endpoint-load-metrics-format"]);
    check(orca(b""), expect!["the endpoint-load-metrics header is neither TEXT nor JSON; ask for TEXT or JSON with endpoint-load-metrics-format"]);
}

#[test]
fn engine_names() {
    // Each engine has one configured name, and paths where it has signals.
    for engine in [Engine::Vllm, Engine::Sglang, Engine::LlamaCpp, Engine::Tgi, Engine::None] {
        assert_eq!(Engine::from_name(engine.name()), Some(engine));
        assert_eq!(engine.probe_path().is_none(), engine == Engine::None);
        assert_eq!(engine.capacity_path().is_none(), engine == Engine::None);
    }
    assert_eq!(Engine::from_name("auto"), None);
}
