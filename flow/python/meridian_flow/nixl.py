"""A NIXL agent with a gate: its transfers are posted in parts, the urgent ones first.

All other methods pass through, one at a time: the agent is now called from threads of this package
too, and NIXL's agents are not safe for that by themselves. A write leaves by this process's own
card. The bytes of a read leave at the other side, where this gate is not, so reads are ordered by
the port through which they arrive.
"""

from __future__ import annotations

import threading
from array import array
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from ._nixl_lists import Prepared, cut, groups, rows_of
from ._nixl_transfer import GatedTransfer
from ._poller import Poller
from .gate import Gate, Stage
from .request import current

THREADS = 256
"""Most transfers that wait for permits; further ones are posted at once."""

_WHOLE = ("OBJ",)
"""Memory types whose descriptors have no parts."""

Owner = Callable[[str, bytes], "int | None"]
"""Finds the request of a transfer by its operation and notification."""


class GatedAgent:
    """Wraps a `nixl._api.nixl_agent`. Wrap it before the first `prep_xfer_dlist`: transfers of
    lists that were prepared earlier are not ordered.

    Without `owner`, the transfers of a thread belong to its `gate.request(...)`. `out` and `into`
    are the positions of the ports of writes and reads.
    """

    def __init__(
        self,
        agent: Any,
        gate: Gate,
        *,
        out: tuple[int, ...] = (0,),
        into: tuple[int, ...] = (0,),
        stage: Stage = Stage.HANDOFF,
        owner: Owner | None = None,
    ) -> None:
        self._agent = agent
        self._gate = gate
        self._ports = {"WRITE": out, "READ": into}
        self._stage = stage
        self._owner: Owner = owner or (lambda operation, notify: current(gate))
        self._lock = threading.RLock()
        self._poller = Poller()
        self._lists: dict[int, Prepared] = {}
        self._uses: Counter[int] = Counter()
        self._later: dict[int, Any] = {}
        self._threads = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._agent, name)
        if not callable(found):
            return found

        def locked(*args: Any, **named: Any) -> Any:
            with self._lock:
                return found(*args, **named)

        return locked

    def prep_xfer_dlist(
        self,
        agent_name: str,
        xfer_list: Any,
        mem_type: str | None = None,
        backends: list[str] = [],  # noqa: B006 (NIXL's own default)
    ) -> Any:
        """As the agent's. Descriptors larger than a chunk are prepared as several."""
        with self._lock:
            has_strides = getattr(xfer_list, "ndim", 0) == 2 and xfer_list.shape[1] == 5
            descs = xfer_list if has_strides else self._agent.get_xfer_descs(xfer_list, mem_type)
            memory = mem_type if has_strides else self._memory(descs)
            rows = list(rows_of(descs)) if descs is not None else []
            lengths, starts = array("Q", (row[1] for row in rows)), None
            if max(lengths, default=0) > self._gate.chunk and memory not in _WHOLE:
                pieces, starts = cut(rows, self._gate.chunk)
                lengths = array("Q", (row[1] for row in pieces))
                descs = self._agent.get_xfer_descs(pieces, memory)
            handle = self._agent.prep_xfer_dlist(agent_name, descs, mem_type, backends)
            self._lists[_key(handle)] = Prepared(lengths, starts)
            return handle

    def make_prepped_xfer(
        self,
        operation: str,
        local_xfer_side: Any,
        local_indices: Any,
        remote_xfer_side: Any,
        remote_indices: Any,
        notif_msg: bytes = b"",
        *more: Any,
        **named: Any,
    ) -> Any:
        """As the agent's; the handle may stand for several transfers."""
        with self._lock:
            sides = [_key(local_xfer_side), _key(remote_xfer_side)]
            local, remote = (self._lists.get(side) for side in sides)
            if local is None or remote is None:
                args = (operation, local_xfer_side, local_indices, remote_xfer_side, remote_indices)
                return self._agent.make_prepped_xfer(*args, notif_msg, *more, **named)
            ours, theirs = local.indices(local_indices), remote.indices(remote_indices)

            def make(begin: int, end: int, notify: bytes = b"") -> Any:
                at = slice(begin, end) if (begin, end) != (0, len(ours)) else slice(None)
                args = (operation, local_xfer_side, ours[at], remote_xfer_side, theirs[at])
                return self._agent.make_prepped_xfer(*args, notify, *more, **named)

            if not self._gate.is_open or len(ours) != len(theirs):
                return make(0, len(ours), notif_msg)
            parts = groups([local.lengths[at] for at in ours], self._gate.chunk)
            return self._handle(operation, make, parts, notif_msg, sides)

    def initialize_xfer(
        self,
        operation: str,
        local_descs: Any,
        remote_descs: Any,
        remote_agent: str,
        notif_msg: bytes = b"",
        *more: Any,
        **named: Any,
    ) -> Any:
        """As the agent's; the handle may stand for several transfers."""
        with self._lock:
            memories = (self._memory(local_descs), self._memory(remote_descs))
            chunk = 1 << 62 if any(one in _WHOLE for one in memories) else self._gate.chunk
            (ours, starts), (theirs, others) = (
                cut(rows_of(descs), chunk) for descs in (local_descs, remote_descs)
            )
            if not self._gate.is_open or starts != others:
                args = (operation, local_descs, remote_descs, remote_agent, notif_msg)
                return self._agent.initialize_xfer(*args, *more, **named)

            def make(begin: int, end: int) -> Any:
                sides = ((ours, memories[0]), (theirs, memories[1]))
                descs = [self._agent.get_xfer_descs(rows[begin:end], one) for rows, one in sides]
                return self._agent.initialize_xfer(
                    operation, *descs, remote_agent, b"", *more, **named
                )

            parts = groups([row[1] for row in ours], self._gate.chunk)
            return self._handle(operation, make, parts, notif_msg, [])

    def transfer(self, handle: Any, notif_msg: bytes = b"") -> str:
        """As the agent's. Returns PROC at once; the parts are posted as their permits come."""
        if not isinstance(handle, GatedTransfer):
            with self._lock:
                return str(self._agent.transfer(handle, notif_msg))
        handle.start(notif_msg)
        with self._lock:
            has_room = self._threads < THREADS
            self._threads += has_room
        if has_room:
            threading.Thread(target=self._post, args=(handle,), daemon=True).start()
        else:
            self._gate.guard.problem("threads", f"{THREADS} transfers wait: others are not ordered")
            handle.post_parts(self._gate.ungated(handle.size), self._poller.add)
        return "PROC"

    def check_xfer_state(self, handle: Any) -> str:
        """As the agent's, of the whole transfer."""
        return str(self._of(handle, GatedTransfer.check, "check_xfer_state"))

    def get_xfer_telemetry(self, handle: Any) -> Any:
        """As the agent's, over all parts."""
        return self._of(handle, GatedTransfer.telemetry, "get_xfer_telemetry")

    def query_xfer_backend(self, handle: Any) -> Any:
        """As the agent's."""
        ask = self._agent.query_xfer_backend
        return self._of(handle, lambda ours: ours.whole(ask), "query_xfer_backend")

    def estimate_xfer_cost(self, handle: Any) -> Any:
        """As the agent's; the wait for permits is not part of the estimate."""
        ask = self._agent.estimate_xfer_cost
        return self._of(handle, lambda ours: ours.whole(ask), "estimate_xfer_cost")

    def release_xfer_handle(self, handle: Any) -> None:
        """As the agent's: ends the transfer, with all parts that are not posted yet."""
        self._of(handle, GatedTransfer.release, "release_xfer_handle")

    def release_dlist_handle(self, handle: Any) -> None:
        """As the agent's, once no handle of a transfer needs the list any more."""
        with self._lock:
            if self._uses[_key(handle)]:
                self._later[_key(handle)] = handle
                return
            self._lists.pop(_key(handle), None)
            self._agent.release_dlist_handle(handle)

    def _of(self, handle: Any, ours: Callable[[GatedTransfer], Any], name: str) -> Any:
        if isinstance(handle, GatedTransfer):
            return ours(handle)
        with self._lock:
            return getattr(self._agent, name)(handle)

    def _handle(
        self, operation: str, make: Any, parts: Any, notify: bytes, lists: list[int]
    ) -> GatedTransfer:
        over = partial(self._unuse, lists)
        handle = GatedTransfer(self._agent, self._lock, make, parts, notify, over)
        handle.about = (self._owner(operation, notify), self._ports[operation])
        self._uses.update(lists)
        return handle

    def _post(self, handle: GatedTransfer) -> None:
        owner, ports = handle.about
        try:
            transfer = self._gate.transfer(self._stage, owner, 0, handle.size, ports)
            handle.post(transfer, self._poller.add)
        finally:
            with self._lock:
                self._threads -= 1

    def _unuse(self, lists: list[int]) -> None:
        with self._lock:
            self._uses.subtract(lists)
            self._uses += Counter()
            for one in lists:
                if not self._uses[one] and (handle := self._later.pop(one, None)) is not None:
                    self.release_dlist_handle(handle)

    def _memory(self, descs: Any) -> str:
        """The name of a list's memory type."""
        kind = descs.getType()
        return next((name for name, one in self._agent.nixl_mems.items() if one == kind), "OBJ")


def _key(handle: Any) -> int:
    """A list's address. Some versions of NIXL wrap it in an object."""
    return int(getattr(handle, "_handle", handle))
