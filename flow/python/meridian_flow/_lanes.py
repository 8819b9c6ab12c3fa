"""Sends a transfer by blocking calls, two chunks at a time.

With one chunk at a time the network is idle between chunks; the gate's window has room for two. So
two threads take turns: while one sends its chunk, the other waits for the next permit. A transfer
of one chunk uses the caller's thread alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from .transfer import Transfer

Piece = tuple[int, int, int]
"""A buffer's position in its list, an offset in it, and a length."""


class Cut:
    """Buffers of a transfer, taken from the front in pieces."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self._lengths = lengths
        self._at = 0
        self._offset = 0
        self.left = sum(lengths)
        """Bytes that are not taken yet."""

    def take(self, size: int) -> list[Piece]:
        """The next pieces, together `size` bytes."""
        self.left -= size
        pieces: list[Piece] = []
        while size > 0:
            length = min(size, self._lengths[self._at] - self._offset)
            if length > 0:
                pieces.append((self._at, self._offset, length))
            size -= length
            self._offset += length
            if self._offset >= self._lengths[self._at]:
                self._at, self._offset = self._at + 1, 0
        return pieces


class Lanes:
    """One transfer on its way. `send` returns 0, or the engine's own error code."""

    def __init__(
        self, transfer: Transfer, cut: Cut, send: Callable[[list[Piece]], int], chunk: int
    ) -> None:
        self._transfer = transfer
        self._cut = cut
        self._send = send
        self._chunk = chunk
        self._turn = threading.Lock()
        self._code = 0
        self._raised: BaseException | None = None

    def run(self, keep: int = 0) -> int:
        """Sends all but the last `keep` bytes; returns the first error code, or 0.

        An exception of the engine is raised here, whichever thread it came up in.
        """
        helper = None
        if self._transfer.is_gated and self._cut.left - keep > self._chunk:
            helper = threading.Thread(target=self._lane, args=(keep,), daemon=True)
            helper.start()
        self._lane(keep)
        if helper is not None:
            helper.join()
        if self._raised is not None:
            raise self._raised
        return self._code

    def _lane(self, keep: int) -> None:
        while True:
            with self._turn:
                left = self._cut.left - keep
                if left <= 0 or self._code or self._raised:
                    return
                size = self._transfer.permit(left)
                pieces = self._cut.take(size)
            try:
                code = self._send(pieces)
            except BaseException as error:
                self._raised = error
                return
            if code:
                self._code = code
                return
            self._transfer.completed(size)
