"""The scheduler's side of the vLLM connector: it knows deadlines, and the worker needs them.

The two are different processes, so deadlines travel with the metadata of each step. They are times
of the wall clock, which processes of one host share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorMetadata

BUDGET = "slo_ttft_ms"
"""The member of a request's `kv_transfer_params` with the time that was left for its first token
when the gateway sent it, in milliseconds."""


class Due(NamedTuple):
    """When a request's first token is due."""

    at: float
    """Seconds of the wall clock."""
    slo_ms: float


@dataclass
class MeridianMetadata(KVConnectorMetadata):  # type: ignore[misc]
    """The inner connector's metadata of a step, and the requests that the worker must know."""

    inner: Any = None
    started: dict[str, Due | None] = field(default_factory=dict)
    """Requests that are computed or loaded from this step on; `None` is best effort."""
    ended: list[str] = field(default_factory=list)
    """Requests that have no transfers left."""


class Deadlines:
    """Collects what happens to requests between two steps."""

    def __init__(self) -> None:
        self._due: dict[str, Due | None] = {}
        self._loads: list[str] = []
        self._ended: list[str] = []

    def arrived(self, request: Any) -> None:
        """A request enters the scheduler."""
        self._due[request.request_id] = due_of(request)

    def loads(self, request: Any) -> None:
        """A request's KV will be fetched."""
        self._loads.append(request.request_id)

    def finished(self, request_id: str) -> None:
        """A request has neither computation nor transfers left."""
        if request_id in self._due:
            del self._due[request_id]
            self._ended.append(request_id)

    def step(self, metadata: MeridianMetadata, scheduler_output: Any) -> None:
        """Fills in the metadata of a step."""
        new = [one.req_id for one in scheduler_output.scheduled_new_reqs]
        known = [one for one in (*self._loads, *new) if one in self._due]
        metadata.started = {one: self._due[one] for one in known}
        metadata.ended, self._loads, self._ended = self._ended, [], []


def due_of(request: Any) -> Due | None:
    """A request's deadline, if its parameters have one that is a positive number."""
    parameters = getattr(request, "kv_transfer_params", None)
    left = parameters.get(BUDGET) if isinstance(parameters, dict) else None
    if not isinstance(left, (int, float)) or isinstance(left, bool):
        return None
    if not math.isfinite(left) or left <= 0:
        return None
    return Due(request.arrival_time + left / 1000, float(left))
