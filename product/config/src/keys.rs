//! Every key of a gateway's file, from its schema: for the documentation and for tests.

use serde_json::Value;

use super::{AT_START, Gateway};

/// One key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its path: `limits.body` for a key of a section. A list is one key.
    pub path: String,
    /// Its meaning.
    pub about: String,
    /// Its default, as YAML in one line; none if it has none.
    pub default: Option<String>,
    /// Why a change needs a restart; none if it reloads.
    pub at_start: Option<&'static str>,
}

/// All keys of a gateway's file, in the order of their names.
#[must_use]
pub fn keys() -> Vec<Key> {
    let mut found = Vec::new();
    let schema = Gateway::schema();
    section(&schema, &schema, None, "", &mut found);
    assert!(!found.is_empty(), "the schema has the keys of a configuration");
    found
}

/// Adds the keys of a section whose default is `of`.
fn section(schema: &Value, section: &Value, of: Option<&Value>, at: &str, found: &mut Vec<Key>) {
    for (name, field) in section["properties"].as_object().into_iter().flatten() {
        let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        let default = of.map(|of| &of[name]).or(field.get("default")).filter(|v| !v.is_null());
        match inner(schema, field) {
            Some(inner) => self::section(schema, inner, default, &path, found),
            None => found.push(Key {
                about: field["description"].as_str().unwrap_or_default().replace('\n', " "),
                default: default.map(yaml),
                at_start: at_start(&path),
                path,
            }),
        }
    }
}

/// The section that a field is, or may be; none for a value.
fn inner<'a>(schema: &'a Value, field: &'a Value) -> Option<&'a Value> {
    let either =
        field["anyOf"].as_array().and_then(|forms| forms.iter().find(|f| f.get("$ref").is_some()));
    let name = either.unwrap_or(field)["$ref"].as_str()?.strip_prefix("#/$defs/")?;
    let inner = &schema["$defs"][name];
    assert!(!inner.is_null(), "the schema defines what it refers to");
    (inner["type"] == "object" && inner["properties"].is_object()).then_some(inner)
}

fn at_start(path: &str) -> Option<&'static str> {
    let is_under = |root: &str| {
        path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    AT_START.iter().find(|(root, _)| is_under(root)).map(|(_, reason)| *reason)
}

/// A default as a person would write it.
fn yaml(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(yaml).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Sections are flattened, lists are not, and a key of an optional section has its own default.
    #[test]
    fn paths_and_defaults() {
        let keys = keys();
        let find = |path: &str| {
            keys.iter().find(|key| key.path == path).unwrap_or_else(|| panic!("{path}: {keys:#?}"))
        };
        assert_eq!(find("limits.body").default.as_deref(), Some("32MiB"));
        assert_eq!(find("keys.tenant_header").default.as_deref(), Some("x-tenant-id"));
        assert_eq!(find("peers.tau").at_start, None);
        assert!(
            find("peers.gateways").at_start.is_some() && find("control.url").at_start.is_some()
        );
        assert_eq!(
            (find("replicas").at_start, find("listen").default.as_deref()),
            (None, Some("127.0.0.1:8080"))
        );
        assert!(keys.iter().all(|key| !key.about.is_empty()), "{keys:#?}");
        assert!(keys.is_sorted_by(|a, b| a.path.split('.').next() <= b.path.split('.').next()));
    }
}
