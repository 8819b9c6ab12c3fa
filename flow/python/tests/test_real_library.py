"""The package with the scheduler's own library, which MERIDIAN_FLOW_LIBRARY names."""

from __future__ import annotations

import logging
import os
import threading
import unittest

from meridian_flow import Gate, Stage
from meridian_flow._library import Library
from tests.real import PORTS, real_gate

KIB = 1024


class WithTheLibrary(unittest.TestCase):
    def setUp(self) -> None:
        self.gate = real_gate(node="test", hold_ms=5)
        self.addCleanup(self.gate.close)

    def test_every_call_succeeds_in_the_life_of_a_request(self) -> None:
        with self.gate.request("r", ttft_left_ms=500, slo_ms=2000, decode_ms=12) as request:
            chunks = list(request.transfer(Stage.HANDOFF, 600 * KIB).chunks())
        self.assertEqual(sum(length for _, length in chunks), 600 * KIB)
        self.assertEqual(max(length for _, length in chunks), 256 * KIB)
        with self.gate.request("q", ttft_left_ms=500, layers=8, layer_us=900) as request:
            self.gate.layer(request.batch, 3)
            list(request.transfer(Stage.REUSE, 300 * KIB, layer=5, ports=(1,)).chunks())
        with self.gate.transfer(Stage.HANDOFF, None, 0, 300 * KIB) as transfer:
            transfer.permit(300 * KIB)
        self.assertEqual(self.gate.counters()["problems"], 0)
        self.assertEqual(self.gate.counters()["ungated_bytes"], 0)
        self.assertEqual(self.gate.status()["transfers"], 0)

    def test_a_batch_with_a_plan_and_a_collective(self) -> None:
        plan = [{"port": "lo/out", "reuse": 0, "handoff": 600 * KIB}]
        batch = self.gate.batch(
            [{"request": 7, "ttft_left_ms": 100.5, "plan": plan}, {"request": 8}],
            layers=32,
            layer_us=900,
            collectives=[{"port": "lo/out", "bytes": 1000}],
        )
        list(self.gate.transfer(Stage.COLLECTIVE, batch, 0, 1000).chunks())
        self.gate.departed(batch)
        list(self.gate.transfer(Stage.HANDOFF, 7, 31, 600 * KIB).chunks())
        self.gate.ended(7)
        self.gate.ended(8)
        self.assertEqual(self.gate.counters()["problems"], 0)

    def test_urgent_before_bulk(self) -> None:
        """Transfers wait for a full window of one chunk; the permits then come one by one."""
        gate = real_gate(hold_ms=10_000, window=256 * KIB)
        self.addCleanup(gate.close)
        first = gate.transfer(Stage.HANDOFF, None, 0, 256 * KIB)
        first.permit(256 * KIB)
        order: list[str] = []
        names = ["bulk", "urgent"] * 4
        waits = [threading.Thread(target=self.send, args=(gate, order, name)) for name in names]
        for thread in waits:
            thread.start()
        while gate.status()["waiting"] < len(names):
            threading.Event().wait(0.001)
        first.completed(256 * KIB)
        for thread in waits:
            thread.join()
        self.assertEqual(order, ["urgent"] * 4 + ["bulk"] * 4)

    def send(self, gate: Gate, order: list[str], name: str) -> None:
        left = 400.0 if name == "urgent" else None
        with gate.request(ttft_left_ms=left, slo_ms=1000) as request:
            transfer = request.transfer(Stage.HANDOFF, 256 * KIB)
            transfer.permit(256 * KIB)
            order.append(name)
            transfer.completed(256 * KIB)

    def test_a_stall_ends_by_itself(self) -> None:
        stalled = self.gate.transfer(Stage.HANDOFF, None, 0, 1024 * KIB)
        for _ in range(4):
            # None of these is ever completed.
            self.assertEqual(stalled.permit(256 * KIB), 256 * KIB)
        stalled.withdraw()

    def test_a_closed_gate_lets_a_waiting_transfer_go(self) -> None:
        gate = real_gate(hold_ms=50)
        first = gate.transfer(Stage.HANDOFF, None, 0, 512 * KIB)
        first.permit(256 * KIB), first.permit(256 * KIB)
        second = gate.transfer(Stage.HANDOFF, None, 0, 512 * KIB)
        chunks: list[tuple[int, int]] = []
        waits = threading.Thread(target=lambda: chunks.extend(second.chunks()))
        waits.start()
        gate.close()
        waits.join()
        self.assertEqual(sum(length for _, length in chunks), 512 * KIB)

    def test_what_the_library_refuses_is_one_warning_with_its_words(self) -> None:
        for ports, settings, word in (
            ([], {}, "ports"),
            (PORTS, {"policy": "no such"}, "policy"),
            ([{"name": "a", "gbps": -1}], {}, "gbps"),
            ([{"name": "a"}], {}, "gbps"),
            (PORTS, {"chunk": 0}, "chunk"),
            (PORTS, {"hold_ms": -1}, "hold"),
        ):
            with self.subTest(word), self.assertLogs("meridian_flow", logging.WARNING) as logs:
                gate = Gate(ports, **settings)
                self.assertFalse(gate.is_open)
            self.assertEqual(len(logs.output), 1)
            self.assertIn(word, logs.output[0])

    def test_transfers_that_the_gate_refuses_go_at_once(self) -> None:
        odd = [
            (Stage.REUSE, 99, 0, (0,)),
            (Stage.COLLECTIVE, 99, 0, (0,)),
            (Stage.HANDOFF, 99, 0, (0,)),
            (Stage.HANDOFF, None, 0, (7,)),
            (Stage.HANDOFF, None, 0, ()),
            (Stage.HANDOFF, None, 0, (0, 0)),
            (9, None, 0, (0,)),
            (Stage.HANDOFF, None, 70_000, (0,)),
        ]
        with self.assertLogs("meridian_flow", logging.WARNING):
            for stage, owner, layer, ports in odd:
                with self.subTest(stage=stage, owner=owner, ports=ports):
                    transfer = self.gate.transfer(stage, owner, layer, 300 * KIB, ports)
                    self.assertEqual(list(transfer.chunks()), [(0, 300 * KIB)])

    def test_many_threads(self) -> None:
        def work() -> None:
            for nth in range(50):
                with self.gate.request(ttft_left_ms=20 + nth) as request:
                    list(request.transfer(Stage.HANDOFF, 600 * KIB).chunks())

        threads = [threading.Thread(target=work) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.gate.counters()["gated_bytes"], 16 * 50 * 600 * KIB)
        self.assertEqual(self.gate.counters()["problems"], 0)
        self.assertEqual(self.gate.status()["transfers"], 0)

    def test_a_forked_child_has_no_gate(self) -> None:
        child = os.fork()
        if child == 0:
            chunks = list(self.gate.transfer(Stage.HANDOFF, None, 0, 600 * KIB).chunks())
            os._exit(0 if chunks == [(0, 600 * KIB)] else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_errors_have_words(self) -> None:
        self.assertTrue(Library().error(-3))


if __name__ == "__main__":
    unittest.main()
