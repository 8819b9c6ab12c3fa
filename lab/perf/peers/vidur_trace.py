"""Runs a trace through Vidur and prints what it took, as a line of JSON.

python vidur_trace.py TRACE.csv SETTINGS.json, the trace with rows `arrived_s,prompt_tokens,reply_tokens`.

Vidur's own profiles of GPUs are data sets to be downloaded, so the time of a step comes from the
settings: the terms of Meridian's engine model. That spares Vidur its regressions and both
simulators have the same engine to simulate. Its least-outstanding scheduler, chunked prefill
(Sarathi) and everything else are its own; what it would write to disk is switched off.
"""

import json
import logging
import math
import os
import sys
import tempfile
import time

os.environ["WANDB_MODE"] = "disabled"
logging.disable(logging.CRITICAL)

from vidur._native.entities import ExecutionTime
from vidur.config import config as c
from vidur.entities import Request
from vidur.execution_time_predictor.base_execution_time_predictor import (
    BaseExecutionTimePredictor,
)
from vidur.execution_time_predictor.execution_time_predictor_registry import (
    ExecutionTimePredictorRegistry,
)
from vidur.request_generator.request_generator_registry import RequestGeneratorRegistry
from vidur.simulator import Simulator
from vidur.types import ExecutionTimePredictorType, RequestGeneratorType

trace = [line.split(",") for line in open(sys.argv[1]).read().splitlines()]
settings = json.load(open(sys.argv[2]))
terms = settings["terms"]


class Predictor(BaseExecutionTimePredictor):
    def get_execution_time(self, batch, pipeline_stage):
        tokens, sequences, context, pairs = 0, 0, 0, 0
        for request, new in zip(batch.requests, batch.num_q_tokens):
            tokens += new
            sequences += 1
            before = request.num_processed_tokens
            if request.is_prefill_complete:
                context += before
            else:
                pairs += new * (before + (new + 1) / 2)
        compute = terms["token"] * tokens + terms["head"] * sequences
        seconds = math.hypot(terms["weights"], compute)
        seconds += terms["kv"] * context + terms["pair"] * pairs
        seconds += terms["step"] + terms["sequence"] * sequences
        # One layer's one part carries all; Vidur adds up parts in ms, layer by layer.
        part = seconds * 1e3 / self._num_layers_per_pipeline_stage
        return ExecutionTime(self._num_layers_per_pipeline_stage, part, *[0.0] * 13)

    def __getattr__(self, name):
        # The estimators for single operations, which only Vidur's own predictors have.
        raise AttributeError(name)


for name in list(getattr(BaseExecutionTimePredictor, "__abstractmethods__", ())):
    setattr(Predictor, name, lambda self, *_: 0.0)
Predictor.__abstractmethods__ = frozenset()


class Generator:
    def __init__(self, config):
        pass

    def generate(self):
        row = lambda at, prompt, reply: Request(
            arrived_at=float(at), num_prefill_tokens=int(prompt), num_decode_tokens=int(reply)
        )
        return [row(*line) for line in trace]


kind = ExecutionTimePredictorType.RANDOM_FORREST
ExecutionTimePredictorRegistry.unregister(kind)
ExecutionTimePredictorRegistry.register(kind, Predictor)
kind = RequestGeneratorType.SYNTHETIC
RequestGeneratorRegistry.unregister(kind)
RequestGeneratorRegistry.register(kind, Generator)

off = ["write_metrics", "enable_chrome_trace", "store_plots", "store_request_metrics"]
off += ["store_batch_metrics", "store_utilization_metrics"]
with tempfile.TemporaryDirectory() as folder:
    config = c.SimulationConfig(
        cluster_config=c.ClusterConfig(
            num_replicas=settings["replicas"],
            replica_config=c.ReplicaConfig(model_name="meta-llama/Llama-3-8B"),
            cache_config=c.CacheConfig(num_blocks=settings["kv_blocks"]),
            global_scheduler_config=c.LORGlobalSchedulerConfig(),
            replica_scheduler_config=c.SarathiSchedulerConfig(
                batch_size_cap=settings["max_num_seqs"],
                chunk_size=settings["max_num_batched_tokens"],
            ),
        ),
        execution_time_predictor_config=c.RandomForrestExecutionTimePredictorConfig(
            use_native_execution_time_predictor=False
        ),
        metrics_config=c.MetricsConfig(output_dir=folder, **{name: False for name in off}),
    )
    simulator = Simulator(config)
    started = time.process_time()
    simulator.run()
    seconds = time.process_time() - started
    print(json.dumps({"requests": len(trace), "seconds": seconds, "simulated": simulator._time}))
    sys.stdout.flush()
    # Without its reports at exit.
    os._exit(0)
