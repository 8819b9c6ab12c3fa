"""What the tests with real engines share: the packages, the library, and a second process."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import subprocess
import sys
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from meridian_flow import Gate

PORTS = [{"name": "lo/out", "gbps": 1.0}, {"name": "lo/in", "gbps": 1.0}]
PATIENCE = 120.0
"""The longest wait for the other process, in seconds."""


def missing(what: str) -> None:
    """Skips a test, and says so; fails where nothing may be missing."""
    if os.environ.get("MERIDIAN_REQUIRE_REAL") == "1":
        raise AssertionError(what)
    print(f"NOT CHECKED: {what}", file=sys.stderr)
    raise unittest.SkipTest(what)


def require(package: str) -> None:
    """Skips a test without its package."""
    if importlib.util.find_spec(package) is None:
        missing(f"{package} is not installed: nothing was tested with it")


def require_in_new_process(package: str) -> None:
    """The same, whatever this process has put in the package's place."""
    find = f"import importlib.util as u, sys; sys.exit(u.find_spec({package!r}) is None)"
    if subprocess.run([sys.executable, "-c", find], check=False).returncode:
        missing(f"{package} is not installed: nothing was tested with it")


def real_gate(**settings: Any) -> Gate:
    """A gate with the real library, which MERIDIAN_FLOW_LIBRARY names."""
    gate = Gate(PORTS, **settings)
    if not gate.is_open:
        missing("the scheduler's library is not there: build it and set MERIDIAN_FLOW_LIBRARY")
    return gate


@contextmanager
def other_process(main: Callable[..., None], *args: Any) -> Iterator[tuple[Any, Any]]:
    """A new process that runs `main` with one end of a pipe, and the other end."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=main, args=(there, *args), daemon=True)
    process.start()
    there.close()
    try:
        yield process, here
    finally:
        process.kill()
        process.join()


def receive(pipe: Any) -> Any:
    """The next message of the other process."""
    if not pipe.poll(PATIENCE):
        raise AssertionError(f"the other process said nothing for {PATIENCE} s")
    return pipe.recv()
