"""The plan of a run and the shared clock, as every host reads them."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOSTS = ("a", "b", "decode", "store")
"""The first two are the ranks of the prefill replica."""


@dataclass(frozen=True)
class Settings:
    """This process's part of a run."""

    host: str
    addresses: dict[str, str]
    gate: str
    """The flows that wait for permits: none, kv or all."""
    policy: str
    coordinator: str | None
    plan: dict[str, Any]

    @staticmethod
    def read(path: str) -> Settings:
        return Settings(**json.loads(Path(path).read_text()))

    @property
    def rank(self) -> int:
        return HOSTS.index(self.host)

    def ports(self) -> list[dict[str, Any]]:
        """Both directions of every host's link: a transfer names them by position."""
        gbps = self.plan["rate"] * 8 / 1e9
        names = [f"{host}/{way}" for host in HOSTS for way in ("out", "in")]
        return [{"name": name, "gbps": gbps} for name in names]


def path(sender: str, receiver: str) -> tuple[int, int]:
    """The ports that a transfer crosses."""
    return 2 * HOSTS.index(sender), 2 * HOSTS.index(receiver) + 1


class Clock:
    """Seconds since the start of the run. All hosts share the clock of one machine."""

    def __init__(self, start: float) -> None:
        self._start = start

    def now(self) -> float:
        return time.monotonic() - self._start

    def until(self, at: float) -> None:
        """Sleeps; a moment that has passed is no wait."""
        time.sleep(max(0.0, at - self.now()))
