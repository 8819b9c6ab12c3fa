"""The real Mooncake engine in two processes, over TCP on loopback."""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import time
import unittest
from typing import Any

from meridian_flow import Gate
from meridian_flow.gate import number_of
from tests.fake import FakeLibrary
from tests.real import PATIENCE, PORTS, other_process, real_gate, receive, require

KIB = 1024
SIZE = 8192 * KIB


def engine() -> tuple[Any, Any, int]:
    """A started engine with registered memory, and its address."""
    from mooncake.engine import TransferEngine

    one = TransferEngine()
    if code := one.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", ""):
        raise AssertionError(f"Mooncake does not start: {code}")
    space = (ctypes.c_char * SIZE)()
    one.register_memory(ctypes.addressof(space), SIZE)
    return one, space, ctypes.addressof(space)


def peer(pipe: Any) -> None:
    """The other side: answers with its memory, and with the messages that came."""
    one, space, address = engine()
    space[:] = bytes(reversed(range(256))) * (SIZE // 256)
    pipe.send((f"127.0.0.1:{one.get_rpc_port()}", address))
    while (order := pipe.recv()) != "end":
        if order == "memory":
            pipe.send(bytes(space))
        else:
            pipe.send([(one.name, one.msg) for one in one.get_notifies()])
    os._exit(0)


class Real(unittest.TestCase):
    """One pair of processes for all tests, since each start takes seconds."""

    @classmethod
    def setUpClass(cls) -> None:
        require("mooncake")
        cls.engine, cls.space, cls.address = engine()
        both = other_process(peer)
        cls.process, cls.pipe = both.__enter__()
        cls.addClassCleanup(both.__exit__, None, None, None)
        cls.target, cls.there = receive(cls.pipe)

    def setUp(self) -> None:
        from meridian_flow.mooncake import GatedTransferEngine

        self.library = FakeLibrary()
        self.gate = Gate(PORTS, library=self.library)
        self.gated = GatedTransferEngine(self.engine, self.gate, out=(0,), into=(1,))
        self.space[:] = os.urandom(SIZE)

    def memory(self) -> bytes:
        self.pipe.send("memory")
        return bytes(receive(self.pipe))

    def test_a_write_arrives(self) -> None:
        code = self.gated.transfer_sync_write(self.target, self.address, self.there, SIZE)
        self.assertEqual(code, 0)
        self.assertEqual(self.memory(), bytes(self.space))
        self.assertEqual(len(self.library.order), SIZE // (256 * KIB))
        self.assertEqual(self.library.flows, {})

    def test_a_read_arrives(self) -> None:
        want = self.memory()
        code = self.gated.transfer_sync_read(self.target, self.address, self.there, SIZE)
        self.assertEqual(code, 0)
        self.assertEqual(bytes(self.space), want)

    def test_a_batch_of_odd_buffers_arrives(self) -> None:
        lengths = [1, 700 * KIB, 3, 256 * KIB, 5000]
        starts = [sum(lengths[:at]) for at in range(len(lengths))]
        ours = [self.address + start for start in starts]
        theirs = [self.there + start for start in starts]
        code = self.gated.batch_transfer_sync_write(self.target, ours, theirs, lengths)
        self.assertEqual(code, 0)
        total = sum(lengths)
        self.assertEqual(self.memory()[:total], bytes(self.space[:total]))

    def test_asynchronous_writes_arrive(self) -> None:
        half = SIZE // 2
        args = (self.target, [self.address], [self.there], [half])
        batch = self.gated.batch_transfer_async_write(*args)
        single = self.gated.transfer_submit_write(
            self.target, self.address + half, self.there + half, half
        )
        self.assertEqual(self.gated.get_batch_transfer_status([batch]), 0)
        end = time.monotonic() + PATIENCE
        while (status := self.gated.transfer_check_status(single)) == 0:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.001)
        self.assertEqual(status, 1)
        self.assertEqual(self.memory(), bytes(self.space))

    def test_urgent_before_bulk(self) -> None:
        """All wait before the first permit, so that the order does not depend on threads."""
        self.library.hold(True)
        size = 256 * KIB
        names = ["bulk", "urgent"] * (SIZE // size // 2)
        threads = [
            threading.Thread(target=self.write, args=(name, nth * size, size))
            for nth, name in enumerate(names)
        ]
        for thread in threads:
            thread.start()
        self.library.until(lambda: len(self.library.asking) == len(names))
        self.library.hold(False)
        for thread in threads:
            thread.join()
        self.assertEqual(self.memory(), bytes(self.space))
        owners = [number_of(one) for one in ("urgent", "bulk") for _ in range(len(names) // 2)]
        self.assertEqual(self.library.order, owners)

    def test_with_the_scheduler_itself(self) -> None:
        from meridian_flow.mooncake import GatedTransferEngine

        with real_gate() as gate:
            gated = GatedTransferEngine(self.engine, gate, into=(1,))
            with gate.request("r", ttft_left_ms=5000):
                code = gated.transfer_sync_write(self.target, self.address, self.there, SIZE)
            self.assertEqual(code, 0)
            self.assertEqual(self.memory(), bytes(self.space))
            counts = {"transfers": 1, "gated_bytes": SIZE, "ungated_bytes": 0, "problems": 0}
            self.assertEqual(gate.counters(), counts)

    def test_without_a_library_it_still_works(self) -> None:
        from meridian_flow.mooncake import GatedTransferEngine

        with self.assertLogs("meridian_flow", logging.WARNING) as logs:
            gate = Gate(PORTS, library="/does/not/exist.so")
            gated = GatedTransferEngine(self.engine, gate)
            for _ in range(3):
                code = gated.transfer_sync_write(self.target, self.address, self.there, SIZE)
                self.assertEqual(code, 0)
        self.assertEqual(len(logs.output), 1)
        self.assertEqual(self.memory(), bytes(self.space))

    def test_a_peer_that_dies_gives_the_engines_code_and_returns_the_permits(self) -> None:
        both = other_process(peer)
        process, pipe = both.__enter__()
        self.addCleanup(both.__exit__, None, None, None)
        target, there = receive(pipe)
        self.library.hold(True)
        codes: list[int] = []
        args = (target, self.address, there, SIZE)
        writes = threading.Thread(
            target=lambda: codes.append(self.gated.transfer_sync_write(*args))
        )
        writes.start()
        self.library.until(lambda: self.library.asking)
        process.kill()
        process.join()
        self.library.hold(False)
        writes.join()
        self.assertEqual(codes, [self.engine.transfer_sync_write(*args)])
        self.assertNotEqual(codes, [0])
        self.assertEqual(self.library.flows, {})
        batch = self.gated.batch_transfer_async_write(target, [self.address], [there], [SIZE])
        self.assertEqual(self.gated.get_batch_transfer_status([batch]), -1)

    def write(self, name: str, at: int, size: int) -> None:
        with self.gate.request(name, ttft_left_ms=50 if name == "urgent" else 60_000):
            args = (self.target, self.address + at, self.there + at, size)
            self.assertEqual(self.gated.transfer_sync_write(*args), 0)


if __name__ == "__main__":
    unittest.main()
