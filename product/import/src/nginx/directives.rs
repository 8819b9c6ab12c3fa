//! The directives that are in force at a location, each with its conversion or the reason for not
//! converting it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use super::super::act;
use super::super::draft::Draft;
use super::super::note::Found;
use super::super::value;
use super::tokens::Directive;
use super::units;

type Convert = fn(&Directive, Option<&Path>, &mut Draft);
type Act = act::Act<Convert>;

const KEYS: &str = "let clients send keys: `tenants`, docs/gateway.md";
const LIMITS: &str = "set tenants[].limits";
const EDGE: &str = "keep nginx in front of the gateway for it";

/// The table. A name that is not in it becomes a note without its value.
const TABLE: &[(&str, Act)] = &[
    ("location", Act::Elsewhere),
    ("server", Act::Elsewhere),
    ("upstream", Act::Elsewhere),
    ("listen", Act::Elsewhere),
    ("proxy_pass", Act::Elsewhere),
    ("types", Act::Elsewhere),
    ("ssl_certificate", Act::Do(certificate)),
    ("ssl_certificate_key", Act::Do(certificate)),
    ("ssl_protocols", Act::Do(protocols)),
    ("client_max_body_size", Act::Do(body)),
    ("large_client_header_buffers", Act::Do(headers)),
    ("client_body_timeout", Act::Do(client_timeout)),
    ("client_header_timeout", Act::Do(client_timeout)),
    ("proxy_connect_timeout", Act::Do(connect_timeout)),
    ("proxy_read_timeout", Act::Do(read_timeout)),
    ("proxy_next_upstream", Act::Do(next_upstream)),
    ("proxy_next_upstream_tries", Act::Do(tries)),
    ("proxy_set_header", Act::Do(set_header)),
    ("add_header", Act::Do(add_header)),
    (
        "limit_req",
        Act::Say("requests are limited for each client's key, not for each address", LIMITS),
    ),
    ("limit_req_zone", Act::Do(limit_zone)),
    ("limit_conn", Act::Say("connections of one client are not counted", LIMITS)),
    ("limit_rate", Act::Say("bytes are not throttled", EDGE)),
    ("worker_processes", Act::Do(threads)),
    ("if", Act::Do(condition)),
    ("auth_basic", Act::Guard("passwords of HTTP are not read", KEYS)),
    ("auth_request", Act::Guard("no other service is asked for permission", KEYS)),
    ("auth_jwt", Act::Guard("tokens of another issuer are not checked", KEYS)),
    ("allow", Act::Guard("clients' addresses are not checked", "use a firewall, or `tenants`")),
    ("deny", Act::Guard("clients' addresses are not checked", "use a firewall, or `tenants`")),
    ("satisfy", Act::Needless),
    ("ssl_verify_client", Act::Guard("certificates of clients are not checked", KEYS)),
    ("access_by_lua_block", Act::Guard("Lua is not run", KEYS)),
    ("access_by_lua_file", Act::Guard("Lua is not run", KEYS)),
    ("rewrite", Act::Hide("paths are not rewritten", EDGE)),
    ("return", Act::Hide("the gateway answers nothing but the API", EDGE)),
    ("proxy_cache", Act::Say("answers are not cached; engines cache prefixes", "nothing to do")),
    ("mirror", Act::Say("requests are not copied", EDGE)),
    ("error_page", Act::Say("errors have OpenAI's format", "nothing to do for clients of the API")),
    ("map", Act::Hide("variables are not evaluated", "set the value that it gives by hand")),
    ("geo", Act::Hide("variables are not evaluated", "set the value that it gives by hand")),
    ("set", Act::Hide("variables are not evaluated", "set the value that it gives by hand")),
    ("stream", Act::Say("only http is read", EDGE)),
    ("mail", Act::Say("only http is read", EDGE)),
    ("grpc_pass", Act::Say("replicas are reached over HTTP, not gRPC", "name the HTTP server")),
];

