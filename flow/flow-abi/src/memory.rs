//! The caller's memory: strings and lists that are read, buffers that are written.
//!
//! This file has all dereferences of the crate.

use std::ffi::{CStr, c_char};

use crate::codes::Failure;

/// Most ports in one call, so that a wrong length reads no other memory.
const MOST_PORTS: usize = 64;

/// A string of the caller.
///
/// # Safety
/// `text` is null, or a NUL-terminated string that stays the same during the call.
pub(crate) unsafe fn string<'a>(text: *const c_char) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::bad("the JSON is a null pointer: pass a string"));
    }
    // SAFETY: it is not null, and the caller says that it ends with NUL.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::bad("the JSON is not UTF-8"))
}

/// A list of ports of the caller.
///
/// # Safety
/// `ports` is null, or points to `len` numbers that stay the same during the call.
pub(crate) unsafe fn list<'a>(ports: *const u32, len: usize) -> Result<&'a [u32], Failure> {
    if ports.is_null() || len == 0 {
        return Ok(&[]);
    }
    if len > MOST_PORTS || !ports.is_aligned() {
        return Err(Failure::bad(format!(
            "ports_len is {len}: a transfer crosses 4 ports at most"
        )));
    }
    // SAFETY: it is not null and aligned, and the caller says that `len` numbers are there.
    Ok(unsafe { std::slice::from_raw_parts(ports, len) })
}

/// Writes as much of `text` as fits, cut between characters, and a NUL.
///
/// # Safety
/// `buffer` is null, or points to `size` bytes that are the call's alone.
pub(crate) unsafe fn write(buffer: *mut c_char, size: usize, text: &str) {
    if buffer.is_null() || size == 0 {
        return;
    }
    let fits = text.floor_char_boundary(size - 1);
    assert!(fits < size, "a text and its NUL fit the buffer");
    // SAFETY: `fits` bytes and the NUL are within the `size` bytes that the caller gives.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, fits);
        buffer.add(fits).write(0);
    }
}

/// Stores a byte if the caller wants it.
///
/// # Safety
/// `at` is null, or points to a byte that is the call's alone.
pub(crate) unsafe fn store(at: *mut u8, value: u8) {
    if !at.is_null() {
        // SAFETY: it is not null, and the caller says that a byte is there.
        unsafe { at.write(value) };
    }
}
