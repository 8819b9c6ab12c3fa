#!/bin/sh
# vllm-router with one prefill and one decode replica, as its help shows, for vLLM's
# NixlConnector: the prefill leg first, then the decode leg with the parameters of its answer.
exec "$BIN" --host 127.0.0.1 --port "$PORT" --vllm-pd-disaggregation --kv-connector nixl \
    --prefill "http://$PREFILL" --decode "http://$REPLICA" \
    --policy cache_aware --prometheus-port "$METRICS_PORT" --log-level warning
