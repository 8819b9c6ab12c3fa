"""Exchanges between the two ranks: one connection each way, and an acknowledgement for each part.

A direction ends when the peer has all of its bytes. With a gate a part is a chunk: it counts as
completed when it is acknowledged, and two chunks may be on the way. Without one a part is all.
"""

from __future__ import annotations

import queue
import socket
import struct
import threading

from meridian_flow import Gate, Stage

from .wires import mark, receive

HEAD = struct.Struct("!IQ")
"""The number of an exchange, and the bytes of the part that follow."""
AHEAD = 2
"""Chunks on the way."""
PATIENCE = 60.0


class Outgoing:
    """The direction in which this rank sends."""

    def __init__(self, connection: socket.socket, chunk: int) -> None:
        self._socket = mark(connection)
        self._socket.settimeout(PATIENCE)
        self._chunk = chunk
        self._zeros = memoryview(bytes(chunk))

    def send(
        self,
        number: int,
        size: int,
        gate: Gate | None,
        batch: int,
        layer: int,
        ports: tuple[int, int],
    ) -> None:
        """Sends an exchange and waits until the peer has it."""
        if gate is None:
            self._part(number, size)
            receive(self._socket, 1)
            return
        flying: list[int] = []
        left = size
        with gate.transfer(Stage.COLLECTIVE, batch, layer, size, ports) as transfer:
            while left or flying:
                if left and len(flying) < AHEAD:
                    length = transfer.permit(min(left, self._chunk))
                    self._part(number, length)
                    left -= length
                    flying.append(length)
                else:
                    receive(self._socket, 1)
                    transfer.completed(flying.pop(0))

    def _part(self, number: int, size: int) -> None:
        self._socket.sendall(HEAD.pack(number, size))
        while size:
            length = min(size, self._chunk)
            self._socket.sendall(self._zeros[:length])
            size -= length


class Incoming:
    """The direction in which this rank receives; a thread reads and acknowledges."""

    def __init__(self, connection: socket.socket, chunk: int) -> None:
        self._socket = mark(connection)
        self._buffer = memoryview(bytearray(chunk))
        self._parts: queue.Queue[tuple[int, int]] = queue.Queue()
        self._early: dict[int, int] = {}
        threading.Thread(target=self._read, daemon=True).start()

    def wait(self, number: int, size: int) -> None:
        """Waits for all bytes of an exchange. The peer may be one exchange ahead."""
        have = self._early.pop(number, 0)
        while have < size:
            other, length = self._parts.get(timeout=PATIENCE)
            if other == number:
                have += length
            else:
                self._early[other] = self._early.get(other, 0) + length

    def _read(self) -> None:
        while True:
            try:
                number, size = HEAD.unpack(receive(self._socket, HEAD.size))
                receive(self._socket, size, self._buffer)
                self._socket.sendall(b"\0")
            except ConnectionError:
                return
            self._parts.put((number, size))
