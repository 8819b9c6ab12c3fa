//! The calls, on Rust's types.

use meridian_flow::Stage;
use meridian_gate::{Clock, Gate, Handle, NewBatch, NewFlow, Permit};
use meridian_messages::Settings;

use crate::codes::Failure;
use crate::gates;

pub(crate) fn open(settings: &str) -> Result<usize, Failure> {
    let settings: Settings = parse("settings", settings)?;
    let gate = Gate::open(&settings, Clock::default());
    let gate = gate.map_err(|error| Failure::bad(error.to_string()))?;
    Ok(gates::add(gate))
}

pub(crate) fn batch(gate: &Gate, batch: &str) -> Result<(), Failure> {
    let batch: NewBatch = parse("batch", batch)?;
    Ok(gate.batch(&batch)?)
}

pub(crate) fn submit(gate: &Gate, stage: u8, flow: NewFlow<'_>) -> Result<i64, Failure> {
    let stage = match stage {
        1 => Stage::Reuse,
        2 => Stage::Collective,
        3 => Stage::Handoff,
        other => {
            let message = format!("stage is {other}: use 1 (fetch), 2 (collective) or 3 (handoff)");
            return Err(Failure::bad(message));
        }
    };
    let handle = gate.submit(NewFlow { stage, ..flow })?;
    Ok(handle.number().cast_signed())
}

pub(crate) fn permit(gate: &Gate, transfer: i64, bytes: u32) -> Result<Permit, Failure> {
    Ok(gate.permit(handle(transfer)?, bytes)?)
}

/// The transfer of a number.
pub(crate) fn handle(transfer: i64) -> Result<Handle, Failure> {
    let number = u64::try_from(transfer);
    let number = number.map_err(|_| Failure::bad("the transfer's number is negative"))?;
    Ok(Handle::from_number(number))
}

pub(crate) fn status(gate: &Gate) -> Result<String, Failure> {
    serde_json::to_string(&gate.status()).map_err(|error| Failure::bad(error.to_string()))
}

/// Reads JSON. Its errors name the field.
fn parse<T: serde::de::DeserializeOwned>(what: &str, json: &str) -> Result<T, Failure> {
    serde_json::from_str(json).map_err(|error| Failure::bad(format!("{what}: {error}")))
}
