"""Measures an urgent write beside bulk writes, with Mooncake over TCP, with and without the gate.

On the receiving host: `python -m tests.burst serve 10.0.0.2`. It prints TARGET and ADDRESS.
On the sending host: `python -m tests.burst send 10.0.0.1 TARGET ADDRESS`.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
import threading
import time
from typing import Any

from meridian_flow import Gate
from meridian_flow.mooncake import GatedTransferEngine

MIB = 1 << 20
BULK, URGENT = 16 * MIB, 4 * MIB
THREADS, ROUNDS = 3, 15
SIZE = THREADS * BULK + URGENT


def engine(host: str) -> tuple[Any, int]:
    from mooncake.engine import TransferEngine

    one = TransferEngine()
    if code := one.initialize(host, "P2PHANDSHAKE", "tcp", ""):
        sys.exit(f"Mooncake does not start at {host}: {code}")
    space = (ctypes.c_char * SIZE)()
    one.register_memory(ctypes.addressof(space), SIZE)
    KEPT.append(space)
    return one, ctypes.addressof(space)


KEPT: list[Any] = []
"""Registered memory, which must outlive its engine."""


def measure(sender: Any, gate: Gate, target: str, here: int, there: int) -> list[float]:
    """Milliseconds of each urgent write while all threads write bulk."""
    is_over = threading.Event()

    def bulk(nth: int) -> None:
        at = nth * BULK
        while not is_over.is_set():
            sender.transfer_sync_write(target, here + at, there + at, BULK)

    threads = [threading.Thread(target=bulk, args=(nth,)) for nth in range(THREADS)]
    for thread in threads:
        thread.start()
    times, at = [], THREADS * BULK
    for _ in range(ROUNDS):
        time.sleep(0.3)
        begin = time.monotonic()
        with gate.request(ttft_left_ms=1000, slo_ms=1000):
            sender.transfer_sync_write(target, here + at, there + at, URGENT)
        times.append((time.monotonic() - begin) * 1e3)
    is_over.set()
    for thread in threads:
        thread.join()
    return times


def main() -> None:
    if sys.argv[1:2] == ["serve"]:
        one, address = engine(sys.argv[2])
        print(f"{sys.argv[2]}:{one.get_rpc_port()} {address}", flush=True)
        threading.Event().wait()
    host, target, there = sys.argv[2], sys.argv[3], int(sys.argv[4])
    one, here = engine(host)
    one.transfer_sync_write(target, here, there, BULK)
    begin = time.monotonic()
    one.transfer_sync_write(target, here, there, URGENT)
    print(f"alone: {(time.monotonic() - begin) * 1e3:.1f} ms")
    for name in ("no gate", "gate"):
        gate = Gate([{"name": "out", "gbps": 1.0}])
        if name == "no gate":
            gate.close()
        sender = GatedTransferEngine(one, gate)
        begin = time.monotonic()
        times = measure(sender, gate, target, here, there)
        counters = gate.counters()
        print(
            f"{name}: median {statistics.median(times):.1f} ms, worst {max(times):.1f} ms, "
            f"{counters}, {time.monotonic() - begin:.1f} s"
        )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
