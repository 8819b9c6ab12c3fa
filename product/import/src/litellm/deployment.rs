//! `model_list`: one entry for each deployment of a model.

use serde_json::Value;

use super::super::draft::Draft;
use super::super::note::Found;
use super::{KEEP, Section, shown, variable, whole};

/// Providers of the OpenAI API at an address that the file sets.
const OPENAI: &[&str] = &[
    "openai",
    "hosted_vllm",
    "text-completion-openai",
    "custom_openai",
    "openai_like",
    "llamafile",
    "lm_studio",
    "litellm_proxy",
    "xinference",
    "huggingface",
    "ollama",
    "ollama_chat",
];

/// Keys that are read here or have no meaning for Meridian.
const NEEDLESS: &[&str] = &[
    "model",
    "api_base",
    "base_url",
    "weight",
    "max_parallel_requests",
    "rpm",
    "tpm",
    "timeout",
    "stream_timeout",
    "max_retries",
    "api_key",
    "drop_params",
    "input_cost_per_token",
    "output_cost_per_token",
    "input_cost_per_second",
    "custom_llm_provider",
    "organization",
    "tags",
    "order",
];

/// Reads all deployments.
pub(super) fn read(models: &[Value], draft: &mut Draft) {
    for (i, entry) in models.iter().enumerate() {
        let empty = Section::new();
        let params = entry.get("litellm_params").and_then(Value::as_object).unwrap_or(&empty);
        let name = entry.get("model_name").map(shown).unwrap_or_default();
        one(&format!("model_list[{i}]"), &name, params, draft);
    }
}

fn one(place: &str, name: &str, params: &Section, draft: &mut Draft) {
    let model = params.get("model").map(shown).unwrap_or_default();
    let (provider, served) = model.split_once('/').unwrap_or(("", model.as_str()));
    let base = params.get("api_base").or_else(|| params.get("base_url")).map(shown);
    let found = Found::new("model", &model, place);
    let Some(base) = base.filter(|base| !base.is_empty() && OPENAI.contains(&provider)) else {
        let why = "it is served by a cloud or by LiteLLM itself";
        return draft.note(&found, why, KEEP);
    };
    let base = match variable(&base) {
        None => base,
        Some(variable) => match std::env::var(variable) {
            Ok(base) => base,
            Err(_) => {
                let found = Found::new("api_base", &base, place);
                let why = format!("the environment variable {variable} is not set here");
                return draft.note(&found, why, "set it and import again");
            }
        },
    };
    let from = Found::new("model", &format!("{name} at {}", cleaned(&base)), place);
    let weight = params.get("weight").and_then(whole).filter(|n| *n > 0);
    let weight = weight.and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
    // Ollama has the OpenAI API under /v1, and no load page that the gateway can read.
    let engine = provider.starts_with("ollama").then_some("none");
    if !draft.replica_of(&base, weight, engine, &from) {
        return;
    }
    if name.contains('*') || served.contains('*') {
        draft.needless("model_name *");
    } else if name != served {
        let found = Found::new("model_name", name, place);
        let why = format!("the engine calls the model {served}");
        let remedy =
            format!("write models.{name}.alias: {served}, or let clients ask for {served}");
        draft.note(&found, why, remedy);
    }
    limits(place, params, draft);
    key(place, params, draft);
}

/// An address for a comment, without a user name.
fn cleaned(base: &str) -> &str {
    if base.contains('@') { "its api_base" } else { base }
}

fn limits(place: &str, params: &Section, draft: &mut Draft) {
    for (name, value) in params {
        let found = Found::new(name, &shown(value), place);
        match name.as_str() {
            "max_parallel_requests" => {
                draft.count("admission.outstanding", whole(value), u64::from(u32::MAX), &found);
            }
            "rpm" | "tpm" => {
                let what = if name == "rpm" { "requests" } else { "tokens" };
                let why = "limits count for a client, and a replica is filled by its own load";
                let remedy = format!("set tenants[].limits.{what}_per_minute");
                draft.note(&found, why, remedy);
            }
            "timeout" | "stream_timeout" | "max_retries" => {
                let why = "times and attempts are the same for all replicas";
                draft.note(&found, why, "set timeouts.first_byte and attempts");
            }
            known if NEEDLESS.contains(&known) => {}
            _ => {
                let found = Found::hidden(&format!("litellm_params.{name}"), place);
                draft.note(&found, "the import does not know it", KEEP);
            }
        }
    }
}

/// Placeholders for no key; engines without a key ignore them.
const NO_KEYS: [&str; 10] = [
    "",
    "none",
    "empty",
    "dummy",
    "fake",
    "fake-key",
    "not-needed",
    "sk-no-key-required",
    "sk-none",
    "anything",
];

fn key(place: &str, params: &Section, draft: &mut Draft) {
    let Some(key) = params.get("api_key").map(shown) else { return };
    if NO_KEYS.contains(&key.to_ascii_lowercase().as_str()) {
        return;
    }
    let found = Found::hidden("api_key", place);
    let why = "the import prints no key";
    let remedy = "set engine_key if the engines check it, in `credentials` if only some do";
    draft.note(&found, why, remedy);
}
