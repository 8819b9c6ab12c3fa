//! `upstream`: servers become replicas, and the balancing method becomes the policy.

use super::super::draft::Draft;
use super::super::note::Found;
use super::super::value;
use super::tokens::Directive;
use super::units;

/// Converts an upstream block, whose servers have URLs with `scheme`.
pub(super) fn read(upstream: &Directive, scheme: &str, draft: &mut Draft) {
    let block = upstream.block.as_deref().unwrap_or_default();
    for directive in block {
        let Directive { name, args, place, .. } = directive;
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let found = Found::new(name, &args.join(" "), place);
        match name.as_str() {
            "server" => server(&args, scheme, &found, draft),
            "keepalive" | "keepalive_requests" | "keepalive_timeout" | "keepalive_time"
            | "zone" => {
                draft.needless(name);
            }
            "queue" => queue(&args, &found, draft),
            _ => method(name, &args, &found, draft),
        }
    }
    if !draft.has("policy") && !draft.has("policy.name") {
        let turns = "without a method, servers in turn (policy round_robin)";
        let name = upstream.args.first().map_or("", String::as_str);
        let found = Found::new("upstream", &format!("{name} {turns}"), &upstream.place);
        draft.set("policy", "meridian", &found);
    }
}

/// Converts a balancing method.
fn method(name: &str, args: &[&str], found: &Found, draft: &mut Draft) {
    match (name, args) {
        ("least_conn", _) => draft.set("policy", "least_outstanding", found),
        ("random", ["two", ..]) => {
            draft.set("policy.name", "p2c", found);
            draft.set("policy.load", "outstanding", found);
        }
        ("random", _) => draft.set("policy", "random", found),
        ("hash", ["$remote_addr" | "$binary_remote_addr", ..]) => {
            draft.set("policy", "consistent_hash", found);
        }
        ("hash", [key, ..]) => match key.strip_prefix("$http_") {
            Some(header) if header.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') => {
                draft.set("policy", "consistent_hash", found);
                let header = header.replace('_', "-").to_ascii_lowercase();
                draft.set("keys.headers", value::list([header.as_str()]), found);
            }
            _ => {
                draft.set("policy", "consistent_hash", found);
                let why = "consistent_hash takes its key from a header or from the request's body";
                draft.note(found, why, "let clients send x-session-id, or set keys.headers");
            }
        },
        // Without a session key, consistent_hash uses the client's address.
        ("ip_hash", _) => draft.set("policy", "consistent_hash", found),
        ("sticky", _) => {
            draft.set("policy", "consistent_hash", found);
            let why = "consistent_hash takes its key from a header, not from a cookie";
            draft.note(found, why, "let clients send x-session-id, or set keys.headers");
        }
        ("least_time", _) => {
            draft.set("policy", "meridian", found);
            let why =
                "its closest counterpart, policy meridian, estimates the time to the first token";
            draft.note(found, why, "compare the policies in docs/policies.md");
        }
        _ => {
            let found = Found::hidden(name, "upstream");
            let why = "the import does not know it in an upstream";
            draft.note(&found, why, "look for a counterpart in docs/gateway.md");
        }
    }
}

/// Converts `queue NUMBER [timeout=TIME]` of nginx Plus.
fn queue(args: &[&str], found: &Found, draft: &mut Draft) {
    draft.count("held.max", args.first().and_then(|n| n.parse().ok()), u64::from(u32::MAX), found);
    if let Some(time) = args.iter().find_map(|arg| arg.strip_prefix("timeout=")) {
        draft.span("held.max_wait", units::time(time), found);
    }
}

fn server(args: &[&str], scheme: &str, found: &Found, draft: &mut Draft) {
    let [address, options @ ..] = args else { return };
    if address.contains('$') || address.starts_with("unix:") {
        let why = "replicas are reached by an address of a host and a port";
        return draft.note(found, why, "add the address to `replicas`");
    }
    if options.contains(&"backup") {
        let why = "a gateway has no backup replicas";
        return draft.note(found, why, "add it to `replicas`, or to the gateway of another region");
    }
    if options.contains(&"down") {
        let why = "it is down, so it is left out";
        return draft.note(found, why, "add it to `replicas` when it serves again");
    }
    let option = |name: &str| options.iter().find_map(|arg| arg.strip_prefix(name));
    if let Some(service) = option("service=") {
        let name = match service.contains('.') {
            true => format!("{service}.{address}"),
            false => format!("_{service}._tcp.{address}"),
        };
        draft.source("srv", &name, found);
    } else if options.contains(&"resolve") {
        let port = if address.contains(':') { "" } else { ":80" };
        draft.source("dns", &format!("{address}{port}"), found);
    } else {
        let weight = option("weight=").map_or(Some(1), |n| n.parse().ok().filter(|n| *n > 0));
        let Some(weight) = weight else {
            return draft.note(found, "its weight is not a number above 0", "add it to `replicas`");
        };
        if !draft.replica(&format!("{scheme}://{address}"), weight, found) {
            return;
        }
    }
    limits(options, found, draft);
}

/// Converts limits of one server. In Meridian they apply to all replicas.
fn limits(options: &[&str], found: &Found, draft: &mut Draft) {
    for option in options {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match name {
            "max_fails" if value == "0" => {
                let why = "circuit breakers cannot be switched off";
                draft.note(found, why, "set breaker.failures to a large number");
            }
            "max_fails" => {
                draft.count("breaker.failures", value.parse().ok(), u64::from(u32::MAX), found);
            }
            "fail_timeout" => draft.breaker_open(units::time(value), found),
            "max_conns" if value == "0" => {}
            "max_conns" => {
                draft.count(
                    "admission.outstanding",
                    value.parse().ok(),
                    u64::from(u32::MAX),
                    found,
                );
            }
            "weight" | "resolve" | "service" => {}
            _ => {
                let why = format!("{name} has no counterpart");
                draft.note(found, why, "compare the settings of `replicas` in docs/gateway.md");
            }
        }
    }
}
