"""The gate and its transfers, with a library in Python."""

from __future__ import annotations

import logging
import threading
import unittest

from meridian_flow import Gate, Stage
from meridian_flow.gate import number_of
from tests.fake import FakeLibrary

KIB = 1024
PORTS = [{"name": "eth0/out", "gbps": 25.0}]


class Ordered(unittest.TestCase):
    """With a library."""

    def setUp(self) -> None:
        self.library = FakeLibrary()
        self.gate = Gate(PORTS, library=self.library)

    def test_a_transfer_goes_in_chunks_that_cover_it(self) -> None:
        with self.gate.request("r", ttft_left_ms=50) as request:
            chunks = list(request.transfer(Stage.HANDOFF, 600 * KIB).chunks())
        self.assertEqual(chunks, [(0, 256 * KIB), (256 * KIB, 256 * KIB), (512 * KIB, 88 * KIB)])
        self.assertEqual(self.library.flows, {})
        self.assertEqual(self.gate.counters()["gated_bytes"], 600 * KIB)

    def test_a_request_is_announced_before_and_ended_after_its_transfers(self) -> None:
        with self.gate.request("r", ttft_left_ms=50, slo_ms=200) as request:
            list(request.transfer(Stage.HANDOFF, KIB).chunks())
        names = [call[0] for call in self.library.calls]
        self.assertEqual(names, ["batch", "departed", "submit", "permit", "completed", "ended"])
        member = self.library.calls[0][1]["requests"][0]
        self.assertEqual(member["request"], number_of("r"))
        self.assertEqual((member["ttft_left_ms"], member["slo_ms"]), (50, 200))

    def test_a_request_that_computes_keeps_its_batch_for_its_reuse(self) -> None:
        with self.gate.request("r", ttft_left_ms=50, layers=4) as request:
            list(request.transfer(Stage.REUSE, KIB, layer=2).chunks())
        names = [call[0] for call in self.library.calls]
        self.assertEqual(names, ["batch", "submit", "permit", "completed", "departed", "ended"])

    def test_a_request_whose_deadline_has_passed_is_served_best_effort(self) -> None:
        self.gate.batch([{"request": 1, "ttft_left_ms": -3.0, "slo_ms": 100}])
        self.assertEqual(self.library.calls[0][1]["requests"], [{"request": 1, "slo_ms": 100}])

    def test_an_id_is_a_number_that_does_not_contain_it(self) -> None:
        self.assertEqual(number_of("cmpl-1"), number_of("cmpl-1"))
        self.assertNotEqual(number_of("cmpl-1"), number_of("cmpl-2"))
        self.assertEqual(number_of(7), 7)

    def test_leaving_the_loop_early_returns_the_permits(self) -> None:
        with self.assertRaises(KeyError), self.gate.request("r") as request:
            for _ in request.transfer(Stage.HANDOFF, 600 * KIB).chunks():
                raise KeyError
        self.assertEqual(self.library.flows, {})
        for _ in self.gate.transfer(Stage.HANDOFF, 3, 0, 600 * KIB).chunks():
            break
        self.assertEqual(self.library.flows, {})

    def test_an_exception_withdraws_a_transfer(self) -> None:
        with self.assertRaises(KeyError), self.gate.transfer(Stage.HANDOFF, 3, 0, KIB) as transfer:
            transfer.permit(KIB)
            raise KeyError
        self.assertIn(("withdrawn", 0), self.library.calls)

    def test_a_complete_transfer_is_not_withdrawn(self) -> None:
        with self.gate.transfer(Stage.HANDOFF, 3, 0, KIB) as transfer:
            transfer.completed(transfer.permit(KIB))
        self.assertNotIn(("withdrawn", 0), self.library.calls)

    def test_transfers_without_a_request_share_one_without_a_deadline(self) -> None:
        for _ in range(2):
            list(self.gate.transfer(Stage.HANDOFF, None, 0, KIB).chunks())
        batches = [call[1] for call in self.library.calls if call[0] == "batch"]
        self.assertEqual(len(batches), 1)
        self.assertNotIn("ttft_left_ms", batches[0]["requests"][0])

    def test_closing_frees_the_gate_after_the_call_that_is_inside(self) -> None:
        self.library.hold(True)
        chunks: list[tuple[int, int]] = []
        transfer = self.gate.transfer(Stage.HANDOFF, 3, 0, 600 * KIB)
        waits = threading.Thread(target=lambda: chunks.extend(transfer.chunks()))
        waits.start()
        self.library.until(lambda: self.library.asking)
        self.gate.close()
        self.assertEqual(self.library.freed, 0)
        self.library.hold(False)
        waits.join()
        # The permit that came is used, and the rest goes at once.
        self.assertEqual(chunks, [(0, 256 * KIB), (256 * KIB, 344 * KIB)])
        self.assertEqual(self.library.freed, 1)
        self.gate.close()
        self.assertEqual(self.library.freed, 1)

    def test_status_and_batch_numbers(self) -> None:
        first = self.gate.batch([{"request": 1}])
        self.assertGreater(self.gate.batch([{"request": 2}]), first)
        self.assertEqual(self.gate.status(), {"flows": 0})


