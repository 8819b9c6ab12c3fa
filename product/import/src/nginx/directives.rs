//! The directives in force at a location: limits, timeouts and certificates. Any other becomes a
//! note, the same for all.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use super::super::act::{Act, Table};
use super::super::draft::Draft;
use super::OTHERS;
use super::tokens::Directive;
use super::units;

/// What a conversion gets: the directive, and the folder where relative names start.
type Convert = fn(&Directive, &Path, &mut Draft);

pub(super) const TABLE: Table<Convert> = Table {
    acts: &[
        ("ssl_certificate ssl_certificate_key", Act::Do(certificate)),
        ("client_max_body_size", Act::Do(body)),
        ("client_body_timeout client_header_timeout", Act::Do(timeout)),
        ("proxy_connect_timeout proxy_read_timeout", Act::Do(timeout)),
        ("if", Act::Do(condition)),
        ("include", Act::Do(include)),
    ],
    notes: "",
    hidden: "",
    guards: "\
auth_basic auth_request auth_jwt allow deny ssl_verify_client access_by_lua_block access_by_lua_file: \
access control is not read from nginx; let clients send keys: `tenants`, docs/tenants.md",
    needless: "",
    elsewhere: "server location upstream listen proxy_pass",
    unknown: OTHERS,
};

/// `listen`: the first with an address, TLS before plain HTTP.
pub(super) fn listen(directive: &Directive, draft: &mut Draft) {
    let (text, from) = (directive.first(), directive.found());
    if directive.args.iter().any(|arg| arg == "proxy_protocol") {
        let remedy = "let clients, or what is in front, connect without it";
        draft.note(&from, "proxy_protocol is not spoken", remedy);
    }
    match address(text) {
        // nginx has one line for IPv4 and one for IPv6; the second is not a further address.
        Some(address) if text.starts_with("[::]") && draft.listens_on(address.port()) => {}
        Some(address) => draft.listen(address, &from),
        None => {
            let why = "a gateway listens on an IP address and a port";
            draft.note(&from, why, "set `listen` to one, as in 0.0.0.0:80");
        }
    }
}

fn address(text: &str) -> Option<SocketAddr> {
    if let Ok(port) = text.parse() {
        return Some((Ipv4Addr::UNSPECIFIED, port).into());
    }
    let text = text.replace("localhost", "127.0.0.1").replace("*:", "0.0.0.0:");
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let bare = bare.parse().map(|ip: IpAddr| SocketAddr::new(ip, 80));
    text.parse().or(bare).ok()
}

fn certificate(directive: &Directive, folder: &Path, draft: &mut Draft) {
    let (text, from) = (directive.first(), directive.found());
    if text.contains('$') || text.starts_with("data:") || text.starts_with("engine:") {
        let remedy = "write a PEM file and name it in tls";
        return draft.note(&from.hide(), "the value names no file", remedy);
    }
    let field = if directive.name.ends_with("key") { "tls.key" } else { "tls.certificate" };
    draft.file(field, &folder.join(text).to_string_lossy(), &from);
}

fn body(directive: &Directive, _: &Path, draft: &mut Draft) {
    draft.body(units::size(directive.first()), &directive.found());
}

fn timeout(directive: &Directive, _: &Path, draft: &mut Draft) {
    let (time, from) = (units::time(directive.first()), directive.found());
    match directive.name.as_str() {
        "proxy_connect_timeout" => draft.span("timeouts.connect", time, &from),
        // nginx's timeout for the first byte and between two bytes.
        "proxy_read_timeout" => {
            draft.span("timeouts.first_byte", time, &from);
            if time.is_some_and(|time| !time.is_zero()) {
                draft.span("timeouts.idle", time, &from);
            }
        }
        _ => draft.span("timeouts.client", time, &from),
    }
}

/// `if`: a condition on credentials, or one that refuses requests, is access control.
fn condition(directive: &Directive, _: &Path, draft: &mut Draft) {
    let text = directive.args.join(" ").to_ascii_lowercase();
    let words = ["authorization", "api_key", "apikey", "token", "remote_addr", "cookie"];
    let refuses = |d: &Directive| d.name == "return" && ["401", "403", "444"].contains(&d.first());
    let from = directive.found().hide();
    match words.iter().any(|word| text.contains(word)) || directive.inside().iter().any(refuses) {
        true => draft.unguarded(
            &from,
            "conditions are not evaluated",
            "let clients send keys: `tenants`, docs/tenants.md",
        ),
        false => draft.note(&from, OTHERS.0, OTHERS.1),
    }
}

/// `include`: the file may hold access control. A list of file types holds nothing to convert.
fn include(directive: &Directive, _: &Path, draft: &mut Draft) {
    if !directive.first().ends_with("mime.types") {
        let why = "other files are not read, and this one may hold access control";
        draft.unguarded(&directive.found(), why, super::WHOLE);
    }
}