/// Directives that need no counterpart: Meridian streams, keeps connections open, and forwards
/// headers itself.
const NEEDLESS: &[&str] = &[
    "access_log",
    "aio",
    "auth_basic_user_file",
    "charset",
    "chunked_transfer_encoding",
    "client_body_buffer_size",
    "client_body_temp_path",
    "client_header_buffer_size",
    "daemon",
    "default_type",
    "error_log",
    "expires",
    "fastcgi_temp_path",
    "gzip",
    "gzip_disable",
    "gzip_min_length",
    "gzip_proxied",
    "gzip_types",
    "gzip_vary",
    "http2",
    "ignore_invalid_headers",
    "keepalive_requests",
    "keepalive_timeout",
    "lingering_close",
    "load_module",
    "log_format",
    "map_hash_bucket_size",
    "open_file_cache",
    "pcre_jit",
    "pid",
    "proxy_buffer_size",
    "proxy_buffering",
    "proxy_buffers",
    "proxy_busy_buffers_size",
    "proxy_cache_bypass",
    "proxy_http_version",
    "proxy_ignore_client_abort",
    "proxy_next_upstream_timeout",
    "proxy_pass_header",
    "proxy_redirect",
    "proxy_request_buffering",
    "proxy_send_timeout",
    "proxy_temp_path",
    "proxy_set_body",
    "reset_timedout_connection",
    "resolver",
    "resolver_timeout",
    "root",
    "scgi_temp_path",
    "send_timeout",
    "sendfile",
    "server_name",
    "server_names_hash_bucket_size",
    "server_tokens",
    "ssl_buffer_size",
    "ssl_ciphers",
    "ssl_client_certificate",
    "ssl_dhparam",
    "ssl_ecdh_curve",
    "ssl_prefer_server_ciphers",
    "ssl_session_cache",
    "ssl_session_tickets",
    "ssl_session_timeout",
    "ssl_stapling",
    "ssl_stapling_verify",
    "ssl_trusted_certificate",
    "tcp_nodelay",
    "tcp_nopush",
    "types_hash_max_size",
    "underscores_in_headers",
    "user",
    "uwsgi_temp_path",
    "worker_connections",
    "worker_cpu_affinity",
    "worker_priority",
    "worker_rlimit_nofile",
    "worker_shutdown_timeout",
];

/// How the directive of this name is treated.
pub(super) fn act(name: &str) -> Act {
    Act::of(name, TABLE, NEEDLESS)
}

fn found(directive: &Directive) -> Found {
    Found::new(&directive.name, &directive.args.join(" "), &directive.place)
}

fn first(directive: &Directive) -> &str {
    directive.args.first().map_or("", String::as_str)
}

/// `listen`: the first with an address, TLS before plain HTTP.
pub(super) fn listen(directive: &Directive, draft: &mut Draft) {
    let (text, from) = (first(directive), found(directive));
    if text.starts_with("unix:") {
        let remedy = "listen on 127.0.0.1 instead";
        return draft.note(&from, "clients connect over TCP", remedy);
    }
    for option in ["proxy_protocol", "quic"] {
        if directive.args.iter().any(|arg| arg == option) {
            draft.note(&from, format!("{option} is not spoken"), EDGE);
        }
    }
    match address(text) {
        Some(address) => {
            // nginx has one line for IPv4 and one for IPv6; the second is not a further address.
            let twin = text.starts_with("[::]") && draft.listens_on(address.port());
            if !twin {
                draft.listen(address, &from);
            }
        }
        None => {
            let why = "a gateway listens on an IP address";
            draft.note(&from, why, "set `listen` to one, as in 0.0.0.0:80");
        }
    }
}

fn address(text: &str) -> Option<SocketAddr> {
    const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    if let Ok(port) = text.parse() {
        return Some(SocketAddr::new(ANY, port));
    }
    let text = text.replace("localhost", "127.0.0.1").replace("*:", "0.0.0.0:");
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let bare = bare.parse().map(|ip: IpAddr| SocketAddr::new(ip, 80));
    text.parse().or(bare).ok()
}

fn certificate(directive: &Directive, folder: Option<&Path>, draft: &mut Draft) {
    let (text, from) = (first(directive), found(directive));
    if text.contains('$') || text.starts_with("data:") || text.starts_with("engine:") {
        let from = Found::hidden(&directive.name, &directive.place);
        return draft.note(&from, "the value names no file", "write a PEM file and name it in tls");
    }
    let path = folder.unwrap_or(Path::new("")).join(text);
    let field = if directive.name.ends_with("key") { "tls.key" } else { "tls.certificate" };
    if std::fs::File::open(&path).is_err() {
        draft.note(
            &from,
            "the file cannot be read here",
            format!("make it readable, or change {field}"),
        );
    }
    draft.set(field, value::quoted(&path.to_string_lossy()), &from);
}

fn protocols(directive: &Directive, _: Option<&Path>, draft: &mut Draft) {
    match directive.args.iter().any(|arg| ["TLSv1", "TLSv1.1", "SSLv3"].contains(&arg.as_str())) {
        true => draft.note(&found(directive), "TLS 1.2 and 1.3 are spoken", "update older clients"),
        false => draft.needless(&directive.name),
    }
}

fn body(directive: &Directive, _: Option<&Path>, draft: &mut Draft) {
    let from = found(directive);
    match units::size(first(directive)) {
        Some(0) => draft.note(&from, "bodies have a bound, 32MiB by default", "set limits.body"),
        Some(bytes) => {
            draft.set("limits.body", value::size(bytes), &from);
            const ALL: u64 = 1 << 30;
            if bytes > ALL {
                draft.set("limits.bodies", value::size(bytes), &from);
            }
        }
        None => draft.note(&from, "it is not a size", "set limits.body, as in 64MiB"),
    }
}

/// `large_client_header_buffers`: the number and the size of the buffers for a request's headers.
fn headers(directive: &Directive, _: Option<&Path>, draft: &mut Draft) {
    let from = found(directive);
    let number = first(directive).parse::<u64>().ok();
    let size = directive.args.get(1).and_then(|size| units::size(size));
    match number.zip(size).and_then(|(n, size)| n.checked_mul(size)) {
        Some(bytes) => draft.set("limits.headers", value::size(bytes), &from),
        None => draft.note(&from, "it is not a number of buffers and a size", "set limits.headers"),
    }
}

