"""Asks a transfer engine again and again whether something is done, for engines without a wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

_INTERVAL = 50e-6
"""Pause between two rounds without a result, in seconds."""

_IDLE = 1.0
"""How long the thread stays without work, in seconds."""


_LONGEST = 1e-3
"""The longest pause of `pauses`, in seconds."""


def pauses() -> Iterator[float]:
    """Pauses between the questions whether something is done: a quarter of the time until then."""
    begin = time.monotonic()
    while True:
        yield min(max((time.monotonic() - begin) / 4, _INTERVAL), _LONGEST)


class Poller:
    """One thread that runs while there is something to ask for."""

    def __init__(self) -> None:
        self._added = threading.Condition()
        self._items: list[Callable[[], bool]] = []
        self._thread: threading.Thread | None = None

    def add(self, item: Callable[[], bool]) -> None:
        """Calls `item` until it returns true. It must not raise."""
        with self._added:
            self._items.append(item)
            self._added.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            with self._added:
                if not self._items and not self._added.wait_for(lambda: self._items, _IDLE):
                    self._thread = None
                    return
                items = list(self._items)
            done = [item for item in items if item()]
            if done:
                with self._added:
                    self._items = [item for item in self._items if item not in done]
            else:
                time.sleep(_INTERVAL)
