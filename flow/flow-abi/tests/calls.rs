//! The ABI as a C program sees it: right calls, wrong calls, calls in any order by several threads.

use std::ffi::{CStr, CString, c_char};
use std::ptr::{null, null_mut, without_provenance_mut};

use meridian_base::Rng;
use meridian_flow_abi::*;

const CHUNK: u32 = 256 << 10;

fn open(settings: &str) -> Result<*mut MeridianGate, String> {
    let settings = CString::new(settings).expect("no NUL inside");
    let mut error = [0 as c_char; 200];
    // SAFETY: a string and a buffer of this function.
    let gate = unsafe { meridian_gate_open(settings.as_ptr(), error.as_mut_ptr(), error.len()) };
    if gate.is_null() { Err(text(&error)) } else { Ok(gate) }
}

fn text(buffer: &[c_char]) -> String {
    // SAFETY: the ABI ends every message with NUL within the buffer.
    unsafe { CStr::from_ptr(buffer.as_ptr()) }.to_string_lossy().into_owned()
}

fn batch(gate: *mut MeridianGate, json: &str) -> Result<(), (i32, String)> {
    let json = CString::new(json).expect("no NUL inside");
    let mut error = [0 as c_char; 200];
    // SAFETY: a string and a buffer of this function.
    let code = unsafe { meridian_gate_batch(gate, json.as_ptr(), error.as_mut_ptr(), error.len()) };
    if code == 0 { Ok(()) } else { Err((code, text(&error))) }
}

fn submit(gate: *mut MeridianGate, stage: u8, owner: u64, bytes: u64, ports: &[u32]) -> i64 {
    // SAFETY: the list is this function's.
    unsafe { meridian_gate_submit(gate, stage, owner, 0, bytes, ports.as_ptr(), ports.len()) }
}

fn permit(gate: *mut MeridianGate, transfer: i64, bytes: u32) -> (i64, u8) {
    let mut class = 255;
    // SAFETY: the byte is this function's.
    let permitted = unsafe { meridian_gate_permit(gate, transfer, bytes, &raw mut class) };
    (permitted, class)
}

const SETTINGS: &str = r#"{"ports": [{"name": "out", "gbps": 25}]}"#;
const BATCH: &str = r#"{"batch": 1, "requests": [{"request": 2, "ttft_left_ms": 500}]}"#;

