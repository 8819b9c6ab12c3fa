"""The scheduler's shared library: where it is, and the C functions that it has.

A thread that waits for a permit stops no other thread, since ctypes releases the interpreter's lock
during the call. Short calls keep the lock: a thread that releases it beside a busy thread, such as
an engine's main loop, gets it back only milliseconds later.

Nothing here decides about failures: every problem is a `LibraryError`, and `_guard.py` turns it
into transfers that are not gated.
"""

from __future__ import annotations

import ctypes
import json
import os
from pathlib import Path
from typing import Any

ABI = 1
"""The version of the C functions that this package calls."""

VARIABLE = "MERIDIAN_FLOW_LIBRARY"
"""The environment variable that names the library, for one built from source."""

_NAME = "libmeridian_flow.so"
_TEXT = 512
_u8, _u16, _u32, _u64 = ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64
_i32, _i64, _size = ctypes.c_int32, ctypes.c_int64, ctypes.c_size_t
_gate, _text = ctypes.c_void_p, ctypes.c_char_p

_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "meridian_flow_abi": (_u32, []),
    "meridian_flow_error": (_text, [_i64]),
    "meridian_gate_open": (_gate, [_text, _text, _size]),
    "meridian_gate_close": (None, [_gate]),
    "meridian_gate_batch": (_i32, [_gate, _text, _text, _size]),
    "meridian_gate_layer": (_i32, [_gate, _u64, _u32, _u16]),
    "meridian_gate_departed": (_i32, [_gate, _u64]),
    "meridian_gate_ended": (_i32, [_gate, _u64]),
    "meridian_gate_submit": (
        _i64,
        [_gate, _u8, _u64, _u16, _u64, ctypes.POINTER(_u32), _size],
    ),
    "meridian_gate_permit": (_i64, [_gate, _i64, _u32, ctypes.POINTER(_u8)]),
    "meridian_gate_completed": (_i32, [_gate, _i64, _u64]),
    "meridian_gate_withdrawn": (_i32, [_gate, _i64]),
    "meridian_gate_status": (_i64, [_gate, _text, _size]),
}

_SHORT = ("batch", "layer", "departed", "ended", "submit", "completed", "withdrawn")
"""Calls that never block."""


class LibraryError(Exception):
    """The library is missing, is another version, or refuses its settings."""


class Library:
    """The loaded library. All functions may be called from any thread."""

    _meridian_flow_abi: Any
    _meridian_flow_error: Any
    _meridian_gate_open: Any
    _meridian_gate_close: Any
    _meridian_gate_batch: Any
    _meridian_gate_submit: Any
    _meridian_gate_status: Any

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        place = str(path or os.environ.get(VARIABLE) or Path(__file__).with_name(_NAME))
        try:
            blocking, short = ctypes.CDLL(place), ctypes.PyDLL(place)
            for name, (result, arguments) in _FUNCTIONS.items():
                is_short = name.removeprefix("meridian_gate_") in _SHORT
                function = getattr(short if is_short else blocking, name)
                function.restype, function.argtypes = result, arguments
                setattr(self, "_" + name, function)
        except (OSError, AttributeError) as error:
            raise LibraryError(f"{place} cannot be loaded: {error}; set {VARIABLE}") from None
        if (version := self._meridian_flow_abi()) != ABI:
            raise LibraryError(f"{place} has ABI {version}, not {ABI}: install a matching library")

    def open(self, settings: dict[str, Any]) -> int:
        """A new gate. Raises the library's own message if a setting is wrong."""
        message = ctypes.create_string_buffer(_TEXT)
        gate = self._meridian_gate_open(_json(settings), message, _TEXT)
        if not gate:
            raise LibraryError(_said(message) or "the gate cannot be opened")
        return int(gate)

    def close(self, gate: int) -> None:
        """Frees a gate. No call may use it at the same time or later."""
        self._meridian_gate_close(gate)

    def batch(self, gate: int, batch: dict[str, Any]) -> int:
        """Announces a batch and its requests. Raises the library's own message, or returns 0."""
        message = ctypes.create_string_buffer(_TEXT)
        if self._meridian_gate_batch(gate, _json(batch), message, _TEXT) < 0:
            raise LibraryError(_said(message) or "the batch is refused")
        return 0

    def submit(
        self, gate: int, stage: int, owner: int, layer: int, size: int, ports: tuple[int, ...]
    ) -> int:
        """Registers a transfer; its handle, or a negative code."""
        if not 0 <= layer < 1 << 16:
            # ctypes would take the number's lowest bits, which is another layer.
            raise ValueError(f"layer is {layer}: layers count from 0 and are below 65536")
        array = (_u32 * len(ports))(*ports)
        submit = self._meridian_gate_submit
        return int(submit(gate, stage, owner, layer, size, array, len(ports)))

    def call(self, function: str, gate: int, *arguments: Any) -> int:
        """A function with plain arguments; its result, or a negative code."""
        return int(getattr(self, "_meridian_gate_" + function)(gate, *arguments))

    def status(self, gate: int) -> dict[str, Any]:
        """The gate's own counters."""
        size = 4096
        while True:
            text = ctypes.create_string_buffer(size)
            needed = self._meridian_gate_status(gate, text, size)
            if needed < 0:
                raise LibraryError(self.error(needed))
            if needed < size:
                return dict(json.loads(text.value))
            size = needed + 1024

    def error(self, code: int) -> str:
        """The meaning of a negative code."""
        text = self._meridian_flow_error(code)
        return text.decode(errors="replace") if text else f"error {code}"


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, allow_nan=False).encode()


def _said(message: ctypes.Array[ctypes.c_char]) -> str:
    return message.value.decode(errors="replace")
