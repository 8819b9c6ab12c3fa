//! `upstream`: servers become replicas, and the balancing method becomes the policy.

use super::super::draft::Draft;
use super::super::note::Found;
use super::super::value;
use super::OTHERS;
use super::tokens::Directive;
use super::units;

/// Converts an upstream block, whose servers have URLs with `scheme`.
pub(super) fn read(upstream: &Directive, scheme: &str, draft: &mut Draft) {
    for directive in upstream.inside() {
        let args: Vec<&str> = directive.args.iter().map(String::as_str).collect();
        let found = directive.found();
        match (directive.name.as_str(), args.as_slice()) {
            ("server", [address, options @ ..]) => {
                server((address, options), (scheme, &upstream.place), &found, draft);
            }
            ("least_conn", _) => draft.set("policy", "least_outstanding", &found),
            ("random", ["two", ..]) => draft.set("policy", "p2c", &found),
            ("random", _) => draft.set("policy", "random", &found),
            // Without a session key, consistent_hash uses the client's address.
            ("ip_hash", _) => draft.set("policy", "consistent_hash", &found),
            ("hash", [key, ..]) => hash(key, &found, draft),
            _ => draft.note(&found.hide(), OTHERS.0, OTHERS.1),
        }
    }
}

fn hash(key: &str, found: &Found, draft: &mut Draft) {
    draft.set("policy", "consistent_hash", found);
    let fits = |header: &&str| header.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    match key.strip_prefix("$http_").filter(fits) {
        Some(header) => {
            let header = header.replace('_', "-").to_ascii_lowercase();
            draft.set("keys.headers", value::list([header.as_str()]), found);
        }
        None => {
            let why = "consistent_hash takes its key from a header or from the request's body";
            draft.note(found, why, "let clients send x-session-id, or set keys.headers");
        }
    }
}

fn server(
    (address, options): (&str, &[&str]),
    (scheme, place): (&str, &str),
    found: &Found,
    draft: &mut Draft,
) {
    let is_spare = |o: &&str| ["backup", "down"].contains(o) || o.starts_with("service=");
    if address.contains('$') || address.starts_with("unix:") || options.iter().any(is_spare) {
        let why = "replicas are addresses of a host and a port that serve now";
        return draft.note(found, why, "add its address to `replicas`, or leave it out");
    }
    let weight = options.iter().find_map(|option| option.strip_prefix("weight="));
    let weight = weight.and_then(|n| n.parse().ok()).unwrap_or(1);
    if options.contains(&"resolve") {
        let port = if address.contains(':') { "" } else { ":80" };
        draft.dns(&format!("{address}{port}"), found);
    } else if !draft.replica(&format!("{scheme}://{address}"), weight, None, found) {
        return;
    }
    for option in options {
        // Limits of one server; in Meridian they apply to all replicas.
        match option.split_once('=').unwrap_or((option, "")) {
            ("weight" | "resolve", _) => {}
            ("max_fails", n) => draft.count("breaker.failures", value::whole(n), found),
            ("fail_timeout", time) => draft.breaker_open(units::time(time), found),
            (name, _) => {
                // Its place is the block's, so that several servers share a note.
                let found = Found::hidden(&format!("server {name}"), place);
                draft.note(&found, OTHERS.0, OTHERS.1);
            }
        }
    }
}
