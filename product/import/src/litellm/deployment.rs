//! `model_list`: one entry for each deployment of a model.

use serde_json::Value;

use super::super::act::{Act, Table};
use super::super::draft::Draft;
use super::super::note::Found;
use super::super::value;
use super::{KEEP, Section, UNKNOWN, shown, variable};

/// Providers of the OpenAI API at an address that the file sets.
const OPENAI: &str = "openai hosted_vllm text-completion-openai custom_openai openai_like \
llamafile lm_studio litellm_proxy xinference huggingface ollama ollama_chat";
/// Placeholders for no key; engines without a key ignore them.
const NO_KEYS: &str =
    "none empty dummy fake fake-key not-needed sk-no-key-required sk-none anything";

const TABLE: Table<fn(&str, &str, &mut Draft)> = Table {
    acts: &[
        ("max_parallel_requests", Act::Count("admission.outstanding", 0)),
        ("api_key", Act::Do(key)),
    ],
    notes: "\
rpm: limits count for a client, and a replica is filled by its own load; set tenants[].limits.requests_per_minute
tpm: limits count for a client, and a replica is filled by its own load; set tenants[].limits.tokens_per_minute
timeout stream_timeout max_retries: \
times and attempts are the same for all replicas; set timeouts.first_byte and attempts",
    hidden: "",
    guards: "",
    needless: "",
    elsewhere: "\
model api_base base_url weight drop_params input_cost_per_token output_cost_per_token \
input_cost_per_second custom_llm_provider organization tags order",
    unknown: UNKNOWN,
};

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
    let Some(base) = base.filter(|base| !base.is_empty() && listed(OPENAI, provider)) else {
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
    let weight = params.get("weight").and_then(|n| value::whole(&shown(n)));
    let weight = weight.and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
    // Ollama has the OpenAI API under /v1, and no load page that the gateway can read.
    let engine = provider.starts_with("ollama").then_some("none");
    if !draft.replica(&base, weight, engine, &from) {
        return;
    }
    if name.contains('*') || served.contains('*') {
        draft.needless("model_name *");
        draft.models.serves_any();
    } else {
        draft.models.serves(name, served, &Found::new("model_name", name, place));
    }
    for (name, value) in params {
        let value = shown(value);
        TABLE
            .apply((name, &value, place), draft, |convert, _, draft| convert(&value, place, draft));
    }
}

/// An address for a comment, without a user name.
fn cleaned(base: &str) -> &str {
    if base.contains('@') { "its api_base" } else { base }
}

fn key(key: &str, place: &str, draft: &mut Draft) {
    if !key.is_empty() && !listed(NO_KEYS, &key.to_ascii_lowercase()) {
        let remedy = "set engine_key if the engines check it, in `credentials` if only some do";
        draft.note(&Found::hidden("api_key", place), "the import prints no key", remedy);
    }
}

fn listed(names: &str, name: &str) -> bool {
    names.split(' ').any(|known| known == name)
}
