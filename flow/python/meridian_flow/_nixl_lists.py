"""Descriptor lists of NIXL: how long each descriptor is, and lists cut into chunks.

A prepared list is used by index, and an index is the whole descriptor. So a descriptor that is
larger than a chunk is prepared as several, and the caller's indices are translated.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

Row = tuple[int, int, int]
"""Address, length, device."""


class Prepared:
    """A prepared list's lengths, and where each of the caller's descriptors starts in it."""

    def __init__(self, lengths: array[int], starts: array[int] | None) -> None:
        self.lengths = lengths
        self._starts = starts

    def indices(self, wanted: Any) -> Any:
        """The caller's indices as indices of the prepared list."""
        starts = self._starts
        if starts is None:
            # A copy: the caller may use its array again before the last chunk is posted.
            return wanted.copy() if hasattr(wanted, "copy") else list(wanted)
        return [one for at in wanted for one in range(starts[at], starts[at + 1])]


def rows_of(descs: Any) -> Iterator[Row]:
    """The rows of a NIXL list, or of an array with strides."""
    if not hasattr(descs, "descCount"):
        for address, length, device, stride, count in descs.tolist():
            for nth in range(count):
                yield address + nth * stride, length, device
        return
    for at in range(descs.descCount()):
        yield tuple(descs[at])[:3]


def cut(rows: Iterable[Row], chunk: int) -> tuple[list[Row], array[int]]:
    """The rows in pieces of at most a chunk, and the first piece of each row."""
    pieces: list[Row] = []
    starts = array("Q", [0])
    for address, length, device in rows:
        for offset in range(0, max(length, 1), chunk):
            pieces.append((address + offset, min(chunk, length - offset), device))
        starts.append(len(pieces))
    return pieces, starts


def groups(lengths: Sequence[int], chunk: int) -> list[tuple[int, int, int]]:
    """Neighbours that fit into one permit: begin, end, bytes."""
    found: list[tuple[int, int, int]] = []
    begin = size = 0
    for at, length in enumerate(lengths):
        if size and size + length > chunk:
            found.append((begin, at, size))
            begin, size = at, 0
        size += length
    found.append((begin, len(lengths), size))
    return found
