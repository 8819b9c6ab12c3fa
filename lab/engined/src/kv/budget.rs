//! What is left of a request's TTFT objective, as a gateway tells it: in the header, or in the params,
//! which reach engines behind other proxies too.

use http::HeaderMap;
use serde_json::Value;
use std::time::Duration;

/// The header, and its name in the params.
const HEADER: &str = "x-slo-ttft-ms";
const FIELD: &str = "slo_ttft_ms";

/// The rest of the objective, counted from the request's arrival. Other values than whole
/// milliseconds count as none: an objective is no reason to refuse a request.
pub(crate) fn left(headers: &HeaderMap, params: Option<&Value>) -> Option<Duration> {
    let header = headers.get(HEADER).and_then(|value| value.to_str().ok()?.parse().ok());
    let field = || params?.get(FIELD)?.as_u64();
    header.or_else(field).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use serde_json::json;

    // The header wins over the params, and anything else than whole milliseconds is no objective.
    #[test]
    fn the_header_then_the_params() {
        let told = |header: Option<&'static str>, params: Value| {
            let mut headers = HeaderMap::new();
            if let Some(value) = header {
                headers.insert(HEADER, HeaderValue::from_static(value));
            }
            left(&headers, Some(&params)).map(|left| left.as_millis())
        };
        assert_eq!(told(Some("250"), json!({"slo_ttft_ms": 900})), Some(250));
        assert_eq!(told(None, json!({"slo_ttft_ms": 900})), Some(900));
        assert_eq!(told(Some("soon"), json!({"slo_ttft_ms": -1})), None);
        assert_eq!(told(Some(""), json!(null)), None);
        assert_eq!(left(&HeaderMap::new(), None), None);
    }
}
