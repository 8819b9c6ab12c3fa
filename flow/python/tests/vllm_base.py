"""vLLM's connector interface as of 0.32, for tests without vLLM: the names of its hooks.

`test_real_vllm.py` compares the list with an installed vLLM, so that a new hook is noticed.
"""

from __future__ import annotations

import enum
import sys
from abc import ABC, abstractmethod
from types import ModuleType
from typing import Any

HOOKS: dict[str, tuple[str, str]] = {
    "bind_connector_metadata": ("method", "connector_metadata"),
    "bind_gpu_block_pool": ("method", "gpu_block_pool"),
    "bind_kv_cache_manager": ("method", "kv_cache_manager"),
    "build_connector_meta": ("abstract", "scheduler_output"),
    "build_connector_worker_meta": ("method", ""),
    "build_kv_connector_stats": ("class", "data"),
    "build_prom_metrics": ("class", "vllm_config metric_types labelnames per_engine_labelvalues"),
    "clear_connector_metadata": ("method", ""),
    "finish_forward": ("method", ""),
    "get_block_ids_with_load_errors": ("method", ""),
    "get_external_cache_hit_sources": ("method", "request num_external_tokens"),
    "get_finished": ("method", "finished_req_ids"),
    "get_finished_count": ("method", ""),
    "get_handshake_metadata": ("method", ""),
    "get_kv_connector_kv_cache_events": ("method", ""),
    "get_kv_connector_stats": ("method", ""),
    "get_loaded_kv_cache_group_ids": ("method", "request"),
    "get_mem_pool_context": ("method", ""),
    "get_num_new_matched_tokens": ("abstract", "request num_computed_tokens"),
    "get_required_kvcache_layout": ("class", "vllm_config"),
    "get_transfer_results": ("method", "finished_req_ids"),
    "handle_preemptions": ("method", "kv_connector_metadata"),
    "has_connector_metadata": ("method", ""),
    "has_pending_block_frees": ("method", ""),
    "has_pending_push_work": ("method", ""),
    "on_new_request": ("method", "request"),
    "register_finished_partial_tail": ("method", "request block_ids partial_tail_offloads"),
    "register_kv_caches": ("method", "kv_caches"),
    "request_finished": ("method", "request block_ids"),
    "requires_kv_delivery": ("property", ""),
    "requires_piecewise_for_cudagraph": ("class", "extra_config"),
    "reset_cache": ("method", ""),
    "reset_capture_state": ("method", ""),
    "role": ("property", ""),
    "save_kv_layer": ("abstract", "layer_name kv_layer attn_metadata"),
    "set_host_xfer_buffer_ops": ("method", "copy_operation"),
    "set_xfer_handshake_metadata": ("method", "metadata"),
    "set_xfer_handshake_metadata_pp_aware": ("method", "metadata"),
    "shutdown": ("method", ""),
    "start_load_kv": ("abstract", "forward_context"),
    "supports_divergent_local_hybrid_hits": ("property", ""),
    "take_events": ("method", ""),
    "update_connector_output": ("method", "connector_output"),
    "update_state_after_alloc": ("abstract", "request blocks num_external_tokens"),
    "wait_for_layer_load": ("abstract", "layer_name"),
    "wait_for_save": ("abstract", ""),
}


class KVConnectorRole(enum.Enum):
    SCHEDULER = 0
    WORKER = 1


class KVConnectorMetadata(ABC):  # noqa: B024
    pass


class SupportsHMA(ABC):
    @abstractmethod
    def request_finished_all_groups(self, request: Any, block_ids: Any) -> Any: ...


def _default(name: str) -> Any:
    def method(self: Any, *args: Any, **named: Any) -> Any:
        raise AssertionError(f"the base class's {name} answered instead of the inner connector's")

    return method


def _base() -> type:
    def start(self: Any, vllm_config: Any, role: Any, kv_cache_config: Any) -> None:
        self._connector_metadata = None
        self._role = role

    def bind(self: Any, connector_metadata: Any) -> None:
        self._connector_metadata = connector_metadata

    members: dict[str, Any] = {"__init__": start}
    for name, (kind, _) in HOOKS.items():
        method = _default(name)
        kinds = {"class": classmethod, "property": property, "abstract": abstractmethod}
        members[name] = kinds.get(kind, lambda one: one)(method)
    members["bind_connector_metadata"] = bind
    members["clear_connector_metadata"] = lambda self: bind(self, None)
    return type(ABC)("KVConnectorBase_V1", (ABC,), members)


KVConnectorBase_V1: Any = _base()


class KVConnectorFactory:
    """Connectors by name."""

    connectors: dict[str, Any] = {}

    @classmethod
    def get_connector_class_by_name(cls, name: str) -> Any:
        if name not in cls.connectors:
            raise ValueError(f"Connector '{name}' is not registered.")
        return cls.connectors[name]


def install() -> None:
    """Puts these modules in vLLM's place."""
    root = "vllm.distributed.kv_transfer.kv_connector"
    names = root.split(".")
    paths = [".".join(names[: at + 1]) for at in range(len(names))]
    for path in (*paths, f"{root}.v1", f"{root}.v1.base", f"{root}.factory"):
        sys.modules[path] = ModuleType(path)
    base, factory = sys.modules[f"{root}.v1.base"], sys.modules[f"{root}.factory"]
    for one in (KVConnectorBase_V1, KVConnectorRole, KVConnectorMetadata, SupportsHMA):
        setattr(base, one.__name__, one)
    factory.KVConnectorFactory = KVConnectorFactory  # type: ignore[attr-defined]
