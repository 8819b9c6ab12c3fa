//! `/v1/models`: merges the lists of several replicas.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::raw::Object;
use super::splice::offset;

/// One model of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// The name that requests use.
    pub id: String,
    /// The longest context in tokens, if the engine reports it (vLLM, SGLang: `max_model_len`;
    /// llama.cpp: `meta.n_ctx`; others: `context_length` and the like). An adapter has that of its
    /// `parent`.
    pub max_model_len: Option<u64>,
    /// Whether it is a LoRA adapter of another one, its `parent`.
    pub is_adapter: bool,
}

/// An answer that is not a list of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a list of models: expected {{\"data\": [{{\"id\": ...}}]}} from /v1/models")]
pub struct BadModels;

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    // Of any type: a list with an odd length in it is still a list.
    max_model_len: Option<Value>,
    context_length: Option<Value>,
    context_window: Option<Value>,
    max_context_length: Option<Value>,
    meta: Option<Value>,
    parent: Option<String>,
}

/// An error answer. Older versions of vLLM have the members of `error` at the top.
#[derive(Deserialize)]
struct Failed {
    error: Option<FailedBy>,
    message: Option<String>,
}

#[derive(Default, Deserialize)]
struct FailedBy {
    message: Option<String>,
    param: Option<String>,
    code: Option<Value>,
}

#[derive(Serialize)]
struct Merged<'a> {
    object: &'static str,
    data: Vec<&'a RawValue>,
}

/// The models of one list, in its order.
///
/// # Errors
/// If `body` is not a list of models.
pub fn model_list(body: &[u8]) -> Result<Vec<Model>, BadModels> {
    let list: List<'_> = serde_json::from_slice(body).map_err(|_| BadModels)?;
    let entries = list.data.into_iter().map(|raw| entry(raw).ok_or(BadModels));
    let entries = entries.collect::<Result<Vec<_>, _>>()?;
    let lengths: BTreeMap<&str, u64> =
        entries.iter().filter_map(|e| Some((e.id.as_str(), e.context()?))).collect();
    let model = |entry: &Entry| {
        let parent = entry.parent.as_deref().unwrap_or_default();
        let max_model_len = entry.context().or_else(|| lengths.get(parent).copied());
        Model { id: entry.id.clone(), max_model_len, is_adapter: !parent.is_empty() }
    };
    Ok(entries.iter().map(model).collect())
}

/// The names of one list, in its order.
///
/// # Errors
/// If `body` is not a list of models.
pub fn model_ids(body: &[u8]) -> Result<Vec<String>, BadModels> {
    Ok(model_list(body)?.into_iter().map(|model| model.id).collect())
}

/// Whether the body of a 404 says that the engine does not serve the model of the request: vLLM's
/// `param` or, in older versions, its sentence; OpenAI's `code`.
#[must_use]
pub fn is_model_missing(body: &[u8]) -> bool {
    let Ok(Failed { error, message }) = serde_json::from_slice(body) else { return false };
    let error = error.unwrap_or_default();
    let says = |message: &Option<String>| {
        let said = message.as_deref().unwrap_or_default();
        said.starts_with("The model `") && said.ends_with("` does not exist.")
    };
    error.param.as_deref() == Some("model")
        || error.code.as_ref().and_then(|code| code.as_str()) == Some("model_not_found")
        || says(&error.message)
        || says(&message)
}

/// One list of all models, each as described by the list in which it has the longest context, or by the
/// first of those, including unknown members. Unreadable lists are left out.
///
/// Each of the `aliases`, a name and its model, is described as its model if that is listed. It
/// takes the place of a model of the same name.
#[must_use]
pub fn merge_models<'a>(
    bodies: &[&[u8]],
    aliases: impl Iterator<Item = (&'a str, &'a str)> + Clone,
) -> Bytes {
    let mut seen: BTreeMap<String, (usize, Option<u64>)> = BTreeMap::new();
    let mut data: Vec<(String, &RawValue)> = Vec::new();
    for body in bodies {
        let Ok(list) = serde_json::from_slice::<List<'_>>(body) else { continue };
        for raw in list.data {
            let Some(entry) = entry(raw) else { continue };
            let context = entry.context();
            match seen.get_mut(&entry.id) {
                None => {
                    seen.insert(entry.id.clone(), (data.len(), context));
                    data.push((entry.id, raw));
                }
                // An unknown length is less than any.
                Some((at, longest)) if context > *longest => {
                    *longest = context;
                    data[*at].1 = raw;
                }
                Some(_) => {}
            }
        }
    }
    let made: Vec<(&str, Box<RawValue>)> = aliases
        .filter_map(|(alias, target)| {
            let (_, raw) = data.iter().find(|(id, _)| id == target)?;
            Some((alias, renamed(raw, alias)?))
        })
        .collect();
    data.retain(|(id, _)| !made.iter().any(|(alias, _)| alias == id));
    let data = data.into_iter().map(|(_, raw)| raw).chain(made.iter().map(|(_, raw)| &**raw));
    let merged = Merged { object: "list", data: data.collect() };
    Bytes::from(serde_json::to_vec(&merged).expect("raw values always serialize"))
}

/// The entry of one model, exactly as in the list.
#[must_use]
pub fn find_model(list: &[u8], id: &str) -> Option<Bytes> {
    let list: List<'_> = serde_json::from_slice(list).ok()?;
    let raw = list.data.into_iter().find(|raw| entry(raw).is_some_and(|model| model.id == id))?;
    Some(Bytes::copy_from_slice(raw.get().as_bytes()))
}

/// An entry with another id, and every other byte the same.
fn renamed(raw: &RawValue, id: &str) -> Option<Box<RawValue>> {
    let json = raw.get();
    let value = Object::parse(&["id"], json).ok()?[0]?;
    let (start, id) = (offset(json, value), serde_json::to_string(id).ok()?);
    let rest = &json[start + value.get().len()..];
    RawValue::from_string([&json[..start], &id, rest].concat()).ok()
}

fn entry(raw: &RawValue) -> Option<Entry> {
    serde_json::from_str(raw.get()).ok()
}

impl Entry {
    /// The longest context that it names.
    fn context(&self) -> Option<u64> {
        let of_meta = self.meta.as_ref().and_then(|meta| meta.get("n_ctx"));
        let members = [&self.max_model_len, &self.context_length, &self.context_window];
        let named = members.into_iter().chain([&self.max_context_length]).flatten().chain(of_meta);
        named.filter_map(Value::as_u64).find(|tokens| *tokens > 0)
    }
}
