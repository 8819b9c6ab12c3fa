"""Mooncake's engine of a host, and its sub-writes behind the gate."""

from __future__ import annotations

import ctypes
from typing import Any

from meridian_flow import Gate, Stage
from meridian_flow._lanes import Cut, Lanes

SIZE = 64 << 20
"""Registered memory: larger than any flow. Contents mean nothing, so all flows share it."""


class Engine:
    """A `TransferEngine` with registered memory."""

    def __init__(self, address: str) -> None:
        from mooncake.engine import TransferEngine

        self._engine: Any = TransferEngine()
        if code := self._engine.initialize(address, "P2PHANDSHAKE", "tcp", ""):
            raise SystemExit(f"Mooncake does not start at {address}: error {code}")
        self._memory = (ctypes.c_char * SIZE)()
        self.address = ctypes.addressof(self._memory)
        if code := self._engine.register_memory(self.address, SIZE):
            raise SystemExit(f"Mooncake does not register memory at {address}: error {code}")
        self.target = f"{address}:{self._engine.get_rpc_port()}"

    def write(self, peer: dict[str, Any], size: int) -> None:
        """Writes `size` bytes into the peer's memory."""
        code = self._engine.transfer_sync_write(peer["target"], self.address, peer["address"], size)
        if code:
            raise RuntimeError(f"Mooncake cannot write to {peer['target']}: error {code}")

    def send(
        self,
        gate: Gate | None,
        stage: Stage,
        owner: int,
        layer: int,
        size: int,
        ports: tuple[int, ...],
        peer: dict[str, Any],
    ) -> None:
        """Writes a flow, whole or permit by permit."""
        if gate is None:
            self.write(peer, size)
            return

        def pieces(found: list[tuple[int, int, int]]) -> int:
            self.write(peer, sum(length for _, _, length in found))
            return 0

        with gate.transfer(stage, owner, layer, size, ports) as transfer:
            Lanes(transfer, Cut([size]), pieces, gate.chunk).run()
