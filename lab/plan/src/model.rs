//! The model to plan for: its shape, by name or from a Hugging Face `config.json`.
//!
//! It supports dense models and mixtures of experts, with grouped-query or latent attention, like
//! the engine model. A feed-forward layer without a gate has two matrices where the engine model
//! counts three, and is treated as one of two thirds of its width. Windowed attention other than
//! gpt-oss's counts in full, which overestimates KV reads.
//!
//! It refuses models for which the engine model has no step time: linear or sparse attention,
//! latent attention of other ranks than DeepSeek's, 4-bit weights outside of experts.

use meridian_engine::{Experts, MODELS, Model, Precision, WINDOW};
use serde_json::{Map, Value};

use crate::problem::{Problems, one_of};

/// A model with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// Its name, in plans and launch lines.
    pub name: String,
    /// Its shape.
    pub shape: Model,
}

/// Models from HeroServe's evaluation without a row in the engine model.
const CONFIGS: [(&str, &str); 2] = [
    ("opt-66b", include_str!("../models/opt-66b.json")),
    ("opt-175b", include_str!("../models/opt-175b.json")),
];

/// Architectures whose feed-forward layers have no gate.
const UNGATED: [&str; 4] = ["opt", "gpt_neox", "phi", "starcoder2"];

/// Models that encode but do not generate.
const ENCODERS: [&str; 7] =
    ["bert", "roberta", "xlm-roberta", "distilbert", "albert", "electra", "deberta-v2"];

/// The widest that any layer may be.
const WIDEST: u32 = 1 << 20;

impl Subject {
    /// The model of a short name.
    ///
    /// # Errors
    /// If the name is unknown; the error lists the known ones.
    pub fn named(name: &str) -> Result<Subject, Problems> {
        if let Some((_, config)) = CONFIGS.iter().find(|(known, _)| *known == name) {
            return Subject::from_config(name, config);
        }
        let shape = Model::named(name).ok_or_else(|| {
            let known = MODELS.iter().map(|model| model.name);
            let known: Vec<&str> = known.chain(CONFIGS.map(|(known, _)| known)).collect();
            Problems::one("model", name, format!("use {}; or a config.json", one_of(name, &known)))
        })?;
        Ok(Subject { name: name.to_owned(), shape })
    }

    /// The model of a `config.json`.
    ///
    /// # Errors
    ///
    /// All missing or unknown fields, at once.
    pub fn from_config(name: &str, json: &str) -> Result<Subject, Problems> {
        let value: Value = serde_json::from_str(json)
            .map_err(|error| Problems::one("config", error, "give the model's config.json"))?;
        // Multimodal models have the language model's fields one level down.
        let inner = value.get("text_config").unwrap_or(&value);
        let Some(fields) = inner.as_object() else {
            return Err(Problems::one("config", "no object", "give the model's config.json"));
        };
        let mut config = Config { fields, found: Problems(Vec::new()) };
        let shape = config.shape(&value);
        config.found.or(Subject { name: name.to_owned(), shape })
    }
}

struct Config<'a> {
    fields: &'a Map<String, Value>,
    found: Problems,
}

