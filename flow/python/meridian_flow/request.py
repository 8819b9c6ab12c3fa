"""A request around its transfers, for code that moves KV without knowing batches and layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any

from .transfer import Transfer

if TYPE_CHECKING:
    from .gate import Gate, Stage

_current: ContextVar[Request | None] = ContextVar("meridian_flow_request", default=None)


class Request:
    """One request, announced to the gate as a batch of its own.

    Inside `with`, wrapped engines find it as the owner of the transfers that this thread starts.
    """

    def __init__(
        self,
        gate: Gate,
        number: int,
        batch: int,
        *,
        ttft_left_ms: float | None = None,
        slo_ms: float | None = None,
        decode_ms: float | None = None,
        layers: int = 0,
        layer_us: float = 0,
        plan: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """`ttft_left_ms` is the time left until the first token is due; without it the request is
        served best effort. `layers` is for a request that is computed here: its reuse needs a live
        batch, while KV of a finished prompt (0, the default) does not."""
        self.gate = gate
        self.number = number
        self.batch = batch
        self._layers = layers
        self._layer_us = layer_us
        self._member: dict[str, Any] = {
            "request": number,
            "ttft_left_ms": ttft_left_ms,
            "slo_ms": slo_ms,
        }
        self._member |= {"decode_ms": decode_ms, "plan": list(plan)}
        self._token: Token[Request | None] | None = None

    def transfer(
        self, stage: Stage, size: int, layer: int = 0, ports: tuple[int, ...] = (0,)
    ) -> Transfer:
        """A transfer of this request."""
        return self.gate.transfer(stage, self.number, layer, size, ports)

    def start(self) -> None:
        """Announces the request."""
        layers, layer_us = max(1, self._layers), self._layer_us
        self.gate.batch([self._member], layers=layers, layer_us=layer_us, batch=self.batch)
        if self._layers == 0:
            self.gate.departed(self.batch)

    def end(self) -> None:
        """Ends the request with all of its transfers."""
        if self._layers > 0:
            self.gate.departed(self.batch)
        self.gate.ended(self.number)

    def __enter__(self) -> Request:
        self.start()
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _current.reset(self._token)
        self.end()


def current(gate: Gate) -> int | None:
    """The request whose transfers this thread starts, if it belongs to this gate."""
    request = _current.get()
    return request.number if request is not None and request.gate is gate else None
