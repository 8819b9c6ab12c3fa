//! The functions of the ABI.
//!
//! Every function may be called by any thread, with any numbers, at any time.

use std::ffi::{c_char, c_void};
use std::ptr::without_provenance_mut;

use meridian_flow::Stage;
use meridian_gate::NewFlow;

use crate::codes::Failure;
use crate::{calls, codes, gates, memory};

/// The version of this ABI. It changes when a caller would have to.
pub const MERIDIAN_FLOW_ABI: u32 = 1;

/// A gate. The pointer is a number that is looked up, and points to nothing.
pub struct MeridianGate(());

/// The version of this ABI.
#[unsafe(no_mangle)]
pub extern "C" fn meridian_flow_abi() -> u32 {
    MERIDIAN_FLOW_ABI
}

/// What a negative result means. The text is static.
#[unsafe(no_mangle)]
pub extern "C" fn meridian_flow_error(code: i64) -> *const c_char {
    codes::text(code).as_ptr().cast()
}

/// Opens a gate. `settings` is JSON: {"policy": "mfs", "node": "prefill-a", "ports": [{"name":
/// "eth0/out", "gbps": 25}], "chunk": 262144, "window": 524288, "hold_ms": 5, "coordinator":
/// "10.0.0.1:7400"}; only `ports` is required. NULL if they are not valid, with a message in `error`.
///
/// # Safety
/// `settings` is a NUL-terminated string; `error` is null or has `error_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn meridian_gate_open(
    settings: *const c_char,
    error: *mut c_char,
    error_size: usize,
) -> *mut MeridianGate {
    // SAFETY: the caller's promise.
    let opened = gates::guard(|| calls::open(unsafe { memory::string(settings) }?));
    // SAFETY: the caller's promise.
    let opened = unsafe { reported(opened, error, error_size) };
    without_provenance_mut(opened.unwrap_or(0))
}

/// Closes a gate. Later calls with it return MERIDIAN_UNKNOWN_GATE.
#[unsafe(no_mangle)]
pub extern "C" fn meridian_gate_close(gate: *mut MeridianGate) {
    let _ = gates::guard(|| {
        gates::remove(number(gate));
        Ok(())
    });
}

/// A batch starts to compute. `batch` is JSON: {"batch": 7, "layers": 32, "layer_us": 900,
/// "collectives": [{"port": "eth0/out", "bytes": 1000}], "requests": [{"request": 12345,
/// "ttft_left_ms": 812.5, "slo_ms": 2000, "decode_ms": 12, "plan": [{"port": "eth0/out", "reuse": 0,
/// "handoff": 1048576}]}]}. Without `ttft_left_ms` a request is best effort. 0, or a negative code
/// with a message in `error`.
///
/// # Safety
/// `batch` is a NUL-terminated string; `error` is null or has `error_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn meridian_gate_batch(
    gate: *mut MeridianGate,
    batch: *const c_char,
    error: *mut c_char,
    error_size: usize,
) -> i32 {
    // SAFETY: the caller's promise.
    let done =
        gates::at(number(gate), |gate| calls::batch(gate, unsafe { memory::string(batch) }?));
    // SAFETY: the caller's promise.
    code(unsafe { reported(done, error, error_size) })
}

/// A batch reaches a layer, from 0. A new chunk of a prompt is a new generation.
#[unsafe(no_mangle)]
pub extern "C" fn meridian_gate_layer(
    gate: *mut MeridianGate,
    batch: u64,
    generation: u32,
    layer: u16,
) -> i32 {
    code(gates::at(number(gate), |gate| Ok(gate.layer(batch, generation, layer)?)))
}

/// A batch has computed all of its layers, or is abandoned.
#[unsafe(no_mangle)]
pub extern "C" fn meridian_gate_departed(gate: *mut MeridianGate, batch: u64) -> i32 {
    code(gates::at(number(gate), |gate| Ok(gate.departed(batch)?)))
}