// One transfer from its batch to its last byte.
#[test]
fn a_transfer_from_begin_to_end() {
    let gate = open(SETTINGS).unwrap();
    batch(gate, BATCH).unwrap();
    assert_eq!(meridian_gate_layer(gate, 1, 0, 0), 0);
    assert_eq!(meridian_gate_departed(gate, 1), 0);
    let transfer = submit(gate, 3, 2, 300_000, &[0]);
    assert!(transfer >= 0);
    assert_eq!(permit(gate, transfer, 300_000), (i64::from(CHUNK), 6));
    assert_eq!(meridian_gate_completed(gate, transfer, u64::from(CHUNK)), 0);
    assert_eq!(permit(gate, transfer, 300_000 - CHUNK).0, i64::from(300_000 - CHUNK));
    assert_eq!(meridian_gate_completed(gate, transfer, u64::from(300_000 - CHUNK)), 0);
    assert_eq!(meridian_gate_completed(gate, transfer, 1), MERIDIAN_UNKNOWN);
    assert_eq!(meridian_gate_ended(gate, 2), 0);
    let mut json = [0 as c_char; 1000];
    // SAFETY: the buffer is this function's.
    let length = unsafe { meridian_gate_status(gate, json.as_mut_ptr(), json.len()) };
    let status = text(&json);
    assert_eq!(usize::try_from(length), Ok(status.len()));
    assert!(status.contains(r#""permits":2"#) && status.contains(r#""transfers":0"#), "{status}");
    meridian_gate_close(gate);
}

// A gate that was closed, or a pointer that never was one, is an error in every call.
#[test]
fn a_closed_gate_is_an_error() {
    let gate = open(SETTINGS).unwrap();
    batch(gate, BATCH).unwrap();
    let transfer = submit(gate, 3, 2, 1, &[0]);
    meridian_gate_close(gate);
    meridian_gate_close(gate);
    for gate in
        [gate, null_mut(), without_provenance_mut(usize::MAX), without_provenance_mut(1 << 40)]
    {
        assert_eq!(batch(gate, BATCH).unwrap_err().0, MERIDIAN_UNKNOWN_GATE);
        assert_eq!(meridian_gate_layer(gate, 1, 0, 0), MERIDIAN_UNKNOWN_GATE);
        assert_eq!(meridian_gate_departed(gate, 1), MERIDIAN_UNKNOWN_GATE);
        assert_eq!(meridian_gate_ended(gate, 1), MERIDIAN_UNKNOWN_GATE);
        assert_eq!(submit(gate, 3, 2, 1, &[0]), i64::from(MERIDIAN_UNKNOWN_GATE));
        assert_eq!(permit(gate, transfer, 1), (i64::from(MERIDIAN_UNKNOWN_GATE), 255));
        assert_eq!(meridian_gate_completed(gate, transfer, 1), MERIDIAN_UNKNOWN_GATE);
        assert_eq!(meridian_gate_withdrawn(gate, transfer), MERIDIAN_UNKNOWN_GATE);
        // SAFETY: null is allowed.
        let status = unsafe { meridian_gate_status(gate, null_mut(), 0) };
        assert_eq!(status, i64::from(MERIDIAN_UNKNOWN_GATE));
    }
}

// Wrong arguments say which field, and the remedy where there is one.
#[test]
fn wrong_arguments_are_named() {
    let cases = [
        ("", "settings: EOF while parsing a value at line 1 column 0"),
        (
            r#"{"ports": []}"#,
            "ports is empty: name at least one direction of a card, with its gbps",
        ),
        (r#"{"port": []}"#, "settings: unknown field `port`, expected one of `policy`, `node`"),
        (r#"{"ports": [{"name": "a", "gbps": "x"}]}"#, "settings: invalid type: string \"x\""),
    ];
    for (settings, message) in cases {
        let error = open(settings).unwrap_err();
        assert!(error.starts_with(message), "{error}");
    }
    // SAFETY: null is allowed everywhere.
    assert!(unsafe { meridian_gate_open(null(), null_mut(), 0) }.is_null());
    let gate = open(SETTINGS).unwrap();
    // SAFETY: null is allowed everywhere.
    assert_eq!(unsafe { meridian_gate_batch(gate, null(), null_mut(), 0) }, MERIDIAN_BAD_ARGUMENT);
    batch(gate, BATCH).unwrap();
    let twice =
        (MERIDIAN_REFUSED, "batch 1 is under way: give each batch its own number".to_owned());
    assert_eq!(batch(gate, BATCH).unwrap_err(), twice);
    assert_eq!(submit(gate, 4, 2, 1, &[0]), i64::from(MERIDIAN_BAD_ARGUMENT));
    assert_eq!(submit(gate, 3, 2, 0, &[0]), i64::from(MERIDIAN_REFUSED));
    assert_eq!(submit(gate, 3, 2, 1, &[]), i64::from(MERIDIAN_REFUSED));
    // SAFETY: null is allowed, whatever the length.
    let none = unsafe { meridian_gate_submit(gate, 3, 2, 0, 1, null(), 3) };
    assert_eq!(none, i64::from(MERIDIAN_REFUSED));
    assert_eq!(permit(gate, -1, 1).0, i64::from(MERIDIAN_BAD_ARGUMENT));
    assert_eq!(permit(gate, i64::MAX, 1).0, i64::from(MERIDIAN_UNKNOWN));
    let transfer = submit(gate, 3, 2, 1, &[0]);
    assert_eq!(permit(gate, transfer, 0).0, i64::from(MERIDIAN_REFUSED));
    assert_eq!(meridian_gate_completed(gate, transfer, 2), MERIDIAN_REFUSED);
    for code in i64::from(i32::MIN)..i64::from(i32::MIN) + 3 {
        // SAFETY: the text is static and ends with NUL.
        assert!(!unsafe { CStr::from_ptr(meridian_flow_error(code)) }.is_empty());
    }
    meridian_gate_close(gate);
}

// A message that does not fit is cut between characters and ends with NUL.
#[test]
fn messages_are_cut_to_the_buffer() {
    let settings = CString::new(r#"{"policy": "äöü", "ports": []}"#).expect("no NUL inside");
    for size in 1..20 {
        let mut error = [7 as c_char; 20];
        // SAFETY: a string and a buffer of this function.
        unsafe { meridian_gate_open(settings.as_ptr(), error.as_mut_ptr(), size) };
        let message = text(&error);
        assert!("policy `äöü` is unknown".starts_with(&message), "{message}");
        assert!(message.len() < size && error[size..].iter().all(|byte| *byte == 7));
    }
}

// Calls with any numbers, in any order, from four threads, while gates open and close: each returns,
// and the process lives.
#[test]
fn any_calls_in_any_order_return() {
    let gates: Vec<_> = (0..3).map(|_| open(SETTINGS).unwrap().addr()).collect();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let mut gates = gates.clone();
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                let mut transfers = vec![0, -1, i64::MAX, 1 << 32];
                for _ in 0..4000 {
                    any_call(&mut rng, &mut gates, &mut transfers);
                }
                gates
                    .into_iter()
                    .for_each(|gate| meridian_gate_close(without_provenance_mut(gate)));
            });
        }
    });
}

fn any_call(rng: &mut Rng, gates: &mut [usize], transfers: &mut Vec<i64>) {
    let at = rng.below(gates.len());
    let gate = without_provenance_mut(gates[at]);
    let transfer = transfers[rng.below(transfers.len())];
    let (small, large) = (rng.below(40) as u64, rng.below(1 << 22) as u64);
    match rng.below(12) {
        0 if rng.below(40) == 0 => {
            meridian_gate_close(gate);
            gates[at] = open(SETTINGS).expect("they are right").addr();
        }
        0 | 1 => {
            let left = rng.below(2000) as i64 - 100;
            let json = format!(
                r#"{{"batch": {small}, "layers": {}, "requests": [{{"request": {}, "ttft_left_ms":
                 {left}, "plan": [{{"port": "out", "handoff": {large}}}]}}]}}"#,
                rng.below(4),
                rng.below(40),
            );
            let _ = batch(gate, &json);
        }
        2 => drop(meridian_gate_layer(gate, small, rng.below(2) as u32, rng.below(4) as u16)),
        3 => drop(meridian_gate_departed(gate, small)),
        4 => drop(meridian_gate_ended(gate, small)),
        5..8 => {
            let stage = rng.below(5) as u8;
            transfers.push(submit(gate, stage, small, large, &[rng.below(2) as u32]));
        }
        8 | 9 => {
            let bytes = (large as u32).min(CHUNK);
            let (permitted, _) = permit(gate, transfer, bytes);
            assert!(permitted <= i64::from(bytes));
        }
        10 => drop(meridian_gate_completed(gate, transfer, large)),
        _ => drop(meridian_gate_withdrawn(gate, transfer)),
    }
}
