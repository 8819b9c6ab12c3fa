//! The differences between a request and the nearest recorded one.
//!
//! They name members and sizes. A text is printed only in `model` and in the transfer parameters,
//! so no prompt is.

use serde_json::{Map, Value};

use crate::engine::Role;
use crate::exchange::{ALL, Exchange};

/// Members whose inner members are compared one by one.
const OPENED: [&str; 2] = ["kv_transfer_params", "stream_options"];

/// Headers that name an engine to another one. No recorded request has one.
const HEADERS: [&str; 5] = [
    "x-data-parallel-host-port",
    "x-data-parallel-rank",
    "x-encoder-hosts-ports",
    "x-kv-cache-source-host-port",
    "x-prefiller-host-port",
];

/// The headers of a request that no recording has.
pub(crate) fn headers(sent: &[String]) -> Option<String> {
    let found = HEADERS.iter().find(|known| sent.iter().any(|name| name == *known));
    found.map(|header| format!("header {header}: recorded nothing, got one"))
}

/// The differences from the recording that has the fewest. The parameters of decode legs are not
/// among them.
pub(crate) fn differences(role: Role, path: &str, body: &Value) -> String {
    let mut bare = body.clone();
    if let Some(members) = bare.as_object_mut() {
        members.remove("kv_transfer_params");
    }
    let from = |exchange: &Exchange| {
        let mut found = Vec::new();
        if exchange.role != role {
            found.push(format!("leg: recorded at a {} engine", exchange.role.name()));
        }
        if exchange.path != path {
            found.push(format!("path: recorded {}", exchange.path));
        }
        found.extend(members(
            "",
            &exchange.body,
            if exchange.role == Role::Prefill { body } else { &bare },
        ));
        (exchange.name, exchange.role, found)
    };
    let nearest = ALL.iter().map(from).min_by_key(|(_, _, found)| found.len());
    nearest.map_or_else(String::new, |(name, role, found)| {
        format!("nearest is the {} leg of `{name}`: {}", role.name(), found.join("; "))
    })
}

/// The differences between two objects.
pub(crate) fn members(within: &str, recorded: &Value, got: &Value) -> Vec<String> {
    let (Some(recorded), Some(got)) = (recorded.as_object(), got.as_object()) else {
        return vec![format!("{within}the body is not a JSON object")];
    };
    let none = Map::new();
    let mut found = Vec::new();
    for name in recorded.keys().chain(got.keys().filter(|name| !recorded.contains_key(*name))) {
        let (was, is) = (recorded.get(name), got.get(name));
        if was == is {
            continue;
        }
        let object = |value: Option<&Value>| value.is_none_or(Value::is_object);
        if within.is_empty() && OPENED.contains(&name.as_str()) && object(was) && object(is) {
            let inner =
                |value: Option<&Value>| value.cloned().unwrap_or_else(|| none.clone().into());
            found.extend(members(&format!("{name}."), &inner(was), &inner(is)));
        } else {
            let open = !within.is_empty() || name == "model";
            found.push(format!(
                "{within}{name}: recorded {}, got {}",
                shown(was, open),
                shown(is, open)
            ));
        }
    }
    found
}

/// A value, or its kind and size.
fn shown(value: Option<&Value>, open: bool) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(Value::String(text)) if !open => format!("a text of {} bytes", text.len()),
        Some(Value::Array(list)) if !open => format!("a list of {}", list.len()),
        Some(Value::Object(members)) if !open => format!("an object of {}", members.len()),
        Some(value) => value.to_string().chars().take(100).collect(),
    }
}
