//! `kv_transfer_params` of a request: which leg it is, and for a decode leg where its blocks are.
//!
//! A decode leg with half of the params ends a vLLM process, so everything is checked here, and a
//! message names the field and the remedy. Fields that this engine does not use are ignored.

use crate::api::BadRequest;
use serde_json::{Map, Value};

/// The leg that a request's params ask for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Params {
    /// None: a whole request.
    Absent,
    /// Hold the blocks at the end.
    Prefill,
    /// Fetch the blocks.
    Decode(Remote),
}

/// The blocks of a prompt in another engine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Remote {
    pub(crate) engine_id: String,
    pub(crate) request_id: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) blocks: Vec<u32>,
    /// Prompt tokens that the other engine found in its cache, for the usage.
    pub(crate) cached_tokens: Option<u32>,
}

/// The remedy for each field that is missing or wrong.
const REMEDY: &str = "copy kv_transfer_params unchanged from the prefill's answer, or send null \
                      and the prompt is computed here";

impl Params {
    /// Reads the field's value.
    pub(crate) fn read(value: Option<&Value>) -> Result<Params, BadRequest> {
        let fields = match value {
            None | Some(Value::Null) => return Ok(Params::Absent),
            Some(Value::Object(fields)) => fields,
            Some(_) => return Err(format!("kv_transfer_params is not an object: {REMEDY}")),
        };
        match (flag(fields, "do_remote_prefill")?, flag(fields, "do_remote_decode")?) {
            (false, false) => Ok(Params::Absent),
            (false, true) => Ok(Params::Prefill),
            (true, false) => Ok(Params::Decode(Remote::read(fields)?)),
            (true, true) => Err("kv_transfer_params: do_remote_prefill and do_remote_decode are \
                                 both true: a request is one leg, so set one of them to false"
                .to_owned()),
        }
    }

    /// Checks the decode leg of a prompt of `needed` blocks.
    pub(crate) fn check_blocks(&self, needed: u32) -> Result<(), BadRequest> {
        match self {
            Params::Decode(remote) if remote.blocks.len() < needed as usize => Err(format!(
                "kv_transfer_params.remote_block_ids has {} blocks and the prompt needs {needed}: \
                 {REMEDY}",
                remote.blocks.len()
            )),
            _ => Ok(()),
        }
    }
}

impl Remote {
    fn read(fields: &Map<String, Value>) -> Result<Remote, BadRequest> {
        let mode = fields.get("transfer_mode").unwrap_or(&Value::Null);
        if !mode.is_null() && mode.as_str() != Some("pull") {
            return Err(
                "kv_transfer_params.transfer_mode is not \"pull\", the only mode here".to_owned()
            );
        }
        let port = fields.get("remote_port").and_then(Value::as_u64);
        let port = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
        let cached = fields.get("remote_prefill_cached_tokens").and_then(Value::as_u64);
        Ok(Remote {
            engine_id: text(fields, "remote_engine_id")?,
            request_id: text(fields, "remote_request_id")?,
            host: text(fields, "remote_host")?,
            port: port.ok_or_else(|| wrong(fields, "remote_port", "a port from 1 to 65535"))?,
            blocks: blocks(fields).ok_or_else(|| {
                wrong(fields, "remote_block_ids", "a list with one list of block ids")
            })?,
            cached_tokens: cached.and_then(|tokens| u32::try_from(tokens).ok()),
        })
    }
}

fn flag(fields: &Map<String, Value>, field: &str) -> Result<bool, BadRequest> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(wrong(fields, field, "true or false")),
    }
}

fn text(fields: &Map<String, Value>, field: &str) -> Result<String, BadRequest> {
    let text = fields.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or_else(|| wrong(fields, field, "a string"))
}

/// The ids of the only group of blocks. Older versions of vLLM send them without the outer list.
fn blocks(fields: &Map<String, Value>) -> Option<Vec<u32>> {
    let list = fields.get("remote_block_ids")?.as_array()?;
    let ids = match &list[..] {
        [Value::Array(ids)] => ids,
        _ => list,
    };
    let id = |id: &Value| u32::try_from(id.as_u64()?).ok();
    ids.iter().map(id).collect::<Option<Vec<u32>>>().filter(|ids| !ids.is_empty())
}

/// Names the field, and the kind of its value but not the value.
fn wrong(fields: &Map<String, Value>, field: &str, wanted: &str) -> BadRequest {
    let found = match fields.get(field) {
        None => "missing",
        Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "a boolean",
        Some(Value::Number(_)) => "a number that does not fit",
        Some(Value::String(_)) => "a string that does not fit",
        Some(Value::Array(_)) => "a list that does not fit",
        Some(Value::Object(_)) => "an object",
    };
    format!("kv_transfer_params.{field} is {found} and must be {wanted}: {REMEDY}")
}

#[cfg(test)]
mod tests;
