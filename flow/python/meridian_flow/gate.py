"""The gate of a process that sends KV: it orders the chunks of all transfers by urgency.

A transfer belongs to a request, and the request's deadline decides its place. A process that knows
batches and layers reports them with `batch`, `layer` and `departed`; one that only moves KV opens a
`request` around its transfers.
"""

from __future__ import annotations

import enum
import hashlib
import itertools
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ._guard import Guard
from ._library import Library
from .request import Request
from .transfer import Transfer

KIB = 1024


class Stage(enum.IntEnum):
    """The purpose of a transfer."""

    REUSE = 1
    """Cached KV is fetched, and a layer waits for it."""
    COLLECTIVE = 2
    """Ranks exchange the parts of a layer."""
    HANDOFF = 3
    """KV of a prompt goes to the decode replica."""


class Gate:
    """A gate and its counters. Without a library all transfers pass, and one warning is logged."""

    def __init__(
        self,
        ports: Sequence[Mapping[str, Any]],
        *,
        policy: str = "mfs",
        node: str | None = None,
        chunk: int = 256 * KIB,
        window: int = 512 * KIB,
        hold_ms: float = 5,
        coordinator: str | None = None,
        library: str | os.PathLike[str] | Library | None = None,
    ) -> None:
        settings: dict[str, Any] = {"policy": policy, "ports": list(ports), "chunk": chunk}
        settings |= {"window": window, "hold_ms": hold_ms}
        named = {"node": node, "coordinator": coordinator}
        settings |= {name: value for name, value in named.items() if value is not None}
        self.chunk = chunk
        """The largest chunk, in bytes."""
        self.ports = [str(port.get("name", "")) for port in ports]
        """The names of the ports; transfers name them by their position."""
        self.guard = Guard(settings, library)
        # Batches of all nodes share one space of numbers, in which later ones are larger.
        self._numbers = itertools.count(time.time_ns())
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(("transfers", "gated_bytes", "ungated_bytes"), 0)
        self._shared: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether transfers are ordered."""
        return self.guard.is_open

    def close(self) -> None:
        """Stops ordering. Transfers that are under way continue without permits."""
        self.guard.close()

    def request(self, request: int | str | None = None, **about: Any) -> Request:
        """A request around its transfers, for `with`; see `Request` for the arguments."""
        number = next(self._numbers)
        return Request(self, number if request is None else number_of(request), number, **about)

    def batch(
        self,
        requests: Iterable[Mapping[str, Any]],
        *,
        layers: int = 1,
        layer_us: float = 0,
        collectives: Iterable[Mapping[str, Any]] = (),
        batch: int | None = None,
    ) -> int:
        """Announces a batch whose computation starts; returns its number.

        Each request is a mapping with `request` and, where known, `ttft_left_ms`, `slo_ms`,
        `decode_ms` and `plan`. Without `ttft_left_ms`, or with none left, it is served best effort.
        """
        number = next(self._numbers) if batch is None else batch
        members = list(map(_member, requests))
        about: dict[str, Any] = {"batch": number, "layers": layers, "layer_us": layer_us}
        about |= {"collectives": list(map(dict, collectives)), "requests": members}
        self.guard.run("batch", lambda library, gate: library.batch(gate, about))
        return number

    def layer(self, batch: int, layer: int, generation: int = 0) -> None:
        """A batch reaches a layer. A new chunk of its prompts is a new generation."""
        self.guard.call("layer", batch, generation, layer)

    def departed(self, batch: int) -> None:
        """A batch has computed its last layer; only handoffs of its requests remain."""
        self.guard.call("departed", batch)

    def ended(self, request: int | str) -> None:
        """A request has no transfers left."""
        self.guard.call("ended", number_of(request))

    def transfer(
        self,
        stage: Stage,
        owner: int | str | None,
        layer: int,
        size: int,
        ports: tuple[int, ...] = (0,),
    ) -> Transfer:
        """A transfer of `size` bytes over ports, the sender's own first.

        The owner is a request, or a batch for a collective. Without one, the transfer is served
        best effort, after those that have a deadline.
        """
        known = self._anyone() if owner is None else number_of(owner)
        flow = -1
        if size > 0:
            about = (stage, known, layer, size, ports)
            flow = self.guard.run("submit", lambda library, gate: library.submit(gate, *about))
        with self._lock:
            self._counts["transfers"] += 1
        return Transfer(self, flow, size)

    def ungated(self, size: int) -> Transfer:
        """A transfer that the gate does not know, where it could not be ordered anyway."""
        return Transfer(self, -1, size)

    def count(self, size: int, is_gated: bool) -> None:
        """Adds completed bytes to the counters."""
        with self._lock:
            self._counts["gated_bytes" if is_gated else "ungated_bytes"] += size

    def counters(self) -> dict[str, int]:
        """Transfers, bytes with and without permits, and failed calls of the library."""
        with self._lock:
            return {**self._counts, "problems": self.guard.problems}

    def status(self) -> dict[str, Any]:
        """The library's own counters; empty without it."""
        found: dict[str, Any] = {}
        self.guard.run("status", lambda library, gate: found.update(library.status(gate)) or 0)
        return found

    def _anyone(self) -> int:
        """The request to which all transfers without an owner belong."""
        with self._lock:
            if self._shared is None:
                self._shared = next(self._numbers)
                number = self._shared
                self.departed(self.batch([{"request": number}], batch=number))
            return self._shared

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def number_of(request: int | str) -> int:
    """A request's number: the same for the same id on every node, and not readable from it."""
    if isinstance(request, int):
        return request & ((1 << 64) - 1)
    digest = hashlib.blake2b(request.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _member(request: Mapping[str, Any]) -> dict[str, Any]:
    member = {name: value for name, value in request.items() if value is not None}
    member["request"] = number_of(member["request"])
    if member.get("ttft_left_ms", 1) <= 0:
        # Too late: the gate serves it best effort, after those that can still be in time.
        del member["ttft_left_ms"]
    member.setdefault("slo_ms", member.get("ttft_left_ms", 0))
    return member
