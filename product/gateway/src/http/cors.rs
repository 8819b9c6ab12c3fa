//! Cross-origin requests of browsers (Fetch Standard, section 3.2): only pages of the origins that
//! `cors` names may read answers.
//!
//! The gateway alone sets these headers. Engines set their own (vLLM permits every origin by
//! default, llama.cpp whichever asks). They would open this port to every page that a browser in
//! the network shows, so they are removed.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use meridian_config as config;

use crate::refusal::Refusal;

/// Methods that at least one path accepts.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST");

/// Headers of answers that pages may read, besides the few that are always readable. The star
/// stands for those of engines.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "x-request-id, retry-after, x-meridian-replica, x-meridian-prefill-replica, x-meridian-peer, x-meridian-region, x-meridian-residency, x-meridian-reason, x-meridian-refused, x-meridian-prefix-match, x-meridian-fallback, *",
);

/// Response headers about cross-origin requests.
static SAID: [HeaderName; 6] = [
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_EXPOSE_HEADERS,
    header::ACCESS_CONTROL_MAX_AGE,
];

/// The section `cors` of the configuration.
#[derive(Debug)]
pub(crate) struct Cors {
    origins: Vec<HeaderValue>,
    max_age: HeaderValue,
}

impl Cors {
    pub(crate) fn new(config: &config::Cors) -> Cors {
        // The configuration was checked: origins are valid header values.
        let origins = config.origins.iter().filter_map(|o| HeaderValue::from_str(o).ok());
        let max_age = HeaderValue::from(config.max_age.0.as_secs());
        Cors { origins: origins.collect(), max_age }
    }

    fn is_any(&self) -> bool {
        self.origins.iter().any(|o| o == "*")
    }

    /// The value of `Access-Control-Allow-Origin` for a page of `origin`; none if it may not read.
    fn allowed(&self, origin: &HeaderValue) -> Option<HeaderValue> {
        if self.is_any() {
            return Some(HeaderValue::from_static("*"));
        }
        self.origins.iter().find(|o| *o == origin).cloned()
    }
}

/// The origin of the page that sends a preflight; none if the request is not a preflight.
pub(crate) fn asking<B>(request: &Request<B>) -> Option<&HeaderValue> {
    let headers = request.headers();
    let asks = request.method() == Method::OPTIONS
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    headers.get(header::ORIGIN).filter(|_| asks)
}

/// The answer to the preflight of a page of `origin`.
pub(crate) fn preflight(
    cors: Option<&Cors>,
    origin: &HeaderValue,
    headers: &HeaderMap,
) -> Result<Response<()>, Refusal> {
    let Some(cors) = cors.filter(|cors| cors.allowed(origin).is_some()) else {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "origin_not_allowed",
            "pages of this origin may not send requests here; add it to cors.origins in the gateway's configuration",
        ));
    };
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let said = response.headers_mut();
    said.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    said.insert(header::ACCESS_CONTROL_MAX_AGE, cors.max_age.clone());
    // A star would exclude Authorization, so the requested headers are the allowed ones.
    if let Some(asked) = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        said.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    Ok(response)
}

/// Removes an engine's headers about cross-origin requests.
pub(crate) fn strip(headers: &mut HeaderMap) {
    for name in &SAID {
        headers.remove(name);
    }
}

/// Sets the answer's headers for a page of `origin`.
pub(crate) fn mark(cors: Option<&Cors>, origin: &HeaderValue, headers: &mut HeaderMap) {
    let Some(cors) = cors else { return };
    if !cors.is_any() {
        // A cache must not serve one origin's answer to another.
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
    if let Some(allowed) = cors.allowed(origin) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
}