fn client_timeout(directive: &Directive, _: Option<&Path>, draft: &mut Draft) {
    draft.span("timeouts.client", units::time(first(directive)), &found(directive));
}

fn connect_timeout(directive: &Directive, _: Option<&Path>, draft: &mut Draft) {
    draft.span("timeouts.connect", units::time(first(directive)), &found(directive));
}

/// `proxy_read_timeout`: nginx's timeout for the first byte and between two bytes.
fn read_timeout(directive: &Directive, _: Option<&Path>, draft: &mut Draft) {
    let time = units::time(first(directive));
    draft.span("timeouts.first_byte", time, &found(directive));
    if time.is_some_and(|time| !time.is_zero()) {
        draft.span("timeouts.idle", time, &found(directive));
    }
}

fn next_upstream(directive: &Directive, _: Option<&Path>, draft: &mut Draft) {
    match first(directive) {
        "off" => draft.set("attempts", 1, &found(directive)),
        _ => draft.needless(&directive.name),
    }
}

fn tries(directive: &Directive, _: Option<&Path>, draft: &mut Draft) {
    match first(directive) {
        "0" => draft.needless(&directive.name),
        n => draft.count("attempts", n.parse().ok(), u64::from(u32::MAX), &found(directive)),
    }
}

fn threads(directive: &Directive, _: Option<&Path>, draft: &mut Draft) {
    match first(directive) {
        "auto" => draft.needless(&directive.name),
        n => draft.count("threads", n.parse().ok(), 1024, &found(directive)),
    }
}

/// Headers that the gateway sets or forwards itself.
const OWN_HEADERS: [&str; 12] = [
    "accept-encoding",
    "connection",
    "host",
    "upgrade",
    "x-real-ip",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-forwarded-server",
    "x-request-id",
    "te",
];

fn set_header(directive: &Directive, _: Option<&Path>, draft: &mut Draft) {
    let name = first(directive).to_ascii_lowercase();
    if OWN_HEADERS.contains(&name.as_str()) {
        return draft.needless(&directive.name);
    }
    let from = Found::hidden(&format!("proxy_set_header {name}"), &directive.place);
    match name.as_str() {
        "authorization" => {
            let why = "the value may be a key, which the import does not print";
            draft.note(&from, why, "set engine_key to the engines' key");
        }
        _ => {
            let why = "the gateway adds no headers to requests";
            draft.note(&from, why, "let the client send it, or keep nginx in front");
        }
    }
}

fn add_header(directive: &Directive, _: Option<&Path>, draft: &mut Draft) {
    let name = first(directive).to_ascii_lowercase();
    let text = directive.args.get(1).map_or("", String::as_str);
    let is_origin = text == "*" || text.starts_with("http://") || text.starts_with("https://");
    match name.as_str() {
        "access-control-allow-origin" if is_origin && !text.contains('@') => {
            draft.set("cors.origins", value::list([text]), &found(directive));
        }
        "access-control-allow-origin" => {
            let why = "variables are not evaluated";
            draft.note(&found(directive), why, "list the origins in cors.origins");
        }
        name if name.starts_with("access-control-") => draft.needless("add_header access-control-"),
        name => {
            let from = Found::hidden(&format!("add_header {name}"), &directive.place);
            draft.note(&from, "the gateway adds no headers to answers", EDGE);
        }
    }
}

fn limit_zone(directive: &Directive, _: Option<&Path>, draft: &mut Draft) {
    let rate = directive.args.iter().find_map(|arg| arg.strip_prefix("rate="));
    let a_minute = rate.and_then(|rate| match rate.split_once("r/") {
        Some((n, "s")) => n.parse::<u64>().ok()?.checked_mul(60),
        Some((n, "m")) => n.parse().ok(),
        _ => None,
    });
    let remedy = match a_minute {
        Some(n) => format!("set tenants[].limits.requests_per_minute to {n}"),
        None => LIMITS.to_owned(),
    };
    let why = "requests are limited for each client's key, not for each address";
    draft.note(&found(directive), why, remedy);
}

/// `if`: a condition on credentials, or one that refuses requests, is access control.
fn condition(directive: &Directive, _: Option<&Path>, draft: &mut Draft) {
    let text = directive.args.join(" ").to_ascii_lowercase();
    let refuses = |d: &Directive| d.name == "return" && ["401", "403", "444"].contains(&first(d));
    let guards = ["authorization", "api_key", "apikey", "token", "remote_addr", "cookie"]
        .iter()
        .any(|word| text.contains(word))
        || directive.block.iter().flatten().any(refuses);
    let from = Found::hidden("if", &directive.place);
    match guards {
        true => draft.unguarded(&from, "conditions are not evaluated", KEYS),
        false => draft.note(&from, "conditions are not evaluated", EDGE),
    }
}
