"""The gated Mooncake engine, around an engine in Python that copies bytes."""

from __future__ import annotations

import logging
import threading
import unittest
from typing import Any
from unittest import mock

from meridian_flow import Gate
from meridian_flow.gate import number_of
from meridian_flow.mooncake import GatedTransferEngine
from tests.fake import FakeLibrary

KIB = 1024


class Opcode:
    """As the engine's, which is an enumeration."""

    def __init__(self, name: str) -> None:
        self.name = name


class Engine:
    """Memory is a list of bytes, an address a position in it."""

    def __init__(self, size: int) -> None:
        self.here, self.there = bytearray(size), bytearray(size)
        self.sent: list[tuple[str, int, Any]] = []
        self.fail_after: int | None = None
        self.pending = 0
        self.stuck = False
        self.ends_as = 1

    def get_rpc_port(self) -> int:
        return 7

    def _move(self, verb: str, buffers: Any, peers: Any, lengths: Any, notify: Any = None) -> int:
        if self.fail_after is not None and len(self.sent) >= self.fail_after:
            return -1
        if not len(buffers) == len(peers) == len(lengths):
            return -1
        self.sent.append((verb, sum(lengths), notify))
        for buffer, peer, length in zip(buffers, peers, lengths):
            if verb == "write":
                self.there[peer : peer + length] = self.here[buffer : buffer + length]
            else:
                self.here[buffer : buffer + length] = self.there[peer : peer + length]
        return 0

    def batch_transfer_sync_write(self, target, buffers, peers, lengths, hint=""):
        return self._move("write", buffers, peers, lengths)

    def batch_transfer_sync_read(self, target, buffers, peers, lengths, hint=""):
        return self._move("read", buffers, peers, lengths)

    def transfer_sync_write(self, target, buffer, peer, length, hint=""):
        return self._move("write", [buffer], [peer], [length])

    def transfer_submit_write(self, target, buffer, peer, length, hint=""):
        return self.batch_transfer_async_write(target, [buffer], [peer], [length])

    def batch_transfer_async_write(self, target, buffers, peers, lengths, hint=""):
        self.pending = 3
        return 0 if self._move("write", buffers, peers, lengths) else 1 << 40

    def batch_transfer_async_read(self, target, buffers, peers, lengths, hint=""):
        return 0 if self._move("read", buffers, peers, lengths) else 1 << 40

    def batch_transfer_sync(self, target, buffers, peers, lengths, opcode, notify=None, hint=""):
        return self._move(opcode.name.lower(), buffers, peers, lengths, notify)

    transfer_sync = batch_transfer_sync

    def transfer_check_status(self, batch: int) -> int:
        self.pending -= 0 if self.stuck else 1
        return self.ends_as if self.pending < 0 else 0

    def get_batch_transfer_status(self, batches: list[int]) -> int:
        return 0


