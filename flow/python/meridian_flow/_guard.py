"""Fail open, in one place: whatever goes wrong with the gate, transfers continue without it.

A gate that is missing, closed or broken must cost a fleet its order, never its traffic. So every
call of the library goes through a `Guard`. A problem makes the call's result negative, which all
callers read as "send without a permit", and each kind of problem is logged once.

The guard also keeps the C gate alive while any thread is inside it: `close` marks it closed, and
the last call that leaves frees it. A child process made by fork has no threads of the library, so
there the gate counts as closed.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Any

from ._library import Library, LibraryError

log = logging.getLogger("meridian_flow")

CLOSED = -(1 << 62)
"""The result of a call without a gate: far below the library's own codes."""

_KINDS = 64
"""Most kinds of problems that are logged; a fleet's log stays readable whatever happens."""


class Guard:
    """One C gate, or none."""

    def __init__(
        self, settings: dict[str, Any], path: str | os.PathLike[str] | Library | None
    ) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._process = os.getpid()
        self._library: Library | None = None
        self._gate: int | None = None
        self._logged: set[str] = set()
        self.problems = 0
        """Calls that failed, those of a closed gate not counted."""
        try:
            library = path if isinstance(path, Library) else Library(path)
            self._gate = library.open(settings)
            self._library = library
        except (LibraryError, TypeError, ValueError) as error:
            self.problem("open", f"the gate is off, KV transfers are not ordered: {error}")

    @property
    def is_open(self) -> bool:
        """Whether calls reach a gate."""
        return self._gate is not None and self._process == os.getpid()

    def close(self) -> None:
        """Closes the gate; a call that is inside finishes first. Never blocks; may be repeated."""
        with self._lock:
            gate, self._gate = self._gate, None
            self._dying = gate
            free = gate is not None and self._users == 0
        if free:
            self._free(gate)

    def run(self, name: str, function: Callable[[Library, int], int]) -> int:
        """The function's result with the open gate, `CLOSED` without one, negative on a problem."""
        # The process is compared first: in a forked child the lock may be held for ever.
        if self._process != os.getpid():
            return CLOSED
        with self._lock:
            library, gate = self._library, self._gate
            if library is None or gate is None:
                return CLOSED
            self._users += 1
        try:
            result = function(library, gate)
        except (LibraryError, TypeError, ValueError, OverflowError) as error:
            self.problem(name, str(error))
            return -1
        finally:
            self._leave()
        if result < 0:
            self.problem(f"{name} {result}", f"{name}: {library.error(result)}")
        return result

    def call(self, name: str, *arguments: Any) -> int:
        """A function of the library with plain arguments."""
        return self.run(name, lambda library, gate: library.call(name, gate, *arguments))

    def problem(self, kind: str, message: str) -> None:
        """Counts a problem and logs the first one of its kind."""
        with self._lock:
            self.problems += 1
            if kind in self._logged or len(self._logged) >= _KINDS:
                return
            self._logged.add(kind)
        log.warning("%s (logged once)", message)

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
            free = self._gate is None and self._users == 0
        if free:
            self._free(self._dying)

    def _free(self, gate: int | None) -> None:
        with self._lock:
            library, self._library = self._library, None
        if library is not None and gate is not None:
            library.close(gate)
