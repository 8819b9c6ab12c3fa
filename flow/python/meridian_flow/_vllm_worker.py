"""The worker's side of the vLLM connector: it has the gate, and reports steps and layers to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from ._vllm_scheduler import Due, MeridianMetadata
from .gate import Gate, number_of
from .nixl import GatedAgent

LAYER_US = 1000.0
"""A layer's time before the first one was measured; the gate learns the actual pace."""


class Steps:
    """The requests and the batch of the current step, as the gate knows them."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._layers: dict[str, int] = {}
        self._announced: set[str] = set()
        self._names: dict[str, str] = {}
        self._batch: int | None = None
        self._layer = 0

    def caches(self, names: Iterable[str]) -> None:
        """The model's layers, in order."""
        self._layers = {name: at for at, name in enumerate(names)}

    def begin(self, metadata: MeridianMetadata) -> None:
        """A step begins. Its new requests are one batch."""
        self.finish()
        self.ended(metadata.ended)
        receives = getattr(metadata.inner, "reqs_to_recv", None) or {}
        for request, about in receives.items():
            # NIXL's notifications, by which transfers are found, name the prefill replica's id.
            remote = getattr(getattr(about, "remote", None), "request_id", None)
            self._names[remote or request] = request
        new = {one: due for one, due in metadata.started.items() if one not in self._announced}
        if new:
            self._announced |= new.keys()
            members = [_member(request, due) for request, due in new.items()]
            layers = max(1, len(self._layers))
            self._batch = self._gate.batch(members, layers=layers, layer_us=LAYER_US)
            self._layer = 0

    def layer(self, name: str) -> None:
        """The computation reaches a layer."""
        at = self._layers.get(name, 0)
        if self._batch is not None and at > self._layer:
            self._layer = at
            self._gate.layer(self._batch, at)

    def finish(self) -> None:
        """The step has computed its last layer."""
        if self._batch is not None:
            self._gate.departed(self._batch)
            self._batch = None

    def ended(self, requests: Iterable[str]) -> None:
        """Requests have no transfers left."""
        over = self._announced & set(requests)
        self._announced -= over
        for request in over:
            self._gate.ended(request)
        if over:
            self._names = {one: own for one, own in self._names.items() if own not in over}

    def owner(self, operation: str, notify: bytes) -> int | None:
        """The request of a transfer of NIXL: its notification is `ID:COUNT`."""
        name = notify.decode(errors="replace").rpartition(":")[0]
        request = self._names.get(name, name)
        return number_of(request) if request in self._announced else None


def gate_agents(inner: Any, wrap: Callable[[Any], GatedAgent]) -> int:
    """Puts gates around the NIXL agents of a connector's workers; returns their number.

    The agent's attribute has had several names, so it is found by its methods. A connector of
    several has its children in `_connectors`.
    """
    found = 0
    for connector in (inner, *getattr(inner, "_connectors", ())):
        worker = getattr(connector, "connector_worker", None)
        for name, value in list(getattr(worker, "__dict__", {}).items()):
            if isinstance(value, GatedAgent):
                continue
            if all(hasattr(value, one) for one in ("make_prepped_xfer", "check_xfer_state")):
                setattr(worker, name, wrap(value))
                found += 1
    return found


def _member(request: str, due: Due | None) -> dict[str, Any]:
    if due is None:
        return {"request": request}
    left = (due.at - time.time()) * 1000
    return {"request": request, "ttft_left_ms": left, "slo_ms": due.slo_ms}
