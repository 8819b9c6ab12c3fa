"""The vLLM connector against a stub of vLLM 0.32's interface."""

from __future__ import annotations

import pickle
import time
import unittest
from types import SimpleNamespace
from typing import Any

from meridian_flow.gate import number_of
from tests import vllm_base
from tests.fake import FakeLibrary

vllm_base.install()

import meridian_flow.vllm as connector  # noqa: E402
from meridian_flow import _vllm_hooks  # noqa: E402
from meridian_flow._vllm_scheduler import due_of  # noqa: E402
from meridian_flow.nixl import GatedAgent  # noqa: E402

SCHEDULER, WORKER = vllm_base.KVConnectorRole.SCHEDULER, vllm_base.KVConnectorRole.WORKER
PORTS = [{"name": "out"}, {"name": "in"}]


class Results(SimpleNamespace):
    """As vLLM's, with sets."""


def answers(name: str) -> Any:
    def method(self: Any, *args: Any, **named: Any) -> Any:
        self.calls.append((name, args, named))
        return self.results.get(name, f"{name} of the inner connector")

    return method


def inner_class(bases: tuple[type, ...]) -> Any:
    """A connector that records its calls and answers each with its name."""
    members: dict[str, Any] = {}
    for name, (kind, _) in vllm_base.HOOKS.items():
        if kind == "class":
            said = classmethod(lambda cls, *args, name=name: (name, args))
            members[name] = said
        elif kind == "property":
            members[name] = property(lambda self, name=name: f"{name} of the inner connector")
        else:
            members[name] = answers(name)
    members["request_finished_all_groups"] = answers("request_finished_all_groups")

    def start(self: Any, vllm_config: Any, role: Any, kv_cache_config: Any) -> None:
        self.calls, self.config = [], vllm_config
        self.results = {
            "request_finished": (False, None),
            "request_finished_all_groups": (True, {"x": 1}),
            "get_finished": (set(), set()),
            "get_transfer_results": Results(finished_sending=set(), finished_recving=set()),
        }
        agent = SimpleNamespace(make_prepped_xfer=print, check_xfer_state=print)
        self.connector_worker = SimpleNamespace(nixl_wrapper=agent, other=1)

    members["__init__"] = start
    return type(bases[0])("Inner", bases, members)


def config(name: str = "HmaConnector", **meridian: Any) -> Any:
    extra = {
        "backends": ["UCX"],
        "meridian": {"ports": PORTS, "library": FakeLibrary(), **meridian},
    }
    transfer = SimpleNamespace(
        kv_connector=name,
        kv_connector_module_path="meridian_flow.vllm",
        kv_connector_extra_config=extra,
        engine_id="e",
    )
    scheduler = SimpleNamespace(disable_hybrid_kv_cache_manager=False)
    return SimpleNamespace(kv_transfer_config=transfer, scheduler_config=scheduler)


def request(name: str, left: Any = None) -> Any:
    parameters = None if left is None else {"slo_ttft_ms": left, "do_remote_prefill": True}
    return SimpleNamespace(request_id=name, kv_transfer_params=parameters, arrival_time=time.time())


def step(*new: str) -> Any:
    return SimpleNamespace(scheduled_new_reqs=[SimpleNamespace(req_id=one) for one in new])


