//! The load header: an engine's load in a response header, if the request asks for it.
//!
//! Open Request Cost Aggregation in vLLM's two forms: the request header
//! `endpoint-load-metrics-format: TEXT|JSON` yields the response header `endpoint-load-metrics`.

use http::{HeaderMap, HeaderValue};
use meridian_engine::Stats;

pub(crate) const REQUEST_HEADER: &str = "endpoint-load-metrics-format";
pub(crate) const RESPONSE_HEADER: &str = "endpoint-load-metrics";

/// The form that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Json,
}

impl Form {
    /// Reads the request header; an unknown form is ignored, as vLLM does.
    pub(crate) fn asked(headers: &HeaderMap) -> Option<Form> {
        let value = headers.get(REQUEST_HEADER)?.to_str().ok()?;
        if value.eq_ignore_ascii_case("text") {
            Some(Form::Text)
        } else if value.eq_ignore_ascii_case("json") {
            Some(Form::Json)
        } else {
            None
        }
    }

    /// The response header's value.
    pub(crate) fn render(self, stats: &Stats) -> HeaderValue {
        let (kv, waiting) = (stats.kv_used(), f64::from(stats.pending + stats.deferred));
        let text = match self {
            Form::Text => format!(
                "TEXT named_metrics.kv_cache_usage_perc={kv:?}, \
                 named_metrics.num_requests_waiting={waiting:?}"
            ),
            Form::Json => format!(
                "JSON {{\"named_metrics\": {{\"kv_cache_usage_perc\": {kv:?}, \
                 \"num_requests_waiting\": {waiting:?}}}}}"
            ),
        };
        HeaderValue::try_from(text).expect("digits, letters and punctuation make a header")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Both forms equal those of vLLM's own header.
    #[test]
    fn forms_are_those_of_vllm() {
        let stats = Stats { pending: 3, kv_blocks: 4, kv_referenced: 1, ..Stats::default() };
        let text =
            "TEXT named_metrics.kv_cache_usage_perc=0.25, named_metrics.num_requests_waiting=3.0";
        assert_eq!(Form::Text.render(&stats), text);
        let json =
            r#"JSON {"named_metrics": {"kv_cache_usage_perc": 0.25, "num_requests_waiting": 3.0}}"#;
        assert_eq!(Form::Json.render(&stats), json);
    }

    // The form is read in any case; an unknown form is ignored.
    #[test]
    fn unknown_forms_are_ignored() {
        let asked = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_HEADER, HeaderValue::from_static(value));
            Form::asked(&headers)
        };
        assert_eq!(asked("json"), Some(Form::Json));
        assert_eq!(asked("TEXT"), Some(Form::Text));
        assert_eq!(asked("xml"), None);
    }
}