impl Config<'_> {
    fn shape(&mut self, whole: &Value) -> Model {
        let kind = self.text("model_type");
        let hidden = self.needed(&["hidden_size"], WIDEST);
        let heads = self.needed(&["num_attention_heads"], 4096);
        let layers = self.needed(&["num_hidden_layers"], 4096);
        let vocab = self.needed(&["vocab_size"], 1 << 24);
        let kv_heads = self.optional("num_key_value_heads").unwrap_or(heads);
        let whole_heads = heads == 0 || (kv_heads > 0 && heads.is_multiple_of(kv_heads));
        let remedy = format!("it must divide num_attention_heads, {heads}");
        self.found.unless(whole_heads, "num_key_value_heads", kv_heads, remedy);
        let head_dim = self.head_dim(hidden, heads);
        let experts = self.experts(layers);
        let dense = experts.is_none_or(|experts| experts.layers < layers);
        let widths = ["intermediate_size", "ffn_dim"];
        let mut intermediate = if dense { self.needed(&widths, WIDEST) } else { 0 };
        if UNGATED.contains(&kind.as_str()) {
            intermediate = intermediate * 2 / 3;
        }
        self.attention();
        let latent = self.latent();
        Model {
            name: "config.json",
            layers,
            hidden,
            heads,
            kv_heads,
            head_dim,
            intermediate,
            vocab,
            context: self.within("max_position_embeddings", 1 << 30).unwrap_or(8192),
            experts,
            latent,
            windowed: self.windowed(),
            precision: self.precision(whole),
            kv_number: 2.0,
        }
    }

    fn head_dim(&mut self, hidden: u32, heads: u32) -> u32 {
        if let Some(head_dim) = self.within("head_dim", 4096) {
            return head_dim;
        }
        let whole = heads == 0 || hidden.is_multiple_of(heads);
        let nearest = hidden / heads.max(1) * heads;
        let remedy = format!(
            "it must be a multiple of num_attention_heads, {heads}, as {nearest} is; or give head_dim"
        );
        self.found.unless(whole, "hidden_size", hidden, remedy);
        hidden / heads.max(1)
    }

    fn experts(&mut self, layers: u32) -> Option<Experts> {
        let count = self.any(&["n_routed_experts", "num_experts", "num_local_experts"])?;
        if count < 2 {
            return None;
        }
        let active = self.any(&["num_experts_per_tok", "experts_per_token"]).unwrap_or(0);
        let remedy =
            format!("it says how many of the {count} experts a token uses; use 1 to {count}");
        self.found.unless((1..=count).contains(&active), "num_experts_per_tok", active, remedy);
        let width = self.needed(&["moe_intermediate_size", "intermediate_size"], WIDEST);
        let shared = match self.optional("shared_expert_intermediate_size") {
            Some(shared) => shared,
            None => width * self.optional("n_shared_experts").unwrap_or(0),
        };
        let dense = self.optional("first_k_dense_replace").unwrap_or(0);
        let listed = self.fields.get("mlp_only_layers").and_then(Value::as_array);
        let dense = listed.map_or(dense, |list| list.len() as u32).min(layers);
        let step = self.optional("decoder_sparse_step").unwrap_or(1).max(1);
        let sparse = (layers - dense) / step;
        let remedy = format!(
            "none of the {layers} layers has experts then, {dense} being dense; use less, or leave it out"
        );
        self.found.unless(sparse > 0 || layers == 0, "decoder_sparse_step", step, remedy);
        let layers = sparse;
        Some(Experts { layers, count, active, intermediate: width, shared })
    }

    /// Refuses attention that has no step time here.
    fn attention(&mut self) {
        let encoder = ENCODERS.contains(&self.text("model_type").as_str());
        let pair = self.fields.get("is_encoder_decoder").and_then(Value::as_bool) == Some(true);
        let remedy = "it writes no replies of its own; use a model with a decoder alone";
        self.found.unless(!encoder && !pair, "model_type", self.text("model_type"), remedy);
        let listed =
            self.fields.get("layer_types").is_none_or(|one| one.is_array() || one.is_null());
        let remedy = "give a list with one kind for each layer, or leave it out";
        self.found.unless(listed, "layer_types", "no list", remedy);
        let kinds = self.fields.get("layer_types").and_then(Value::as_array);
        let known = ["full_attention", "sliding_attention"];
        let strange = kinds.into_iter().flatten().filter_map(Value::as_str);
        let strange = strange.into_iter().find(|kind| !known.contains(kind));
        let remedy = "there is no step time for it; use a model with full or sliding attention";
        self.found.unless(strange.is_none(), "layer_types", strange.unwrap_or(""), remedy);
        let sparse = self.optional("index_topk");
        self.found.unless(sparse.is_none(), "index_topk", sparse.unwrap_or(0), remedy);
    }

    fn latent(&mut self) -> bool {
        let Some(rank) = self.optional("kv_lora_rank") else { return false };
        let wanted = [("kv_lora_rank", 512), ("qk_rope_head_dim", 64), ("qk_nope_head_dim", 128)];
        for (field, known) in wanted {
            let value = self.optional(field).unwrap_or(0);
            let remedy = format!("latent attention is known with DeepSeek-V3's ranks; use {known}");
            self.found.unless(value == known, field, value, remedy);
        }
        rank > 0
    }

    fn windowed(&self) -> u32 {
        let window = self.fields.get("sliding_window").and_then(Value::as_u64);
        let kinds = self.fields.get("layer_types").and_then(Value::as_array);
        let sliding = |kind: &&Value| kind.as_str() == Some("sliding_attention");
        match (window, kinds) {
            (Some(window), Some(kinds)) if window == u64::from(WINDOW) => {
                kinds.iter().filter(sliding).count() as u32
            }
            _ => 0,
        }
    }

    fn precision(&mut self, whole: &Value) -> Precision {
        let quantization =
            self.fields.get("quantization_config").or_else(|| whole.get("quantization_config"));
        let Some(quantization) = quantization.filter(|one| !one.is_null()) else {
            return Precision::Bf16;
        };
        match quantization.get("quant_method").and_then(Value::as_str) {
            Some("fp8") => Precision::Fp8,
            Some("mxfp4") => Precision::Int4Experts,
            other => {
                let remedy = "there is no step time for it; use weights in bf16, fp8 or mxfp4";
                let method = other.unwrap_or("none");
                self.found.unless(false, "quantization_config.quant_method", method, remedy);
                Precision::Bf16
            }
        }
    }

    fn text(&self, field: &str) -> String {
        self.fields.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// A required count.
    fn needed(&mut self, names: &[&'static str], most: u32) -> u32 {
        let given = |name: &&&str| self.fields.get(**name).is_some_and(|value| !value.is_null());
        let Some(name) = names.iter().find(given) else {
            self.found.unless(false, names[0], "none", format!("give it, from 1 to {most}"));
            return 0;
        };
        self.within(name, most).unwrap_or(0)
    }

    /// An optional count, at least 1 if present.
    fn within(&mut self, field: &str, most: u32) -> Option<u32> {
        let value = self.optional(field)?;
        let fits = (1..=most).contains(&value);
        self.found.unless(fits, field, value, format!("use 1 to {most}"));
        Some(value)
    }

    fn any(&mut self, names: &[&str]) -> Option<u32> {
        names.iter().find_map(|name| self.optional(name))
    }

    /// An optional count; any other value is a problem.
    fn optional(&mut self, field: &str) -> Option<u32> {
        let value = self.fields.get(field).filter(|value| !value.is_null())?;
        let count = value.as_u64().and_then(|value| u32::try_from(value).ok());
        self.found.unless(count.is_some(), field, value, "use a whole number");
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(json: &str) -> String {
        Subject::from_config("m", json).unwrap_err().to_string()
    }

    // OPT has no gate and no grouped queries, and matches its published size.
    #[test]
    fn opt_has_its_size() {
        for (name, billions) in [("opt-66b", 65.7), ("opt-175b", 175.0)] {
            let ours = Subject::named(name).unwrap().shape.params() / 1e9;
            assert!((ours / billions - 1.0).abs() < 0.01, "{name}: {ours}");
        }
    }

    // A grouped-query config gives the engine model's own row for the same model.
    #[test]
    fn llama_is_the_engines_own() {
        let json = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama",
            "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
            "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256,
            "max_position_embeddings": 131072, "torch_dtype": "bfloat16"}"#;
        let read = Subject::from_config("llama", json).unwrap().shape;
        let row = Model::named("llama-3.1-70b").unwrap();
        assert_eq!(Model { name: row.name, ..read }, row);
    }

    // Latent attention, routed and shared experts, and fp8 are read from DeepSeek-V3's fields.
    #[test]
    fn deepseek_is_the_engines_own() {
        let json = r#"{"model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61,
            "num_attention_heads": 128, "num_key_value_heads": 128, "head_dim": 128,
            "intermediate_size": 18432, "vocab_size": 129280, "max_position_embeddings": 163840,
            "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
            "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "kv_lora_rank": 512,
            "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "q_lora_rank": 1536,
            "quantization_config": {"quant_method": "fp8"}}"#;
        let read = Subject::from_config("deepseek", json).unwrap().shape;
        let row = Model::named("deepseek-v3").unwrap().with_precision(Precision::Fp8);
        assert_eq!(Model { name: row.name, ..read }, row);
    }

    // For invalid configs the field, the value and the remedy are reported, all at once and each
    // once.
    #[test]
    fn odd_configs_are_refused() {
        let text = errors(
            r#"{"hidden_size": 4096, "num_hidden_layers": 0, "num_attention_heads": 32,
            "num_key_value_heads": 5, "vocab_size": "many", "intermediate_size": 1,
            "layer_types": ["linear_attention"], "num_experts": 8,
            "quantization_config": {"quant_method": "awq"}}"#,
        );
        expect_test::expect![[r#"
            num_hidden_layers: 0; use 1 to 4096
            vocab_size: "many"; use a whole number
            num_key_value_heads: 5; it must divide num_attention_heads, 32
            num_experts_per_tok: 0; it says how many of the 8 experts a token uses; use 1 to 8
            layer_types: linear_attention; there is no step time for it; use a model with full or sliding attention
            quantization_config.quant_method: awq; there is no step time for it; use weights in bf16, fp8 or mxfp4"#]]
        .assert_eq(&text);
        assert!(errors("[]").starts_with("config: no object;"));
        assert!(errors("{").contains("config.json"));
        assert!(Subject::named("gpt-5").unwrap_err().to_string().contains("opt-66b"));
    }

    // A missing field is reported once, without consequential errors.
    #[test]
    fn an_empty_config_says_what_is_missing() {
        expect_test::expect![[r#"
            hidden_size: none; give it, from 1 to 1048576
            num_attention_heads: none; give it, from 1 to 4096
            num_hidden_layers: none; give it, from 1 to 4096
            vocab_size: none; give it, from 1 to 16777216
            intermediate_size: none; give it, from 1 to 1048576"#]]
        .assert_eq(&errors("{}"));
    }

    // Each invalid field in an otherwise valid config is found: widths that heads do not divide,
    // numbers below zero, experts in no layer, weights of unknown precision, models that do not
    // generate.
    #[test]
    fn one_odd_field_is_found() {
        let base = r#""hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
            "intermediate_size": 14336, "vocab_size": 128256"#;
        let with = |more: &str| errors(&format!("{{{base}, {more}}}"));
        for (more, said) in [
            (
                r#""hidden_size": 4100"#,
                "hidden_size: 4100; it must be a multiple of num_attention_heads, 32, as 4096 is; or give head_dim",
            ),
            (r#""num_hidden_layers": -32"#, "num_hidden_layers: -32; use a whole number"),
            (r#""head_dim": 0"#, "head_dim: 0; use 1 to 4096"),
            (
                r#""intermediate_size": 4000000000"#,
                "intermediate_size: 4000000000; use 1 to 1048576",
            ),
            (r#""max_position_embeddings": 0"#, "max_position_embeddings: 0; use 1 to 1073741824"),
            (
                r#""layer_types": "full""#,
                "layer_types: no list; give a list with one kind for each layer, or leave it out",
            ),
            (
                r#""quantization_config": {"bits": 4}"#,
                "quantization_config.quant_method: none; there is no step time for it; use weights in bf16, fp8 or mxfp4",
            ),
            (
                r#""model_type": "bert""#,
                "model_type: bert; it writes no replies of its own; use a model with a decoder alone",
            ),
            (
                r#""num_experts": 8, "num_experts_per_tok": 2, "decoder_sparse_step": 64"#,
                "decoder_sparse_step: 64; none of the 32 layers has experts then, 0 being dense; use less, or leave it out",
            ),
        ] {
            assert_eq!(with(more), said);
        }
        let near = Subject::named("meta-llama/Llama-3.1-8B").unwrap_err().to_string();
        assert!(near.contains("use llama-3.1-8b; known are"), "{near}");
    }
}
