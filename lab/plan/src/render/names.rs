//! Where an engine finds a model's weights: its id on Hugging Face.
//!
//! A short name stands for the instruction-tuned weights where a model has several, because only
//! those have a chat template. The ids are those that their publishers use there. The planner
//! calculates in the number format of the `Subject`; whether the weights have it is not checked
//! here.

use crate::model::Subject;
use crate::problem::Problems;

/// Short names with their ids. OPT-175B has no public weights there.
const IDS: [(&str, &str); 19] = [
    ("llama-3.1-8b", "meta-llama/Llama-3.1-8B-Instruct"),
    ("mistral-7b", "mistralai/Mistral-7B-Instruct-v0.3"),
    ("qwen2.5-7b", "Qwen/Qwen2.5-7B-Instruct"),
    ("qwen2.5-14b", "Qwen/Qwen2.5-14B-Instruct"),
    ("qwen3-32b", "Qwen/Qwen3-32B"),
    ("llama-3.1-70b", "meta-llama/Llama-3.1-70B-Instruct"),
    ("qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B-Instruct-2507"),
    ("qwen3-235b-a22b", "Qwen/Qwen3-235B-A22B"),
    ("gpt-oss-120b", "openai/gpt-oss-120b"),
    ("minimax-m2.5", "MiniMaxAI/MiniMax-M2.5"),
    ("deepseek-v3", "deepseek-ai/DeepSeek-V3"),
    ("kimi-k2.5", "moonshotai/Kimi-K2.5"),
    ("mixtral-8x7b", "mistralai/Mixtral-8x7B-Instruct-v0.1"),
    ("mixtral-8x22b", "mistralai/Mixtral-8x22B-Instruct-v0.1"),
    ("dbrx", "databricks/dbrx-instruct"),
    ("grok-2", "xai-org/grok-2"),
    ("qwen3-coder-480b", "Qwen/Qwen3-Coder-480B-A35B-Instruct"),
    ("llama-3-8b-1m", "gradientai/Llama-3-8B-Instruct-Gradient-1048k"),
    ("opt-66b", "facebook/opt-66b"),
];

/// The id or path of the weights: `given`, or the id of the short name.
///
/// # Errors
///
/// If the name has no id, or the given one is no id and no path.
pub fn model_id(subject: &Subject, given: Option<&str>) -> Result<String, Problems> {
    let remedy = "use --model-id ORG/NAME, an id on Hugging Face, or a path on the servers";
    if let Some(id) = given {
        let starts =
            id.starts_with(|first: char| first.is_ascii_alphanumeric() || "/.".contains(first));
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@".contains(c);
        if starts && id.contains('/') && id.chars().all(plain) {
            return Ok(id.to_owned());
        }
        return Err(Problems::one("model-id", id, remedy));
    }
    let known = IDS.iter().find(|(name, _)| *name == subject.name);
    known.map(|(_, id)| (*id).to_owned()).ok_or_else(|| {
        Problems::one("model-id", format!("none is known for {}", subject.name), remedy)
    })
}

#[cfg(test)]
mod tests {
    use meridian_engine::MODELS;

    use super::*;

    // Every model of the engine model has an id of the form ORG/NAME.
    #[test]
    fn every_short_name_has_an_id() {
        for model in MODELS {
            let id = model_id(&Subject::named(model.name).unwrap(), None).unwrap();
            assert_eq!(id.split('/').count(), 2, "{id}");
            assert_eq!(model_id(&Subject::named(model.name).unwrap(), Some(&id)).unwrap(), id);
        }
    }

    // A given id has priority; a name without one is refused with the option to use.
    #[test]
    fn a_name_without_an_id_needs_the_option() {
        let subject = Subject::named("opt-175b").unwrap();
        assert_eq!(model_id(&subject, Some("/models/opt")).unwrap(), "/models/opt");
        expect_test::expect![
            "model-id: none is known for opt-175b; use --model-id ORG/NAME, an id on Hugging Face, or a path on the servers"
        ]
        .assert_eq(&model_id(&subject, None).unwrap_err().to_string());
        for odd in ["", "opt", "--port/1", "a/b c", "a/$(reboot)", "a/b'"] {
            let error = model_id(&subject, Some(odd)).unwrap_err().to_string();
            assert!(error.contains("--model-id"), "{error}");
        }
    }
}
