//! The negative results of calls.

use meridian_gate::GateError;

/// The gate was closed, or never opened.
pub const MERIDIAN_UNKNOWN_GATE: i32 = -1;
/// An argument is a null pointer, not UTF-8, not the JSON that is expected, or out of range.
pub const MERIDIAN_BAD_ARGUMENT: i32 = -2;
/// The gate refuses the input.
pub const MERIDIAN_REFUSED: i32 = -3;
/// The transfer, batch or request is not there: it has ended.
pub const MERIDIAN_UNKNOWN: i32 = -4;
/// Too many transfers are under way.
pub const MERIDIAN_FULL: i32 = -5;
/// The gate has failed, and transfers go on without it.
pub const MERIDIAN_FAILED: i32 = -6;

/// What a code means, NUL-terminated.
pub(crate) fn text(code: i64) -> &'static [u8] {
    match i32::try_from(code) {
        Ok(MERIDIAN_UNKNOWN_GATE) => b"the gate was closed, or never opened\0",
        Ok(MERIDIAN_BAD_ARGUMENT) => b"an argument is not valid\0",
        Ok(MERIDIAN_REFUSED) => b"the gate refuses the input\0",
        Ok(MERIDIAN_UNKNOWN) => b"the transfer, batch or request has ended, or never was\0",
        Ok(MERIDIAN_FULL) => b"too many transfers are under way\0",
        Ok(MERIDIAN_FAILED) => b"the gate has failed; send without a permit\0",
        _ if code >= 0 => b"no error\0",
        _ => b"unknown error\0",
    }
}

/// A failed call: its code, and a message where the caller has a buffer for one.
pub(crate) struct Failure {
    pub(crate) code: i32,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn bad(message: impl Into<String>) -> Failure {
        Failure { code: MERIDIAN_BAD_ARGUMENT, message: message.into() }
    }
}

impl From<GateError> for Failure {
    fn from(error: GateError) -> Failure {
        let code = match &error {
            GateError::UnknownBatch(_)
            | GateError::UnknownRequest(_)
            | GateError::UnknownTransfer => MERIDIAN_UNKNOWN,
            GateError::Full(_) => MERIDIAN_FULL,
            GateError::Failed => MERIDIAN_FAILED,
            GateError::Refused(_)
            | GateError::AllPermitted
            | GateError::Batch(_)
            | GateError::Ports(..)
            | GateError::BatchTwice(_) => MERIDIAN_REFUSED,
        };
        Failure { code, message: error.to_string() }
    }
}
