//! The body of `/v1/models` for servers without one.

use bytes::Bytes;

/// Lists `models` in OpenAI's form.
pub(crate) fn model_list(models: &[String]) -> Bytes {
    let data: Vec<_> =
        models.iter().map(|id| serde_json::json!({"id": id, "object": "model"})).collect();
    serde_json::json!({"object": "list", "data": data}).to_string().into()
}
