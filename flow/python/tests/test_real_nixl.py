"""Real NIXL agents of two processes, over UCX and TCP on loopback."""

from __future__ import annotations

import ctypes
import os
import time
import unittest
from typing import Any
from unittest import mock

from tests.fake import FakeLibrary
from tests.real import PATIENCE, PORTS, other_process, real_gate, receive, require

KIB = 1024
SIZE = 4096 * KIB
os.environ.setdefault("UCX_TLS", "tcp,self")


def memory(agent: Any) -> tuple[Any, int]:
    """Registered memory, and its address."""
    space = (ctypes.c_char * SIZE)()
    address = ctypes.addressof(space)
    agent.register_memory(agent.get_reg_descs([(address, SIZE, 0, "")], "DRAM"))
    return space, address


def agent(name: str) -> Any:
    from nixl._api import nixl_agent, nixl_agent_config

    return nixl_agent(name, nixl_agent_config(backends=["UCX"], capture_telemetry=True))


def peer(pipe: Any) -> None:
    """The other side: shows its memory, and answers what it has received."""
    one = agent("peer")
    space, address = memory(one)
    space[:] = bytes(reversed(range(256))) * (SIZE // 256)
    pipe.send((one.get_agent_metadata(), address))
    heard: list[bytes] = []
    while True:
        if pipe.poll(0.001):
            if (order := pipe.recv()) == "end":
                os._exit(0)
            pipe.send((bytes(space), heard) if order == "memory" else heard)
        for messages in one.get_new_notifs().values():
            # The memory at the time of the message: all of it must have arrived.
            heard += [
                (message, bytes(space[:64]), bytes(space[SIZE - 64 :])) for message in messages
            ]


def rows(address: int, length: int) -> list[tuple[int, int, int]]:
    return [(address + at, length, 0) for at in range(0, SIZE, length)]


class Real(unittest.TestCase):
    def setUp(self) -> None:
        require("nixl")
        from meridian_flow import Gate
        from meridian_flow.nixl import GatedAgent

        self.library = FakeLibrary()
        self.gate = Gate(PORTS, library=self.library)
        self.agent = GatedAgent(agent("here"), self.gate, out=(0,), into=(1,))
        self.space, self.address = memory(self.agent)
        self.space[:] = bytes(range(256)) * (SIZE // 256)
        both = other_process(peer)
        self.process, self.pipe = both.__enter__()
        self.addCleanup(both.__exit__, None, None, None)
        metadata, self.there = receive(self.pipe)
        self.name = self.agent.add_remote_agent(metadata)

    def lists(self, length: int) -> tuple[Any, Any]:
        descs = self.agent.get_xfer_descs(rows(self.address, length), "DRAM")
        ours = self.agent.prep_xfer_dlist("NIXL_INIT_AGENT", descs)
        theirs = self.agent.prep_xfer_dlist(self.name, rows(self.there, length), "DRAM")
        return ours, theirs

    def wait(self, handle: Any) -> str:
        end = time.monotonic() + PATIENCE
        while (state := self.agent.check_xfer_state(handle)) == "PROC":
            self.assertLess(time.monotonic(), end, "the transfer does not end")
            time.sleep(0.001)
        return state

    def heard(self, count: int = 1) -> list[Any]:
        end = time.monotonic() + PATIENCE
        while True:
            self.pipe.send("heard")
            if len(heard := receive(self.pipe)) >= count:
                return heard
            self.assertLess(time.monotonic(), end, "the peer got no notification")

    def test_a_prepared_write_arrives_in_parts_and_its_message_last(self) -> None:
        ours, theirs = self.lists(64 * KIB)
        indices = list(range(SIZE // (64 * KIB)))
        handle = self.agent.make_prepped_xfer("WRITE", ours, indices, theirs, indices, b"all:1")
        self.assertEqual(self.agent.transfer(handle), "PROC")
        self.assertEqual(self.wait(handle), "DONE")
        heard = self.heard()
        self.assertEqual(heard, [(b"all:1", bytes(self.space[:64]), bytes(self.space[-64:]))])
        self.pipe.send("memory")
        self.assertEqual(receive(self.pipe)[0], bytes(self.space))
        self.assertEqual(len(self.library.order), SIZE // (256 * KIB))
        self.assertEqual(self.library.flows, {})
        telemetry = self.agent.get_xfer_telemetry(handle)
        self.assertEqual(telemetry.totalBytes, SIZE)
        self.agent.release_xfer_handle(handle)

    def test_descriptors_larger_than_a_permit_are_cut(self) -> None:
        ours, theirs = self.lists(SIZE // 2)
        handle = self.agent.make_prepped_xfer("READ", ours, [1, 0], theirs, [1, 0], b"read:1")
        self.agent.transfer(handle)
        self.assertEqual(self.wait(handle), "DONE")
        self.assertEqual(bytes(self.space), bytes(reversed(range(256))) * (SIZE // 256))
        self.assertEqual(len(self.library.order), SIZE // (256 * KIB))
        submit = next(call for call in self.library.calls if call[0] == "submit")
        self.assertEqual(submit[5], (1,))
        self.assertEqual(self.heard()[0][0], b"read:1")

    def test_a_transfer_of_lists_and_one_that_is_posted_again(self) -> None:
        ours = self.agent.get_xfer_descs(rows(self.address, 1024 * KIB), "DRAM")
        theirs = self.agent.get_xfer_descs(rows(self.there, 1024 * KIB), "DRAM")
        handle = self.agent.initialize_xfer("WRITE", ours, theirs, self.name, b"first")
        for nth in range(2):
            self.agent.transfer(handle, b"second" if nth else b"")
            with self.assertRaises(RuntimeError):
                self.library.hold(True)
                self.agent.transfer(handle)
                self.agent.transfer(handle)
            self.library.hold(False)
            self.assertEqual(self.wait(handle), "DONE")
        self.assertEqual([one[0] for one in self.heard(2)], [b"first", b"second"])
        self.assertEqual(self.agent.query_xfer_backend(handle), "UCX")

    def test_beyond_the_limit_of_threads_a_transfer_goes_at_once(self) -> None:
        self.library.hold(True)
        ours, theirs = self.lists(64 * KIB)
        indices = list(range(SIZE // (64 * KIB)))
        handle = self.agent.make_prepped_xfer("WRITE", ours, indices, theirs, indices, b"all")
        with mock.patch("meridian_flow.nixl.THREADS", 0), self.assertLogs("meridian_flow"):
            self.assertEqual(self.agent.transfer(handle), "PROC")
        self.assertEqual(self.wait(handle), "DONE")
        self.assertEqual(self.heard()[0], (b"all", bytes(self.space[:64]), bytes(self.space[-64:])))
        self.assertEqual(self.library.order, [])

    def test_a_release_ends_everything(self) -> None:
        ours, theirs = self.lists(64 * KIB)
        indices = list(range(SIZE // (64 * KIB)))
        handle = self.agent.make_prepped_xfer("WRITE", ours, indices, theirs, indices, b"never")
        self.library.hold(True)
        self.agent.transfer(handle)
        self.library.until(lambda: self.library.asking)
        self.agent.release_dlist_handle(ours)
        self.agent.release_dlist_handle(theirs)
        self.agent.release_xfer_handle(handle)
        self.library.hold(False)
        self.library.until(lambda: not self.library.flows)
        self.pipe.send("memory")
        space, heard = receive(self.pipe)
        self.assertEqual(heard, [])
        self.assertEqual(space, bytes(reversed(range(256))) * (SIZE // 256))

    def test_a_peer_that_dies_is_an_error_and_returns_the_permits(self) -> None:
        ours, theirs = self.lists(64 * KIB)
        indices = list(range(SIZE // (64 * KIB)))
        first = self.agent.make_prepped_xfer("WRITE", ours, [0], theirs, [0])
        self.agent.transfer(first)
        self.assertEqual(self.wait(first), "DONE")
        self.process.kill()
        self.process.join()
        handle = self.agent.make_prepped_xfer("WRITE", ours, indices, theirs, indices)
        try:
            self.agent.transfer(handle)
            state = self.wait(handle)
        except AssertionError:
            raise
        except Exception as error:
            state = type(error).__name__
        self.assertIn(state, ("ERR", "nixlRemoteDisconnectError"))
        self.library.until(lambda: not self.library.flows)
        self.agent.release_xfer_handle(handle)

    def test_with_the_scheduler_itself(self) -> None:
        self.agent._gate = gate = real_gate()
        ours, theirs = self.lists(64 * KIB)
        indices = list(range(SIZE // (64 * KIB)))
        with gate.request("r", ttft_left_ms=5000):
            handle = self.agent.make_prepped_xfer("WRITE", ours, indices, theirs, indices, b"all")
            self.agent.transfer(handle)
            self.assertEqual(self.wait(handle), "DONE")
        self.assertEqual(self.heard()[0], (b"all", bytes(self.space[:64]), bytes(self.space[-64:])))
        counts = {"transfers": 1, "gated_bytes": SIZE, "ungated_bytes": 0, "problems": 0}
        self.assertEqual(gate.counters(), counts)

    def test_without_a_gate_everything_arrives(self) -> None:
        self.gate.close()
        ours, theirs = self.lists(SIZE)
        handle = self.agent.make_prepped_xfer("WRITE", ours, [0], theirs, [0], b"all")
        self.agent.transfer(handle)
        self.assertEqual(self.wait(handle), "DONE")
        self.assertEqual(self.heard()[0], (b"all", bytes(self.space[:64]), bytes(self.space[-64:])))
        self.agent.release_xfer_handle(handle)


if __name__ == "__main__":
    unittest.main()
