"""The connector interface of an installed vLLM, compared with the list that the connector was
written for. In a process of its own, since other tests put a stub in vLLM's place."""

from __future__ import annotations

import json
import subprocess
import sys
import unittest

from tests import vllm_base
from tests.real import require_in_new_process

ASK = """
import inspect, json
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1 as base
found = {}
for name in dir(base):
    member = inspect.getattr_static(base, name)
    if name.startswith("_"):
        continue
    if isinstance(member, property):
        found[name] = ["property", ""]
        continue
    function = getattr(member, "__func__", member)
    if not inspect.isfunction(function):
        continue
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = inspect.signature(function).parameters.values()
    names = [one.name for one in parameters if one.kind == kind]
    is_abstract = getattr(function, "__isabstractmethod__", False)
    kind = "class" if isinstance(member, classmethod) else "abstract" if is_abstract else "method"
    found[name] = [kind, " ".join(names[1:])]
from meridian_flow.vllm import NixlConnector, MeridianConnector
from vllm.distributed.kv_transfer.kv_connector.v1 import supports_hma
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.config.kv_transfer import KVTransferConfig
config = KVTransferConfig(kv_connector="NixlConnector", kv_role="kv_both",
                          kv_connector_module_path="meridian_flow.vllm")
made = KVConnectorFactory.get_connector_class(config) is NixlConnector
free = NixlConnector.__abstractmethods__ | MeridianConnector.__abstractmethods__
hma = [supports_hma(NixlConnector), supports_hma(MeridianConnector)]
print("FOUND" + json.dumps([found, made, sorted(free), hma]))
"""


class Interface(unittest.TestCase):
    def test_it_is_the_one_that_the_connector_was_written_for(self) -> None:
        require_in_new_process("vllm")
        answer = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True)
        self.assertIn("FOUND", answer.stdout, answer.stderr[-2000:])
        line = next(one for one in answer.stdout.splitlines() if one.startswith("FOUND"))
        hooks, made, free, hma = json.loads(line.removeprefix("FOUND"))
        known = {name: list(hook) for name, hook in vllm_base.HOOKS.items()}
        self.assertEqual(hooks, known, "vLLM's connector interface has changed")
        self.assertTrue(made)
        self.assertEqual(free, [])
        self.assertEqual(hma, [True, True])


if __name__ == "__main__":
    unittest.main()
