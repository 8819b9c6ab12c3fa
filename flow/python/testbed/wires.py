"""Sockets between the hosts: marked for the upper traffic class, and lines of JSON on them."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any

PORT = 7300
"""The port at which a rank accepts exchanges, and the store requests."""
TOS = 172
"""The collectives' code point, 43, as the byte of the IP header."""


def mark(connection: socket.socket) -> socket.socket:
    """Marks what this side sends: collectives, and short messages that must not wait behind KV."""
    connection.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, TOS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Bytes that the kernel holds are out of the gate's hands.
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 128 << 10)
    return connection


def receive(connection: socket.socket, size: int, buffer: memoryview | None = None) -> bytes:
    """Exactly `size` bytes; with a buffer they are read and dropped."""
    if buffer is not None:
        while size:
            count = connection.recv_into(buffer, min(size, len(buffer)))
            if not count:
                raise ConnectionError("the other rank has closed its connection")
            size -= count
        return b""
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        if not part:
            raise ConnectionError("the other host has closed its connection")
        found += part
    return found


def say(connection: socket.socket, **message: Any) -> None:
    """Sends one message."""
    connection.sendall(json.dumps(message).encode() + b"\n")


def messages(connection: socket.socket) -> Iterator[dict[str, Any]]:
    """The messages of a connection, until it closes."""
    with connection.makefile("rb") as lines:
        for line in lines:
            yield json.loads(line)