/// A request has ended, with all of its transfers.
#[unsafe(no_mangle)]
pub extern "C" fn meridian_gate_ended(gate: *mut MeridianGate, request: u64) -> i32 {
    code(gates::at(number(gate), |gate| Ok(gate.ended(request)?)))
}

/// A transfer is ready to be sent. `stage` is 1 (cached KV is fetched), 2 (a collective) or 3 (KV goes
/// to decode); `owner` its request, for a collective its batch; `ports` indices into the settings'
/// ports, the one that is gated first. Returns the transfer, or a negative code.
///
/// # Safety
/// `ports` points to `ports_len` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn meridian_gate_submit(
    gate: *mut MeridianGate,
    stage: u8,
    owner: u64,
    layer: u16,
    bytes: u64,
    ports: *const u32,
    ports_len: usize,
) -> i64 {
    let transfer = gates::at(number(gate), |gate| {
        // SAFETY: the caller's promise.
        let ports = unsafe { memory::list(ports, ports_len) }?;
        let flow = NewFlow { stage: Stage::Handoff, owner, layer, bytes, ports };
        calls::submit(gate, stage, flow)
    });
    transfer.unwrap_or_else(|failure| failure.code.into())
}

/// Blocks until the transfer may send its next chunk. Returns the bytes that it may send, at most
/// `bytes` and at most a chunk, or a negative code: send without a permit then. `traffic_class` gets
/// the class to send with, 0 first; it may be NULL.
///
/// # Safety
/// `traffic_class` is null or points to a byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn meridian_gate_permit(
    gate: *mut MeridianGate,
    transfer: i64,
    bytes: u32,
    traffic_class: *mut u8,
) -> i64 {
    match gates::at(number(gate), |gate| calls::permit(gate, transfer, bytes)) {
        Ok(permit) => {
            // SAFETY: the caller's promise.
            unsafe { memory::store(traffic_class, permit.traffic) };
            permit.bytes.into()
        }
        Err(failure) => failure.code.into(),
    }
}

/// Bytes of a transfer have been sent. It ends with its last byte.
#[unsafe(no_mangle)]
pub extern "C" fn meridian_gate_completed(
    gate: *mut MeridianGate,
    transfer: i64,
    bytes: u64,
) -> i32 {
    let call = |gate: &meridian_gate::Gate| Ok(gate.completed(calls::handle(transfer)?, bytes)?);
    code(gates::at(number(gate), call))
}

/// The client gives a transfer up.
#[unsafe(no_mangle)]
pub extern "C" fn meridian_gate_withdrawn(gate: *mut MeridianGate, transfer: i64) -> i32 {
    code(gates::at(number(gate), |gate| Ok(gate.withdrawn(calls::handle(transfer)?)?)))
}

/// Writes the gate's counts as JSON. Returns the bytes that they need without the NUL, or a negative
/// code; what does not fit is cut.
///
/// # Safety
/// `json` is null or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn meridian_gate_status(
    gate: *mut MeridianGate,
    json: *mut c_char,
    size: usize,
) -> i64 {
    match gates::at(number(gate), calls::status) {
        Ok(text) => {
            // SAFETY: the caller's promise.
            unsafe { memory::write(json, size, &text) };
            i64::try_from(text.len()).unwrap_or(i64::MAX)
        }
        Err(failure) => failure.code.into(),
    }
}

fn number(gate: *mut MeridianGate) -> usize {
    gate.cast::<c_void>().addr()
}

fn code(done: Result<(), Failure>) -> i32 {
    done.map_or_else(|failure| failure.code, |()| 0)
}

/// Writes a failure's message for the caller.
///
/// # Safety
/// `buffer` is null or has `size` bytes.
unsafe fn reported<T>(
    done: Result<T, Failure>,
    buffer: *mut c_char,
    size: usize,
) -> Result<T, Failure> {
    done.inspect_err(|failure| {
        // SAFETY: the caller's promise.
        unsafe { memory::write(buffer, size, &failure.message) };
    })
}
