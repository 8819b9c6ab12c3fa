"""Mooncake's `TransferEngine` with a gate: its transfers leave in chunks, the urgent ones first.

All other methods pass through, and so does everything without a gate. A write leaves by this
process's own card. The bytes of a read leave at the other side, where this gate is not, so reads
are ordered by the port through which they arrive.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Sequence
from typing import Any

from ._lanes import Cut, Lanes, Piece
from ._mooncake_forms import FORMS, Job
from ._poller import pauses
from .gate import Gate, Stage
from .request import current

THREADS = 256
"""Most asynchronous transfers that wait for permits; further ones go to the engine at once."""


class GatedTransferEngine:
    """Wraps a `mooncake.engine.TransferEngine`.

    The transfers of a thread belong to its `gate.request(...)`; without one they are served best
    effort. `out` and `into` are the positions of the ports of writes and reads.
    """

    def __init__(
        self,
        engine: Any,
        gate: Gate,
        *,
        out: tuple[int, ...] = (0,),
        into: tuple[int, ...] = (0,),
        stage: Stage = Stage.HANDOFF,
    ) -> None:
        self._engine = engine
        self._gate = gate
        self._ports = {"write": out, "read": into}
        self._stage = stage
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._running: dict[int, _Running] = {}
        self._threads = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._engine, name)
        if name not in FORMS:
            return method
        return lambda *args, **named: self._start(name, method, args, named)

    def transfer_check_status(self, batch_id: int) -> int:
        """As the engine's: 1 when completed, -1 when failed, 0 while it runs."""
        running = self._running.get(batch_id)
        if running is None:
            return int(self._engine.transfer_check_status(batch_id))
        if not running.done.is_set():
            return 0
        self._running.pop(batch_id, None)
        return -1 if running.code else 1

    def get_batch_transfer_status(self, batch_ids: Sequence[int]) -> int:
        """As the engine's: waits for all of them; 0, or -1 when one failed."""
        ours = [(one, self._running[one]) for one in batch_ids if one in self._running]
        others = [one for one in batch_ids if one not in self._running]
        code = int(self._engine.get_batch_transfer_status(others)) if others else 0
        for one, running in ours:
            running.done.wait()
            self._running.pop(one, None)
            code = code or (-1 if running.code else 0)
        return code

    def _start(self, name: str, method: Any, args: Any, named: Any) -> int:
        job = FORMS[name](*args, **named)
        sizes = {len(job.buffers), len(job.peers), len(job.lengths)}
        # Without a gate, and where the engine has an error of its own, it gets the call as it is.
        if not self._gate.is_open or len(sizes) > 1 or sum(job.lengths) <= 0:
            return int(method(*args, **named))
        owner = current(self._gate)
        if "async" not in name and "submit" not in name:
            return self._send(job, owner)
        with self._lock:
            has_room = self._threads < THREADS
            self._threads += has_room
        if not has_room:
            self._gate.guard.problem("threads", f"{THREADS} transfers wait: others are not ordered")
            return int(method(*args, **named))
        # The engine's own ids are addresses, so small numbers are free.
        running, number = _Running(), next(self._ids)
        self._running[number] = running
        threading.Thread(target=self._run, args=(running, job, owner), daemon=True).start()
        return number

    def _run(self, running: _Running, job: Job, owner: int | None) -> None:
        try:
            running.code = self._send(job, owner)
        finally:
            with self._lock:
                self._threads -= 1
            running.done.set()

    def _send(self, job: Job, owner: int | None) -> int:
        """Sends a transfer in chunks. The engine's message to the peer goes with the last one."""
        cut = Cut(job.lengths)
        keep = min(self._gate.chunk, cut.left) if job.notify is not None else 0
        ports = self._ports[job.verb]
        with self._gate.transfer(self._stage, owner, 0, cut.left, ports) as transfer:
            lanes = Lanes(transfer, cut, lambda pieces: self._pieces(job, pieces), self._gate.chunk)
            code = lanes.run(keep)
            while code == 0 and keep > 0:
                keep -= transfer.permit(keep)
            if code == 0 and cut.left:
                size = cut.left
                code = self._pieces(job, cut.take(size), job.notify)
                transfer.completed(0 if code else size)
        return code

    def _pieces(self, job: Job, pieces: list[Piece], notify: Any = None) -> int:
        buffers = [job.buffers[at] + offset for at, offset, _ in pieces]
        peers = [job.peers[at] + offset for at, offset, _ in pieces]
        lengths = [length for _, _, length in pieces]
        # The engine's status of a batch is that of its first buffer.
        if len(pieces) == 1 and notify is None:
            code = self._posted(job, buffers, peers, lengths)
            if code is not None:
                return code
        if notify is not None:
            send, more = self._engine.batch_transfer_sync, (job.opcode, notify, *job.hint)
        else:
            send, more = getattr(self._engine, f"batch_transfer_sync_{job.verb}"), job.hint
        return int(send(job.target, buffers, peers, lengths, *more))

    def _posted(self, job: Job, *buffer: list[int]) -> int | None:
        """Sends one buffer: 0 when it has arrived, -1 when it has not in the engine's own time.

        The engine's own wait occupies a processor, for as long if the peer has stopped. `None` after
        a failure: the caller repeats it by the engine's own call, which connects again.
        """
        post = getattr(self._engine, f"batch_transfer_async_{job.verb}")
        number = int(post(job.target, *buffer, *job.hint))
        if number == 0:
            return None
        until = time.monotonic() + _patience()
        for pause in pauses():
            if status := int(self._engine.transfer_check_status(number)):
                return 0 if status == 1 else None
            if time.monotonic() > until:
                break
            time.sleep(pause)
        return -1


def _patience() -> float:
    """Seconds until the engine's own calls give a transfer up."""
    given = os.environ.get("MC_TRANSFER_TIMEOUT", "30")
    return max(5.0, float(given)) if given.isdecimal() else 30.0


class _Running:
    """An asynchronous transfer. Its code counts as an error until the engine has returned one."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.code = -1
