"""The hooks of vLLM's connector interface that are reported to the gate; all others pass through.

Nothing here may harm the engine: a problem of this code is logged once, and the inner connector
works as without it.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1, SupportsHMA

from ._guard import log
from ._vllm_scheduler import Deadlines, MeridianMetadata
from ._vllm_worker import Steps
from .gate import Gate

_logged: set[str] = set()


def _harmless(function: Callable[..., None]) -> Callable[..., None]:
    """Reports an exception once instead of raising it into the engine."""

    @functools.wraps(function)
    def wrapper(*args: Any) -> None:
        try:
            function(*args)
        except Exception as error:
            if function.__name__ not in _logged:
                _logged.add(function.__name__)
                # The type alone: the message might contain something of a request.
                log.warning("%s failed: %s (logged once)", function.__name__, type(error).__name__)

    return wrapper


class WorkerHooks:
    """In the process of a worker, where the bytes move."""

    inner: Any
    _steps: Steps | None
    _gate: Gate | None

    def register_kv_caches(self, kv_caches: Any) -> Any:
        self._at_worker(Steps.caches, list(kv_caches))
        return self.inner.register_kv_caches(kv_caches)

    def bind_connector_metadata(self, connector_metadata: Any) -> None:
        if isinstance(connector_metadata, MeridianMetadata):
            self._at_worker(Steps.begin, connector_metadata)
        KVConnectorBase_V1.bind_connector_metadata(self, connector_metadata)
        self.inner.bind_connector_metadata(unwrapped(connector_metadata))

    def clear_connector_metadata(self) -> None:
        self._at_worker(Steps.finish)
        KVConnectorBase_V1.clear_connector_metadata(self)
        self.inner.clear_connector_metadata()

    def handle_preemptions(self, kv_connector_metadata: Any) -> Any:
        return self.inner.handle_preemptions(unwrapped(kv_connector_metadata))

    def wait_for_layer_load(self, layer_name: str) -> None:
        self._at_worker(Steps.layer, layer_name)
        self.inner.wait_for_layer_load(layer_name)

    def save_kv_layer(self, layer_name: str, *args: Any, **named: Any) -> None:
        self._at_worker(Steps.layer, layer_name)
        self.inner.save_kv_layer(layer_name, *args, **named)

    def wait_for_save(self) -> Any:
        self._at_worker(Steps.finish)
        return self.inner.wait_for_save()

    def get_finished(self, finished_req_ids: Any) -> Any:
        found = self.inner.get_finished(finished_req_ids)
        self._at_worker(Steps.ended, {one for ids in found for one in ids or ()})
        return found

    def get_transfer_results(self, finished_req_ids: Any) -> Any:
        found = self.inner.get_transfer_results(finished_req_ids)
        self._at_worker(Steps.ended, found.finished_sending | found.finished_recving)
        return found

    def shutdown(self) -> Any:
        try:
            return self.inner.shutdown()
        finally:
            if self._gate is not None:
                counters = self._gate.counters()
                logging.getLogger("vllm.meridian_flow").info("the gate is closed: %s", counters)
                self._gate.close()

    @_harmless
    def _at_worker(self, report: Callable[..., None], *args: Any) -> None:
        if self._steps is not None:
            report(self._steps, *args)


class SchedulerHooks:
    """In the process of the scheduler, where requests arrive and end."""

    inner: Any
    _deadlines: Deadlines

    def on_new_request(self, request: Any) -> None:
        _harmless(self._deadlines.arrived)(request)
        self.inner.on_new_request(request)

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> Any:
        if num_external_tokens > 0:
            _harmless(self._deadlines.loads)(request)
        return self.inner.update_state_after_alloc(request, blocks, num_external_tokens)

    def build_connector_meta(self, scheduler_output: Any) -> MeridianMetadata:
        metadata = MeridianMetadata(self.inner.build_connector_meta(scheduler_output))
        _harmless(self._deadlines.step)(metadata, scheduler_output)
        return metadata

    def request_finished(self, request: Any, block_ids: Any) -> Any:
        return self._finished(request, self.inner.request_finished(request, block_ids))

    def request_finished_all_groups(self, request: Any, block_ids: Any) -> Any:
        if isinstance(self.inner, SupportsHMA):
            result = self.inner.request_finished_all_groups(request, block_ids)
        else:
            result = self.inner.request_finished(request, block_ids[0])
        return self._finished(request, result)

    def update_connector_output(self, connector_output: Any) -> Any:
        for request in getattr(connector_output, "finished_sending", None) or ():
            _harmless(self._deadlines.finished)(request)
        return self.inner.update_connector_output(connector_output)

    def _finished(self, request: Any, result: Any) -> Any:
        is_sent_later, _ = result
        if not is_sent_later:
            _harmless(self._deadlines.finished)(request.request_id)
        return result


def unwrapped(metadata: Any) -> Any:
    """The inner connector's metadata."""
    return metadata.inner if isinstance(metadata, MeridianMetadata) else metadata
