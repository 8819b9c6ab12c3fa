//! Conversions of single flags.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::super::draft::Draft;
use super::super::key::Key;
use super::super::note::Found;
use super::super::value;
use super::given::Given;

pub(super) fn number(values: &[String]) -> Option<u64> {
    values.last()?.parse().ok()
}

pub(super) fn secs(values: &[String]) -> Option<std::time::Duration> {
    value::seconds(values.last()?.parse().ok()?)
}

pub(super) fn workers(_: &Given, values: &[String], _: &Found, draft: &mut Draft) {
    for url in values.iter().flat_map(|value| value.split(',')).filter(|url| !url.is_empty()) {
        draft.replica(url, 1, &Found::new("--worker-urls", url, ""));
    }
}

/// `--host` and `--port`.
pub(super) fn listen(given: &Given, draft: &mut Draft) {
    let default = if given.is_vllm { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
    let found = Found::new(
        "--host, --port",
        &format!(
            "{} {}",
            given.last("--host").unwrap_or("default"),
            given.last("--port").unwrap_or("default")
        ),
        "",
    );
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

pub(super) fn payload(_: &Given, values: &[String], from: &Found, draft: &mut Draft) {
    match number(values).filter(|bytes| *bytes > 0) {
        Some(bytes) => {
            draft.set("limits.body", value::size(bytes), from);
            if bytes > 1 << 30 {
                draft.set("limits.bodies", value::size(bytes), from);
            }
        }
        None => draft.note(from, "it is not a size", "set limits.body"),
    }
}

/// The limits of running and of queued requests become one limit, which counts both.
pub(super) fn concurrent(given: &Given, values: &[String], from: &Found, draft: &mut Draft) {
    let queue =
        given.last("--queue-size").map_or(Some(100), |n| n.parse::<u64>().ok()).unwrap_or(0);
    match values.last().and_then(|n| n.parse::<i64>().ok()) {
        Some(n) if n <= 0 => draft.needless("--max-concurrent-requests"),
        n => {
            let n = n.and_then(|n| u64::try_from(n).ok()).map(|n| n.saturating_add(queue));
            let both = format!("{} and a queue of {queue}", values.join(" "));
            let both = Found::new("--max-concurrent-requests", &both, "");
            draft.count("limits.requests", n, 1 << 32, if n.is_some() { &both } else { from });
        }
    }
}

pub(super) fn queue(_: &Given, values: &[String], from: &Found, draft: &mut Draft) {
    match number(values).filter(|n| *n <= u64::from(u32::MAX)) {
        Some(n) => draft.set("held.max", n, from),
        None => draft.note(from, "it is not a number", "set held.max"),
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

pub(super) fn file(field: &'static str, values: &[String], from: &Found, draft: &mut Draft) {
    let Some(path) = values.last() else { return };
    if std::fs::File::open(path).is_err() {
        draft.note(
            from,
            "the file cannot be read here",
            format!("make it readable, or change {field}"),
        );
    }
    draft.set(field, value::quoted(path), from);
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

pub(super) fn tenant_keys(_: &Given, values: &[String], _: &Found, draft: &mut Draft) {
    for pair in values {
        let found = Found::hidden("--tenant-api-key", "");
        match pair.split_once(':') {
            Some((name, key)) => draft.tenant(name, &Key::Text(key.to_owned()), &found),
            None => draft.note(&found, "it is not a tenant_id:key", "add the tenant to `tenants`"),
        }
    }
}