class Contract(unittest.TestCase):
    def setUp(self) -> None:
        base, hma = vllm_base.KVConnectorBase_V1, vllm_base.SupportsHMA
        vllm_base.KVConnectorFactory.connectors = {
            "HmaConnector": inner_class((base, hma)),
            "PlainConnector": inner_class((base,)),
        }
        for name in ("HmaConnector", "PlainConnector"):
            connector.__dict__.pop(name, None)
        connector.MeridianConnector.inner_class = None

    def make(self, role: Any, name: str = "HmaConnector", **meridian: Any) -> Any:
        about = config(name, **meridian)
        self.library = about.kv_transfer_config.kv_connector_extra_config["meridian"]["library"]
        return getattr(connector, name)(about, role, "caches")

    def test_every_hook_reaches_the_inner_connector_with_its_arguments(self) -> None:
        for role in (SCHEDULER, WORKER):
            wrapped = self.make(role)
            for name, (kind, parameters) in vllm_base.HOOKS.items():
                with self.subTest(name, role=role.name):
                    if kind == "property":
                        self.assertEqual(getattr(wrapped, name), f"{name} of the inner connector")
                    elif kind != "class":
                        self.check_method(wrapped, name, parameters)

    def check_method(self, wrapped: Any, name: str, parameters: str) -> None:
        values = {
            "request": request("a"),
            "scheduler_output": step(),
            "num_external_tokens": 3,
            "kv_caches": {"layer.0": 0},
        }
        args = tuple(values.get(one, object()) for one in parameters.split())
        result = getattr(wrapped, name)(*args)
        called, passed, _ = next(one for one in wrapped.inner.calls[::-1] if one[0] == name)
        self.assertEqual(passed, args)
        if name == "build_connector_meta":
            self.assertEqual(result.inner, f"{name} of the inner connector")
        elif name not in (
            "bind_connector_metadata",
            "clear_connector_metadata",
            "on_new_request",
            "wait_for_layer_load",
            "save_kv_layer",
        ):
            default = f"{name} of the inner connector"
            self.assertEqual(result, wrapped.inner.results.get(name, default))

    def test_class_methods_ask_the_inner_class(self) -> None:
        about = config()
        wrapper = connector.HmaConnector
        layout, (seen,) = wrapper.get_required_kvcache_layout(about)
        self.assertEqual(layout, "get_required_kvcache_layout")
        self.assertEqual(seen.kv_transfer_config.kv_connector, "HmaConnector")
        self.assertNotIn("meridian", seen.kv_transfer_config.kv_connector_extra_config)
        self.assertEqual(wrapper.build_kv_connector_stats({"a": 1})[1], ({"a": 1},))
        self.assertEqual(wrapper.build_prom_metrics(about, 1, 2, 3)[1][1:], (1, 2, 3))
        self.assertTrue(wrapper.requires_piecewise_for_cudagraph({}))

    def test_the_wrapper_supports_hma_when_its_inner_connector_does(self) -> None:
        hma = vllm_base.SupportsHMA
        self.assertTrue(issubclass(connector.HmaConnector, hma))
        self.assertFalse(issubclass(connector.PlainConnector, hma))

    def test_meridian_connector_takes_the_name_from_its_settings(self) -> None:
        about = config("MeridianConnector", connector="HmaConnector")
        self.assertIsNone(connector.MeridianConnector.build_kv_connector_stats())
        wrapped = connector.MeridianConnector(about, SCHEDULER, "caches")
        inner = wrapped.inner.config.kv_transfer_config
        self.assertEqual((inner.kv_connector, inner.engine_id), ("HmaConnector", "e"))
        self.assertIsNone(inner.kv_connector_module_path)
        self.assertEqual(about.kv_transfer_config.kv_connector, "MeridianConnector")
        self.assertEqual(
            wrapped.request_finished_all_groups(request("a"), ([1],)), (True, {"x": 1})
        )
        self.assertIsNotNone(connector.MeridianConnector.build_kv_connector_stats())

    def test_settings_that_cannot_be_right_are_errors_at_start(self) -> None:
        for about, message in (
            (config("MeridianConnector"), "meridian.connector is missing"),
            (config("MeridianConnector", connector="PlainConnector"), "hybrid KV cache manager"),
            (config("MeridianConnector", connector="None such"), "not registered"),
        ):
            connector.MeridianConnector.inner_class = None
            with self.assertRaisesRegex(ValueError, message):
                connector.MeridianConnector(about, WORKER, "caches")
        with self.assertRaises(AttributeError):
            _ = connector.NoSuchConnector
        with self.assertRaisesRegex(TypeError, "polcy"):
            self.make(WORKER, polcy="mfs")

    def test_deadlines_reach_the_workers_gate(self) -> None:
        scheduler, worker = self.make(SCHEDULER), self.make(WORKER)
        scheduler.on_new_request(request("loads", 800))
        scheduler.on_new_request(request("best effort"))
        scheduler.update_state_after_alloc(request("loads"), None, 64)
        metadata = pickle.loads(pickle.dumps(scheduler.build_connector_meta(step("best effort"))))
        worker.register_kv_caches({f"layer.{at}": None for at in range(4)})
        worker.bind_connector_metadata(metadata)
        self.assertEqual(worker.inner.calls[-1][1], (metadata.inner,))
        for at in range(4):
            worker.wait_for_layer_load(f"layer.{at}")
            worker.save_kv_layer(f"layer.{at}", None, None)
        worker.wait_for_save()
        worker.clear_connector_metadata()
        names = [call[0] for call in self.library.calls]
        self.assertEqual(names, ["batch", "layer", "layer", "layer", "departed"])
        batch = self.library.calls[0][1]
        members = {one["request"]: one for one in batch["requests"]}
        loads = members[number_of("loads")]
        self.assertTrue(0 < loads["ttft_left_ms"] <= 800 and loads["slo_ms"] == 800, loads)
        self.assertNotIn("ttft_left_ms", members[number_of("best effort")])
        self.assertEqual(batch["layers"], 4)

    def test_a_step_without_new_requests_says_nothing(self) -> None:
        scheduler, worker = self.make(SCHEDULER), self.make(WORKER)
        worker.register_kv_caches({"layer.0": None, "layer.1": None})
        worker.bind_connector_metadata(scheduler.build_connector_meta(step()))
        worker.wait_for_layer_load("layer.1")
        worker.wait_for_save()
        self.assertEqual(self.library.calls, [])

    def test_a_request_ends_once_when_its_transfers_are_over(self) -> None:
        scheduler, worker = self.make(SCHEDULER), self.make(WORKER)
        for name in ("a", "b"):
            scheduler.on_new_request(request(name))
        worker.bind_connector_metadata(scheduler.build_connector_meta(step("a", "b")))
        worker.inner.results["get_transfer_results"].finished_recving = {"a"}
        worker.get_transfer_results(set())
        scheduler.request_finished(request("a"), [])
        scheduler.request_finished_all_groups(request("b"), ([],))
        worker.bind_connector_metadata(scheduler.build_connector_meta(step()))
        ended = [call[1] for call in self.library.calls if call[0] == "ended"]
        self.assertEqual(ended, [number_of("a")])
        scheduler.update_connector_output(SimpleNamespace(finished_sending={"b"}))
        worker.bind_connector_metadata(scheduler.build_connector_meta(step()))
        ended = [call[1] for call in self.library.calls if call[0] == "ended"]
        self.assertEqual(ended, [number_of("a"), number_of("b")])

    def test_the_workers_nixl_agent_is_gated_and_knows_owners(self) -> None:
        worker = self.make(WORKER)
        agent = worker.inner.connector_worker.nixl_wrapper
        self.assertIsInstance(agent, GatedAgent)
        self.assertEqual(agent._ports, {"WRITE": (0,), "READ": (1,)})
        scheduler = self.make(SCHEDULER)
        scheduler.on_new_request(request("own"))
        metadata = scheduler.build_connector_meta(step("own"))
        remote = SimpleNamespace(remote=SimpleNamespace(request_id="theirs"))
        metadata.inner = SimpleNamespace(reqs_to_recv={"own": remote})
        worker.bind_connector_metadata(metadata)
        self.assertEqual(worker._steps.owner("READ", b"theirs:1"), number_of("own"))
        self.assertIsNone(worker._steps.owner("READ", b"unknown:1"))
        self.assertIsNone(worker._steps.owner("READ", b""))

    def test_a_gate_that_is_missing_changes_nothing(self) -> None:
        with self.assertLogs("meridian_flow"):
            worker = self.make(WORKER, library="/does/not/exist.so")
        self.assertNotIsInstance(worker.inner.connector_worker.nixl_wrapper, GatedAgent)
        scheduler = self.make(SCHEDULER)
        scheduler.on_new_request(request("a", 5))
        worker.bind_connector_metadata(scheduler.build_connector_meta(step("a")))
        worker.wait_for_save()
        worker.shutdown()

    def test_odd_input_is_logged_once_and_passed_through(self) -> None:
        _vllm_hooks._logged.clear()
        scheduler = self.make(SCHEDULER)
        with self.assertLogs("meridian_flow") as logs:
            for _ in range(3):
                scheduler.on_new_request(object())
                metadata = scheduler.build_connector_meta(object())
        self.assertEqual(len(scheduler.inner.calls), 6)
        self.assertEqual(metadata.started, {})
        self.assertEqual(len(logs.output), 2, logs.output)

    def test_only_a_positive_number_is_a_budget(self) -> None:
        for odd in ("1", True, -1, 0, float("nan"), float("inf"), [], {}):
            self.assertIsNone(due_of(request("a", odd)), odd)
        about = request("a", 250)
        self.assertAlmostEqual(due_of(about).at, about.arrival_time + 0.25)


if __name__ == "__main__":
    unittest.main()