class Wrapped(unittest.TestCase):
    def setUp(self) -> None:
        self.engine = Engine(2048 * KIB)
        self.engine.here[:] = bytes(range(256)) * (2048 * KIB // 256)
        self.library = FakeLibrary()
        self.gate = Gate([{"name": "out"}, {"name": "in"}], library=self.library)
        self.gated = GatedTransferEngine(self.engine, self.gate, out=(0,), into=(1,))

    def test_other_methods_are_the_engines(self) -> None:
        self.assertEqual(self.gated.get_rpc_port(), 7)
        with self.assertRaises(AttributeError):
            self.gated.no_such_method()

    def test_a_write_leaves_in_chunks_over_the_out_port(self) -> None:
        with self.gate.request("r", ttft_left_ms=9):
            code = self.gated.transfer_sync_write("peer", 5, 3, 1000 * KIB)
        self.assertEqual(code, 0)
        self.assertEqual(
            self.engine.there[3 : 3 + 1000 * KIB], self.engine.here[5 : 5 + 1000 * KIB]
        )
        self.assertEqual(max(size for _, size, _ in self.engine.sent), 256 * KIB)
        submit = next(call for call in self.library.calls if call[0] == "submit")
        self.assertEqual(submit[1:], (3, number_of("r"), 0, 1000 * KIB, (0,)))
        self.assertEqual(self.library.flows, {})

    def test_a_read_is_ordered_by_the_port_that_it_arrives_at(self) -> None:
        self.engine.there[:] = self.engine.here[::-1]
        want = bytes(self.engine.there[: 600 * KIB])
        self.assertEqual(self.gated.batch_transfer_sync_read("peer", [0], [0], [600 * KIB]), 0)
        self.assertEqual(self.engine.here[: 600 * KIB], want)
        submit = next(call for call in self.library.calls if call[0] == "submit")
        self.assertEqual(submit[5], (1,))

    def test_many_small_buffers_share_a_chunk_and_a_large_one_is_cut(self) -> None:
        lengths = [KIB] * 300 + [0] + [700 * KIB]
        starts = [sum(lengths[:at]) for at in range(len(lengths))]
        code = self.gated.batch_transfer_sync_write("peer", starts, starts, lengths)
        self.assertEqual(code, 0)
        self.assertEqual(self.engine.there[: 1000 * KIB], self.engine.here[: 1000 * KIB])
        self.assertEqual(len(self.engine.sent), 4)

    def test_names_of_arguments_are_the_engines(self) -> None:
        named = {"target_hostname": "p", "buffer": 0, "peer_buffer_address": 0, "length": KIB}
        self.assertEqual(self.gated.transfer_sync_write(**named, transport_hint="tcp"), 0)

    def test_the_message_to_the_peer_goes_with_the_last_chunk(self) -> None:
        write = Opcode("Write")
        size = [600 * KIB]
        self.assertEqual(self.gated.batch_transfer_sync("p", [0], [0], size, write, "done"), 0)
        self.assertEqual([notify for _, _, notify in self.engine.sent], [None, None, "done"])
        self.assertEqual(self.engine.there[: 600 * KIB], self.engine.here[: 600 * KIB])
        self.assertEqual(self.gated.transfer_sync("p", 0, 0, KIB, write, notify="one"), 0)
        self.assertEqual(self.engine.sent[-1][2], "one")

    def test_an_error_code_of_the_engine_comes_back_and_the_permits_return(self) -> None:
        self.engine.fail_after = 1
        self.assertEqual(self.gated.transfer_sync_write("peer", 0, 0, 1000 * KIB), -1)
        self.assertEqual(self.library.flows, {})

    def test_a_failed_chunk_is_repeated_by_the_engines_own_call(self) -> None:
        self.engine.ends_as = -1
        self.assertEqual(self.gated.transfer_sync_write("peer", 0, 0, 600 * KIB), 0)
        self.assertEqual(sum(size for _, size, _ in self.engine.sent), 2 * 600 * KIB)
        self.assertEqual(self.engine.there[: 600 * KIB], self.engine.here[: 600 * KIB])

    def test_a_chunk_that_never_arrives_fails_in_the_engines_own_time(self) -> None:
        self.engine.stuck = True
        with mock.patch("meridian_flow.mooncake._patience", lambda: 0.01):
            self.assertEqual(self.gated.transfer_sync_write("peer", 0, 0, 600 * KIB), -1)
        self.assertEqual(self.library.flows, {})

    def test_an_exception_of_the_engine_comes_back(self) -> None:
        self.engine.batch_transfer_async_write = None
        with self.assertRaises(TypeError):
            self.gated.transfer_sync_write("peer", 0, 0, 1000 * KIB)
        self.assertEqual(self.library.flows, {})

    def test_lists_of_unequal_lengths_are_the_engines_to_refuse(self) -> None:
        self.assertEqual(self.gated.batch_transfer_sync_write("p", [0], [0, 1], [1]), -1)
        self.assertEqual(self.gated.batch_transfer_sync_write("p", [], [], []), 0)

    def test_asynchronous_transfers_have_ids_that_both_status_calls_know(self) -> None:
        first = self.gated.batch_transfer_async_write("p", [0], [0], [600 * KIB])
        other = self.engine.transfer_submit_write("p", 0, 0, 1)
        self.assertEqual(self.gated.get_batch_transfer_status([first, other]), 0)
        self.assertEqual(self.engine.there[: 600 * KIB], self.engine.here[: 600 * KIB])
        self.library.hold(True)
        second = self.gated.transfer_submit_write("p", 0, 0, KIB)
        self.assertEqual(self.gated.transfer_check_status(second), 0)
        self.library.hold(False)
        while (status := self.gated.transfer_check_status(second)) == 0:
            threading.Event().wait(0.001)
        self.assertEqual(status, 1)
        self.engine.fail_after = 0
        third = self.gated.batch_transfer_async_write("p", [0], [0], [KIB])
        self.assertEqual(self.gated.get_batch_transfer_status([third]), -1)

    def test_beyond_the_limit_of_threads_a_transfer_goes_at_once(self) -> None:
        self.library.hold(True)
        with mock.patch("meridian_flow.mooncake.THREADS", 0), self.assertLogs("meridian_flow"):
            self.assertEqual(self.gated.transfer_submit_write("p", 0, 0, KIB), 1 << 40)

    def test_urgent_before_bulk(self) -> None:
        """All wait before the first permit, so that the order does not depend on threads."""
        names = ["bulk", "urgent"] * 3
        self.library.hold(True)
        threads = [
            threading.Thread(target=self._write, args=(name, 5 if name == "urgent" else 9000))
            for name in names
        ]
        for thread in threads:
            thread.start()
        self.library.until(lambda: len(self.library.asking) == len(names))
        self.library.hold(False)
        for thread in threads:
            thread.join()
        urgent, bulk = number_of("urgent"), number_of("bulk")
        self.assertEqual(self.library.order, [urgent] * 3 + [bulk] * 3)

    def test_without_a_gate_the_engine_gets_the_call_as_it_is(self) -> None:
        with self.assertLogs("meridian_flow", logging.WARNING) as logs:
            gate = Gate([], library="/does/not/exist.so")
            gated = GatedTransferEngine(self.engine, gate)
            for _ in range(3):
                self.assertEqual(gated.transfer_sync_write("p", 0, 0, 1000 * KIB), 0)
        self.assertEqual(self.engine.sent, [("write", 1000 * KIB, None)] * 3)
        self.assertEqual(len(logs.output), 1)

    def _write(self, name: str, left: float) -> None:
        with self.gate.request(name, ttft_left_ms=left):
            self.gated.transfer_sync_write("peer", 0, 0, 256 * KIB)


if __name__ == "__main__":
    unittest.main()
