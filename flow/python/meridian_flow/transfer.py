"""One transfer of KV, sent chunk by chunk as its permits come."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .gate import Gate

_MOST = (1 << 32) - 1


class Transfer:
    """A transfer that the gate orders, or one that it does not know and that goes at once.

    `permit` and `completed` may be called from different threads: several chunks may be under way,
    while at most one thread waits for the next permit.
    """

    def __init__(self, gate: Gate, flow: int, size: int) -> None:
        self._gate = gate
        self._flow = flow
        self._asking = threading.Lock()
        self._lock = threading.Lock()
        self._gated = flow >= 0
        self._over = False
        self.left = size
        """Bytes that are not completed yet."""

    @property
    def is_gated(self) -> bool:
        """Whether chunks wait for permits. It turns false after a failure, and never back."""
        return self._gated

    def permit(self, size: int) -> int:
        """Waits until the next chunk may be sent; returns its size, at most `size`.

        Without a gate that is all of `size`, at once: the transfer is not split.
        """
        if not self._gated or size <= 0:
            return size
        with self._asking:
            permitted = self._gate.guard.call("permit", self._flow, min(size, _MOST), None)
        if permitted > 0:
            return min(permitted, size)
        self._gated = False
        return size

    def completed(self, size: int) -> None:
        """Reports bytes that have arrived at the other side, so that others may use their room."""
        with self._lock:
            self.left -= size
            self._over = self._over or self.left <= 0
        self._gate.count(size, self._gated)
        if self._flow >= 0 and size > 0:
            self._gate.guard.call("completed", self._flow, size)

    def withdraw(self) -> None:
        """Gives up the rest: the gate forgets it and its permits go to others. May be repeated."""
        with self._lock:
            over, self._over = self._over, True
        if not over and self._flow >= 0:
            self._gate.guard.call("withdrawn", self._flow)

    def chunks(self) -> Iterator[tuple[int, int]]:
        """Offset and length of each chunk, as its permit comes.

        A chunk counts as completed when the next one is asked for, so send it before that. Leaving
        the loop early, by `break` or by an exception, withdraws the rest.
        """
        at, end = 0, self.left
        try:
            while at < end:
                length = self.permit(end - at)
                yield at, length
                self.completed(length)
                at += length
        finally:
            self.withdraw()

    def __enter__(self) -> Transfer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.withdraw()
