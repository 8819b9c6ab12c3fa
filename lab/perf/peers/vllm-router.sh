#!/bin/sh
# vllm-router as its README starts it: cache-aware routing with its defaults, retries, health
# checks and circuit breaker on. Logging is at warning, so that it writes no line a request.
exec "$BIN" --host 127.0.0.1 --port "$PORT" --worker-urls "http://$REPLICA" \
    --policy cache_aware --prometheus-port "$METRICS_PORT" --log-level warning
