//! Messages about a value of the wrong shape: a list instead of a section, a word instead of a
//! number.

use super::node::{Node, NodeKind};
use crate::closest;

/// Fields that other programs have, and ours.
const ELSEWHERE: &[(&str, &str)] = &[
    ("address", "listen"),
    ("bind", "listen"),
    ("host", "listen"),
    ("port", "listen"),
    ("backends", "replicas"),
    ("endpoints", "replicas"),
    ("servers", "replicas"),
    ("upstreams", "replicas"),
    ("workers", "replicas"),
    ("api_base", "url"),
    ("endpoint", "url"),
    ("api_key", "engine_key"),
    ("api_keys", "tenants"),
    ("jwt", "oidc"),
    ("strategy", "policy"),
    ("routing_strategy", "policy"),
    ("retries", "attempts"),
    ("num_retries", "attempts"),
    ("ssl", "tls"),
    ("cert", "certificate"),
    ("model", "models"),
];
/// Fields of sections that are often written outside of them.
const INSIDE: &[(&str, &str)] = &[
    ("connect", "timeouts"),
    ("first_byte", "timeouts"),
    ("idle", "timeouts"),
    ("drain", "timeouts"),
    ("body", "limits"),
    ("headers", "limits"),
    ("connections", "limits"),
    ("requests", "limits"),
    ("max_wait", "held"),
    ("max_per_tenant", "held"),
    ("failures", "breaker"),
    ("down_after", "probe"),
    ("certificate", "tls"),
    ("origins", "cors"),
    ("tokens", "admin_access"),
    ("gateways", "peers"),
    ("issuer", "oidc"),
    ("audience", "oidc"),
    ("rules", "residency"),
    ("url", "replicas"),
    ("engine", "replicas"),
    ("models", "replicas"),
    ("weight", "replicas"),
];
/// Most fields that a message lists.
const FEW: usize = 13;

pub(super) fn unknown_field(name: &str, known: &[&str]) -> String {
    let inside = INSIDE.iter().find(|(field, section)| *field == name && known.contains(section));
    if let Some((_, section)) = inside {
        return format!("is a field of `{section}`; move it there, indented");
    }
    if let Some(secret) = secret_of(name, known) {
        return format!("unknown field; write `{secret}: {{file: PATH}}`");
    }
    let ours = ELSEWHERE.iter().find(|(theirs, ours)| *theirs == name && known.contains(ours));
    let list = || format!("The fields are {}", known.join(", "));
    match ours.map(|(_, ours)| *ours).or_else(|| closest(name, known)) {
        Some(one) if known.len() <= FEW => {
            format!("unknown field; did you mean `{one}`? {}", list())
        }
        Some(one) => format!("unknown field; did you mean `{one}`?"),
        None if known.is_empty() => "unknown field; remove it".to_owned(),
        None if known.len() <= FEW => format!("unknown field; remove it. {}", list()),
        None => {
            "unknown field; remove it, or check its indentation. docs/configuration.md lists all \
                 fields"
                .to_owned()
        }
    }
}

/// The secret that `engine_key_file` means.
fn secret_of<'a>(name: &'a str, known: &[&str]) -> Option<&'a str> {
    const ENDS: [&str; 3] = ["_from_file", "_file", "_path"];
    let secret = ENDS.iter().find_map(|end| name.strip_suffix(end))?;
    let is_secret = ["engine_key", "secret", "token", "password"].contains(&secret);
    (is_secret && known.contains(&secret)).then_some(secret)
}

pub(super) fn missing_field(name: &str) -> String {
    match name {
        "version" => "is missing; add the line `version: 1`".to_owned(),
        "url" => "is missing; add it, as in `url: http://127.0.0.1:8000`".to_owned(),
        _ => format!("is missing; add `{name}: ...`"),
    }
}

/// A section is needed.
pub(super) fn not_section(node: &Node, fields: &[&str]) -> String {
    let list = fields.join(", ");
    let write = match fields.len() {
        0 => "write `name: value` lines below it, indented".to_owned(),
        1..=FEW => format!("write its fields below it, indented: {list}"),
        _ => "write its fields below it, indented".to_owned(),
    };
    match &node.kind {
        NodeKind::Text { text, .. } if fields.contains(&"url") && is_address(text) => {
            format!(
                "`{text}` is an address alone; write `url: {}`",
                super::super::with_scheme(text)
            )
        }
        NodeKind::List(_) => format!("is a list; remove the dashes and {write}"),
        _ => format!("has a single value, and needs fields; {write}"),
    }
}

/// A list is needed.
pub(super) fn not_list(node: &Node) -> String {
    match &node.kind {
        NodeKind::Section(_) => {
            "is a section, and needs a list; start each entry with a dash, `- `".to_owned()
        }
        _ => "has a single value, and needs a list; write one entry a line below it, each after a \
              dash, `- `"
            .to_owned(),
    }
}

/// A single value is needed.
pub(super) fn not_single(node: &Node) -> &'static str {
    match &node.kind {
        NodeKind::List(_) => "is a list; write a single value",
        NodeKind::Section(_) => "is a section; write a single value",
        NodeKind::Empty => "is empty; write a value, or remove the line",
        NodeKind::Text { .. } => "does not fit here",
    }
}

/// A whole number from `least` to `most` is needed.
pub(super) fn not_number(text: &str, quoted: bool, least: i128, most: i128) -> String {
    let number: Result<i128, _> = text.parse();
    match number {
        Ok(n) if n < least && least == 0 => format!("`{text}` is below 0; use 0 or more"),
        Ok(n) if n < least => format!("`{text}` is too small; use at least {least}"),
        Ok(n) if n > most => format!("`{text}` is too large; use at most {most}"),
        Ok(_) if quoted => {
            format!("`{text}` is in quotes, which make it a text; remove the quotes")
        }
        _ => format!("`{text}` is not a whole number; write digits only, as in 100"),
    }
}

/// Whether a text looks like the address of a server and contains no password.
fn is_address(text: &str) -> bool {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let port = rest.split('/').next().and_then(|host| host.rsplit_once(':'));
    let has_port = port.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    (has_port || text.starts_with("http")) && !text.contains(['@', ' '])
}
