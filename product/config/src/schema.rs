//! JSON schemas of the configuration files, for editors and for checks in CI.
//!
//! Structs derive theirs. This file has the values that are written in a form of their own. A schema
//! knows forms and names; `meridian check` knows the rest, such as contradictions between sections.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::{
    Control, ControlUrls, Gateway, MOST_CONTROL_PLANES, Secret, TokenAlgorithm, Topology, policies,
    topology,
};
use meridian_protocol::admin::AddReplica;
use meridian_protocol::policy::Scalar;

impl Gateway {
    /// The JSON schema of a gateway's file.
    #[must_use]
    pub fn schema() -> Value {
        schemars::schema_for!(Gateway).into()
    }
}

impl Control {
    /// The JSON schema of a control plane's file.
    #[must_use]
    pub fn schema() -> Value {
        schemars::schema_for!(Control).into()
    }
}

/// The JSON schema of a file with a list of replicas.
#[must_use]
pub fn replica_list_schema() -> Value {
    schemars::schema_for!(Vec<AddReplica>).into()
}

/// A type whose values are written in a form of their own.
macro_rules! form {
    ($type:ty, $name:literal, |$generator:ident| $schema:expr) => {
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

form!(ControlUrls, "ControlUrls", |_generator| json_schema!({
    "description": "An address, or a list of addresses",
    "oneOf": [
        {"type": "string"},
        {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": MOST_CONTROL_PLANES,
            "uniqueItems": true,
        },
    ],
}));
form!(Secret, "Secret", |_generator| json_schema!({
    "description": "A text, `${NAME}` for an environment variable, or a file with the secret alone",
    "oneOf": [
        {"type": "string", "minLength": 1},
        {
            "type": "object",
            "properties": {"file": {"type": "string", "minLength": 1}},
            "required": ["file"],
            "additionalProperties": false,
        },
    ],
}));
form!(TokenAlgorithm, "TokenAlgorithm", |_generator| {
    json_schema!({"enum": TokenAlgorithm::ALL.map(|algorithm| algorithm.to_string())})
});
form!(Topology, "Topology", |_generator| {
    let bound = serde_json::json!({"type": "number", "minimum": 0, "maximum": 1});
    json_schema!({
        "description": "A name, or a name with the utilisation above which requests are forwarded",
        "oneOf": [
            {"enum": topology::NAMES},
            {
                "type": "object",
                "properties": {"waterfall": bound, "continent": bound},
                "additionalProperties": false,
                "minProperties": 1,
                "maxProperties": 1,
            },
        ],
    })
});
/// The form of a policy: the known names, with the parameters of each.
pub(crate) struct PolicyForm;

form!(PolicyForm, "Policy", |generator| {
    let bare: Vec<&str> = policies::all().iter().map(|spec| spec.name).collect();
    let value = generator.subschema_for::<Scalar>();
    let with = policies::all().iter().map(|spec| {
        let params = spec.params.iter().map(|param| (param.name.to_owned(), value.clone().into()));
        let mut properties: serde_json::Map<String, Value> = params.collect();
        properties.insert("name".to_owned(), serde_json::json!({"const": spec.name}));
        serde_json::json!({
            "type": "object",
            "properties": properties,
            "required": ["name"],
            "additionalProperties": false,
        })
    });
    let mut forms = vec![serde_json::json!({"enum": bare})];
    forms.extend(with);
    json_schema!({"description": "A policy's name, or `name` and parameters", "oneOf": forms})
});

#[cfg(test)]
mod tests {
    use meridian_protocol::admin::{EngineName, RoleName};

    use super::*;

    // Each field of the printed default configuration is in the schema, with its description; an
    // unknown field is not.
    #[test]
    fn fields() {
        let schema = Gateway::schema();
        let properties = schema["properties"].as_object().unwrap();
        let printed = Gateway::read("version: 1").unwrap().print().unwrap();
        let fields: Vec<&str> = printed
            .lines()
            .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
            .filter_map(|line| line.split_once(':').map(|(name, _)| name))
            .collect();
        assert!(fields.len() > 15, "{printed}");
        for field in fields {
            let there = properties.get(field).unwrap_or_else(|| panic!("{field} is missing"));
            assert!(there["description"].is_string(), "{field} has no description");
        }
        assert_eq!(schema["additionalProperties"], false);
    }

    // Every policy, engine, role and topology that a file may name is in the schema.
    #[test]
    fn words() {
        let text = Gateway::schema().to_string();
        let policies = policies::all().iter().map(|spec| spec.name);
        let engines = EngineName::all().map(EngineName::name);
        let words = policies.chain(engines).chain(RoleName::all()).chain(topology::NAMES);
        for word in words {
            assert!(text.contains(&format!("\"{word}\"")), "{word}");
        }
        assert!(Control::schema()["properties"]["store"].is_object());
        assert_eq!(replica_list_schema()["type"], "array");
    }
}
