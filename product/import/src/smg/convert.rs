//! Conversions of single flags.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::super::draft::Draft;
use super::super::key::Key;
use super::super::note::Found;
use super::super::value;
use super::given::Given;

pub(super) fn workers(_: &Given, values: &[String], _: &Found, draft: &mut Draft) {
    for url in values.iter().flat_map(|value| value.split(',')).filter(|url| !url.is_empty()) {
        draft.replica(url, 1, None, &Found::new("--worker-urls", url, ""));
    }
}

/// `--host` and `--port`.
pub(super) fn listen(given: &Given, draft: &mut Draft) {
    let default = if given.is_vllm { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
    let or_default = |flag| given.last(flag).unwrap_or("default");
    let both = format!("{} {}", or_default("--host"), or_default("--port"));
    let found = Found::new("--host, --port", &both, "");
    let port = given.last("--port").map_or(Some(30_000), |port| port.parse().ok());
    let host = match given.last("--host") {
        None => Some(IpAddr::V4(default)),
        Some("localhost") => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        Some(host) => host.trim_start_matches('[').trim_end_matches(']').parse().ok(),
    };
    match host.zip(port) {
        Some((host, port)) => draft.listen(SocketAddr::new(host, port), &found),
        None => draft.note(&found, "a gateway listens on an IP address and a port", "set `listen`"),
    }
}

/// The port for metrics becomes the admin port on loopback; on other addresses it needs a token.
pub(super) fn admin(given: &Given, values: &[String], from: &Found, draft: &mut Draft) {
    match values.last().and_then(|port| port.parse::<u16>().ok()).filter(|port| *port > 0) {
        Some(port) => draft.set("admin", SocketAddr::from((Ipv4Addr::LOCALHOST, port)), from),
        None => draft.note(from, "it is not a port", "set `admin`"),
    }
    let host = given.last("--prometheus-host").unwrap_or("0.0.0.0");
    if !["127.0.0.1", "localhost", "::1"].contains(&host) {
        let why =
            "metrics are at the admin port, which needs a token on other addresses than loopback";
        draft.note(&given.found("--prometheus-port"), why, "set admin and admin_access.tokens");
    }
}

/// The limits of running and of queued requests become one limit, which counts both.
pub(super) fn concurrent(given: &Given, values: &[String], from: &Found, draft: &mut Draft) {
    let limit = values.last().map_or("", String::as_str);
    let queue = given.last("--queue-size").map_or(Some(100), value::whole).unwrap_or(0);
    match value::whole(limit) {
        // Zero and negative numbers switch the limit off.
        None | Some(0) if limit.parse::<i64>().is_ok() => {
            draft.needless("--max-concurrent-requests")
        }
        None => draft.count("limits.requests", None, from),
        Some(n) => {
            let both = format!("{limit} and a queue of {queue}");
            let both = Found::new("--max-concurrent-requests", &both, "");
            draft.count("limits.requests", Some(n + queue), &both);
        }
    }
}

pub(super) fn queue(_: &Given, values: &[String], from: &Found, draft: &mut Draft) {
    match values.last().and_then(|n| n.parse::<u32>().ok()) {
        Some(n) => draft.set("held.max", n, from),
        None => draft.note(from, "it is not a number", "set held.max"),
    }
}

/// `--retry-max-retries`, unless `--disable-retries` is there, too.
pub(super) fn attempts(given: &Given, values: &[String], from: &Found, draft: &mut Draft) {
    match (values.last(), given.has("--disable-retries")) {
        (Some(n), false) => draft.count("attempts", value::whole(n), from),
        (None, false) => draft.count("attempts", None, from),
        (Some(_), true) => {}
        (None, true) => draft.set("attempts", 1, from),
    }
}

pub(super) fn tenant_header(_: &Given, values: &[String], from: &Found, draft: &mut Draft) {
    if let Some(name) = values.last() {
        draft.set("keys.tenant_header", value::quoted(name), from);
    }
}

/// Sets `field` to the values that fit it. A note reports other values without showing them.
fn list(
    field: &'static str,
    values: &[String],
    fits: fn(&str) -> bool,
    from: &Found,
    draft: &mut Draft,
) {
    let fitting: Vec<&str> =
        values.iter().map(String::as_str).filter(|value| fits(value)).collect();
    if fitting.len() < values.len() {
        draft.note(&from.hide(), "a value has another form", format!("add it to {field}"));
    }
    if !fitting.is_empty() {
        draft.set(field, value::list(fitting), from);
    }
}

pub(super) fn origins(_: &Given, values: &[String], from: &Found, draft: &mut Draft) {
    let is_origin = |value: &str| {
        let named = value.starts_with("http://") || value.starts_with("https://");
        value == "*" || (named && !value.contains('@'))
    };
    list("cors.origins", values, is_origin, from, draft);
}

pub(super) fn headers(_: &Given, values: &[String], from: &Found, draft: &mut Draft) {
    let is_name = |value: &str| value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    list("keys.headers", values, is_name, from, draft);
}

/// One key for the engines; smg and sglang-router use it for clients as well.
pub(super) fn api_key(given: &Given, values: &[String], _: &Found, draft: &mut Draft) {
    let found = Found::hidden("--api-key", "");
    let key = values.last().cloned().unwrap_or_default();
    if !given.is_vllm {
        draft.tenant("api-key", &Key::Text(key), &found);
    }
    let why = "the import prints no key";
    draft.note(&found, why, "set engine_key to it if the engines check it");
}

/// `--model-alias NAME=MODEL`: which models the engines serve is known when they answer.
pub(super) fn aliases(_: &Given, values: &[String], from: &Found, draft: &mut Draft) {
    draft.models.serves_any();
    for pair in values {
        match pair.split_once('=') {
            Some((name, model)) => draft.models.stands_for(name, model, from),
            None => draft.note(from, "it is not NAME=MODEL", "write it as models.NAME.alias"),
        }
    }
}

pub(super) fn tenant_keys(_: &Given, values: &[String], _: &Found, draft: &mut Draft) {
    for pair in values {
        let found = Found::hidden("--tenant-api-key", "");
        match pair.split_once(':') {
            Some((name, key)) => draft.tenant(name, &Key::Text(key.to_owned()), &found),
            None => draft.note(&found, "it is not a tenant_id:key", "add the tenant to `tenants`"),
        }
    }
}
