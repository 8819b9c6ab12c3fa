"""A transfer of NIXL that is posted in parts, each with its permit.

A thread of the transfer waits for permits and posts; a poller, one for all transfers of an agent,
reports the parts that are done. One thread could not do both: the permit that it waits for may
depend on a part that it has to report.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from .transfer import Transfer

Poll = Callable[[Callable[[], bool]], None]
"""Calls a function until it returns true."""

Part = tuple[int, int, int]
"""Descriptors that are posted together: begin, end, bytes."""


@dataclass
class Telemetry:
    """The fields of NIXL's telemetry, over all parts; times in microseconds."""

    startTime: int = 0
    postDuration: int = 0
    xferDuration: int = 0
    totalBytes: int = 0
    descCount: int = 0


class GatedTransfer:
    """The handle that a caller gets. Every call of NIXL is made under the agent's lock."""

    def __init__(
        self,
        agent: Any,
        lock: Any,
        make: Callable[[int, int], Any],
        parts: list[Part],
        notify: bytes,
        over: Callable[[], None],
    ) -> None:
        self._agent, self._lock, self._make, self._parts = agent, lock, make, parts
        self._notify, self._over = notify, over
        self._changed = threading.Condition(lock)
        self._live: list[Any] = []
        self._failed: list[Any] = []
        self._released = False
        self._posted = False
        self._began = 0.0
        self._telemetry: Telemetry | Exception = Telemetry()
        self.error: Exception | None = None
        self.state = "INIT"
        self.about: tuple[int | None, tuple[int, ...]] = (None, (0,))
        """The request that it belongs to, and the ports that it crosses."""
        self.size = sum(size for _, _, size in parts)
        """Bytes of the whole transfer."""
        # Made here, so that descriptors that NIXL refuses are an error of the caller's call.
        self._first: Any = make(*parts[0][:2])

    def start(self, notify: bytes) -> None:
        """Makes it active; `post` must follow, on any thread."""
        with self._lock:
            if self._released or self.state == "PROC":
                raise RuntimeError("the transfer is active or released: start it when it is DONE")
            self._notify = notify or self._notify
            self.state, self.error, self._posted = "PROC", None, False
            self._telemetry, self._began = Telemetry(), time.monotonic()

    def post(self, transfer: Transfer, poll: Poll) -> None:
        """Posts part after part, and returns when all are done. The notification goes with the last
        one, after all others."""
        with transfer:
            self.post_parts(transfer, poll)
            with self._lock:
                self._changed.wait_for(lambda: not self._live or self._is_over())

    def post_parts(self, transfer: Transfer, poll: Poll) -> None:
        """Only posts. Without a gate that is one part, and does not block."""
        end_of_all = self._parts[-1][1]
        for begin, end, size in self._parts:
            left = size
            while left > 0:
                left -= transfer.permit(left)
            if not transfer.is_gated:
                end, size = end_of_all, sum(one[2] for one in self._parts if one[0] >= begin)
            part = self._post(begin, end, end == end_of_all)
            if part is None:
                break
            poll(partial(self._poll, part, size, transfer))
            if end == end_of_all:
                break

    def check(self) -> str:
        """PROC, DONE or ERR of the whole; NIXL's own exception if it raised one."""
        if self.error is not None:
            raise self.error
        return self.state

    def telemetry(self) -> Telemetry:
        """The sum over all parts; NIXL's own exception if it collects none."""
        if isinstance(self._telemetry, Exception):
            raise self._telemetry
        return self._telemetry

    def whole(self, use: Callable[[Any], Any]) -> Any:
        """Asks NIXL something about the transfer as one."""
        with self._lock:
            handle = self._make(self._parts[0][0], self._parts[-1][1])
            try:
                return use(handle)
            finally:
                self._agent.release_xfer_handle(handle)

    def release(self) -> None:
        """Ends it: no part is posted any more. Raises NIXL's error if one cannot be ended; the
        memory is then still in use, and another release may succeed."""
        with self._lock:
            self._released = True
            self._changed.notify_all()
            if self._first is not None:
                self._agent.release_xfer_handle(self._first)
                self._first = None
            for parts in (self._live, self._failed):
                while parts:
                    self._agent.release_xfer_handle(parts[-1])
                    parts.pop()
            over, self._over = self._over, lambda: None
        over()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.release()

    def _is_over(self) -> bool:
        return self._released or self.state != "PROC"

    def _post(self, begin: int, end: int, is_last: bool) -> Any:
        """Posts one part; `None` if the transfer is over by now."""
        with self._lock:
            if is_last:
                self._changed.wait_for(lambda: not self._live or self._is_over())
            if self._is_over():
                return None
            try:
                part = self._take(begin, end)
                # Listed before it is posted: also a part that fails here may be under way.
                self._live.append(part)
                self._agent.transfer(part, self._notify if is_last else b"")
            except Exception as error:
                self.error, self.state = error, "ERR"
                return None
            self._posted = is_last
            return part

    def _take(self, begin: int, end: int) -> Any:
        first, self._first = self._first, None
        if first is not None and (begin, end) == self._parts[0][:2]:
            return first
        if first is not None:
            self._agent.release_xfer_handle(first)
        return self._make(begin, end)

    def _poll(self, part: Any, size: int, transfer: Transfer) -> bool:
        """Whether the part is no longer under way; reports it when it is done."""
        with self._lock:
            if part not in self._live:
                return True
            try:
                state = self._agent.check_xfer_state(part)
            except Exception as error:
                self.error, state = error, "ERR"
            if state == "PROC":
                return False
            self._live.remove(part)
            if state == "DONE":
                # Reported first: the thread that posts withdraws all bytes that are left.
                transfer.completed(size)
                self._done(part)
            else:
                self.state = "ERR"
                self._failed.append(part)
            self._changed.notify_all()
        return True

    def _done(self, part: Any) -> None:
        self._collect(part)
        self._agent.release_xfer_handle(part)
        if self._posted and not self._live and self.state == "PROC":
            self.state = "DONE"

    def _collect(self, part: Any) -> None:
        total = self._telemetry
        if isinstance(total, Exception):
            return
        try:
            one = self._agent.get_xfer_telemetry(part)
        except Exception as error:
            self._telemetry = error
            return
        total.startTime = total.startTime or one.startTime
        total.postDuration += one.postDuration
        total.totalBytes += one.totalBytes
        total.descCount += one.descCount
        total.xferDuration = int((time.monotonic() - self._began) * 1e6)
