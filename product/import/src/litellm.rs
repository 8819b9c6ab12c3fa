//! LiteLLM: deployments with a self-hosted `api_base` become replicas.
//!
//! Models of a cloud stay with LiteLLM, which then runs in front of Meridian (docs/migration.md).
//! The YAML is read without a schema, because LiteLLM's has hundreds of keys, and it changes. A key
//! that is not in the tables becomes a note without its value.

mod deployment;
mod settings;

use anyhow::{Context as _, ensure};
use serde_json::{Map, Value};

use super::draft::Draft;
use super::note::Found;
use super::source::Source;

type Section = Map<String, Value>;

/// If several sections have the same setting, the router's counts, as in LiteLLM.
const SECTIONS: [&str; 3] = ["router_settings", "litellm_settings", "general_settings"];

/// Reads LiteLLM's config.yaml.
pub(super) fn read(source: &Source, draft: &mut Draft) -> anyhow::Result<()> {
    let config = super::source::yaml(&source.text)?;
    let Value::Object(config) = config else {
        anyhow::bail!("it is not a map; name the file that `litellm --config` reads");
    };
    let models = config.get("model_list").and_then(Value::as_array);
    let models =
        models.context("model_list is missing; name the file that `litellm --config` reads")?;
    ensure!(!models.is_empty(), "model_list is empty; list at least one model with an api_base");
    let default = Found::new("litellm", "port 4000, its default", "");
    draft.listen(([0, 0, 0, 0], 4000).into(), &default);
    deployment::read(models, draft);
    for name in SECTIONS {
        if let Some(section) = config.get(name).and_then(Value::as_object) {
            settings::read(name, section, draft);
        }
    }
    for name in config.keys() {
        match name.as_str() {
            "model_list" => {}
            name if SECTIONS.contains(&name) => {}
            "environment_variables" => draft.needless(name),
            "include" => {
                let found = Found::hidden(name, "");
                let remedy = "put its contents into this file and import again";
                draft.note(&found, "other files are not read", remedy);
            }
            _ => {
                let found = Found::hidden(name, "");
                draft.note(&found, UNKNOWN.0, UNKNOWN.1);
            }
        }
    }
    Ok(())
}

/// The remedy for everything that LiteLLM does better.
const KEEP: &str = "keep LiteLLM in front for it: docs/migration.md";
const UNKNOWN: (&str, &str) = ("the import does not know it", KEEP);

/// A reference to the environment, as in `os.environ/NAME`.
fn variable(text: &str) -> Option<&str> {
    text.strip_prefix("os.environ/")
}

/// A scalar as text.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        _ => String::new(),
    }
}
