"""A library in Python with the same functions as the scheduler's: enough of a gate for the tests of
this package, without its own decisions. The transfer with the earliest deadline goes first, with at
most `window` bytes on the way."""

from __future__ import annotations

import threading
from typing import Any

from meridian_flow._library import Library, LibraryError


class FakeLibrary(Library):
    """Records every call. `fail` names functions that return an error."""

    def __init__(self, window: int = 512 * 1024, chunk: int = 256 * 1024) -> None:
        self.changed = threading.Condition()
        self.window, self.chunk = window, chunk
        self.fail: set[str] = set()
        self.calls: list[tuple[Any, ...]] = []
        self.deadlines: dict[int, float] = {}
        self.flows: dict[int, list[Any]] = {}
        self.asking: dict[int, tuple[float, int]] = {}
        self.permitted: dict[int, int] = {}
        self.order: list[int] = []
        """Owners, in the order of their permits."""
        self.is_held = False
        """Holds back all permits while true."""
        self.freed = 0
        self.stall = 10.0
        """Seconds after which a permit comes anyway, as the gate's hold."""

    def open(self, settings: dict[str, Any]) -> int:
        if "open" in self.fail:
            raise LibraryError("ports is empty: name at least one")
        self.settings = settings
        return 1

    def close(self, gate: int) -> None:
        self.freed += 1

    def batch(self, gate: int, batch: dict[str, Any]) -> int:
        if self._called("batch", batch):
            raise LibraryError("the batch is refused")
        for one in batch["requests"]:
            self.deadlines[one["request"]] = one.get("ttft_left_ms", float("inf"))
        return 0

    def submit(
        self, gate: int, stage: int, owner: int, layer: int, size: int, ports: tuple[int, ...]
    ) -> int:
        if self._called("submit", stage, owner, layer, size, ports):
            return -3
        with self.changed:
            flow = len(self.flows)
            self.flows[flow] = [owner, size]
            self.permitted[flow] = 0
            return flow

    def call(self, function: str, gate: int, *arguments: Any) -> int:
        if self._called(function, *arguments):
            return -7
        own = {"permit": self._permit, "completed": self._completed, "withdrawn": self._withdrawn}
        return own.get(function, lambda *_: 0)(*arguments)

    def status(self, gate: int) -> dict[str, Any]:
        return {"flows": len(self.flows)}

    def error(self, code: int) -> str:
        return f"fake error {code}"

    def hold(self, is_held: bool) -> None:
        """Holds back permits, or lets them go."""
        with self.changed:
            self.is_held = is_held
            self.changed.notify_all()

    def until(self, what: Any) -> None:
        """Waits until something holds; a test whose wait never ends fails by its time limit."""
        with self.changed:
            if not self.changed.wait_for(what, 30):
                raise AssertionError("it did not happen within 30 s")

    def _called(self, name: str, *arguments: Any) -> bool:
        with self.changed:
            self.calls.append((name, *arguments))
            self.changed.notify_all()
        return name in self.fail

    def _permit(self, flow: int, size: int, _: Any) -> int:
        with self.changed:
            if flow not in self.flows:
                return -2
            size = min(size, self.chunk)
            owner = self.flows[flow][0]
            self.asking[flow] = (self.deadlines.get(owner, float("inf")), size)
            self.changed.notify_all()
            self.changed.wait_for(lambda: flow not in self.flows or self._may(flow), self.stall)
            del self.asking[flow]
            if flow not in self.flows:
                return -2
            self.permitted[flow] += size
            self.order.append(owner)
            self.changed.notify_all()
            return size

    def _may(self, flow: int) -> bool:
        sent = sum(self.permitted.values())
        is_first = min(self.asking, key=lambda one: self.asking[one][0]) == flow
        return not self.is_held and is_first and sent + self.asking[flow][1] <= self.window

    def _completed(self, flow: int, size: int) -> int:
        with self.changed:
            if flow not in self.flows:
                return -2
            self.permitted[flow] = max(0, self.permitted[flow] - size)
            self.flows[flow][1] -= size
            if self.flows[flow][1] <= 0:
                del self.flows[flow], self.permitted[flow]
            self.changed.notify_all()
            return 0

    def _withdrawn(self, flow: int) -> int:
        with self.changed:
            if self.flows.pop(flow, None) is None:
                return -2
            self.permitted.pop(flow, None)
            self.changed.notify_all()
            return 0
