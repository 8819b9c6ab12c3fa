"""The KV store: writes cached KV to the rank that needs it, when a batch starts.

The store writes, and no rank reads: bytes are ordered where they leave, and that is the store's own
gate. It hears of batches and their layers from the first rank.
"""

from __future__ import annotations

import socket
import threading
from typing import Any

from meridian_flow import Gate, Stage

from .engine import Engine
from .plan import HOSTS, Clock, Settings, path
from .rank import layer_us
from .wires import messages, say


class Store:
    """The store and its connections to the ranks."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        gate: Gate | None,
        peers: dict[str, Any],
        ranks: list[socket.socket],
    ) -> None:
        self._plan, self._engine, self._gate, self._peers = settings.plan, engine, gate, peers
        self._ranks = ranks
        self._lock = threading.Lock()
        self._left: dict[int, int] = {}

    def run(self, clock: Clock) -> dict[str, Any]:
        """Serves until the last batch has departed."""
        last = len(self._plan["batches"]) - 1
        for message in messages(self._ranks[0]):
            if "batch" in message:
                self._batch(message["batch"], clock)
            elif "layer" in message and self._gate:
                number, layer = message["layer"]
                self._gate.layer(number + 1, layer)
            elif "departed" in message:
                if self._gate:
                    self._gate.departed(message["departed"] + 1)
                if message["departed"] == last:
                    return {}
        raise ConnectionError("the first rank has closed its connection")

    def _batch(self, number: int, clock: Clock) -> None:
        batch = self._plan["batches"][number]
        if self._gate:
            self._announce(number, batch, clock)
        for layer in range(self._plan["layers"]):
            for request in batch["requests"]:
                if self._plan["requests"][request]["fetch"] > 0:
                    arguments = (number, request, layer)
                    threading.Thread(target=self._send, args=arguments, daemon=True).start()

    def _announce(self, number: int, batch: dict[str, Any], clock: Clock) -> None:
        assert self._gate is not None
        layers, members = self._plan["layers"], []
        for request in batch["requests"]:
            one = self._plan["requests"][request]
            plan = [
                {"port": port, "reuse": layers * one["fetch"]}
                for port in ("store/out", f"{HOSTS[one['rank']]}/in")
            ]
            left = (one["arrival"] + one["slo"] - clock.now()) * 1e3
            members.append({"request": request + 1, "ttft_left_ms": left, "plan": plan})
        self._gate.batch(members, layers=layers, layer_us=layer_us(batch), batch=number + 1)

    def _send(self, number: int, request: int, layer: int) -> None:
        one = self._plan["requests"][request]
        rank = one["rank"]
        ways, peer = path("store", HOSTS[rank]), self._peers[HOSTS[rank]]
        self._engine.send(self._gate, Stage.REUSE, request + 1, layer, one["fetch"], ways, peer)
        with self._lock:
            say(self._ranks[rank], fetched=[number, layer])
            left = self._left[request] = self._left.get(request, self._plan["layers"]) - 1
        if left == 0 and self._gate:
            self._gate.ended(request + 1)
