"""Runs one host of the testbed: `python -m testbed SETTINGS.json`.

It says `{"ready": ...}`, reads the places of the others and the start from its input, says
`{"done": ...}` after its part, and ends when its input closes.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from typing import Any

from meridian_flow import Gate

from .engine import Engine
from .plan import HOSTS, Clock, Settings
from .rank import Rank
from .store import Store
from .wires import PORT, mark

PATIENCE = 30.0


def main() -> None:
    settings = Settings.read(sys.argv[1])
    # Threads of transfers should not wait for the interpreter longer than for a chunk.
    sys.setswitchinterval(0.0005)
    engine = Engine(settings.addresses[settings.host])
    listener = socket.create_server((settings.addresses[settings.host], PORT))
    listener.settimeout(PATIENCE)
    tell(ready={"target": engine.target, "address": engine.address, "now": time.monotonic()})
    told = json.loads(sys.stdin.readline())
    peers, clock = told["peers"], Clock(told["start"])
    gate = open_gate(settings)
    found: dict[str, Any] = {}
    if settings.host in HOSTS[:2]:
        found = as_rank(settings, engine, gate, peers, listener).run(clock)
    elif settings.host == "store":
        found = as_store(settings, engine, gate, peers, listener).run(clock)
    if gate:
        found["gate"] = gate.counters() | {"coordinator": gate.status().get("coordinator")}
    tell(done=found)
    sys.stdin.read()


def tell(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def open_gate(settings: Settings) -> Gate | None:
    """The gate of this host, or none if its flows need no permits."""
    if settings.gate == "none" or settings.host == "decode":
        return None
    gate = Gate(
        settings.ports(),
        policy=settings.policy,
        node=settings.host,
        chunk=settings.plan["chunk"],
        window=2 * settings.plan["chunk"],
        hold_ms=HOLD_MS,
        coordinator=settings.coordinator,
    )
    if not gate.is_open:
        sys.exit("the gate is closed: build meridian-flow-abi and set MERIDIAN_FLOW_LIBRARY")
    return gate


HOLD_MS = 100.0
"""A chunk takes milliseconds on a slow link: a port without progress for less has not stalled."""


def as_rank(
    settings: Settings,
    engine: Engine,
    gate: Gate | None,
    peers: dict[str, Any],
    listener: socket.socket,
) -> Rank:
    other = HOSTS[1 - settings.rank]
    made = connect(settings.addresses[other])
    accepted, _ = listener.accept()
    store = mark(connect(settings.addresses["store"]))
    store.sendall(bytes([settings.rank]))
    warm(engine, [peers["decode"]])
    return Rank(settings, engine, gate, peers, (made, accepted, store))


def as_store(
    settings: Settings,
    engine: Engine,
    gate: Gate | None,
    peers: dict[str, Any],
    listener: socket.socket,
) -> Store:
    ranks: dict[int, socket.socket] = {}
    while len(ranks) < 2:
        connection, _ = listener.accept()
        ranks[connection.recv(1)[0]] = mark(connection)
    warm(engine, [peers[host] for host in HOSTS[:2]])
    return Store(settings, engine, gate, peers, [ranks[0], ranks[1]])


def connect(address: str) -> socket.socket:
    """Connects to a host's listener, which is there: every host was ready before."""
    connection = socket.create_connection((address, PORT), timeout=PATIENCE)
    connection.settimeout(None)
    return connection


def warm(engine: Engine, peers: list[dict[str, Any]]) -> None:
    """Opens Mooncake's connections, so that no transfer of the run pays for it."""
    for peer in peers:
        threads = [threading.Thread(target=engine.write, args=(peer, 65536)) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
