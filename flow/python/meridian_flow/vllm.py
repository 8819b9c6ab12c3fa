"""A connector for vLLM that wraps another one and orders its transfers.

It is loaded from outside vLLM: `kv_connector_module_path` is `meridian_flow.vllm`. `kv_connector`
is the inner connector's own name, such as `NixlConnector`: vLLM has rules of its own for some
names, which so stay in force. `MeridianConnector` works too, with the inner connector's name in
`kv_connector_extra_config.meridian.connector`.
"""

from __future__ import annotations

import copy
import functools
import importlib
import logging
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorRole,
    SupportsHMA,
)

from ._vllm_forward import forwarding
from ._vllm_hooks import SchedulerHooks, WorkerHooks
from ._vllm_scheduler import Deadlines
from ._vllm_worker import Steps, gate_agents
from .gate import Gate
from .nixl import GatedAgent

log = logging.getLogger("vllm.meridian_flow")
"""vLLM shows the messages of its own name's loggers."""

_OWN = ("connector", "module_path", "out", "into")
"""Settings of the wrapper; the others are the gate's."""

_Forwarding: Any = forwarding(KVConnectorBase_V1)


class _Wrapper(WorkerHooks, SchedulerHooks, _Forwarding, KVConnectorBase_V1):  # type: ignore[misc]
    """All hooks pass through to `inner`; some are reported to the gate on the way."""

    inner_class: Any = None

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any) -> None:
        KVConnectorBase_V1.__init__(self, vllm_config, role, kv_cache_config)
        settings = _settings(vllm_config.kv_transfer_config.kv_connector_extra_config)
        inner_class = self._inner(vllm_config)
        _check_hma(type(self), inner_class, vllm_config)
        self.inner = inner_class(_inner_config(vllm_config), role, kv_cache_config)
        self._deadlines = Deadlines()
        self._steps: Steps | None = None
        self._gate: Gate | None = None
        if role == KVConnectorRole.WORKER:
            self._open(settings)

    def __getattr__(self, name: str) -> Any:
        # vLLM and other connectors look at attributes beyond the interface.
        if name in ("inner", "__dict__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def _open(self, settings: dict[str, Any]) -> None:
        about = {name: value for name, value in settings.items() if name not in _OWN}
        self._gate = gate = Gate(about.pop("ports", []), **about)
        self._steps = steps = Steps(gate)
        out = tuple(settings.get("out", (0,)))
        into = tuple(settings.get("into", (min(1, max(0, len(gate.ports) - 1)),)))
        if not gate.is_open:
            return
        wrap = functools.partial(GatedAgent, gate=gate, owner=steps.owner, out=out, into=into)
        count = gate_agents(self.inner, wrap)
        log.info("%d NIXL agent(s) of %s are gated", count, type(self.inner).__name__)
        if not count:
            name = type(self.inner).__name__
            gate.guard.problem("agents", f"{name} has no NIXL agent: its transfers are not ordered")

    @classmethod
    def _inner(cls, vllm_config: Any) -> Any:
        """The inner connector's class, remembered: some class methods get no configuration."""
        config = vllm_config.kv_transfer_config
        if cls.inner_class is None:
            settings = _settings(config.kv_connector_extra_config)
            cls.inner_class = _class_of(settings)
        return cls.inner_class

    @classmethod
    def get_required_kvcache_layout(cls, vllm_config: Any) -> Any:
        return cls._inner(vllm_config).get_required_kvcache_layout(_inner_config(vllm_config))

    @classmethod
    def requires_piecewise_for_cudagraph(cls, extra_config: dict[str, Any]) -> bool:
        inner = cls.inner_class or _class_of(_settings(extra_config))
        return bool(inner.requires_piecewise_for_cudagraph(extra_config))

    @classmethod
    def build_kv_connector_stats(cls, data: Any = None) -> Any:
        inner = cls.inner_class
        return None if inner is None else inner.build_kv_connector_stats(data)

    @classmethod
    def build_prom_metrics(cls, vllm_config: Any, *args: Any, **named: Any) -> Any:
        inner = cls._inner(vllm_config)
        return inner.build_prom_metrics(_inner_config(vllm_config), *args, **named)


class MeridianConnector(_Wrapper, SupportsHMA):  # type: ignore[misc]
    """Wraps the connector that `kv_connector_extra_config.meridian.connector` names."""


def __getattr__(name: str) -> Any:
    """The wrapper of a connector that vLLM knows by this name, for `kv_connector`."""
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        inner = KVConnectorFactory.get_connector_class_by_name(name)
    except ValueError as error:
        raise AttributeError(str(error)) from None
    bases = (_Wrapper, SupportsHMA) if issubclass(inner, SupportsHMA) else (_Wrapper,)
    wrapper = type(name, bases, {"inner_class": inner, "__module__": __name__})
    globals()[name] = wrapper
    return wrapper


def _settings(extra_config: dict[str, Any]) -> dict[str, Any]:
    settings = extra_config.get("meridian", {})
    if not isinstance(settings, dict):
        raise ValueError(f"meridian is {settings!r} in kv_connector_extra_config: use an object")
    return settings


def _class_of(settings: dict[str, Any]) -> Any:
    name, module = settings.get("connector"), settings.get("module_path")
    if not name:
        raise ValueError(
            "meridian.connector is missing in kv_connector_extra_config: name the connector to "
            "wrap, such as NixlConnector, or use its name as kv_connector"
        )
    if module:
        return getattr(importlib.import_module(module), name)
    return KVConnectorFactory.get_connector_class_by_name(name)


def _inner_config(vllm_config: Any) -> Any:
    """The configuration as the inner connector would have it alone."""
    transfer = copy.copy(vllm_config.kv_transfer_config)
    extra = dict(transfer.kv_connector_extra_config)
    settings = extra.pop("meridian", {})
    transfer.kv_connector = settings.get("connector", transfer.kv_connector)
    transfer.kv_connector_module_path = settings.get("module_path")
    transfer.kv_connector_extra_config = extra
    config = copy.copy(vllm_config)
    config.kv_transfer_config = transfer
    return config


def _check_hma(wrapper: Any, inner: Any, vllm_config: Any) -> None:
    """vLLM asks the wrapper, which cannot know its inner connector at that time."""
    is_off = vllm_config.scheduler_config.disable_hybrid_kv_cache_manager
    if issubclass(wrapper, SupportsHMA) and not issubclass(inner, SupportsHMA) and not is_off:
        raise ValueError(
            f"{inner.__name__} does not support the hybrid KV cache manager: use "
            "--disable-hybrid-kv-cache-manager"
        )