class Open(unittest.TestCase):
    """Whatever is wrong with the library, transfers continue."""

    def test_a_library_that_is_missing_costs_one_warning(self) -> None:
        with self.assertLogs("meridian_flow", logging.WARNING) as logs:
            gate = Gate(PORTS, library="/does/not/exist.so")
            with gate.request("r", ttft_left_ms=1) as request:
                for _ in range(3):
                    chunks = list(request.transfer(Stage.HANDOFF, 600 * KIB).chunks())
                    self.assertEqual(chunks, [(0, 600 * KIB)])
            gate.batch([{"request": 1}])
            gate.layer(1, 2)
        self.assertEqual(len(logs.output), 1, logs.output)
        self.assertIn("/does/not/exist.so", logs.output[0])
        self.assertFalse(gate.is_open)
        self.assertEqual(gate.status(), {})
        self.assertEqual(gate.counters()["ungated_bytes"], 1800 * KIB)

    def test_settings_that_the_library_refuses_cost_one_warning(self) -> None:
        library = FakeLibrary()
        library.fail = {"open"}
        with self.assertLogs("meridian_flow", logging.WARNING) as logs:
            gate = Gate([], library=library)
            self.assertEqual(list(gate.transfer(Stage.HANDOFF, 1, 0, 9).chunks()), [(0, 9)])
        self.assertEqual(len(logs.output), 1, logs.output)
        self.assertIn("ports is empty", logs.output[0])

    def test_a_file_that_is_no_such_library_is_a_missing_one(self) -> None:
        with self.assertLogs("meridian_flow", logging.WARNING) as logs:
            Gate(PORTS, library=__file__)
            Gate(PORTS, library="libc.so.6")
        self.assertEqual(len(logs.output), 2, logs.output)

    def test_any_error_of_a_call_opens_the_transfer_with_one_warning(self) -> None:
        for name in ("batch", "submit", "permit", "completed", "departed", "ended"):
            with self.subTest(name), self.assertLogs("meridian_flow", logging.WARNING) as logs:
                library = FakeLibrary()
                library.fail, library.stall = {name}, 0.001
                gate = Gate(PORTS, library=library)
                for _ in range(3):
                    with gate.request("r", ttft_left_ms=1) as request:
                        chunks = list(request.transfer(Stage.HANDOFF, 600 * KIB).chunks())
                        self.assertEqual(sum(length for _, length in chunks), 600 * KIB)
                kinds = {line for line in logs.output if name in line}
                self.assertEqual(len(kinds), len([one for one in logs.output if name in one]))

    def test_values_that_are_no_numbers_are_a_problem_and_not_an_exception(self) -> None:
        gate = Gate(PORTS, library=FakeLibrary())
        with self.assertLogs("meridian_flow", logging.WARNING):
            gate.guard.run("batch", lambda library, one: int("x"))
        self.assertEqual(gate.counters()["problems"], 1)


if __name__ == "__main__":
    unittest.main()
