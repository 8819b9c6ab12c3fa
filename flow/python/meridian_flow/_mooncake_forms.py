"""The methods of Mooncake's `TransferEngine` that move bytes, each as one kind of `Job`.

Arguments have the engine's own names, since callers may use them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Job(NamedTuple):
    """A transfer as the caller describes it."""

    verb: str
    target: str
    buffers: Sequence[int]
    peers: Sequence[int]
    lengths: Sequence[int]
    hint: tuple[str, ...] = ()
    notify: Any = None
    opcode: Any = None


def _one(verb: str) -> Callable[..., Job]:
    def form(
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        transport_hint: str = "",
    ) -> Job:
        hint = (transport_hint,) if transport_hint else ()
        return Job(verb, target_hostname, [buffer], [peer_buffer_address], [length], hint)

    return form


def _many(verb: str) -> Callable[..., Job]:
    def form(
        target_hostname: str,
        buffers: Sequence[int],
        peer_buffer_addresses: Sequence[int],
        lengths: Sequence[int],
        transport_hint: str = "",
    ) -> Job:
        hint = (transport_hint,) if transport_hint else ()
        return Job(verb, target_hostname, buffers, peer_buffer_addresses, lengths, hint)

    return form


def _one_by_opcode(
    target_hostname: str,
    buffer: int,
    peer_buffer_address: int,
    length: int,
    opcode: Any,
    notify: Any = None,
    transport_hint: str = "",
) -> Job:
    form = _one(opcode.name.lower())
    job = form(target_hostname, buffer, peer_buffer_address, length, transport_hint)
    return job._replace(notify=notify, opcode=opcode)


def _many_by_opcode(
    target_hostname: str,
    buffers: Sequence[int],
    peer_buffer_addresses: Sequence[int],
    lengths: Sequence[int],
    opcode: Any,
    notify: Any = None,
    transport_hint: str = "",
) -> Job:
    form = _many(opcode.name.lower())
    job = form(target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint)
    return job._replace(notify=notify, opcode=opcode)


def _many_async(
    target_hostname: str,
    buffers: Sequence[int],
    peer_buffer_addresses: Sequence[int],
    lengths: Sequence[int],
    opcode: Any,
    transport_hint: str = "",
) -> Job:
    form = _many(opcode.name.lower())
    return form(target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint)


FORMS: dict[str, Callable[..., Job]] = {
    "transfer_sync_write": _one("write"),
    "transfer_sync_read": _one("read"),
    "transfer_submit_write": _one("write"),
    "batch_transfer_sync_write": _many("write"),
    "batch_transfer_sync_read": _many("read"),
    "batch_transfer_async_write": _many("write"),
    "batch_transfer_async_read": _many("read"),
    "transfer_sync": _one_by_opcode,
    "batch_transfer_sync": _many_by_opcode,
    "batch_transfer_async": _many_async,
}
