"""A rank of the prefill replica: computes layers, exchanges with the other rank, hands KV over."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

from meridian_flow import Gate, Stage

from .engine import Engine
from .exchange import PATIENCE, Incoming, Outgoing
from .plan import HOSTS, Clock, Settings, path
from .wires import messages, say


class Rank:
    """One rank and its connections."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        gate: Gate | None,
        peers: dict[str, Any],
        links: tuple[socket.socket, socket.socket, socket.socket],
    ) -> None:
        out, into, self._store = links
        plan = settings.plan
        self._plan, self._engine, self._gate, self._peers = plan, engine, gate, peers
        self._rank, self._host = settings.rank, settings.host
        self._collectives = gate if settings.gate == "all" else None
        self._outgoing = Outgoing(out, plan["chunk"])
        self._incoming = Incoming(into, plan["chunk"])
        self._ways = path(self._host, HOSTS[1 - self._rank])
        self._arrived = threading.Condition()
        self._fetched: dict[tuple[int, int], int] = {}
        self._left: dict[int, int] = {}
        self._handoffs: list[threading.Thread] = []
        self.ends: dict[int, float] = {}
        self.batches: list[float] = []
        self.exchanges: list[float] = []
        threading.Thread(target=self._hear, daemon=True).start()

    def run(self, clock: Clock) -> dict[str, Any]:
        """Runs all batches; the times at which they and their requests ended."""
        for number, batch in enumerate(self._plan["batches"]):
            clock.until(batch["from"])
            self._batch(number, batch, clock)
            self.batches.append(clock.now())
        for thread in self._handoffs:
            thread.join(PATIENCE)
        own = sum(one["rank"] == self._rank for one in self._plan["requests"])
        if len(self.ends) != own:
            raise RuntimeError(f"{own - len(self.ends)} of {own} requests were not handed over")
        return {"ends": self.ends, "batches": self.batches, "exchanges": self.exchanges}

    def _batch(self, number: int, batch: dict[str, Any], clock: Clock) -> None:
        own = [
            one for one in batch["requests"] if self._plan["requests"][one]["rank"] == self._rank
        ]
        self._announce(number, batch, own, clock)
        if self._rank == 0:
            say(self._store, batch=number)
        for layer in range(self._plan["layers"]):
            if self._gate:
                self._gate.layer(number + 1, layer)
            if self._rank == 0:
                say(self._store, layer=[number, layer])
            self._await_fetches(number, layer, own)
            time.sleep(batch["attention"][self._rank])
            for request in own:
                self._hand_over(request, layer, clock)
            self._exchange(number, batch, layer, 0, clock)
            time.sleep(batch["experts"][self._rank])
            self._exchange(number, batch, layer, 1, clock)
        if self._gate:
            self._gate.departed(number + 1)
        if self._rank == 0:
            say(self._store, departed=number)

    def _announce(self, number: int, batch: dict[str, Any], own: list[int], clock: Clock) -> None:
        if self._gate is None:
            return
        layers = self._plan["layers"]
        ways = [f"{self._host}/out", f"{HOSTS[1 - self._rank]}/in"]
        sent = 2 * layers * batch["exchange"][self._rank]
        members = []
        for request in own:
            one = self._plan["requests"][request]
            plan = [
                {"port": port, "handoff": layers * one["handoff"]}
                for port in (f"{self._host}/out", "decode/in")
            ]
            left = (one["arrival"] + one["slo"] - clock.now()) * 1e3
            members.append({"request": request + 1, "ttft_left_ms": left, "plan": plan})
        self._gate.batch(
            members,
            layers=layers,
            layer_us=layer_us(batch),
            collectives=[{"port": way, "bytes": sent} for way in ways],
            batch=number + 1,
        )

    def _await_fetches(self, number: int, layer: int, own: list[int]) -> None:
        needed = sum(self._plan["requests"][one]["fetch"] > 0 for one in own)
        with self._arrived:
            if not self._arrived.wait_for(
                lambda: self._fetched.get((number, layer), 0) >= needed, PATIENCE
            ):
                raise TimeoutError(f"batch {number} has no fetched KV of layer {layer}")

    def _hear(self) -> None:
        """Notes fetches that have arrived."""
        for message in messages(self._store):
            number, layer = message["fetched"]
            with self._arrived:
                self._fetched[number, layer] = self._fetched.get((number, layer), 0) + 1
                self._arrived.notify_all()

    def _exchange(
        self, number: int, batch: dict[str, Any], layer: int, half: int, clock: Clock
    ) -> None:
        nth = (number * self._plan["layers"] + layer) * 2 + half
        mine, theirs = batch["exchange"][self._rank], batch["exchange"][1 - self._rank]
        begin = clock.now()
        self._outgoing.send(nth, mine, self._collectives, number + 1, layer, self._ways)
        self.exchanges.append(clock.now() - begin)
        self._incoming.wait(nth, theirs)

    def _hand_over(self, request: int, layer: int, clock: Clock) -> None:
        """Sends the KV of a layer in a thread of its own."""
        size, ways = self._plan["requests"][request]["handoff"], path(self._host, "decode")

        def send() -> None:
            peer = self._peers["decode"]
            self._engine.send(self._gate, Stage.HANDOFF, request + 1, layer, size, ways, peer)
            with self._arrived:
                left = self._left.get(request, self._plan["layers"]) - 1
                self._left[request] = left
            if left == 0:
                self.ends[request] = clock.now()
                if self._gate:
                    self._gate.ended(request + 1)

        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        self._handoffs.append(thread)


def layer_us(batch: dict[str, Any]) -> float:
    """The estimated time to compute a layer."""
    return float(max(batch["attention"]) + batch["experts"][0]) * 1e6
