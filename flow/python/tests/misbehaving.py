"""Measures one client's writes while another's peer stops or dies, or another client misbehaves.

    sudo -E env MERIDIAN_FLOW_LIBRARY=... python -m tests.misbehaving

Three processes, with Mooncake over TCP and a link of 1 Gb/s between two network namespaces. The
sender writes 1 MiB to a healthy peer every 20 ms. Beside it two threads write 4 MiB each, without
end, to a victim, which runs, stops (SIGSTOP), or dies (SIGKILL). In two cases a client takes permits
and reports no bytes, or asks for what does not exist. In the last one the bulk is another process's,
with its own gate.
"""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from meridian_flow import Gate, Stage
from meridian_flow.mooncake import GatedTransferEngine

from .burst import MIB, engine

OWN, BULK, THREADS, WRITES = MIB, 4 * MIB, 2, 150
HOSTS = {"mfs-a": "10.77.4.1", "mfs-b": "10.77.4.2"}


def run(line: str) -> None:
    subprocess.run(line.split(), check=True)


@contextlib.contextmanager
def network() -> Iterator[None]:
    """Two namespaces with one link of 1 Gb/s."""
    try:
        for name in HOSTS:
            run(f"ip netns add {name}")
            run(f"ip -n {name} link set lo up")
        run("ip link add card0 netns mfs-a type veth peer name card0 netns mfs-b")
        for name, address in HOSTS.items():
            run(f"ip -n {name} addr add {address}/24 dev card0")
            run(f"ip -n {name} link set card0 up")
            # Mooncake's last small packet waits for an acknowledgement, which may come 40 ms late.
            run(f"ip -n {name} route change 10.77.4.0/24 dev card0 quickack 1")
        shape = "tc qdisc add dev card0 root tbf rate 1gbit burst 256kb latency 50ms"
        run(f"ip netns exec mfs-a {shape}")
        run("ip netns exec mfs-a sysctl -q net.ipv4.tcp_notsent_lowat=262144")
        yield
    finally:
        for name in HOSTS:
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)


class Peer:
    """A process that receives."""

    def __init__(self) -> None:
        command = ["ip", "netns", "exec", "mfs-b", sys.executable, "-m", "tests.burst", "serve"]
        self.process = subprocess.Popen(
            [*command, HOSTS["mfs-b"]], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout
        target, address = self.process.stdout.readline().split()
        self.target, self.address = target, int(address)

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


def write_forever(
    sender: Any, here: int, target: str, there: int, is_over: threading.Event
) -> None:
    """Bulk to a peer; a failed write is tried again after a pause."""
    while not is_over.is_set():
        if sender.transfer_sync_write(target, here, there, BULK):
            time.sleep(0.05)


def keep_permits(gate: Gate, is_over: threading.Event) -> None:
    """A client that takes permits, sends nothing, and gives its transfers up after a while."""
    while not is_over.is_set():
        with gate.request(ttft_left_ms=1, slo_ms=1000) as request:
            for _ in range(4):
                request.transfer(Stage.HANDOFF, BULK).permit(gate.chunk)
            time.sleep(0.05)


def ask_nonsense(gate: Gate, is_over: threading.Event) -> None:
    """A client that asks for what does not exist."""
    calls: list[Callable[[], Any]] = [
        lambda: gate.departed(17),
        lambda: gate.layer(17, 3),
        lambda: gate.ended(17),
        lambda: gate.transfer(Stage.REUSE, 17, 999, 1 << 40, (9,)).permit(1 << 30),
    ]
    while not is_over.is_set():
        for call in calls:
            with contextlib.suppress(Exception):
                call()
        time.sleep(0.001)


def bulk_of_another_process(target: str, address: str) -> None:
    """The main function of a process that writes bulk through a gate of its own."""
    raw, here = engine(HOSTS["mfs-a"])
    sender = GatedTransferEngine(raw, Gate([{"name": "out", "gbps": 1.0}]))
    bulk = (sender, here, target, int(address), threading.Event())
    threads = [threading.Thread(target=write_forever, args=bulk) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def own_writes(sender: Any, gate: Gate, here: int, peer: Peer) -> list[float]:
    """Milliseconds of each of the client's own writes."""
    times = []
    for _ in range(WRITES):
        time.sleep(0.02)
        begin = time.monotonic()
        with gate.request(ttft_left_ms=1000, slo_ms=1000):
            code = sender.transfer_sync_write(peer.target, here, peer.address, OWN)
        assert code == 0, f"a healthy peer's write failed with {code}"
        times.append((time.monotonic() - begin) * 1e3)
    return sorted(times)


def case(name: str) -> None:
    """One case in this process, which is at the sender's host."""
    with Peer() as healthy, Peer() as victim:
        raw, here = engine(HOSTS["mfs-a"])
        gate = Gate([{"name": "out", "gbps": 1.0}])
        assert gate.is_open, "set MERIDIAN_FLOW_LIBRARY"
        if "no gate" in name:
            gate.close()
        sender = GatedTransferEngine(raw, gate)
        is_over = threading.Event()
        beside: list[Callable[[], None]] = []
        if "victim" in name:
            at = here + 16 * MIB
            bulk = (sender, at, victim.target, victim.address, is_over)
            beside = [lambda: write_forever(*bulk)] * THREADS
        elif "permits" in name:
            beside = [lambda: keep_permits(gate, is_over)]
        elif "nonsense" in name:
            beside = [lambda: ask_nonsense(gate, is_over)]
        elif "another process" in name:
            own = [sys.executable, "-m", "tests.misbehaving", "bulk", victim.target]
            other = subprocess.Popen([*own, str(victim.address)])
            beside = [other.wait]
            time.sleep(3.0)
        for work in beside:
            threading.Thread(target=work, daemon=True).start()
        sender.transfer_sync_write(healthy.target, here, healthy.address, OWN)
        time.sleep(1.0)
        if "stops" in name:
            victim.process.send_signal(signal.SIGSTOP)
        elif "dies" in name:
            victim.process.kill()
        times = own_writes(sender, gate, here, healthy)
        is_over.set()
        at99 = times[int(0.99 * (len(times) - 1))]
        print(
            f"{name:36} p50 {statistics.median(times):6.1f} ms, p99 {at99:6.1f}, "
            f"worst {times[-1]:6.1f}; {gate.counters()}",
            flush=True,
        )
        if "another process" in name:
            other.kill()
    # Threads that write to a stopped victim do not end.
    os._exit(0)


CASES = [
    "alone",
    "a victim runs",
    "a victim stops",
    "a victim dies",
    "a client keeps its permits",
    "a client asks nonsense",
    "another process writes",
]


def main() -> None:
    if sys.argv[1:2] == ["bulk"]:
        bulk_of_another_process(*sys.argv[2:])
    if sys.argv[1:]:
        case(sys.argv[1])
    with network():
        for name in [one + way for one in CASES for way in (", no gate", "")]:
            command = ["ip", "netns", "exec", "mfs-a", sys.executable, "-m", "tests.misbehaving"]
            subprocess.run([*command, name], check=False, timeout=300)


if __name__ == "__main__":
    main()
